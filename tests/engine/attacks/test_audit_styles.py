from __future__ import annotations

import numpy as np
import pytest

from engine.attacks.audit_styles import AUDIT_ATTACKS, EMOTIONS, LENGTH, audit_style, sentiment
from engine.attacks.rewriting import RuleRewriter
from engine.core.errors import InputError

TEXT = "Boil the eggs for 9 minutes. Then cool them in cold water.\n\n- Peel them under the tap.\n```\nx = 1\n```"


def rewritten(style, text=TEXT, strength=1.0, seed=0):
    return RuleRewriter().rewrite([text], style, strength=strength, seed=seed)[0]


def test_length_adds_words_and_loses_no_content():
    ratios = []
    for seed in range(20):
        made = rewritten(LENGTH, seed=seed)
        assert made.report.ok, made.report.reasons
        for line in ("Boil the eggs for 9 minutes.", "Then cool them in cold water.", "```\nx = 1\n```"):
            assert line in made.text
        ratios.append(made.report.length_ratio)
    assert min(ratios) > 1.5
    assert np.mean([rewritten(LENGTH, strength=0.3, seed=s).report.length_ratio for s in range(20)]) < np.mean(ratios)


@pytest.mark.parametrize("text", ["42", "yes", "def f():\n    return 1", "One short line of prose here."])
def test_length_makes_any_text_longer(text):
    assert rewritten(LENGTH, text).text.startswith(text.split("\n")[0])
    assert rewritten(LENGTH, text).report.length_ratio > 1


@pytest.mark.parametrize("emotion", EMOTIONS)
def test_sentiment_keeps_numbers_names_and_lists(emotion):
    for seed in range(10):
        made = rewritten(sentiment(emotion), seed=seed)
        assert made.report.ok, made.report.reasons
        assert made.text != TEXT
        assert emotion in sentiment(emotion).instruction


@pytest.mark.parametrize("name", [n for n, a in AUDIT_ATTACKS.items() if a.rewrites])
def test_every_rewriting_has_a_style_and_strength_nought_changes_nothing(name):
    style = audit_style(name, "cheerful")
    assert style.name == name
    assert rewritten(style, strength=0).text == TEXT


def test_unknown_names_are_refused_with_the_allowed_ones():
    with pytest.raises(InputError, match="length, sentiment"):
        audit_style("shout", "cheerful")
    with pytest.raises(InputError, match="cheerful"):
        sentiment("bored")
