"""From verdicts and vectors to the tables `audit` and `transport`: directions, splits, paths, maps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.errors import InputError
from engine.metrics.puaudit import AUDIT_ITSELF
from engine.projection import pca, umap_map
from engine.readout.puaudit import GEOMETRY
from engine.schema import NONE
from engine.studies.puaudit_verdicts import STRICT, Judged
from engine.transport.audit import Audited, Denoising, audit, resampled_entries
from engine.transport.encoders import Checkpoint, Encoded, Encoder, Text
from engine.transport.geometry import differences

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """What is known of each pair, whatever the arm: by comparison id, in the order of the data.

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
    found = differences(np.array(won), np.array(lost))
    if len(found.same):
        why["both responses have one embedding"] += len(found.same)
    return Directed([ids[i] for i in found.rows], found.z, np.array(won)[found.rows])


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
    found = audit(human.head[p_rows], z_p, [pool.kind[p] for p in p_ids], z_u, how)
    return Divided(number, part, p_ids, u_ids, z_p, z_u, found, time.perf_counter() - clock)


def audit_rows(pool: Pool, arm: Arm, done: Divided) -> pd.DataFrame:
    """The rows of the table `audit` of one division, without map and bootstraps."""
    places = np.cumsum(done.audited.stays) - 1
    rows: list[dict[str, Any]] = []
    for i, pair in enumerate(done.positives):
        stays = bool(done.audited.stays[i])
        own = {"role": "positive" if stays else "denoised", "place": int(places[i]) if stays else -1}
        rows.append(_about(pool, arm, done, pair) | own | {"verdict": pool.clean.get(pair)})
    path, scores = done.audited.path, done.audited.scores
    for j, pair in enumerate(done.unlabelled):
        own = {"role": "unlabelled", "place": j, "verdict": arm.judged.side[pair]}
        own |= {"entry_mass": path.entry_mass[j], "entry_price": path.entry_price[j]}
        rows.append(_about(pool, arm, done, pair) | own | {name: scores[name][j] for name in GEOMETRY})
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
        umap: whether there is a UMAP beside the principal components.
        seed: of the map and the bootstraps.
    """
    points = np.concatenate([z for done in shown for z in (done.z_positive, done.z_unlabelled)])
    places = pd.DataFrame(pca(points).points, columns=["pca_x", "pca_y"])
    if umap:
        places[["umap_x", "umap_y"]] = umap_map(points, seed=seed)
    out, start = [], 0
    for rows, done in zip(tables, shown, strict=True):
        own = places.iloc[start : start + len(rows)].set_axis(rows.index)
        start += len(rows)
        made = pd.concat([rows, own], axis=1)
        if bootstraps:
            kept = done.z_positive[done.audited.stays]
            entries = resampled_entries(kept, done.z_unlabelled, bootstraps, seed)
            lists = [None] * len(done.positives) + [row.tolist() for row in entries]
            made = made.assign(resampled=pd.Series(lists, index=made.index, dtype=object))
        out.append(made)
    return out


@dataclass(frozen=True)
class Frames:
    """The tables of some divisions, and what their paths took on average [s]."""

    audit: pd.DataFrame
    events: pd.DataFrame
    seconds: float


def texts_of(pool: Pool, arms: Sequence[Judged], ids: Mapping[str, tuple[str, str]]) -> list[Text]:
    """Every text to encode, with its response id where it is not attacked."""
    found = []
    for judged in arms:
        for pair, both in judged.texts.items():
            for text, response_id in zip(both, ids[pair], strict=True):
                found.append(Text(pool.prompt[pair], text, response_id if judged.attack == NONE else ""))
    return found


def real_split(pool: Pool, clean: Judged) -> tuple[list[str], list[str], int]:
    """Every labelled pair against every pair that nobody labelled."""
    return list(pool.human), [pair for pair in clean.side if pair not in pool.human], AUDIT_ITSELF
