"""Runs in a real browser: opened by a link, named, compared, sent away and brought back, gone on with."""

import re

import pytest
from playwright.sync_api import expect

from engine.runs.folder import open_run
from engine.runs.library import all_runs
from engine.studies.attack_grid.study import STUDY, ScoreConfig
from engine.studies.study import Context
from tests.e2e.steps import SETTLED, downloaded, finding, open_page, pick_by_keyboard

SETTINGS = {"data": "demo-dialogue", "attacks": ["dsi"], "limit": 8}


@pytest.fixture(scope="module")
def made(server):
    """Two runs of planted judges on the same responses."""
    for name, strength in (("weak-run", 0.1), ("strong-run", 0.9)):
        judge = f"planted:injection?strength={strength}"
        config = ScoreConfig.model_validate({**SETTINGS, "judge": judge, "run_id": name})
        STUDY.job(config, Context(server.settings), server.settings.runs)
    return server


def test_a_link_a_title_a_comparison_a_journey_as_zip_and_the_trash(page, made, tmp_path):
    open_page(page, made.url, run="weak-run")
    expect(page).to_have_url(re.compile(r"attack-lab\?.*run=weak-run"), timeout=SETTLED)
    expect(page.get_by_text("Shown is the run weak-run")).to_be_visible(timeout=SETTLED)
    expect(page.get_by_text(re.compile("8 responses")).first).to_be_visible(timeout=SETTLED)
    page.get_by_role("button", name="All runs").click()
    expect(page.get_by_role("heading", name="weak-run")).to_be_visible(timeout=SETTLED)
    page.get_by_label("Title", exact=True).fill("Before <b>the</b> change")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Before <b>the</b> change")).to_be_visible(timeout=SETTLED)
    pick_by_keyboard(page, "Compare with", "strong-run")
    expect(finding(page).last).to_contain_text("clear of zero", timeout=SETTLED)
    expect(page).to_have_url(re.compile(r"selected=weak-run&with=strong-run"))
    expect(page.get_by_test_id("stPlotlyChart")).to_be_visible(timeout=SETTLED)
    pick_by_keyboard(page, "Compare with", "None")
    expect(page).not_to_have_url(re.compile("with="), timeout=SETTLED)
    got = downloaded(page, page.get_by_role("button", name="Export (zip)"))
    zipped = tmp_path / "run.zip"
    got.save_as(zipped)
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("Trash: 1 run")).to_be_visible(timeout=SETTLED)
    assert "weak-run" not in {r.run_id for r in all_runs(made.settings.runs)}
    page.get_by_text("Import a run").click()
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(zipped)
    expect(page.get_by_role("heading", name="Before <b>the</b> change")).to_be_visible(timeout=SETTLED)
    page.get_by_text("Trash: 1 run").click()
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("weak-run-2 is back.")).to_be_visible(timeout=SETTLED)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_an_interrupted_run_goes_on_and_unread_calls_are_asked_alone_at_390_px(page, made):
    run = open_run(made.settings.runs, "strong-run")
    table = run.table("verdicts")
    table.loc[[1, 5, 9], "unread_reason"] = "503 from the server"
    run.write_table("verdicts", table)
    run.update_manifest(state="running", writer="99999999:0")
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, made.url, "runs", selected="strong-run")
    expect(page.get_by_text("It is interrupted")).to_be_visible(timeout=SETTLED)
    expect(page.get_by_text("3 of 16 calls are unread")).to_be_visible()
    page.get_by_role("button", name="Ask 3 unread again").click()
    state = page.get_by_role("definition").filter(has_text=re.compile("^done$"))
    expect(state).to_be_visible(timeout=SETTLED)  # the page is drawn anew when the job has ended
    expect(page.get_by_text("calls are unread")).to_have_count(0, timeout=SETTLED)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    after = run.table("verdicts")
    assert after["unread_reason"].isna().all()
    assert run.manifest()["state"] == "done"
    run.update_manifest(state="stopped")
    page.reload()
    page.get_by_role("button", name="Resume", exact=True).click(timeout=SETTLED)
    expect(state).to_be_visible(timeout=SETTLED)
    expect(page.get_by_text("It is stopped")).to_have_count(0, timeout=SETTLED)
    assert len(run.manifest()["resumed"]) == 2
