"""The forest of two runs as data: what is drawn is what was computed, and names are inert."""

from __future__ import annotations

import pandas as pd
import pytest

from engine.plots.compare import COLUMNS, MOST_ROWS, NAMES, UNITS, plot_compare, prepare_compare
from engine.plots.theme import MODES, ROLES
from engine.runs import compare

NAN = float("nan")


def differences(*rows: dict[str, object]) -> pd.DataFrame:
    blank = dict.fromkeys(compare.COLUMNS, "") | {
        "what": "score", "unit": "points", "attack": "none", "defense": "none", "value_a": 3.0, "value_b": 3.5,
        "value": 0.5, "lower": 0.2, "upper": 0.8, "level": 0.95, "method": "t, clustered by item", "n": 24,
        "n_clusters": 12, "n_unread": 1, "p_value": 0.01, "q_value": 0.02, "paired": 1,
    }  # fmt: skip
    return pd.DataFrame([blank | row for row in rows], columns=compare.COLUMNS)


TWO = differences({}, {"attack": "dsi", "value": -0.1, "lower": -0.3, "upper": 0.1})


def test_every_quantity_has_a_name_and_every_unit_an_axis():
    quantities = (compare.SCORE, compare.SHIFT, compare.P_A, compare.FIRST, compare.CHANGED, compare.P_YES, compare.YES)
    assert set(NAMES) == set(quantities)
    assert set(UNITS) == {compare.POINTS, compare.SHARE, compare.OWN_UNIT}


@pytest.mark.parametrize("mode", MODES)
def test_points_and_intervals_stand_where_they_were_computed(mode):
    prepared = prepare_compare(TWO, unit="points")
    assert list(prepared.columns) == COLUMNS
    figure = plot_compare(prepared, mode=mode)
    first, second = figure.data
    assert (first.x[0], first.error_x.array[0], first.error_x.arrayminus[0]) == pytest.approx((0.5, 0.3, 0.3))
    assert first.marker.color == ROLES[mode]["ink"]  # clear of zero: solid
    assert second.marker.color == ROLES[mode]["background"]  # covers zero: hollow
    assert any(shape.x0 == shape.x1 == 0 for shape in figure.layout.shapes)
    small = figure.layout.title.subtitle.text
    for part in ("paired", "95", "n = 24 of 12 items", "2 calls left out as unread"):
        assert part in small


def test_shares_are_drawn_in_percentage_points_and_units_do_not_mix():
    both = pd.concat([TWO, differences({"what": "p_yes", "unit": "share", "value": 0.25, "lower": 0.2, "upper": 0.3})])
    figure = plot_compare(prepare_compare(both, unit="share"))
    assert [t.x[0] for t in figure.data] == [25.0]
    assert "percentage points" in figure.layout.xaxis.title.text
    assert len(prepare_compare(both, unit="points")) == 2


def test_unpaired_rows_say_so_and_missing_bounds_are_not_drawn():
    rows = differences(
        {"what": "auc", "unit": "own unit", "paired": 0, "lower": NAN, "upper": NAN, "method": "no data"}
    )
    figure = plot_compare(prepare_compare(rows, unit="own unit", what="auc"))
    assert "not paired" in figure.layout.title.subtitle.text
    assert figure.data[0].error_x.visible is False


def test_names_are_titles_and_never_markup():
    rows = differences({"attack": "<b>x</b>", "group": "<script>"}, {"attack": "dsi", "variant": "v"})
    prepared = prepare_compare(rows, unit="points", titles={"dsi": "DSI"})
    assert list(prepared["name"]) == ["Mean score: <b>x</b>, <script>", "Mean score: DSI, v"]
    words = " ".join(a.text for a in plot_compare(prepared, note="<i>note</i>").layout.annotations)
    assert "<b>x" not in words
    assert "<script>" not in words


def test_many_rows_are_cut_and_none_says_so():
    many = differences(*({"attack": f"a{k}"} for k in range(MOST_ROWS + 5)))
    assert len(plot_compare(prepare_compare(many, unit="points")).data) == MOST_ROWS
    empty = plot_compare(prepare_compare(many.head(0), unit="points"))
    assert "nothing that both runs measured" in " ".join(a.text for a in empty.layout.annotations)
