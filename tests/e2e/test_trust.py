"""A corrected number: the demo's labels moved, then a file of one's own dropped, corrected and read."""

import re

from playwright.sync_api import expect

from tests.e2e.steps import JOB_DONE, SETTLED, finding, open_page, settle
from tests.e2e.test_access import assert_accessible, assert_nothing_is_cut_off


def own_file() -> bytes:
    """A judge that passes 3 rows of 4; of 60 labels two thirds are passes."""
    lines = [
        f"{'fail' if i % 4 == 3 else 'pass'},{('fail' if i % 3 == 0 else 'pass') if i % 2 else ''}" for i in range(120)
    ]
    return "\n".join(["verdict,label", *lines]).encode()


def test_move_the_labels_drop_a_file_and_read_the_corrected_number(page, server):
    open_page(page, server.url, "trust")
    said = finding(page).first
    expect(said).to_contain_text("corrected by 200 labels")
    labels = page.get_by_role("slider", name="Labels used")
    labels.focus()
    for _ in range(3):
        labels.press("ArrowRight")
    expect(said).to_contain_text("corrected by 260 labels", timeout=SETTLED)
    settle(page)
    expect(page).to_have_url(re.compile("labels=260"))
    assert_accessible(page)
    assert_nothing_is_cut_off(page)
    page.get_by_role("button", name="Use my labels").click()
    zone = page.get_by_role("region", name="Verdicts with labels, one row each")
    zone.locator("input").set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": own_file()})
    expect(page.get_by_text("120 rows of 120 items, 60 with a label")).to_be_visible(timeout=SETTLED)
    settle(page)
    page.get_by_role("button", name="Correct the number").click()
    expect(said).to_contain_text("The judge says 75 %; corrected by 60 labels it is", timeout=JOB_DONE)
