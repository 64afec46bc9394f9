"""What recorded verdicts say by themselves: shifts, order bias, acceptance; no judge is asked."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.metrics.clusters import cluster_codes
from engine.metrics.intervals import Interval, cluster_rate
from engine.metrics.order import first_slot_rate, order_agreement
from engine.metrics.pairs import combine_orders
from engine.metrics.ratings import outcome_wins, rate
from engine.metrics.shifts import metric_row, shift_metrics
from engine.schema import METRICS, NONE, Outcome, Protocol


def recorded_metrics(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """What the verdicts of one judge say without asking it again, per arm, as a table `metrics`.

    pointwise: `shift_metrics`. pairwise: first_slot (share that prefers the response shown first, ties half)
    and order_agreement (pairs whose orders agree); where the recording names systems also rating and rank of each
    (Bradley-Terry over both orders, ties half, bootstrap of items). Where the order shown is not recorded, only
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
    both = arm.groupby(["item_id", "response_id", "response_b"])["order"].nunique()
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
    for system, own in sides.groupby("system", sort=False):
        interval = cluster_rate(own["won"].to_numpy(float), cluster_codes(own), level=level, seed=seed)
        out.append(metric_row("win_rate", "", "", interval, len(own)) | {"group": system})
    return out


def _ratings(arm: pd.DataFrame, level: float, seed: int) -> list[dict[str, object]]:
    """Ratings of the systems; none where a recording does not name them (response ids `item:system`)."""
    if not (arm["protocol"] == Protocol.PAIRWISE.value).all() or arm["order"].isna().any():
        return []
    pairs = combine_orders(arm)
    sides = [_systems(pairs["item_id"], pairs[column]) for column in ("response_id", "response_b")]
    read = pairs["outcome"].notna().to_numpy()
    if any(None in side for side in sides) or not read.any():
        return []
    names = sorted({str(name) for side in sides for name in side})
    items = sorted(set(pairs["item_id"]))
    at, place = {name: i for i, name in enumerate(names)}, {item: i for i, item in enumerate(items)}
    wins = np.zeros((len(items), len(names), len(names)))
    won = (
        pairs["outcome"]
        .map({Outcome.A.value: 1.0, Outcome.B.value: -1.0, Outcome.TIE.value: 0.0})
        .to_numpy(dtype=float)
    )
    for item, a, b, outcome in zip(pairs["item_id"], *sides, won, strict=True):
        one = np.array([[at[str(a)], at[str(b)]]])
        wins[place[item]] += outcome_wins([[outcome]], one, len(names))[0]
    found = rate(wins, level=level, seed=seed)
    shared = {
        "level": level,
        "method": "bootstrap of items",
        "n_clusters": found.n_items,
        "n_unread": int((~read).sum()),
    }
    rows: list[dict[str, object]] = []
    for i in np.argsort(np.nan_to_num(-found.rating, nan=np.inf), kind="stable"):
        own = shared | {"group": names[i], "n": int(found.battles[i])}
        ends = (found.rating[i], found.lower[i], found.upper[i])
        ranks = (found.rank[i], found.rank_lower[i], found.rank_upper[i])
        for metric, (value, lower, upper) in (("rating", ends), ("rank", ranks)):
            rows.append({"metric": metric, "value": value, "lower": lower, "upper": upper} | own)
    return rows


def _systems(items: pd.Series, responses: pd.Series) -> list[str | None]:
    """The system of each response, None where the id does not say."""
    return [
        response[len(item) + 1 :] if response.startswith(f"{item}:") and len(response) > len(item) + 1 else None
        for item, response in zip(items, responses, strict=True)
    ]
