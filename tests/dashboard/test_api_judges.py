"""Choosing an API judge on the Start page: what is shown, what a link may do, what is estimated."""

from __future__ import annotations

import re

import pytest

from dashboard import state
from dashboard.progress import api_cost
from engine import catalog
from engine.core.settings import get_settings
from engine.data.store import load_dataset
from tests.dashboard.helpers import KEY
from tests.dashboard.test_pages import go, html_of

START = "pages/start/page.py"


def test_without_a_server_the_page_says_how_to_set_one(app, settings, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    app.session_state["api_judges"] = True
    at = go(app, START)
    assert "none is set" in html_of(at)
    assert any("base_url" in block.value for block in at.code)
    assert not [b for b in at.button if b.key == "api_test"]


def test_server_and_key_state_are_shown_and_the_key_never(app, server):
    app.session_state["api_judges"] = True
    at = go(app, START)
    html = html_of(at)
    assert "http://127.0.0.1:9/v1" in html
    assert "set (secrets file secrets.toml)" in html
    assert KEY not in html + str(at)
    assert at.button(key="api_use").disabled  # no model is named yet


def test_a_model_is_chosen_for_every_page_taken_off_the_list_and_put_back(app, server):
    app.session_state["api_judges"] = True
    at = go(app, START)
    at.text_input(key="api_model").input("my/model:7b").run()
    at.slider(key="api_samples").set_value(3).run()
    at.button(key="api_use").click().run()
    at.run()
    spec = "api:my/model:7b?samples=3"
    assert at.session_state[state.JUDGE] == spec
    assert catalog.known_models() == ("api:named", spec)
    at.switch_page("pages/attack_lab/page.py")
    at.query_params["tab"] = state.TAB_SET
    at.run()
    assert at.session_state[state.JUDGE] == spec
    at.switch_page(START).run()
    at.button(key=f"api_forget_{spec}").click().run()
    at.run()
    assert catalog.known_models() == ("api:named",)
    assert at.session_state[state.JUDGE] == state.DEFAULT_JUDGE
    at.button(key="api_undo").click().run()
    assert catalog.known_models() == ("api:named", spec)


def test_a_name_that_is_none_is_explained_and_cannot_be_used(app, server):
    app.session_state["api_judges"] = True
    at = go(app, START)
    at.text_input(key="api_model").input("<b>bold</b>").run()
    assert at.button(key="api_use").disabled
    assert "names no API model" in html_of(at)
    assert "<b>bold" not in html_of(at)


def test_a_link_may_name_a_listed_model_and_no_other(app, server):
    at = go(app, START, judge="api:named")
    assert at.session_state[state.JUDGE] == "api:named"


def test_a_link_cannot_make_this_machine_call_another_model(app, server):
    at = go(app, START, judge="api:somebody-elses")
    assert at.session_state[state.JUDGE] == state.DEFAULT_JUDGE
    assert "api:somebody-elses" in html_of(at)


def test_settings_that_are_wrong_are_named_on_the_page(app, server):
    server.write_text('[api]\nbase_url = "http://me:pass@x/v1"\n', encoding="utf-8")
    app.session_state["api_judges"] = True
    at = go(app, START)
    assert "holds a name or a password" in html_of(at)


def test_the_estimate_beside_the_run_button_is_the_rule_s(server):
    dataset = load_dataset("demo-dialogue", get_settings().datasets)
    said = api_cost("api:named", dataset, 100)
    assert said.startswith("At most 100 calls to 127.0.0.1:9: about ")
    assert "goes beyond the cap" not in said
    assert "goes beyond the cap" in api_cost("api:named", dataset, 301)
    assert api_cost("api:named?answers=text&samples=4", dataset, 100).startswith("At most 400 calls")
    assert api_cost("bundled:judge", dataset, 100) == ""


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("steering_and_anchors", {"judge": "api:named", "data": "demo-dialogue"}),
        ("reference_swap", {"judge": "api:named", "data": "demo-verification"}),
        ("transport_audit", {"judge": "api:named", "data": "demo-pairs"}),
        ("protocols", {"judge": "api:named", "data": "demo-instruction"}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_every_study_says_what_an_api_judge_would_be_sent_before_it_runs(app, server, page, query):
    for drawer in ("cap_setup", "cap_settings", "swap_settings", "audit_full", "protocols_setup"):
        app.session_state[drawer] = True
    shown = html_of(go(app, f"pages/{page}/page.py", **query))
    calls = int(re.search(r"At most ([\d,]+) calls to 127\.0\.0\.1:9: about", shown).group(1).replace(",", ""))
    said = re.search(r"([\d\u202f]+) judge calls", shown).group(1).replace("\u202f", "")
    assert calls >= int(said) > 100  # a verifier's YES is checked with more
