"""`judgescope score` on files of every kind: encodings, delimiters, sheets."""

import io

import openpyxl
import pytest

from engine.cli.main import main

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
