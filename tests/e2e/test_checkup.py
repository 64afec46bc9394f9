"""Check-up in a real browser: the recorded one without a call, one of one's own, a threshold, the way on."""

from __future__ import annotations

import json
import re

from playwright.sync_api import expect

from tests.e2e.steps import SETTLED, downloaded, finding, open_page, settle

PATH = "check-up"
JUDGE = "planted:position?strength=1"


def test_from_the_recorded_check_up_to_the_page_behind_a_probe(page, server):
    open_page(page, server.url, PATH)
    expect(page.get_by_text(re.compile("recorded on 20")).first).to_be_visible(timeout=SETTLED)
    expect(page.locator('[class*="st-key-probe_row_"]')).to_have_count(11)

    open_page(page, server.url, PATH, judge=JUDGE, data="demo-pairs")
    expect(page.get_by_text("You see a recorded check-up of the naive judge")).to_be_visible(timeout=SETTLED)
    page.get_by_role("button", name="How much is asked").click()
    items = page.get_by_role("spinbutton", name="Items at most")
    items.fill("12")
    items.press("Enter")
    settle(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Full check-up").click()
    expect(page.get_by_text("The run is done")).to_be_visible(timeout=SETTLED)
    row = page.locator('[class*="st-key-probe_row_order"]')
    expect(row).to_contain_text("fails", timeout=SETTLED)
    expect(page.locator('[class*="st-key-probe_row_paraphrase"]')).to_contain_text("not asked")

    page.get_by_text("Thresholds: what is allowed").click()
    page.get_by_role("slider", name=re.compile("Order bias")).press("End")
    expect(row).to_contain_text("holds", timeout=SETTLED)
    expect(page).to_have_url(re.compile("limit_order=50"))
    settle(page)  # the button below the verdicts is drawn after them
    got = downloaded(page, page.get_by_role("button", name="Verdicts (JSON)"))
    told = json.loads(got.path().read_text())
    assert [p["probe"] for p in told["probes"]][:2] == ["order", "length"]
    assert told["probes"][0]["verdict"] == "holds"

    row.get_by_role("button", name="Details").click()
    page.get_by_role("button", name="Open in Protocols and leaderboard").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Protocols and leaderboard", timeout=SETTLED)
    expect(finding(page).first).to_be_visible(timeout=SETTLED)
