"""Attack options and composed defenses by hand, and verdict files, in a real browser."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.e2e.steps import PLANTED, open_page


def test_an_attack_is_given_options_and_two_defenses_and_the_link_shows_the_same(page, server):
    open_page(page, server.url, "attack-lab", judge=PLANTED, attack="adaptive")
    expect(page.locator(".js-finding").first).to_contain_text("Adaptive lifts this response")
    page.get_by_text("After", exact=True).click()
    expect(page.locator(".js-finding").first).to_contain_text("Adaptive (after the response) lifts")
    expect(page).to_have_url(re.compile(r"attack=adaptive%40after"))
    for name in ("Delimiters", "Sandwich"):
        page.locator(".st-key-defense").get_by_text(name, exact=True).click()
    expect(page.locator(".js-finding").first).to_contain_text("Behind delimiters + sandwich it moves by")
    expect(page).to_have_url(re.compile(r"defense=delimiters.{1,3}sandwich"))
    page.goto(page.url)
    for words in ("Adaptive (after the response)", "Behind delimiters + sandwich it moves by"):
        expect(page.locator(".js-finding").first).to_contain_text(words)


def test_a_file_of_verdicts_is_measured_without_a_judge(page, server):
    open_page(page, server.url, "data", judge=PLANTED)
    rows = ["response_id,item_id,attack,score"]
    rows += [f"r{i},i{i},{a},{2 + i % 2 + (a == 'dsi')}" for i in range(6) for a in ("none", "dsi")]
    chooser = page.get_by_test_id("stFileUploader").filter(has_text="A file of verdicts").locator("input[type=file]")
    chooser.set_input_files({"name": "v.csv", "mimeType": "text/csv", "buffer": "\n".join(rows).encode()})
    expect(page.locator(".js-finding").nth(1)).to_contain_text("12 of 12 verdicts can be read")
    expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible()
