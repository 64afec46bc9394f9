"""Protocols and leaderboard in a real browser: run a judge, read every tab, click a bar for its cases, compare live."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.e2e.steps import SETTLED, choose, finding, open_page, settle, still_box

JUDGE = "planted:assertiveness?strength=1&points=0"
PATH = "protocols"


def click_point(page, trace, number):
    """Plotly takes clicks on a layer above its points, so the mouse goes to where the point is."""
    box = still_box(trace.locator("path.point").nth(number))
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 2, y)
    page.mouse.move(x, y)
    page.mouse.click(x, y)


def test_from_a_run_to_the_advice(page, server):
    open_page(page, server.url, PATH, judge=JUDGE, data="demo-instruction")
    expect(finding(page).first).to_contain_text("has not been run on these data here yet")
    page.get_by_text("Run this judge here").first.click()
    items = page.get_by_role("spinbutton", name="Items at most")
    items.fill("3")
    items.press("Enter")
    settle(page)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(finding(page).first).to_contain_text("clean losers now win", timeout=SETTLED)
    expect(page.get_by_text("The run is done")).to_be_visible(timeout=SETTLED)
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(2)
    expect(page.get_by_role("heading", name="Cases: Assertiveness, pairwise")).to_be_visible()

    before = finding(page).first.inner_text()
    choose(page, "Two scores tie at", "Within a margin")
    expect(page.get_by_role("slider", name="Tie margin (points)")).to_be_visible()
    expect(finding(page).first).not_to_have_text(before)

    settle(page)
    # a click on a bar lists its cases: the circle of the second block is pointwise assertiveness
    click_point(page, page.locator(".js-plotly-plot").first.locator(".scatterlayer .trace").nth(1), 1)
    expect(page.get_by_role("heading", name="Cases: Assertiveness, pointwise")).to_be_visible(timeout=SETTLED)

    page.get_by_role("tab", name="Severity").click()
    expect(page.get_by_role("heading", name=re.compile("Cases: severity 1"))).to_be_visible(timeout=SETTLED)
    page.get_by_role("tab", name="Leaderboard").click()
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(4, timeout=SETTLED)
    moved = "Of the {} rewritten, .* (gains most|loses least|moves least)"
    expect(page.get_by_text(re.compile(moved.format(3)))).to_have_count(2)
    page.get_by_role("slider", name="Lowest systems rewritten").press("Home")
    expect(page.get_by_text(re.compile(moved.format(1)))).to_have_count(2, timeout=SETTLED)
    page.get_by_role("tab", name="Ties and order").click()
    expect(page.get_by_text("Intransitive triads", exact=True)).to_be_visible(timeout=SETTLED)
    with page.expect_download() as got:
        page.get_by_role("button", name="Data (CSV)").first.click()
    assert got.value.suggested_filename == "protocols_copies.csv"
    page.get_by_role("tab", name="Advice").click()
    # three items are too few for any advice on flips
    expect(page.get_by_text(re.compile("Whether the protocols flip differently is open"))).to_be_visible(
        timeout=SETTLED
    )


def test_one_comparison_answers_to_the_strength(page, server):
    open_page(page, server.url, PATH, judge=JUDGE, data="demo-dialogue", protocols_part="One comparison")
    expect(page.get_by_text("shown are the demo ones")).to_be_visible()
    expect(finding(page).first).to_contain_text("Pairwise, P(B) goes from", timeout=SETTLED)
    expect(finding(page).first).to_contain_text("to 1.00")
    expect(page.locator("ins.js-added").first).to_be_visible()
    page.get_by_role("slider", name="Strength").press("Home")
    expect(finding(page).first).to_contain_text("leaves this text as it is", timeout=SETTLED)
