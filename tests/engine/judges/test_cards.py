"""Judge cards: templates are filled in one pass, mistakes are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InputError
from engine.judges.cards import PLACEHOLDERS, built_in_cards, fill, read_card
from engine.schema import Task

GOOD = 'name="x"\ntasks=["dialogue"]\nlabels=["1","2"]\nvalues=[1,2]\nuser="Rate {response} after {context}"\n'


def test_built_in_cards_cover_what_the_bundled_judge_is_asked(settings):
    cards = built_in_cards(settings.assets / "cards")
    assert {Task.SUMMARY, Task.DIALOGUE, Task.INSTRUCTION} <= set(cards)
    assert cards[Task.DIALOGUE].labels == ("1", "2", "3", "4", "5")


@pytest.mark.parametrize("text", [f"{{{p}}}" for p in PLACEHOLDERS])
def test_a_value_that_looks_like_a_placeholder_stays(text):
    values = dict.fromkeys(PLACEHOLDERS, "FILLED") | {"response": text}
    assert fill("a {response} b {context}", values) == f"a {text} b FILLED"


@given(st.text(), st.text())
def test_fill_is_one_pass(response, context):
    assert fill("<{response}|{context}>", {"response": response, "context": context}) == f"<{response}|{context}>"


def test_literal_braces():
    assert fill('{"score": 1} {{response}} {response}', {"response": "x"}) == '{"score": 1} {response} x'


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(("{context}", "{contxt}"), "contxt", id="unknown placeholder"),
        pytest.param(("{response}", "it"), "has no {response}", id="response missing"),
        pytest.param(("[1,2]", "[1,2,3]"), "3 values for 2 labels", id="values"),
        pytest.param(('["1","2"]', '["1","1"]'), "all different", id="labels"),
        pytest.param(("dialogue", "chess"), "tasks", id="task"),
        pytest.param(("name", "nome"), "nome", id="unknown key"),
        pytest.param(("=", " "), "not valid TOML", id="toml"),
    ],
)
def test_a_wrong_card_says_what(tmp_path, change, says):
    card = tmp_path / "card.toml"
    card.write_text(GOOD.replace(*change), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_card(card)
    assert says in str(error.value)


def test_a_missing_card_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.toml cannot be read"):
        read_card(tmp_path / "nowhere.toml")


def test_digest_covers_the_prompt_and_not_the_remark(tmp_path):
    card = tmp_path / "card.toml"
    digests = []
    for text in (GOOD, GOOD + 'remark="hi"\n', GOOD.replace("Rate", "Judge")):
        card.write_text(text, encoding="utf-8")
        digests.append(read_card(card).digest)
    assert digests[0] == digests[1] != digests[2]
