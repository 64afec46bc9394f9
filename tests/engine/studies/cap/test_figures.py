"""The figures of the study `cap` as data: literal rows in, coordinates and words out."""

from __future__ import annotations

import math
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import METRICS
from engine.plots.dots import plot_dots, prepare_dots
from engine.plots.theme import MODES
from engine.steering.references import Thresholds
from engine.studies.cap.figures import LENGTH_COLUMNS, plot_lengths, prepare_lengths
from engine.studies.cap.metrics import nearest_in, standard_at
from engine.studies.cap.steering_figures import (
    ALPHA_HIGH,
    plot_layers,
    plot_map,
    plot_scores,
    plot_sweep,
    prepare_layers,
    prepare_map,
    prepare_scores,
    prepare_sweep,
)
from engine.studies.cap.study import CAP_LAYERS, CAP_POINTS, CAP_TEXTS

NAN = math.nan
HOSTILE = '<b>x</b> & "y"'
TEXTS = CAP_TEXTS.conform(
    pd.DataFrame(
        [
            {"text_id": f"p{pool}-{k}", "pool": pool, "item_id": "i", "source": "plain", "temperature": 1.0,
             "text": HOSTILE, "score": score, "side": side, "umap_x": 1.0 * k, "umap_y": 0.0}
            for pool, k, score, side in (
                (1, 0, 1.0, None), (1, 1, 5.0, None), (2, 0, 4.5, "high"), (2, 1, 1.5, "low"), (2, 2, 3.0, None),
                (2, 3, NAN, None),
            )
        ]
    )
)  # fmt: skip
LAYERS = CAP_LAYERS.conform(
    pd.DataFrame(
        [
            {"space": space, "layer": layer, "fitted": 1.0, "value": 0.2 * layer, "lower": 0.1, "upper": 0.9,
             "null_mean": 0.1, "null_high": 0.3, "p_value": 0.02, "n_high": 9, "n_low": 8}
            for space in ("pca", "raw") for layer in (2, 1)
        ]
    )
)  # fmt: skip
SWEEP = pd.DataFrame(
    [
        {"side": side, "alpha": alpha, "mean": mean, "lower": mean - 0.2, "upper": mean + 0.3, "sd": 0.4, "n": 6,
         "n_unread": 0, "relative_edit": alpha / 100, "perplexity": 10.0 + alpha, "repetition": 0.25}
        for side, alpha, mean in (("high", 0.0, 3.0), ("high", 20.0, 3.5), ("low", 0.0, 3.0), ("low", 30.0, 2.0))
    ]
)  # fmt: skip


def metrics(*rows):
    return METRICS.conform(
        pd.DataFrame(
            [
                {"metric": m, "attack": a, "defense": d, "value": v, "lower": v - 0.1, "upper": v + 0.1, "level": 0.95,
                 "method": "t, clustered by item", "n": 24, "n_clusters": 6, "n_unread": 0}
                for m, a, d, v in rows
            ]
        )
    )  # fmt: skip


def test_scores_are_sorted_onto_sides_by_the_thresholds_given():
    prepared = prepare_scores(TEXTS, Thresholds(3.0, 2.0))
    assert dict(zip(prepared["text_id"], prepared["side"], strict=True)) == {
        "p1-0": "", "p1-1": "", "p2-0": "high", "p2-1": "low", "p2-2": "high",
    }  # fmt: skip
    fig = plot_scores(prepared)
    assert sorted(x for t in fig.data for x in t.x) == [1.0, 1.5, 3.0, 4.5, 5.0]
    assert "1 unread" in fig.layout.title.subtitle.text
    assert {s.x0 for s in fig.layout.shapes} == {3.0, 2.0}


def test_layers_stand_in_order_and_the_chosen_one_is_marked():
    prepared = prepare_layers(LAYERS, "raw")
    fig = plot_layers(prepared, chosen=2)
    assert list(fig.data[1].x) == [1, 2]
    np.testing.assert_allclose(fig.data[1].y, [0.2, 0.4])
    assert fig.layout.shapes[0].x0 == 2
    assert "in the raw space" in fig.layout.yaxis.title.text
    assert "at layer 2 0.400" in fig.layout.meta["alt"]


def test_long_intervals_make_the_axis_of_the_layers_logarithmic():
    long = LAYERS.assign(upper=9.0)
    fig = plot_layers(prepare_layers(long), chosen=1)
    assert fig.layout.yaxis.type == "log"
    assert fig.layout.yaxis.range[0] < math.log10(0.1)
    assert fig.layout.yaxis.range[1] > math.log10(9.0)
    short = plot_layers(prepare_layers(LAYERS), chosen=1)
    assert short.layout.yaxis.type != "log"


def test_the_map_has_the_layers_points_or_the_umap_and_its_text_is_inert():
    points = CAP_POINTS.conform(
        pd.DataFrame([{"text_id": f"p2-{k}", "layer": y, "x": 10.0 * k, "y": 1.0 * y} for k in (0, 1) for y in (1, 2)])
    )
    by_layer = prepare_map(TEXTS, points, 2)
    assert by_layer[["x", "y"]].to_numpy().tolist() == [[0.0, 2.0], [10.0, 2.0]]
    umap = prepare_map(TEXTS, points, 0)
    assert umap["x"].tolist() == [0.0, 1.0]
    for by_score in (True, False):
        fig = plot_map(by_layer, by_score=by_score, method="PCA", layer=2)
        assert fig.data[0].customdata[0][1] == '&lt;b&gt;x&lt;/b&gt; &amp; "y"'


def test_the_sweep_marks_the_alphas_and_draws_the_standards():
    prepared = prepare_sweep(SWEEP)
    fig = plot_sweep(prepared, standards=(3.6, 2.4), marked=(20.0, 30.0))
    rings = [t for t in fig.data if t.marker.symbol == "circle-open"]
    assert [(t.x[0], t.y[0]) for t in rings] == [(20.0, 3.5), (30.0, 2.0)]
    assert {s.y0 for s in fig.layout.shapes} == {3.6, 2.4}
    edits = [t for t in fig.data if t.yaxis == "y2"]
    assert [list(t.y) for t in edits] == [[0.0, 20.0], [0.0, 30.0]]
    assert "high 20.0: 3.50, edit 20.0 %" in fig.layout.meta["alt"]
    ticks = [float(t.replace("\N{NARROW NO-BREAK SPACE}", "")) for t in fig.layout.yaxis3.ticktext]
    assert ticks == list(fig.layout.yaxis3.tickvals)  # each tick says its whole number, not its last digit


def test_lengths_are_read_from_the_arms_names_and_other_attacks_left_out():
    table = metrics(
        ("mean", "none", "none", 3.0), ("mean", "suffix:2", "none", 3.2), ("mean", "suffix", "none", 3.6),
        ("mean", "dsi", "none", 4.4), ("mean", "none", "wcap", 3.0), ("mean", "suffix", "wcap", 3.1),
    )  # fmt: skip
    prepared = prepare_lengths(table, 4)
    assert prepared[["defense", "words", "value"]].to_numpy().tolist() == [
        ["none", 0, 3.0], ["none", 2, 3.2], ["none", 4, 3.6],
    ]  # fmt: skip
    fig = plot_lengths(prepared, titles={"none": "No defense"})
    assert list(fig.data[0].y) == [3.0, 3.2, 3.6]


def test_rows_keep_their_order_and_amounts_begin_at_zero():
    table = metrics(("tokens_alone", "none", "none", 150.0), ("tokens_alone", "none", "cap", 600.0))
    prepared = prepare_dots(table, {"tokens_alone": "alone"}, titles={"cap": HOSTILE})
    fig = plot_dots(prepared, title="How many?", axis="tokens", colours={"alone": "clean"}, positive=True)
    assert list(fig.data[0].x) == [150.0, 600.0]
    assert "n = 24 " in fig.layout.title.subtitle.text
    assert fig.layout.xaxis.range[0] == 0
    assert fig.layout.xaxis.range[1] > 600.1
    assert "&lt;b&gt;" in fig.layout.yaxis.ticktext[1]


@pytest.mark.parametrize("mode", MODES)
def test_figures_without_rows_say_so(mode):
    empty = [
        plot_scores(prepare_scores(TEXTS[:0], Thresholds(1, 0)), mode=mode),
        plot_layers(prepare_layers(LAYERS[:0]), chosen=1, mode=mode),
        plot_map(TEXTS[:0].assign(x=[], y=[]), by_score=False, method="PCA", layer=1, mode=mode),
        plot_sweep(prepare_sweep(SWEEP[:0]), standards=(1, 0), marked=(0, 0), mode=mode),
        plot_lengths(pd.DataFrame(columns=LENGTH_COLUMNS), titles={}, mode=mode),
    ]
    for fig in empty:
        assert len(fig.layout.annotations) == 1
        assert not fig.data


def test_standards_follow_the_percentiles_and_unread_scores_count_nowhere():
    first, second = [1.0, 2, 3, 4, 5, NAN], [1.0, 4.5, 5.0, NAN]
    texts = pd.DataFrame({"pool": [1] * len(first) + [2] * len(second), "score": first + second})
    found = standard_at(texts, 75, 25)
    assert (found.thresholds.high, found.thresholds.low, found.n_high, found.n_low, found.n) == (4, 2, 2, 1, 3)


def test_the_nearest_alpha_of_a_sweep_follows_the_rule_that_chooses_it():
    def rows(*read):
        return pd.DataFrame(read, columns=["side", "alpha", "mean", "n", "n_unread"])

    three = rows(("high", 0.0, 3.0, 5, 0), ("high", 1.0, 3.4, 5, 0), ("high", 2.0, NAN, 0, 5))
    assert nearest_in(three, "high", 3.5) == 1
    assert nearest_in(rows(("low", 0.0, 3.0, 5, 0), ("low", 1.0, 4.0, 5, 0)), "low", 3.5) == 0
    few = rows(("high", 1.0, 3.0, 5, 0), ("high", 3.0, 3.5, 1, 4))  # most contexts lost their text at alpha 3
    assert nearest_in(few, "high", 3.5) == 1
    assert math.isnan(nearest_in(rows(("high", 1.0, NAN, 0, 5)), "high", 3.5))
    assert math.isnan(nearest_in(few, "low", 3.5))


def test_an_alpha_is_one_of_the_runs_own_numbers_also_where_an_older_report_holds_it_as_text():
    class Swept:
        manifest = MappingProxyType({"cap": {"alpha_high": 458.2}})

        def table(self, _):
            return pd.DataFrame({"side": ["high", "high", "low"], "alpha": [458.2, 0.0, 7.0]})

    source = Swept()
    assert ALPHA_HIGH.default(source) == 458.2
    assert ALPHA_HIGH.read(source, "458.2") == ALPHA_HIGH.read(source, 458.2 * (1 + 1e-12)) == 458.2
    assert ALPHA_HIGH.word(458.2) == "458.2"
    for wrong in (7.0, "nan", "much", 458.3):
        with pytest.raises(InputError, match=r"alpha_high is .*; this run allows 0\.0, 458\.2"):
            ALPHA_HIGH.read(source, wrong)
