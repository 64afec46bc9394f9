"""What a user can choose: names, titles and sources of attacks, defenses and judges, without loading anything.

The dashboard and the command line read this; it is the one module besides `studies` that knows several stages.
"""

from __future__ import annotations

from engine.attacks.base import word_diff
from engine.attacks.distractors import DISTRACTORS, PLACEBO
from engine.attacks.master_keys import KEY_TEXTS, key_name, key_text
from engine.attacks.master_keys import shown as shown_key
from engine.attacks.names import AttackName
from engine.attacks.phrases import known_phrases, longest
from engine.attacks.registry import ATTACKS, AttackCard, describe_attack, parse_attack
from engine.attacks.saved_phrases import SavedPhrase, check_name, saved_phrases
from engine.defenses.registry import DEFENSES, DefenseCard, describe_defense
from engine.judges.registry import JUDGES, JudgeCard, judges_for
from engine.schema import Protocol

__all__ = [
    "ATTACKS",
    "DEFENSES",
    "DISTRACTORS",
    "JUDGES",
    "KEY_TEXTS",
    "PLACEBO",
    "AttackCard",
    "AttackName",
    "DefenseCard",
    "JudgeCard",
    "SavedPhrase",
    "check_name",
    "describe_attack",
    "describe_defense",
    "describe_judge",
    "judges_for",
    "key_name",
    "key_text",
    "known_phrases",
    "longest",
    "parse_attack",
    "saved_phrases",
    "shown_key",
    "word_diff",
]


def describe_judge(spec: str) -> JudgeCard:
    """The card of a listed judge, or a plain one for any other spec."""
    listed = {found: card for protocol in Protocol for found, card in judges_for(protocol).items()}
    return listed.get(spec) or JudgeCard(spec, spec, "A judge named by its spec.", not spec.startswith("planted:"))
