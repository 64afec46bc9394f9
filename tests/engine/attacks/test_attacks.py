"""Attacks insert, never rewrite; the diff gives the attacked text back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.attacks.base import word_diff
from engine.attacks.injections import own_text
from engine.attacks.registry import ATTACKS, make_attack
from engine.errors import InputError
from engine.judges.base import Request
from engine.schema import NONE, Task


def request(text: str) -> Request:
    return Request("i", "r", Task.DIALOGUE, "context", text)


@given(st.text())
def test_each_attack_keeps_the_response_whole(text):
    for name in ATTACKS:
        attacked = make_attack(name, "own words").apply(request(text))
        assert text in attacked
        assert (attacked == text) == (name == NONE)


def test_position_of_the_own_text():
    assert own_text("hello").apply(request("x")) == "x\nhello"
    assert own_text("hello", before=True).apply(request("x")) == "hello\nx"


@given(st.text(alphabet="ab \n", max_size=40), st.text(alphabet="ab \n", max_size=40))
def test_diff_rebuilds_both_texts(original, attacked):
    pieces = word_diff(original, attacked)
    assert "".join(p.text for p in pieces if p.kind != "removed") == attacked
    assert "".join(p.text for p in pieces if p.kind != "added") == original


def test_an_insertion_is_one_piece_even_when_it_repeats_the_response():
    pieces = word_diff("very good", "very good very good")
    assert [p.kind for p in pieces] == ["same", "added"]


def test_a_long_response_is_compared_quickly_and_whole():
    text = "word " * 40_000
    pieces = word_diff(text, make_attack("dsi").apply(request(text)))
    assert [p.kind for p in pieces] == ["same", "added"]


@pytest.mark.parametrize(
    ("name", "own", "says"),
    [("tickle", "", "Available: none, dsi"), ("own", "", "--own-text"), ("own", "x" * 20_001, "20,001 characters")],
)
def test_a_wrong_attack_is_refused_with_what_is_allowed(name, own, says):
    with pytest.raises(InputError, match=says):
        make_attack(name, own)
