"""A run of study `protocols`: rewrite the responses, judge them in both protocols, write the tables (paper 004)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from engine.attacks.base import word_diff
from engine.attacks.distractors import style_of
from engine.attacks.rewriting import Rewrite
from engine.core.errors import InputError
from engine.core.schema import METRICS, NONE, Order, Protocol
from engine.core.settings import Settings
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.judges.base import Checkpoint, Judge, Request, Verdict, innermost
from engine.judges.kinds import both_orders
from engine.judges.registry import make_judge
from engine.runs.folder import RunFolder, now, open_run
from engine.stats.arena import Arena, build_arena, label_values
from engine.studies.protocols.requests import Asker, Needs, check_reused, variant_table
from engine.studies.protocols.rows import metrics_of
from engine.studies.protocols.study import ProtocolsConfig
from engine.studies.rewrites import make_rewriter, parse_arm
from engine.studies.running import (
    Plan,
    VerdictLog,
    about_data,
    about_judge,
    build_requests,
    ending,
    in_chunks,
    keeping,
    make_plan,
    unsupported_reason,
    within,
)

CHUNK = 48
CRITERIA: dict[str, dict[Protocol, str]] = {
    "overall": {},
    "overall, 1-7": {Protocol.POINTWISE: "overall 1-7"},
    "instruction following": {
        Protocol.POINTWISE: "instruction following",
        Protocol.PAIRWISE: "instruction following",
        Protocol.RANKING: "instruction following",
    },
}
"""Primary criterion -> by protocol, the variant of the prompt that names it.

No built-in card ranks by instruction following, so that rankings are then skipped with the reason: rankings by another
criterion would stand beside numbers they do not belong to.
"""


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
    """Cost of the study; which side of a pair is rewritten is not known yet, so that part is an estimate."""
    dataset = _part(config, dataset)
    asker = Asker(dataset, _variants(config, dataset, settings), CRITERIA[config.criterion])
    asked = [(asker.scores(), ()), (asker.clean_pairs(), (*(asker.copies() if config.copies else ()), *asker.likely()))]
    return make_plan([(judge, [*first, *more]) for first, more in asked if not unsupported_reason(judge.labels, first)])


class _Session:
    """Asks in chunks and keeps what was answered on disk."""

    def __init__(self, judge: Judge, run: RunFolder, variants: pd.DataFrame, checkpoint: Checkpoint) -> None:
        self.run, self.variants, self.skipped = run, variants, dict[str, str]()
        self._judge, self._checkpoint = judge, checkpoint
        self.log = VerdictLog(run, judge)
        self._done, self.expected = 0, 0

    def ask(self, requests: Sequence[Request]) -> None:
        """Judge all of them; what is finished stays when the checkpoint raises."""
        for _, chunk in in_chunks(requests, self._judge, CHUNK):
            verdicts = self._judge.judge(chunk, self._progress)
            self.log.add(self._judge, chunk, verdicts)
            self._done += len(chunk)
            self.log.write_when_due()

    def supports(self, protocol: Protocol, requests: Sequence[Request]) -> bool:
        """True where the judge can be asked; the reason why not is kept."""
        reason = unsupported_reason(self._judge.labels, requests)
        if reason:
            self.skipped[protocol.value] = reason
        return not reason

    def arena(self) -> Arena:
        """The verdicts so far as arrays."""
        return build_arena(self.log.table(), self.variants, label_values(self.run.manifest()["judge"]))

    def _progress(self, done: int, _: int) -> None:
        self._checkpoint(self._done + done, max(self.expected, self._done + done))


def _ask_all(config: ProtocolsConfig, asker: Asker, session: _Session) -> None:
    scores, pairs, copies = asker.scores(), asker.clean_pairs(), asker.copies() if config.copies else []
    pointwise, pairwise = session.supports(Protocol.POINTWISE, scores), session.supports(Protocol.PAIRWISE, pairs)
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
    if not session.supports(Protocol.RANKING, requests):
        return
    first = [r for r in requests if r.item_id == requests[0].item_id]
    session.ask(first)
    unread = session.log.table().tail(len(first))["unread_reason"]
    if unread.notna().all():
        reason = Counter(unread).most_common(1)[0][0]
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
    items = as_task(dataset.items, config.task)
    items = items[items["item_id"].isin(responses["item_id"])]
    return replace(dataset, items=items.reset_index(drop=True), responses=responses.reset_index(drop=True))


def as_task(items: pd.DataFrame, task: str) -> pd.DataFrame:
    """The items as this task; as they are where it is empty."""
    return items.assign(task=task) if task else items


def _variants(config: ProtocolsConfig, dataset: Dataset, settings: Settings) -> pd.DataFrame:
    if config.variants_of:
        return check_reused(open_run(settings.runs, config.variants_of).table("variants"), dataset, config.arms)
    return variant_table(dataset, config.arms, make_rewriter(config.rewriter, settings), seed=config.seed)


def _describe(run: RunFolder, config: ProtocolsConfig, dataset: Dataset, judge: Judge, asker: Asker) -> None:
    scores = asker.scores()
    labels = [] if unsupported_reason(judge.labels, scores) else list(judge.labels(scores[0]))
    run.update_manifest(
        data=about_data(dataset, len(dataset.items), len(dataset.responses))
        | {"systems": sorted(set(dataset.responses["system"]))},
        judge=about_judge(judge, labels, [*scores[:1], *asker.clean_pairs()[:1]])
        | {"values": _values(judge, scores[0]) if labels else []},
        criterion=config.criterion,
    )


def _values(judge: Judge, request: Request) -> list[float]:
    """The score of each label that a judge with cards offers; empty for a judge without, whose labels are numbers."""
    inner = innermost(judge)
    return list(inner.card(request).values) if hasattr(inner, "card") else []


def _finish(session: _Session, config: ProtocolsConfig, state: str) -> pd.DataFrame:
    metrics = METRICS.empty()
    if len(session.log.table()):
        verdicts = session.log.with_earlier() if state == "stopped" else session.log.table()
        session.run.write_table("verdicts", verdicts)
        metrics = metrics_of(session.arena(), config.view, config.boards, config.lowest, config.elo_k)
        session.run.write_table("metrics", metrics)
    session.run.update_manifest(state=state, finished=now(), skipped=session.skipped)
    return metrics


# One comparison, one distractor: the judge calls behind the live view of the page Protocols and leaderboard.


class DistractOne(BaseModel):
    """Two responses to one item, and which of them is rewritten how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    response_a: str
    response_b: str
    side: Literal["a", "b"] = "b"
    distractor: str = "assertiveness"
    task: Literal["", "instruction", "question"] = ""
    strength: float = Field(default=1.0, ge=0, le=1)
    rewriter: str = "rules"
    seed: int = 0


def distract_one(config: DistractOne, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Judge a pair before and after one side is rewritten, in both protocols where the judge can.

    Returns:
        JSON-ready: the rewritten text with its diff and content report; by protocol `before` and `after`; and why a
        protocol is missing.

    Raises:
        InputError: unknown data, response, distractor or judge, two responses to different items, or the judge answers
            neither protocol.
    """
    dataset = load_dataset(config.data, settings.datasets)
    dataset = replace(dataset, items=as_task(dataset.items, config.task))
    a, b = (_request(dataset, name) for name in (config.response_a, config.response_b))
    if a.item_id != b.item_id or a.response_id == b.response_id:
        raise InputError("Two different responses to one item are compared. Choose another second response.")
    judge = make_judge(config.judge, settings)
    loser = a if config.side == "a" else b
    rewriter = make_rewriter(config.rewriter, settings)
    [made] = rewriter.rewrite([loser.response], style_of(config.distractor), strength=config.strength, seed=config.seed)
    after = replace(loser, response=made.text, attack=config.distractor)
    changed = (after, b) if config.side == "a" else (a, after)
    out: dict[str, Any] = {"text": _text(loser, made), "pairwise": None, "pointwise": None, "missing": {}}
    pairs = [*_pair(a, b), *_pair(*changed)]
    for protocol, requests, shown in (
        (Protocol.POINTWISE, [a, b, after], _scores),
        (Protocol.PAIRWISE, pairs, _pairs),
    ):
        if reason := unsupported_reason(judge.labels, requests):
            out["missing"][protocol.value] = reason
            continue
        out[protocol.value] = shown(judge, requests, judge.judge(requests, checkpoint), config.side)
    if len(out["missing"]) == 2:
        raise InputError(f"{config.judge} can be asked in neither protocol. {' '.join(out['missing'].values())}")
    return out


def _request(dataset: Dataset, response_id: str) -> Request:
    requests = build_requests(dataset, response_ids=[response_id])
    if not requests:
        raise InputError(f"The data {dataset.name} has no response {response_id!r}. Choose one from the list.")
    return requests[0]


def _pair(a: Request, b: Request) -> list[Request]:
    attack = a.attack if a.attack != NONE else b.attack
    joined = replace(a, protocol=Protocol.PAIRWISE, response_b_id=b.response_id, response_b=b.response, attack=attack)
    return both_orders([joined])


def _text(original: Request, made: Rewrite) -> dict[str, Any]:
    return {
        "rewritten": made.text,
        "diff": [list(piece) for piece in word_diff(original.response, made.text)],
        "reasons": list(made.report.reasons),
        "length_ratio": made.report.length_ratio,
        "changed": made.text != original.response,
    }


def _scores(judge: Judge, requests: list[Request], verdicts: list[Verdict], side: str) -> dict[str, Any]:
    a, b, after = ({"score": v.score, "probabilities": v.probabilities, "unread": v.unread_reason} for v in verdicts)
    changed = {"a": after, "b": b} if side == "a" else {"a": a, "b": after}
    return {"labels": list(judge.labels(requests[0])), "before": {"a": a, "b": b}, "after": changed}


def _pairs(judge: Judge, requests: list[Request], verdicts: list[Verdict], side: str) -> dict[str, Any]:  # noqa: ARG001 - one signature
    shown = [
        {"order": (r.order or Order.AB).value, "p_a": v.p_a, "p_tie": v.p_tie, "unread": v.unread_reason}
        for r, v in zip(requests, verdicts, strict=True)
    ]
    return {"before": shown[:2], "after": shown[2:]}
