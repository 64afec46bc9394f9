"""A transport audit as it runs: judge, attack, encode, transport, measure; question types and planted directions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from engine.attacks.audit_styles import AUDIT_ATTACKS
from engine.core.cache import CallCache, call_cache
from engine.core.errors import WEIGHTED, InputError, require_local
from engine.core.schema import METRICS, NONE, VARIANTS
from engine.core.settings import Settings
from engine.data.comparisons import Comparisons, pairs_digest, require_texts
from engine.inference.chat import render_ids
from engine.inference.loading import LoadedModel, load_model
from engine.inference.scoring import label_tokens
from engine.judges.api_spec import PREFIX as API
from engine.judges.base import Checkpoint, Judge, Request, innermost, no_checkpoint
from engine.judges.labelled import ask, ready
from engine.judges.recorded import RecordedJudge
from engine.runs.folder import RunFolder, now
from engine.stats.agreement import combine_orders
from engine.stats.intervals import cluster_rate
from engine.studies.rewrites import api_writer, make_rewriter
from engine.studies.running import about_judge, ending, keeping, within
from engine.studies.transport_audit.metrics import (
    GEOMETRY,
    consistency,
    masses_and_flips,
    ranking_quality,
    read_audit,
    sensitivity,
)
from engine.studies.transport_audit.splits import (
    ITEMS,
    Arm,
    Floats,
    Frames,
    Pool,
    Vectors,
    by_item,
    direct,
    divisions,
    encoder_frames,
    other_ratios,
    texts_of,
    unlabelled_rows,
)
from engine.studies.transport_audit.study import AUDIT, IN_DATA, AuditConfig
from engine.studies.transport_audit.summary import UNLABELLED, manifest_summary
from engine.studies.transport_audit.verdicts import (
    STRICT,
    Judged,
    attack_and_judge,
    judge_pairs,
    judged_in_data,
    requests_of,
)
from engine.transport.audit import Denoising, audit
from engine.transport.encoders import knows_only_its_texts, make_encoder
from engine.transport.planted import planted_cone
from engine.transport.readout import NothingToAuditError


@dataclass
class Work:
    """A study under way."""

    config: AuditConfig
    data: Comparisons
    requests: dict[str, Request]
    pool: Pool
    excluded: Counter[str]
    arms: list[Judged]
    variants: list[dict[str, object]] = field(default_factory=list)

    @property
    def ids(self) -> dict[str, tuple[str, str]]:
        """Response ids of both sides of each pair."""
        return {pair: (r.response_id, r.response_b_id) for pair, r in self.requests.items()}


def run_transport_audit(
    config: AuditConfig,
    data: Comparisons,
    judge: Judge | None,
    run: RunFolder,
    settings: Settings,
    checkpoint: Checkpoint,
) -> pd.DataFrame:
    """Judge, attack, encode, transport, measure; returns the metrics table.

    Raises:
        InputError: too few pairs, or an attack on verdicts that came with the data.
        Cancelled: from the checkpoint; finished calls are in the cache and the run is marked stopped.
    """
    progress = _Progress(within(config.budget_seconds, checkpoint), config, len(data.comparisons))
    with ending(run):
        if config.weights == ITEMS:
            require_local("The audit with weights=items", WEIGHTED)  # before anybody is asked
        judge = keeping(judge, run) if judge else None
        work = _judged(config, data, judge, settings, progress)
        _describe(run, work, judge)
        metrics = _measured(work, run, settings, progress, strict=judge is None)
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


def _judged(
    config: AuditConfig, data: Comparisons, judge: Judge | None, settings: Settings, progress: _Progress
) -> Work:
    requests = requests_of(data, config.limit)
    human = data.comparisons.set_index("comparison_id")["human"]
    tied = [pair for pair in requests if human[pair] == "tie"]
    requests = {pair: r for pair, r in requests.items() if pair not in set(tied)}
    labelled = {pair: str(human[pair]) for pair in requests if human[pair] in STRICT}
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
    if judge and not isinstance(innermost(judge), RecordedJudge):
        require_texts(data, f"The judge {judge.spec}")
    for spec in config.encoders:
        if not knows_only_its_texts(spec):
            require_texts(data, f"The encoder {spec}")
    clean = judge_pairs(judge, requests, progress) if judge else judged_in_data(data, requests)
    if judge is None and not clean.side:
        raise InputError(f"The verdicts decide none of {len(requests)} pairs: {dict(clean.left_out)}.")
    groups = _types(config, data, {r.item_id for r in requests.values()}, settings)
    pool = Pool(
        item={pair: r.item_id for pair, r in requests.items()},
        kind={pair: groups[r.item_id] for pair, r in requests.items()},
        prompt={pair: r.context for pair, r in requests.items()},
        human=labelled,
        clean=clean.side,
    )
    work = Work(config, data, requests, pool, Counter({"human tie": len(tied)} if tied else {}), [clean])
    work.excluded.update(clean.left_out)
    for attack in config.attacks if clean.side else ():
        progress.step()
        rewriter = make_rewriter(config.rewriter if AUDIT_ATTACKS[attack].rewrites else "rules", settings)
        assert judge is not None
        arm, variants = attack_and_judge(
            judge, clean, requests, attack, rewriter, emotion=config.emotion, seed=config.seed, checkpoint=progress
        )
        work.arms.append(arm)
        work.variants += variants
    return work


def _types(config: AuditConfig, data: Comparisons, asked: Collection[str], settings: Settings) -> dict[str, str]:
    """Question type by item: as the file says, or as a model sorts those that are asked about."""
    items = data.items.set_index("item_id")
    if not config.classify:
        return {str(k): str(v) for k, v in items["group"].items()}
    questions = {str(k): str(v) for k, v in items["context"].items() if str(k) in asked}
    require_texts(data, "Sorting questions into types")
    if config.classify.startswith(API):
        return classify_by_api(questions, config.classify, settings, no_checkpoint)
    return classify(questions, load_model(config.classify, settings), call_cache(settings.calls), no_checkpoint)


def _measured(work: Work, run: RunFolder, settings: Settings, progress: _Progress, *, strict: bool) -> pd.DataFrame:
    """The audit; without people's choices, or without verdicts beside them, what needs neither.

    Args:
        work: what has been judged.
        run: where the tables go.
        settings: where models and caches are.
        progress: as it goes.
        strict: raise where the choices are there and too few verdicts are.
    """
    if len(work.pool.human) < 2:
        return _unlabelled(work, run, settings, progress, WITHOUT_LABELS)
    if work.pool.clean or strict:
        try:
            return _audited(work, run, settings, progress)
        except NothingToAuditError as error:
            if strict:
                raise
            return _unlabelled(work, run, settings, progress, f"{error} {WITHOUT_VERDICTS}")
    return _unlabelled(work, run, settings, progress, WITHOUT_VERDICTS)


def _audited(work: Work, run: RunFolder, settings: Settings, progress: _Progress) -> pd.DataFrame:
    config, why = work.config, Counter(work.excluded)
    tables: list[pd.DataFrame] = []
    for place, spec in enumerate(config.encoders):
        progress.step()
        arms = work.arms if place == 0 else work.arms[:1]
        vectors = Vectors(make_encoder(spec, settings, work.data))
        vectors.add(texts_of(work.pool, arms, work.ids), progress)
        lost = why if place == 0 else Counter[str]()
        human = direct(work.pool, vectors, work.pool.human, work.arms[0].texts, Counter())
        directed = [
            Arm(a, direct(work.pool, vectors, a.side, a.texts, lost if a.attack == NONE else Counter())) for a in arms
        ]
        if place == 0:
            clean = divisions(config, work.pool, human, directed, run)
            tables.append(audit_metrics(clean.audit, clean.events, config, work.arms))
            if config.weights == ITEMS:
                tables.append(by_item(config, work.pool, human, directed[0], clean))
            tables.append(ratio_rows(other_ratios(config, work.pool, human, directed[0]), config))
        frames = clean if place == 0 else encoder_frames(config, work.pool, human, directed[0])
        tables.append(encoder_rows(spec, frames.audit, frames.events, vectors, frames.seconds, config))
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
        summary=manifest_summary(shown, clean.audit, metrics, config, clean.seconds, sum(excluded.values())),
    )
    return metrics


WITHOUT_LABELS = (
    "No two pairs have a person's choice (a or b in the column human), so there is nothing to compare verdicts with: "
    "agreement, transport, flips and question types are left out. What the judge does, with and without an attack, "
    "and the map of the pairs need none."
)


WITHOUT_VERDICTS = (
    "Too few pairs have both a person's choice and a verdict, so agreement, transport, flips and question types are "
    "left out. What it chooses in each order, and the map of the pairs that it decided, need none."
)


def _unlabelled(work: Work, run: RunFolder, settings: Settings, progress: _Progress, why_not: str) -> pd.DataFrame:
    """What needs no human preference: verdicts, orders that disagree, verdicts an attack turns, and the map."""
    config, clean, why = work.config, work.arms[0], Counter(work.excluded)
    progress.step()
    placed = AUDIT.empty()
    if clean.side:
        vectors = Vectors(make_encoder(config.encoders[0], settings, work.data))
        vectors.add(texts_of(work.pool, work.arms[:1], work.ids), progress)
        placed = unlabelled_rows(work.pool, clean, direct(work.pool, vectors, clean.side, clean.texts, why))
    run.write_table("audit", placed)
    verdicts = pd.concat([a.verdicts for a in work.arms])
    run.write_table("verdicts", verdicts)
    if work.variants:
        run.write_table("variants", VARIANTS.conform(pd.DataFrame(work.variants)))
    metrics = METRICS.conform(pd.DataFrame(_turned(work, verdicts)))
    run.write_table("metrics", metrics)
    run.update_manifest(
        excluded={reason: n for reason, n in why.items() if n},
        excluded_under_attack={a.attack: dict(a.left_out) for a in work.arms[1:]},
        summary={UNLABELLED: why_not, "n_unlabelled": len(clean.side), "encoder": config.encoders[0]},
    )
    return metrics


def _turned(work: Work, verdicts: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows decided and orders_disagree of the clean verdicts; verdict_flips and verdict_undecided of each attack."""
    config, clean = work.config, work.arms[0]
    decided = np.array([float(pair in clean.side) for pair in work.requests])
    items = np.array([work.pool.item[pair] for pair in work.requests])
    rows = [_rate_row("decided", NONE, decided, items, config)]
    if verdicts["order"].nunique() > 1:
        both = combine_orders(clean.verdicts)
        apart = both["disagree"].to_numpy(dtype=np.float64)
        rows.append(_rate_row("orders_disagree", NONE, apart, both["item_id"].to_numpy(), config))
    for arm in work.arms[1:]:
        rows += _arm_rows(list(work.requests), work.pool.item, clean, arm, config)
    return rows


def _describe(run: RunFolder, work: Work, judge: Judge | None) -> None:
    flips = {a.attack: flip_rate(work.arms[0], a) for a in work.arms[1:]}
    run.update_manifest(
        data={
            "dataset_id": work.data.set_id,
            "name": work.data.name,
            "digest": pairs_digest([work.data.items, work.data.responses, work.data.comparisons]),
            "n_items": len(set(work.pool.item.values())),
            "n_responses": 2 * len(work.requests),
            "n_pairs": len(work.requests),
            "n_labelled": len(work.pool.human),
        },
        judge=about_judge(judge, [], list(work.requests.values())[:1])
        if judge
        else {"spec": IN_DATA, "fingerprint": f"in-data-{work.data.set_id}", "labels": [], "device": "no model"},
        verdict_flips=flips,
    )


# The table of metrics.

MASSES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Masses of the sensitivity (paper 002, table 7, in even steps)."""


def audit_metrics(
    audit: pd.DataFrame, events: pd.DataFrame, config: AuditConfig, arms: Sequence[Judged]
) -> pd.DataFrame:
    """Consistency, controls, AUC, masses and flips of every arm, and the sensitivity to the mass."""
    tables = []
    for arm in arms:
        audited = read_audit(audit, events, arm.attack, seed=config.seed)
        tables += [
            consistency(audited, config.mass, eta=config.eta, level=config.level, min_cell=config.min_cell),
            ranking_quality(audited, level=config.level),
            sensitivity(audited, MASSES, eta=config.eta, level=config.level),
            masses_and_flips(audited, audit, config.mass, eta=config.eta, level=config.level),
        ]
        if arm.attack != NONE:
            pairs = audited.pairs
            item = dict(zip(pairs["comparison_id"], pairs["item_id"], strict=True))
            tables.append(METRICS.conform(pd.DataFrame(_arm_rows(list(item), item, arms[0], arm, config))))
    return pd.concat([t for t in tables if len(t)], ignore_index=True)


def _plain(metric: str, attack: str, group: str | None, value: float, n: int, method: str) -> dict[str, Any]:
    row = {"metric": metric, "attack": attack, "defense": NONE, "group": group, "value": value}
    return row | {"method": method, "n": n}


def flip_rate(clean: Judged, arm: Judged) -> dict[str, int]:
    """Pairs whose strict verdict the attack turned, of those with a strict one in both."""
    both = [pair for pair in arm.side if pair in clean.side]
    return {"flipped": sum(arm.side[p] != clean.side[p] for p in both), "n": len(both)}


def _arm_rows(
    pairs: Sequence[str], item: Mapping[str, str], clean: Judged, arm: Judged, config: AuditConfig
) -> list[dict[str, Any]]:
    """verdict_flips: strict verdicts turned by the attack; verdict_undecided: those that became a tie or unread."""
    items = np.array([item[pair] for pair in pairs])
    turned = [float(arm.side[p] != clean.side[p]) if p in arm.side and p in clean.side else np.nan for p in pairs]
    undecided = [float(p not in arm.side) if p in arm.texts and p in clean.side else np.nan for p in pairs]
    both = (("verdict_flips", turned), ("verdict_undecided", undecided))
    return [_rate_row(metric, arm.attack, np.array(values), items, config) for metric, values in both]


def _rate_row(metric: str, attack: str, values: Floats, items: Any, config: AuditConfig) -> dict[str, Any]:
    rate = cluster_rate(values, items, level=config.level, seed=config.seed)
    row = _plain(metric, attack, None, rate.value, rate.n, rate.method)
    return row | {"lower": rate.lower, "upper": rate.upper, "level": rate.level, "n_clusters": rate.n_clusters}


def ratio_rows(by_ratio: Mapping[float, Frames], config: AuditConfig) -> pd.DataFrame:
    """cons_orig, cons_adj and gain at other shares of verified positives (paper 002, table 6; `group` is the share)."""
    tables = []
    for ratio, frames in by_ratio.items():
        audited = read_audit(frames.audit, frames.events, seed=config.seed)
        table = consistency(audited, config.mass, eta=config.eta, level=config.level, min_cell=0)
        chosen = table[table["group"].isna() & table["metric"].isin(["cons_orig", "cons_adj", "gain"])]
        tables.append(chosen.assign(metric="p_ratio_" + chosen["metric"], group=f"{ratio:g}"))
    return METRICS.conform(pd.concat(tables)) if tables else METRICS.empty()


def encoder_rows(
    spec: str, audit: pd.DataFrame, events: pd.DataFrame, vectors: Vectors, path: float, config: AuditConfig
) -> pd.DataFrame:
    """One encoder, as a row of paper 002, table 3, with the AUC of entry mass beside it (`group` names the encoder).

    Its memory is that of its weights: what the process holds says more about the judge and the libraries.
    """
    audited = read_audit(audit, events, seed=config.seed)
    table = consistency(audited, config.mass, eta=config.eta, level=config.level, min_cell=0)
    names = ["cons_orig", "cons_adj", "gain", "gain_over_best"]
    rows = table[table["group"].isna() & table["metric"].isin(names)]
    quality = ranking_quality(audited, level=config.level)
    flips = masses_and_flips(audited, audit, config.mass, eta=config.eta, level=config.level)
    flips = flips[flips["metric"] == "flip_share"].assign(metric="flips")
    both = pd.concat([rows, quality[quality["metric"] == "auc_entry_mass"], flips])
    both = both.assign(metric="encoder_" + both["metric"], group=spec)
    weights = vectors.encoder.weights_bytes / 2**30
    n_paths = len({(s.number, s.part) for s in (audited.splits or audited.itself)})
    more = [
        _plain("encoder_seconds", NONE, spec, vectors.seconds, vectors.n, "one measurement; none where vectors known"),
        _plain("encoder_path_seconds", NONE, spec, path, n_paths, "mean over the splits"),
        _plain("encoder_memory_gib", NONE, spec, weights, 1, "bytes of its weights"),
    ]
    return METRICS.conform(pd.concat([both, METRICS.conform(pd.DataFrame(more))]))


# Question types A to F of paper 002 (appendix B.3, figure 10), as a capable model sorts the questions.
#
# A model that runs here is read by its label probabilities, one behind an API by the letter it writes at temperature 0.

TYPES: dict[str, str] = {
    "A": "Programming (coding, debugging, devops, software engineering)",
    "B": "Math or logical reasoning",
    "C": "Factual or knowledge-based question",
    "D": "Writing, translation, summarization, or creative generation",
    "E": "Advice, recommendation, or planning",
    "F": "Other, meta-level, or unclear questions",
}
"""The paper's categories, in its own words."""
UNREAD = "unread"
_MIN_COVERAGE = 0.5
_SYSTEM = "Classify the user's question. Reply with one letter."
_LETTER = re.compile(rf"[\W_]*([{''.join(TYPES)}])(?:[\W_]*|[.:)*].*)", re.DOTALL)
"""A letter alone, or with a mark after it and what it stands for; "A question about" is none."""
_ANSWER_TOKENS = 16


def classify(
    questions: Mapping[str, str], loaded: LoadedModel, cache: CallCache | None, checkpoint: Checkpoint
) -> dict[str, str]:
    """The type of each question by item id, as "A: Programming"; `unread` below half the probability on the letters.

    Args:
        questions: item id -> prompt.
        loaded: a model that answers prompts.
        cache: where answers are kept.
        checkpoint: called after each batch; may raise to stop.

    Raises:
        InputError: the model does not answer prompts.
    """
    if loaded.kind not in {"causal", "encoder-decoder"}:
        raise InputError(f"{loaded.spec} answers no prompts, so it cannot classify questions. Name another model.")
    tokens = label_tokens(loaded.tokenizer, list(TYPES))
    calls = []
    for prompt in questions.values():
        call = ready(loaded, render_ids(loaded.tokenizer, _SYSTEM, _asked(prompt)), tokens, 0)
        calls.append(call if call.length <= loaded.max_tokens else None)
    types: dict[str, str] = {}
    for item, answer in zip(questions, ask(loaded, calls, cache, checkpoint), strict=True):
        p = None if answer is None else answer.probabilities
        if p is None or p.sum() < _MIN_COVERAGE:
            types[item] = UNREAD
        else:
            types[item] = _named(list(TYPES)[int(p.argmax())])
    return types


def classify_by_api(
    questions: Mapping[str, str], spec: str, settings: Settings, checkpoint: Checkpoint
) -> dict[str, str]:
    """As `classify`, by a model behind a server; an answer that is no letter of a type is `unread`.

    Args:
        questions: item id -> prompt.
        spec: `api:MODEL`; server and key are those of the API judges, and answers are kept with theirs.
        settings: where they are set.
        checkpoint: called after each batch; may raise to stop.

    Raises:
        InputError: no server is set up, or the spec names no model.
        ModelError: the server takes no call at all, or stopped answering.
    """
    prompts = [f"{_SYSTEM}\n\n{_asked(prompt)}" for prompt in questions.values()]
    written = api_writer(spec, settings).write(prompts, _ANSWER_TOKENS, lambda: checkpoint(0, len(prompts)))
    types: dict[str, str] = {}
    for item, answer in zip(questions, written, strict=True):
        letter = _LETTER.fullmatch(answer.text)
        types[item] = _named(letter[1]) if letter and not answer.unread else UNREAD
    return types


def _asked(prompt: str) -> str:
    listed = "\n".join(f"{letter}: {about}" for letter, about in TYPES.items())
    return f"Categories:\n{listed}\n\n[User Question]\n{prompt}\n\nWhich category fits best? Its letter:"


def _named(letter: str) -> str:
    return f"{letter}: {TYPES[letter].split(' (')[0].split(',')[0]}"


# An audit of planted directions: truth and best mass are known, so that a class can see when auditing helps or hurts.
#
# No judge, no text, no encoder: `engine.transport.planted` draws the directions, and the rest is the audit.


class PlantedAudit(BaseModel):
    """Places of the directions; see `planted_cone` for each.

    Attributes:
        alpha: share of verdicts that are right, the prior of theorem 4.3 and the best mass where its assumptions hold.
        positives: verified preferences.
        unlabelled: verdicts that are audited.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    alpha: float = Field(default=0.4, ge=0, le=1)
    tau: float = Field(default=0.8, gt=0, lt=1)
    delta: float = Field(default=0.5, gt=0, lt=1)
    nuisance: float = Field(default=0.0, ge=0, le=10)
    mislabelled: float = Field(default=0.0, ge=0, lt=1)
    contrary: float = Field(default=0.0, ge=0, le=1)
    positives: int = Field(default=100, ge=2, le=500)
    unlabelled: int = Field(default=300, ge=2, le=1000)
    dimensions: int = Field(default=128, ge=3, le=1024)
    seed: int = Field(default=0, ge=0)


def planted_audit(config: PlantedAudit, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Draw, and solve for every mass.

    Returns:
        JSON-ready: truth of each unlabelled verdict, the events of the path, the baselines, and `assumption`: true
        where the margin of assumption 4.2 is open and nothing departs from the model.

    Raises:
        InputError: no such geometry.
    """
    del settings
    cone = planted_cone(
        config.positives, config.unlabelled, d=config.dimensions, tau=config.tau, delta=config.delta,
        alpha=config.alpha, nuisance=config.nuisance, mislabelled=config.mislabelled, contrary=config.contrary,
        seed=config.seed,
    )  # fmt: skip
    checkpoint(0, 1)
    # the filter needs embeddings of responses, which directions have not; all positives stay
    heads = cone.positives
    audited = audit(heads, cone.positives, ["all"] * len(heads), cone.unlabelled, Denoising(alpha1=1.0, alpha2=1.0))
    checkpoint(1, 1)
    path = audited.path
    return {
        "truth": cone.truth.astype(int).tolist(),
        "n_positive": path.n_positive,
        "n_unlabelled": path.n_unlabelled,
        "sent": path.sent.tolist(),
        "unlabelled": path.unlabelled.tolist(),
        "positive": path.positive.tolist(),
        "price": path.price.tolist(),
        "scores": {name: np.asarray(audited.scores[name]).tolist() for name in GEOMETRY},
        "assumption": config.tau**2 > config.tau - config.delta and not config.mislabelled and not config.contrary,
    }
