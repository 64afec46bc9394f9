"""Outcome of a gate in a pipeline: what was held against a limit, and the exit code it makes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.errors import INCONCLUSIVE, OK, THRESHOLD_FAILED

PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"
STATUSES = (FAILED, UNKNOWN, PASSED)
"""In the order in which they are read."""
_OF_CODE = {OK: PASSED, INCONCLUSIVE: UNKNOWN, THRESHOLD_FAILED: FAILED}
_NAN = math.nan


@dataclass(frozen=True)
class Check:
    """One thing that a gate holds against a limit.

    Attributes:
        name: within its gate, the same from run to run, for example `order` or `kappa>=0.6`.
        title: for people.
        status: `PASSED`, `FAILED`, or `UNKNOWN` where the data cannot tell.
        message: why, in a sentence that stands after the title.
        measured: the estimate and its interval in words; empty where there is none.
        allowed: the limit in words, for example `at most 5 %`.
        value, lower, upper: the estimate and its interval; NaN where there is none.
        threshold: the limit in the unit of the value; NaN where it is none of a number.
    """

    name: str
    title: str
    status: str
    message: str
    measured: str = ""
    allowed: str = ""
    value: float = _NAN
    lower: float = _NAN
    upper: float = _NAN
    threshold: float = _NAN


@dataclass(frozen=True)
class Gate:
    """A finished gate.

    Attributes:
        name: `checkup`, `trust` or `drift`.
        title: for people, in a sentence: check-up, trust, drift.
        checks: at least one.
        exit_code: 0, 3 where it cannot tell, 4 where something failed.
        about: what was judged by whom, for people: judge, data, run, base, new.
        notes: further lines for people.
        file: the data or the frozen set as the command named it, where it is a file.
    """

    name: str
    title: str
    checks: tuple[Check, ...]
    exit_code: int
    about: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    file: str = ""

    @property
    def status(self) -> str:
        """By the exit code: a gate may pass with checks that cannot tell."""
        return _OF_CODE[self.exit_code]

    def counts(self) -> dict[str, int]:
        """Status -> checks."""
        return {status: sum(c.status == status for c in self.checks) for status in STATUSES}

    def sentence(self) -> str:
        """The checks counted in words."""
        by = self.counts()
        n = len(self.checks)
        return (
            f"{n} check{'' if n == 1 else 's'}: {by[FAILED]} failed, {by[UNKNOWN]} cannot tell, {by[PASSED]} passed. "
            f"Exit code {self.exit_code}."
        )
