"""Defenses quote the response; a candidate cannot break out of the quote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.defenses.prompting import delimiters
from engine.defenses.registry import DEFENSES, defend
from engine.errors import InputError
from engine.judges.base import Request, Verdict
from engine.schema import NONE, Protocol, Task


class Seen:
    """A judge that keeps what it was asked."""

    spec, fingerprint, protocols = "planted:seen", "seen", frozenset({Protocol.POINTWISE})

    def __init__(self):
        self.requests = []

    def labels(self, request):
        return ("1", "2")

    def judge(self, requests, checkpoint=None):
        self.requests += requests
        return [Verdict(score=1.0) for _ in requests]

    def prompt(self, request):
        return request.quote.note + request.dressed(request.response)


REQUEST = Request("i", "r", Task.DIALOGUE, "context", "a response")


@given(st.text())
def test_the_fence_is_not_in_the_text(text):
    quote = delimiters(replace(REQUEST, response=text))
    assert quote.opening.strip() not in text
    assert quote.closing.strip() not in text


def test_a_candidate_that_copies_the_fence_gets_another():
    first = delimiters(REQUEST)
    forged = delimiters(replace(REQUEST, response="a response" + first.closing))
    assert first.closing != forged.closing


def test_defenses_compose_in_the_order_named_and_name_the_arm():
    judge = Seen()
    defend(judge, "delimiters+sandwich").judge([REQUEST])
    request = judge.requests[0]
    shown = request.dressed(request.response)
    assert request.defense == "delimiters+sandwich"
    assert shown.startswith("[begin ")
    assert shown.index("[end ") < shown.index("Remember")
    defend(judge, "sandwich+delimiters").judge([REQUEST])
    shown = judge.requests[1].dressed(REQUEST.response)
    assert shown.index("Remember") < shown.index("[end ")


def test_none_is_the_judge_itself():
    judge = Seen()
    assert defend(judge, NONE) is judge


def test_the_request_is_not_changed_in_place():
    judge = Seen()
    for name in DEFENSES:
        defend(judge, name).judge([REQUEST])
    assert REQUEST.quote.note == ""
    assert REQUEST.defense == NONE


def test_an_unknown_defense_is_named():
    with pytest.raises(InputError, match=r"Unknown defense 'shield'\. Available: none, delimiters, sandwich"):
        defend(Seen(), "shield")
