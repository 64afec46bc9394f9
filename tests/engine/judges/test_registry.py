"""Which judge a spec names, and which are listed where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.errors import InputError
from engine.core.schema import Order, Protocol, Task
from engine.judges.base import Request
from engine.judges.registry import JUDGES, judges_for, make_judge

ONE = Request("i", "r", Task.DIALOGUE, "hello", "hi there")


def test_a_judge_is_listed_where_it_answers():
    assert "planted:position" in judges_for(Protocol.PAIRWISE)
    assert "planted:position" not in JUDGES
    assert "planted:injection" not in judges_for(Protocol.PAIRWISE)
    for protocol in (Protocol.POINTWISE, Protocol.PAIRWISE, Protocol.VERIFIER):
        assert next(iter(judges_for(protocol))) == "bundled:judge"


def test_a_named_model_answers_through_the_built_in_cards(tiny_folders, settings):
    judge = make_judge(f"path:{tiny_folders('llama')}", replace(settings, device="cpu"))
    assert {Protocol.POINTWISE, Protocol.VERIFIER, Protocol.RANKING} <= judge.protocols
    verdict = judge.judge([ONE])[0]
    assert "score tokens hold" in verdict.unread_reason  # a random model knows nothing of scores
    blind = replace(ONE, protocol=Protocol.VERIFIER, task=Task.VERIFICATION, reference="12", variant="no question")
    assert "hello" not in judge.prompt(blind)
    assert "hello" in judge.prompt(replace(blind, variant=""))


def test_an_own_card_replaces_the_built_in_ones(tiny_folders, settings, tmp_path):
    card = tmp_path / "own.toml"
    card.write_text(
        'name="own"\ntasks=["dialogue"]\nprotocol="pairwise"\nlabels=["A","B"]\nuser="{response_a} {response_b}"\n',
        encoding="utf-8",
    )
    judge = make_judge(f"path:{tiny_folders('llama')}", replace(settings, device="cpu"), card=card, cache=False)
    assert judge.protocols == {Protocol.PAIRWISE}
    pair = replace(ONE, protocol=Protocol.PAIRWISE, response_b="other", order=Order.AB)
    assert judge.labels(pair) == ("A", "B")


def test_the_threshold_reaches_the_verifier(tiny_folders, settings):
    with pytest.raises(InputError, match="threshold is 0"):
        make_judge(f"path:{tiny_folders('llama')}", replace(settings, device="cpu"), threshold=0.0)


def test_an_unknown_spec_names_the_known_kinds(settings):
    with pytest.raises(InputError, match=r"names no judge\. Allowed: bundled:judge"):
        make_judge("gpt-9", settings)


@pytest.mark.weights
def test_the_bundled_judge_answers_every_protocol_it_has_cards_for(weights, settings):
    judge = make_judge("bundled:judge", settings)
    assert Protocol.VERIFIER in judge.protocols
    fit = Request(
        "i", "r", Task.VERIFICATION, "How many eggs are two dozen?", "Two dozen are 24.", "24", Protocol.VERIFIER
    )
    right, wrong = judge.judge([fit, replace(fit, response="Two dozen are 20.")])
    assert right.coverage > 0.9
    assert right.p_yes > wrong.p_yes
