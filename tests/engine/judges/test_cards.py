"""Judge cards: templates are filled in one pass, mistakes are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.core.schema import Protocol, Task
from engine.judges.cards import PLACEHOLDERS, CardBook, built_in_cards, fill, read_card, read_cards

GOOD = 'name="x"\ntasks=["dialogue"]\nlabels=["1","2"]\nvalues=[1,2]\nuser="Rate {response} after {context}"\n'


def test_built_in_cards_cover_what_the_bundled_judge_is_asked(settings):
    cards = built_in_cards(settings.assets / "cards")
    assert {Task.SUMMARY, Task.DIALOGUE, Task.INSTRUCTION} <= set(cards)
    assert cards[Task.DIALOGUE].labels == ("1", "2", "3", "4", "5")
    assert not any(card.anchored for card in cards.values())


def test_built_in_cards_answer_each_question_once(settings):
    book = CardBook(read_cards(settings.assets / "cards"))
    assert {Protocol.POINTWISE, Protocol.VERIFIER, Protocol.RANKING} <= book.protocols


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
        pytest.param(("{context}", "{anchor_low}"), "{anchor_low} stands alone", id="one anchor"),
        pytest.param(("{context}", "{response_a}"), "has no meaning in a pointwise card", id="slot of a pair"),
        pytest.param(("values=[1,2]", ""), "0 values for 2 labels", id="no values"),
        pytest.param(("name=", 'protocol="pairwise"\nname='), "has no {response_a}", id="pair without slots"),
        pytest.param(("name=", 'protocol="verifier"\nname='), "has no {reference}", id="verifier without reference"),
        pytest.param(("name=", 'protocol="ranking"\nname='), 'has mode "text"', id="ranking by labels"),
        pytest.param(("name=", "max_new_tokens=0\nname="), "max_new_tokens", id="no room for a reply"),
    ],
)
def test_a_wrong_card_says_what(tmp_path, change, says):
    card = tmp_path / "card.toml"
    card.write_text(GOOD.replace(*change), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_card(card)
    assert says in str(error.value)


def test_a_missing_card_is_named(tmp_path):
    with pytest.raises(InputError, match=r"'nowhere\.toml' cannot be read"):
        read_card(tmp_path / "nowhere.toml")


def test_digest_covers_the_prompt_and_not_the_remark(tmp_path):
    card = tmp_path / "card.toml"
    digests = []
    for text in (GOOD, GOOD + 'remark="hi"\n', GOOD.replace("Rate", "Judge")):
        card.write_text(text, encoding="utf-8")
        digests.append(read_card(card).digest)
    assert digests[0] == digests[1] != digests[2]


PAIR = 'name="p"\ntasks=["question"]\nprotocol="pairwise"\nlabels=["A","B","C"]\nuser="{response_a} {response_b}"\n'


def test_a_pair_needs_no_values_and_has_two_or_three_labels(tmp_path):
    card = tmp_path / "card.toml"
    card.write_text(PAIR, encoding="utf-8")
    assert read_card(card).values == ()
    card.write_text(PAIR.replace('"C"', '"C","D"'), encoding="utf-8")
    with pytest.raises(InputError, match="a pairwise card has 2 to 3 labels, this one 4"):
        read_card(card)
