"""What an encoding is certain by, what is a guess, and that no byte is read wrongly without a word."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.data.encodings import CHOICES, decode, encoding_name
from engine.data.reading import read_table

SMART = "id,text\n1,It’s “résumés” – 5 €\n2,plain\n"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        pytest.param(SMART.encode(), "utf-8", id="utf-8"),
        pytest.param(b"\xef\xbb\xbf" + SMART.encode(), "utf-8-sig", id="bom"),
        pytest.param(b"\xff\xfe" + SMART.encode("utf-16-le"), "utf-16-le", id="utf-16 little"),
        pytest.param(b"\xfe\xff" + SMART.encode("utf-16-be"), "utf-16-be", id="utf-16 big"),
        pytest.param(b"id,text\n1,ascii\n", "utf-8", id="ascii"),
    ],
)
def test_certain(content, encoding):
    raw = read_table("a.csv", content)
    assert (raw.encoding, raw.is_guess, raw.candidates) == (encoding, False, [])
    assert list(raw.frame.columns) == ["id", "text"]
    raw.require_certain("a.csv", "")


def test_windows_1252_is_a_guess_with_its_lines():
    raw = read_table("a.csv", SMART.encode("cp1252"))
    assert raw.is_guess
    assert raw.frame["text"][0] == "It’s “résumés” – 5 €"
    first, second = raw.candidates
    assert (first.encoding, first.lines) == ("cp1252", [(2, "1,It’s “résumés” – 5 €")])
    assert (second.encoding, second.lines[0][1]) == (
        "latin-1",
        r"1,It\x92s \x93résumés\x94 \x96 5 \x80",
    )
    assert "byte 0x92 at offset 12 (line 2) cannot be read as UTF-8" in raw.doubt
    with pytest.raises(InputError, match=r"(?s)cp1252 \(Windows-1252\):.*line 2: 1,It’s .*latin-1.*\\x92.*Choose!"):
        raw.require_certain("a.csv", "Choose!")


def test_encodings_that_make_no_difference_are_one_candidate():
    [only] = read_table("a.csv", "id,text\n1,café\n".encode("latin-1")).candidates
    assert (only.encoding, only.same, only.title) == ("cp1252", ("latin-1",), "Windows-1252 or Latin-1")


def test_a_byte_that_windows_1252_does_not_have_leaves_latin_1():
    [only] = read_table("a.csv", b"id,text\n1,\x81\xe9\n").candidates
    assert only.encoding == "latin-1"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [SMART, "id,text\n1,plain\n", "id,text\n1,שלום עולם\n"])
def test_utf_16_without_a_mark_is_a_guess(encoding, text):
    raw = read_table("a.csv", text.encode(encoding))
    assert raw.is_guess
    assert raw.candidates[0].encoding == raw.encoding == encoding
    assert raw.candidates[0].lines
    assert raw.frame["text"][0] == text.splitlines()[1].partition(",")[2]


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        pytest.param(b"\xff\xfea\x00,\x00\n\x00b\x00\x00\xdc", None, r"offset 10 \(line 2\)", id="half a pair"),
        pytest.param(b"a,b\n1,\x81\n", "cp1252", r"Windows-1252: byte 0x81 at offset 6 \(line 2\)", id="undefined"),
        pytest.param(b"a,b\n1,\xe9\n", "utf-8", r"UTF-8: byte 0xe9 at offset 6 \(line 2\)", id="forced utf-8"),
        pytest.param(b"a,b\n1,2\n", "utf-16", "say utf-16-le or utf-16-be", id="utf-16 without mark"),
        pytest.param(b"a,b\n1,2\n", "cp1251", "'cp1251' is not read; allowed: utf-8", id="not on the list"),
        pytest.param(b"a,b\n1,2\n", "rot13", "'rot13' is not read", id="no charset"),
        pytest.param("a,b\n1,2\n".encode("utf-16"), "latin-1", "NUL byte on line 1", id="utf-16 as latin-1"),
        pytest.param(b"\xff\xfe\x00\x00a\x00\x00\x00", None, "UTF-32", id="utf-32"),
    ],
)
def test_refused_with_line_and_offset(content, encoding, message):
    with pytest.raises(InputError, match=message):
        read_table("a.csv", content, encoding=encoding)


def test_what_the_user_says_is_no_guess_and_marks_never_stay():
    raw = read_table("a.csv", SMART.encode("cp1252"), encoding="windows-1252")
    assert (raw.encoding, raw.is_guess) == ("cp1252", False)
    for content, asked in (
        (b"\xef\xbb\xbf" + SMART.encode(), "utf8"),
        (b"\xff\xfe" + SMART.encode("utf-16-le"), "utf-16"),
        (b"\xff\xfe" + SMART.encode("utf-16-le"), "utf-16-le"),
    ):
        assert list(read_table("a.csv", content, encoding=asked).frame.columns) == ["id", "text"]
    assert [encoding_name(n) for n in ("Latin1", "ISO-8859-1", "cp1252", "UTF8")] == [
        "latin-1",
        "latin-1",
        "cp1252",
        "utf-8",
    ]


def test_json_in_another_encoding():
    rows = json.dumps([{"text": "It’s résumés"}], ensure_ascii=False)
    for name, content in (("a.json", rows), ("a.jsonl", rows[1:-1])):
        raw = read_table(name, content.encode("cp1252"))
        assert raw.is_guess
        assert raw.frame["text"].tolist() == ["It’s résumés"]


def test_the_sample_is_short_and_starts_where_it_matters():
    text = "x" * 5000 + "\n" + "\n".join("y" * 400 + "é" + "z" * 400 for _ in range(9))
    [candidate] = decode("a.csv", text.encode("latin-1")).candidates
    assert [n for n, _ in candidate.lines] == [2, 3, 4, 5]
    assert all("é" in line and len(line) < 160 for _, line in candidate.lines)


@settings(max_examples=80)
@given(content=st.binary(min_size=1, max_size=40), encoding=st.sampled_from([None, *CHOICES]))
def test_decoding_loses_nothing(content, encoding):
    try:
        got = decode("a.csv", content, encoding)
    except InputError:
        return
    kept = got.text.encode(got.encoding)
    assert content.endswith(kept)
    assert len(content) - len(kept) in (0, 2, 3)


def test_a_file_of_nul_bytes_is_no_text_in_any_encoding():
    for encoding in (None, "utf-8", "utf-16-le", "latin-1"):
        with pytest.raises(InputError, match="NUL"):
            read_table("a.csv", b"response\na\n" + bytes(1_000_000), encoding=encoding)
