"""What a newcomer does, in a real browser against a real server."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.steps import (
    JOB_DONE,
    PLANTED,
    SETTLED,
    data_id,
    downloaded,
    finding,
    open_page,
    semicolon_file,
    settle,
    upload,
)

SLOW = "planted:injection?delay=60"  # 26 s: long enough for a reload on a busy machine
MARKUP = "<script>window.hit=1</script><img src=x onerror='window.hit=1'><b>b</b> **star** ![p](http://127.0.0.9/p.png)"


def test_the_demo_is_there_on_opening_and_marked_as_recorded(page, server):
    open_page(page, server.url)
    expect(page.locator(".js-tile")).to_have_count(5)
    expect(page.get_by_text("How this was measured")).to_be_visible()
    page.get_by_text("How this was measured").click()
    expect(page.get_by_text(re.compile(r"recorded on 20\d\d-\d\d-\d\d")).first).to_be_visible()
    page.get_by_role("button", name="Attack a response").click()
    expect(page.get_by_role("heading", name="Attack lab")).to_be_visible()
    expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible()
    settle(page)
    # the live answer draws the page anew, which takes back the files that were offered before
    expect(page.get_by_text("until then the answer above stands")).to_have_count(0, timeout=SETTLED)
    for label, start in (("Data (CSV)", b"\xef\xbb\xbf"), ("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        got = downloaded(page, page.get_by_role("button", name=label).first)
        assert Path(got.path()).read_bytes().startswith(start)


def test_the_first_visit_of_all_may_be_a_deep_link(browser, fresh_server):
    tab = browser.new_page()
    open_page(tab, fresh_server.url, "protocols", judge=PLANTED)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Protocols and leaderboard")
    expect(tab.get_by_role("dialog")).to_have_count(0)
    tab.close()


@pytest.mark.weights
def test_upload_map_attack_and_see_the_real_judge_move(page, server, weights):
    upload(page, server.url, semicolon_file(), "bundled:judge")
    page.get_by_role("link", name="Attack lab").click()
    expect(finding(page).first).to_contain_text(re.compile(r"(lifts|lowers|leaves) this response"), timeout=JOB_DONE)
    expect(page.locator("ins.js-added")).to_contain_text("exceptionally high score")
    expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible()


def test_upload_map_attack_and_see_a_planted_judge_move(page, server):
    upload(page, server.url, semicolon_file("Beans grow here, she said."), PLANTED)
    page.get_by_role("link", name="Attack lab").click()
    expect(finding(page).first).to_contain_text("lifts this response", timeout=SETTLED)
    expect(page).to_have_url(re.compile(r"data=[0-9a-f]{16}"))
    expect(page.get_by_text(re.compile(r"Human-rated anchors \(scores by people missing\)"))).to_be_visible()
    page.locator(".st-key-defense").get_by_text("Delimiters", exact=True).click()
    expect(finding(page).first).to_contain_text("Behind delimiters it moves by", timeout=SETTLED)


@pytest.mark.slow
def test_a_job_outlives_a_reload_stops_and_resumes(page, server):
    open_page(page, server.url, "attack-lab", judge=SLOW, tab="Whole set")
    page.get_by_role("button", name="Run", exact=True).click()
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    expect(page).to_have_url(re.compile("job="))
    page.reload()
    expect(stop).to_be_visible(timeout=SETTLED)
    expect(page.get_by_text(re.compile(r"of 432 judge calls, about"))).to_be_visible(timeout=SETTLED)
    expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible(timeout=SETTLED)
    stop.click()
    expect(page.get_by_text(re.compile(r"Stopped at [1-9].* What is done is kept"))).to_be_visible(timeout=SETTLED)
    expect(page.get_by_text(re.compile("stopped, partial")).first).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("The run is done: 432 judge calls")).to_be_visible(timeout=JOB_DONE)
    expect(finding(page).first).to_contain_text("on 48 responses")


def test_markup_in_a_response_stays_text_on_every_page(page, server):
    upload(page, server.url, semicolon_file(MARKUP.replace('"', "")), PLANTED)
    data = data_id(page)
    for path, tab in (("", ""), ("data", ""), ("attack-lab", "One response"), ("attack-lab", "Whole set")):
        open_page(page, server.url, path, judge=PLANTED, data=data, **({"tab": tab} if tab else {}))
        assert page.evaluate("window.hit") is None
        assert page.locator('img[src="x"], img[src*="127.0.0.9"]').count() == 0
    open_page(page, server.url, "attack-lab", judge=PLANTED, data=data)
    expect(page.locator(".js-text").first).to_contain_text("<script>window.hit=1</script>", timeout=SETTLED)
