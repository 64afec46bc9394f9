"""Text of users stays text: data full of markup on every page, in both kinds of uploads, and in what is exported."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.core.settings import get_settings
from engine.report.basket import Piece, Report
from engine.report.content import fill
from engine.report.export import report_html
from engine.report.methods import formulas
from engine.studies.figure import Source
from engine.studies.registry import find_run
from tests.e2e.steps import (
    JOB_DONE,
    PLANTED,
    SETTLED,
    data_id,
    downloaded,
    drop_file,
    finding,
    open_page,
    pages,
    settle,
)

BIDI = "\u2067left\u2069 \u202egnissecorp"  # the last sign is left open
MARKUP = (
    "<script>window.hit=1</script><img src='http://127.0.0.9/p.png' onerror='window.hit=1'><iframe src='http://127.0.0.9/'>"
    "</iframe><b id='hit'>b</b> **boldhit** ![p](http://127.0.0.9/p.png) [linkhit](http://127.0.0.9/) :red[colourhit] "
    f"$\\frac{{hit}}{{2}}$ `codehit` <style>body{{display:none}}</style> {BIDI}"
)
FORMULA = '=HYPERLINK("http://127.0.0.9/","x")'
MADE = """() => {
  const found = [];
  if (window.hit !== undefined) found.push('a script ran');
  for (const e of document.querySelectorAll('#hit, [onerror], .katex, [src*="127.0.0.9"], [href*="127.0.0.9"]'))
    found.push(e.outerHTML.slice(0, 120));
  for (const e of document.querySelectorAll('strong, em, code, a, span[class*=colored], h1, h2, h3'))
    if (/^(boldhit|linkhit|colourhit|codehit)$/.test(e.textContent.trim())) found.push(e.outerHTML.slice(0, 120));
  if (getComputedStyle(document.body).display === 'none') found.push('a style was applied');
  return found;
}"""
"""Whatever on the page was made of the text above instead of showing it."""
LOOSE = """() => {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const open = n.data.lastIndexOf('\u202e');
    if (open < 0 || n.data.indexOf('\u202c', open) > 0) continue;
    let own = n.parentElement, block = own;
    while (getComputedStyle(block).display.startsWith('inline')) {
      if (/isolate|plaintext/.test(getComputedStyle(block).unicodeBidi)) { block = null; break; }
      block = block.parentElement;
    }
    if (!block || own.closest('svg, textarea, option')) continue;
    const rest = document.createRange();
    rest.setStartAfter(n); rest.setEndAfter(block.lastChild);
    if (rest.toString().trim()) found.push(block.textContent.slice(0, 120));
  }
  return found;
}"""
"""Blocks in which a sign that turns the direction is left open in front of words that are not the user's."""


def responses_file() -> bytes:
    out = io.StringIO(newline="")
    table = csv.writer(out)
    table.writerow(["item_id", "context", "response", "system"])
    for i in range(4):
        for k in range(2):
            text = FORMULA if (i, k) == (0, 0) else f"{MARKUP} {i} {k}"
            table.writerow([f"q{i} {MARKUP}", f"{MARKUP} {i}", text, f"m{k} {MARKUP}"])
    return out.getvalue().encode()


def pairs_file() -> bytes:
    out = io.StringIO(newline="")
    table = csv.writer(out)
    table.writerow(["id", "prompt", "response_a", "response_b", "human", "verdict", "type"])
    for i in range(40):
        good, bad = f"evidence shows {i} {MARKUP}", f"trust me {i}"
        side = "ab"[i % 2]
        row = [good, bad] if side == "a" else [bad, good]
        table.writerow(
            [f"p{i} {MARKUP}", f"{MARKUP} {i}", *row, side if i < 30 else "", "ab"[i % 3 > 0], f"t{i % 2} {MARKUP}"]
        )
    return out.getvalue().encode()


def test_the_look_for_markup_finds_what_is_made_of_it(browser):
    page = browser.new_page()
    page.set_content(f"<body><p>{MARKUP}</p><strong>boldhit</strong><p><span>{BIDI}</span> and more</p></body>")
    made = page.evaluate(MADE)
    assert "a script ran" in made
    assert "a style was applied" in made
    assert len(made) >= 5
    assert len(page.evaluate(LOOSE)) == 1
    page.close()


def assert_inert(page, own_formulas: int = 0) -> None:
    expect(page.locator(".katex")).to_have_count(own_formulas)  # typeset after the page has settled
    made = page.evaluate(MADE)
    formulas = [one for one in made if 'class="katex"' in one]
    assert len(formulas) == own_formulas
    assert [one for one in made if one not in formulas] == []
    assert page.evaluate(LOOSE) == []


@pytest.fixture(scope="module")
def hostile(browser, server) -> str:
    """The id of a saved data set full of markup."""
    page = browser.new_page()
    open_page(page, server.url, "data", judge=PLANTED)
    drop_file(page, f"{MARKUP.replace('/', '_')[:60]}.csv", responses_file())
    expect(finding(page)).to_contain_text("8 responses, 4 items", timeout=SETTLED)
    assert_inert(page)
    page.get_by_role("button", name="Save and use this data").click()
    expect(finding(page)).to_contain_text("In use")
    found = data_id(page)
    page.close()
    return found


@pytest.mark.parametrize("path", pages())
def test_markup_is_text_on_every_page(page, server, hostile, path):
    own = {"holds_tab": "Formulas"} if path == "what-holds" else {}
    open_page(page, server.url, path, judge=PLANTED, data=hostile, **own)
    assert_inert(page, own_formulas=len(formulas(get_settings().assets)) if own else 0)


def test_markup_is_text_in_results_and_a_formula_is_text_in_their_files(page, server, hostile):
    open_page(page, server.url, "attack-lab", judge=PLANTED, data=hostile, tab="Whole set")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("The run is done")).to_be_visible(timeout=SETTLED)
    settle(page)
    assert_inert(page)
    buttons = page.get_by_role("button", name="Data (CSV)")
    expect(buttons.first).to_be_visible()
    for i in range(buttons.count()):
        got = downloaded(page, buttons.nth(i))
        assert_no_formula(Path(got.path()))


def assert_no_formula(path: Path) -> None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    for cell in cells:
        if cell.lstrip(" \u00a0").startswith(("=", "+", "-", "@", "\t", "\r")):
            assert re.fullmatch(r"[+-]?[\d.]+([eE][+-]?\d+)?", cell), cell


@pytest.mark.slow
def test_markup_is_text_in_pairs_and_their_audit(page, server):
    open_page(page, server.url, "transport-audit")
    page.get_by_role("button", name="Use my data").click()
    zone = page.get_by_role("region", name="A file of pairs")
    zone.locator("input").set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": pairs_file()})
    expect(page.get_by_text("30 with a human preference")).to_be_visible(timeout=SETTLED)
    assert_inert(page)
    page.get_by_role("button", name="Use these pairs").click()
    page.get_by_role("button", name="Quick audit").click()
    expect(finding(page).first).to_contain_text("the audit flips", timeout=JOB_DONE)
    settle(page)
    assert_inert(page)


def test_the_policy_stops_a_script_that_a_page_did_not_bring(browser, server):
    page = browser.new_page()
    blocked: list[str] = []
    page.on("console", lambda m: blocked.append(m.text) if "Content Security Policy" in m.text else None)
    open_page(page, server.url, "data")
    with page.expect_event("console", lambda _: len(blocked) >= 2):  # what every journey's collection relies on
        page.evaluate(
            """() => {
                const script = document.createElement('script');
                script.textContent = 'window.hit = 1';
                const image = new Image();
                image.src = 'http://127.0.0.9/p.png';
                document.body.append(script, image);
            }"""
        )
    assert page.evaluate("window.hit") is None
    expect(page.locator("body")).to_be_visible()
    page.close()


def test_a_report_full_of_markup_shows_it_as_text(page, tmp_path):
    pieces = (
        Piece(kind="note", text=MARKUP),
        Piece(kind="figure", title=MARKUP[:290], run="r", entry="dumbbells", show="both", text=MARKUP),
        Piece(kind="figure", title=MARKUP[:290], run=MARKUP, entry="nothing"),
    )
    report = Report(title=MARKUP[:150], authors=MARKUP[:150], pieces=pieces)
    file = tmp_path / "report.html"
    file.write_text(
        report_html(report, fill(report, lambda _: Source(find_run("recorded:dialogue/run")))), encoding="utf-8"
    )
    page.goto(file.as_uri())
    expect(page.locator(".js-plotly-plot").first).to_be_visible(timeout=SETTLED)
    expect(page.get_by_text("<script>window.hit=1</script>").nth(2)).to_be_attached()
    assert page.evaluate(MADE) == []
