"""The judge card page: mistakes are named, saved cards are judges everywhere, nothing is lost."""

from __future__ import annotations

import pytest

from dashboard import state
from dashboard.pages.judge_card.form import LABELS, MODE, NAME, PROTOCOL, SOURCE, SYSTEM, USER, parse_labels
from engine import catalog
from engine.core.errors import InputError
from engine.core.schema import Protocol
from engine.inference.hub_models import HubModel
from engine.inference.local_servers import LocalServer
from engine.judges.card_files import saved_cards
from tests.dashboard.helpers import MARKUP
from tests.dashboard.test_pages import go as go_to
from tests.dashboard.test_pages import html_of

PAGE = "pages/judge_card/page.py"


SERVERS = [
    LocalServer("Ollama", "http://127.0.0.1:11434/v1", ("qwen",), ""),
    LocalServer("vLLM", "http://127.0.0.1:8000/v1", (), "nothing answers"),
]


def go(app, page: str, **query: str):
    """The page with the drawer of the own prompt open."""
    app.session_state["own_card"] = True
    return go_to(app, page, **query)


def options(at, label: str) -> list[str]:
    return list(next(s for s in at.selectbox if s.label == label).options)


def test_it_opens_on_a_copy_of_the_built_in_card_for_the_data(app):
    at = go(app, PAGE, data="demo-verification")
    assert at.session_state[PROTOCOL] == Protocol.VERIFIER
    assert at.session_state[SOURCE] == ("built-in", "verifier")
    assert "cannot be used yet" not in html_of(at)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        pytest.param(USER, "Rate it. {context}", "has no {response}", id="response missing"),
        pytest.param(USER, "{response} {contxt}", "unknown placeholder {contxt}", id="unknown placeholder"),
        pytest.param(USER, "{{response}}", "stands for the literal text {response}", id="doubled braces"),
        pytest.param(USER, "x" * 50_001 + "{response}", "at most 50,000", id="too long"),
        pytest.param(LABELS, "1 = 1\n1 = 2", "all different", id="label twice"),
        pytest.param(LABELS, "good = 2\ngood enough = 1", "begins", id="a label begins another"),
        pytest.param(LABELS, "1 = one", "is no number", id="value"),
        pytest.param(SYSTEM, "See {context}", "is not filled in here", id="slot in the system message"),
    ],
)
def test_a_mistake_is_named_and_cannot_be_tried_or_saved(app, key, value, says):
    at = go(app, PAGE)
    at.text_input(key=NAME).set_value("mine").run()
    at.text_area(key=key).set_value(value).run()
    assert says in html_of(at).replace("&#x27;", "'")
    assert at.button(key="card_try").disabled
    assert at.button(key="card_save").disabled


def test_json_in_a_prompt_needs_no_escaping(app):
    at = go(app, PAGE)
    at.selectbox(key=MODE).set_value("json").run()
    at.text_area(key=USER).set_value('Reply as {"score": 4}.\n{context}\n{response}').run()
    at.text_input(key=NAME).set_value("as json").run()
    at.button(key="card_save").click().run()
    from engine.core.settings import get_settings

    card = saved_cards(get_settings().cards)["as json"]
    assert (card.mode, card.path) == ("json", "$.score")
    assert card.placeholders == {"context", "response"}


def test_save_use_edit_rename_delete_undo(app, settings):
    at = go(app, PAGE)
    at.text_input(key=NAME).set_value("mine").run()
    at.button(key="card_save_use").click().run()
    first = at.session_state[state.JUDGE]
    assert catalog.split_spec(first)[:2] == ("bundled:judge", "mine")
    at.text_area(key=USER).set_value("Grade: {context} {response}").run()
    at.button(key="card_save").click().run()
    assert at.session_state[state.JUDGE] != first  # the rail follows the card's present wording
    assert catalog.split_spec(at.session_state[state.JUDGE]).name == "mine"
    at.text_input(key="card_new_mine").set_value("ours").run()
    at.button(key="card_do_rename_mine").click().run()
    assert list(saved_cards(settings.cards)) == ["ours"]
    at.button(key="card_delete_ours").click().run()
    assert saved_cards(settings.cards) == {}
    assert at.session_state[state.JUDGE] == state.DEFAULT_JUDGE
    at.button(key="card_undo").click().run()
    assert saved_cards(settings.cards)["ours"].user == "Grade: {context} {response}"


@pytest.mark.parametrize("name", ["../evil", "a/b", "nul\0", "x.toml"])
def test_a_name_that_is_no_file_name_is_refused_in_words(app, settings, name):
    at = go(app, PAGE)
    at.text_input(key=NAME).set_value(name).run()
    at.button(key="card_save").click().run()
    assert "cannot name a judge card" in html_of(at)
    assert not list(settings.data_dir.rglob("*.toml"))


def test_a_saved_card_is_listed_on_every_page(app):
    at = go(app, PAGE, data="demo-verification")
    at.text_input(key=NAME).set_value("checker").run()
    at.button(key="card_save").click().run()
    at.switch_page("pages/reference_swap/page.py").run()
    assert "checker (your card)" in options(at, "Judge")


def test_an_uploaded_card_fills_the_fields_and_loads_no_model_it_names(app):
    card = catalog.built_in_cards()["dialogue"].model_copy(update={"name": "theirs", "spec": "hf:somebody/else"})
    at = go(app, PAGE)
    at.get("file_uploader")[0].upload("theirs.toml", catalog.card_toml(card).encode(), "application/toml").run()
    at.button(key="card_from_file").click().run()
    assert at.session_state[NAME] == "theirs"
    assert at.session_state["card_model"] == "bundled:judge"


def test_a_file_that_is_no_card_says_so(app):
    at = go(app, PAGE)
    at.get("file_uploader")[0].upload("x.toml", b"name = ", "application/toml").run()
    at.button(key="card_from_file").click().run()
    assert "not valid TOML" in html_of(at)


def test_markup_in_a_prompt_stays_text(app):
    at = go(app, PAGE)
    at.text_area(key=LABELS).set_value(f"{MARKUP} = 1\n{MARKUP}! = 2").run()
    at.text_area(key=USER).set_value(f"{MARKUP} {{response}} {{{{response}}}}").run()
    assert "<script" not in html_of(at)
    assert "<img" not in html_of(at)


def test_labels_are_read_line_by_line():
    assert parse_labels("Yes | YES | yes\n\nNo|NO|no") == (["Yes", "No"], [], [["YES", "yes"], ["NO", "no"]])
    assert parse_labels("1 = 1\n2 = 2,5") == (["1", "2"], [1.0, 2.5], [])
    with pytest.raises(InputError, match="give each one, or none"):
        parse_labels("1 = 1\n2")


def test_a_judge_of_the_gallery_is_chosen_with_one_click(app):
    at = go_to(app, PAGE)
    at.button(key="gallery_use_verifier").click().run()
    assert at.session_state[state.JUDGE] == "bundled:shortcut-verifier"
    assert not at.exception


def test_no_server_and_no_hub_is_asked_before_a_press(app, monkeypatch):
    asked = []
    monkeypatch.setattr(catalog, "local_servers", lambda: asked.append("servers") or SERVERS)
    monkeypatch.setattr(catalog, "look_up", lambda name: asked.append(name) or HubModel(name, "c" * 40, "mit", ()))
    at = go_to(app, PAGE)
    at.button(key="gallery_open_server").click().run()
    assert asked == []
    at.button(key="servers_look").click().run()
    assert asked == ["servers"]
    assert "nothing answers" in html_of(at)
    at.button(key="server_use_Ollama").click().run()
    assert at.session_state[state.JUDGE] == "api:qwen"
    at.button(key="gallery_open_hub").click().run()
    at.text_input(key="gallery_hub_name").set_value("no name").run()
    assert "This names no model" in html_of(at)
    at.text_input(key="gallery_hub_name").set_value("some/model").run()
    assert asked == ["servers"]
    at.button(key="hub_look").click().run()
    assert asked == ["servers", "some/model"]
    assert "licence mit" in html_of(at)
    assert at.button(key="hub_fetch_model")


def test_a_file_that_is_there_becomes_a_judge(app, tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    at = go_to(app, PAGE)
    at.button(key="gallery_open_folder").click().run()
    at.text_input(key="gallery_path").set_value(str(tmp_path / "m.gguf")).run()
    at.button(key="folder_use").click().run()
    assert at.session_state[state.JUDGE] == f"path:{tmp_path / 'm.gguf'}"
    at.button(key="gallery_own_remove_0").click().run()
    assert at.session_state[state.JUDGE] == state.DEFAULT_JUDGE
