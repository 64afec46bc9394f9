"""Figures of the search for a phrase: what is drawn is what the table says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.core.schema import METRICS
from engine.plots.theme import MEANING, MODES
from engine.studies.learned_suffix.figures import plot_lengths, plot_steps, prepare_lengths, prepare_steps
from engine.studies.learned_suffix.study import SUFFIX_SEARCH

COLUMNS = ["step", "word", "value", "n_unread", "queries", "chosen"]
SEARCH = SUFFIX_SEARCH.conform(
    pd.DataFrame(
        [
            (0, "", 2.0, 0, 8, 1), (1, "river", 2.5, 0, 24, 1), (1, "tree", 2.1, 0, 24, 0),
            (1, "<b>", np.nan, 2, 24, 0), (2, "moon", 2.4, 0, 32, 0),
        ],
        columns=COLUMNS,
    )
)  # fmt: skip
METRIC_ROWS = METRICS.conform(
    pd.DataFrame(
        [
            {"metric": m, "attack": a, "defense": "none", "value": v, "lower": v - 0.1, "upper": v + 0.2, "n": 24,
             "n_clusters": 6, "n_unread": 1, "method": "t, clustered by item"}
            for m, a, v in (
                ("mean", "none", 3.0), ("mean", "suffix:x:1", 3.2), ("shift", "suffix:x:1", 0.2),
                ("mean", "suffix:x", 3.5), ("shift", "suffix:x", 0.5),
            )
        ]
    )
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_chosen_words_form_the_line_and_the_rest_are_dots(mode):
    figure = plot_steps(prepare_steps(SEARCH), protocol="pointwise", words=3, mode=mode)
    dots, line = figure.data
    assert list(line.x) == [0, 1]
    assert list(line.y) == [2.0, 2.5]
    assert sorted(dots.y) == [2.1, 2.4]
    assert line.marker.color[0] == MEANING[mode]["clean"]
    assert "river 2.50" in figure.layout.meta["alt"]
    assert figure.layout.xaxis.range[1] > 3
    assert "3 candidates tried, 1 left a prompt unread" in figure.layout.title.subtitle.text


def test_a_search_without_rows_says_so():
    empty = SUFFIX_SEARCH.empty()
    figure = plot_steps(prepare_steps(empty), protocol="pairwise", words=2)
    assert "being tried" in figure.layout.annotations[0].text
    assert "preferred" in figure.layout.yaxis.title.text


def test_candidates_of_a_step_stand_beside_one_another():
    prepared = prepare_steps(SEARCH)
    tried = prepared[(prepared["step"] == 1) & (prepared["chosen"] == 0)]
    assert tried["x"].is_unique
    assert (tried["x"] - 1).abs().max() < 0.5


@pytest.mark.parametrize("mode", MODES)
def test_lengths_have_intervals_and_the_clean_mean_as_a_line(mode):
    prepared = prepare_lengths(METRIC_ROWS)
    assert prepared["words"].tolist() == [0, 1, 2]
    assert prepared["shift"].tolist()[1:] == [0.2, 0.5]
    assert np.isnan(prepared["shift"].iloc[0])
    figure = plot_lengths(prepared, protocol="pointwise", mode=mode)
    [trace] = figure.data
    np.testing.assert_allclose(trace.error_y.array, 0.2)
    np.testing.assert_allclose(trace.error_y.arrayminus, 0.1)
    assert figure.layout.shapes[0].y0 == 3.0
    assert "2 words 3.50 (shift +0.500" in figure.layout.meta["alt"]
    assert "24 responses of 6 items" in figure.layout.title.subtitle.text
