"""A stranger's file loads the first time: one journey for each kind of file, then rows left out and presets."""

import csv
import io
import json
import re

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from tests.e2e.steps import PLANTED, choose, drop_file, finding, open_page, settle
from tests.e2e.test_access import assert_accessible, assert_nothing_is_cut_off

HARD = "It’s “résumés” – 5 €"
ROWS = [
    {"prompt_id": f"q{i}", "prompt": f"What grows in garden {i}?", "output": f"{HARD}, {m} {i}", "model": m}
    for i in range(3)
    for m in ("m1", "m2")
]


def text_file(delimiter: str = ",", encoding: str = "utf-8", rows: list[dict] = ROWS) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode(encoding)


def workbook() -> bytes:
    book = openpyxl.Workbook()
    book.active.title = "notes"
    book.active.append(["not the answers"])
    sheet = book.create_sheet("answers")
    for row in (list(ROWS[0]), *(list(r.values()) for r in ROWS)):
        sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), out)
    return out.getvalue()


def give(page, name: str, content: bytes) -> None:
    """Choose a file on the open Data page, discarding one that is held."""
    discard = page.get_by_role("button", name=re.compile("Discard this file|Choose another file"))
    if discard.count():
        discard.click()
        settle(page)
    drop_file(page, name, content)
    expect(page.locator(".js-finding, .js-error").first).to_contain_text(f"“{name}”")
    settle(page)


def saved_as_read(page) -> None:
    """The columns are recognised; the file saves and is in use."""
    expect(finding(page).first).to_contain_text("6 responses, 3 items, 2 systems")
    page.get_by_role("button", name="Save and use this data").click()
    expect(finding(page).first).to_contain_text(re.compile("In use: .* 6 responses, 3 items, 2 systems"))
    settle(page)


def read_note(page):
    return page.locator(".js-note").filter(has_text=re.compile("^Read (as|from)"))


@pytest.fixture
def data_page(page, server):
    open_page(page, server.url, "data", judge=PLANTED)
    return page


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        pytest.param("a.csv", text_file(";", "utf-8-sig"), "UTF-8 with byte order mark, a semicolon", id="csv"),
        pytest.param("a.tsv", text_file("\t"), "UTF-8, a tab", id="tsv"),
        pytest.param("a.json", json.dumps({"v": 1, "rows": ROWS}).encode(), "the list “rows”", id="json"),
        pytest.param("a.jsonl", "\n".join(map(json.dumps, ROWS)).encode(), "one JSON object a line", id="jsonl"),
        pytest.param("a.parquet", parquet(), "a parquet file", id="parquet"),
        pytest.param("u.csv", text_file(",", "utf-16"), "UTF-16 (little endian), a comma", id="utf-16"),
    ],
)
def test_a_file_that_says_what_it_is(data_page, name, content, said):
    give(data_page, name, content)
    expect(read_note(data_page)).to_contain_text(said)
    saved_as_read(data_page)


def test_a_workbook_lets_the_user_choose_the_sheet(data_page):
    give(data_page, "a.xlsx", workbook())
    expect(data_page.get_by_role("alert").filter(has_text="no records")).to_be_visible()
    data_page.get_by_role("button", name="Change", exact=True).click()
    choose(data_page, "Which sheet", "answers")
    expect(read_note(data_page)).to_contain_text("the sheet “answers” (2 of 2)")
    data_page.keyboard.press("Escape")
    saved_as_read(data_page)


def test_windows_1252_is_shown_and_has_to_be_confirmed(data_page):
    give(data_page, "w.csv", text_file(";", "cp1252"))
    expect(finding(data_page).first).to_contain_text("has an encoding that nothing in it states")
    expect(data_page.get_by_role("button", name="Save and use this data")).to_be_disabled()
    lines = data_page.locator(".js-lines")
    expect(lines.nth(0)).to_contain_text(HARD)
    expect(lines.nth(1)).to_contain_text(r"It\x92s \x93résumés\x94")
    data_page.get_by_role("button", name="This is right: read as Windows-1252").press("Enter")
    expect(read_note(data_page)).to_contain_text("Windows-1252, a semicolon")
    expect(read_note(data_page)).to_contain_text("chosen by you")
    saved_as_read(data_page)


def test_rows_are_left_out_and_come_back(data_page):
    rows = [*({"response_id": f"r{i}", **r} for i, r in enumerate(ROWS)), {"response_id": "r0", **ROWS[1]}]
    give(data_page, "twice.csv", text_file(rows=rows))
    save = data_page.get_by_role("button", name="Save and use this data")
    expect(save).to_be_disabled()
    data_page.get_by_role("button", name="Leave out row 7", exact=False).first.click()
    expect(finding(data_page).first).to_contain_text("6 responses, 3 items, 2 systems, 1 row left out")
    expect(save).to_be_enabled()
    bar = data_page.get_by_text(re.compile("^Left out by you: "))
    expect(bar).to_have_text("Left out by you: row 7, 1 of 7.")
    table = data_page.locator(".stDataFrameGlideDataEditor").first
    table.scroll_into_view_if_needed()
    table.click(position={"x": 12, "y": 55})
    data_page.get_by_role("button", name="Leave out 1 selected row").click()
    expect(bar).to_have_text("Left out by you: rows 1 and 7, 2 of 7.")
    settle(data_page)
    data_page.get_by_role("button", name="Undo").click()
    expect(bar).to_have_text("Left out by you: row 7, 1 of 7.")
    settle(data_page)
    data_page.get_by_role("button", name="Redo").click()
    expect(bar).to_have_text("Left out by you: rows 1 and 7, 2 of 7.")
    settle(data_page)
    data_page.get_by_role("button", name="Undo").click()
    saved = re.compile("In use: .* 6 responses, 3 items, 2 systems")
    expect(bar).to_have_text("Left out by you: row 7, 1 of 7.")
    settle(data_page)
    save.click()
    expect(finding(data_page).first).to_contain_text(saved)


def test_a_preset_is_saved_applied_taken_back_and_deleted_with_undo(data_page):
    strange = [{"eins": r["prompt"], "zwei": r["output"], "drei": r["model"]} for r in ROWS]
    give(data_page, "eins.csv", text_file(rows=strange))
    choose(data_page, "Response (needed)", "zwei")
    choose(data_page, "Context", "eins")
    data_page.get_by_role("button", name="Save as a preset").click()
    data_page.get_by_role("textbox", name="Name of the preset").fill("our export")
    data_page.get_by_role("textbox", name="Name of the preset").press("Enter")
    settle(data_page)
    data_page.get_by_role("button", name="Save preset").click()
    applied = data_page.get_by_text("The preset “our export” is applied")
    expect(applied).to_be_visible()
    data_page.keyboard.press("Escape")
    give(data_page, "next.csv", text_file(";", rows=list(reversed(strange))))
    expect(applied).to_be_visible()
    expect(finding(data_page).first).to_contain_text("6 responses, 3 items")
    data_page.get_by_role("button", name="Do not use it").click()
    expect(data_page.get_by_text("fits these columns and is not applied")).to_be_visible()
    settle(data_page)
    data_page.get_by_role("button", name="Use it", exact=True).click()
    expect(applied).to_be_visible()
    settle(data_page)
    data_page.get_by_text("Saved presets").click()
    data_page.get_by_role("button", name="Delete").click()
    expect(data_page.get_by_text("The preset “our export” is deleted.")).to_be_visible()
    expect(applied).to_have_count(0)
    settle(data_page)
    data_page.get_by_role("button", name="Undo").click()
    expect(applied).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_review_is_accessible_and_fits_a_phone(data_page, scheme):
    data_page.emulate_media(color_scheme=scheme)
    rows = [{**r, "score": "n/a" if i else "4"} for i, r in enumerate(ROWS)]
    give(data_page, "w.csv", text_file(";", "cp1252", rows))
    assert_accessible(data_page)
    data_page.set_viewport_size({"width": 390, "height": 844})
    settle(data_page)
    assert_nothing_is_cut_off(data_page)
