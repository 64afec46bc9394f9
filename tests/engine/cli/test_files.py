"""Files of every kind on the command line: encodings, delimiters, sheets, and the kind that is written."""

import io
import json

import openpyxl
import pytest

from engine.cli.main import main
from engine.data.comparisons import read_comparisons
from engine.data.reading import read_table
from engine.data.store import list_datasets

PLANTED = "planted:injection"


def score(capsys, path, *args):
    code = main(["score", str(path), "--judge", PLANTED, *args])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_a_guess_is_refused_with_the_candidates_until_it_is_said(capsys, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes("response,context\nIt’s résumés,Hi\n".encode("cp1252"))
    code, _, err = score(capsys, path)
    assert code == 2
    for part in ("byte 0x92", "cp1252 (Windows-1252)", "It’s résumés", "latin-1", r"It\x92s", "--encoding NAME"):
        assert part in err
    code, out, err = score(capsys, path, "--encoding", "windows-1252")
    assert (code, "mine.csv" in out) == (0, True)
    assert "Read as Windows-1252, a comma between the cells: 1 row, 2 columns." in err


def test_delimiter_and_sheet(capsys, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("response;x,y\na;1,2\n")
    code, _, err = score(capsys, path, "--delimiter", "semicolon")
    assert (code, "a semicolon between the cells" in err) == (0, True)
    book = openpyxl.Workbook()
    book.active.append(["nothing"])
    sheet = book.create_sheet("answers")
    for row in (["response"], ["one"], ["two"]):
        sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    path = tmp_path / "mine.xlsx"
    path.write_bytes(out.getvalue())
    assert score(capsys, path)[0] == 2
    code, _, err = score(capsys, path, "--sheet", "answers")
    assert (code, "the sheet “answers” (2 of 2)" in err) == (0, True)


@pytest.mark.parametrize(("option", "value"), [("--encoding", "cp1251"), ("--delimiter", "pipe"), ("--sheet", "x")])
def test_unknown_choices_are_input_errors(capsys, tmp_path, option, value):
    path = tmp_path / ("mine.json" if option == "--sheet" else "mine.csv")
    path.write_text('[{"response": "a"}]' if option == "--sheet" else "response\na\n")
    code, _, err = score(capsys, path, option, value)
    assert (code, value in err) == (2, True)


PAIRS = [
    ["item_id", "prompt", "response_a", "response_b", "human", "system_a", "system_b"],
    ["q1", "Déjà vu?", "café “x”", "naïve – y", "a", "ant", "bee"],
    ["q2", "Où?", "là", "- ici, voilà", "tie", "ant", "bee"],
]


def pairs_files(folder):
    """The same pairs in files that need an option to be read, with the options."""
    text = "\n".join(";".join(row) for row in PAIRS) + "\n"
    (folder / "p1252.csv").write_bytes(text.encode("cp1252"))
    book = openpyxl.Workbook()
    book.active.append(["nothing"])
    book.active.append(["here"])
    sheet = book.create_sheet("pairs")
    for row in PAIRS:
        sheet.append(row)
    book.save(folder / "p.xlsx")
    rows = [dict(zip(PAIRS[0], row, strict=True)) for row in PAIRS[1:]]
    (folder / "p.json").write_text(json.dumps({"about": [{"x": 1}], "pairs": rows}))
    return [
        ("p1252.csv", ["--encoding", "cp1252", "--delimiter", "semicolon"]),
        ("p.xlsx", ["--sheet", "pairs"]),
        ("p.json", ["--sheet", "pairs"]),
    ]


def test_pairs_are_read_as_the_options_say(capsys, tmp_path):
    texts = sorted(row[2] for row in PAIRS[1:])
    for number, (name, options) in enumerate(pairs_files(tmp_path)):
        out = tmp_path / f"o{number}.csv"
        assert main(["convert", str(tmp_path / name), *options, "--to", "pairs", "--out", str(out)]) == 0, name
        found = read_table(out.name, out.read_bytes()).frame
        assert sorted(found["response_a"]) == texts
        study = ["study", "puaudit", "--judge", PLANTED, "--dry-run", "--data", str(tmp_path / name), *options]
        assert main(study) == 0, name
        checkup = ["study", "checkup", "--judge", "planted:injection", "--dry-run", "--data", str(tmp_path / name)]
        assert main([*checkup, *options]) == 0, name
        assert main(checkup) == 2, name
        capsys.readouterr()


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".xlsx", ".json", ".jsonl", ".parquet"])
def test_convert_writes_the_kind_of_file_that_its_name_says(capsys, tmp_path, ending):
    source = tmp_path / "pairs.tsv"
    source.write_text("\n".join("\t".join(row) for row in PAIRS) + "\n", encoding="utf-8")
    out = tmp_path / f"x{ending}"
    assert main(["convert", str(source), "--to", "pairs", "--out", str(out)]) == 0
    starts = {".csv": b"\xef\xbb\xbf", ".tsv": b"\xef\xbb\xbf", ".xlsx": b"PK", ".parquet": b"PAR1", ".json": b"["}
    assert out.read_bytes().startswith(starts.get(ending, b"{"))
    before, after = (read_comparisons(path.name, path.read_bytes()) for path in (source, out))
    assert after.responses["text"].tolist() == before.responses["text"].tolist()
    assert after.comparisons["human"].tolist() == before.comparisons["human"].tolist()
    capsys.readouterr()
    # a format of another tool has one kind of file
    assert main(["convert", str(source), "--to", "llm-comparator", "--out", str(tmp_path / f"y{ending}")]) == (
        0 if ending == ".json" else 2
    )
    assert (tmp_path / f"y{ending}").exists() == (ending == ".json")


@pytest.mark.parametrize("name", ["x", "x.txt", "x.xls"])
def test_convert_refuses_a_name_that_says_no_kind(capsys, tmp_path, name):
    source = tmp_path / "pairs.tsv"
    source.write_text("\n".join("\t".join(row) for row in PAIRS) + "\n", encoding="utf-8")
    assert main(["convert", str(source), "--to", "pairs", "--out", str(tmp_path / name)]) == 2
    assert ".csv" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_recorded_verdicts_are_read_as_the_options_say(capsys, tmp_path):
    rows = "item_id;response_id;score;système\n" + "".join(f"é{i};r;{i % 5 + 1};né\n" for i in range(8))
    file = tmp_path / "verdicts.csv"
    file.write_bytes(rows.encode("cp1252"))
    assert main(["recorded", str(file), "--encoding", "cp1252", "--delimiter", "semicolon"]) == 0
    said = capsys.readouterr().out
    spec = f"recorded:{file}?read.encoding=cp1252&read.delimiter=semicolon"
    assert main(["recorded", spec]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if " mean " in line] == [
        line for line in said.splitlines() if " mean " in line
    ]
    assert main(["recorded", f"recorded:{file}?read.charset=cp1252"]) == 2
    assert "encoding, delimiter, sheet" in capsys.readouterr().err


SUPPORT = "ticket_id,customer_message,agent_reply\n" + "".join(
    f'T{i // 2},"Where is my parcel {i // 2}, please?",It is on its way since day {i}\n' for i in range(4)
)


def test_guessed_columns_are_used_with_yes_and_never_in_a_pipe_without(capsys, tmp_path, settings):
    path = tmp_path / "support.csv"
    path.write_text(SUPPORT)
    code, _, err = score(capsys, path)
    assert code == 2
    assert "'agent_reply'" in err
    assert "--yes" in err
    code, out, err = score(capsys, path, "--yes", "--json")
    assert code == 0
    assert "context = customer_message" in err
    source = list_datasets(settings.datasets)[0]["source"]
    assert source["mapping"] == {
        "response": "agent_reply", "context": "customer_message", "item_id": "ticket_id"
    }  # fmt: skip
    assert json.loads(out.strip().splitlines()[-1])


@pytest.mark.parametrize(("answer", "code"), [("\n", 0), ("y\n", 0), ("n\n", 2)])
def test_on_a_terminal_the_guess_is_asked_about(capsys, tmp_path, monkeypatch, answer, code):
    path = tmp_path / "support.csv"
    path.write_text(SUPPORT)
    typed = io.StringIO(answer)
    typed.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", typed)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert score(capsys, path)[0] == code


def test_the_task_is_told_from_the_columns_and_can_be_said(capsys, tmp_path, settings):
    path = tmp_path / "v.csv"
    path.write_text("question,response,reference,correct\nWhat is 2+2?,4,4,1\nWhat is 2+3?,6,5,0\n")
    _, _, err = score(capsys, path)
    assert "Read as verification" in err
    code, _, err = score(capsys, path, "--task", "question")
    assert (code, "Read as verification" in err) == (0, False)
    assert "question" in {str(m.get("task")) for m in list_datasets(settings.datasets)}
