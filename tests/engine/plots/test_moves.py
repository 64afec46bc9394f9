"""Markers without and with an attack: drawn is what the run measured, and nothing of what is missing."""

import math

import pytest

from engine.core.schema import NONE
from engine.core.settings import get_settings
from engine.plots.moves import plot_moves, prepare_moves
from engine.runs.folder import open_run
from engine.studies.figure import Source
from engine.studies.registry import entry_of


@pytest.fixture(scope="module")
def source():
    return Source(open_run(get_settings().assets / "demo" / "dialogue", "naive"))


def test_the_rows_of_a_run_are_means_of_its_verdicts(source):
    prepared = entry_of(source, "moves").prepare(source)
    verdicts = source.table("verdicts")
    means = verdicts.groupby(["attack", "defense"])["score"].mean()
    bare = prepared[(prepared["defense"] == NONE) & prepared["name"].str.startswith("BED")].iloc[0]
    assert bare["clean"] == pytest.approx(means[(NONE, NONE)])
    assert bare["attacked"] == pytest.approx(means[("bed", NONE)])
    assert bare["lower"] < bare["shift"] < bare["upper"]


def test_the_axis_holds_every_marker_and_interval(source):
    entry = entry_of(source, "moves")
    figure = entry.plot(entry.prepare(source))
    low, high = figure.layout.xaxis.range
    for trace in figure.data:
        assert all(low <= x <= high for x in trace.x)


def test_a_response_has_four_markers_and_no_interval_and_old_answers_are_pale():
    rows = [
        {"name": "No defense", "defense": NONE, "clean": 2.0, "attacked": 3.5},
        {"name": "Sandwich", "defense": "sandwich", "clean": 2.0, "attacked": 2.2, "waiting": True},
    ]
    prepared = prepare_moves(rows)
    assert list(prepared["shift"].round(9)) == [1.5, 0.2]
    figure = plot_moves(prepared, scale=(1, 5), title="?")
    assert [trace.x[0] for trace in figure.data] == [2.0, 3.5, 2.0, 2.2]
    assert {trace.opacity for trace in figure.data[:2]} == {1.0}
    assert all(trace.opacity < 1 for trace in figure.data[2:])
    assert len({trace.marker.line.color for trace in figure.data}) == 3  # without, with, behind a defense


def test_a_score_that_is_missing_is_no_marker():
    row = {"name": "No defense", "defense": NONE, "clean": 2.0, "attacked": math.nan}
    prepared = prepare_moves([row])
    assert prepared["text"].iloc[0] == "no usable verdict"
    assert len(plot_moves(prepared, scale=(1, 5), title="?").data) == 1
