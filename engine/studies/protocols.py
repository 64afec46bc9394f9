"""Study `protocols`: the same responses judged pairwise and pointwise, clean and distracted (paper 004)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from engine.attacks.distractors import DISTRACTORS, PLACEBO
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.errors import InputError
from engine.judges.base import Checkpoint, Judge, Request, verdict_table
from engine.judges.registry import make_judge
from engine.metrics.flips import TieRule
from engine.metrics.protocols import View
from engine.readout.arena import Arena, build_arena, label_values
from engine.runs import RunFolder, create_run, now, open_run
from engine.schema import METRICS, VERDICTS, Protocol
from engine.settings import Settings
from engine.studies.attack_one import device_of
from engine.studies.kept import keeping, left_over
from engine.studies.manifest import about_data, about_judge, ending
from engine.studies.plan import Plan, make_plan, within
from engine.studies.protocols_ask import Asker, Needs, able
from engine.studies.protocols_report import metrics_of
from engine.studies.protocols_variants import check_reused, make_rewriter, parse_arm, variant_table

CHUNK, CHUNK_ON_GPU = 48, 384
SECONDS_BETWEEN_WRITES = 2.0
CRITERIA: dict[str, dict[Protocol, str]] = {
    "overall": {},
    "overall, 1-7": {Protocol.POINTWISE: "overall 1-7"},
    "instruction following": {
        Protocol.POINTWISE: "instruction following",
        Protocol.PAIRWISE: "instruction following",
        Protocol.RANKING: "instruction following",
    },
}
"""The primary criterion the judge is told, and the variant of the prompt that tells it.

No built-in card ranks by instruction following, so that rankings are then skipped with the reason: rankings by another
criterion would stand beside numbers they do not belong to.
"""


class ProtocolsConfig(BaseModel):
    """What to run; the run's manifest holds it.

    Attributes:
        distractors: styles, each with its strength where that is not 1, for example `assertiveness:0.5`.
        placebo: whether the neutral paraphrase is judged too.
        rewriter: `rules`, or the spec of a model that rewrites.
        boards: distractors that the leaderboard is measured with.
        lowest: how many systems, from the lowest, are rewritten for it.
        criterion: what the judge is told to judge by; a key of `CRITERIA`.
        copies: whether every response is compared with itself and with its rewritings.
        rankings: whether n-wise rankings are asked for choice sets.
        tie_margin: largest difference of expected scores that is a tie; None: equal modal score.
        average: what of the two orders is averaged.
        elo_k: K of the online Elo.
        variants_of: run whose texts are taken in place of new rewritings.
        systems: only these; by default all.
        limit: only so many items.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    distractors: tuple[str, ...] = DISTRACTORS
    placebo: bool = True
    rewriter: str = "rules"
    boards: tuple[str, ...] = ("assertiveness",)
    lowest: int = Field(default=3, ge=1)
    criterion: Literal["overall", "overall, 1-7", "instruction following"] = "overall"
    copies: bool = True
    rankings: bool = False
    tie_margin: float | None = Field(default=None, ge=0)
    average: Literal["probability", "logit"] = "probability"
    elo_k: float = Field(default=16.0, gt=0)
    variants_of: str | None = None
    systems: tuple[str, ...] | None = None
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    run_id: str | None = None
    seed: int = 0
    level: float = Field(default=0.95, gt=0.5, lt=1)

    @property
    def arms(self) -> list[str]:
        """Every arm with rewritten texts, the placebo last."""
        placebo = (PLACEBO,) if self.placebo else ()
        return list(dict.fromkeys((*self.distractors, *self.boards, *placebo)))

    @property
    def view(self) -> View:
        """How its verdicts are read."""
        return View(TieRule(self.tie_margin), self.average, self.level, self.seed)


def protocols_job(config: ProtocolsConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """The study as a job of the worker."""
    dataset = load_dataset(config.data, settings.datasets)
    run = create_run(settings.runs, "protocols", config.model_dump(), config.run_id)
    run_protocols(config, dataset, make_judge(config.judge, settings), run, settings, checkpoint)
    return {"run_id": run.run_id}


def run_protocols(
    config: ProtocolsConfig,
    dataset: Dataset,
    judge: Judge,
    run: RunFolder,
    settings: Settings,
    checkpoint: Checkpoint,
) -> pd.DataFrame:
    """Rewrite, judge in both protocols, write verdicts, variants and metrics; returns the metrics table.

    Raises:
        InputError: the data have no systems, or the judge answers neither protocol on them.
        Cancelled: from the checkpoint; finished calls are in the cache and the run is marked stopped.
    """
    dataset = _part(config, dataset)
    for arm in config.arms:
        parse_arm(arm)
    variants = _variants(config, dataset, settings)
    run.write_table("variants", variants)
    asker = Asker(dataset, variants, CRITERIA[config.criterion])
    _describe(run, config, dataset, judge, asker)
    session = _Session(keeping(judge, run), run, variants, within(config.budget_seconds, checkpoint))
    with ending(run, lambda: _finish(session, config, "stopped")):
        _ask_all(config, asker, session)
    return _finish(session, config, "done")


def plan_protocols(config: ProtocolsConfig, dataset: Dataset, judge: Judge, settings: Settings) -> Plan:
    """What the study would cost; which side of a pair is rewritten is not known yet, so that part is an estimate."""
    dataset = _part(config, dataset)
    asker = Asker(dataset, _variants(config, dataset, settings), CRITERIA[config.criterion])
    asked = [(asker.scores(), ()), (asker.clean_pairs(), (*(asker.copies() if config.copies else ()), *asker.likely()))]
    return make_plan([(judge, [*first, *more]) for first, more in asked if not able(judge.labels, first)])


class _Session:
    """Asks in chunks and keeps what was answered on disk."""

    def __init__(self, judge: Judge, run: RunFolder, variants: pd.DataFrame, checkpoint: Checkpoint) -> None:
        self.run, self.variants, self.skipped = run, variants, dict[str, str]()
        self._judge, self._checkpoint = judge, checkpoint
        self._tables: list[pd.DataFrame] = []
        self._done, self.expected, self._written = 0, 0, time.monotonic()

    def ask(self, requests: Sequence[Request]) -> None:
        """Judge all of them; what is finished stays when the checkpoint raises."""
        size = CHUNK_ON_GPU if device_of(self._judge).startswith("cuda") else CHUNK
        for start in range(0, len(requests), size):
            chunk = requests[start : start + size]
            verdicts = self._judge.judge(chunk, self._told)
            self._tables.append(verdict_table(self._judge, chunk, verdicts))
            self._done += len(chunk)
            if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
                self.run.write_table("verdicts", self.kept(self.verdicts()))
                self._written = time.monotonic()

    def able(self, protocol: Protocol, requests: Sequence[Request]) -> bool:
        """Whether the judge can be asked; if not, the reason is kept."""
        reason = able(self._judge.labels, requests)
        if reason:
            self.skipped[protocol.value] = reason
        return not reason

    def verdicts(self) -> pd.DataFrame:
        """All rows so far."""
        return pd.concat(self._tables, ignore_index=True) if self._tables else VERDICTS.empty()

    def kept(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """The rows so far, and behind them those of a retry that it has not come to."""
        return left_over(verdicts, self._judge, self.run)

    def arena(self) -> Arena:
        """The verdicts so far as arrays."""
        return build_arena(self.verdicts(), self.variants, label_values(self.run.manifest()["judge"]))

    def _told(self, done: int, _: int) -> None:
        self._checkpoint(self._done + done, max(self.expected, self._done + done))


def _ask_all(config: ProtocolsConfig, asker: Asker, session: _Session) -> None:
    scores, pairs, copies = asker.scores(), asker.clean_pairs(), asker.copies() if config.copies else []
    pointwise, pairwise = session.able(Protocol.POINTWISE, scores), session.able(Protocol.PAIRWISE, pairs)
    if not (pointwise or pairwise):
        raise InputError(f"{config.judge} can be asked in neither protocol. {' '.join(session.skipped.values())}")
    # the comparisons with a rewritten side are known only once the clean ones are judged; about one side each
    guess = len(pairs) * (len(asker.arms) + len(config.boards))
    session.expected = pointwise * len(scores) + pairwise * (len(pairs) + len(copies) + guess)
    if pointwise:
        session.ask(scores)
    if pairwise:
        session.ask(pairs)
        session.ask(copies)
        needs = Needs(config.lowest, frozenset(config.boards))
        distracted = asker.distracted(session.arena(), needs, config.view)
        session.expected += len(distracted) - guess
        session.ask(distracted)
    if config.rankings:
        _ask_rankings(config, asker, session)


def _ask_rankings(config: ProtocolsConfig, asker: Asker, session: _Session) -> None:
    """Rankings, if the judge can write them: the first item is tried, and nothing more where it gave none."""
    requests = asker.rankings(config.seed)
    if not session.able(Protocol.RANKING, requests):
        return
    first = [r for r in requests if r.item_id == requests[0].item_id]
    session.ask(first)
    told = session.verdicts().tail(len(first))
    if told["unread_reason"].notna().all():
        reason = Counter(told["unread_reason"]).most_common(1)[0][0]
        session.skipped[Protocol.RANKING.value] = f"no ranking of the first item could be read: {reason}"
        return
    session.ask(requests[len(first) :])


def _part(config: ProtocolsConfig, dataset: Dataset) -> Dataset:
    """The items and systems asked for."""
    responses = dataset.responses
    if config.systems:
        unknown = sorted(set(config.systems) - set(responses["system"].dropna()))
        if unknown:
            there = ", ".join(sorted(set(responses["system"].dropna())))
            raise InputError(f"The data {dataset.name} have no system {unknown[0]!r}. There are: {there}.")
        responses = responses[responses["system"].isin(config.systems)]
    if config.limit:
        responses = responses[responses["item_id"].isin(list(dict.fromkeys(responses["item_id"]))[: config.limit])]
    items = dataset.items[dataset.items["item_id"].isin(responses["item_id"])]
    return replace(dataset, items=items.reset_index(drop=True), responses=responses.reset_index(drop=True))


def _variants(config: ProtocolsConfig, dataset: Dataset, settings: Settings) -> pd.DataFrame:
    if config.variants_of:
        return check_reused(open_run(settings.runs, config.variants_of).table("variants"), dataset, config.arms)
    return variant_table(dataset, config.arms, make_rewriter(config.rewriter, settings), seed=config.seed)


def _describe(run: RunFolder, config: ProtocolsConfig, dataset: Dataset, judge: Judge, asker: Asker) -> None:
    scores = asker.scores()
    labels = [] if able(judge.labels, scores) else list(judge.labels(scores[0]))
    run.update_manifest(
        data=about_data(dataset, len(dataset.items), len(dataset.responses))
        | {"systems": sorted(set(dataset.responses["system"]))},
        judge=about_judge(judge, labels, [*scores[:1], *asker.clean_pairs()[:1]])
        | {"values": _values(judge, scores[0]) if labels else []},
        criterion=config.criterion,
    )


def _values(judge: Judge, request: Request) -> list[float]:
    """The score of each label that a judge with cards offers; empty for a judge without, whose labels are numbers."""
    inner: Any = judge
    while hasattr(inner, "inner"):
        inner = inner.inner
    return list(inner.card(request).values) if hasattr(inner, "card") else []


def _finish(session: _Session, config: ProtocolsConfig, state: str) -> pd.DataFrame:
    verdicts = session.verdicts()
    metrics = METRICS.empty()
    if len(verdicts):
        session.run.write_table("verdicts", session.kept(verdicts) if state == "stopped" else verdicts)
        metrics = metrics_of(session.arena(), config.view, config.boards, config.lowest, config.elo_k)
        session.run.write_table("metrics", metrics)
    session.run.update_manifest(state=state, finished=now(), skipped=session.skipped)
    return metrics
