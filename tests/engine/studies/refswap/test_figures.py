"""RefSwap's figures show what their tables hold."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from engine.plots.theme import MODES, PALETTE
from engine.studies.refswap.drawings import (
    plot_frontier,
    plot_keys,
    plot_passing,
    plot_roc,
    plot_swaps,
    prepare_frontier,
    prepare_keys,
    prepare_passing,
    scale_of,
)

SCORES = [0.4, 0.02, 0.0, 0.3, 0.001, 0.0, float("nan")]
GROUPS = ["correct", "correct", "correct", "correct", "key", "key", "key"]


def swaps(n=1):
    ids = [f"q{i}" for i in range(len(SCORES) * n)]
    return pd.DataFrame({"group": GROUPS * n, "item_id": ids, "name": "<b>x</b>", "max_p_cf": SCORES * n})


def words(fig):
    return " ".join(a.text for a in fig.layout.annotations)


def test_the_strip_has_every_read_sample_and_the_zeros_as_a_rug():
    fig = plot_swaps(swaps(), gamma=0.01)
    dots = [t for t in fig.data if t.type == "scatter"]
    assert [len(t.x) for t in dots] == [4, 2]
    assert sum(x < -3 for x in dots[0].x) == 1  # left of the smallest one that is drawn, 0.001
    assert "1 below" in words(fig)
    assert "γ = 0.0100" in words(fig)
    assert fig.layout.shapes[0].x0 == pytest.approx(-2)
    assert "1 unread" in fig.layout.title.subtitle.text
    assert "correct responses: n 4, 75 % reach gamma" in fig.layout.meta["alt"]


@pytest.mark.parametrize("scores", [[0.2, 0.5, 0.7], [0.001, 0.02, 0.4], [0.0, 0.3, 0.9]])
def test_the_axis_goes_to_the_data_and_what_lies_below_gamma_is_dimmed(scores):
    groups = ["correct"] * 3 + ["key"] * 3
    own = pd.DataFrame({"group": groups, "item_id": "q", "name": "x", "max_p_cf": [*scores, *scores]})
    scale = scale_of(scores, 0.3)
    fig = plot_swaps(own, gamma=0.3)
    low, high = fig.layout.xaxis.range
    for trace in (t for t in fig.data if t.type == "scatter"):
        assert all(low < x < high for x in trace.x)
        assert [a < 0.5 for a in trace.marker.opacity] == [s < 0.3 for s in scores]
    assert scale.log == any(0 < s < 0.01 for s in scores)
    shown = high - low
    assert scale.at(max(scores)) - scale.at(min(scores)) > 0.35 * shown
    steps = [scale.at(g) for g in scale.gammas if g >= scale.low]
    assert scale.gammas[0] == 0
    assert scale.gammas[-1] == 1
    assert max(b - a for a, b in pairwise(steps)) < 0.05 * max(1.0, shown)


def test_many_samples_become_a_density_and_say_so():
    fig = plot_swaps(swaps(120), gamma=0.0)
    assert any(t.type == "violin" for t in fig.data)
    assert all(len(t.x) <= 400 for t in fig.data if getattr(t, "mode", "") == "markers")
    assert "dots are a sample" in fig.layout.title.subtitle.text


def test_nothing_accepted_is_said():
    empty = swaps(0)
    assert "no accepted sample" in words(plot_swaps(empty, gamma=0.01))
    passing = prepare_passing(empty)
    assert "must be accepted" in words(plot_passing(passing, gamma=0.01))
    assert "must be accepted" in words(plot_roc(passing, gamma=0.01, auc="–"))
    bare = prepare_frontier([0.0], [np.nan], [np.nan], [np.nan], [False])
    assert "must be accepted" in words(plot_frontier(bare, gamma=0.0))


def test_pass_rates_are_shares_that_reach_gamma():
    table = prepare_passing(swaps()).set_index("gamma")
    assert table.loc[0.0].tolist() == [1, 1]
    assert table.loc[0.02].tolist() == [0.75, 0]
    assert table.loc[0.4].tolist() == [0.25, 0]
    assert table.loc[1.0].tolist() == [0, 0]
    fig = plot_passing(table.reset_index(), gamma=0.01)
    assert "correct responses 75.0 %, master keys 0.0 %" in fig.layout.title.subtitle.text.replace("<br>", " ")


def test_the_roc_ends_in_both_corners():
    fig = plot_roc(prepare_passing(swaps()), gamma=0.01, auc="0.88")
    curve = fig.data[0]
    assert (curve.x[0], curve.y[0]) == (0, 0)
    assert (curve.x[-1], curve.y[-1]) == (100, 100)
    assert all(b >= a for a, b in zip(curve.x, curve.x[1:], strict=False))


def test_the_frontier_marks_the_chosen_and_the_undefended_point():
    table = prepare_frontier([0.0, 0.1, 0.5, 1.0], [0.9, 0.9, 0.8, 0.5], [0.4, 0.1, 0.0, 0.0], [0.5] * 4, [0, 1, 1, 0])
    fig = plot_frontier(table, gamma=0.3)
    by_name = {t.name: t for t in fig.data}
    assert by_name["undefended"].x[0] == 40
    assert by_name["chosen, γ = 0.300"].y[0] == pytest.approx(80)  # 0.3 rejects what 0.5 rejects
    assert list(by_name["no better point (Pareto)"].x) == pytest.approx([10, 0])


def test_keys_are_sorted_and_their_text_is_inert():
    rows = [("<b>k</b>", 48, 0.2, 0.1, 0.3, 0.0, 0.0, 0.07), ("(space)", 48, 0.6, 0.5, 0.7, 0.1, 0.05, 0.2)]
    prepared = prepare_keys(rows)
    assert prepared["key"].tolist() == ["(space)", "<b>k</b>"]
    fig = plot_keys(prepared)
    assert fig.layout.yaxis.ticktext == ("(space)", "&lt;b&gt;k&lt;/b&gt;")
    before, after = fig.data
    assert before.x == pytest.approx((60, 20))
    assert before.error_x.array == pytest.approx((10, 10))
    assert after.x == pytest.approx((10, 0))
    assert "no key has been tried" in words(plot_keys(prepare_keys([])))


@pytest.mark.parametrize("mode", MODES)
def test_no_figure_has_a_colour_of_another_mode(mode):
    passing = prepare_passing(swaps())
    line = prepare_frontier([0.0, 1.0], [0.9, 0.5], [0.4, 0.0], [0.5, 0.0], [True, True])
    figures = [
        plot_swaps(swaps(60), gamma=0.01, mode=mode),
        plot_passing(passing, gamma=0.01, mode=mode),
        plot_roc(passing, gamma=0.01, auc="1", mode=mode),
        plot_frontier(line, gamma=0.5, mode=mode),
        plot_keys(prepare_keys([("k", 9, 0.2, 0.1, 0.3, 0.0, 0.0, 0.1)]), mode=mode),
    ]
    other = set(PALETTE["dark" if mode != "dark" else "light"]) - set(PALETTE[mode])
    for fig in figures:
        assert not other & set(pd.Series(fig.to_json().split('"')))
        assert fig.layout.meta["alt"]
