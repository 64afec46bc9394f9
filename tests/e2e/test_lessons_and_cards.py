"""A class's hour and a practitioner's prompt: lessons and judge cards in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.steps import JOB_DONE, SETTLED, finding, open_page, settle
from tests.e2e.test_access import assert_accessible, assert_nothing_is_cut_off


def test_guess_look_up_reload_and_open_the_page_in_its_state(page, server):
    open_page(page, server.url, "lessons")
    page.get_by_text("Louder is better").click()
    expect(page.get_by_role("heading", name="Louder is better")).to_be_visible(timeout=SETTLED)
    expect(finding(page)).to_have_count(1)  # the question alone
    guess = page.get_by_role("spinbutton", name="Flips beyond")
    guess.fill("25")
    guess.press("Enter")
    page.get_by_role("button", name="Show the answer").click()
    expect(finding(page).nth(1)).to_contain_text("On the naive judge: pairwise, beyond the placebo")
    expect(page).to_have_url(re.compile("answered=louder%3A25"))
    page.reload()
    expect(page.get_by_text("The guess was 25 percentage points")).to_be_visible(timeout=SETTLED)
    settle(page)
    page.get_by_role("button", name="Open Protocols and leaderboard with assertiveness").click()
    expect(page.get_by_role("heading", name="Protocols and leaderboard")).to_be_visible(timeout=SETTLED)
    flips = page.get_by_text("With assertiveness, clean losers now win")  # below the leaderboard
    expect(flips).to_be_visible(timeout=SETTLED)


def test_a_planted_judge_is_measured_where_the_truth_is_to_be_known(page, server):
    open_page(page, server.url, "lessons", lesson="slot", answered="slot")
    page.get_by_role("button", name="Measure it now").click()
    expect(page.get_by_text(re.compile(r"Measured: first slot wins [67]\d"))).to_be_visible(timeout=JOB_DONE)
    settle(page)
    page.get_by_role("button", name="Open Protocols and leaderboard with the planted judge").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Protocols and leaderboard", timeout=SETTLED)
    expect(page).to_have_url(re.compile("judge=planted%3Aposition"))


def test_two_judges_of_one_base_are_attacked_from_start_and_in_the_first_lesson(page, server):
    open_page(page, server.url)
    page.get_by_role("button", name="Attack this judge").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Attack lab", timeout=SETTLED)
    settle(page)
    page.get_by_role("button", name="Compare with the careful judge").click()
    expect(page).to_have_url(re.compile("judge=bundled%3Ajudge"), timeout=SETTLED)
    open_page(page, server.url, "lessons", lesson="fool", answered="fool")
    expect(page.get_by_text(re.compile(r"On the naive judge: score shift, BED \+0\.3"))).to_be_visible(timeout=SETTLED)
    expect(page.get_by_text("Now fence the reply with delimiters")).to_be_visible(timeout=SETTLED)


def test_a_prompt_with_a_mistake_is_mended_saved_and_used(page, server):
    open_page(page, server.url, "judge-card")
    page.get_by_text("Your own prompt: write it").click()
    prompt = page.get_by_role("textbox", name="User message")
    prompt.fill("Grade the reply from 1 to 5. {context}")
    prompt.blur()
    expect(page.get_by_role("alert")).to_contain_text("has no {response}")
    prompt.fill("Grade the reply from 1 to 5.\n{context}\n{response}\nGrade:")
    prompt.blur()
    expect(page.get_by_role("alert")).to_have_count(0)
    name = page.get_by_role("textbox", name="Name of the card")
    name.fill("from the browser")
    name.press("Enter")
    page.get_by_role("button", name="Save and use as the judge").click()
    expect(page).to_have_url(re.compile(r"card%3Dfrom\+the\+browser%40[0-9a-f]{8}"))
    settle(page)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Delete")).to_be_visible(timeout=SETTLED)
    page.reload()
    settle(page)
    expect(page.get_by_role("button", name="Use as the judge", exact=True)).to_be_visible(timeout=SETTLED)


@pytest.mark.weights
def test_a_card_is_tried_on_three_rows_of_the_real_judge(page, server, weights):
    open_page(page, server.url, "judge-card")
    page.get_by_text("Your own prompt: write it").click()
    page.get_by_role("button", name="Try it on these rows").click()
    expect(page.get_by_text("3 of 3 rows have a verdict")).to_be_visible(timeout=JOB_DONE)
    expect(page.get_by_text(re.compile(r"Score [1-5]\.\d\d of 5"))).to_have_count(3)
    page.get_by_text("The prompt as the model reads it").first.click()
    expect(page.get_by_test_id("stCode").first).to_contain_text("<|im_start|>user")


PAGES = {"lessons": {"lesson": "slot", "answered": "slot:60"}, "judge-card": {}}


@pytest.mark.parametrize("path", PAGES)
def test_nothing_serious_for_a_screen_reader_and_nothing_cut_off_on_a_phone(page, server, path):
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, server.url, path, **PAGES[path])
    assert_nothing_is_cut_off(page)
    assert_accessible(page)
