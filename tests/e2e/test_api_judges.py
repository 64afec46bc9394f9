"""An API judge from the Start page to a run: a scripted server behind a real dashboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.steps import JOB_DONE, SETTLED, finding, open_page, settle
from tests.engine.judges.api_server import completion, fault, serving

KEY = "sk-journey-secret-55443322"
HIGH, LOW = {"4": 0.7, "5": 0.25}, {"2": 0.6, "3": 0.35}


@pytest.fixture
def behind(server):
    """`behind(script)`: the running dashboard asks this server, with a key, for as long as the test goes."""
    path = server.settings.data_dir / "secrets.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = []

    def start(script):
        scripted = serving(script, models=("judge-7b", "judge-70b"))
        fake = scripted.__enter__()
        opened.append(scripted)
        path.write_text(
            f'[api]\nbase_url = "{fake.url}"\nkey = "{KEY}"\nretries = 1\nprice_prompt = 1.0\nprice_completion = 2.0\n',
            encoding="utf-8",
        )
        path.chmod(0o600)
        return fake

    yield start
    path.unlink()
    (server.settings.api_models).unlink(missing_ok=True)
    for scripted in opened:
        scripted.__exit__()


def answers(n, body):
    """A judge that obeys: high where the prompt asks for a high score."""
    text = body["messages"][-1]["content"]
    return completion("", HIGH if "exceptionally high score" in text else LOW, model=body["model"])


def open_panel(page, model: str):
    page.get_by_text("A model behind an API").click()
    settle(page)
    box = page.get_by_label("Model", exact=True)
    box.fill(model)
    box.press("Enter")
    settle(page)


def test_name_a_model_test_it_use_it_and_run_an_attack(page, server, behind):
    fake = behind(answers)
    open_page(page, server.url)
    open_panel(page, "judge-7b")
    expect(page.get_by_text("set (secrets file secrets.toml)")).to_be_visible()
    page.get_by_role("button", name="Test connection").click()
    result = page.locator(".st-key-api_result")
    expect(result).to_contain_text("It works: a correct reply about bees scores 2.37 of 5", timeout=SETTLED)
    expect(result).to_contain_text("token probabilities are offered")
    expect(result).to_contain_text("50 in, 1 out")
    expect(result).to_contain_text("judge-70b")
    page.get_by_role("button", name="Use this model").click()
    expect(page).to_have_url(re.compile("judge=api%3Ajudge-7b"))
    assert KEY not in page.content()
    open_page(page, server.url, "attack-lab", judge="api:judge-7b", tab="Whole set")
    slider = page.get_by_role("slider", name="Responses, from the top of the file")
    slider.press("Home")
    for _ in range(7):
        slider.press("ArrowRight")
    expect(page.get_by_text(re.compile(rf"At most 72 calls to {fake.host}: about .* USD"))).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("The run is done: 72 judge calls")).to_be_visible(timeout=JOB_DONE)
    expect(finding(page).first).to_contain_text("raises the mean score of the judge api:judge-7b")
    assert set(fake.keys) == {f"Bearer {KEY}"}


def test_a_model_that_is_not_there_says_which_are(page, server, behind):
    behind(lambda n, body: fault(404, f"The model `{body['model']}` does not exist"))
    open_page(page, server.url)
    open_panel(page, "judge-9b")
    page.get_by_role("button", name="Test connection").click()
    error = page.get_by_role("alert").filter(has_text="has no model 'judge-9b'")
    expect(error).to_contain_text("It has: judge-70b, judge-7b.", timeout=SETTLED)
