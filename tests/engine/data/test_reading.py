"""Files of every accepted and refused kind, and the round trip of arbitrary text."""

import csv
import io
import json
import re
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.data.raw import MAX_CELL, MAX_COLUMNS
from engine.data.reading import EXTENSIONS, read_table


def cells(raw):
    return {name: raw.frame[name].tolist() for name in raw.frame.columns}


@pytest.mark.parametrize(
    ("filename", "content", "delimiter", "encoding"),
    [
        pytest.param("a.csv", b"id,text\n1,hello\n2,you\n", ",", "utf-8", id="comma"),
        pytest.param(
            "a.csv", b"\xef\xbb\xbfid;text\r\n1;hello\r\n2;you\r\n", ";", "utf-8-sig", id="bom semicolon crlf"
        ),
        pytest.param("A.TSV", b"id\ttext\n1\thello\n2\tyou", "\t", "utf-8", id="tab, no last line break"),
        pytest.param("a.csv", b'"id","text"\n"1","hello"\n\n"2","you"\n\n', ",", "utf-8", id="quoted, blank lines"),
        pytest.param("a.csv", b"id,text\r1,hello\r2,you\r", ",", "utf-8", id="old mac line breaks"),
    ],
)
def test_same_table_however_it_is_written(filename, content, delimiter, encoding):
    raw = read_table(filename, content)
    assert cells(raw) == {"id": ["1", "2"], "text": ["hello", "you"]}
    assert (raw.format, raw.delimiter, raw.encoding, raw.problems) == ("csv", delimiter, encoding, [])


def test_delimiter_is_found_past_quoted_ones_and_can_be_given():
    content = b'id;text\n1;"a, b, c; d"\n2;"e, f"\n3;g, h\n'
    assert read_table("a.csv", content).frame["text"].tolist() == ["a, b, c; d", "e, f", "g, h"]
    assert list(read_table("a.csv", content, delimiter="\t").frame.columns) == ["id;text"]
    assert read_table("a.csv", b"response\nyes\nno\n").delimiter == ","


def test_lines_are_where_records_start():
    raw = read_table("a.csv", b'id,text\n1,"one\r\ntwo\n\nfour"\n\n2,x\n')
    assert raw.frame["text"].tolist() == ["one\r\ntwo\n\nfour", "x"]
    assert raw.lines == [2, 7]


def test_an_index_without_a_name_gets_one_and_a_title_above_the_header_is_left_out():
    raw = read_table("a.csv", b",text\n0,a\n")
    assert list(raw.frame.columns) == ["index", "text"]
    assert [p.severity for p in raw.problems] == ["warning"]
    raw = read_table("a.csv", b"Export of May\n\nid;text\n1;a\n")
    assert (list(raw.frame.columns), raw.lines, len(raw.problems)) == (["id", "text"], [4], 1)
    assert list(read_table("a.csv", b"response\n\na, b\n").frame.columns) == ["response"]


@pytest.mark.parametrize(
    ("filename", "content", "message"),
    [
        pytest.param("a.csv", b"", "'a.csv' is empty", id="no bytes"),
        pytest.param("a.csv", b"\xef\xbb\xbf \r\n\n", "is empty", id="bom and blanks"),
        pytest.param("a.jsonl", b"\n\n", "is empty", id="jsonl blanks"),
        pytest.param("a.csv", b"id,response\n", r"has a header \(id, response\) and no records", id="header only"),
        pytest.param("a.csv", b"\xef\xbb\xbfid,text\n1,\xe9\n", r"at offset 13 \(line 2\)", id="bom, then latin-1"),
        pytest.param("a.csv", b"id,text\n1,a\x00b\n", "NUL byte on line 2", id="nul"),
        pytest.param("a.csv", b"id,text,id\n1,a,2\n", "'id' stands twice .* columns 1 and 3", id="same name"),
        pytest.param("a.csv", b"id,,text\n0,1,a\n", "column 2 of 3 has no name.*index=False", id="no name"),
        pytest.param("a.csv", b'id,text\n1,a\n2,"b\n3,c\n', "starts on line 3 is never closed", id="open quote"),
        pytest.param("a.csv", b'id,text\n1,"b"c\n2,d\n', "line 2 is followed by other text", id="stray quote"),
        pytest.param("a.xls", b"\xd0\xcf", r"does not end in \.csv or \.tsv or .*old xls file as xlsx", id="old xls"),
        pytest.param("a.csv", b"PK\x03\x04rest", "is a zip archive such as xlsx", id="xlsx called csv"),
        pytest.param("a.jsonl", b"PAR1rest", "is a parquet file", id="parquet called jsonl"),
        pytest.param("responses", b"id,text\n1,a\n", "does not end in", id="no ending"),
        pytest.param("a.jsonl", b"nonsense\n[1]\n", r"no line that can be read \(row 1 \(line 1\)", id="no object"),
        pytest.param("a.jsonl", b'{"": 1}\n', "blank column name on line 1", id="jsonl no name"),
        pytest.param(
            "a.jsonl",
            json.dumps({f"c{i}": 1 for i in range(MAX_COLUMNS + 1)}).encode(),
            "more than 1,000 columns",
            id="too many columns",
        ),
    ],
)
def test_unreadable_file_says_what_and_what_to_do(filename, content, message):
    with pytest.raises(InputError, match=message):
        read_table(filename, content)


def test_unknown_delimiter_is_refused():
    with pytest.raises(InputError, match="comma, semicolon, tab"):
        read_table("a.csv", b"a|b\n1|2\n", delimiter="|")
    for spelled in ("tab", "Tab", "\\t", "\t"):
        assert read_table("a.csv", b"a;b\tc\n1;2\t3\n", delimiter=spelled).delimiter == "\t"


def test_a_tsv_without_quoting_is_read_as_such_and_says_so():
    content = b'id\ttext\n1\t"Hi" she said, 5" tall\n2\t"open\n'
    raw = read_table("a.tsv", content)
    assert raw.frame["text"].tolist() == ['"Hi" she said, 5" tall', '"open']
    [problem] = raw.problems
    assert (problem.severity, problem.where) == ("warning", "the file")
    assert "starts on line 2 is followed by other text, so quotes are read as ordinary characters" in problem.what
    with pytest.raises(InputError, match="followed by other text"):
        read_table("a.csv", content)


def test_a_tsv_keeps_to_tabs_where_its_header_has_one():
    raw = read_table("a.tsv", b"id;x\ttext\n1;2\ta\n1;3\tb;c\n")
    assert list(raw.frame.columns) == ["id;x", "text"]
    assert read_table("a.tsv", b"id;text\n1;a\n").delimiter == ";"


def test_too_many_records(monkeypatch):
    monkeypatch.setattr("engine.data.raw.MAX_ROWS", 3)
    assert len(read_table("a.csv", b"x\n1\n2\n3\n").frame) == 3
    with pytest.raises(InputError, match="more than 3 records"):
        read_table("a.csv", b"x\n1\n2\n3\n4\n")
    with pytest.raises(InputError, match="more than 3 records"):
        read_table("a.jsonl", b'{"x":1}\n' * 4)


def test_damaged_records_are_listed_and_the_rest_loads():
    raw = read_table("a.csv", b"id,text,score\n1,a,3\n2,b\n3,c,4,5\n,,\n5,e,2\n")
    assert raw.frame["id"].tolist()[:3] == ["1", "2", "3"]
    assert len(raw.frame) == 5
    assert [(p.severity, p.row, p.where) for p in raw.problems] == [
        ("excluded", 2, "row 2 (line 3)"),
        ("excluded", 3, "row 3 (line 4)"),
        ("excluded", 4, "row 4 (line 5)"),
    ]
    assert "2 cells, fewer than the 3 columns" in raw.problems[0].what
    assert "4 cells, more than the 3 columns" in raw.problems[1].what


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_cell_of_5_mb_loses_only_its_own_row(ending):
    texts = ["short", "x" * 5_000_000, "y" * MAX_CELL, "short too"]
    if ending == "csv":
        content = "\n".join(["text", *texts]).encode()
    else:
        content = "\n".join(json.dumps({"text": t}) for t in texts).encode()
    before = csv.field_size_limit()
    raw = read_table(f"a.{ending}", content)
    assert csv.field_size_limit() == before
    [problem] = raw.problems
    assert (problem.severity, problem.row) == ("excluded", 2)
    assert problem.where.endswith("column text")
    assert "5,000,000" in problem.what
    assert [raw.frame["text"][i] for i in (0, 2, 3)] == [texts[i] for i in (0, 2, 3)]
    assert len(raw.frame["text"][1]) < 300


def test_large_cells_in_several_threads_at_once():
    content = ("text\n" + "z" * 300_000 + "\n").encode()
    lengths = []
    threads = [
        threading.Thread(target=lambda: lengths.append(len(read_table("a.csv", content).frame["text"][0])))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == [300_000] * 8


def test_jsonl_values_become_text_as_written():
    lines = [
        '{"id": 1, "text": "a\\u2028b", "score": 3.50, "extra": {"k": [1, null, "é"]}}',
        '{"id": "1", "text": null, "score": 4, "ok": true}\r',
        '{"id": 12345678901234567890, "text": " ", "score": NaN}',
    ]
    raw = read_table("a.jsonl", "\n".join(lines).encode())
    frame = raw.frame.astype(object).where(raw.frame.notna(), None)
    assert (raw.format, raw.delimiter, raw.lines, raw.problems) == ("jsonl", "", [1, 2, 3], [])
    assert frame["id"].tolist() == ["1", "1", "12345678901234567890"]
    assert frame["text"].tolist() == ["a\u2028b", None, " "]
    assert frame["score"].tolist() == ["3.50", "4", None]
    assert frame["extra"].tolist() == ['{"k": [1, null, "é"]}', None, None]
    assert frame["ok"].tolist() == [None, "true", None]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        pytest.param('{"text": "b"', "not valid JSON.*character 13", id="cut off"),
        pytest.param('["b"]', "holds a list, not an object", id="list"),
        pytest.param("7", "holds a number, not an object", id="number"),
        pytest.param('{"text": "b", "text": "c"}', "'text' stands twice", id="repeated key"),
        pytest.param('{"text": "b\\u0000"}', "NUL", id="nul"),
        pytest.param('{"text": "b\\ud83d"}', "half of a surrogate pair", id="lone surrogate"),
        pytest.param("[" * 100_000, "nesting", id="deep"),
        pytest.param('{"text": ' + "9" * 5000 + "}", "beyond bounds", id="long number"),
    ],
)
def test_bad_json_line_is_excluded_by_number(line, what):
    raw = read_table("a.jsonl", f'{{"text": "a"}}\n\n{line}\n{{"text": "d"}}\n'.encode())
    [problem] = raw.problems
    assert (problem.severity, problem.row, problem.where) == ("excluded", 2, "row 2 (line 3)")
    assert re.search(what, problem.what)
    assert [raw.frame["text"][i] for i in (0, 2)] == ["a", "d"]


ANY_TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "=1+1",
        " ",
        "",
        "  lead",
        'say "hi"',
        "a\r\nb",
        "\r",
        "\n",
        "שלום, עולם",
        "مرحبا; بك",
        "👩‍👩‍👧",
        "e\u0301",
        "\u2028",
        "\ufeff",
        "a\tb",
    ]
)


@settings(max_examples=150)
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=8), delimiter=st.sampled_from(",;\t"), bom=st.booleans())
def test_any_text_comes_back_identical(texts, delimiter, bom):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerows(
        [["response_id", "response", "note"], *([f"r{i}", t, t[::-1]] for i, t in enumerate(texts))]
    )
    raw = read_table("a.csv", out.getvalue().encode("utf-8-sig" if bom else "utf-8"), delimiter=delimiter)
    assert raw.frame["response"].tolist() == texts
    assert raw.frame["note"].tolist() == [t[::-1] for t in texts]
    sniffed = read_table("a.csv", out.getvalue().encode())
    assert sniffed.delimiter == delimiter


@settings(max_examples=60)
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=8), ascii_only=st.booleans())
def test_any_text_comes_back_from_jsonl(texts, ascii_only):
    content = "\n".join(json.dumps({"response": t}, ensure_ascii=ascii_only) for t in texts).encode()
    assert read_table("a.jsonl", content).frame["response"].tolist() == texts


@settings(max_examples=100)
@given(content=st.binary(max_size=60), ending=st.sampled_from(EXTENSIONS))
def test_arbitrary_bytes_give_a_table_or_an_input_error(content, ending):
    try:
        raw = read_table("a" + ending, content)
    except InputError:
        return
    assert len(raw.frame) == len(raw.lines) > 0
