"""The divisions of an audit: which pairs are positives, which are audited, and what can be checked at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from engine.errors import InputError
from engine.metrics.puaudit import read_audit
from engine.readout.puaudit import NO_ESTIMATE
from engine.runs import RunFolder
from engine.studies.puaudit_tables import (
    Arm,
    Directed,
    Divided,
    Frames,
    Pool,
    audit_rows,
    divide,
    event_rows,
    labelled_split,
    real_split,
    with_maps,
)
from engine.studies.puaudit_weights import weighted_rows

if TYPE_CHECKING:
    from engine.studies.puaudit import AuditConfig


def divisions(config: AuditConfig, pool: Pool, human: Directed, arms: Sequence[Arm], run: RunFolder) -> Frames:
    """Every split of every arm, written into the run; the one shown has its map and bootstraps.

    Raises:
        InputError: an arm has nothing to audit, or no mass.
    """
    audits, events, seconds = [], [], []
    for arm in arms:
        made = [*unlabelled_audit(config, pool, human, arm), *seeded(config, pool, human, arm, config.p_ratio)]
        if not made:
            raise InputError(_nothing(config, pool))
        shown = [done for done in made if done.number == made[0].number]
        rows = [audit_rows(pool, arm, done) for done in made]
        mapped = with_maps(rows[: len(shown)], shown, bootstraps=config.bootstraps, umap=config.umap, seed=config.seed)
        audits += [*mapped, *rows[len(shown) :]]
        events += [event_rows(arm.judged.attack, done) for done in made]
        seconds += [done.seconds for done in made]
    run.write_table("audit", pd.concat(audits))
    run.write_table("transport", pd.concat(events))
    return Frames(run.table("audit"), run.table("transport"), float(np.mean(seconds)))


def _nothing(config: AuditConfig, pool: Pool) -> str:
    if config.mass is None and not _judged(pool, pool.human):
        return NO_ESTIMATE
    return (
        "There is nothing to audit: no pair without a human preference has a verdict, and too few of those with one "
        "have a verdict to hold some of them back."
    )


def _judged(pool: Pool, pairs: Collection[str]) -> int:
    """Pairs with a verdict on the responses as they were."""
    return sum(pair in pool.clean for pair in pairs)


def unlabelled_audit(config: AuditConfig, pool: Pool, human: Directed, arm: Arm) -> list[Divided]:
    """The audit of the pairs that nobody labelled, in all its parts; empty where there are none.

    Raises:
        InputError: no mass is set, and no positive has a verdict to estimate it from.
    """
    positives, unlabelled, number = real_split(pool, arm.judged)
    if not arm.directed.some(unlabelled)[0]:
        return []
    if config.mass is None and not _judged(pool, positives):
        raise InputError(NO_ESTIMATE)
    return _divided(config, pool, human, arm, (positives, unlabelled), number)


def seeded(config: AuditConfig, pool: Pool, human: Directed, arm: Arm, p_ratio: float) -> list[Divided]:
    """The seeded splits of the labelled pairs.

    A split is left out where no pair it holds back has a verdict, or none of its positives where the mass is
    estimated; where labelled pairs have no verdict at all, as in plain learning from positive and unlabelled pairs,
    there is none, and consistency cannot be checked.
    """
    made: list[Divided] = []
    for number in range(config.splits):
        sides = labelled_split(pool, list(pool.human), p_ratio, config.seed + number)
        if arm.directed.some(sides[1])[0] and (config.mass is not None or _judged(pool, sides[0])):
            made += _divided(config, pool, human, arm, sides, number)
    return made


def _divided(
    config: AuditConfig, pool: Pool, human: Directed, arm: Arm, sides: tuple[list[str], list[str]], number: int
) -> list[Divided]:
    """One division: one audit of all question types, or one of each that has pairs on both sides."""
    how = config.denoising
    if not config.within_type:
        return [divide(pool, human, arm, *sides, number, how)]
    made = []
    for kind in dict.fromkeys(pool.kind.values()):
        own = [[pair for pair in side if pool.kind[pair] == kind] for side in sides]
        if config.mass is None and not _judged(pool, own[0]):
            continue
        try:
            made.append(divide(pool, human, arm, own[0], own[1], number, how, kind))
        except InputError:  # too few positives for the filter, or nothing to audit: the type is not in this split
            continue
    if not made:
        raise InputError("No question type has enough pairs for a transport of its own. Leave within_type out.")
    return made


def _frames(pool: Pool, arm: Arm, made: Sequence[Divided]) -> Frames:
    audit = pd.concat([audit_rows(pool, arm, done) for done in made], ignore_index=True)
    events = pd.concat([event_rows(arm.judged.attack, done) for done in made], ignore_index=True)
    return Frames(audit, events, float(np.mean([done.seconds for done in made])))


def encoder_frames(config: AuditConfig, pool: Pool, human: Directed, arm: Arm) -> Frames:
    """The splits of one more encoder; the unlabelled audit alone where nothing can be checked."""
    made = seeded(config, pool, human, arm, config.p_ratio) or unlabelled_audit(config, pool, human, arm)
    if not made:
        raise InputError(_nothing(config, pool))
    return _frames(pool, arm, made)


def other_ratios(config: AuditConfig, pool: Pool, human: Directed, arm: Arm) -> dict[float, Frames]:
    """The splits at the other shares of positives that the study names, those that can be made."""
    found: dict[float, Frames] = {}
    for ratio in config.p_ratios:
        try:
            made = seeded(config, pool, human, arm, ratio)
        except InputError:  # so few positives that denoising keeps none: there is no audit at this share
            continue
        if made:
            found[ratio] = _frames(pool, arm, made)
    return found


def by_item(config: AuditConfig, pool: Pool, human: Directed, arm: Arm, read: Frames) -> pd.DataFrame:
    """The clean arm where every item weighs the same."""
    own = read_audit(read.audit, read.events, seed=config.seed)
    made = seeded(config, pool, human, arm, config.p_ratio)
    return weighted_rows(own, made, pool, mass=config.mass, eta=config.eta, level=config.level)
