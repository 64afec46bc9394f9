"""The page What holds: a forest for each paper, with and without decided claims."""

from __future__ import annotations

import pandas as pd
import pytest

from dashboard.pages.what_holds.results import judge_title
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_LLMBAR
from engine.plots.claims import plot_claims
from engine.studies.claims import figures
from engine.studies.claims.figures import PAPERS, forest_rows, frozen_claims
from engine.studies.claims.metrics import Estimate, decide, row_of
from tests.dashboard.test_pages import go, html_of

PAGE = "pages/what_holds/page.py"


@pytest.fixture
def table() -> pd.DataFrame:
    """Every claim decided for one judge, with effects from the other way to beyond the paper's."""
    frozen = frozen_claims(get_settings().assets)
    rows = []
    for i, (claim, on) in enumerate((one, name) for one in frozen.claim for name in one.data):
        value = (i % 7 - 2) * claim.least
        found = Estimate(value, value - claim.least / 3, value + claim.least / 3, "t", 60, 12)
        rows.append(row_of(claim, on, "none" if claim.judges == "none" else "path:<b>x</b>", found, device="cpu"))
    return decide(pd.DataFrame(rows), frozen).assign(commit="abc", date="2026-11-29", command="judgescope")


def test_every_paper_has_its_forest_and_a_headline_counts_what_is_not_by_construction(app, monkeypatch, table):
    monkeypatch.setattr(figures, "stored_claims", lambda _: table)
    for tab in ("CAP", "Pairwise or pointwise"):
        at = go(app, PAGE, holds_tab=tab)
        assert len(at.get("plotly_chart")) == 1
        assert "<b>x</b>" not in html_of(at)
    counted = (table["verdict"] != "by construction").sum()
    assert f"{counted} tests of published claims" in html_of(at)


def test_without_decided_claims_the_page_says_how_to_decide_them(app, monkeypatch, table):
    monkeypatch.setattr(figures, "stored_claims", lambda _: table[:0])
    at = go(app, PAGE, holds_tab="Rules")
    assert "judgescope study claims" in html_of(at)
    assert "frozen on 2026-11-29" in html_of(at)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_forest_shows_every_row_and_stays_within_its_axis(table, paper):
    rows = forest_rows(table, frozen_claims(get_settings().assets), paper)
    assert len(rows) == (table["paper"] == paper).sum()
    fig = plot_claims(rows, title=PAPERS[paper])
    low, high = fig.layout.xaxis.range
    assert all(low <= x <= high for trace in fig.data for x in trace.x)
    words = " ".join(a.text for a in fig.layout.annotations)
    assert words.count("12 items") == len(rows)


def test_a_recorded_judge_is_named_by_who_judged_and_where_it_is_from():
    assert judge_title(f"recorded:{DEMO_LLMBAR}?judge=GPT-4&prompt=Vanilla") == "GPT-4 (recorded, LLMBar)"
