"""The same hard texts through every format, written by other libraries: they come back identical."""

import csv
import io
import json

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

from engine.core.errors import InputError
from engine.core.files import safe_csv
from engine.data.dataset import build_dataset
from engine.data.formats.conversion import table_file
from engine.data.reading import EXTENSIONS, read_table
from engine.data.store import load_dataset, save_dataset
from engine.data.workbook import CELL_LIMIT

HARD = [
    "שלום, עולם; \u200fמימין לשמאל",
    "مرحبا\u200d بك \u202bRTL\u202c",
    "e\u0301 Å \u0915\u094d\u0937 ก็",
    "👩‍👩‍👧 🏳️‍🌈 \U0001f600",
    'say "hi"; a, b\tc',
    "two\nlines\n\nand more",
    " leading and trailing ",
    "=1+1",
    "\ufeffmark inside \u2028 \u00a0",
    "\ud7ff\ue000\U0010ffff",
    "001",
    "1e5",
    "NaN",
    "null",
    "true",
]
LONG = "ß語😀 " * 50_000


def as_csv(rows, delimiter=",", encoding="utf-8"):
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode(encoding)


def as_xlsx(rows):
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("data")
    sheet.append(list(rows[0]))
    for row in rows:
        cells = []
        for value in row.values():
            cell = openpyxl.cell.WriteOnlyCell(sheet, value=value)
            if isinstance(value, str):
                cell.data_type = "s"  # a text that starts with = is text
            cells.append(cell)
        sheet.append(cells)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def as_parquet(rows):
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out, compression="zstd")
    return out.getvalue()


WRITERS = {
    "a.csv": as_csv,
    "b.csv": lambda rows: as_csv(rows, ";", "utf-8-sig"),
    "c.csv": lambda rows: as_csv(rows, "\t", "utf-16"),
    "a.tsv": lambda rows: as_csv(rows, "\t"),
    "a.json": lambda rows: json.dumps(rows).encode(),
    "b.json": lambda rows: json.dumps({"v": 1, "rows": rows}, ensure_ascii=False, indent=2).encode("utf-16"),
    "a.jsonl": lambda rows: "\n".join(json.dumps(r, ensure_ascii=False) for r in rows).encode(),
    "a.parquet": as_parquet,
    "a.xlsx": as_xlsx,
}


@pytest.mark.parametrize("name", WRITERS)
def test_hard_texts_come_back_identical_and_survive_the_disk(name, tmp_path):
    rows = [{"id": f"r{i}", "response": text} for i, text in enumerate(HARD)]
    raw = read_table(name, WRITERS[name](rows))
    assert raw.problems == []
    assert not raw.is_guess
    assert raw.frame["response"].tolist() == HARD
    dataset = build_dataset(raw, {"response": "response", "response_id": "id"}, task="dialogue", name=name)
    save_dataset(dataset, tmp_path)
    assert load_dataset(dataset.dataset_id, tmp_path).responses["text"].tolist() == HARD


@pytest.mark.parametrize("name", [n for n in WRITERS if n != "a.xlsx"])
def test_a_cell_of_200_000_characters(name):
    raw = read_table(name, WRITERS[name]([{"response": LONG}, {"response": "short"}]))
    assert raw.frame["response"].tolist() == [LONG, "short"]
    assert raw.problems == []


def test_the_longest_cell_of_a_workbook_comes_with_a_warning():
    """openpyxl cuts longer texts as spreadsheet programs do; that must not pass without a word."""
    raw = read_table("a.xlsx", as_xlsx([{"response": "x" * (CELL_LIMIT - 1)}, {"response": "y" * 50_000}]))
    assert raw.frame["response"].str.len().tolist() == [CELL_LIMIT - 1, CELL_LIMIT]
    [problem] = raw.problems
    assert (problem.severity, problem.row, problem.column) == ("warning", 2, "response")
    assert "its end may be missing" in problem.what


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.xlsx"])
def test_ids_of_mixed_type_keep_their_spelling(name):
    ids = [1, "1", "01", 2.5, "2.50", True, "True", 9007199254740993 if name != "a.xlsx" else 7]
    raw = read_table(name, WRITERS[name]([{"id": i, "response": "x"} for i in ids]))
    assert raw.frame["id"].tolist() == ["1", "1", "01", "2.5", "2.50", "true", "True", str(ids[-1])]


def test_mixed_ids_of_one_spelling_are_an_error_that_names_both_rows():
    raw = read_table("a.json", b'[{"id": 1, "response": "a"}, {"id": "1", "response": "b"}]')
    dataset = build_dataset(raw, {"response": "response", "response_id": "id"}, task="dialogue", name="x")
    assert "Row 1 (response id '1'" in dataset.errors[0].what


TEXTS = st.lists(
    st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=15),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("name", [n for n in WRITERS if n != "a.xlsx"])
@settings(max_examples=25)
@given(texts=TEXTS)
def test_any_text_comes_back(name, texts):
    raw = read_table(name, WRITERS[name]([{"id": str(i), "response": t} for i, t in enumerate(texts)]))
    assert raw.frame["response"].tolist() == texts


@settings(max_examples=25)
@given(texts=TEXTS)
def test_any_text_that_xml_can_hold_comes_back_from_a_workbook(texts):
    held = [t for t in texts if not ILLEGAL_CHARACTERS_RE.search(t) and not {"\r", "\ufffe", "\uffff", "_"} & set(t)]
    raw = read_table("a.xlsx", as_xlsx([{"id": str(i), "response": t} for i, t in enumerate([*held, "end"])]))
    assert raw.frame["response"].tolist() == [*held, "end"]


# Files that we write: by `judgescope convert` in every kind of table, by the pages as CSV for a spreadsheet.

AWKWARD = [
    *HARD, "- bullet one\n- bullet two", "@user hi", "=1+1", "'=1", "''-", "'tis", " \t+1", "_x0041_x0042_",
    "\x0b\x1b", "a\rb", "\r", "\ufffe", "#N/A", "'",
]  # fmt: skip
ANY = st.lists(
    st.one_of(
        st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=15),
        st.text(st.sampled_from("'=-+@\t\r\n\" ,;_x0041\x01"), min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=6,
)


OURS = {**{ending: lambda table, e=ending: table_file(table, e) for ending in EXTENSIONS}, "page.csv": safe_csv}


def read_back(kind, texts):
    table = pd.DataFrame({"id": [f"r{i}" for i in range(len(texts))], "=response": texts})
    return read_table(f"a{kind}", OURS[kind](table))


@pytest.mark.parametrize("kind", OURS)
def test_awkward_texts_come_back_from_every_kind_of_file_that_we_write(kind):
    raw = read_back(kind, AWKWARD)
    assert list(raw.frame.columns) == ["id", "=response"]
    assert raw.frame["=response"].tolist() == AWKWARD
    assert raw.problems == []
    assert ("apostrophe" in raw.how_read()) == (kind == "page.csv")


@pytest.mark.parametrize("kind", OURS)
@settings(max_examples=40, deadline=None)
@given(texts=ANY)
def test_any_text_comes_back_from_every_kind_of_file_that_we_write(kind, texts):
    assert read_back(kind, texts).frame["=response"].tolist() == texts


@pytest.mark.parametrize("kind", [".csv", ".tsv", "page.csv"])
def test_a_spreadsheet_sees_the_encoding_of_a_text_file_that_we_write(kind):
    assert OURS[kind](pd.DataFrame({"response": ["שלום"]})).startswith("\ufeff".encode())


def test_an_apostrophe_of_somebody_else_stays():
    row = {"id": "1", "response": "'=1"}
    bare = {**row, "id": "=1"}
    for rows, *how in (([row], ",", "utf-8"), ([row], ";", "utf-8-sig"), ([row, bare], ",", "utf-8-sig")):
        raw = read_table("a.csv", as_csv(rows, *how))
        assert set(raw.frame["response"]) == {"'=1"}


def test_a_text_that_no_workbook_can_hold_is_refused_by_its_place():
    with pytest.raises(InputError, match=r"row 2 .*'response'.*\.csv"):
        table_file(pd.DataFrame({"response": ["a", "b" * 40_000]}), ".xlsx")
