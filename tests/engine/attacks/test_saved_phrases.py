"""Phrases found here are attacks like the published ones."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from engine.attacks.cards import PHRASES, SavedPhrase, parse_attack, save_phrase, saved_phrases
from engine.attacks.registry import describe_attack, make_attack
from engine.core.errors import InputError
from engine.core.schema import Task
from engine.judges.base import Request

PHRASE = SavedPhrase(
    "found-1", ("river", "Number", "seven"), (2.0, 3.0, math.nan, 3.5), "bundled:judge", "f", "pointwise", "none", "d",
    "2026-01-01T00:00:00+00:00", "run",
)  # fmt: skip
REQUEST = Request("i", "r", Task.DIALOGUE, "c", "a response")


def test_what_is_saved_is_read_again_and_attacks(settings):
    save_phrase(PHRASE)
    [(name, found)] = saved_phrases().items()
    assert (name, found.words, found.run_id) == ("found-1", PHRASE.words, "run")
    assert math.isnan(found.values[2])
    assert make_attack("suffix:found-1:2").apply(REQUEST) == "a response river Number"
    assert make_attack("suffix:found-1").apply(REQUEST) == "a response river Number seven"
    assert parse_attack("suffix:found-1:3").name == "suffix:found-1"
    assert make_attack("suffix:found-1:1@before").apply(REQUEST) == "river a response"
    assert "found-1" in describe_attack("suffix:found-1:2").title


def test_more_words_than_it_has_are_refused(settings):
    save_phrase(PHRASE)
    with pytest.raises(InputError, match="has 3"):
        parse_attack("suffix:found-1:4")


@pytest.mark.parametrize("name", ["", "123", "Upper", "a--b", "-a", "a-", "../x", "a" * 41, "x-deflate"])
def test_names_that_could_not_be_read_back_are_refused(name):
    with pytest.raises(InputError, match="cannot name a phrase"):
        save_phrase(replace(PHRASE, name=name))


@pytest.mark.parametrize("words", [(), ("a",) * 6, ("two words",), ("",)])
def test_phrases_of_another_shape_are_refused(words):
    with pytest.raises(InputError, match="1 to 5 words"):
        save_phrase(replace(PHRASE, words=words))


def test_a_broken_file_hides_no_other(settings):
    path = save_phrase(PHRASE)
    for name, text in (("a.json", "{"), ("b.json", "[]"), ("c.json", path.read_text())):  # c: another's name inside
        path.with_name(name).write_text(text)
    assert list(saved_phrases()) == ["found-1"]


def test_a_published_phrase_keeps_its_name(settings):
    published = next(iter(PHRASES))
    save_phrase(replace(PHRASE, name=published))
    assert make_attack("suffix:1").apply(REQUEST) == f"a response {PHRASES[published].split()[0]}"
