"""Verdicts of a check-up on one scale from 0 to 1, and their differences between arms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.schema import NONE, Order, Outcome, Protocol
from engine.stats.intervals import cluster_codes
from engine.studies.checkup.metrics import Codes, Floats

KEY = ["item_id", "response_id", "response_b"]
EQUAL = 1e-9
_DIGITS = 12


class Readings:
    """Every verdict as a value in [0, 1]: where the score lies on its scale, p_yes, or how far a is preferred.

    Args:
        verdicts: table `verdicts` of the run so far.
        low, high: ends of the pointwise scale.
    """

    def __init__(self, verdicts: pd.DataFrame, low: float, high: float) -> None:
        self.verdicts = verdicts
        rows = verdicts.assign(
            variant=verdicts["variant"].fillna(""),
            response_b=verdicts["response_b"].fillna(""),
            value=_values(verdicts, low, high),
        )
        pairs = rows["protocol"] == Protocol.PAIRWISE.value
        columns = ["protocol", "attack", "variant", *KEY, "value"]
        by = [c for c in columns if c != "value"]
        if pairs.any():
            both = rows[pairs].groupby(by, sort=False)["value"]
            mean = both.agg(lambda v: v.mean(skipna=False) if len(v) == len(Order) else np.nan).reset_index()
            rows = pd.concat([rows.loc[~pairs, columns], mean], ignore_index=True)
        self._rows = rows[columns]

    def arm(self, protocol: Protocol, attack: str = NONE, variant: str = "") -> pd.DataFrame:
        """One arm: item, response ids and value (NaN: unread, or a pair without one of its orders)."""
        rows = self._rows
        of_arm = (rows["protocol"] == protocol.value) & (rows["attack"] == attack) & (rows["variant"] == variant)
        return rows.loc[of_arm, [*KEY, "value"]].reset_index(drop=True)

    def change(self, protocol: Protocol, attack: str, against: str, variant: str = "") -> Differences:
        """Value of one arm less that of another on the same response or comparison.

        Args:
            protocol: pointwise, pairwise or verifier.
            attack: the arm.
            against: the arm that is taken off, always under the plain prompt.
            variant: wording of the prompt in the first arm; empty for the plain one.
        """
        after = self.arm(protocol, attack, variant)
        both = after.merge(self.arm(protocol, against), on=KEY, suffixes=("", "_before"))
        return Differences(both, np.round((both["value"] - both["value_before"]).to_numpy(dtype=float), _DIGITS))


class Differences:
    """Rows of a measurement with the item of each.

    Attributes:
        values: one a row, NaN where a verdict is unread, shape [n].
        clusters: the item of each row as a code, shape [n].
    """

    def __init__(self, rows: pd.DataFrame, values: npt.ArrayLike) -> None:
        self.values: Floats = np.asarray(values, dtype=np.float64)
        self.clusters: Codes = cluster_codes(rows) if len(rows) else np.zeros(0, dtype=np.int64)

    @property
    def n_unread(self) -> int:
        """Rows that cannot enter."""
        return int(np.isnan(self.values).sum())

    @property
    def mean(self) -> float:
        """Of the rows that were read; NaN where none was."""
        return float(np.nanmean(self.values)) if len(self.values) > self.n_unread else float("nan")

    def size(self) -> Differences:
        """The same without signs."""
        out = Differences.__new__(Differences)
        out.values, out.clusters = np.abs(self.values), self.clusters
        return out


def wins(challenger: pd.DataFrame, others: pd.DataFrame) -> Differences:
    """The best of an item's challengers against each real response of the item: 1 wins, 0.5 ties, 0 loses.

    Args:
        challenger: an arm of texts without content, one or several an item.
        others: the clean arm.
    """
    best = challenger.groupby("item_id", sort=False)["value"].max().rename("best")  # NaN only where none was read
    rows = others.merge(best, left_on="item_id", right_index=True)
    gap = (rows["best"] - rows["value"]).to_numpy(dtype=float)
    won = np.where(np.abs(gap) <= EQUAL, 0.5, (gap > 0).astype(float))
    return Differences(rows, np.where(np.isnan(gap), np.nan, won))


def preferred(arm: pd.DataFrame) -> Differences:
    """1 for each comparison that the first response wins over both orders, 0.5 for a tie, else 0."""
    gap = (arm["value"] - 0.5).to_numpy(dtype=float)
    won = np.where(np.abs(gap) <= EQUAL, 0.5, (gap > 0).astype(float))
    return Differences(arm, np.where(np.isnan(gap), np.nan, won))


def accepted(arm: pd.DataFrame, threshold: float = 0.5) -> Differences:
    """1 for each item on which a verifier accepts at least one of the texts, else 0; NaN where none was read."""
    best = arm.groupby("item_id", sort=False)["value"].max().reset_index()
    value = best["value"].to_numpy(dtype=float)
    return Differences(best, np.where(np.isnan(value), np.nan, (value >= threshold).astype(float)))


def first_wins(verdicts: pd.DataFrame) -> Differences:
    """1 for each read verdict on a clean pair that the response shown first won, 0.5 for a tie, else 0."""
    clean = (
        (verdicts["protocol"] == Protocol.PAIRWISE.value) & (verdicts["attack"] == NONE) & verdicts["variant"].isna()
    )
    rows = verdicts[clean].reset_index(drop=True)
    first = np.where(rows["order"] == Order.AB.value, Outcome.A.value, Outcome.B.value)
    outcome = rows["outcome"]
    won = np.where(outcome == Outcome.TIE.value, 0.5, (outcome == first).astype(float))
    return Differences(rows, np.where(outcome.isna(), np.nan, won))


def _values(verdicts: pd.DataFrame, low: float, high: float) -> pd.Series:
    """A recorded verdict may have an outcome and no probability; it counts as decided outright."""
    outcome = verdicts["outcome"]
    score = (verdicts["score"] - low) / (high - low)
    sides = outcome.map({Outcome.A.value: 1.0, Outcome.TIE.value: 0.5, Outcome.B.value: 0.0})
    preferred = (verdicts["p_a"] + verdicts["p_tie"].fillna(0.0) / 2).fillna(sides)
    yes = verdicts["p_yes"].fillna(outcome.map({Outcome.YES.value: 1.0, Outcome.NO.value: 0.0}))
    protocol = verdicts["protocol"]
    value = score.where(protocol == Protocol.POINTWISE.value, preferred.where(protocol == Protocol.PAIRWISE.value, yes))
    return value.where(verdicts["unread_reason"].isna()).astype(float)
