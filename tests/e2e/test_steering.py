"""Steering and anchors in a real browser: the recorded run read out, and a run that says why it cannot go on."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.steps import JOB_DONE, PLANTED, SETTLED, finding, open_page, settle

PATH = "steering-and-anchors"


def test_reading_the_recorded_run_from_the_standards_to_the_cost(page, server):
    if not (server.settings.assets / "demo" / "dialogue" / "cap" / "metrics.parquet").is_file():
        pytest.skip("the recorded run of the study is absent; judgescope study cap makes one")
    open_page(page, server.url, PATH)
    expect(finding(page).first).to_contain_text("without a defense", timeout=SETTLED)
    expect(page.get_by_text(re.compile(r"recorded on 20\d\d-\d\d-\d\d")).first).to_be_visible()
    expect(page.get_by_role("heading", name="Why it holds, or does not")).to_be_visible()
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(3, timeout=SETTLED)
    page.get_by_role("tab", name="Alpha").click()
    settle(page)
    expect(page).to_have_url(re.compile("part=Alpha"))
    before = page.get_by_text(re.compile("Steered high with alpha")).inner_text()
    page.get_by_role("slider", name="alpha, steered high").press("Home")
    settle(page)
    expect(page.get_by_text(re.compile("Steered high with alpha"))).not_to_have_text(before, timeout=SETTLED)
    page.get_by_role("tab", name="Anchors").click()
    expect(page.get_by_text("Shown to the judge as the low one").first).to_be_visible(timeout=SETTLED)
    page.get_by_role("tab", name="Attacks").click()
    expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible(timeout=SETTLED)
    with page.expect_download() as got:
        page.get_by_role("button", name="Data (CSV)").first.click()
    assert got.value.suggested_filename == "cap_grid.csv"


@pytest.mark.slow
@pytest.mark.weights
def test_a_run_with_too_few_candidates_ends_with_the_remedy(page, server, weights):
    open_page(page, server.url, PATH, judge=PLANTED)
    expect(finding(page).first).to_contain_text("has not been run with this judge", timeout=SETTLED)
    page.get_by_text("Run the study on this data", exact=True).click()
    slider = page.get_by_role("slider", name="Candidates per training context and pool")
    expect(slider).to_be_visible(timeout=SETTLED)
    slider.press("Home")
    settle(page)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible(timeout=SETTLED)
    expect(page.get_by_role("alert")).to_contain_text("Raise the candidates per context", timeout=JOB_DONE)
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
