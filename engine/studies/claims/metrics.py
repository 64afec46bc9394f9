"""From tables of runs to estimates of claims, and from estimates to verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import stdtr, stdtrit

from engine.stats.agreement import spearman
from engine.stats.intervals import cluster_mean
from engine.stats.paired import benjamini_hochberg, noncentrality
from engine.studies.claims.study import Claim, ClaimsConfig, Where
from engine.studies.claims.tables import (
    CANNOT_TELL,
    CLAIMS,
    CONSTRUCTED,
    HOLDS,
    NOT_SEEN,
    OTHER_WAY,
    WEAKER,
)

ALPHA = 0.05
"""Largest q at which a claim may hold."""
TOO_WIDE = "the interval is too wide"
_NAN = float("nan")
_KEYS = ("last", "run", "judge", "complement")
"""Keys of a row's address that are no columns."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, or why there is none.

    Attributes:
        method: of the interval.
        n, n_items: rows and items that entered; 0 where unknown.
        reason: empty where there is a value with bounds.
    """

    value: float = _NAN
    lower: float = _NAN
    upper: float = _NAN
    method: str = ""
    n: int = 0
    n_items: int = 0
    reason: str = ""

    @property
    def known(self) -> bool:
        """It has a value and both bounds."""
        return all(map(math.isfinite, (self.value, self.lower, self.upper)))


Tables = Callable[[Where], Callable[[str], pd.DataFrame]]
"""The tables, by name, of the run that a row's address means."""

# Reading.


def estimate(claim: Claim, tables: Tables, recorded: bool = False) -> Estimate:
    """The estimand of a claim: positive where the effect goes the claimed way, its null taken off.

    Args:
        claim: as frozen.
        tables: of the runs it reads.
        recorded: the judge is a recording; the claim's other reading is taken where it has one.
    """
    if recorded and claim.recorded:
        found = _row(tables(claim.recorded)("metrics"), claim.recorded, claim)
        return _turned(found, claim, bool(claim.recorded.get("complement")))
    table = tables(claim.read)(claim.table)
    found = _trend(table, claim) if claim.trend else _row(table, claim.read, claim)
    if claim.table == "cap_layers":  # its intervals are over the contexts of the half that chose nothing
        texts = tables(claim.read)("cap_texts")
        found = replace(found, n_items=int(texts.loc[texts["half"] == "evaluated", "item_id"].nunique()))
    if claim.only_if:
        needed = _row(tables(claim.only_if)("metrics"), claim.only_if, claim)
        if not needed.lower > claim.above:
            asked = f"{claim.only_if['metric']} above {claim.above:g}"
            return Estimate(reason=f"it is about judges with {asked}, and this one's is {needed.value:.2f}")
    for other, combine in ((claim.less, difference), (claim.over, ratio)):
        if other is not None:
            found = combine(found, _row(tables(other)("metrics"), other, claim))
    return _turned(found, claim, claim.complement)


def _turned(found: Estimate, claim: Claim, complement: bool) -> Estimate:
    value, lower, upper = found.value, found.lower, found.upper
    if complement:
        value, lower, upper = 1 - value, 1 - upper, 1 - lower
    if claim.sign < 0:
        value, lower, upper = -value, -upper, -lower
    null = claim.null
    return replace(found, value=value - null, lower=lower - null, upper=upper - null)


def _row(table: pd.DataFrame, where: Where, claim: Claim) -> Estimate:
    wanted = {name: str(value) for name, value in where.items() if name not in _KEYS}
    rows = table
    for name, pattern in wanted.items():
        cells = ["" if pd.isna(cell) else str(cell) for cell in rows[name]]
        rows = rows[np.array([fnmatchcase(cell, _escaped(pattern)) for cell in cells], dtype=bool)]
    if claim.pick and len(rows):
        rows = rows.loc[[rows[claim.pick].idxmax()]]
    if where.get("last") and len(rows):
        rows = rows.iloc[[-1]]
    asked = ", ".join(wanted.values())
    if len(rows) != 1:
        return Estimate(reason=f"{'no' if rows.empty else len(rows)} row for {asked}")
    row = rows.iloc[0]
    off = float(row[claim.minus]) if claim.minus else 0.0
    value, lower, upper = (float(row[name]) - off for name in ("value", "lower", "upper"))
    method = str(row.get("method") or "") or "bootstrap of items"
    n, items = (0 if pd.isna(row.get(name)) else int(row[name]) for name in ("n", "n_clusters"))
    found = Estimate(value, lower, upper, method, n, items)
    if found.known:
        return found
    unread = int(lost) if (lost := row.get("n_unread", 0)) > 0 else 0
    also = f", {unread:,} answers unread" if unread else ""
    return replace(found, reason=f"no interval for {asked}: {method}{also}")


def _escaped(pattern: str) -> str:
    """Only * is a wildcard; brackets and question marks of names stand for themselves."""
    return "".join(f"[{c}]" if c in "[?" else c for c in pattern)


def _trend(table: pd.DataFrame, claim: Claim) -> Estimate:
    """Mean over items of the Spearman correlation of two columns."""
    assert claim.trend
    rows = table
    for name, wanted in claim.read.items():
        rows = rows[rows[name].astype(str) == str(wanted)]
    rows = rows.dropna(subset=list(claim.trend))
    own = {str(item): spearman(*(part[c].to_numpy() for c in claim.trend)) for item, part in rows.groupby("item_id")}
    known = {item: rho for item, rho in own.items() if math.isfinite(rho)}
    found = cluster_mean(list(known.values()), list(known))
    method = "no trend could be taken" if not known else found.method
    out = Estimate(found.value, found.lower, found.upper, method, len(rows), found.n_clusters)
    return out if out.known else replace(out, reason=method)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """The difference a - b by the square-and-add rule of Zou and Donner (2008, MOVER), the two taken as independent."""
    if not (a.known and b.known):
        return replace(a, value=_NAN, lower=_NAN, upper=_NAN, reason=a.reason or b.reason)
    lower, upper = _difference((a.value, a.lower, a.upper), (b.value, b.lower, b.upper))
    return Estimate(a.value - b.value, lower, upper, "square-and-add", min(a.n, b.n), min(a.n_items, b.n_items))


def _difference(a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float]:
    d = a[0] - b[0]
    return d - math.hypot(a[0] - a[1], b[2] - b[0]), d + math.hypot(a[2] - a[0], b[0] - b[1])


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """The ratio a / b: the shares r at which the square-and-add interval of a - r b holds 0; none where b may be 0."""
    if not (a.known and b.known):
        return replace(a, value=_NAN, lower=_NAN, upper=_NAN, reason=a.reason or b.reason)
    if not b.lower > 0:
        return replace(a, value=_NAN, lower=_NAN, upper=_NAN, reason="what it is a share of may be nothing")
    value = a.value / b.value

    def end(side: int) -> Callable[[float], float]:
        def bound(r: float) -> float:
            times = sorted((r * b.lower, r * b.upper))
            return _difference((a.value, a.lower, a.upper), (r * b.value, times[0], times[1]))[side]

        return bound

    reach = 2 * (max(map(abs, (a.lower, a.upper))) / b.lower + 1)
    lower, upper = (brentq(end(side), value - reach, value + reach) for side in (0, 1))
    return Estimate(value, lower, upper, "square-and-add", min(a.n, b.n), min(a.n_items, b.n_items))


# Deciding.


def row_of(claim: Claim, name: str, judge: str, found: Estimate, **about: Any) -> dict[str, Any]:
    """An estimate as a row of the table `claims`, without what depends on the other rows (q and verdict)."""
    p, detectable = p_at(found, -claim.least if claim.test == "non-inferiority" else 0.0)
    return {
        "claim": claim.id, "paper": claim.paper, "set": name, "judge": judge, "value": found.value,
        "lower": found.lower, "upper": found.upper, "method": found.method, "n": found.n, "n_items": found.n_items,
        "least": claim.least, "stated": claim.stated_on(name), "p_value": p, "detectable": detectable,
        "reason": found.reason or None, **about,
    }  # fmt: skip


def p_at(found: Estimate, at: float, level: float = 0.95) -> tuple[float, float]:
    """Two-sided p that the true value is `at`, and the effect that 80 % power would find.

    The error is the interval's half width on the side of `at` over the t quantile of items - 1, so that p is below 0.05
    where the 95 % interval leaves `at` out, whatever the interval's method.
    """
    if not found.known or found.n_items < 2:
        return _NAN, _NAN
    df = found.n_items - 1
    quantile = float(stdtrit(df, 0.5 + level / 2))
    half = found.value - found.lower if found.value > at else found.upper - found.value
    whole = (found.upper - found.lower) / 2
    detectable = whole / quantile * noncentrality(df) if whole > 0 else _NAN
    if not half > 0:
        return (1.0 if found.value == at else 0.0), detectable
    return 2 * float(stdtr(df, -abs(found.value - at) / half * quantile)), detectable


def decide(rows: pd.DataFrame, config: ClaimsConfig) -> pd.DataFrame:
    """The table `claims`: q over all rows of each judge that are not by construction, and the verdicts.

    Args:
        rows: from `row_of`, of one or several judges.
        config: with the frozen claims.
    """
    by_id = {one.id: one for one in config.claim}
    frame = rows.reset_index(drop=True)
    counted = np.array(
        [
            not by_id[str(claim)].constructed(str(judge))
            for claim, judge in zip(frame["claim"], frame["judge"], strict=True)
        ]
    )
    frame["q_value"] = np.nan
    for judge in frame["judge"].unique():
        own = (frame["judge"] == judge) & counted
        frame.loc[own, "q_value"] = benjamini_hochberg(frame.loc[own, "p_value"].astype(float))
    places = {(row["claim"], row["set"], row["judge"]): row for row in frame.to_dict("records")}
    said = [_said(row, by_id[row["claim"]], places) for row in frame.to_dict("records")]
    frame["verdict"] = [verdict for verdict, _ in said]
    frame["reason"] = [reason or None for _, reason in said]
    return CLAIMS.conform(frame)


def _said(row: Mapping[Any, Any], claim: Claim, places: Mapping[Any, Mapping[Any, Any]]) -> tuple[str, str]:
    """Verdict and, where nothing can be told, why."""
    if claim.constructed(str(row["judge"])):
        return CONSTRUCTED, ""
    value, lower, upper = (float(row[name]) for name in ("value", "lower", "upper"))
    if not all(map(math.isfinite, (value, lower, upper))):
        given = row.get("reason")
        return CANNOT_TELL, given if isinstance(given, str) and given else "not measured"
    if claim.requires:
        needed = places.get((claim.requires, row["set"], row["judge"]))
        if needed is None or not float(needed["lower"]) > 0:
            return CANNOT_TELL, f"it needs {claim.requires}, which is not seen here"
    q = float(row["q_value"])
    verdict = verdict_of(lower, upper, q, claim.least, float(row["stated"]), claim.test)
    return verdict, TOO_WIDE if verdict == CANNOT_TELL else ""


def verdict_of(lower: float, upper: float, q: float, least: float, stated: float, kind: str) -> str:
    """The frozen rule; see the head of `assets/studies/claims.toml`.

    Args:
        lower: lower end of the interval, positive where the effect goes the claimed way.
        upper: its upper end.
        q: of the test of no effect (of a loss of the margin).
        least: least relevant effect, or the margin.
        stated: published effect; not read for a non-inferiority test.
        kind: superiority or non-inferiority.
    """
    if kind == "non-inferiority":
        if upper < -least:
            return OTHER_WAY
        return HOLDS if lower > -least and q <= ALPHA else CANNOT_TELL
    if upper < 0 and lower < -least:
        return OTHER_WAY
    if lower > least and upper >= stated and q <= ALPHA:
        return HOLDS
    if upper < least:
        return NOT_SEEN
    if lower > 0 and upper < stated:
        return WEAKER
    return CANNOT_TELL


def counts(verdicts: Sequence[str]) -> dict[str, int]:
    """Rows of each verdict; those by construction are never counted."""
    return {name: sum(v == name for v in verdicts) for name in (HOLDS, WEAKER, NOT_SEEN, OTHER_WAY, CANNOT_TELL)}
