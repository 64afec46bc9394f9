"""The forest of a check-up: every probe in units of its threshold, numbers in their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.plots.theme import MEANING, with_note
from engine.studies.checkup.figures import LIMIT, plot_checkup, prepare_checkup
from engine.studies.checkup.metrics import decide, forest_rows
from engine.studies.checkup.study import CHECKUP

ROWS = [
    {"probe": "order", "value": 0.2, "lower": 0.12, "upper": 0.28, "protocol": "pairwise"},
    {"probe": "injections", "value": 0.01, "lower": -0.02, "upper": 0.03, "arm": "<b>dsi</b>", "protocol": "pointwise"},
    {"probe": "empty", "value": 0.9, "lower": 0.8, "upper": 1.0, "protocol": "pointwise"},
    {"probe": "ties", "value": np.nan, "n": 0, "missing": "No pairs."},
    {"probe": "agreement", "value": 0.5, "lower": 0.3, "upper": 0.7, "protocol": "pairwise"},
]


@pytest.fixture
def prepared():
    base = {
        "role": "decides",
        "n": 40,
        "n_clusters": 20,
        "n_unread": 1,
        "level": 0.95,
        "method": "t",
        "detectable": 0.02,
    }
    return prepare_checkup(forest_rows(decide(CHECKUP.conform(pd.DataFrame([base | row for row in ROWS])))))


@pytest.mark.parametrize("mode", ["light", "dark", "print"])
def test_one_line_serves_every_probe(prepared, mode):
    fig = with_note(plot_checkup(prepared, mode=mode), "recorded <i>here</i>")
    by_name = {trace.name: trace for trace in fig.data}
    assert len(by_name) == 4
    assert by_name["Order bias"].x[0] == pytest.approx(2.0)
    assert by_name["Injections"].x[0] == pytest.approx(0.2)
    assert by_name["Human agreement"].x[0] == pytest.approx(0.5 / 0.6)
    assert by_name["Empty answer"].x[0] == LIMIT
    assert by_name["Order bias"].marker.color == MEANING[mode]["attacked"]
    assert by_name["Injections"].marker.color == MEANING[mode]["defended"]
    words = " ".join(a.text for a in fig.layout.annotations)
    assert "20.0" in words
    assert "▸" in words
    assert "Ties: <b>cannot be asked</b>" in words
    assert "recorded &lt;i&gt;here&lt;/i&gt;" in fig.layout.title.subtitle.text
    assert "95" in fig.layout.title.subtitle.text
    assert "4 unread" in fig.layout.title.subtitle.text
    assert "Order bias fails" in fig.layout.meta["alt"]
    low, high = fig.layout.xaxis.range
    assert low < -1 < 1 < LIMIT < high


def test_the_interval_of_agreement_is_turned_round_with_its_value(prepared):
    row = prepared.set_index("probe").loc["agreement"]
    assert row["scaled_lower"] == pytest.approx(0.3 / 0.6)
    assert row["scaled_upper"] == pytest.approx(0.7 / 0.6)
    assert row["scaled_lower"] < row["scaled"] < row["scaled_upper"]


def test_an_empty_or_a_foreign_table():
    fig = plot_checkup(prepare_checkup(pd.DataFrame()))
    assert "no probe" in fig.layout.annotations[0].text
    with pytest.raises(InputError, match="verdict"):
        prepare_checkup(pd.DataFrame({"probe": ["order"]}))
