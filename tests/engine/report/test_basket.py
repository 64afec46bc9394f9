"""What a report keeps: order, undo, texts as they were written; nothing lost, nothing half written."""

import json
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.report.basket import (
    MOST_PIECES,
    MOST_TEXT,
    Piece,
    Report,
    changing,
    keep_drawn,
    load_report,
)
from engine.studies.figure import Source
from engine.studies.registry import entry_of, find_run

MARKUP = "<script>window.hit=1</script><img src=x onerror=window.hit=1> **b** \u2028 'q' \"d\" & =1+1"


def figure(k: int = 5) -> Piece:
    return Piece(kind="figure", title="Keys", run="recorded:refswap/judge", entry="keys", settings={"k": k})


def note(text: str) -> Piece:
    return Piece(kind="note", text=text)


def save(data_dir, report: Report) -> None:
    with changing(data_dir) as held:
        held[0] = report


def test_a_report_comes_back_as_it_was_saved(tmp_path):
    report = Report().added(figure()).added(note(MARKUP)).headed("A title", "N. N.")
    save(tmp_path, report)
    assert load_report(tmp_path) == report
    assert load_report(tmp_path).pieces[1].text == MARKUP
    assert json.loads((tmp_path / "report.json").read_text())["title"] == "A title"


def test_without_a_file_the_report_is_empty(tmp_path):
    assert load_report(tmp_path / "nowhere") == Report()


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 4), st.integers(-9, 9))
def test_what_is_taken_out_or_moved_can_be_put_back(out, which, by):
    full = Report(pieces=tuple(note(str(i)) for i in range(5)))
    report, gone = full, 0
    for place in out:
        if place < len(report.pieces):
            report, gone = report.without(report.pieces[place].piece_id), gone + 1
    for _ in range(gone):
        report = report.with_last_back()
    assert report.pieces == full.pieces
    piece = full.pieces[which]
    moved = full.moved(piece.piece_id, by)
    assert sorted(p.text for p in moved.pieces) == sorted(p.text for p in full.pieces)
    assert moved.at(piece.piece_id) == min(max(which + by, 0), 4)


def test_the_same_figure_is_picked_once_and_at_another_setting_again():
    report = Report().added(figure(5)).added(figure(5)).added(figure(3))
    assert [p.settings["k"] for p in report.pieces] == [5, 3]


def test_limits_are_said(tmp_path):
    full = Report(pieces=tuple(note(str(i)) for i in range(MOST_PIECES)))
    with pytest.raises(InputError, match=f"{MOST_PIECES} parts"):
        full.added(note("one more"))
    with pytest.raises(InputError, match="text"):
        full.changed(full.pieces[0].piece_id, text="x" * (MOST_TEXT + 1))
    with pytest.raises(InputError, match="show"):
        full.changed(full.pieces[0].piece_id, show="film")
    with pytest.raises(InputError, match="not in the report any more"):
        full.without("gone")


@pytest.mark.parametrize("content", ["{", "[]", '{"pieces": [{"kind": "film"}]}', '{"title": 3}'])
def test_a_damaged_file_is_named_and_left_alone(tmp_path, content):
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(InputError, match=r"report\.json"):
        load_report(tmp_path)
    with pytest.raises(InputError), changing(tmp_path) as held:
        held[0] = Report(title="new")
    assert (tmp_path / "report.json").read_text() == content


def test_an_error_while_changing_writes_nothing(tmp_path):
    save(tmp_path, Report(title="before"))
    with pytest.raises(InputError), changing(tmp_path) as held:
        held[:] = [Report(title="after").without("a piece that is not there")]
    assert load_report(tmp_path).title == "before"


def test_two_windows_lose_nothing(tmp_path):
    def pick(k: int) -> None:
        with changing(tmp_path) as held:
            held[0] = held[0].added(figure(k))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(pick, range(1, 13)))
    assert sorted(p.settings["k"] for p in load_report(tmp_path).pieces) == list(range(1, 13))


def test_a_figure_kept_as_drawn_survives_the_file(tmp_path):
    source = Source(find_run("recorded:dialogue/run"))
    entry = entry_of(source, "forest")
    table = entry.prepare(source)
    kept = keep_drawn(entry.plot(table, "dark"), table)
    save(tmp_path, Report(pieces=(Piece(kind="figure", title="f", drawn=kept),)))
    again = load_report(tmp_path).pieces[0].drawn
    assert again == kept
    assert again.spec["data"] == json.loads(entry.plot(table, "light").to_json())["data"]
    frame = pd.DataFrame(again.rows, columns=again.columns)
    assert frame["value"].tolist() == pytest.approx(table["value"].tolist())
