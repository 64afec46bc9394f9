"""Responses built to meet or to fail a format rule."""

from __future__ import annotations

import numpy as np
import pytest

from engine.attacks.format_rules import CHECKERS
from engine.training.heldout import Side
from engine.training.rules import EDITS, RuleTask, build_response, usable, with_simple_rules
from engine.training.sources import RulePrompt
from tests.engine.attacks.test_format_rules import CASES

DRAFT = "The company makes shoes, bags and belts. It was founded in 1920. Many people like it because it is known."


def test_every_checker_has_edits():
    assert set(EDITS) == set(CHECKERS)


@pytest.mark.parametrize(("rule", "arguments"), [c[:2] for c in CASES])
def test_edits_make_a_draft_meet_and_fail_a_rule(rule, arguments):
    task = RuleTask(1, "prompt", ((rule, arguments),))
    shares = [
        [task.share(build_response(task, DRAFT, [wanted], np.random.default_rng(seed))) for seed in range(8)]
        for wanted in (True, False)
    ]
    assert max(shares[0]) == 1.0
    assert min(shares[1]) == 0.0


def test_simple_rules_fill_up_to_three_without_clashes():
    rule = RulePrompt(1, Side.TRAIN, "Say hi.", (("change_case:english_capital", {}),))
    for seed in range(30):
        task = with_simple_rules(rule, np.random.default_rng(seed))
        names = [name for name, _ in task.rules]
        assert len(names) == len(set(names)) == 3
        assert "change_case:english_lowercase" not in names
        assert task.prompt.startswith("Say hi. ")


def test_rules_that_ask_for_long_texts_are_left_out():
    long = ("length_constraints:number_words", {"relation": "at least", "num_words": 600})
    assert not usable(RulePrompt(1, Side.TRAIN, "x", (long,)))
    assert not usable(RulePrompt(1, Side.TRAIN, "x", (("language:response_language", {"language": "kn"}),)))
    assert usable(RulePrompt(1, Side.TRAIN, "x", (("punctuation:no_comma", {}),)))
