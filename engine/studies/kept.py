"""Asking a run's unread calls again, and nothing else: what was read is taken from the run's own table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from engine.judges.base import AroundJudge, Checkpoint, Cost, Judge, Request, Verdict, no_checkpoint, verdict_id
from engine.runs import RETRY, RunFolder, versions
from engine.schema import Outcome


class KeptJudge(AroundJudge):
    """A judge that answers what is known from a table of verdicts, and asks the inner judge the rest.

    Everything else (its device, token ids, cards) is the inner judge's.

    Attributes:
        inner: the judge that is asked.
        asked: calls that went to it.
    """

    def __init__(self, inner: Judge, verdicts: pd.DataFrame) -> None:
        super().__init__(inner)
        self.asked = 0
        read = verdicts[verdicts["unread_reason"].isna()].drop_duplicates("verdict_id")
        self._known = {str(r["verdict_id"]): _verdict(r) for r in read.to_dict("records")}

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet: a copy under way
            raise AttributeError(name)
        return getattr(self.inner, name)

    def prompt(self, request: Request) -> str:
        """The inner judge's."""
        return self.inner.prompt(request)

    def cost(self, requests: Sequence[Request]) -> Cost:
        """What the unknown ones would take."""
        fresh = [r for r in requests if verdict_id(r) not in self._known]
        cost = self.inner.cost(fresh)
        return cost._replace(known=cost.known + len(requests) - len(fresh))

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Answer each request, the known ones as they were."""
        return self.judge_as(requests, [verdict_id(r) for r in requests], checkpoint)

    def judge_as(
        self, requests: Sequence[Request], ids: Sequence[str], checkpoint: Checkpoint = no_checkpoint
    ) -> list[Verdict]:
        """As `judge`, for requests that stand in the table under other ids."""
        fresh = [r for r, name in zip(requests, ids, strict=True) if name not in self._known]
        held = len(requests) - len(fresh)
        checkpoint(held, len(requests))
        self.asked += len(fresh)
        told = iter(self.inner.judge(fresh, lambda done, _: checkpoint(held + done, len(requests))) if fresh else ())
        return [self._known[name] if name in self._known else next(told) for name in ids]


def keeping(judge: Judge, run: RunFolder) -> Judge:
    """The judge, or during a retry one that keeps what the run has read.

    Nothing is kept where another judge, prompt or version would answer: numbers of two kinds must not stand in one
    table.
    """
    manifest = run.manifest()
    about = manifest.get(RETRY)
    if not isinstance(about, dict):
        return judge
    fits = about.get("fingerprint") == judge.fingerprint and about.get("version") == versions()["judgescope"]
    return KeptJudge(judge, run.table("verdicts")) if fits else judge


def left_over(done: pd.DataFrame, judge: Judge | None, run: RunFolder) -> pd.DataFrame:
    """The verdicts so far, and behind them those that a retry, stopped early, has not come to."""
    if not isinstance(judge, KeptJudge):
        return done
    before = run.table("verdicts")
    return pd.concat([done, before[~before["verdict_id"].isin(done["verdict_id"])]], ignore_index=True)


def _verdict(row: dict[Any, Any]) -> Verdict:
    """A row of the table `verdicts` as the judge gave it."""

    def number(name: str) -> float:
        return float("nan") if pd.isna(row[name]) else float(row[name])

    outcome, places = row["outcome"], row["ranking"]
    shares = row["probabilities"]
    verdict = Verdict(
        score=number("score"),
        p_a=number("p_a"),
        p_tie=number("p_tie"),
        p_yes=number("p_yes"),
        outcome=Outcome(outcome) if isinstance(outcome, str) else None,
        probabilities=None if shares is None else tuple(map(float, shares)),
        ranking=None if places is None else tuple(int(p) for p in places),
        coverage=number("coverage"),
        raw_text=row["raw_text"] if isinstance(row["raw_text"], str) else "",
    )
    passes, seconds, tokens = (
        0.0 if pd.isna(row[name]) else float(row[name]) for name in ("forward_passes", "seconds", "prompt_tokens")
    )
    return replace(verdict, prompt_tokens=int(tokens), forward_passes=passes, seconds=seconds)
