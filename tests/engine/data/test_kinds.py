"""What is particular to workbooks, JSON documents and parquet files."""

import datetime as dt
import decimal
import io
import json
import random
import zipfile

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.core.errors import InputError
from engine.data.raw import MAX_CELL
from engine.data.reading import read_table


def workbook(*sheets, hidden=()):
    """Sheets as (name, rows) -> bytes."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        sheet.sheet_state = "hidden" if name in hidden else "visible"
        for row in rows:
            sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def edited(content, name, change):
    """The archive with one member changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            data = old.read(member)
            new.writestr(member.filename, change(data) if member.filename == name else data)
    return out.getvalue()


ROWS = [["id", "response"], [1, "a"], [2, "b"]]
SHEET, STYLES, BOOK = "xl/worksheets/sheet1.xml", "xl/styles.xml", "xl/workbook.xml"


def bomb(part, before, unit, n):
    """A workbook with `n` times `unit` before the first `before` of one part."""
    return edited(workbook(("s", ROWS)), part, lambda xml: xml.replace(before, unit * n + before, 1))


def as_parquet(table):
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def values(raw):
    return {c: [v if isinstance(v, str) else None for v in raw.frame[c]] for c in raw.frame.columns}


def test_the_first_visible_sheet_or_the_one_asked_for():
    content = workbook(("notes", [["x"], ["y"]]), ("answers", ROWS), ("empty", []), hidden=["notes"])
    raw = read_table("a.xlsx", content)
    assert (raw.part, raw.parts, raw.format, raw.encoding) == ("answers", ["notes", "answers", "empty"], "xlsx", "")
    assert values(raw) == {"id": ["1", "2"], "response": ["a", "b"]}
    assert raw.lines == [2, 3]
    assert raw.how_read() == "Read from the sheet “answers” (2 of 3) of a workbook: 2 rows, 2 columns."
    assert values(read_table("a.xlsx", content, sheet="notes")) == {"x": ["y"]}
    with pytest.raises(InputError, match=r"no sheet 'other'. Its sheets: notes, answers, empty"):
        read_table("a.xlsx", content, sheet="other")
    with pytest.raises(InputError, match=r"'empty' of 'a.xlsx' is empty. Choose another sheet \(notes, answers"):
        read_table("a.xlsx", content, sheet="empty")


def test_cells_of_every_type_and_tables_that_start_elsewhere():
    day = dt.datetime(2026, 2, 3)
    rows = [
        [],
        [None, "n", "t", "when", "ok"],
        [None, 1, 2.0, day, True],
        [],
        [None, 2.5, "x_x000D_\ny", day.replace(hour=4), False],
        [None, None, None, None, "#REF!"],
    ]
    raw = read_table("a.xlsx", workbook(("s", rows)))
    assert values(raw) == {
        "n": ["1", "2.5", None],
        "t": ["2", "x\r\ny", None],
        "when": ["2026-02-03", "2026-02-03 04:00:00", None],
        "ok": ["true", "false", None],
    }
    assert raw.lines == [3, 5, 6]
    assert [(p.where, p.severity) for p in raw.problems] == [("row 3 (line 6), column ok", "warning")]
    assert "the error #REF!; it counts as missing" in raw.problems[0].what


def test_formulas_count_with_their_kept_value_and_are_never_worked_out():
    content = workbook(("s", [["id", "response"], ["r1", "=1+1"], ["r2", "=2+2"], ["r3", '=""'], ["=1+1", "=2"]]))
    sheet = "xl/worksheets/sheet1.xml"

    def keep(xml):
        assert b'<c r="B2"><f>1+1</f><v />' in xml or b'<c r="B2"><f>1+1</f><v></v>' in xml
        for cell, kept in ((b"B2", b"<v>41</v>"), (b"B4", b"<v></v>")):
            start = xml.index(b'<c r="' + cell)
            end = xml.index(b"</c>", start)
            body = xml[start:end].replace(b"<v />", kept).replace(b"<v></v>", kept)
            xml = xml[:start] + (body.replace(b'r="B4"', b'r="B4" t="str"')) + xml[end:]
        return xml

    raw = read_table("a.xlsx", edited(content, sheet, keep))
    assert values(raw) == {"id": ["r1", "r2", "r3"], "response": ["41", None, None]}
    assert [(p.where, p.row) for p in raw.problems] == [
        ("row 2 (line 3), column response", 2),
        ("line 5 of the sheet", None),
    ]
    assert all("without a kept value" in p.what for p in raw.problems)


def test_cells_outside_the_header_exclude_their_row():
    raw = read_table("a.xlsx", workbook(("s", [["a", "b"], [1, 2, 3], [1, 2]])))
    [problem] = raw.problems
    assert (problem.severity, problem.row) == ("excluded", 1)
    index = read_table("a.xlsx", workbook(("s", [["Export of May"], [], [None, "a", "b"], [0, "x", 2], [1, "y", 3]])))
    assert values(index) == {"index": ["0", "1"], "a": ["x", "y"], "b": ["2", "3"]}
    assert [p.severity for p in index.problems] == ["warning", "warning"]
    with pytest.raises(InputError, match="column 2 of 3 has no name"):
        read_table("a.xlsx", workbook(("s", [["a", None, "b"], [1, 2, 3]])))
    with pytest.raises(InputError, match="no records"):
        read_table("a.xlsx", workbook(("s", [["a", "b"]])))


def test_a_wrong_size_in_the_file_cuts_nothing():
    content = edited(
        workbook(("s", ROWS)), "xl/worksheets/sheet1.xml", lambda xml: xml.replace(b'ref="A1:B3"', b'ref="A1:A1"')
    )
    assert len(read_table("a.xlsx", content).frame) == 2


def test_a_small_file_that_unpacks_to_much_is_refused_unread(monkeypatch):
    monkeypatch.setattr("engine.data.raw.MAX_UNPACKED", 1_000_000)
    bomb = edited(workbook(("s", ROWS)), "xl/worksheets/sheet1.xml", lambda xml: xml + b" " * 2_000_000)
    assert len(bomb) < 20_000
    with pytest.raises(InputError, match="unpacks to more than 1 MB"):
        read_table("a.xlsx", bomb)
    out = io.BytesIO()
    pq.write_table(pa.table({"response": ["x" * 10_000] * 5_000}), out, compression="zstd")
    assert len(out.getvalue()) < 100_000
    with pytest.raises(InputError, match="unpacks to more than 1 MB"):
        read_table("a.parquet", out.getvalue())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"\xd0\xcf\x11\xe0rest", "protected with a password, or an old xls", id="encrypted"),
        pytest.param(b"id,response\n1,a\n", "cannot be read as an xlsx workbook", id="csv"),
        pytest.param(
            edited(
                workbook(("s", ROWS)),
                "xl/worksheets/sheet1.xml",
                lambda x: b'<!DOCTYPE a [<!ENTITY b "c">]>' + x,
            ),
            "XML entities",
            id="entities",
        ),
        pytest.param(
            edited(workbook(("s", ROWS)), "xl/worksheets/sheet1.xml", lambda x: x.replace(b'r="3"', b'r="99999999"')),
            "cannot be read|beyond 1,048,576",
            id="row far down",
        ),
    ],
)
def test_refused_workbooks(content, message):
    with pytest.raises(InputError, match=message):
        read_table("a.xlsx", content)


@pytest.mark.parametrize("ending", ["xlsx", "parquet"])
def test_damaged_bytes_give_a_table_or_an_input_error(ending):
    content = workbook(("s", ROWS))
    if ending == "parquet":
        out = io.BytesIO()
        pq.write_table(pa.table({"id": [1, 2], "response": ["a", "b"]}), out)
        content = out.getvalue()
    rng = random.Random(0)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            read_table(f"a.{ending}", bytes(damaged[: rng.choice([len(damaged), len(damaged) - 30])]))
        except InputError as error:
            assert "a." + ending in str(error)  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize(
    ("text", "part", "parts", "expected"),
    [
        pytest.param(
            '[{"a": 1.50}, {"a": "x", "b": null}]', "", [], {"a": ["1.50", "x"], "b": [None, None]}, id="list"
        ),
        pytest.param(
            '{"v": 2, "rows": [{"a": {"k": [1, "é"]}}]}', "rows", ["rows"], {"a": ['{"k": [1, "é"]}']}, id="key"
        ),
        pytest.param('{"x": [1], "p": [{"a": 1}], "q": [{"b": 2}]}', "p", ["p", "q"], {"a": ["1"]}, id="two keys"),
    ],
)
def test_json_documents(text, part, parts, expected):
    raw = read_table("a.json", text.encode())
    assert (raw.part, raw.parts, raw.format) == (part, parts, "json")
    assert values(raw) == expected


def test_a_key_of_a_json_document_can_be_asked_for():
    content = b'{"p": [{"a": 1}],\n "q": [{"b": 2},\n {"b": 3}]}'
    raw = read_table("a.json", content, sheet="q")
    assert values(raw) == {"b": ["2", "3"]}
    assert raw.lines == [2, 3]
    assert "the list “q” (2 of 2) of a JSON object" in raw.how_read()
    with pytest.raises(InputError, match=r"under the key 'r'. Its lists of objects: p, q"):
        read_table("a.json", content, sheet="r")


def test_json_lines_under_the_other_name_are_read_as_lines():
    raw = read_table("a.json", b'{"a": 1}\n{"a": 2}\n')
    assert (raw.format, values(raw)) == ("jsonl", {"a": ["1", "2"]})


def test_faulty_elements_lose_only_their_own_row():
    text = (
        '[\n{"a": "x"},\n7,\n{"a": 1, "a": 2},\n{"a": "\\u0000"},\n{"a": "' + "y" * (MAX_CELL + 1) + '"},\n{"a": "z"}]'
    )
    raw = read_table("a.json", text.encode())
    assert raw.lines == [2, 3, 4, 5, 6, 7]
    assert [p.row for p in raw.problems] == [2, 3, 4, 5]
    assert values(raw)["a"][0::5] == ["x", "z"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('[{"a": 1},\n {"a": }]', "not valid JSON: Expecting value at line 2, character 8", id="syntax"),
        pytest.param('[{"a": 1}', "line 1, character 10", id="open"),
        pytest.param('[{"a": 1}] x', "Extra data at line 1, character 12", id="more"),
        pytest.param('{"a": {"0": 1}, "b": [1, 2]}', r"one JSON object \(a, b\), and no value", id="columns"),
        pytest.param('{"rows": [{"a": 1}], "rows": []}', "key 'rows' stands twice", id="twice"),
        pytest.param("[]", "no element that can be read", id="empty"),
        pytest.param("[1, 2]", "no element that can be read", id="numbers"),
        pytest.param('"text"', "neither a JSON list nor an object", id="text"),
        pytest.param("[" * 100_000, "beyond bounds|not valid", id="deep"),
        pytest.param('[{"a": ' + "9" * 5000 + "}]", "beyond bounds", id="long number"),
    ],
)
def test_refused_json(text, message):
    with pytest.raises(InputError, match=message):
        read_table("a.json", text.encode())


def test_parquet_types():
    table = pa.table(
        {
            "id": pa.array([1, 2**60, None], pa.int64()),
            "narrow": pa.array([0.1, 4.0, float("nan")], pa.float32()),
            "wide": pa.array([0.1, 4.0, None], pa.float64()),
            "ok": [True, False, None],
            "list": [["a", "ß"], [], None],
            "struct": [{"k": 1}, {"k": None}, None],
            "day": pa.array([dt.date(2026, 1, 2), None, None]),
            "price": pa.array([decimal.Decimal("1.50"), None, None]),
            "kind": pa.array(["x", "y", None]).dictionary_encode(),
            "raw": pa.array([b"caf\xc3\xa9", b"x", None], pa.binary()),
            "none": pa.nulls(3),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    raw = read_table("a.parquet", out.getvalue())
    assert values(raw) == {
        "id": ["1", str(2**60), None],
        "narrow": ["0.1", "4.0", None],
        "wide": ["0.1", "4.0", None],
        "ok": ["true", "false", None],
        "list": ['["a", "ß"]', "[]", None],
        "struct": ['{"k": 1}', '{"k": null}', None],
        "day": ["2026-01-02", None, None],
        "price": ["1.50", None, None],
        "kind": ["x", "y", None],
        "raw": ["café", "x", None],
        "none": [None, None, None],
    }
    assert (raw.lines, raw.how_read()) == ([1, 2, 3], "Read as a parquet file: 3 rows, 11 columns.")


def test_parquet_cells_that_are_no_text_exclude_their_row():
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [b"\xff", b"x"], "b": ["x\x00", "y"]}), out)
    raw = read_table("a.parquet", out.getvalue())
    assert [(p.row, p.column, p.severity) for p in raw.problems] == [(1, "a", "excluded"), (1, "b", "excluded")]


@pytest.mark.parametrize("table", [{"a": pa.array([], pa.string())}, {" ": pa.array(["x"])}])
def test_refused_parquet(table):
    out = io.BytesIO()
    pq.write_table(pa.table(table), out)
    with pytest.raises(InputError, match=r"no records|no name"):
        read_table("a.parquet", out.getvalue())


def test_counts_are_checked_in_every_format(monkeypatch):
    monkeypatch.setattr("engine.data.raw.MAX_ROWS", 1)
    out = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), out)
    rows = json.dumps([{"a": 1}, {"a": 2}]).encode()
    for name, content in (("a.xlsx", workbook(("s", ROWS))), ("a.parquet", out.getvalue()), ("a.json", rows)):
        with pytest.raises(InputError, match="more than 1 records"):
            read_table(name, content)


ONE_SHEET = (
    b'<sheet xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" name="x" sheetId="9" '
    b'r:id="rId1"/>'
)
BOMBS = {
    "cell formats": lambda: bomb(STYLES, b"</cellXfs>", b"<xf/>", 8_000_000),
    "names": lambda: bomb(BOOK, b"</workbook>", b"<definedName name='a'>1</definedName>", 2_000_000),
    "sheets": lambda: bomb(BOOK, b"</sheets>", ONE_SHEET, 20_000),
    "number formats": lambda: bomb(STYLES, b"<fonts", b'<numFmt numFmtId="164" formatCode="0"/>', 3_000_000),
    "cells in a row": lambda: bomb(SHEET, b"</row>", b"<c/>", 2_000_000),
    "one cell over and over": lambda: bomb(SHEET, b"</row>", b"<c r='A1'/>", 2_000_000),
    "empty rows": lambda: bomb(SHEET, b"</sheetData>", b"<row/>", 30_000_000),
    "rows to the last column": lambda: bomb(SHEET, b"</sheetData>", b"<row><c r='XFD1'/></row>", 100_000),
    "widths": lambda: bomb(SHEET, b"<sheetData", b"<col min='1' max='1'/>", 4_000_000),
    "nesting": lambda: bomb(SHEET, b"</sheetData>", b"<a>", 1_000_000),
    "one tag": lambda: bomb(SHEET, b"></sheetData>", b" ", 100_000_000),
    "the same sheet again": lambda: bomb(BOOK, b"</sheets>", ONE_SHEET, 2),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_workbook_that_becomes_huge_is_refused_before_it_is_read(name, monkeypatch):
    content = BOMBS[name]()
    assert len(content) < 400_000
    monkeypatch.setattr(openpyxl, "load_workbook", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(InputError, match=r"too many|the same cells"):
        read_table("a.xlsx", content)


LONG_TEXTS = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000), pa.array(["x" * 900_000]))
PARQUET_BOMBS = {
    "one text over and over": lambda: pa.table({"response": LONG_TEXTS}),
    "in lists": lambda: pa.table({"response": pa.ListArray.from_arrays([0, 1_000, 2_000], LONG_TEXTS)}),
    "in structs": lambda: pa.table({"response": pa.StructArray.from_arrays([LONG_TEXTS], ["a"])}),
    "fixed width": lambda: pa.table({"response": pa.array([b"x" * 500_000] * 900, pa.binary(500_000))}),
    "numbers": lambda: pa.table({"response": pa.array([[0.0] * 1_000_000] * 20)}),
    "numbers in one cell": lambda: pa.table({"response": pa.array([[0.0] * 1_000_000])}),
}


@pytest.mark.parametrize("name", PARQUET_BOMBS)
def test_a_small_parquet_file_that_becomes_huge_is_refused_before_it_is_written_out(name):
    content = as_parquet(PARQUET_BOMBS[name]())
    assert len(content) < 50_000
    with pytest.raises(InputError, match="more than"):
        read_table("a.parquet", content)


def test_few_short_records_under_many_columns_are_bounded():
    wide = json.dumps({f"c{i}": 1 for i in range(1_000)})
    with pytest.raises(InputError, match="cells"):
        read_table("a.jsonl", (wide + "\n" + "{}\n" * 20_000).encode())
    header = ",".join(f"c{i}" for i in range(1_000))
    with pytest.raises(InputError, match="cells"):
        read_table("a.csv", (header + "\n" + "x\n" * 20_000).encode())


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([2_000_000_000, 1], pa.int32()).cast(pa.date32()), id="days"),
        pytest.param(pa.array([2**62, 1], pa.timestamp("ms")), id="milliseconds"),
        pytest.param(pa.array([[2**62], [1]], pa.list_(pa.timestamp("ms"))), id="in a list"),
    ],
)
def test_a_date_that_no_calendar_reaches_leaves_out_its_row_only(column):
    raw = read_table("a.parquet", as_parquet(pa.table({"response": ["a", "b"], "when": column})))
    assert [(p.severity, p.row, p.column) for p in raw.problems] == [("excluded", 1, "when")]
    assert raw.frame["response"].tolist() == ["a", "b"]
    assert "1970-01-0" in raw.frame["when"][1]
