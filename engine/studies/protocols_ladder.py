"""How many of an item's format rules a response fails: the severity of the ladder in paper 004, section 3.2."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from engine.errors import InputError
from engine.training.checkers import CHECKERS, rule_met

_LEVEL = re.compile(r"(rules|severity)_(\d)")
RULES_PER_PROMPT = 3


def severity_of(rules: object, text: str) -> int | None:
    """The number of rules that a text fails; None where the item has no rules.

    Args:
        rules: JSON list of `{"rule", "arguments"}`, under IFEval's names; missing where there are none.
        text: the response.

    Raises:
        InputError: the list cannot be read, or names a rule there is no checker for.
    """
    if not isinstance(rules, str) or not rules.strip():
        return None
    return sum(not rule_met(name, arguments, text) for name, arguments in _read(rules))


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
    for name, _ in found:
        if name not in CHECKERS:
            raise InputError(f"There is no checker for the rule {name!r}. There are: {', '.join(CHECKERS)}.")
    return found
