"""How many of an item's format rules a response fails: the severity of the ladder in paper 004, section 3.2."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from engine.errors import InputError
from engine.training.checkers import check_rule, rule_met

_LEVEL = re.compile(r"(rules|severity)_(\d)")
RULES_PER_PROMPT = 3


def failed_rules(rules: object, text: str) -> list[str] | None:
    """The rules that a text fails, each by its number in the list and its name; None where the item has no rules.

    Args:
        rules: JSON list of `{"rule", "arguments"}`, under IFEval's names; missing where there are none.
        text: the response.

    Raises:
        InputError: the list cannot be read, names a rule there is no checker for, or gives one wrong arguments.
    """
    if not isinstance(rules, str) or not rules.strip():
        return None
    numbered = enumerate(_read(rules), start=1)
    return [f"{number} {name}" for number, (name, arguments) in numbered if not rule_met(name, arguments, text)]


def severity_by_name(quality: object) -> int | None:
    """The severity that a constructed level names: `severity_1`, or `rules_2` for two of three rules kept."""
    match = _LEVEL.fullmatch(quality) if isinstance(quality, str) else None
    if match is None:
        return None
    number = int(match.group(2))
    return number if match.group(1) == "severity" else RULES_PER_PROMPT - number


@lru_cache(maxsize=4096)
def _read(rules: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    try:
        listed = json.loads(rules)
        found = tuple((entry["rule"], entry.get("arguments") or {}) for entry in listed)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(
            f"The rules {rules[:80]!r} cannot be read. Write a JSON list such as "
            '[{"rule": "punctuation:no_comma", "arguments": {}}].'
        ) from None
    for name, arguments in found:
        check_rule(name, arguments)
    return found
