"""Figures of both protocols draw the numbers they are given, say what is missing, and survive hostile names."""

from __future__ import annotations

import numpy as np
import pytest

from engine.plots.theme import MODES, with_note
from engine.studies.protocols.drawings import (
    plot_ladder,
    plot_matrix,
    plot_rates,
    plot_slope,
    prepare_ladder,
    prepare_matrix,
    prepare_rates,
    prepare_slope,
    protocol_colour,
)

NAN = float("nan")
RATES = [
    ("assertiveness", "Assertiveness", "pairwise", 0.4, 0.3, 0.5, 80, 12, "bootstrap of items"),
    ("assertiveness", "Assertiveness", "pointwise", 0.0, 0.0, 0.2, 60, 12, "Wilson, n = items"),
    ("prolixity", "Prolixity", "pairwise", NAN, NAN, NAN, 0, 0, "no data"),
]


@pytest.mark.parametrize("mode", MODES)
def test_rates_stand_where_they_belong(mode):
    fig = with_note(plot_rates(prepare_rates(RATES), mode=mode), "recorded")
    pairwise, pointwise = fig.data
    assert list(pairwise.x) == [40.0]
    assert pairwise.error_x.array[0] == pytest.approx(10)
    assert (pairwise.marker.symbol, pointwise.marker.symbol) == ("square", "circle")
    assert pairwise.marker.color == protocol_colour("pairwise", mode) != protocol_colour("pointwise", mode)
    texts = [a.text for a in fig.layout.annotations]
    assert "<b>0 of 60, at most 20.0 %</b>" in texts
    assert "<b>no data</b>" in texts
    assert pointwise.customdata[0][:2] == ["assertiveness", "pointwise"]
    assert "Assertiveness pairwise: 40.0 [30.0, 50.0]" in fig.layout.meta["alt"]


def test_ticks_end_where_the_data_end():
    fig = plot_rates(prepare_rates(RATES))
    assert max(fig.layout.xaxis.tickvals) <= 60
    assert fig.layout.xaxis.range[1] > 60  # room for the numbers


def test_nothing_to_draw_is_said():
    for fig in (plot_rates(prepare_rates([])), plot_ladder(prepare_ladder([])), plot_slope(prepare_slope([]))):
        assert len(fig.layout.annotations) >= 1
        assert fig.layout.height > 0
    plot_matrix(prepare_matrix([], np.zeros((0, 0)), np.zeros((0, 0))))


def test_the_ladder_has_hollow_and_solid_marks():
    rows = [
        (s, arm, p, 0.9 - 0.2 * (arm != "none"), 0.6, 1.0, 20, 2 if arm != "none" else 0)
        for s in (1, 2, 3)
        for arm in ("none", "assertiveness")
        for p in ("pairwise", "pointwise")
    ]
    fig = plot_ladder(prepare_ladder(rows))
    assert len(fig.data) == 4
    assert [t.name for t in fig.data][:2] == ["pairwise, clean", "pairwise, distracted"]
    assert fig.data[0].marker.color != fig.data[1].marker.color
    assert [round(x) for x in fig.data[0].x] == [1, 2, 3]
    assert "12 left out" in fig.layout.title.subtitle.text.replace("<br>", " ")


def test_slopes_go_from_before_to_after_with_rank_one_on_top():
    rows = [
        ("<b>evil</b>", True, 900.0, 1100.0, 2.0, 1.0, 2.0, 1.0, 1.0, 2.0, 30),
        ("good", False, 1100.0, 900.0, 1.0, 1.0, 2.0, 2.0, 1.0, 2.0, 30),
        ("absent", False, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0),
    ]
    fig = plot_slope(prepare_slope(rows))
    assert [list(t.y) for t in fig.data] == [[1.0, 2.0], [2.0, 1.0]]
    assert fig.data[1].line.width > fig.data[0].line.width
    assert fig.layout.yaxis.range[0] > fig.layout.yaxis.range[1]
    assert all("<b>evil" not in a.text for a in fig.layout.annotations)
    assert fig.data[1].error_y.arrayminus[0] == 1.0


def test_cells_of_the_matrix_say_who_beats_whom():
    shares = np.array([[NAN, 0.75, NAN], [0.25, NAN, 0.5], [NAN, 0.5, NAN]])
    n = np.array([[0, 8, 0], [8, 0, 4], [0, 4, 0]])
    fig = plot_matrix(prepare_matrix(["x", "y", "z"], shares, n))
    assert fig.data[0].text[0] == ["", "75", ""]
    assert "x over y 75 %" in fig.layout.meta["alt"]
    clicked = {tuple(c) for c in fig.data[1].customdata}
    assert ("x", "y") in clicked
    assert ("x", "x") not in clicked
