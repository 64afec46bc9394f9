"""Anchors: each under its right label, moved by no attack, written once an item, and never made up."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from engine.attacks.cards import ATTACKS
from engine.attacks.registry import make_attack
from engine.core.errors import InputError
from engine.core.schema import Task
from engine.defenses.anchors import AnchoredJudge, Anchors, GivenAnchors, PromptedAnchors, random_anchors, rated_anchors
from engine.defenses.cards import DEFENSES
from engine.defenses.registry import defend
from engine.defenses.writing import Written
from engine.judges.base import Cost, Request
from engine.judges.cards import read_cards
from engine.judges.kinds import PointwiseReader
from engine.judges.labelled import CardJudge
from engine.judges.planted import make_planted
from tests.engine.defenses.seen import Seen

REQUEST = Request("i1", "r1", Task.DIALOGUE, "the context", "the response")
GIVEN = GivenAnchors("given", {"i1": Anchors("the low one", "the high one")})


class Tutor:
    """Writes what it was asked for, and counts."""

    def __init__(self):
        self.asked = []

    def write(self, prompts, new_tokens, after_batch):
        self.asked.append((tuple(prompts), new_tokens))
        after_batch()
        return [Written("poor" if "poor" in p else "good", 10, 3.0, 0.5) for p in prompts]

    def cost(self, prompts, new_tokens):
        return Cost(len(prompts), 100, 0)


@pytest.mark.parametrize("task", [Task.DIALOGUE, Task.SUMMARY])
def test_each_anchor_stands_under_its_own_label(task, tiny, settings):
    judge = CardJudge(tiny("llama"), read_cards(settings.assets / "cards"), [PointwiseReader()])
    shown = AnchoredJudge(judge, "given", GIVEN).prompt(replace(REQUEST, task=task))
    marks = ["the context", "Lower quality reference", "the low one", "Higher quality reference", "the high one"]
    places = [shown.index(mark) for mark in [*marks, "the response"]]
    assert places == sorted(places)
    assert shown.count("the low one") == shown.count("the high one") == 1


def test_no_attack_moves_the_anchors():
    tutor, judge = Tutor(), Seen()
    attacked = [replace(REQUEST, response=make_attack(name, "own").apply(REQUEST), attack=name) for name in ATTACKS]
    AnchoredJudge(judge, "wcap", PromptedAnchors("wcap", tutor, "quality")).judge(attacked)
    assert {(r.anchor_low, r.anchor_high) for r in judge.requests} == {("poor", "good")}
    [(prompts, _)] = tutor.asked
    assert len(prompts) == 2
    assert not any(REQUEST.response in prompt for prompt in prompts)


def test_an_item_s_first_request_pays_for_its_anchors():
    source = PromptedAnchors("wcap", Tutor(), "quality")
    rows = [REQUEST, replace(REQUEST, response_id="r2"), replace(REQUEST, item_id="i2", context="another")]
    verdicts = AnchoredJudge(Seen(), "wcap", source).judge(rows)
    assert [v.forward_passes for v in verdicts] == [7.0, 1.0, 7.0]
    assert [v.seconds for v in verdicts] == [1.25, 0.25, 1.25]


def test_a_summary_s_anchors_may_be_longer_than_a_reply_s():
    tutor = Tutor()
    both = [REQUEST, replace(REQUEST, task=Task.SUMMARY, item_id="i2")]
    PromptedAnchors("score-anchors", tutor, "score").anchors(both)
    assert sorted(n for _, n in tutor.asked) == [64, 128]
    assert all(
        f"{score:g} points of 5" in p for (pair, _) in tutor.asked for p, score in zip(pair, (2, 4), strict=True)
    )


def test_what_it_will_cost_is_said_without_asking():
    source = PromptedAnchors("wcap", Tutor(), "quality")
    cost = AnchoredJudge(Seen(), "wcap", source).cost([REQUEST] * 2)
    assert source._tutor.asked == []
    assert (cost.calls, cost.tokens) == (2 + 2, 2 * 48 + 100)


def test_without_anchors_a_verdict_is_unread_and_the_judge_is_not_asked():
    judge = Seen()
    found = AnchoredJudge(judge, "given", GIVEN).judge([replace(REQUEST, item_id="other"), REQUEST])
    assert "no anchors are given" in found[0].unread_reason
    assert math.isnan(found[0].score)
    assert found[1].read
    assert len(judge.requests) == 1


def test_two_anchored_defenses_are_refused():
    with pytest.raises(InputError, match="has anchors already"):
        defend(Seen(), "wcap+score-anchors", sources=dict.fromkeys(("wcap", "score-anchors"), GIVEN)).judge([REQUEST])


@pytest.mark.parametrize("name", ["human-anchors", "random-anchors"])
def test_anchors_of_a_data_set_need_one(name):
    with pytest.raises(InputError, match="wcap"):
        defend(make_planted("planted:constant"), name)


def test_every_anchored_defense_takes_a_given_source():
    for name, card in DEFENSES.items():
        if card.anchored:
            judge = Seen()
            defend(judge, name, sources={name: GIVEN}).judge([REQUEST])
            assert (judge.requests[0].anchor_low, judge.requests[0].anchor_high) == ("the low one", "the high one")
            assert judge.requests[0].defense == name


def responses(texts, item="i"):
    return pd.DataFrame({"response_id": [f"r{k}" for k in range(len(texts))], "item_id": item, "text": texts})


def test_rated_anchors_leave_the_judged_response_out_and_lie_near_their_labels():
    found = rated_anchors(responses(["a", "b", "c", "d"]), pd.Series([2.1, 1.6, 4.2, 3.4]), (1.0, 5.0))
    assert [(f.low, f.high) for f in found.values()] == [("b", "c"), ("a", "c"), ("a", "d"), ("a", "c")]
    assert (found["r0"].low_score, found["r0"].high_score) == (1.6, 4.2)


def test_a_response_rated_far_from_a_label_is_no_anchor():
    found = rated_anchors(responses(["a", "b", "c"]), pd.Series([4.1, 4.4, 4.9]), (1.0, 5.0))
    assert all("near 2 and near 4" in f.unread for f in found.values())
    halved = rated_anchors(responses(["a", "b", "c"]), pd.Series([0.3, 0.7, 0.5]), (0.0, 1.0))
    assert (halved["r2"].low, halved["r2"].high) == ("a", "b")


def test_unrated_data_has_no_rated_anchors():
    with pytest.raises(InputError, match="rated"):
        rated_anchors(responses(["a", "b"]), pd.Series([math.nan] * 2), (1.0, 5.0))


def test_random_anchors_are_two_others_in_either_order():
    frame = responses(["a", "b", "c", "a"])
    found = random_anchors(frame)
    for row in frame.itertuples():
        pair = found[row.response_id]
        assert len({pair.low, pair.high, row.text}) == 3
    assert random_anchors(frame) == found
    many = random_anchors(
        pd.concat(
            [responses(["a", "b", "c"], f"i{k}").assign(response_id=[f"{k}x", f"{k}y", f"{k}z"]) for k in range(40)]
        )
    )
    assert {many[f"{k}x"].low for k in range(40)} == {"b", "c"}
    assert random_anchors(responses(["a", "b"]))["r0"].unread
