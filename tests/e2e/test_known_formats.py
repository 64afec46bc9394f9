"""Files of other tools in a real browser: recognised, completed, saved, and at hand where they are used."""

import re

from playwright.sync_api import expect

from tests.e2e.steps import PLANTED, choose, downloaded, drop_file, finding, open_page, settle
from tests.e2e.test_access import assert_accessible
from tests.engine.data.formats.examples import ANSWERS, FILES, MT_BENCH, QUESTIONS, lines


def test_judgments_and_their_answers_become_data_pairs_and_a_judge(page, server):
    open_page(page, server.url, "data", judge=PLANTED)
    drop_file(page, *FILES["fastchat-pair"])
    expect(finding(page).first).to_contain_text("is read as FastChat pair judgments: 4 responses, 2 items, 2 pairs")
    expect(page.get_by_role("button", name="Keep as a recorded judge")).to_be_visible()
    files = [("a.jsonl", lines(ANSWERS)), ("question.jsonl", lines(QUESTIONS))]
    zone = page.get_by_role("region", name=re.compile("^Files that belong to it"))
    zone.locator("input").set_input_files(
        [{"name": n, "mimeType": "application/octet-stream", "buffer": c} for n, c in files]
    )
    save = page.get_by_role("button", name="Save and use this data")
    expect(save).to_be_visible()
    settle(page)
    assert_accessible(page)
    save.click()
    expect(finding(page).first).to_contain_text("In use: “gpt-4_pair.jsonl” with 4 responses, 2 items, 2 systems")
    page.get_by_role("link", name="Transport audit").click()
    expect(page.get_by_role("heading", level=1, name="Transport audit")).to_be_visible()
    page.get_by_role("button", name="Use the pairs of this file").click()
    expect(page.get_by_text("2 pairs, 2 items, 0 with a human preference")).to_be_visible()
    page.get_by_role("combobox", name=re.compile("^Judge")).first.click()
    expect(page.get_by_role("option", name="Recorded: gpt-4 (gpt-4_pair.jsonl)", exact=True)).to_be_visible()
    page.keyboard.press("Escape")


def test_a_file_that_could_be_two_things_is_asked_about_and_written_in_a_third_format(page, server):
    open_page(page, server.url, "data", judge=PLANTED)
    drop_file(page, "both.jsonl", lines([{**row, "language": "English"} for row in MT_BENCH]))
    expect(page.get_by_text("nothing tells them apart")).to_be_visible()
    choose(page, "What kind of file is it?", "Arena battles (arena)")
    expect(finding(page).first).to_contain_text("is read as Arena battles")
    page.get_by_role("button", name="Save in another format").click()
    settle(page)
    choose(page, "Format to write", "Plain table of pairs (pairs)")
    download = downloaded(page, page.get_by_role("button", name="Download as Plain table of pairs"))
    assert download.suggested_filename == "both-pairs.csv"
    text = download.path().read_text(encoding="utf-8-sig")
    assert text.replace('"', "").startswith("comparison_id,item_id,prompt,response_a,response_b")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Discard this file").click()
    expect(finding(page).first).to_contain_text("In use:")
