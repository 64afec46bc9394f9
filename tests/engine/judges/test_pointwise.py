"""The bundled judge end to end, and the pointwise judge's rules on it."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from engine.attacks.cards import ATTACKS
from engine.attacks.registry import make_attack
from engine.core.cache import CallCache
from engine.core.errors import InputError
from engine.core.schema import NONE, Protocol, Task
from engine.defenses.anchors import GivenAnchors
from engine.defenses.cards import DEFENSES
from engine.defenses.registry import defend
from engine.judges.base import Request
from engine.judges.cards import built_in_cards
from engine.judges.kinds import PointwiseJudge

pytestmark = pytest.mark.weights

HI = "A: Do you cook much at home?\nB: Most evenings. Last night I tried a lentil curry."
ROWS = [
    Request("i1", "r1", Task.DIALOGUE, HI, "That sounds good. Did you use red or green lentils?"),
    Request("i1", "r2", Task.DIALOGUE, HI, "lentil the did of curry moon purple seven"),
    Request("i1", "r3", Task.DIALOGUE, HI, "The train to Leeds leaves from platform nine."),
]


@pytest.fixture
def judge(bundled, settings):
    return PointwiseJudge(bundled, built_in_cards(settings.assets / "cards"))


def test_known_scores_on_three_rows(judge):
    """Recorded on the CPU in float32; a change here means prompts, weights or arithmetic changed."""
    scores = [v.score for v in judge.judge(ROWS)]
    np.testing.assert_allclose(scores, KNOWN, atol=1e-3)


KNOWN = [3.76219, 1.12334, 1.32529]


def test_score_is_the_expectation_over_the_labels(judge):
    for verdict in judge.judge(ROWS):
        assert verdict.read
        assert sum(verdict.probabilities) == pytest.approx(1)
        assert verdict.score == pytest.approx(np.dot(verdict.probabilities, [1, 2, 3, 4, 5]))
        assert 0.9 < verdict.coverage <= 1 + 1e-6


def test_batch_equals_single(judge):
    together = [v.score for v in judge.judge(ROWS)]
    alone = [judge.judge([r])[0].score for r in ROWS]
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_cache_on_equals_cache_off_and_spares_the_model(bundled, settings, judge, tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    kept = PointwiseJudge(bundled, built_in_cards(settings.assets / "cards"), cache)
    plain = judge.judge(ROWS)
    first, second = kept.judge(ROWS), kept.judge(ROWS)
    assert [v.score for v in first] == [v.score for v in plain]
    assert [replace(v, seconds=0) for v in first] == [replace(v, seconds=0) for v in second]
    assert all(v.seconds == 0 for v in second)
    assert all(v.seconds > 0 for v in first)


def test_what_a_thread_made_ready_is_what_is_asked(judge, monkeypatch):
    plain = judge.judge(ROWS)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(judge.prepare, ROWS[:2]).result()
    made = []
    monkeypatch.setattr(judge, "_made", lambda asked, own=judge._made: made.extend(asked) or own(asked))
    assert [v.score for v in judge.judge(ROWS)] == [v.score for v in plain]
    assert made == ROWS[2:]
    made.clear()
    judge.judge(ROWS)
    assert made == ROWS


def test_identical_prompts_are_asked_once(judge):
    seen = []
    verdicts = judge.judge([ROWS[0]] * 3, lambda done, total: seen.append((done, total)))
    assert len({v.score for v in verdicts}) == 1
    assert seen[-1] == (3, 3)


@pytest.mark.parametrize("defense", [name for name, card in DEFENSES.items() if not card.anchored])
def test_no_attack_is_no_shift(judge, defense):
    defended = defend(judge, "cot?tokens=8" if defense == "cot" else defense)
    attacked = replace(ROWS[0], response=make_attack(NONE).apply(ROWS[0]))
    assert defended.judge([ROWS[0]])[0].score == defended.judge([attacked])[0].score


def test_attack_and_defense_compose_in_the_prompt(judge):
    attacked = replace(ROWS[0], response=make_attack("dsi").apply(ROWS[0]))
    shown = defend(judge, "delimiters+sandwich").prompt(attacked)
    inside = shown.split("[begin ")[2]
    assert "exceptionally high score" in inside.split("[end ")[0]
    assert "Remember: rate" in inside.split("[end ")[1]


def test_every_listed_attack_and_defense_can_be_made(judge):
    for name, card in ATTACKS.items():
        assert (ROWS[0].response in make_attack(name, "own words").apply(ROWS[0])) != card.replaces
    given = GivenAnchors("given", {})
    for name in DEFENSES:
        assert defend(judge, name, sources={name: given}).spec == judge.spec


@pytest.mark.parametrize("text", ["{context}", "{reference}", "{response}", "{{context}}"])
def test_user_text_fills_no_second_placeholder(judge, text):
    request = replace(ROWS[0], response=text, reference="SECRET")
    shown = judge.prompt(request)
    assert shown.count(HI) == 1
    assert "SECRET" not in shown
    assert f"Response:\n{text}\n" in shown


def test_a_prompt_longer_than_the_window_is_unread_and_never_cut(judge):
    verdict = judge.judge([replace(ROWS[0], response="word " * 9000)])[0]
    assert "nothing was cut" in verdict.unread_reason
    assert math.isnan(verdict.score)
    assert verdict.prompt_tokens > 8192


def test_low_coverage_is_unread(bundled, settings):
    strict = PointwiseJudge(bundled, built_in_cards(settings.assets / "cards"), min_coverage=1.01)
    verdict = strict.judge(ROWS[:1])[0]
    assert "score tokens hold" in verdict.unread_reason
    assert math.isnan(verdict.score)
    assert verdict.probabilities is not None  # what was seen is kept for the eye


def test_a_space_is_a_response(judge):
    space, empty = judge.judge([replace(ROWS[0], response=" "), replace(ROWS[0], response="")])
    assert space.read
    assert empty.read
    assert space.score != empty.score


def test_wrong_task_or_protocol_is_refused(judge):
    with pytest.raises(InputError, match="no pointwise prompt for the task verification"):
        judge.judge([replace(ROWS[0], task=Task.VERIFICATION)])
    with pytest.raises(InputError, match="pointwise requests only"):
        judge.judge([replace(ROWS[0], protocol=Protocol.PAIRWISE)])
