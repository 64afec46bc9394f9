"""Rules that a run of the study `trust` is held against, for example `kappa>=0.6` or `corrected:gpt-4<=0.3`.

A rule passes where the whole interval of its number keeps it, fails where the whole interval breaks it, and cannot be
told otherwise, which more labels change. A number that keeps its rule to the last digit therefore fails in at most
2.5 % of runs at the usual level of 95 %; several rules share no error among them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.gate import FAILED, PASSED, UNKNOWN, Check
from engine.stats.intervals import with_ends
from engine.studies.trust.tables import AS_SAID, ESTIMATES

QUALITY = {
    "tpr": "TPR", "tnr": "TNR", "agreement": "agreement", "kappa": "kappa", "alpha": "Krippendorff's alpha",
    "calibration_error": "calibration error",
}  # fmt: skip
"""Metric of the judge -> in words."""
NAMES = (*ESTIMATES, *QUALITY)
HOPELESS = 100
"""Labels needed are named up to this many times those there are."""
_RULE = re.compile(r"\s*([a-z_]+)(?::(.*?))?\s*(>=|<=)\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*")


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        name: one of `NAMES`.
        group: system, group, two systems or way of calibration that it is about; empty for all rows.
        least: true where the number must be at least the threshold, else at most.
        threshold: in the unit of the number.
    """

    name: str
    group: str
    least: bool
    threshold: float

    def __str__(self) -> str:
        """As a command line writes it, without blanks."""
        group = f":{self.group}" if self.group else ""
        return f"{self.name}{group}{'>=' if self.least else '<='}{self.threshold:g}"


def read_rule(text: str) -> Rule:
    """A rule as it is written: NAME>=NUMBER or NAME:GROUP<=NUMBER.

    Raises:
        InputError: it is none, or there is no such number.
    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise InputError(f"{shown(text)} is no rule. Write NAME>=NUMBER or NAME:GROUP<=NUMBER, for example kappa>=0.6.")
    name, group, sign, number = found.groups()
    if name not in NAMES:
        raise InputError(f"{shown(text)}: there is no number {shown(name)}. There are: {', '.join(NAMES)}.")
    return Rule(name, (group or "").strip(), sign == ">=", float(number))


def held(rules: Sequence[str], estimates: pd.DataFrame, quality: pd.DataFrame) -> tuple[Check, ...]:
    """Every rule held against the stored numbers.

    Args:
        rules: as they are written.
        estimates: table `trust`.
        quality: table `metrics` of the study.

    Raises:
        InputError: a rule is none, or is about a group that the data have not got.
    """
    return tuple(_check(rule, _row(rule, estimates, quality)) for rule in map(read_rule, rules))


def _row(rule: Rule, estimates: pd.DataFrame, quality: pd.DataFrame) -> Mapping[Any, Any] | None:
    """The number that a rule is about; None where these data give none, for example TPR of scores."""
    if rule.name in ESTIMATES:
        table = estimates[estimates["estimate"] == rule.name].assign(group=estimates["name"])
    else:
        table = quality[quality["metric"] == rule.name].assign(n_labels=quality["n"])
    names = table["group"].fillna("").astype(str)
    wanted = rule.group or (AS_SAID if rule.name == "calibration_error" else "")
    found = table[names == wanted]
    if found.empty and rule.group:
        known = listed(name for name in dict.fromkeys(names) if name) or "none"
        raise InputError(f"The rule {rule} is about {shown(rule.group)}, which has no {rule.name}. Known: {known}.")
    return None if found.empty else found.iloc[0].to_dict()


def _check(rule: Rule, row: Mapping[Any, Any] | None) -> Check:
    allowed = f"at {'least' if rule.least else 'most'} {rule.threshold:g}"
    title = QUALITY.get(rule.name, rule.name.replace("_", " ")) + (f", {rule.group}" if rule.group else "")
    if row is None:
        return Check(
            str(rule), title, UNKNOWN, f"These data give no {rule.name}.", allowed=allowed, threshold=rule.threshold
        )
    value, lower, upper = (float(row[c]) for c in ("value", "lower", "upper"))
    keeps, breaks = (lower >= rule.threshold, upper < rule.threshold)
    if not rule.least:
        keeps, breaks = (upper <= rule.threshold, lower > rule.threshold)
    status = PASSED if keeps else FAILED if breaks else UNKNOWN
    measured = with_ends(value, lower, upper) if math.isfinite(value) else ""
    words = {PASSED: "The whole interval keeps the rule", FAILED: "The whole interval breaks the rule"}
    known = math.isfinite(lower) and math.isfinite(upper)
    why = words.get(status, "The interval lies on both sides of it" if known else f"No interval: {row['method']}")
    more = _labels_needed(rule, value, (upper - lower) / 2, int(row["n_labels"])) if status == UNKNOWN else ""
    message = f"{why}, with {int(row['n_labels']):,} labels{more}."
    return Check(str(rule), title, status, message, measured, allowed, value, lower, upper, rule.threshold)


def _labels_needed(rule: Rule, value: float, half: float, labels: int) -> str:
    """About how many labels would decide: an interval narrows by the root of their number; empty where unknown."""
    gap = abs(value - rule.threshold)
    if not (math.isfinite(half) and half > 0 and gap > 0):
        return ""
    needed = math.ceil(labels * (half / gap) ** 2)
    return f"; about {needed:,} labels would tell if it stays" if needed <= HOPELESS * labels else ""
