"""Anchors of a CAP run, the judge behind each defense, thresholds of perplexity, and the comparative form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.attacks.cards import parse_attack
from engine.attacks.registry import make_attack
from engine.core.errors import InputError
from engine.core.schema import NONE, Order, Protocol, Task
from engine.core.settings import Settings
from engine.data.dataset import Dataset
from engine.defenses.anchors import PROMPTED, AnchoredJudge, Anchors, GivenAnchors, PromptedAnchors
from engine.defenses.cards import UNLIKELY_BY_DESIGN, parse_defense
from engine.defenses.guard import Guard, ModelGuard, own_model, reasons
from engine.defenses.reasoning import ReasoningJudge, reasoning_prompt
from engine.defenses.registry import defend
from engine.inference.perplexity import text_ids
from engine.judges.base import Checkpoint, Judge, Request, verdict_table
from engine.stats.detection import best_f1
from engine.stats.intervals import cluster_codes, cluster_mean
from engine.stats.shifts import metric_row
from engine.steering.references import Chosen
from engine.steering.vectors import SIDES, Side, Standards
from engine.studies.anchors import sources_for
from engine.studies.cap.contexts import Contexts, Progress, with_text
from engine.studies.cap.study import ANCHORED, CAP, COT, EXCHANGED, HUMAN, PERPLEXITY, CapConfig, base_of
from engine.studies.cap.tutor import Tutor, TutorWriter, plain_prompt, steered_texts
from engine.studies.figure import cap_name
from engine.studies.running import build_requests, with_attack


@dataclass(frozen=True)
class AnchorSets:
    """Anchors of every anchored arm.

    Attributes:
        by_item: arm to anchors by item; what they cost is in them.
        by_response: the human-rated arm's, which leave out the judged response.
        table: `cap_anchors`.
    """

    by_item: Mapping[str, Mapping[str, Anchors]]
    by_response: Mapping[str, Mapping[str, Anchors]]
    table: pd.DataFrame


def make_anchors(
    config: CapConfig,
    contexts: Contexts,
    dataset: Dataset,
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    chosen: Mapping[Side, Chosen],
    settings: Settings,
    progress: Progress,
) -> AnchorSets:
    """Anchors for every context, with the undefended judge's score of each text alone."""
    by_item: dict[str, dict[str, Anchors]] = {}
    by_response: dict[str, Mapping[str, Anchors]] = {}
    writer = TutorWriter(tutor)
    for arm in (a for a in config.defenses if a in PROMPTED):
        prompted = PromptedAnchors(arm, writer, PROMPTED[arm])
        part = progress.part(2 * len(contexts.every), "The tutor writes anchors")
        made = prompted.anchors(contexts.every, part)
        by_item[arm] = {r.item_id: a for r, a in zip(contexts.every, made, strict=True)}
    if CAP in config.defenses:
        by_item[CAP] = _steered(config, contexts, tutor, judge, standards, chosen, progress)
    if HUMAN in config.defenses:
        rated = sources_for([HUMAN], dataset, settings)[HUMAN].anchors(contexts.responses)
        by_response[HUMAN] = {r.response_id: a for r, a in zip(contexts.responses, rated, strict=True)}
    table = _anchor_table(by_item, contexts, judge, chosen, progress)
    return AnchorSets(by_item, by_response, table)


def _steered(
    config: CapConfig,
    contexts: Contexts,
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    chosen: Mapping[Side, Chosen],
    progress: Progress,
) -> dict[str, Anchors]:
    rows = [(r, side, chosen[side].alpha) for r in contexts.every for side in SIDES]
    part = progress.part(len(rows), "The tutor writes steered anchors")
    drafts = steered_texts(tutor, judge, standards, rows, config, part)
    out = {}
    for k, request in enumerate(contexts.every):
        high, low = drafts[2 * k], drafts[2 * k + 1]
        empty = [side for side, draft in zip(SIDES, (high, low), strict=True) if not draft.text]
        out[request.item_id] = Anchors(
            low=low.text,
            high=high.text,
            tokens=high.tokens + low.tokens,
            seconds=high.seconds + low.seconds,
            unread=f"cap: the tutor wrote no {empty[0]} anchor" if empty else "",
        )
    return out


def _anchor_table(
    by_item: Mapping[str, Mapping[str, Anchors]],
    contexts: Contexts,
    judge: Judge,
    chosen: Mapping[Side, Chosen],
    progress: Progress,
) -> pd.DataFrame:
    rows = [
        {
            "arm": arm,
            "item_id": request.item_id,
            "side": side,
            "text": getattr(anchors[request.item_id], side),
            "alpha": chosen[side].alpha if arm == CAP else np.nan,
            "tokens": anchors[request.item_id].tokens // 2,
        }
        for arm, anchors in by_item.items()
        for request in contexts.every
        for side in SIDES
    ]
    first = {r.item_id: r for r in contexts.every}
    asked = [k for k, row in enumerate(rows) if row["text"]]
    requests = with_text([first[str(row["item_id"])] for row in rows], [str(row["text"]) for row in rows])
    verdicts = dict(zip(asked, judge.judge([requests[k] for k in asked], progress.part(len(rows))), strict=True))
    for k, row in enumerate(rows):
        row["score"] = verdicts[k].score if k in verdicts else np.nan
    return pd.DataFrame(rows, columns=["arm", "item_id", "side", "text", "score", "alpha", "tokens"])


@dataclass(frozen=True)
class Arms:
    """The judge behind each defense, and the models that help it.

    Attributes:
        judges: by arm, the controls with exchanged anchors last.
        writer: writes the reasoning for a judge that cannot; None where nobody must.
        guard: reads perplexities.
    """

    judges: Mapping[str, Judge]
    writer: TutorWriter | None
    guard: Guard


def reasoner_of(config: CapConfig, judge: Judge, base: Callable[[], Tutor]) -> TutorWriter | None:
    """The writer of the chain of thought: the bundled base model for a judge that cannot, whatever the tutor.

    Args:
        config: has such an arm or not.
        judge: undefended.
        base: gives the bundled base model; called where it is needed only.
    """
    asked = any(base_of(name) == COT for name in config.defenses)
    return TutorWriter(base()) if asked and not reasons(judge) else None


def arms_of(config: CapConfig, judge: Judge, anchors: AnchorSets, writer: TutorWriter | None, guard: Guard) -> Arms:
    """The judge behind each defense of the study.

    Args:
        config: names the defenses.
        judge: undefended.
        anchors: of the anchored arms.
        writer: from `reasoner_of`.
        guard: from `guard_of`.
    """
    judges: dict[str, Judge] = {}
    for name in config.defenses:
        if name in ANCHORED:
            judges[name] = AnchoredJudge(judge, name, _given(name, anchors))
        elif base_of(name) == COT:
            judges[name] = ReasoningJudge(judge, name, writer, int(parse_defense(name).options["tokens"]))
        else:
            judges[name] = defend(judge, name, guard)
    for name in (n for n in config.defenses if n in ANCHORED):
        judges[name + EXCHANGED] = AnchoredJudge(judge, name + EXCHANGED, _given(name, anchors, exchanged=True))
    return Arms(judges, writer, guard)


def _given(name: str, anchors: AnchorSets, *, exchanged: bool = False) -> GivenAnchors:
    def turned(sets: Mapping[str, Anchors]) -> dict[str, Anchors]:
        swap = {k: a._replace(low=a.high, high=a.low) if exchanged else a for k, a in sets.items()}
        return {k: a._replace(tokens=0, passes=0.0, seconds=0.0) for k, a in swap.items()}

    return GivenAnchors(name, turned(anchors.by_item.get(name, {})), turned(anchors.by_response.get(name, {})))


def tokens_apart(
    defense: str, arms: Arms, verdicts: pd.DataFrame, responses: Sequence[Request], tutor: Tutor
) -> dict[str, float]:
    """Tokens that a defense reads and writes outside the judge's prompt, by clean response.

    A chain of thought that a writer writes costs its prompt and its reasoning, one that the judge writes itself its
    reply (as many tokens as passes), the perplexity one pass of the text.

    Args:
        defense: an arm that is judged.
        arms: from `arms_of`.
        verdicts: of this arm.
        responses: those judged.
        tutor: whose model reads perplexities.
    """
    if base_of(defense) == COT and arms.writer is None:
        clean = verdicts[verdicts["attack"] == NONE]
        return dict(zip(clean["response_id"], clean["forward_passes"].astype(float), strict=True))
    if base_of(defense) == COT and arms.writer:
        written = arms.writer.tokens
        return {r.response_id: float(written[reasoning_prompt(r)]) for r in responses}
    if base_of(defense) == PERPLEXITY:
        return {r.response_id: float(len(text_ids(tutor.loaded, r.response))) for r in responses}
    return {}


def judge_arms(
    config: CapConfig, responses: Sequence[Request], judges: Mapping[str, Judge], progress: Progress
) -> Iterator[pd.DataFrame]:
    """Verdicts of all defenses so far, after each of them."""
    tables: list[pd.DataFrame] = []
    for name, asked in asked_by_arm(config, responses, judges):
        arm = "no defense" if name == NONE else cap_name(name.removesuffix(EXCHANGED))
        step = f"The judge scores every attack: {arm}"
        verdicts = judges[name].judge(asked, progress.part(len(asked), step))
        tables.append(verdict_table(judges[name], [replace(r, defense=name) for r in asked], verdicts))
        yield pd.concat(tables, ignore_index=True)


def asked_by_arm(
    config: CapConfig, responses: Sequence[Request], names: Iterable[str]
) -> Iterator[tuple[str, list[Request]]]:
    """The requests of each arm.

    Suffixes of other lengths are judged undefended and behind CAP only (figures 6 and 7), exchanged anchors on clean
    responses only.
    """
    main = list(dict.fromkeys((NONE, *(parse_attack(name).name for name in config.attacks))))
    lengths = [parse_attack(f"suffix:{n}").name for n in config.suffix_words] if "suffix" in config.attacks else []
    for name in names:
        if name.endswith(EXCHANGED):
            attacks = [NONE]
        else:
            attacks = [*main, *(a for a in lengths if a not in main and name in (NONE, CAP))]
        yield name, [with_attack(r, make_attack(a)) for r in responses for a in attacks]


# Comparative against absolute judging under the same attack (CAP, paper 001, figure 2).
#
# Each response of an evaluation context is compared with the next one of its context, in both orders; the first is
# attacked. A probability and a score have different units, so both shifts are also given in units of the standard
# deviation of their clean values.


def pairs_of(responses: Sequence[Request], judge: Judge) -> list[Request]:
    """Each response with the next of its context, as a pairwise request the judge has a prompt for; none without one.

    A judge without a pairwise prompt for the task is asked about an instruction: the one the tutor gets.
    """
    by_item: dict[str, list[Request]] = {}
    for request in responses:
        by_item.setdefault(request.item_id, []).append(request)
    made = []
    for same_item in by_item.values():
        for k, first in enumerate(same_item if len(same_item) > 1 else []):
            second = same_item[(k + 1) % len(same_item)]
            made.append(
                replace(
                    first,
                    protocol=Protocol.PAIRWISE,
                    response_b_id=second.response_id,
                    response_b=second.response,
                    order=Order.AB,
                )
            )
    if not made or Protocol.PAIRWISE not in judge.protocols:
        return []
    try:
        judge.labels(made[0])
    except InputError:
        made = [replace(r, task=Task.INSTRUCTION, context=plain_prompt(r)) for r in made]
        try:
            judge.labels(made[0])
        except InputError:
            return []
    return made


def pair_requests(config: CapConfig, pairs: Sequence[Request]) -> list[Request]:
    """Every pair under every attack, none first, in both orders."""
    return [with_attack(replace(r, order=o), make_attack(a)) for a in _attacks(config) for r in pairs for o in Order]


def _attacks(config: CapConfig) -> list[str]:
    return list(dict.fromkeys((NONE, *(parse_attack(name).name for name in config.attacks))))


def comparative_rows(
    config: CapConfig, pairs: Sequence[Request], judge: Judge, verdicts: pd.DataFrame, checkpoint: Checkpoint
) -> list[dict[str, object]]:
    """Rows of `metrics`: comparative_shift (of p), comparative_shift_sd and absolute_shift_sd of each attack.

    Args:
        config: attacks, level and seed.
        pairs: from `pairs_of`; empty gives no rows.
        judge: undefended.
        verdicts: pointwise ones, undefended.
        checkpoint: called after each batch.
    """
    if not pairs:
        return []
    attacks = _attacks(config)
    answers = judge.judge(pair_requests(config, pairs), checkpoint)
    p = np.array([v.p_a + v.p_tie / 2 for v in answers]).reshape(len(attacks), len(pairs), 2).mean(axis=2)
    scores = verdicts[verdicts["defense"] == NONE].pivot(index="response_id", columns="attack", values="score")
    ids = [r.response_id for r in pairs]
    absolute = {a: scores[a].reindex(ids).to_numpy(dtype=float) for a in attacks}
    clusters = cluster_codes(pd.DataFrame({"item_id": [r.item_id for r in pairs]}))
    rows: list[dict[str, object]] = []
    for k, attack in enumerate(attacks[1:], start=1):
        moved, lifted = p[k] - p[0], absolute[attack] - absolute[NONE]
        for name, values in (
            ("comparative_shift", moved),
            ("comparative_shift_sd", moved / _spread(p[0])),
            ("absolute_shift_sd", lifted / _spread(absolute[NONE])),
        ):
            interval = cluster_mean(values, clusters, level=config.level, seed=config.seed)
            rows.append(metric_row(name, attack, NONE, interval, len(values)))
    return rows


def _spread(clean: np.ndarray) -> float:
    """Standard deviation of clean values; NaN where they do not vary."""
    spread = float(np.nanstd(clean, ddof=1)) if np.isfinite(clean).sum() > 1 else 0.0
    return spread if spread > 0 else float("nan")


# The perplexity arms: thresholds fitted on the training contexts (paper 001, 5.1), under the tutor's model.
#
# One threshold is fitted against the run's learned phrases and one against its prompt attacks, as in the study
# `detection`: readable injections are not unlikely texts, and one threshold for both would hide that. A fitted arm has
# its threshold in its name, for example `perplexity?threshold=112.4`.

FAMILIES = ("suffix", "prompt")
_DECIMALS = 3


def guard_of(tutor: Tutor, judge: Judge) -> Guard:
    """Perplexity under the tutor's model; other questions, which no arm of this study asks, as everywhere."""
    return ModelGuard(lambda: tutor.loaded, lambda: own_model(judge) or tutor.loaded, tutor.cache)


def training_texts(config: CapConfig, contexts: Contexts, dataset: Dataset) -> list[Request]:
    """Responses of the training contexts, those left out that were made unlikely on purpose."""
    training = {r.item_id for r in contexts.training}
    quality = dataset.responses.set_index("response_id")["quality"]
    responses = [r for r in build_requests(dataset) if r.item_id in training]
    return (
        [r for r in responses if quality.get(r.response_id) not in UNLIKELY_BY_DESIGN] if config.fits_perplexity else []
    )


def screening_work(config: CapConfig, contexts: Contexts, dataset: Dataset) -> int:
    """Texts that fitting reads, which `Progress` counts: each training response clean and under every attack."""
    return (1 + len(config.attacks)) * len(training_texts(config, contexts, dataset))


def with_fitted(
    config: CapConfig, contexts: Contexts, dataset: Dataset, guard: Guard, checkpoint: Checkpoint
) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The arms with the fitted thresholds in place of the plain perplexity arm, and how each was fitted.

    Args:
        config: the study; without `fit_perplexity` or without a plain perplexity arm nothing is fitted.
        contexts: whose training side is fitted on.
        dataset: has the responses of the training contexts.
        guard: reads the texts.
        checkpoint: called between batches; may raise to stop.

    Returns:
        Names of the arms, and a record for each threshold: against, attacks, threshold, f1, n_clean, n_attacked.
    """
    training = training_texts(config, contexts, dataset)
    if not training:
        return config.defenses, []
    by_family: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for name in dict.fromkeys(parse_attack(attack).name for attack in config.attacks):
        by_family["suffix" if parse_attack(name).base == "suffix" else "prompt"].append(name)
    clean = _readings(guard, [r.response for r in training], checkpoint)
    fits: list[dict[str, Any]] = []
    for family in (one for one in FAMILIES if by_family[one]):
        texts = [make_attack(name).apply(r) for name in by_family[family] for r in training]
        attacked = _readings(guard, texts, checkpoint)
        try:
            f1, at = best_f1(clean, attacked)
        except InputError:  # no text has a reading: the stock threshold stays
            continue
        threshold = max(1.0, math.floor(at * 10**_DECIMALS) / 10**_DECIMALS)
        counts = {"n_clean": len(clean), "n_attacked": len(attacked)}
        fits.append({"against": family, "attacks": by_family[family], "threshold": threshold, "f1": f1} | counts)
    fitted = [parse_defense(f"{PERPLEXITY}?threshold={one['threshold']}").name for one in fits] or [PERPLEXITY]
    arms = [arm for name in config.defenses for arm in (fitted if name == PERPLEXITY else [name])]
    return tuple(dict.fromkeys(arms)), fits


def _readings(guard: Guard, texts: Sequence[str], checkpoint: Checkpoint) -> np.ndarray:
    readings = guard.perplexities(texts, 0, lambda: checkpoint(0, len(texts)))
    return np.array([reading.value for reading in readings])
