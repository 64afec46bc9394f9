"""Tables of the study pages that belong to no figure: into the report with their run and setting, in one press."""

from __future__ import annotations

import pytest

from dashboard.ui import MOST
from engine.report.basket import load_report
from tests.dashboard.test_pages import go

SWAP = {"data": "demo-verification", "judge": "bundled:judge"}
PAIRS = {"data": "demo-instruction"}


@pytest.mark.parametrize(
    ("page", "query", "key", "title", "about"),
    [
        ("reference_swap", {**SWAP, "swap_tab": "Trade-off", "swap_k": "3"}, "swap_baselines_kept",
         "RefSwap beside its baselines", "K = 3, δ = 2 points"),
        ("reference_swap", {**SWAP, "swap_tab": "One sample"}, "swap_false_kept", "Accepted keys", "K = 5"),
        ("transport_audit", {"mass": "0.3"}, "flipped_map", "Flipped verdicts", "mass 0.30"),
        ("transport_audit", {"audit_tab": "Encoders"}, "audit_encoders_kept", "Encoders compared", "table 3"),
        ("transport_audit", {"audit_tab": "Encoders"}, "audit_ratios_kept", "Share of labelled pairs", "table 6"),
        ("protocols", {**PAIRS, "protocols_tab": "Flips"}, "protocols_flip_list", "Cases: Assertiveness", "recorded:"),
        ("protocols", {**PAIRS, "protocols_k": "2"}, "protocols_ratings_pairwise_kept",
         "Ratings before and after, pairwise", "2 systems rewritten; ties: equal modal score"),
        ("protocols", {**PAIRS, "protocols_tab": "Rewritings"}, "protocols_checks_kept", "What the content checks", ""),
        ("what_holds", {"holds_tab": "Speed"}, "benches", "Benchmarks", "ship with the project"),
    ],
    ids=lambda v: v if isinstance(v, str) and " " not in v else "",
)  # fmt: skip
def test_a_table_goes_into_the_report_with_its_run_and_setting(app, settings, page, query, key, title, about):
    for drawer in ("swap_more", "swap_all", "protocols_flip_closed", "protocols_board"):
        app.session_state[drawer] = True
    at = go(app, f"pages/{page}/page.py", **query)
    at.button(key=f"{key}_add").click().run()
    assert not at.exception, at.exception
    [piece] = load_report(settings.data_dir).pieces
    assert (piece.kind, piece.title.startswith(title)) == ("table", True)
    assert about in piece.drawn.about
    assert 0 < len(piece.drawn.rows) <= MOST
    if page != "what_holds":
        assert "Recorded on 20" in piece.drawn.about
        assert "Run recorded:" in piece.drawn.about
