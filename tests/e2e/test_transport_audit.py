"""Pairs of one's own through the audit page: upload, run, slide, lasso, export."""

import csv
import re
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.steps import JOB_DONE, SETTLED, data_id, downloaded, drop_file, finding, open_page, settle, still_box


def pairs_file() -> bytes:
    lines = ["id,prompt,response_a,response_b,human,verdict,type"]
    for i in range(48):
        good, bad = f"measured evidence shows {i} as the data agree", f"trust me {i} friend nobody doubts it"
        first, right = i % 2 == 0, i % 3 > 0
        a, b = (good, bad) if first else (bad, good)
        human = ("a" if first else "b") if i < 36 else ""
        lines.append(f"p{i},question {i},{a},{b},{human},{'a' if first == right else 'b'},{'AB'[i % 2]}")
    return "\n".join(lines).encode()


def test_upload_pairs_run_the_audit_slide_the_mass_and_take_the_flips(page, server):
    open_page(page, server.url, "transport-audit")
    page.get_by_role("button", name="Use my data").click()
    zone = page.get_by_role("region", name="A file of pairs")
    zone.locator("input").set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": pairs_file()})
    expect(page.get_by_text("36 with a human preference")).to_be_visible()
    page.get_by_role("button", name="Use these pairs").click()
    data_id(page)
    page.get_by_role("button", name="Quick audit").click()
    expect(finding(page).first).to_contain_text("the audit flips", timeout=JOB_DONE)
    settle(page)
    expect(finding(page).first).to_contain_text(re.compile("agreement with people (rises|falls|changes) by"))
    slider = page.get_by_role("slider", name="Mass m")
    slider.focus()
    slider.press("End")
    expect(finding(page).first).to_contain_text("At mass 1.00 the audit flips 0 of 12 verdicts")
    slider.press("Home")
    expect(finding(page).first).to_contain_text("At mass 0.01 the audit flips 11 of 12 verdicts")
    expect(finding(page).first).to_contain_text("Exploratory")
    page.get_by_role("tab", name="Rows flipped").click()
    got = downloaded(page, page.get_by_role("button", name="Flipped verdicts (CSV)"))
    with Path(got.path()).open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 11
    assert all(row["audited"] != row["verdict"] for row in rows)
    page.get_by_role("tab", name="Map").click()
    _lasso(page)
    expect(page.get_by_text(re.compile(r"\d+ pairs? in the lasso"))).to_be_visible(timeout=SETTLED)


def _lasso(page):
    """A frame around the whole map, by mouse."""
    drag = page.locator(".st-key-audit_map_chart .nsewdrag").first
    drag.scroll_into_view_if_needed()
    settle(page)
    box = still_box(drag)
    drag.hover()  # waits until the map takes the mouse
    left, top, right, low = box["x"] + 4, box["y"] + 4, box["x"] + box["width"] - 4, box["y"] + box["height"] - 4
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in ((right, top), (right, low), (left, low), (left, top + 2)):
        page.mouse.move(x, y, steps=6)
    page.mouse.up()


ANSWERS = ("12", "green", "x+1", "(B)", "red", "7", "a cat", "y-3", "(C)", "blue")
FOOLED = "planted:verifier?self_solve=0.9&leak=0.4&ref_sensitivity=0.9"
TONE = "planted:assertiveness"


def responses_file(*, scored: bool) -> bytes:
    """Ten questions, each answered by two systems; with references, correctness and ratings or without."""
    lines = ["id,prompt,response,system" + (",reference,correctness,rating" if scored else "")]
    for i, (right, wrong) in enumerate(zip(ANSWERS, (*ANSWERS[1:], ANSWERS[0]), strict=True)):
        said = (
            (f"After some work the answer is {right}.", 1, 4 + i % 2),
            (f"I would guess {wrong}, maybe.", 0, 1 + i % 3),
        )
        for system, (text, correct, rating) in zip("xy", said, strict=True):
            more = f",{right},{correct},{rating}" if scored else ""
            lines.append(f'r{i}{system},What is asked in {i}?,"{text}",{system}{more}')
    return "\n".join(lines).encode()


def bring(page, url: str, content: bytes, **query: str) -> str:
    """Two clicks: the file is dropped, and saved as it was read; returns its id."""
    open_page(page, url, "data", **query)
    drop_file(page, "answers.csv", content)
    page.get_by_role("button", name="Save and use this data").click()
    return data_id(page)


def test_from_a_plain_file_to_a_report_in_eight_clicks(page, server):
    bring(page, server.url, responses_file(scored=False), judge="planted:verbosity")  # 1 and 2
    page.get_by_role("link", name="Transport audit").click()  # 3
    expect(page.get_by_text("You see the demo, not")).to_be_visible(timeout=SETTLED)
    page.get_by_role("button", name="Use my 10 pairs").click()  # 4
    expect(page.get_by_text("Missing: A person's choice")).to_be_visible(timeout=SETTLED)
    # this judge scores single responses, which is said before anything can fail; not one of the eight clicks
    expect(page.get_by_text("Missing: A judge that compares two responses")).to_be_visible()
    expect(page.get_by_role("button", name="Quick audit")).to_be_disabled()
    open_page(page, server.url, "transport-audit", judge=TONE, data=data_id(page))
    page.get_by_role("button", name="Quick audit").click()  # 5
    said = "Nobody decided these pairs, so agreement, flips and types are left out"
    expect(finding(page).first).to_contain_text(said, timeout=JOB_DONE)
    expect(page.get_by_role("figure", name=re.compile("survive a swap of order"))).to_be_visible(timeout=SETTLED)
    page.get_by_role("button", name="Add to report").first.click()  # 6
    expect(page.get_by_role("button", name="In the report").first).to_be_disabled(timeout=SETTLED)
    page.get_by_role("link", name="Report").click()  # 7
    expect(page.get_by_text(re.compile("Tested: .*answers.csv, in pairs"))).to_be_visible(timeout=SETTLED)
    got = downloaded(page, page.get_by_role("button", name="One HTML page"))  # 8
    assert "Does its choice survive" in Path(got.path()).read_text()
    page.get_by_role("button", name="Remove", exact=True).first.click()  # other journeys count what the report holds


def test_a_file_with_references_correctness_and_ratings_moves_gamma_mass_and_ranks(page, server):
    data = bring(page, server.url, responses_file(scored=True))
    open_page(page, server.url, "reference-swap", judge=FOOLED, data=data)
    page.get_by_role("button", name="Quick run").click()
    expect(finding(page).first).to_contain_text("accepts master keys on", timeout=SETTLED)
    counted = page.get_by_test_id("stMain").locator(".js-facts").first
    expect(counted).to_contain_text("Accuracy", timeout=SETTLED)
    gamma = page.get_by_role("slider", name=re.compile("least max_p_cf"))
    gamma.focus()
    gamma.press("Home")  # a gamma of 0 keeps every YES
    expect(counted).to_contain_text(re.compile(r"Correct accepted\s*(\d+) → \1(?!\d)"), timeout=SETTLED)
    open_page(page, server.url, "transport-audit", judge=TONE, data=data)
    page.get_by_role("button", name=re.compile("Use my 10 pairs, 10 with people's scores")).click()
    page.get_by_role("button", name="Quick audit").click()
    expect(finding(page).first).to_contain_text("the audit flips", timeout=JOB_DONE)
    page.get_by_role("slider", name="Mass m").press("End")
    expect(finding(page).first).to_contain_text("At mass 1.00 the audit flips 0 of", timeout=SETTLED)
    open_page(page, server.url, "protocols", judge=TONE, data=data)
    page.get_by_role("button", name="Quick run").click()
    expect(finding(page).first).to_contain_text("Elo points", timeout=JOB_DONE)


def test_embeddings_of_ones_own_and_the_lesson_on_planted_directions(page, server):
    open_page(page, server.url, "transport-audit", planted="wrong-labels")
    lesson = finding(page).filter(has_text="planted verdicts")
    expect(lesson).to_contain_text("goes from 0.900 to 0.8", timeout=JOB_DONE)
    slider = page.get_by_role("slider", name="Transported mass m in this lesson")
    slider.press("End")
    expect(lesson).to_contain_text("At mass 1.00 the audit flips 0 of 300", timeout=SETTLED)
    page.get_by_role("button", name="Full audit").click()
    page.get_by_text("Bring embeddings of your own").click()
    zone = page.get_by_role("region", name="A file of embeddings")
    zone.locator("input").set_input_files(
        {"name": "short.csv", "mimeType": "text/csv", "buffer": b"response_id,x\nnobody:a,1\nnobody:b,2\n"}
    )
    expect(page.get_by_text("None of the 2 ids of 'short.csv' belongs to these pairs")).to_be_visible(timeout=SETTLED)
