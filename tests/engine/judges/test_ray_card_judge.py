"""A language model whose calls go to an actor, here in this process, held against the same model asked directly."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest

from engine.core.cache import CallCache
from engine.core.errors import InputError
from engine.defenses.registry import defend
from engine.judges.kinds import both_orders
from engine.judges.ray_judge import Holder, RayCardJudge, stays_here
from engine.judges.shards import Returned
from engine.studies.running import about_judge, make_plan
from engine.studies.study import Context
from tests.engine.judges.test_protocols import CARDS, FIT, MANY, ONE, TWO, make

ASKED = [ONE, replace(ONE, variant="text"), *both_orders([TWO]), replace(FIT, response_id="f"), MANY]


class Near:
    """An actor in this process."""

    count, room, free = 1, 2, 1

    def __init__(self, judge) -> None:
        self.holder = Holder("", None, False, {})
        self.holder._judges[()] = judge
        self.back: list[Returned] = []
        self.handed = 0

    def ask(self, method, *arguments):
        return getattr(self.holder, method)(*arguments)

    @contextmanager
    def asked(self, cards):
        self.cards = cards
        yield

    def hand_out(self, key, requests):
        self.handed += len(requests)
        self.back.append(Returned(key, self.holder.judge(requests, self.cards)))

    def collect(self):
        back, self.back = self.back, []
        return back


@pytest.fixture
def pair(tiny, tmp_path):
    """The model asked directly, and the same in an actor, with the actor."""
    plain = make(tiny("llama"))
    near = Near(make(tiny("llama")))
    return plain, RayCardJudge(near, near.ask("open"), CallCache(tmp_path / "calls.sqlite")), near


def numbers(verdicts):
    return [repr(replace(v, seconds=0.0)) for v in verdicts]


def test_verdicts_prompts_labels_cards_and_costs_are_the_models_own(pair):
    plain, spread, near = pair
    assert numbers(spread.judge(ASKED)) == numbers(plain.judge(ASKED))
    for request in ASKED:
        for method in ("labels", "prompt", "token_ids", "card", "remark"):
            assert getattr(spread, method)(request) == getattr(plain, method)(request)
    about = about_judge(spread, spread.labels(ONE), ASKED)
    assert about.pop("ray_actors") == "1"
    assert about == about_judge(plain, plain.labels(ONE), ASKED)
    assert near.handed == len(ASKED)


def test_what_came_back_once_is_not_asked_again_whatever_its_arm_is_called(pair):
    plain, spread, near = pair
    assert spread.cost(ASKED).calls == plain.cost(ASKED).calls
    spread.judge(ASKED)
    named = [replace(r, attack="own", defense="delimiters", system="other") for r in ASKED]
    assert numbers(spread.judge(named)) == numbers(plain.judge(named))
    assert near.handed == len(ASKED)
    assert spread.cost(named) == (0, 0, len(ASKED), (0, 0, 0))
    assert make_plan([(spread, named)]).calls == 0
    other = replace(ONE, response="hi there!")
    spread.judge([other, other])
    assert near.handed == len(ASKED) + 1


def test_further_cards_make_another_judge_of_the_same_actors(pair):
    plain, spread, _ = pair
    reworded = CARDS[0].model_copy(update={"name": "new", "variant": "new", "user": "Now rate {response}:"})
    asked = [ONE, replace(ONE, variant="new")]
    both = spread.with_cards([reworded])
    assert both.fingerprint == plain.with_cards([reworded]).fingerprint != spread.fingerprint
    assert numbers(both.judge(asked)) == numbers(plain.with_cards([reworded]).judge(asked))
    with pytest.raises(InputError):
        spread.judge(asked)


def test_what_reads_the_model_itself_is_refused_by_name_before_a_call(pair):
    _, spread, near = pair
    assert spread.writes
    defend(spread, "cot")  # its own cards ask for the reasoning: no model is read here
    with pytest.raises(InputError, match="not distributed"):
        defend(spread, "detector")
    assert near.handed == 0


def test_a_server_and_a_recording_answer_in_this_process_and_it_is_said(settings, capsys, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", "http://127.0.0.1:9/v1")
    judge = Context(replace(settings, ray="auto")).judge("api:some-model")
    assert judge.spec == "api:some-model"
    assert "exact in one process" in capsys.readouterr().err
    here = Context(replace(settings, ray="auto")).judge("planted:noisy", here="of a reason")
    assert here.spec == "planted:noisy"
    assert "planted:noisy is not distributed: of a reason" in capsys.readouterr().err


@pytest.mark.parametrize("spec", ["api:m", "decision:m"])
def test_a_judge_behind_a_server_has_its_cap_in_one_process_alone(spec):
    assert "JUDGESCOPE_API_CONCURRENCY" in stays_here(spec)
    assert not stays_here("bundled:judge")
