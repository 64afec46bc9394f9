"""Saved cards: files come back as they were, names are safe, a spec means one wording."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.core.schema import Protocol, Task
from engine.judges.card_files import (
    MAX_FILE_BYTES,
    broken_cards,
    card_notices,
    card_spec,
    card_toml,
    chosen_card,
    delete_card,
    given_card,
    judge_given,
    rename_card,
    save_card,
    saved_cards,
    split_spec,
    upload_card,
)
from engine.judges.cards import MAX_PROMPT, Card, make_card, read_cards

CARD = Card(name="mine", tasks=("dialogue",), labels=("1", "2"), values=(1, 2), user="Rate {response} after {context}")
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def changed(card: Card = CARD, **fields: object) -> Card:
    return make_card({**card.model_dump(exclude_defaults=True), **fields}, "test")


@given(TEXT, TEXT)
def test_a_card_comes_back_from_its_file_to_the_last_character(system, prompt):
    card = changed(system=system, user=prompt.replace("{", "").replace("}", "") + "{response}")
    assert Card.model_validate(tomllib.loads(card_toml(card))) == card


def test_the_built_in_cards_come_back_from_our_files(settings):
    for card in read_cards(settings.assets / "cards"):
        assert Card.model_validate(tomllib.loads(card_toml(card))) == card


def test_recorded_runs_still_name_the_present_built_in_prompts(settings):
    """A field that is added to the card must not change the digest of a card that does not use it."""
    import hashlib

    cards = read_cards(settings.assets / "cards")
    prompts = hashlib.sha256("".join(sorted(c.digest for c in cards)).encode()).hexdigest()[:8]
    recorded = json.loads((settings.assets / "demo/dialogue/run/manifest.json").read_text(encoding="utf-8"))
    assert recorded["judge"]["fingerprint"].endswith(f"-{prompts}")


def test_the_digest_covers_the_path_and_not_the_model():
    text = changed(mode="json", path="$.score")
    assert text.digest != changed(mode="json", path="$.grade").digest
    assert CARD.digest == changed(spec="bundled:base").digest == changed(name="other").digest


def test_save_list_rename_delete_and_undo(tmp_path):
    save_card(tmp_path, CARD)
    assert saved_cards(tmp_path) == {"mine": CARD}
    with pytest.raises(InputError, match="already"):
        save_card(tmp_path, changed(system="x"))
    save_card(tmp_path, changed(system="x"), replace=True)
    assert saved_cards(tmp_path)["mine"].system == "x"
    rename_card(tmp_path, "mine", "ours 2")
    assert list(saved_cards(tmp_path)) == ["ours 2"]
    gone = delete_card(tmp_path, "ours 2")
    assert saved_cards(tmp_path) == {}
    save_card(tmp_path, gone)
    assert saved_cards(tmp_path)["ours 2"].system == "x"


def test_names_that_differ_in_capitals_only_are_one_file_on_some_systems(tmp_path):
    save_card(tmp_path, CARD)
    with pytest.raises(InputError, match="'mine' already"):
        save_card(tmp_path, changed(name="Mine"), replace=True)
    save_card(tmp_path, changed(name="b"))
    with pytest.raises(InputError, match="already"):
        rename_card(tmp_path, "b", "MINE")
    assert rename_card(tmp_path, "mine", "Mine").name == "Mine"


@pytest.mark.parametrize(
    "name", ["", ".", "../x", "a/b", "a\\b", "a.toml", " a", "a  b", "é", "x" * 61, "a\n", "a?b@c"]
)
def test_a_name_that_is_no_plain_file_name_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="cannot name a judge card"):
        save_card(tmp_path, CARD.model_copy(update={"name": name}))
    with pytest.raises(InputError):
        delete_card(tmp_path, name)
    assert not list(tmp_path.rglob("*.toml"))


def test_a_damaged_file_is_named_and_hides_no_other(tmp_path):
    save_card(tmp_path, CARD)
    (tmp_path / "broken.toml").write_text("name = ", encoding="utf-8")
    assert list(saved_cards(tmp_path)) == ["mine"]
    assert "not valid TOML" in broken_cards(tmp_path)["broken"]


def test_a_file_changed_by_hand_is_seen(tmp_path):
    path = save_card(tmp_path, CARD)
    assert saved_cards(tmp_path)["mine"].system == ""
    path.write_text(card_toml(changed(system="new")), encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert saved_cards(tmp_path)["mine"].system == "new"


def test_an_upload_is_capped():
    assert upload_card(card_toml(CARD).encode(), "x.toml") == CARD
    with pytest.raises(InputError, match="bytes"):
        upload_card(b"#" * (MAX_FILE_BYTES + 1), "x.toml")
    with pytest.raises(InputError, match="not valid TOML"):
        upload_card(b"\xff\xfe", "x.toml")


# --- a card in a judge's spec ---


@pytest.mark.parametrize("model", ["bundled:judge", "hf:a/b@v1", "path:/models/x", "api:m?samples=3", "decision:m"])
def test_a_spec_with_a_card_comes_apart_again(model):
    assert split_spec(card_spec(model, CARD)) == (model, "mine", CARD.digest[:8])
    assert card_spec(card_spec(model, CARD), CARD) == card_spec(model, CARD)
    assert split_spec(model) == (model, "", "")


def test_a_changed_card_is_not_taken_for_its_earlier_wording(tmp_path):
    save_card(tmp_path, CARD)
    spec = card_spec("bundled:judge", CARD)
    assert chosen_card(spec, None, tmp_path) == ("bundled:judge", CARD)
    save_card(tmp_path, changed(system="x"), replace=True)
    with pytest.raises(InputError, match="was changed"):
        chosen_card(spec, None, tmp_path)
    assert chosen_card("bundled:judge?card=mine", None, tmp_path)[1].system == "x"


@pytest.mark.parametrize("judge", ["planted:injection", "recorded:x.csv"])
def test_a_judge_without_a_prompt_takes_no_card(tmp_path, judge):
    save_card(tmp_path, CARD)
    with pytest.raises(InputError, match="reads no prompt"):
        chosen_card(f"{judge}?card=mine", None, tmp_path)


def test_the_judge_named_comes_before_the_cards_own(tmp_path):
    save_card(tmp_path, changed(spec="hf:a/b"))
    card = Path("mine")
    assert split_spec(judge_given(None, card, tmp_path)).model == "hf:a/b"
    assert split_spec(judge_given("path:x", card, tmp_path)).model == "path:x"
    assert judge_given(None, None, tmp_path) == "bundled:judge"


def test_a_card_is_given_by_name_or_by_file(tmp_path):
    path = save_card(tmp_path, CARD)
    assert given_card(path, tmp_path / "elsewhere") == given_card(Path("mine"), tmp_path) == CARD
    with pytest.raises(InputError, match=r"no saved judge card 'theirs'\. Saved are: mine"):
        given_card(Path("theirs"), tmp_path)


# --- what to look at twice ---


@pytest.mark.parametrize(
    ("fields", "says", "error"),
    [
        pytest.param({"labels": ("good", "good enough")}, "begins", True, id="a word begins another"),
        pytest.param({"labels": ("Yes", "yes")}, "written alike", True, id="only capitals differ"),
        pytest.param({"labels": ("1", "10")}, "more than one pass", False, id="a number begins another"),
        pytest.param({"labels": ("1 ", "2")}, "space", True, id="a space"),
        pytest.param({"system": "See {context}"}, "is not filled in here", True, id="slot in the system message"),
        pytest.param({"user": "{response} {{context}}"}, "literal text {context}", False, id="doubled braces"),
        pytest.param({"user": "{response} {Context}"}, "{Context} is not filled in", False, id="capital"),
        pytest.param({"user": "{response} { reference }"}, "{ reference } is not filled in", False, id="spaces"),
        pytest.param({"user": "{response}"}, "no {context}", False, id="no context"),
        pytest.param({"labels": ("poor", "great")}, "never names the answer 'poor'", False, id="unnamed answer"),
    ],
)
def test_a_notice_names_the_thing(fields, says, error):
    found = [n for n in card_notices(changed(**fields)) if says in n.what]
    assert found
    assert found[0].error is error


def test_braces_of_json_are_text():
    card = changed(user='Reply {"score": 4} or {"why": {"a": 1}}. {response} {context}')
    assert card_notices(card) == []
    assert card.placeholders == {"response", "context"}


def test_the_prompt_is_capped_and_the_cap_is_named():
    room = MAX_PROMPT - len(" {response}")
    assert changed(user="x" * room + " {response}")
    with pytest.raises(InputError, match="50,001 characters; at most 50,000"):
        changed(user="x" * (room + 1) + " {response}")


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": "json"},
        {"path": "$.score"},
        {"mode": "json", "path": "$..x"},
        {"tasks": ()},
        {"values": (1, float("inf"))},
    ],
)
def test_fields_that_do_not_go_together_are_refused(fields):
    with pytest.raises(InputError):
        changed(**fields)


def test_a_pair_card_is_checked_as_one():
    card = Card(
        name="p", tasks=(Task.QUESTION,), protocol=Protocol.PAIRWISE, labels=("A", "B"), user="{response_a}{response_b}"
    )
    assert [n.what for n in card_notices(card)] == ["It has no {context}: the judge does not see what was asked."]
