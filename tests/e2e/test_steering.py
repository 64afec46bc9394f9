"""Steering and anchors in a real browser: the recorded run read out, and a quick run on an own csv, stopped."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.steps import JOB_DONE, PLANTED, SETTLED, data_id, drop_file, finding, open_page, settle

PATH = "steering-and-anchors"


def test_reading_the_recorded_run_from_the_curve_to_the_cost(page, server):
    if not (server.settings.assets / "demo" / "dialogue" / "cap" / "metrics.parquet").is_file():
        pytest.skip("the recorded run of the study is absent; judgescope study cap makes one")
    open_page(page, server.url, PATH, judge="bundled:judge")
    expect(finding(page).first).to_contain_text("scores by", timeout=SETTLED)
    curve = page.get_by_test_id("stPlotlyChart").first
    expect(curve).to_contain_text("How does steering move the judged score?", timeout=SETTLED)
    before = page.get_by_label("Steered high").inner_text()
    page.get_by_role("slider", name="alpha, how hard the tutor is steered").press("Home")
    settle(page)
    expect(page.get_by_label("Steered high")).not_to_have_text(before, timeout=SETTLED)
    expect(page).to_have_url(re.compile(r"alpha=0(&|$)"))
    for tab, title in (("Map", "Do the two sides lie apart?"), ("Attacks", "Do anchors hold the score?")):
        page.get_by_role("tab", name=tab).click()
        settle(page)
        expect(page.get_by_role("tabpanel", name=tab)).to_contain_text(title, timeout=SETTLED)
    with page.expect_download() as got:
        page.get_by_role("tabpanel", name="Attacks").get_by_role("button", name="Data (CSV)").first.click()
    assert got.value.suggested_filename == "cap_grid.csv"
    page.get_by_text("How this was measured", exact=True).click()
    expect(page.get_by_text(re.compile(r"recorded on 20\d\d-\d\d-\d\d")).first).to_be_visible(timeout=SETTLED)


@pytest.mark.slow
@pytest.mark.weights
def test_a_quick_run_on_a_csv_of_ones_own_tells_its_steps_and_stops(page, server, weights):
    lines = [f'r{i},"Where is my order {i}?","Your order {i} leaves on day {i % 5}.",s{i % 2}' for i in range(8)]
    open_page(page, server.url, "data", judge=PLANTED)
    drop_file(page, "support.csv", "\n".join(["id,prompt,response,system", *lines]).encode())
    page.get_by_role("button", name="Save and use this data").click()
    data = data_id(page)
    open_page(page, server.url, PATH, judge=PLANTED, data=data)
    expect(page.get_by_text("Missing: Scores by people")).to_be_visible(timeout=SETTLED)
    page.get_by_role("button", name="Quick run").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible(timeout=SETTLED)
    expect(page.get_by_text(re.compile(r"The tutor writes candidates"))).to_be_visible(timeout=SETTLED)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text(re.compile("What is done is kept"))).to_be_visible(timeout=JOB_DONE)
