"""Blind labelling by keyboard in a real browser: five rows, undo, reload, go on where one stopped, export."""

from __future__ import annotations

import csv
import io
import re

from playwright.sync_api import expect

from engine.data.labels import list_plans, open_session
from tests.e2e.steps import SETTLED, downloaded, finding, open_page, settle


def progress(page, said: str) -> None:
    expect(page.get_by_test_id("stProgress")).to_contain_text(said, timeout=SETTLED)
    settle(page)


def test_five_rows_are_labelled_by_keyboard_and_exported(page, server):
    open_page(page, server.url, "label", data="demo-dialogue")
    page.get_by_label("Your name").fill("Ann")
    page.get_by_label("Your name").press("Enter")
    page.get_by_role("spinbutton", name=re.compile("Rows to label")).fill("5")
    page.get_by_role("spinbutton", name=re.compile("Rows to label")).press("Enter")
    page.get_by_role("button", name="Start labelling").click()
    progress(page, "0 of 5 done")
    for done, key in enumerate(("y", "n", "y"), start=1):
        page.keyboard.press(key)
        progress(page, f"{done} of 5 done")
    page.keyboard.press("Backspace")
    progress(page, "2 of 5 done")
    page.reload()
    progress(page, "2 of 5 done")
    page.keyboard.press("Backspace")  # what was done before the reload can be undone, too
    progress(page, "1 of 5 done")
    page.keyboard.press("s")
    expect(page.get_by_role("button", name="I cannot tell")).to_be_visible()
    settle(page)
    page.keyboard.press("1")
    progress(page, "2 of 5 done, 1 skipped")
    for done in (3, 4):
        page.keyboard.press("y")
        progress(page, f"{done} of 5 done")
    page.keyboard.press("y")
    expect(finding(page).first).to_contain_text("All 5 rows are done: 4 labels stand", timeout=SETTLED)
    loaded = downloaded(page, page.get_by_role("button", name="Export"))
    rows = list(csv.DictReader(io.StringIO(loaded.path().read_text(encoding="utf-8-sig"))))
    labels = [row["label"] for row in rows if row["label"]]
    assert (len(rows), sorted(labels)) == (48, ["pass"] * 4)
    assert [row["skipped_reason"] for row in rows if row["skipped_reason"]] == ["I cannot tell"]
    [about] = list_plans(server.settings.labels, "demo-dialogue")
    held = open_session(about["plan_id"], server.settings.labels)
    assert len(held.answers().of("Ann")) == 5
