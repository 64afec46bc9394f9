"""Files are replaced in one step, and a CSV of ours opens in a spreadsheet without any cell becoming a formula."""

import csv
import io
import os
import stat
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError, WriteError
from engine.core.files import plain_cell, read_file, safe_cell, safe_csv, write_atomically


def test_a_write_that_fails_keeps_the_old_content_and_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "kept" / "state.json"
    path.parent.mkdir()
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert [p.name for p in path.parent.iterdir()] == ["state.json"]

    def fails(self, target):
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(WriteError, match="no space"):
        write_atomically(path, b"newer")
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["state.json"]


def test_who_may_read_a_file_is_as_before_or_as_the_umask_says(tmp_path):
    plain, new, kept = (tmp_path / name for name in ("plain", "new", "kept"))
    plain.touch()
    write_atomically(new, b"x")
    assert new.stat().st_mode == plain.stat().st_mode
    kept.touch(0o640)
    kept.chmod(0o640)
    write_atomically(kept, b"x")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "cell",
    ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "\u00a0=1", '=HYPERLINK("x")', "-"],
)
def test_a_formula_gets_an_apostrophe(cell):
    assert safe_cell(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["-0.5", "+3", "1e-3", "-1.5E+07", ".5", "plain = text", "", "a-b", "3 - 1"])
def test_numbers_and_plain_text_stay(cell):
    assert safe_cell(cell) == cell


def test_numbers_of_a_table_stay_numbers_and_text_does_not_become_a_formula():
    frame = pd.DataFrame({"shift": [-0.5, 1.25], "=text": ["=1+1", 'a;"b"\nc'], "missing": [None, "-x"]})
    raw = safe_csv(frame)
    assert raw.startswith(b"\xef\xbb\xbf")
    rows = list(csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline="")))
    assert rows[0] == ["shift", "'=text", "missing"]
    assert rows[1] == ["-0.5", "'=1+1", ""]
    assert rows[2] == ["1.25", 'a;"b"\nc', "'-x"]


@given(st.text(max_size=30))
def test_no_text_survives_as_a_formula(text):
    shown = str(safe_cell(text))
    starts_like_a_formula = shown[:1] in ("=", "+", "-", "@", "\t", "\r")
    assert not starts_like_a_formula or is_number(shown)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@given(st.text(st.sampled_from("'=+-@\t\r\n 1.eE\u00a0a"), max_size=6))
def test_the_guard_is_undone_exactly(text):
    assert plain_cell(str(safe_cell(text))) == text


def test_only_a_regular_file_of_a_bounded_size_is_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"abc")
    assert read_file(path) == b"abc"
    sparse = tmp_path / "sparse.csv"
    with sparse.open("wb") as stream:
        stream.truncate(10_000_000_000)
    os.mkfifo(tmp_path / "pipe.csv")
    for other in (sparse, tmp_path / "pipe.csv", tmp_path, tmp_path / "none.csv", Path("/dev/zero"), Path("a\0.csv"),
                  Path("x" * 5_000)):  # fmt: skip
        with pytest.raises(InputError, match="cannot be read") as refused:
            read_file(other)
        assert len(str(refused.value)) < 400
