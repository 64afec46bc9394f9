"""What the audit's figures draw: numbers as they are in the table, ids for the lasso, nothing invented."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.core.schema import METRICS
from engine.plots.theme import MODES
from engine.studies.transport_audit import drawings, figures
from engine.studies.transport_audit.metrics import HYPERGEOMETRIC
from engine.studies.transport_audit.study import AUDIT


def metrics(n: int = 20) -> pd.DataFrame:
    made = []
    for group in (None, "A math", "<b>B</b>"):
        for name, value in (("cons_orig", 0.4), ("cons_adj", 0.7), ("gain", 0.3), ("cons_random", 0.5)):
            few = group == "<b>B</b>"
            made.append(
                {
                    "metric": name,
                    "attack": "none",
                    "defense": "none",
                    "group": group,
                    "value": value,
                    "lower": np.nan if few else value - 0.1,
                    "upper": np.nan if few else value + 0.1,
                    "level": 0.95,
                    "method": "fewer than 10 pairs" if few else "bootstrap of items",
                    "n": 3 if few else n,
                    "n_clusters": 3 if few else n,
                }
            )
    return METRICS.conform(pd.DataFrame(made))


def audit_rows(n: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = [
        {
            "split": 0,
            "attack": "none",
            "comparison_id": f"p{i}",
            "item_id": f"i{i}",
            "type": "AB"[i % 2],
            "role": "positive" if i < 8 else "denoised" if i < 10 else "unlabelled",
            "place": i,
            "entry_mass": np.nan if i < 10 else (i - 10) / (n - 10),
            "entry_price": np.nan if i < 10 else 0.1 + i / n,
            "agrees": [1.0, 0.0, np.nan][i % 3],
            "pca_x": rng.normal(),
            "pca_y": rng.normal(),
        }
        for i in range(n)
    ]
    rows = AUDIT.conform(pd.DataFrame(made))
    share = np.where(rows["role"] == "unlabelled", 0.5, np.nan)
    return rows.assign(flip=rows["entry_mass"] >= 0.5, stability=share)


def test_controls_draw_the_intervals_of_the_table():
    prepared = drawings.prepare_controls(metrics(), ["cons_adj", "cons_random", "cons_absent"])
    assert prepared["metric"].tolist() == ["cons_adj", "cons_random"]
    fig = drawings.plot_controls(prepared, drawings.CONSISTENCY, title="Q?")
    drawn = [(t.x[0], t.x[0] - t.error_x.arrayminus[0], t.x[0] + t.error_x.array[0]) for t in fig.data]
    assert drawn == [pytest.approx((0.7, 0.6, 0.8)), pytest.approx((0.5, 0.4, 0.6))]
    assert "0.700 [0.600, 0.800]" in fig.layout.meta["alt"]
    assert "20 pairs" in fig.layout.title.subtitle.text


def test_types_show_before_and_after_and_grey_out_what_is_too_few():
    prepared = drawings.prepare_types(metrics())
    assert prepared["type"].tolist() == ["<b>B</b>", "A math"]
    assert prepared["enough"].tolist() == [False, True]
    fig = drawings.plot_types(prepared)
    assert "too few" in fig.layout.meta["alt"]
    texts = " ".join(a.text for a in fig.layout.annotations)
    assert "&lt;b&gt;B" in texts
    marks = [t for t in fig.data if t.mode == "lines+markers"]
    assert [list(t.x) for t in marks] == [[0.4, 0.7], [0.4, 0.7]]


def test_items_count_what_is_kept_and_keep_their_ids():
    prepared = figures.prepare_items(audit_rows())
    assert len(prepared) == 20
    assert prepared["kept"].sum() == 10
    assert prepared["entry_mass"].is_monotonic_increasing
    fig = figures.plot_items(prepared, 0.5)
    ids = [i for t in fig.data if t.type == "scatter" for i in t.customdata]
    assert sorted(ids) == sorted(prepared["comparison_id"])
    assert "10 of 20" in fig.layout.title.subtitle.text


def test_few_entry_masses_are_all_drawn_and_many_as_shares_that_sum_to_one():
    agrees = np.r_[np.ones(30), np.zeros(15), np.full(5, np.nan)]
    few = figures.plot_density(figures.prepare_density(np.linspace(0, 1, 50), agrees), 0.5)
    assert [(len(t.x), t.name) for t in few.data] == [
        (30, "agrees (n = 30)"),
        (15, "disagrees (n = 15)"),
        (5, "unknown (n = 5)"),
    ]
    many = figures.plot_density(figures.prepare_density(np.linspace(0, 1, 250), np.repeat(agrees, 5)), 0.5)
    assert [sum(t.y[:-1]) for t in many.data] == pytest.approx([1, 1, 1])
    assert figures.prepare_density([0.2, np.nan], [1.0, 1.0])["entry_mass"].tolist() == [0.2]


def test_sensitivity_draws_random_flips_in_their_band_and_marks_masses():
    own = pd.DataFrame(
        [
            {
                "metric": "sensitivity_cons_adj",
                "attack": "none",
                "group": g,
                "value": v,
                "lower": v - 0.1,
                "upper": v + 0.1,
                "level": 0.95,
                "n": 40,
            }
            for g, v in (("0.50", 0.6), ("0.20", 0.5))
        ]
    )
    random = pd.DataFrame({"mass": [0.2, 0.5], "random": [0.4, 0.5], "random_lower": [0.35, np.nan]})
    prepared = figures.prepare_sensitivity(METRICS.conform(own), random.assign(random_upper=[0.45, np.nan]))
    assert prepared["mass"].tolist() == [0.2, 0.5]
    assert prepared["random"].tolist() == [0.4, 0.5]
    fig = figures.plot_sensitivity(prepared, 0.3, {"estimated": 0.25})
    audit, flips = [t for t in fig.data if t.fill == "toself"]
    assert list(audit.y) == pytest.approx([0.6, 0.7, 0.5, 0.4])
    assert list(flips.y) == pytest.approx([0.45, 0.35])  # only where there is a band
    assert any("estimated 0.25" in a.text for a in fig.layout.annotations)


@pytest.mark.parametrize("colour", drawings.COLOURS)
def test_the_map_carries_every_id_once(colour):
    prepared = drawings.prepare_map(audit_rows())
    fig = drawings.plot_map(prepared, colour)
    ids = [i for t in fig.data for i in t.customdata]
    assert sorted(ids) == sorted(audit_rows()["comparison_id"])
    assert (prepared["decision"] == "flipped").sum() == 10
    assert drawings.prepare_map(audit_rows(), "UMAP").empty


def test_large_maps_are_thinned_with_every_role_at_its_share():
    big = pd.DataFrame({"role": ["positive"] * 2000 + ["unlabelled"] * 8000, "v": range(10000)})
    drawn = drawings.thinned(big, "role")
    assert len(drawn) <= drawings.MOST_DRAWN
    assert drawn["role"].value_counts().to_dict() == {"unlabelled": 4000, "positive": 1000}
    assert drawings.thinned(big.head(10), "role") is not big
    assert len(drawings.thinned(big.head(10), "role")) == 10


def test_a_large_map_keeps_every_type_at_its_share_within_each_role():
    many = pd.concat([audit_rows(1000)] * 12, ignore_index=True)
    many["type"] = np.where(np.arange(len(many)) % 10 == 0, "rare", "often")
    drawn = drawings.prepare_map(many)
    assert len(drawn) <= drawings.MOST_DRAWN
    for role, own in drawn.groupby("role"):
        wanted = (many.loc[many["role"] == role, "type"] == "rare").mean()
        assert (own["type"] == "rare").mean() == pytest.approx(wanted, abs=0.01 + 1 / len(own)), role


def test_the_small_print_names_each_way_an_interval_was_made_and_why_one_is_missing():
    own = metrics()
    own.loc[own["metric"] == "cons_orig", "method"] = "Wilson, n = items"
    own.loc[own["metric"] == "cons_random", ["lower", "upper", "method"]] = [np.nan, np.nan, "no variation"]
    band = own[own["metric"] == "cons_adj"].assign(metric="cons_all", method=HYPERGEOMETRIC)
    chosen = ["cons_adj", "cons_orig", "cons_random", "cons_all"]
    fig = drawings.plot_controls(
        drawings.prepare_controls(pd.concat([own, band]), chosen), drawings.CONSISTENCY, title="Q?"
    )
    printed = fig.layout.title.subtitle.text.replace("<br>", " ")
    assert f"(bootstrap of items; Wilson, n = items; {HYPERGEOMETRIC})" in printed
    assert "no variation in 20 items" in fig.layout.meta["alt"]


def test_types_with_masses_of_their_own_have_a_cut_each_under_one_name():
    fig = figures.plot_items(figures.prepare_items(audit_rows()), [0.9, 0.2])
    assert [s.x0 for s in fig.layout.shapes] == [0.2, 0.9]
    assert [a.text for a in fig.layout.annotations if "m =" in a.text] == ["m = 0.20 to 0.90 by type"]
    assert "the cut of their type" in fig.layout.title.subtitle.text


@pytest.mark.parametrize("mode", MODES)
def test_every_figure_draws_also_with_nothing_to_draw(mode):
    nothing = audit_rows().iloc[:0]
    no_random = pd.DataFrame(columns=["mass", "random", "random_lower", "random_upper"], dtype=float)
    drawn = [
        drawings.plot_controls(
            drawings.prepare_controls(METRICS.empty(), ["cons_adj"]), drawings.AUC, mode=mode, title="Q?"
        ),
        drawings.plot_types(drawings.prepare_types(METRICS.empty()), mode=mode),
        figures.plot_items(figures.prepare_items(nothing), 0.5, mode=mode),
        figures.plot_density(figures.prepare_density([], []), 0.5, mode=mode),
        figures.plot_sensitivity(figures.prepare_sensitivity(METRICS.empty(), no_random), 0.5, {}, mode=mode),
        drawings.plot_map(drawings.prepare_map(nothing), mode=mode),
    ]
    for fig in drawn:
        assert fig.layout.meta["alt"]
        assert len(fig.layout.title.text) <= 45


def test_the_map_needs_no_webgl_which_compiles_code_that_the_content_policy_forbids():
    rows = pd.DataFrame(
        {"comparison_id": ["p", "q"], "type": "A", "role": ["positive", "unlabelled"], "entry_mass": [np.nan, 0.5],
         "agrees": [np.nan, 1.0], "flip": [False, True], "pca_x": [0.0, 1.0], "pca_y": [1.0, 0.0]}
    )  # fmt: skip
    for colour in drawings.COLOURS:
        figure = drawings.plot_map(drawings.prepare_map(rows, "PCA"), colour, kind="PCA")
        assert {trace.type for trace in figure.data} == {"scatter"}
