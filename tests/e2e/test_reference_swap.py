"""Reference swap in a real browser: run a planted verifier, move the sliders, reload, look at a key in the lab."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.steps import SETTLED, choose, data_id, downloaded, drop_file, finding, open_page, settle

FOOLED = "planted:verifier?self_solve=0.9&leak=0.4&ref_sensitivity=0.9"
QUERY = {"data": "demo-verification", "judge": FOOLED}


def test_run_read_and_reload(page, server):
    open_page(page, server.url, "reference-swap", **QUERY)
    expect(finding(page).first).to_contain_text("does your verifier accept?")
    page.get_by_text("Full run, all settings").first.click()
    page.get_by_label("Your own keys, one a line").fill("As shown above.")
    page.get_by_label("Your own keys, one a line").blur()
    settle(page)
    expect(page.get_by_text("780 judge calls")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(finding(page).first).to_contain_text(re.compile(r"accepts master keys on [\d.]+"), timeout=SETTLED)
    expect(page.get_by_test_id("stPlotlyChart").first).to_contain_text("What survives a swap of the reference?")
    counted = page.get_by_test_id("stMain").locator(".js-facts").first
    before = counted.text_content() or ""
    gamma = page.get_by_role("slider", name=re.compile("least max_p_cf"))
    gamma.focus()
    for _ in range(12):
        gamma.press("ArrowRight")
    last = re.escape(str(gamma.get_attribute("aria-valuetext")))
    expect(page).to_have_url(re.compile(rf"swap_gamma={last}(&|$)"))
    settle(page)
    expect(counted).not_to_have_text(before)
    shown = counted.text_content() or ""
    page.reload()
    settle(page)
    expect(counted).to_have_text(shown, timeout=SETTLED)
    keys = page.get_by_role("figure", name=re.compile("on which each key is accepted"))
    expect(keys).to_contain_text("(space)")
    expect(keys).to_contain_text("As shown above.")
    got = downloaded(page, page.get_by_role("tabpanel", name="By key").get_by_role("button", name="Data (CSV)"))
    assert "(space)" in Path(got.path()).read_text(encoding="utf-8-sig")


def test_a_csv_without_correctness_shows_keys_and_the_full_run_follows(page, server):
    answers = ["12", "green", "x+1", "(B)", "red", "7", "a cat", "y-3", "(C)", "blue"]
    lines = [f"q{i},What is asked in {i}?,It is {a}.,{a},s{i % 2}" for i, a in enumerate(answers)]
    open_page(page, server.url, "data")
    drop_file(page, "mine.csv", "\n".join(["id,prompt,response,reference,system", *lines]).encode())
    page.get_by_role("button", name="Save and use this data").click()
    open_page(page, server.url, "reference-swap", data=data_id(page), judge=FOOLED)
    expect(page.get_by_text("Missing: Which responses are correct")).to_be_visible(timeout=SETTLED)
    page.get_by_role("button", name="Quick run").click()
    expect(finding(page).first).to_contain_text("keep their YES", timeout=SETTLED)
    expect(page.get_by_test_id("stMain").locator(".js-facts").first).to_contain_text("Responses accepted")
    page.get_by_role("button", name="Refine: full run").click()
    expect(page.get_by_role("button", name="Refine: full run")).to_be_hidden(timeout=SETTLED)
    expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible(timeout=SETTLED)


def test_a_key_in_the_attack_lab(page, server):
    leaking = "planted:verifier?leak=1&ref_sensitivity=1"
    open_page(page, server.url, "attack-lab", data="demo-verification", judge=leaking)
    expect(finding(page).first).to_contain_text("The verifier", timeout=SETTLED)
    choose(page, "What is verified", "Master key: (space)")
    expect(finding(page).first).to_contain_text("accepts the master key (space)", timeout=SETTLED)
    page.get_by_text("RefSwap", exact=True).first.click()
    expect(finding(page).first).to_contain_text("the YES falls", timeout=SETTLED)


def test_own_questions_and_own_references(page, server):
    lines = [f"What is 2+{i}?,The answer is {2 + i},{2 + i},{i % 2}" for i in range(9)]
    content = "\n".join(["question,response,reference,quality", *lines])
    open_page(page, server.url, "data")
    drop_file(page, "mine.csv", content.encode())
    expect(page.get_by_role("combobox", name="Quality")).to_have_value("quality")
    page.get_by_role("button", name="Save and use this data").click()
    query = {**QUERY, "data": data_id(page)}
    open_page(page, server.url, "reference-swap", **query)
    expect(page.get_by_role("button", name="Swap in the demo's references")).to_be_visible()
    page.get_by_role("button", name="Bring references of my own").click()  # all of the file's are numbers
    words = "\n".join(f"word {letter}" for letter in "abcdefgh")
    file = {"name": "words.txt", "mimeType": "text/plain", "buffer": words.encode()}
    page.get_by_label("A text file, one reference a line").locator("input").set_input_files(file)
    expect(page.get_by_text("0 numeric, 0 expression, 0 multiple choice, 8 string")).to_be_visible()
    page.get_by_role("button", name="Use these references").click()
    page.get_by_text("Full run, all settings").first.click()
    expect(page.get_by_role("combobox", name="Counterfactual references from")).to_have_value(
        "Your file words.txt (8 references)"
    )
    expect(page.get_by_role("button", name="Use these references")).to_be_hidden()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(finding(page).first).to_contain_text(re.compile(r"accepts master keys on [\d.]+"), timeout=SETTLED)
    page.get_by_text("How this was measured", exact=True).click()
    expect(page.get_by_text(re.compile("words.txt")).first).to_be_visible(timeout=SETTLED)
