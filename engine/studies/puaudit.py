"""Study `puaudit`: which verdicts look unlike verified human preferences, and does flipping them help (paper 002)?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, field_validator

from engine.attacks.audit_styles import AUDIT_ATTACKS, EMOTIONS
from engine.cache import CallCache
from engine.data.comparisons import Comparisons, load_comparisons, pairs_digest
from engine.errors import InputError
from engine.judges.base import Checkpoint, Judge, Request, no_checkpoint
from engine.judges.registry import make_judge
from engine.metrics.puaudit import read_audit
from engine.models.loader import load_model
from engine.runs import RunFolder, create_run, now
from engine.schema import NONE, VARIANTS
from engine.settings import Settings
from engine.studies.kept import keeping
from engine.studies.manifest import about_judge, ending
from engine.studies.plan import within
from engine.studies.protocols_variants import make_rewriter
from engine.studies.puaudit_report import audit_metrics, encoder_rows, flip_rate, ratio_rows, summary
from engine.studies.puaudit_splits import by_item, divisions, encoder_frames, other_ratios
from engine.studies.puaudit_tables import Arm, Pool, Vectors, direct, texts_of
from engine.studies.puaudit_types import API, classify, classify_by_api
from engine.studies.puaudit_verdicts import (
    IN_DATA,
    STRICT,
    Judged,
    attack_and_judge,
    judge_pairs,
    judged_in_data,
    requests_of,
)
from engine.studies.puaudit_weights import ITEMS
from engine.transport.audit import Denoising
from engine.transport.encoder_cards import encoder_spec
from engine.transport.encoders import knows_only_its_texts, make_encoder


class AuditConfig(BaseModel):
    """What to run; the run's manifest holds it.

    Attributes:
        judge: a judge's spec, `recorded:FILE...`, or `recorded:data` for verdicts that came with the pairs.
        data: id of a set of pairs.
        attacks: on the losing response; the clean arm is always there.
        encoders: specs or short names; the first is the audit's, all are compared on the clean arm.
        mass: transported mass in (0, 1]; None takes the consistency on the positives (paper 002, 5.1).
        p_ratio: share of labelled pairs that are positives in the seeded splits.
        p_ratios: further shares, on the clean arm, for the sensitivity (paper 002, table 6).
        bootstraps: of the positives, for the stability of each pair.
        rewriter: `rules`, or the spec of a model.
        classify: spec of a model, here or behind an API, that sorts the questions into the paper's types A to F; empty
            keeps the file's types.
        within_type: whether each question type has a transport and an estimated mass of its own.
        weights: `items` also audits with every item weighing the same (rows cons_adj_items and gain_items, clean arm).
        min_cell: pairs below which a question type takes no part in claims.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str = "bundled:judge"
    data: str
    attacks: tuple[str, ...] = ()
    encoders: tuple[str, ...] = Field(default=("bundled:judge",), min_length=1)
    mass: float | None = Field(default=None, gt=0, le=1)
    eta: float = Field(default=0.5, gt=0, le=1)
    alpha1: float = Field(default=0.7, gt=0, le=1)
    alpha2: float = Field(default=0.7, gt=0, le=1)
    pool_below: int = Field(default=0, ge=0)
    within_type: bool = False
    weights: Literal["pairs", "items"] = "pairs"
    p_ratio: float = Field(default=0.5, gt=0, lt=1)
    p_ratios: tuple[float, ...] = (0.1, 0.2, 0.4, 0.6, 0.8)
    splits: int = Field(default=10, ge=1, le=100)
    bootstraps: int = Field(default=20, ge=0, le=200)
    umap: bool = True
    rewriter: str = "rules"
    emotion: str = "cheerful"
    classify: str = ""
    min_cell: int = Field(default=10, ge=1)
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    run_id: str | None = None
    seed: int = 0
    level: float = Field(default=0.95, gt=0.5, lt=1)

    @field_validator("attacks")
    @classmethod
    def _known(cls, attacks: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [a for a in attacks if a not in AUDIT_ATTACKS and a != NONE]
        if wrong:
            raise ValueError(f"unknown attack {wrong[0]!r}; allowed: {', '.join(AUDIT_ATTACKS)}")
        return tuple(dict.fromkeys(a for a in attacks if a != NONE))

    @field_validator("encoders")
    @classmethod
    def _named(cls, encoders: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(encoder_spec(given) for given in encoders))
        except InputError as error:
            raise ValueError(str(error)) from None

    @field_validator("emotion")
    @classmethod
    def _felt(cls, emotion: str) -> str:
        if emotion not in EMOTIONS:
            raise ValueError(f"unknown emotion {emotion!r}; allowed: {', '.join(EMOTIONS)}")
        return emotion

    @property
    def denoising(self) -> Denoising:
        """The filter of the positives."""
        return Denoising(self.alpha1, self.alpha2, self.pool_below)


def audit_job(config: AuditConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """The study as a job of the worker."""
    found = load_comparisons(config.data, settings.comparisons)
    run = create_run(settings.runs, "puaudit", config.model_dump(), config.run_id)
    run_puaudit(config, found, audit_judge(config.judge, settings), run, settings, checkpoint)
    return {"run_id": run.run_id}


def audit_judge(spec: str, settings: Settings, **options: Any) -> Judge | None:
    """The judge, or None where the verdicts came with the pairs."""
    return None if spec == IN_DATA else make_judge(spec, settings, **options)


@dataclass
class Work:
    """A study under way."""

    config: AuditConfig
    found: Comparisons
    requests: dict[str, Request]
    pool: Pool
    excluded: Counter[str]
    arms: list[Judged]
    variants: list[dict[str, object]] = field(default_factory=list)

    @property
    def ids(self) -> dict[str, tuple[str, str]]:
        """Response ids of both sides of each pair."""
        return {pair: (r.response_id, r.response_b_id) for pair, r in self.requests.items()}


def run_puaudit(
    config: AuditConfig,
    found: Comparisons,
    judge: Judge | None,
    run: RunFolder,
    settings: Settings,
    checkpoint: Checkpoint,
) -> pd.DataFrame:
    """Judge, attack, encode, transport, measure; returns the metrics table.

    Raises:
        InputError: no human preference at all, too few pairs, or an attack on verdicts that came with the data.
        Cancelled: from the checkpoint; finished calls are in the cache and the run is marked stopped.
    """
    told = _Progress(within(config.budget_seconds, checkpoint), config, len(found.comparisons))
    with ending(run):
        judge = keeping(judge, run) if judge else None
        work = _judged(config, found, judge, settings, told)
        _describe(run, work, judge)
        metrics = _audited(work, run, settings, told)
    run.update_manifest(state="done", finished=now())
    return metrics


class _Progress:
    """One count over all stages: judge calls of each arm, then texts of each encoder."""

    def __init__(self, checkpoint: Checkpoint, config: AuditConfig, pairs: int) -> None:
        n, arms = min(pairs, config.limit or pairs), 1 + len(config.attacks)
        self._sizes = [2 * n] * arms + [n * (1 + arms)] * len(config.encoders)
        self._checkpoint, self._stage = checkpoint, 0

    def __call__(self, done: int, total: int) -> None:
        before, size = sum(self._sizes[: self._stage]), self._sizes[self._stage]
        self._checkpoint(before + (size * done // total if total else size), sum(self._sizes))

    def step(self) -> None:
        """The next stage begins."""
        self._stage = min(self._stage + 1, len(self._sizes) - 1)


def _judged(config: AuditConfig, found: Comparisons, judge: Judge | None, settings: Settings, told: _Progress) -> Work:
    requests = requests_of(found, config.limit)
    human = found.comparisons.set_index("comparison_id")["human"]
    tied = [pair for pair in requests if human[pair] == "tie"]
    requests = {pair: r for pair, r in requests.items() if pair not in set(tied)}
    labelled = {pair: str(human[pair]) for pair in requests if human[pair] in STRICT}
    if len(labelled) < 2:
        raise InputError(
            f"The pairs {found.name!r} have {len(labelled)} human preferences that are no tie. The audit compares "
            "verdicts with verified preferences: label some pairs with a or b in the column human."
        )
    if judge is None and config.attacks:
        raise InputError(
            f"The verdicts came with the pairs ({IN_DATA}), so nobody can be asked about attacked responses. Leave the "
            "attacks out, or name a judge."
        )
    if config.attacks and knows_only_its_texts(config.encoders[0]):
        raise InputError(
            f"The audit's encoder is {config.encoders[0]}, which has vectors of the given responses alone, none of an "
            "attacked one. Leave the attacks out, or name an encoder that reads text first and this one after it."
        )
    clean = judge_pairs(judge, requests, told) if judge else judged_in_data(found, requests)
    if not clean.side:
        raise InputError(f"The judge decided none of {len(requests)} pairs: {dict(clean.left_out)}.")
    groups = _types(config, found, {r.item_id for r in requests.values()}, settings)
    pool = Pool(
        item={pair: r.item_id for pair, r in requests.items()},
        kind={pair: groups[r.item_id] for pair, r in requests.items()},
        prompt={pair: r.context for pair, r in requests.items()},
        human=labelled,
        clean=clean.side,
    )
    work = Work(config, found, requests, pool, Counter({"human tie": len(tied)} if tied else {}), [clean])
    work.excluded.update(clean.left_out)
    for attack in config.attacks:
        told.step()
        rewriter = make_rewriter(config.rewriter if AUDIT_ATTACKS[attack].rewrites else "rules", settings)
        assert judge is not None
        arm, variants = attack_and_judge(
            judge, clean, requests, attack, rewriter, emotion=config.emotion, seed=config.seed, checkpoint=told
        )
        work.arms.append(arm)
        work.variants += variants
    return work


def _types(config: AuditConfig, found: Comparisons, asked: Collection[str], settings: Settings) -> dict[str, str]:
    """Question type by item: as the file says, or as a model sorts those that are asked about."""
    items = found.items.set_index("item_id")
    if not config.classify:
        return {str(k): str(v) for k, v in items["group"].items()}
    questions = {str(k): str(v) for k, v in items["context"].items() if str(k) in asked}
    if config.classify.startswith(API):
        return classify_by_api(questions, config.classify, settings, no_checkpoint)
    return classify(questions, load_model(config.classify, settings), CallCache(settings.calls), no_checkpoint)


def _audited(work: Work, run: RunFolder, settings: Settings, told: _Progress) -> pd.DataFrame:
    config, why = work.config, Counter(work.excluded)
    tables: list[pd.DataFrame] = []
    for place, spec in enumerate(config.encoders):
        told.step()
        arms = work.arms if place == 0 else work.arms[:1]
        vectors = Vectors(make_encoder(spec, settings, work.found))
        vectors.add(texts_of(work.pool, arms, work.ids), told)
        lost = why if place == 0 else Counter[str]()
        human = direct(work.pool, vectors, work.pool.human, work.arms[0].texts, Counter())
        directed = [
            Arm(a, direct(work.pool, vectors, a.side, a.texts, lost if a.attack == NONE else Counter())) for a in arms
        ]
        if place == 0:
            first = divisions(config, work.pool, human, directed, run)
            tables.append(audit_metrics(first.audit, first.events, config, work.arms))
            if config.weights == ITEMS:
                tables.append(by_item(config, work.pool, human, directed[0], first))
            tables.append(ratio_rows(other_ratios(config, work.pool, human, directed[0]), config))
            clean = first
        own = clean if place == 0 else encoder_frames(config, work.pool, human, directed[0])
        tables.append(encoder_rows(spec, own.audit, own.events, vectors, own.seconds, config))
    metrics = pd.concat([t for t in tables if len(t)], ignore_index=True)
    run.write_table("verdicts", pd.concat([a.verdicts for a in work.arms]))
    if work.variants:
        run.write_table("variants", VARIANTS.conform(pd.DataFrame(work.variants)))
    run.write_table("metrics", metrics)
    shown = read_audit(clean.audit, clean.events, seed=config.seed)
    left_out = {name: dict(arm.left_out) for name, arm in ((a.attack, a) for a in work.arms[1:])}
    excluded = {reason: n for reason, n in why.items() if n}
    run.update_manifest(
        excluded=excluded,
        excluded_under_attack=left_out,
        summary=summary(shown, clean.audit, metrics, config, clean.seconds, sum(excluded.values())),
    )
    return metrics


def _describe(run: RunFolder, work: Work, judge: Judge | None) -> None:
    flips = {a.attack: flip_rate(work.arms[0], a) for a in work.arms[1:]}
    run.update_manifest(
        data={
            "dataset_id": work.found.set_id,
            "name": work.found.name,
            "digest": pairs_digest([work.found.items, work.found.responses, work.found.comparisons]),
            "n_items": len(set(work.pool.item.values())),
            "n_responses": 2 * len(work.requests),
            "n_pairs": len(work.requests),
            "n_labelled": len(work.pool.human),
        },
        judge=about_judge(judge, [], list(work.requests.values())[:1])
        if judge
        else {"spec": IN_DATA, "fingerprint": f"in-data-{work.found.set_id}", "labels": [], "device": "no model"},
        verdict_flips=flips,
    )
