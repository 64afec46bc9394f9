"""Learning a phrase on the bundled judge, and choosing a perplexity threshold, in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.dashboard.test_suffix_panels import saved_readings, saved_run
from tests.e2e.steps import JOB_DONE, PLANTED, SETTLED, finding, open_page, settle


@pytest.mark.slow
@pytest.mark.weights
def test_a_phrase_is_learned_live_and_used(page, server, weights):
    open_page(page, server.url, "attack-lab", tab="Learn a phrase")
    for label in ("Words of the phrase", "Words tried at each step", "Responses to learn on"):
        page.get_by_role("slider", name=label).press("Home")
        settle(page)
    page.get_by_label("Name of the phrase").fill("journey")
    page.get_by_label("Name of the phrase").press("Enter")
    settle(page)
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible(timeout=SETTLED)
    expect(finding(page).first).to_contain_text(re.compile("Best so far|Learned|Without a phrase"), timeout=JOB_DONE)
    expect(finding(page).nth(1)).to_contain_text("items it was not learned on, its 1 word", timeout=JOB_DONE)
    page.get_by_role("button", name="Attack one response with it").click()
    expect(page).to_have_url(re.compile(r"attack=suffix%3Ajourney"), timeout=SETTLED)
    expect(finding(page).first).to_contain_text("Learned suffix (journey, 1 word", timeout=JOB_DONE)


def test_a_stored_search_is_shown_and_a_planted_judge_has_none(page, server):
    saved_run(server.settings)
    open_page(page, server.url, "attack-lab", tab="Learn a phrase")
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(2, timeout=SETTLED)
    expect(finding(page).first).to_contain_text("“")
    open_page(page, server.url, "attack-lab", tab="Learn a phrase", judge=PLANTED)
    expect(finding(page).first).to_contain_text("this judge has no model here")


def test_a_threshold_is_dragged_and_used_as_a_defense(page, server):
    saved_readings(server.settings)
    open_page(page, server.url, "attack-lab", tab="Perplexity threshold", judge=PLANTED)
    expect(page.get_by_text("best F1 on the fitting side")).to_be_visible(timeout=SETTLED)
    before = finding(page).first.inner_text()
    page.get_by_role("slider").press("End")
    expect(page.get_by_text("set by hand")).to_be_visible()
    assert finding(page).first.inner_text() != before
    page.get_by_role("button", name="Use this threshold as a defense").click()
    expect(page).to_have_url(re.compile(r"defense=perplexity%3Fthreshold"), timeout=SETTLED)
    expect(page.get_by_text(re.compile(r"Perplexity \(threshold [0-9]")).first).to_be_visible(timeout=SETTLED)
