"""Rewordings keep what a prompt is made of; a reversed card is read back so that an obedient judge stays the same."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from engine.core.errors import InputError
from engine.core.schema import Protocol, Task
from engine.core.settings import get_settings
from engine.judges.base import Request, Verdict
from engine.judges.cards import Card, read_cards
from engine.judges.kinds import PairwiseReader, PointwiseReader, VerifierReader, both_orders
from engine.judges.labelled import CardJudge
from engine.judges.registry import make_judge
from engine.runs.folder import create_run
from engine.studies.checkup.material import REVERSED, REWORDED, of_dataset, reversed_card, reworded_cards
from engine.studies.checkup.run import run_checkup
from engine.studies.checkup.study import STUDY, CheckupConfig
from engine.studies.running import build_requests
from tests.engine.studies.checkup_judges import Sighted, made_data

CARDS = [c for c in read_cards(get_settings().assets / "cards") if c.protocol is not Protocol.RANKING]


def request(card: Card) -> Request:
    return Request("i", "r", Task(card.tasks[0]), "context", "text", "reference", protocol=card.protocol, variant="")


def judge_with(card: Card) -> Sighted:
    return Sighted({}, cards={"": card})


def slots(text: str) -> list[str]:
    return re.findall(r"\{\{?[a-z_]+\}?\}", text)


@pytest.mark.parametrize("card", CARDS, ids=lambda c: c.name)
def test_every_built_in_prompt_can_be_said_in_other_words(card):
    made = reworded_cards(judge_with(card), request(card))
    assert [m.variant for m in made] == list(REWORDED)
    assert len({card.user, *(m.user for m in made)}) == 3
    for new in made:
        assert slots(new.user) == slots(card.user)
        assert (new.labels, new.values, new.spellings) == (card.labels, card.values, card.spellings)
        assert re.findall(r"\d+", new.user) == re.findall(r"\d+", card.user)


@pytest.mark.parametrize("card", CARDS, ids=lambda c: c.name)
def test_a_reversed_prompt_keeps_its_slots_and_is_read_back(card):
    new = reversed_card(judge_with(card), request(card))
    assert new.variant == REVERSED
    assert slots(new.user) == slots(card.user)
    assert new.user != card.user
    if card.protocol is Protocol.POINTWISE:
        assert np.add(new.values, card.values).tolist() == [min(card.values) + max(card.values)] * len(card.values)
        assert new.labels == card.labels
    else:
        assert new.labels[:2] == card.labels[1::-1]


def test_the_ends_of_a_scale_change_places():
    card = next(c for c in CARDS if c.name == "instruction")
    new = reversed_card(judge_with(card), request(card))
    assert "from 1 (excellent) to 5 (very poor)" in new.user
    assert "1 is the best and 5 is the worst" in new.user
    again = Card.model_validate(card.model_dump() | {"user": "{response} Score (1-worst, 7-best): {{low}}"})
    assert "1-best, 7-worst" in reversed_card(judge_with(again), request(card)).user
    assert "{{low}}" in reversed_card(judge_with(again), request(card)).user


def test_a_prompt_of_unknown_words_and_a_judge_without_a_card_say_so(settings):
    card = Card.model_validate(CARDS[0].model_dump() | {"user": "Note: {response} {context}", "system": ""})
    with pytest.raises(InputError, match="known to the paraphraser"):
        reworded_cards(judge_with(card), request(card))
    with pytest.raises(InputError, match="no judge card"):
        reversed_card(make_judge("planted:noisy", settings), request(card))


def test_the_pair_named_worse_is_the_other_one():
    card = next(c for c in CARDS if c.name == "pairwise")
    new = reversed_card(judge_with(card), request(card))
    first = both_orders([replace(request(card), response_b_id="b", response_b="other")])[0]
    verdict = PairwiseReader().from_text(first, new, "B", Verdict())
    assert verdict.p_a == 1.0  # the second is the worse one, so the first is preferred
    check = next(c for c in CARDS if c.name == "verifier")
    turned = reversed_card(judge_with(check), request(check))
    assert VerifierReader().from_text(request(check), turned, "No", Verdict()).p_yes == 1


def test_a_real_model_answers_every_probe(tiny, tmp_path, settings):
    """A random model through real cards: every probe gets numbers, and plain verdicts are those of the judge itself."""
    loaded = tiny("llama")
    prompts = {
        "instruction": "Rate from 1 (very poor) to 5 (excellent).\n{response}\nRating:",
        "pairwise": "Which is better?\n{response_a}\n{response_b}\nBetter:",
    }
    cards = [Card.model_validate(c.model_dump() | {"user": prompts[c.name]}) for c in CARDS if c.name in prompts]
    judge = CardJudge(loaded, cards, (PointwiseReader(), PairwiseReader()), min_coverage=0.0)
    dataset, _ = made_data(2)
    short = dataset.responses.assign(text=[f"{t.split('.')[0]}." for t in dataset.responses["text"]])
    dataset = replace(dataset, responses=short)
    few = {"responses": 2, "pairs": 1, "keys": (":",), "attacks": ("dsi",)}
    config = CheckupConfig(judge=judge.spec, data=dataset.dataset_id, **few)
    run = create_run(tmp_path, "checkup", STUDY.stored(config), "tiny")
    run_checkup(config, of_dataset(dataset), judge, run, lambda done, total: None)
    table = run.table("checkup")
    measured = table[table["role"] == "decides"].groupby("probe")["n"].max()
    assert (measured > 0).all(), measured
    assert len(measured) == 11
    rows = run.table("verdicts")
    assert set(rows["variant"].dropna()) == {*REWORDED, REVERSED}
    plain = rows[(rows["attack"] == "none") & (rows["protocol"] == "pointwise") & rows["variant"].isna()]
    asked = build_requests(dataset)
    alone = {r.response_id: v.score for r, v in zip(asked, judge.judge(asked), strict=True)}
    assert plain.set_index("response_id")["score"].to_dict() == pytest.approx(alone, abs=1e-4)
    assert run.manifest()["judge"]["fingerprint"] == judge.fingerprint
