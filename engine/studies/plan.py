"""What a study will cost before it runs, and stopping it at a budget with what is done kept."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.errors import Cancelled
from engine.judges.base import Checkpoint, Cost, Expense, Judge, Paid, Request, no_checkpoint


class OutOfBudget(Cancelled):
    """The study's seconds are spent; what is done is kept and the run can be resumed."""


class Plan(NamedTuple):
    """What a study will take.

    Attributes:
        verdicts: rows of the result.
        calls: distinct model calls not in the cache.
        tokens: prompt tokens of those calls.
        known: verdicts that cost nothing.
        tokens_per_second: measured on `measured_on` tokens of this study; NaN where no call is left or no model is.
        seconds: estimated wall time, the model's loading left out; NaN for a judge behind a server, which is not asked
            before the run.
        expense: for such a judge, its calls, tokens and cost, and the cap they meet.
    """

    verdicts: int
    calls: int
    tokens: int
    known: int
    tokens_per_second: float
    measured_on: int
    seconds: float
    expense: dict[str, Any] | None = None


PROBE_REQUESTS = 4
"""Requests really asked to measure the pace; their answers are kept, so nothing is wasted."""


def make_plan(arms: Sequence[tuple[Judge, Sequence[Request]]]) -> Plan:
    """Add up the cost of all arms and measure the pace on a few requests of the dearest one.

    Args:
        arms: each defended judge with the requests it will be asked.
    """
    costs = [judge.cost(requests) for judge, requests in arms]
    total = add_up(costs)
    verdicts = sum(len(requests) for _, requests in arms)
    if not total.calls:
        return Plan(verdicts, 0, 0, total.known, float("nan"), 0, 0.0)
    if expense := expense_of(arms[0][0], total):
        return Plan(verdicts, total.calls, total.tokens, total.known, math.nan, 0, math.nan, as_json(expense))
    dearest = max(range(len(arms)), key=lambda i: costs[i].tokens)
    judge, requests = arms[dearest]
    probe = [r for r in requests if judge.cost([r]).calls][:PROBE_REQUESTS]
    tokens = judge.cost(probe).tokens
    clock = time.perf_counter()
    judge.judge(probe)
    pace = tokens / (time.perf_counter() - clock)
    return Plan(verdicts, total.calls, total.tokens, total.known, pace, tokens, total.tokens / pace)


def add_up(costs: Sequence[Cost]) -> Cost:
    """The cost of several things together."""
    paid = Paid(*(sum(part) for part in zip(*(c.paid for c in costs), strict=True))) if costs else Paid()
    return Cost(sum(c.calls for c in costs), sum(c.tokens for c in costs), sum(c.known for c in costs), paid)


def expense_of(judge: Judge, cost: Cost) -> Expense | None:
    """What of a cost a server takes; None for a judge that runs here."""
    inner: Any = judge
    while hasattr(inner, "inner"):
        inner = inner.inner
    made: Expense | None = inner.expense(cost.paid) if hasattr(inner, "expense") else None
    return made


def as_json(expense: Expense) -> dict[str, Any]:
    """The expense with its sentence, for a command's last line or a page."""
    return {**expense._asdict(), "beyond_cap": expense.beyond, "sentence": expense.sentence()}


def within(seconds: float | None, checkpoint: Checkpoint = no_checkpoint) -> Checkpoint:
    """A checkpoint that raises `OutOfBudget` once the seconds are spent; None sets no limit."""
    if seconds is None:
        return checkpoint
    end = time.monotonic() + seconds

    def look(done: int, total: int) -> None:
        checkpoint(done, total)
        if time.monotonic() >= end and done < total:
            raise OutOfBudget

    return look
