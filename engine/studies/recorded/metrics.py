"""Metrics of recorded verdicts: shifts, order bias, ratings, acceptance; no judge is asked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.schema import METRICS, NONE, Outcome, Protocol
from engine.data.raw import cells_of
from engine.stats.agreement import combine_orders, first_slot_rate, order_agreement
from engine.stats.intervals import Interval, cluster_codes, cluster_rate
from engine.stats.ratings import connections, rate, rating_problems, system_problems
from engine.stats.shifts import metric_row, shift_metrics

ONE_ORDER = "one order each"
"""Ends the method of ratings that rest on single verdicts, since no pair was shown in both orders."""
_PAIR = ["item_id", "response_id", "response_b"]
_MOST_UNITS = 5_000
"""Items that are resampled one by one; more are put into groups."""
_FEWEST_GROUPS, _MOST_CELLS = 200, 20_000_000
"""Win matrices hold at most so many numbers (160 MB), but never fewer than so many groups."""


def recorded_metrics(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Metrics of one judge's verdicts per arm, as a table `metrics`; the judge is not asked again.

    pointwise: `shift_metrics`. pairwise: first_slot (share that prefers the response shown first, ties half)
    and order_agreement (pairs whose orders agree); where the recording names systems also rating and rank of each
    (Bradley-Terry over both orders, or over single verdicts where no pair was shown in both; ties half, bootstrap of
    items). `recorded_remarks` says which verdicts they rest on. Where the order shown is not recorded, only
    win_rate of each system (share of its pairs that it wins, ties half). verifier: yes_rate.
    """
    protocols = set(verdicts["protocol"])
    if protocols <= {Protocol.POINTWISE.value}:
        return shift_metrics(verdicts, level=level, seed=seed)
    out: list[dict[str, object]] = []
    for (attack, defense), arm in verdicts.groupby(["attack", "defense"], sort=False):
        if set(arm["protocol"]) == {Protocol.PAIRWISE.value} and arm["order"].isna().all():
            out += [row | {"attack": attack, "defense": defense} for row in _win_rates(arm, level, seed)]
            continue
        for metric, interval, rows in _rates(arm, level, seed):
            out.append(metric_row(metric, str(attack), str(defense), interval, rows))
        out += [row | {"attack": attack, "defense": defense} for row in _ratings(arm, level, seed)]
    return METRICS.conform(pd.DataFrame(out).sort_values("attack", key=lambda a: a != NONE, kind="stable"))


def _rates(arm: pd.DataFrame, level: float, seed: int) -> list[tuple[str, Interval, int]]:
    if (arm["protocol"] == Protocol.VERIFIER.value).all():
        yes = arm["outcome"].map({Outcome.YES.value: 1.0, Outcome.NO.value: 0.0})
        return [("yes_rate", cluster_rate(yes, cluster_codes(arm), level=level, seed=seed), len(arm))]
    both = arm.groupby(_PAIR)["order"].nunique()
    return [
        ("first_slot", first_slot_rate(arm, level=level, seed=seed), len(arm)),
        ("order_agreement", order_agreement(arm, level=level, seed=seed), int((both == 2).sum())),
    ]


def _win_rates(arm: pd.DataFrame, level: float, seed: int) -> list[dict[str, object]]:
    """The share of its pairs that each system wins, ties half; of side a where systems are not named."""
    value = arm["outcome"].map({Outcome.A.value: 1.0, Outcome.TIE.value: 0.5, Outcome.B.value: 0.0}).to_numpy(float)
    first, second = (_systems(arm["item_id"], arm[column]) for column in ("response_id", "response_b"))
    if None in first or None in second:
        interval = cluster_rate(value, cluster_codes(arm), level=level, seed=seed)
        return [metric_row("win_rate_a", "", "", interval, len(arm))]
    sides = pd.DataFrame({"system": [*first, *second], "won": np.concatenate([value, 1 - value])})
    sides["item_id"] = [*arm["item_id"], *arm["item_id"]]
    out = []
    for system, pairs in sides.groupby("system", sort=False):
        interval = cluster_rate(pairs["won"].to_numpy(float), cluster_codes(pairs), level=level, seed=seed)
        out.append(metric_row("win_rate", "", "", interval, len(pairs)) | {"group": system})
    return out


def recorded_remarks(verdicts: pd.DataFrame) -> list[str]:
    """Sentences on what the ratings of pairs rest on and cannot say, or why there are none; empty for other data.

    Args:
        verdicts: table `verdicts` of one judge.
    """
    said: dict[str, None] = {}
    for (attack, defense), arm in verdicts.groupby(["attack", "defense"], sort=False):
        if not (arm["protocol"] == Protocol.PAIRWISE.value).all() or arm["order"].isna().any():
            continue
        if played := _battles(arm):
            total = played.wins.sum(axis=0)
            met, battles = connections(total), total.sum(axis=1) + total.sum(axis=0)
            name = ", ".join(str(part) for part in (attack, defense) if part != NONE)
            for problem in (*system_problems(met, played.names), *rating_problems(met, battles, played.names)):
                said[f"Ratings{f' ({name})' if name else ''}: {problem}."] = None
        orders = arm.groupby(_PAIR)["order"].nunique()
        if None in _systems(arm["item_id"], arm["response_id"]) + _systems(arm["item_id"], arm["response_b"]):
            said["No ratings: the recording does not name the systems (columns system_a and system_b, or ids "
                 "ITEM:SYSTEM)."] = None  # fmt: skip
        elif orders.max() < 2 and arm["outcome"].notna().any():
            said["No pair was shown in both orders: the ratings count every verdict by itself (one order each), so "
                 "what the slot shown first adds is in them."] = None  # fmt: skip
        elif not combine_orders(arm)["outcome"].notna().any():
            said["No ratings: no pair has a read verdict in both orders."] = None
        elif single := int((orders < 2).sum()):
            said[f"{single:,} of {len(orders):,} pairs were shown in one order only and are in no rating."] = None
    return list(said)


class _Battles(NamedTuple):
    """Comparisons of systems in one arm.

    Attributes:
        names: of the systems, sorted.
        wins: of each unit that is resampled, ties half, shape (I, S, S).
        unit: what is resampled, in words.
        n_unread: pairs without a verdict.
        single: each verdict counts by itself, since no pair was shown in both orders.
    """

    names: list[str]
    wins: npt.NDArray[np.float64]
    unit: str
    n_unread: int
    single: bool


def _battles(arm: pd.DataFrame) -> _Battles | None:
    """The comparisons; None where a recording does not name systems (response ids `item:system`) or none was read."""
    if not (arm["protocol"] == Protocol.PAIRWISE.value).all() or arm["order"].isna().any():
        return None
    single = bool(arm.groupby(_PAIR)["order"].nunique().max() < 2)
    pairs = arm if single else combine_orders(arm)
    sides = [_systems(pairs["item_id"], pairs[column]) for column in ("response_id", "response_b")]
    read = pairs["outcome"].notna().to_numpy()
    if any(None in side for side in sides) or not read.any():
        return None
    names = sorted({str(name) for side in sides for name in side})
    return _Battles(names, *_wins(pairs, sides, names), int((~read).sum()), single)


def _ratings(arm: pd.DataFrame, level: float, seed: int) -> list[dict[str, object]]:
    """Ratings and ranks of the systems, group by group of those that met; no ranks where there are several groups."""
    played = _battles(arm)
    if played is None:
        return []
    ratings = rate(played.wins, level=level, seed=seed)
    shared = {
        "level": level,
        "method": f"bootstrap of {played.unit}" + (f", {ONE_ORDER}" if played.single else ""),
        "n_clusters": ratings.n_items,
        "n_unread": played.n_unread,
    }
    rows: list[dict[str, object]] = []
    islands = sorted(ratings.connections.islands, key=lambda island: -len(island))
    for i in (i for island in islands for i in sorted(island, key=lambda i: -ratings.rating[i])):
        system = shared | {"group": played.names[i], "n": int(ratings.battles[i])}
        ends = (ratings.rating[i], ratings.lower[i], ratings.upper[i])
        ranks = (ratings.rank[i], ratings.rank_lower[i], ratings.rank_upper[i])
        for metric, (value, lower, upper) in (("rating", ends), ("rank", ranks)):
            if metric == "rank" and np.isnan(value):
                continue  # `recorded_remarks` says why
            rows.append({"metric": metric, "value": value, "lower": lower, "upper": upper} | system)
    return rows


def _wins(pairs: pd.DataFrame, sides: list[list[str | None]], names: list[str]) -> tuple[npt.NDArray[np.float64], str]:
    """Wins of each item, ties half, shape (I, S, S); and what is resampled, in words.

    Many items are put into groups of whole items, which are resampled in their place: the matrices would not fit into
    memory, and so many groups give the same interval.
    """
    items = sorted(set(pairs["item_id"]))
    most = max(_FEWEST_GROUPS, _MOST_CELLS // len(names) ** 2)
    n = min(len(items), _MOST_UNITS, most)
    place = {item: i % n for i, item in enumerate(items)}
    at = {name: i for i, name in enumerate(names)}
    won = pairs["outcome"].map({Outcome.A.value: 1.0, Outcome.B.value: 0.0, Outcome.TIE.value: 0.5}).to_numpy(float)
    read = ~np.isnan(won)
    unit = pairs["item_id"].map(place).to_numpy()[read]
    a, b = (np.array([at[str(name)] for name in side])[read] for side in sides)
    wins = np.zeros((n, len(names), len(names)))
    np.add.at(wins, (unit, a, b), won[read])
    np.add.at(wins, (unit, b, a), 1 - won[read])
    return wins, "items" if n == len(items) else f"{n:,} groups of items"


def _systems(items: pd.Series, responses: pd.Series) -> list[str | None]:
    """The system of each response, None where the id does not say."""
    return [
        response[len(item) + 1 :] if response.startswith(f"{item}:") and len(response) > len(item) + 1 else None
        for item, response in zip(cells_of(items), cells_of(responses), strict=True)
    ]
