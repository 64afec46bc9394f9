"""From verdicts and vectors to the tables `audit` and `transport`: directions, splits, paths, maps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.errors import UMAP, InputError, lacking
from engine.core.schema import METRICS, NONE
from engine.runs.folder import RunFolder
from engine.stats.projection import pca, umap_map
from engine.studies.transport_audit.metrics import (
    AUDIT_ITSELF,
    GEOMETRY,
    NO_ESTIMATE,
    Audit,
    Split,
    flipped,
    metric_of_pairs,
    per_pair,
    read_audit,
)
from engine.studies.transport_audit.study import AUDIT, AuditConfig
from engine.studies.transport_audit.verdicts import STRICT, Judged
from engine.transport.audit import Audited, Denoising, audit, differences, resampled_entries
from engine.transport.encoders import Checkpoint, Encoded, Encoder, Text
from engine.transport.path import cosine_costs, weighted_use
from engine.transport.readout import NothingToAuditError, kept

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """Facts of each pair that hold for every arm: by comparison id, in the order of the data.

    Attributes:
        item, kind, prompt: item id, question type and prompt of each pair.
        human: side people prefer; only pairs with a strict preference.
        clean: side the judge prefers without an attack.
    """

    item: dict[str, str]
    kind: dict[str, str]
    prompt: dict[str, str]
    human: dict[str, str]
    clean: dict[str, str]


@dataclass(frozen=True)
class Directed:
    """Pairs with a direction: difference embeddings and the embedding of the response at their head."""

    ids: list[str]
    z: Floats
    head: Floats

    def some(self, wanted: Sequence[str]) -> tuple[list[str], npt.NDArray[np.intp]]:
        """Those of the wanted that are here, and their rows."""
        at = {pair: i for i, pair in enumerate(self.ids)}
        have = [pair for pair in wanted if pair in at]
        return have, np.array([at[pair] for pair in have], dtype=np.intp)


@dataclass
class Vectors:
    """Embeddings of every text of a study, each distinct text encoded once.

    Attributes:
        left_out: reason -> responses that could not be encoded.
        seconds: spent encoding [s]; NaN where some vectors were known from before.
    """

    encoder: Encoder
    left_out: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    _rows: dict[tuple[str, str], Floats] = field(default_factory=dict)

    def add(self, texts: Sequence[Text], checkpoint: Checkpoint) -> None:
        """Encode what is new; equal texts share one vector, so that their difference is exactly zero."""
        fresh = {(t.prompt, t.response): t for t in texts if (t.prompt, t.response) not in self._rows}
        clock = time.perf_counter()
        encoded: Encoded = self.encoder.encode(list(fresh.values()), checkpoint)
        self.seconds += float("nan") if encoded.known else time.perf_counter() - clock
        for i, key in enumerate(fresh):
            if i in encoded.left_out:
                self.left_out[encoded.left_out[i]] += 1
            else:
                self._rows[key] = encoded.vectors[i]

    @property
    def n(self) -> int:
        """Texts that have a vector."""
        return len(self._rows)

    def of(self, prompt: str, response: str) -> Floats | None:
        """The vector of a text; None where it could not be encoded."""
        return self._rows.get((prompt, response))


def direct(
    pool: Pool, vectors: Vectors, side: Mapping[str, str], texts: Mapping[str, tuple[str, str]], why: Counter[str]
) -> Directed:
    """Difference embeddings from the losing to the preferred side; what has none is counted in `why`."""
    ids, won, lost = [], [], []
    for pair, winner in side.items():
        both = [vectors.of(pool.prompt[pair], text) for text in texts[pair]]
        if both[0] is None or both[1] is None:
            why["not encoded"] += 1
            continue
        ids.append(pair)
        won.append(both[STRICT.index(winner)])
        lost.append(both[1 - STRICT.index(winner)])
    if not ids:
        raise InputError(f"No pair could be embedded by {vectors.encoder.spec}: {dict(vectors.left_out)}.")
    difference = differences(np.array(won), np.array(lost))
    if len(difference.same):
        why["both responses have one embedding"] += len(difference.same)
    return Directed([ids[i] for i in difference.rows], difference.z, np.array(won)[difference.rows])


def labelled_split(pool: Pool, ids: Sequence[str], p_ratio: float, seed: int) -> tuple[list[str], list[str]]:
    """Positives and unlabelled among labelled pairs: whole items go to one side.

    Args:
        pool: with the items.
        ids: labelled pairs with a strict verdict.
        p_ratio: share of these pairs that become positives, in (0, 1), reached or just exceeded.
        seed: of the draw.

    Raises:
        InputError: fewer than two items.
    """
    items = list(dict.fromkeys(pool.item[pair] for pair in ids))
    if len(items) < 2:
        raise InputError("Labelled pairs of at least two items are needed to hold some back.")
    order = np.random.default_rng(seed).permutation(len(items))
    members: dict[str, list[str]] = {}
    for pair in ids:
        members.setdefault(pool.item[pair], []).append(pair)
    positive: set[str] = set()
    for place, i in enumerate(order):
        if place and (len(positive) >= p_ratio * len(ids) or place == len(items) - 1):
            break
        positive.update(members[items[i]])
    return [p for p in ids if p in positive], [p for p in ids if p not in positive]


@dataclass(frozen=True)
class Arm:
    """One attack's judged pairs, with their directions."""

    judged: Judged
    directed: Directed


@dataclass(frozen=True)
class Divided:
    """One split of one arm, audited."""

    number: int
    part: str
    positives: list[str]
    unlabelled: list[str]
    z_positive: Floats
    z_unlabelled: Floats
    audited: Audited
    seconds: float


def divide(
    pool: Pool, human: Directed, arm: Arm, positives: Sequence[str], unlabelled: Sequence[str], number: int,
    how: Denoising, part: str = "",
) -> Divided:  # fmt: skip
    """Audit one division of the pairs; pairs without a direction drop out of it.

    Raises:
        InputError: a side is empty.
    """
    p_ids, p_rows = human.some(positives)
    u_ids, u_rows = arm.directed.some(unlabelled)
    clock = time.perf_counter()
    z_p, z_u = human.z[p_rows], arm.directed.z[u_rows]
    audited = audit(human.head[p_rows], z_p, [pool.kind[p] for p in p_ids], z_u, how)
    return Divided(number, part, p_ids, u_ids, z_p, z_u, audited, time.perf_counter() - clock)


def audit_rows(pool: Pool, arm: Arm, done: Divided) -> pd.DataFrame:
    """The rows of the table `audit` of one division, without map and bootstraps."""
    places = np.cumsum(done.audited.stays) - 1
    rows: list[dict[str, Any]] = []
    for i, pair in enumerate(done.positives):
        stays = bool(done.audited.stays[i])
        more = {"role": "positive" if stays else "denoised", "place": int(places[i]) if stays else -1}
        rows.append(_about(pool, arm, done, pair) | more | {"verdict": pool.clean.get(pair)})
    path, scores = done.audited.path, done.audited.scores
    for j, pair in enumerate(done.unlabelled):
        more = {"role": "unlabelled", "place": j, "verdict": arm.judged.side[pair]}
        more |= {"entry_mass": path.entry_mass[j], "entry_price": path.entry_price[j]}
        rows.append(_about(pool, arm, done, pair) | more | {name: scores[name][j] for name in GEOMETRY})
    return pd.DataFrame(rows)


def _about(pool: Pool, arm: Arm, done: Divided, pair: str) -> dict[str, Any]:
    human = pool.human.get(pair)
    return {
        "split": done.number,
        "part": done.part or None,
        "attack": arm.judged.attack,
        "comparison_id": pair,
        "item_id": pool.item[pair],
        "type": pool.kind[pair],
        "human": human,
        "agrees_clean": _same(pool.clean.get(pair), human),
        "agrees": _same(arm.judged.side.get(pair), human),
    }


def _same(side: str | None, human: str | None) -> float:
    return float("nan") if side is None or human is None else float(side == human)


def unlabelled_rows(pool: Pool, clean: Judged, directed: Directed) -> pd.DataFrame:
    """The rows of the table `audit` where nobody labelled anything: verdicts and their place on the map, no mass."""
    rows = [
        {
            "split": AUDIT_ITSELF, "attack": NONE, "part": None, "comparison_id": pair, "item_id": pool.item[pair],
            "type": pool.kind[pair], "role": "unlabelled", "place": j, "verdict": clean.side[pair],
        }
        for j, pair in enumerate(directed.ids)
    ]  # fmt: skip
    places = pd.DataFrame(pca(directed.z).points, columns=["pca_x", "pca_y"])
    return AUDIT.conform(pd.concat([pd.DataFrame(rows), places], axis=1))


def event_rows(attack: str, done: Divided) -> pd.DataFrame:
    """The rows of the table `transport` of one division."""
    path = done.audited.path
    return pd.DataFrame(
        {
            "split": done.number,
            "attack": attack,
            "part": done.part or None,
            "sent": path.sent,
            "unlabelled": path.unlabelled,
            "positive": path.positive,
            "price": path.price,
        }
    )


def with_maps(
    tables: Sequence[pd.DataFrame], shown: Sequence[Divided], *, bootstraps: int, umap: bool, seed: int
) -> list[pd.DataFrame]:
    """Coordinates of all pairs of a split, and entry masses of the unlabelled under resampled positives.

    Args:
        tables: from `audit_rows`, one for each part.
        shown: the parts of one split; all lie on one map, since axes of their own would put strangers side by side.
        bootstraps: of the positives of each part; 0 gives none.
        umap: also a UMAP, beside the principal components; left out where umap-learn is not installed.
        seed: of the map and the bootstraps.
    """
    points = np.concatenate([z for done in shown for z in (done.z_positive, done.z_unlabelled)])
    places = pd.DataFrame(pca(points).points, columns=["pca_x", "pca_y"])
    if umap and not lacking(UMAP):
        places[["umap_x", "umap_y"]] = umap_map(points, seed=seed)
    out, start = [], 0
    for rows, done in zip(tables, shown, strict=True):
        coordinates = places.iloc[start : start + len(rows)].set_axis(rows.index)
        start += len(rows)
        placed = pd.concat([rows, coordinates], axis=1)
        if bootstraps:
            stayed = done.z_positive[done.audited.stays]
            entries = resampled_entries(stayed, done.z_unlabelled, bootstraps, seed)
            lists = [None] * len(done.positives) + [row.tolist() for row in entries]
            placed = placed.assign(resampled=pd.Series(lists, index=placed.index, dtype=object))
        out.append(placed)
    return out


@dataclass(frozen=True)
class Frames:
    """The tables of some divisions, and what their paths took on average [s]."""

    audit: pd.DataFrame
    events: pd.DataFrame
    seconds: float


def texts_of(pool: Pool, arms: Sequence[Judged], ids: Mapping[str, tuple[str, str]]) -> list[Text]:
    """Every text to encode, with its response id where it is not attacked."""
    texts = []
    for judged in arms:
        for pair, both in judged.texts.items():
            for text, response_id in zip(both, ids[pair], strict=True):
                texts.append(Text(pool.prompt[pair], text, response_id if judged.attack == NONE else ""))
    return texts


def real_split(pool: Pool, clean: Judged) -> tuple[list[str], list[str], int]:
    """Every labelled pair against every pair that nobody labelled."""
    return list(pool.human), [pair for pair in clean.side if pair not in pool.human], AUDIT_ITSELF


# The audit where every item weighs the same, whatever the number of its pairs: weights that are not uniform.
#
# The exact path needs uniform weights, so each split is solved anew at its one mass, by the POT library
# (`engine.transport.path`). The numbers stand beside those of the exact path and show what the weighting changes.

ITEMS = "items"
"""Each item weighs the same; the other choice, `pairs`, is the paper's uniform weights."""


def item_weights(items: Sequence[str]) -> Floats:
    """1 / (number of items * pairs of the item) for each pair (n,); sums to 1."""
    pairs = Counter(items)
    return np.array([1.0 / (len(pairs) * pairs[item]) for item in items])


def weighted_rows(
    audited: Audit, made: Sequence[Divided], pool: Pool, *, mass: float | None, eta: float, level: float
) -> pd.DataFrame:
    """cons_adj_items and gain_items: consistency after the audit, and its gain, where items weigh the same.

    Args:
        audited: the seeded splits of an arm, as read from its tables.
        made: the same splits with their directions.
        pool: knows the item of each pair.
        mass: transported, in (0, 1]; None takes each split's own estimate.
        eta: least share of its weight that a pair must have transported to be kept.
        level: confidence level.
    """
    divided = {(one.number, one.part): one for one in made}
    after = [_after(split, divided[split.number, split.part], pool, mass, eta) for split in audited.splits]
    n = len(audited.pairs)
    adjusted = per_pair(audited.splits, after, n)
    original = per_pair(audited.splits, [split.agrees for split in audited.splits], n)
    rows = [
        metric_of_pairs(audited, "cons_adj_items", adjusted, level),
        metric_of_pairs(audited, "gain_items", adjusted - original, level),
    ]
    return METRICS.conform(pd.DataFrame(rows))


def _after(split: Split, one: Divided, pool: Pool, mass: float | None, eta: float) -> Floats:
    stays = one.audited.stays
    positives = [pool.item[pair] for pair, stay in zip(one.positives, stays, strict=True) if stay]
    costs = cosine_costs(one.z_positive[stays], one.z_unlabelled)
    unlabelled = [pool.item[pair] for pair in one.unlabelled]
    used = weighted_use(costs, item_weights(positives), item_weights(unlabelled), [split.mass(mass)])[0]
    return flipped(split.agrees, ~kept(used, eta))


# The divisions of an audit: which pairs are positives, which are audited, and what can be checked at all.


def divisions(config: AuditConfig, pool: Pool, human: Directed, arms: Sequence[Arm], run: RunFolder) -> Frames:
    """Every split of every arm, written into the run; the one shown has its map and bootstraps.

    Raises:
        NothingToAuditError: an arm has nothing to audit, or no mass.
    """
    audits, events, seconds = [], [], []
    for arm in arms:
        made = [*unlabelled_audit(config, pool, human, arm), *seeded(config, pool, human, arm, config.p_ratio)]
        if not made:
            raise NothingToAuditError(_nothing(config, pool))
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
        NothingToAuditError: no mass is set, and no positive has a verdict to estimate it from.
    """
    positives, unlabelled, number = real_split(pool, arm.judged)
    if not arm.directed.some(unlabelled)[0]:
        return []
    if config.mass is None and not _judged(pool, positives):
        raise NothingToAuditError(NO_ESTIMATE)
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
    how = Denoising(config.alpha1, config.alpha2, config.pool_below)
    if not config.within_type:
        return [divide(pool, human, arm, *sides, number, how)]
    made = []
    for kind in dict.fromkeys(pool.kind.values()):
        members = [[pair for pair in side if pool.kind[pair] == kind] for side in sides]
        if config.mass is None and not _judged(pool, members[0]):
            continue
        try:
            made.append(divide(pool, human, arm, members[0], members[1], number, how, kind))
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
        raise NothingToAuditError(_nothing(config, pool))
    return _frames(pool, arm, made)


def other_ratios(config: AuditConfig, pool: Pool, human: Directed, arm: Arm) -> dict[float, Frames]:
    """The splits at the other shares of positives that the study names, those that can be made."""
    frames: dict[float, Frames] = {}
    for ratio in config.p_ratios:
        try:
            made = seeded(config, pool, human, arm, ratio)
        except InputError:  # so few positives that denoising keeps none: there is no audit at this share
            continue
        if made:
            frames[ratio] = _frames(pool, arm, made)
    return frames


def by_item(config: AuditConfig, pool: Pool, human: Directed, arm: Arm, read: Frames) -> pd.DataFrame:
    """The clean arm where every item weighs the same."""
    audited = read_audit(read.audit, read.events, seed=config.seed)
    made = seeded(config, pool, human, arm, config.p_ratio)
    return weighted_rows(audited, made, pool, mass=config.mass, eta=config.eta, level=config.level)
