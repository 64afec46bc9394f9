"""Steering and anchors in a real browser: the recorded run read out, and a quick run on an own csv with a new alpha."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.steps import JOB_DONE, PLANTED, SETTLED, data_id, downloaded, drop_file, finding, open_page, settle

PATH = "steering-and-anchors"


def test_reading_the_recorded_run_from_the_curve_to_the_cost(page, server):
    if not (server.settings.assets / "demo" / "dialogue" / "cap" / "metrics.parquet").is_file():
        pytest.skip("the recorded run of the study is absent; judgescope study cap makes one")
    open_page(page, server.url, PATH, judge="bundled:judge")
    expect(finding(page).first).to_contain_text("scores by", timeout=SETTLED)
    curve = page.get_by_test_id("stPlotlyChart").first
    expect(curve).to_contain_text("How does steering move the judged score?", timeout=SETTLED)
    before = page.get_by_label("Steered high").inner_text()
    page.get_by_role("slider", name="alpha, how hard the tutor is steered").press("Home")
    settle(page)
    expect(page.get_by_label("Steered high")).not_to_have_text(before, timeout=SETTLED)
    expect(page).to_have_url(re.compile(r"alpha=0(&|$)"))
    for tab, title in (("Map", "Do the two sides lie apart?"), ("Attacks", "Do anchors hold the score?")):
        page.get_by_role("tab", name=tab).click()
        settle(page)
        expect(page.get_by_role("tabpanel", name=tab)).to_contain_text(title, timeout=SETTLED)
    got = downloaded(page, page.get_by_role("tabpanel", name="Attacks").get_by_role("button", name="Data (CSV)").first)
    assert got.suggested_filename == "cap_grid.csv"
    page.get_by_text("How this was measured", exact=True).click()
    expect(page.get_by_text(re.compile(r"recorded on 20\d\d-\d\d-\d\d")).first).to_be_visible(timeout=SETTLED)


def test_answers_with_references_are_taken_as_answers_that_get_a_score(page, server):
    rows = [f"r{i},What is {i}+{i}?,It is {2 * i + i % 2}.,s{i % 2},{2 * i},{not i % 2},{5 - i % 2}" for i in range(8)]
    open_page(page, server.url, "data", judge=PLANTED)
    drop_file(page, "maths.csv", "\n".join(["id,prompt,response,system,reference,correctness,rating", *rows]).encode())
    page.get_by_role("button", name="Save and use this data").click()
    open_page(page, server.url, PATH, judge=PLANTED, data=data_id(page))
    expect(page.get_by_role("button", name="Quick run")).to_be_disabled(timeout=SETTLED)
    page.get_by_role("button", name="Take it as: answer to a question").click()
    expect(page.get_by_role("button", name="Quick run")).to_be_enabled(timeout=SETTLED)
    expect(page.get_by_text("scores by people (8 of 8)")).to_be_visible()


@pytest.mark.slow
@pytest.mark.weights
def test_a_quick_run_on_a_csv_of_ones_own_and_a_new_alpha_of_it(page, server, weights):
    lines = [f'r{i},"Where is my order {i}?","Your order {i} leaves on day {i % 5}.",s{i % 2}' for i in range(8)]
    open_page(page, server.url, "data", judge=PLANTED)
    drop_file(page, "support.csv", "\n".join(["id,prompt,response,system", *lines]).encode())
    page.get_by_role("button", name="Save and use this data").click()
    data = data_id(page)
    open_page(page, server.url, PATH, judge=PLANTED, data=data)
    expect(page.get_by_text("Missing: Scores by people")).to_be_visible(timeout=SETTLED)
    page.get_by_role("button", name="Quick run").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible(timeout=SETTLED)
    expect(page.get_by_text(re.compile(r"The tutor writes candidates"))).to_be_visible(timeout=SETTLED)
    expect(finding(page).first).to_contain_text("CAP", timeout=JOB_DONE)
    for tab, title in (("Layers", "At which layer"), ("Map", "Do the two sides lie apart?")):
        page.get_by_role("tab", name=tab).click()
        settle(page)
        expect(page.get_by_role("tabpanel", name=tab)).to_contain_text(title, timeout=SETTLED)
    page.get_by_role("tabpanel", name="Map").get_by_text("UMAP", exact=True).click()
    expect(page.get_by_role("tabpanel", name="Map")).to_contain_text("distances between far groups", timeout=SETTLED)
    slider = page.get_by_role("slider", name="alpha, how hard the tutor is steered")
    for _ in range(7):  # between two alphas of the run
        slider.press("ArrowLeft")
    expect(page.get_by_text("just now, n = 3").first).to_be_visible(timeout=JOB_DONE)
