"""Protocols and leaderboard in a real browser: a plain file of one's own, every tab, a bar's cases, one comparison."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.e2e.steps import SETTLED, choose, data_id, finding, open_page, settle, still_box, two_systems_file, upload

JUDGE = "planted:assertiveness?strength=1&points=0"
PATH = "protocols"


def click_point(page, trace, number):
    """Plotly takes clicks on a layer above its points, so the mouse goes to where the point is."""
    box = still_box(trace.locator("path.point").nth(number))
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 2, y)
    page.mouse.move(x, y)
    page.mouse.click(x, y)


def test_from_a_plain_file_to_the_slopes_and_the_advice(page, server):
    upload(page, server.url, two_systems_file(), JUDGE)  # id, prompt, response and system, and a task without pairs
    open_page(page, server.url, PATH, judge=JUDGE, data=data_id(page))
    expect(finding(page).first).to_contain_text("has not been run on these data yet")
    expect(page.get_by_text("Missing: People's scores")).to_be_visible()
    page.get_by_role("button", name="Quick run").click()
    expect(page.get_by_text("The run is done")).to_be_visible(timeout=SETTLED)
    expect(finding(page).first).to_contain_text("Elo points", timeout=SETTLED)
    expect(page.locator(".st-key-protocols_slope_pairwise .js-plotly-plot")).to_be_visible(timeout=SETTLED)
    expect(page.locator(".st-key-protocols_slope_pointwise .js-plotly-plot")).to_be_visible(timeout=SETTLED)
    page.get_by_role("tab", name="Advice").click()
    # three items are too few for any advice on flips
    expect(page.get_by_text(re.compile("Whether the protocols flip differently is open"))).to_be_visible(
        timeout=SETTLED
    )
    page.get_by_role("tab", name="One comparison").click()
    expect(page.get_by_text(re.compile("Pairwise, P\\(B\\) goes from"))).to_be_visible(timeout=SETTLED)


def test_every_tab_of_the_recorded_run_has_its_figures_and_cases(page, server):
    open_page(page, server.url, PATH, judge="bundled:judge", data="demo-instruction", protocols_tab="Flips")
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(3, timeout=SETTLED)
    before = page.locator(".js-finding").nth(1).inner_text()
    page.get_by_role("button", name="More").click()
    choose(page, "Two scores tie at", "Within a margin")
    expect(page.get_by_role("slider", name="Tie margin (points)")).to_be_visible()
    expect(page.locator(".js-finding").nth(1)).not_to_have_text(before, timeout=SETTLED)
    page.keyboard.press("Escape")
    settle(page)
    # a click on a bar lists its cases: the circle of the second block is pointwise assertiveness
    flips = page.locator(".st-key-protocols_flips .js-plotly-plot").first
    click_point(page, flips.locator(".scatterlayer .trace").nth(1), 1)
    expect(page.get_by_role("heading", name="Cases: Assertiveness, pointwise")).to_be_visible(timeout=SETTLED)
    page.get_by_role("tab", name="Severity").click()
    expect(page.get_by_text(re.compile("Cases: severity 1"))).to_be_visible(timeout=SETTLED)
    page.get_by_role("tab", name="Ties").click()
    expect(page.locator(".st-key-protocols_copies .js-plotly-plot")).to_be_visible(timeout=SETTLED)
    page.get_by_role("tab", name="Circles").click()
    expect(page.get_by_text("Intransitive triads", exact=True)).to_be_visible(timeout=SETTLED)


def test_one_comparison_answers_to_the_strength(page, server):
    open_page(page, server.url, PATH, judge=JUDGE, data="demo-dialogue")
    page.get_by_text("One comparison, live").click()
    expect(finding(page).nth(1)).to_contain_text("Pairwise, P(B) goes from", timeout=SETTLED)
    expect(finding(page).nth(1)).to_contain_text("to 1.00")
    expect(page.locator("ins.js-added").first).to_be_visible()
    page.get_by_role("slider", name="Strength").press("Home")
    expect(finding(page).nth(1)).to_contain_text("leaves this text as it is", timeout=SETTLED)


def test_what_holds_keeps_the_open_paper_when_another_judge_is_chosen(page, server):
    open_page(page, server.url, "what-holds", holds_tab="Pairwise or pointwise")
    main = page.get_by_test_id("stMain")
    main.get_by_role("combobox", name="Judge").click()
    page.get_by_role("option", name="Naive judge (bundled)").click()
    expect(main.get_by_text(re.compile(r"Also the \d+ that cannot be decided"))).to_be_visible(timeout=SETTLED)
    expect(main.get_by_role("tab", name="Pairwise or pointwise")).to_have_attribute("aria-selected", "true")
    expect(main.locator(".js-plotly-plot")).to_be_visible(timeout=SETTLED)
