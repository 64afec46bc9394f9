"""Each figure as data: literal rows in, coordinates and words out."""

import json
import math

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import METRICS
from engine.plots.grid import plot_grid, prepare_grid
from engine.plots.rows import plot_forest, prepare_forest
from engine.plots.shifts import plot_distribution, plot_dumbbells, prepare_distribution, prepare_dumbbells
from engine.plots.theme import MEANING, MODES, ROLES

NAN = math.nan
LABELS, VALUES = ("1", "2", "3", "4", "5"), (1.0, 2.0, 3.0, 4.0, 5.0)
CLEAN = {"score": 2.5, "coverage": 0.99, "probabilities": [0.1, 0.4, 0.4, 0.1, 0.0], "unread_reason": ""}
ATTACKED = {"score": 3.8, "coverage": 0.98, "probabilities": [0, 0.1, 0.2, 0.5, 0.2], "unread_reason": None}
UNREAD = {"score": None, "coverage": 0.3, "probabilities": None, "unread_reason": "coverage <0.5"}
HOSTILE = '<b>x</b> & "y"'


def texts(fig):
    return [a.text for a in fig.layout.annotations]


def traces(fig, kind):
    return [t for t in fig.data if t.type == kind]


def shifts(*rows):
    """Rows (response, clean, attacked)."""
    return pd.DataFrame(
        [
            {
                "response_id": r,
                "item_id": "i",
                "attack": "dsi",
                "defense": "none",
                "clean": clean,
                "attacked": attacked,
                "shift": attacked - clean,
                "unread_reason": None if attacked == attacked else "attacked: coverage 0.3",
            }
            for r, clean, attacked in rows
        ],
        columns=["response_id", "item_id", "attack", "defense", "clean", "attacked", "shift", "unread_reason"],
    )


def metrics(*rows):
    """Rows (attack, defense, value, lower, upper[, method, n])."""
    return METRICS.conform(
        pd.DataFrame(
            [
                {
                    "metric": metric,
                    "attack": attack,
                    "defense": defense,
                    "value": value * factor,
                    "lower": lower * factor,
                    "upper": upper * factor,
                    "level": 0.95,
                    "method": (rest or ["t, clustered by item"])[0],
                    "n": rest[1] if len(rest) > 1 else 48,
                    "n_clusters": 12,
                    "n_unread": 1,
                }
                for attack, defense, value, lower, upper, *rest in rows
                for metric, factor in (("mean", 1), ("shift", 1), ("relative_shift", 0.1))
            ]
        )
    )


ARMS = metrics(
    ("dsi", "sandwich", 0.1, -0.05, 0.25),
    ("dsi", "none", 0.51, 0.38, 0.66),
    ("bed", "none", 0.0, NAN, NAN, "no variation"),
)
TITLES = {"dsi": "DSI", "bed": "BED", "sandwich": "Sandwich"}


class TestDistribution:
    def test_table(self):
        got = prepare_distribution(LABELS, VALUES, CLEAN, ATTACKED)
        assert list(got["arm"]) == ["clean"] * 5 + ["attacked"] * 5
        assert list(got["probability"][:5]) == CLEAN["probabilities"]
        assert set(got["score"]) == {2.5, 3.8}

    def test_bars_and_scores_share_the_axis(self):
        fig = plot_distribution(prepare_distribution(LABELS, VALUES, CLEAN, ATTACKED), names=("before", "with DSI"))
        bars = traces(fig, "bar")
        assert [list(b.y) for b in bars] == [CLEAN["probabilities"], ATTACKED["probabilities"]]
        assert bars[0].marker.line.color == MEANING["light"]["clean"]
        assert bars[0].marker.color == ROLES["light"]["faint"]  # hollow: told apart in greyscale
        assert bars[1].marker.color == MEANING["light"]["attacked"]
        assert [list(t.x) for t in traces(fig, "scatter") if t.mode == "markers"] == [[2.5], [3.8]]
        assert texts(fig) == ["before <b>2.50</b>", "with DSI <b>3.80</b>"]
        assert tuple(fig.layout.xaxis.range) == pytest.approx((0.4, 5.6))

    def test_line_joins_the_scores(self):
        fig = plot_distribution(prepare_distribution(LABELS, VALUES, CLEAN, ATTACKED))
        (line,) = [t for t in traces(fig, "scatter") if t.mode == "lines"]
        assert (line.x[0], line.x[-1]) == (2.5, 3.8)

    def test_unread_is_grey_and_said(self):
        fig = plot_distribution(prepare_distribution(LABELS, VALUES, CLEAN, UNREAD))
        assert traces(fig, "bar")[1].marker.color == MEANING["light"]["unread"]
        assert texts(fig)[1] == "with attack: unread (coverage &lt;0.5)"
        assert not [t for t in traces(fig, "scatter") if t.mode == "lines"]

    def test_clean_alone(self):
        fig = plot_distribution(prepare_distribution(LABELS, VALUES, CLEAN))
        assert len(traces(fig, "bar")) == 1

    def test_names_are_inert(self):
        fig = plot_distribution(
            prepare_distribution(LABELS, VALUES, CLEAN, ATTACKED), names=("a", HOSTILE), note=HOSTILE
        )
        assert texts(fig)[1].startswith("&lt;b&gt;x&lt;/b&gt; &amp;")
        assert "<b>" not in fig.layout.title.subtitle.text

    def test_refusals(self):
        with pytest.raises(InputError, match="4 labels, 5 values"):
            prepare_distribution(LABELS[:4], VALUES, CLEAN)
        with pytest.raises(InputError, match="at least one label"):
            prepare_distribution((), (), {})


class TestDumbbells:
    ROWS = shifts(("fell", 3.0, 2.0), ("rose", 1.0, 3.5), ("same", 2.0, 2.0), ("unread", 4.0, NAN), ("up", 2.0, 2.5))

    def test_sorted_by_change_unread_last(self):
        got = prepare_dumbbells(self.ROWS, attack="dsi", names={"up": "Up!"})
        assert list(got["name"]) == ["rose", "Up!", "same", "fell", "unread"]
        assert got.loc[0, ["n_read", "n_unread", "n_raised", "n_lowered"]].tolist() == [4, 1, 2, 1]

    def test_coordinates(self):
        fig = plot_dumbbells(prepare_dumbbells(self.ROWS, attack="dsi"))
        lines, clean, attacked, unread = fig.data
        assert list(lines.x)[:3] == [1.0, 3.5, None]
        assert list(clean.x) == [1.0, 2.0, 2.0, 3.0]
        assert list(attacked.x) == [3.5, 2.5, 2.0, 2.0]
        assert (list(unread.x), list(unread.y)) == ([4.0], [4])
        assert unread.marker.line.color == MEANING["light"]["unread"]
        assert tuple(fig.layout.xaxis.range) == pytest.approx((0.84, 5.16))
        assert texts(fig) == ["+2.50", "+0.50", "0", "−1.00", "unread", "shift", "0"]

    def test_zero_line_stands_below_the_rises(self):
        fig = plot_dumbbells(prepare_dumbbells(self.ROWS, attack="dsi"))
        (zero,) = fig.layout.shapes
        assert zero.y0 == zero.y1 == 1.5
        all_rise = plot_dumbbells(prepare_dumbbells(shifts(("a", 1.0, 2.0), ("b", 1.0, 3.0)), attack="dsi"))
        assert not all_rise.layout.shapes

    def test_two_hundred_rows_show_the_most_changed_forty(self):
        rows = shifts(*[(f"r{i}", 3.0, 3.0 + (i - 100) / 100) for i in range(200)])
        got = prepare_dumbbells(rows, attack="dsi")
        assert len(got) == 40
        assert got["shift"].abs().min() == pytest.approx(0.8)
        assert got["shift"].is_monotonic_decreasing
        assert (got["n_read"] == 200).all()
        fig = plot_dumbbells(got)
        assert fig.layout.title.subtitle.text.startswith("the 40 most changed of 200 responses")
        assert fig.layout.height < 1400

    def test_one_row_none_and_hostile_names(self):
        one = plot_dumbbells(prepare_dumbbells(shifts((HOSTILE, 1.0, 2.0)), attack="dsi"))
        assert one.layout.yaxis.ticktext[0].startswith("&lt;b&gt;x")
        assert one.data[1].customdata[0][0].startswith("&lt;b&gt;x")
        none = plot_dumbbells(prepare_dumbbells(self.ROWS, attack="other"))
        assert texts(none) == ["no responses under this attack have been judged yet"]

    def test_all_unread(self):
        fig = plot_dumbbells(prepare_dumbbells(shifts(("a", NAN, NAN), ("b", 1.0, NAN)), attack="dsi"))
        assert texts(fig)[:2] == ["unread", "unread"]
        assert list(fig.data[3].x) == [None, 1.0]


class TestGrid:
    def test_table(self):
        got = prepare_grid(ARMS, titles=TITLES)
        cells = got.set_index(["attack", "defense"])
        assert list(got["defense"].unique()) == ["none", "sandwich"]
        assert cells["covers_zero"].to_dict() == {
            ("dsi", "none"): False,
            ("dsi", "sandwich"): True,
            ("bed", "none"): True,
            ("bed", "sandwich"): False,
        }
        assert math.isnan(cells.loc[("bed", "sandwich"), "value"])
        assert cells.loc[("dsi", "none"), "defense_title"] == "No defense"

    def test_cells(self):
        fig = plot_grid(prepare_grid(ARMS, titles=TITLES))
        (heat,) = fig.data
        assert [list(line) for line in heat.z] == [[0.51, 0.1], [0.0, None]]
        assert (heat.zmin, heat.zmax) == (-0.51, 0.51)
        assert texts(fig) == [
            "<b>+0.510</b>",
            "[0.380, 0.660]",
            "<b>+0.100</b>",
            "[−0.050, 0.250]",
            "<b>0</b>",
            "no variation<br>in 12 items",
            "not run",
        ]
        hatched = [s for s in fig.layout.shapes if s.type == "path"]
        assert len(hatched) == 2
        assert "hatched: the interval covers zero" in fig.layout.title.subtitle.text

    def test_many_defenses_are_rows_and_no_name_is_cut(self):
        names = ("none", "cot", "perplexity", "random-anchors", "human-anchors", "wcap", "cap")
        titles = {"cot": "Chain of thought", "human-anchors": "Human-rated anchors", "suffix": "Learned suffix"}
        arms = [(a, d, 0.1 * k, 0.0, 0.9) for a in ("dsi", "suffix") for k, d in enumerate(names)]
        fig = plot_grid(prepare_grid(metrics(*arms), titles=titles))
        assert (len(fig.data[0].z), len(fig.data[0].z[0])) == (7, 2)
        assert fig.data[0].z[2] == pytest.approx((0.2, 0.2))  # perplexity against both attacks
        assert fig.layout.yaxis.ticktext[1] == "Chain of<br>thought"
        assert fig.layout.yaxis.ticktext[4] == "Human-rated<br>anchors"
        assert list(fig.layout.xaxis.ticktext) == ["dsi", "Learned suffix"]
        assert fig.layout.meta["least_width"] < 390

    def test_hatching_stays_in_its_cell(self):
        fig = plot_grid(prepare_grid(ARMS))
        first = next(s for s in fig.layout.shapes if s.type == "path")  # dsi, sandwich: row 0, column 1
        points = [tuple(map(float, p.split(","))) for p in first.path.replace("L", "M").split("M") if p]
        assert all(0.5 < x < 1.5 and -0.5 < y < 0.5 for x, y in points)

    def test_scale_does_not_inflate_small_effects(self):
        fig = plot_grid(prepare_grid(metrics(("dsi", "none", 0.02, 0.01, 0.03))))
        assert fig.data[0].zmax == 0.5

    def test_all_unread_and_empty(self):
        fig = plot_grid(prepare_grid(metrics(("dsi", "none", NAN, NAN, NAN, "no data", 0))))
        assert texts(fig) == ["unread", "1 pair"]
        assert texts(plot_grid(prepare_grid(METRICS.empty()))) == ["no attacked responses have been judged yet"]

    def test_percent(self):
        fig = plot_grid(prepare_grid(ARMS, metric="relative_shift"))
        assert fig.data[0].z[0][0] == pytest.approx(5.1)

    def test_names_are_inert(self):
        fig = plot_grid(prepare_grid(ARMS, titles={"dsi": HOSTILE, "sandwich": HOSTILE}))
        said = json.dumps(
            [fig.layout.yaxis.ticktext, fig.layout.xaxis.ticktext, [list(r) for r in fig.data[0].customdata]]
        )
        assert "<b>" not in said

    def test_other_metrics_are_refused(self):
        with pytest.raises(InputError, match="shift or relative_shift"):
            prepare_grid(ARMS, metric="mean")


class TestForest:
    def test_table_puts_the_undefended_arm_first(self):
        got = prepare_forest(ARMS, titles=TITLES)
        assert list(got["name"]) == ["DSI", "DSI, Sandwich", "BED"]

    def test_points_intervals_and_null(self):
        fig = plot_forest(prepare_forest(ARMS, titles=TITLES))
        first, second, third = fig.data
        assert (first.x[0], first.error_x.array[0], first.error_x.arrayminus[0]) == pytest.approx((0.51, 0.15, 0.13))
        assert first.marker.color == MEANING["light"]["attacked"]
        assert second.marker.color == MEANING["light"]["defended"]
        assert third.error_x.visible is False
        assert third.marker.line.color == MEANING["light"]["unread"]
        assert (fig.layout.shapes[0].x0, fig.layout.shapes[0].x1) == (0, 0)
        low, high = fig.layout.xaxis.range
        assert low < -0.05
        assert high > 0.66
        assert texts(fig)[1] == "<b>+0.510 [0.380, 0.660]</b>"
        assert texts(fig)[5] == "<b>0 (no variation in 12 items)</b>"
        assert "95\u202f% intervals (t, clustered by item)" in fig.layout.title.subtitle.text
        assert "n = 48 responses of 12 items · 3 pairs unread" in fig.layout.title.subtitle.text

    def test_zero_stays_in_view(self):
        fig = plot_forest(prepare_forest(metrics(("dsi", "none", 2.0, 1.9, 2.1))))
        assert fig.layout.xaxis.range[0] < 0

    def test_unread_and_empty(self):
        fig = plot_forest(prepare_forest(metrics(("dsi", "none", NAN, NAN, NAN, "no data", 0))))
        assert texts(fig) == ["dsi", "no read pair"]
        assert len(fig.data) == 0
        assert texts(plot_forest(prepare_forest(METRICS.empty()))) == ["no attacked responses have been judged yet"]

    def test_percent_and_inert_names(self):
        fig = plot_forest(prepare_forest(ARMS, metric="relative_shift", titles={"dsi": HOSTILE}))
        assert texts(fig)[1] == "<b>+5.10\u202f% [3.80, 6.60]</b>"
        assert texts(fig)[0].startswith("&lt;b&gt;x")


@pytest.mark.parametrize("mode", MODES)
def test_every_figure_brings_its_template_title_and_alt_text(mode):
    figs = [
        plot_distribution(prepare_distribution(LABELS, VALUES, CLEAN, ATTACKED), mode=mode),
        plot_dumbbells(prepare_dumbbells(TestDumbbells.ROWS, attack="dsi"), mode=mode),
        plot_grid(prepare_grid(ARMS), mode=mode),
        plot_forest(prepare_forest(ARMS), mode=mode),
    ]
    for fig in figs:
        assert fig.layout.template.layout.paper_bgcolor == ROLES[mode]["background"]
        assert fig.layout.title.text.endswith("?")
        assert len(fig.layout.title.text) <= 45
        assert len(fig.layout.meta["alt"]) > 20
        json.loads(fig.to_json())


def test_one_item_is_one_item_in_the_small_print():
    fig = plot_grid(prepare_grid(ARMS.assign(n=1, n_clusters=1)))
    assert "n = 1 response of 1 item" in fig.layout.meta["notes"]
