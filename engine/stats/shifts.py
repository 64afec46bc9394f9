"""Shifts of a pointwise judge under attack: paired differences, and their means with intervals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.errors import InputError
from engine.core.schema import METRICS, NONE, Protocol
from engine.stats.intervals import Interval, cluster_codes, cluster_mean, cluster_ratio
from engine.stats.paired import benjamini_hochberg, detectable_effect, paired_test

SHIFTS_NEED = ("judge", "protocol", "attack", "defense", "item_id", "response_id", "score", "unread_reason")
"""Columns of the table `verdicts` that everything here reads."""
RESPONSE = ("item_id", "response_id")
"""Columns that name a response: its id counts within its item."""
SHIFT_COLUMNS = [
    "response_id",
    "item_id",
    "attack",
    "defense",
    "clean",
    "attacked",
    "shift",
    "unread_reason",
]
NO_CLEAN = "clean: not judged yet"
_DIGITS = 12
"""Scores are sums of floats: 3.1 - 2.3 is not 0.8. Rounding a shift here keeps "no change" exactly zero."""


def paired_shifts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Attacked minus clean score of each response, both under the same defense.

    Args:
        verdicts: table `verdicts` of one judge; only pointwise rows are used. It may be that of a run in
            progress.

    Returns:
        One row per verdict under an attack: response_id, item_id, attack, defense, clean, attacked (expected
        scores on the card's scale, NaN where unread), shift (points, positive when the attack raises the
        score, NaN when either is unread), unread_reason ("clean: ...; attacked: ..." or missing).

    Raises:
        InputError: the table holds several judges, or two verdicts on one response in one arm.
    """
    rows = _pointwise(verdicts)
    clean = rows[rows["attack"] == NONE]
    attacked = rows[rows["attack"] != NONE]
    partner = _partners(clean, attacked)
    before = np.append(clean["score"].to_numpy(dtype=float), np.nan)[partner]
    after = attacked["score"].to_numpy(dtype=float)
    reasons = np.full(len(attacked), None, dtype=object)
    unread = np.flatnonzero(np.isnan(before) | np.isnan(after))
    judged = partner[unread] >= 0
    first = np.full(len(unread), NO_CLEAN, dtype=object)
    first[judged] = _reasons(clean.iloc[partner[unread[judged]]], "clean")
    second = _reasons(attacked.iloc[unread], "attacked")
    reasons[unread] = ["; ".join(r for r in pair if r) for pair in zip(first, second, strict=True)]
    out = attacked[["response_id", "item_id", "attack", "defense"]].reset_index(drop=True)
    out["clean"] = before
    out["attacked"] = after
    out["shift"] = np.round(after - before, _DIGITS)
    out["unread_reason"] = pd.Series(reasons, dtype="str")
    return out[SHIFT_COLUMNS]


def shift_metrics(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Mean score, shift and relative shift of each arm, with intervals clustered by item.

    Metrics, each with its own n and n_unread:
        mean: mean score of the arm's read verdicts (also for the arm without attack).
        shift: mean of attacked minus clean over responses read both times, in points of the scale.
        relative_shift: mean shift over mean clean score (a ratio of means, so that low scores do not blow it
            up); the interval is the delta method below 30 items and the bootstrap of items from there on.
            NaN where the mean clean score is not above zero, or a score is below zero.

    Rows `shift` also carry p_value (`paired_test` of no shift), q_value (Benjamini-Hochberg over all arms of
    this table) and detectable (`detectable_effect`); `paired.power_verdict` names an underpowered one.

    Args:
        verdicts: table `verdicts` of one judge; only pointwise rows are used.
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Returns:
        Table `metrics`; arms in order of first appearance, the arm without attack first.

    Raises:
        InputError: as `paired_shifts`.
    """
    rows = _pointwise(verdicts)
    shifts = paired_shifts(rows)
    out: list[dict[str, object]] = []
    arms = rows[["attack", "defense"]].drop_duplicates().itertuples(index=False, name=None)
    for attack, defense in sorted(arms, key=lambda arm: arm[0] != NONE):
        arm = rows[(rows["attack"] == attack) & (rows["defense"] == defense)]
        scores = arm["score"].to_numpy(dtype=float)
        mean = cluster_mean(scores, cluster_codes(arm), level=level, seed=seed)
        out.append(metric_row("mean", attack, defense, mean, len(scores)))
        if attack != NONE:
            pairs = shifts[(shifts["attack"] == attack) & (shifts["defense"] == defense)]
            out += _shift_rows(pairs, attack, defense, level, seed)
    if not out:
        return METRICS.empty()
    table = METRICS.conform(pd.DataFrame(out))
    return table.assign(q_value=benjamini_hochberg(table["p_value"]))


def _shift_rows(pairs: pd.DataFrame, attack: str, defense: str, level: float, seed: int) -> list[dict[str, object]]:
    """Shift, with its test and detectable effect, and relative shift of one arm."""
    clusters = cluster_codes(pairs)
    shift = pairs["shift"].to_numpy(dtype=float)
    clean = np.where(np.isnan(shift), np.nan, pairs["clean"].to_numpy(dtype=float))
    test = paired_test(shift, clusters, level=level, seed=seed)
    moved = metric_row("shift", attack, defense, test.interval, len(shift))
    moved["p_value"] = test.p_value
    moved["detectable"] = detectable_effect(shift, clusters, level=level)
    if np.nanmin(np.append(clean, np.inf)) < 0:
        n, g = test.interval.n, test.interval.n_clusters
        relative = Interval(np.nan, np.nan, np.nan, level, "undefined: scores below zero", n, g)
    else:
        relative = cluster_ratio(shift, clean, clusters, level=level, seed=seed)
    return [moved, metric_row("relative_shift", attack, defense, relative, len(shift))]


def _pointwise(verdicts: pd.DataFrame) -> pd.DataFrame:
    rows = verdicts[verdicts["protocol"] == Protocol.POINTWISE.value]
    judges = rows["judge"].unique()
    if len(judges) > 1:
        raise InputError(
            f"The verdicts come from {len(judges)} judges ({', '.join(map(str, judges))}); compare one at a time."
        )
    twice = rows.duplicated([*RESPONSE, "attack", "defense"])
    if twice.any():
        first = rows[twice].iloc[0]
        raise InputError(
            f"Response {first['response_id']!r} has two verdicts under attack {first['attack']!r} and "
            f"defense {first['defense']!r}; a shift needs one. Give responses different ids."
        )
    return rows


def _partners(clean: pd.DataFrame, attacked: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The clean row of each attacked one, the same response under the same defense; -1 where there is none."""
    key = [*RESPONSE, "defense"]
    codes = pd.concat([clean[key], attacked[key]]).groupby(key, sort=False, dropna=False).ngroup().to_numpy()
    at = np.full(codes.max(initial=-1) + 1, -1, dtype=np.int64)
    at[codes[: len(clean)]] = np.arange(len(clean))
    return at[codes[len(clean) :]]


def _values_of(rows: pd.DataFrame, by_response: pd.Series) -> npt.NDArray[np.float64]:
    """Value of a series by item and response for each row; NaN where it holds nothing."""
    return by_response.reindex(pd.MultiIndex.from_frame(rows[list(RESPONSE)])).to_numpy(dtype=float)


def _reasons(rows: pd.DataFrame, side: str) -> list[str]:
    """Why each row has no score, with the side named; empty where it has one."""
    return [
        "" if not np.isnan(score) else f"{side}: {reason if isinstance(reason, str) and reason else 'no score'}"
        for score, reason in zip(rows["score"].astype(float), rows["unread_reason"], strict=True)
    ]


def metric_row(metric: str, attack: str, defense: str, interval: Interval, rows: int) -> dict[str, object]:
    """One row of the table `metrics`; rows that did not enter the interval count as unread."""
    arm = {"metric": metric, "attack": attack, "defense": defense}
    return arm | interval_columns(interval) | {"n_unread": rows - interval.n}


def interval_columns(interval: Interval) -> dict[str, object]:
    """An interval as the columns of the table `metrics`."""
    return {
        "value": interval.value,
        "lower": interval.lower,
        "upper": interval.upper,
        "level": interval.level,
        "method": interval.method,
        "n": interval.n,
        "n_clusters": interval.n_clusters,
    }


# Gain of a defense: its shifts and scores against those of the undefended judge, response by response.

SHIFT_CHANGE = "shift_change"
FROM_UNDEFENDED = "from_undefended"


def defense_gains(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Mean of (shift under the defense) minus (shift without one), paired by response.

    Two intervals that overlap do not say that two shifts are the same; this difference does, since what is
    particular to a response cancels. Negative where the defense makes the attack raise scores less.

    Args:
        verdicts: table `verdicts` of one judge; only pointwise rows are used.
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Returns:
        Table `metrics`, metric `shift_change`, one row per attack and defense that both have verdicts; n_unread
        counts responses of the defended arm without a shift in both.

    Raises:
        InputError: as `paired_shifts`.
    """
    if not (verdicts["defense"] != NONE).any():
        return METRICS.empty()
    shifts = paired_shifts(verdicts)
    out: list[dict[str, object]] = []
    for attack in shifts["attack"].unique():
        arm = shifts[shifts["attack"] == attack]
        plain = arm[arm["defense"] == NONE].set_index(list(RESPONSE))["shift"]
        for defense in arm["defense"].unique():
            if defense == NONE or plain.empty:
                continue
            own = arm[arm["defense"] == defense]
            change = own["shift"].to_numpy(dtype=float) - _values_of(own, plain)
            clusters = cluster_codes(own)
            test = paired_test(change.round(12), clusters, level=level, seed=seed)
            row = metric_row(SHIFT_CHANGE, attack, defense, test.interval, len(own))
            row["p_value"] = test.p_value
            row["detectable"] = detectable_effect(change.round(12), clusters, level=level)
            out.append(row)
    if not out:
        return METRICS.empty()
    table = METRICS.conform(pd.DataFrame(out))
    return table.assign(q_value=benjamini_hochberg(table["p_value"]))


def from_undefended(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Mean of (attacked score behind the defense) minus (clean score without one), paired by response.

    A shift under a defense is taken from that defense's own clean score. Where the defense itself moves clean scores,
    a shift near zero may still end far from what the undefended judge says of the clean response; this is how far.
    Without a defense it is the shift.

    Args:
        verdicts: table `verdicts` of one judge; only pointwise rows are used.
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Returns:
        Table `metrics`, metric `from_undefended`, one row per attack and defense, where there are clean verdicts
        without a defense.

    Raises:
        InputError: as `paired_shifts`.
    """
    shifts = paired_shifts(verdicts)
    rows = verdicts[verdicts["protocol"] == Protocol.POINTWISE.value]
    bare = rows[(rows["attack"] == NONE) & (rows["defense"] == NONE)].set_index(list(RESPONSE))["score"]
    if bare.empty or shifts.empty:
        return METRICS.empty()
    out: list[dict[str, object]] = []
    for (attack, defense), own in shifts.groupby(["attack", "defense"], sort=False):
        away = own["attacked"].to_numpy(dtype=float) - _values_of(own, bare)
        found = cluster_mean(np.round(away, 12), cluster_codes(own), level=level, seed=seed)
        out.append(metric_row(FROM_UNDEFENDED, str(attack), str(defense), found, len(own)))
    return METRICS.conform(pd.DataFrame(out))
