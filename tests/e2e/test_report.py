"""Figures picked on two pages, put in order, captioned, taken home as one page that nothing in it can break."""

import io
import re
import zipfile
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.steps import SETTLED, downloaded, finding, open_page, settle
from tests.e2e.test_access import UNTIL, assert_accessible, assert_nothing_is_cut_off

MARKUP = "<script>window.hit=1</script><img src='http://127.0.0.9/p.png' onerror='window.hit=1'> **b**"


FITS = UNTIL.replace("SEEN", "() => document.documentElement.scrollWidth - innerWidth").replace("DONE", "n => n <= 1")


def pick_first(page) -> None:
    """Add the first figure of a page to the report, and see that the page knows it."""
    button = page.get_by_role("button", name="Add to report").first
    expect(button).to_be_visible(timeout=SETTLED)
    button.click()
    expect(page.get_by_role("button", name="In the report").first).to_be_disabled(timeout=SETTLED)
    expect(page.locator(".js-note").first).to_have_css("font-size", "14px")  # the style sheet is still there


def file_behind(page, name: str) -> bytes:
    got = downloaded(page, page.get_by_role("button", name=name))
    return Path(got.path()).read_bytes()


def test_from_two_pages_to_one_file(page, server, browser, tmp_path):
    open_page(page, server.url, "reference-swap")
    pick_first(page)
    open_page(page, server.url, "attack-lab", tab="Whole set", judge="bundled:judge")
    pick_first(page)

    open_page(page, server.url, "report")
    expect(finding(page).first).to_have_text("2 figures in this report.")
    page.get_by_role("button", name="Add a note").click()
    expect(page.get_by_role("textbox", name="Text")).to_be_visible()
    page.get_by_role("textbox", name="Text").fill(MARKUP)
    page.keyboard.press("Tab")
    settle(page)
    page.get_by_role("textbox", name="Caption").first.fill(f"My caption {MARKUP}")
    page.keyboard.press("Tab")
    settle(page)
    # by keyboard: the second figure goes up, then out, and comes back
    page.get_by_role("button", name="Up", exact=True).nth(1).press("Enter")
    expect(page.get_by_role("textbox", name="Caption").nth(1)).to_have_value(re.compile("My caption"))
    page.get_by_role("button", name="Remove", exact=True).first.press("Enter")
    back = page.get_by_role("button", name="Put back")
    expect(back).to_be_visible()
    back.click()
    expect(finding(page).first).to_have_text("2 figures and 1 note in this report.")

    page.get_by_role("tab", name="Preview").click()
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(2, timeout=SETTLED)
    assert page.evaluate("window.hit") is None
    assert page.locator('img[src*="127.0.0.9"]').count() == 0
    assert_accessible(page)

    page.get_by_role("tab", name="Download").click()
    made = file_behind(page, "One HTML page")
    archive = zipfile.ZipFile(io.BytesIO(file_behind(page, "Figures (zip)")))
    pdfs = [n for n in archive.namelist() if n.endswith(".pdf")]
    assert len(pdfs) == 2
    assert all(b"/FontFile" in archive.read(n) for n in pdfs)
    the_page_stands_alone(browser, tmp_path, made)


def the_page_stands_alone(browser, tmp_path, content: bytes) -> None:
    """Opened from a disk: figures drawn, nothing refused by its own policy, nothing asked for, no markup alive."""
    file = tmp_path / "report.html"
    file.write_bytes(content)
    tab = browser.new_page()
    asked, said = [], []
    tab.on("request", lambda r: asked.append(r.url))
    tab.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda e: said.append(str(e)))
    tab.goto(file.as_uri())
    expect(tab.locator(".plot .main-svg").first).to_be_visible()
    expect(tab.locator(".plot .plot-container")).to_have_count(2)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert said == []
    assert tab.evaluate("window.hit") is None
    assert tab.locator("main img").count() == 0
    expect(tab.get_by_text(MARKUP).first).to_be_visible()
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate(FITS) <= 1  # once the figures follow
    tab.close()


def test_a_phone_shows_the_report(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, server.url, "report")
    expect(finding(page).first).to_be_visible()
    assert_nothing_is_cut_off(page)
