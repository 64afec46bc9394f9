"""Compare judges in a real browser: the recorded panel, another tab, its numbers as a file."""

from __future__ import annotations

import csv
import re

from playwright.sync_api import expect

from tests.e2e.steps import SETTLED, downloaded, finding, open_page, settle


def test_from_the_recorded_panel_to_a_file_of_its_numbers(page, server):
    open_page(page, server.url, "compare-judges")
    expect(finding(page).first).to_contain_text("GPT-4 alone agrees with people better", timeout=SETTLED)
    page.get_by_role("tab", name="Cost").click()
    expect(page).to_have_url(re.compile("panel_tab=Cost"))
    settle(page)
    got = downloaded(page, page.locator('[class*="st-key-panel_main_csv"] button'))
    rows = list(csv.DictReader(got.path().open(encoding="utf-8-sig")))
    assert rows[0]["name"] == "GPT-4"
    assert 0.8 < float(rows[0]["value"]) < 0.9
