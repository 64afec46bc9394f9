"""What a user can choose: names, titles and sources of attacks, defenses and judges, without loading anything.

The dashboard and the command line read this; it is the one module besides `studies` that knows several stages.
"""

from __future__ import annotations

from engine.attacks.names import AttackName
from engine.attacks.phrases import longest
from engine.attacks.registry import ATTACKS, AttackCard, describe_attack, parse_attack
from engine.defenses.registry import DEFENSES, DefenseCard, describe_defense
from engine.judges.registry import JUDGES, JudgeCard, judges_for

__all__ = [
    "ATTACKS",
    "DEFENSES",
    "JUDGES",
    "AttackCard",
    "AttackName",
    "DefenseCard",
    "JudgeCard",
    "describe_attack",
    "describe_defense",
    "describe_judge",
    "judges_for",
    "longest",
    "parse_attack",
]


def describe_judge(spec: str) -> JudgeCard:
    """The card of a listed judge, or a plain one for any other spec."""
    return JUDGES.get(spec) or JudgeCard(spec, spec, "A judge named by its spec.", not spec.startswith("planted:"))
