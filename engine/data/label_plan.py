"""Which rows people label: the scale, the strata and the draw, with the probability of each row to be chosen.

A plan is frozen when it is made: rows, strata, order and sides of pairs follow from its seed. Strata are fixed by the
judge's verdicts alone, never by labels, and in each a fixed number of rows is drawn without replacement, so that the
inclusion probability is exactly n_h / N_h (Cochran 1977, chapter 5) and the sum of 1/pi over the drawn rows is N.
Rows are labelled in random order, so that those labelled so far are such a sample themselves, of fewer rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.errors import InputError, shown
from engine.core.json import dumps
from engine.core.schema import Column, Table
from engine.data.mapping import parse_number, says_correct
from engine.data.recording_rules import PAIR_RULE, normalised

# What people say of a row.


class Kind(StrEnum):
    """Form of a label."""

    PASS = "pass"
    RATING = "rating"
    PAIRS = "pairs"


PASS_LABELS = ("pass", "fail")
PAIR_LABELS = ("a", "b", "tie")
MOST_STEPS = 10
"""Most steps of a rating scale: each has a key of its own."""


@dataclass(frozen=True)
class Scale:
    """The labels that may be given.

    Attributes:
        kind: their form.
        low: lowest rating, where they are ratings.
        high: highest rating.
    """

    kind: Kind = Kind.PASS
    low: int = 1
    high: int = 5

    def __post_init__(self) -> None:
        if self.kind == Kind.RATING and not (
            0 <= self.low < self.high <= MOST_STEPS and len(self.labels) <= MOST_STEPS
        ):
            raise InputError(
                f"A scale from {self.low} to {self.high} cannot be used: whole numbers from 0 to {MOST_STEPS}, the "
                f"lowest first, at most {MOST_STEPS} steps. Choose another, for example 1 to 5."
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label, best or first side first; ratings from the lowest."""
        if self.kind == Kind.RATING:
            return tuple(str(step) for step in range(self.low, self.high + 1))
        return PASS_LABELS if self.kind == Kind.PASS else PAIR_LABELS

    def value(self, label: str) -> float:
        """The label as a number: pass 1, fail 0; the rating itself; a better 1, b better 0, tie 0.5."""
        if self.kind == Kind.RATING:
            return float(label)
        return {"pass": 1.0, "fail": 0.0, "a": 1.0, "b": 0.0, "tie": 0.5}[label]

    def read(self, text: object) -> str | None:
        """The label that a cell of somebody's file stands for; None where it is none of this scale."""
        if self.kind == Kind.PAIRS:
            side = PAIR_RULE.get(normalised(str(text)))
            return None if side is None else str(side.value)
        if self.kind == Kind.PASS:
            word = str(text).strip().casefold()
            right = {"pass": True, "fail": False}.get(word, says_correct(word))
            return None if right is None else PASS_LABELS[0 if right else 1]
        number = parse_number(str(text).strip())
        found = "" if number is None or number != int(number) else str(int(number))
        return found if found in self.labels else None

    @property
    def spelled(self) -> str:
        """The labels that a file may hold, for messages."""
        more = {Kind.PASS: ", or yes and no, true and false, 1 and 0", Kind.PAIRS: " (a: the first response is better)"}
        return ", ".join(self.labels) + more.get(self.kind, "")


# Which rows are labelled.

UNCERTAINTY, DISAGREEMENT = "uncertainty", "disagreement"
STRATIFIERS = (UNCERTAINTY, DISAGREEMENT)
POPULATION = Table(
    "population",
    (
        Column("id", "str", "response or comparison"),
        Column("item", "str", "the item it answers: the cluster of every interval"),
        Column("system", "str", "what generated it", required=False),
        Column("system_b", "str", "what generated the second response of a pair", required=False),
        Column("group", "str", "question type or topic", required=False),
        Column("verdict", "str", "the judge's verdict, as a label or a score", required=False),
        Column("probability", "float", "the judge's probability of pass, or of a, a tie counting half", required=False),
        Column("disagree", "float", "1 where two orders or two judges differ, else 0 (NaN: unknown)", required=False),
    ),
    key="id",
)
PLANNED = Table(
    "planned",
    (
        *POPULATION.columns,
        Column("stratum", "str", "the stratum it was drawn from"),
        Column("place", "float", "place in the order of labelling, from 0 (NaN: not drawn)", required=False),
        Column("swapped", "int", "1 where b of a pair is shown first"),
    ),
    key="id",
)
_LEAST = 2
"""Rows of a stratum at least: its spread is known from two on."""
_SPREAD = {"disagree": 0.5, "agree": 0.3, "no second verdict": 0.5, "no probability": 0.5}
_LEAST_SPREAD = 0.2
"""Standard deviation of labels that is reckoned with where a judge is quite sure: it may be wrong all the same."""


def strata_of(rows: pd.DataFrame, by: Sequence[str]) -> tuple[list[str], dict[str, float]]:
    """The stratum of each row, and the standard deviation of labels that is reckoned with in each.

    Uncertainty makes thirds by the distance of the probability from one half (equal distances stay together), with the
    spread that a calibrated judge's labels have, at least 0.2. Disagreement tells apart where two verdicts differ.

    Args:
        rows: table `population`.
        by: of `STRATIFIERS`; none makes one stratum.

    Raises:
        InputError: an unknown stratifier, or the rows do not differ in it.
    """
    parts: list[list[str]] = []
    for name in by:
        if name not in STRATIFIERS:
            raise InputError(f"Rows cannot be stratified by {shown(name)}; allowed: {', '.join(STRATIFIERS)}, or none.")
        found = _by_uncertainty(rows) if name == UNCERTAINTY else _by_disagreement(rows)
        if len(set(found)) < 2:
            lacking = "probabilities of the judge" if name == UNCERTAINTY else "two orders or two judges that differ"
            raise InputError(
                f"All rows are alike in {name} ({found[0] if found else 'none'}), so it makes no strata: it needs "
                f"{lacking}. Judge the data first, or take the plan at random."
            )
        parts.append(found)
    if not parts:
        return ["all"] * len(rows), {"all": 0.5}
    names = [", ".join(part) for part in zip(*parts, strict=True)]
    doubt = rows["probability"].to_numpy(dtype=float)
    spreads: dict[str, float] = {}
    for stratum in sorted(set(names)):
        own = doubt[[name == stratum for name in names]]
        expected = [_SPREAD[part] for part in stratum.split(", ") if part in _SPREAD]
        if UNCERTAINTY in by and np.isfinite(own).any():
            expected.append(float(np.sqrt(np.nanmean(own * (1 - own)))))
        spreads[stratum] = max([_LEAST_SPREAD, *expected])
    return names, spreads


def _by_uncertainty(rows: pd.DataFrame) -> list[str]:
    distance = (rows["probability"].to_numpy(dtype=float) - 0.5).__abs__()
    known = distance[np.isfinite(distance)]
    if not len(known):
        return ["no probability"] * len(rows)
    near, far = np.quantile(known, [1 / 3, 2 / 3])
    names = np.where(distance <= near, "unsure", np.where(distance <= far, "in between", "sure"))
    return [str(name) for name in np.where(np.isfinite(distance), names, "no probability")]


def _by_disagreement(rows: pd.DataFrame) -> list[str]:
    differ = rows["disagree"].to_numpy(dtype=float)
    names = np.where(np.isnan(differ), "no second verdict", np.where(differ > 0, "disagree", "agree"))
    return [str(name) for name in names]


def allocate(sizes: Mapping[str, int], spreads: Mapping[str, float], n: int) -> dict[str, int]:
    """Rows to draw from each stratum: Neyman's allocation in whole numbers, exactly optimal for the spreads.

    Each further row goes where it lowers the variance of the mean most (Wright 2012): to the largest
    N_h s_h / sqrt(n_h (n_h + 1)). Each stratum has at least two rows, or all it has.

    Args:
        sizes: rows of each stratum, N_h.
        spreads: standard deviation of labels in each, s_h > 0.
        n: rows to draw altogether.

    Raises:
        InputError: n is more than there are rows, or too few for the strata.
    """
    drawn = {name: min(_LEAST, size) for name, size in sizes.items()}
    total, least = sum(sizes.values()), sum(drawn.values())
    if not least <= n <= total:
        raise InputError(
            f"{n:,} rows cannot be drawn: there are {total:,}, and {len(sizes)} strata need {least} at least. Choose a "
            f"number from {least} to {total:,}."
        )
    for _ in range(n - least):
        open_ones = [name for name in sizes if drawn[name] < sizes[name]]
        best = max(open_ones, key=lambda h: sizes[h] * spreads[h] / np.sqrt(drawn[h] * (drawn[h] + 1)))
        drawn[best] += 1
    return drawn


def draw(
    strata: Sequence[str], spreads: Mapping[str, float], n: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """The rows to label (their positions) in the order of labelling.

    In each stratum `allocate` says how many are drawn without replacement. The first of each stratum come first, so
    that every stratum has a label soon; beyond that the order is random.

    Args:
        strata: the stratum of each row.
        spreads: as in `allocate`.
        n: rows to draw altogether.
        rng: of the draw and the order.

    Raises:
        InputError: as `allocate`.
    """
    names = np.asarray(strata, dtype=object)
    members = {name: np.flatnonzero(names == name) for name in sorted(set(strata))}
    drawn = allocate({name: len(own) for name, own in members.items()}, spreads, n)
    picked = {name: rng.permutation(own)[: drawn[name]] for name, own in members.items()}
    first, rest = ([own[cut] for own in picked.values()] for cut in (slice(1), slice(1, None)))
    return np.concatenate([rng.permutation(np.concatenate(part)) for part in (first, rest)])


@dataclass(frozen=True)
class Plan:
    """Which rows are labelled, in which order; it never changes.

    Attributes:
        plan_id: 16 hex digits of the SHA-256 of everything below but `created`.
        data: id of the data set or the set of pairs.
        scale: the labels.
        question: what people are asked.
        by: the stratifiers; none draws at random from all rows.
        n: rows that are labelled.
        seed: of the draw, the order and the sides.
        runs: ids of the judges' runs that verdicts and strata come from; empty without a judge.
        created: when (ISO 8601, UTC).
        rows: table `planned`: every row of the data, drawn or not.
    """

    plan_id: str
    data: str
    scale: Scale
    question: str
    by: tuple[str, ...]
    n: int
    seed: int
    runs: tuple[str, ...]
    created: str
    rows: pd.DataFrame = field(repr=False, compare=False)

    @cached_property
    def order(self) -> list[str]:
        """Ids of the rows that are labelled, in their order."""
        drawn = self.rows[self.rows["place"].notna()].sort_values("place")
        return [str(one) for one in drawn["id"]]

    def swapped(self, row: str) -> bool:
        """True where b of this pair is shown first."""
        return bool(self.rows.loc[self.rows["id"] == row, "swapped"].iloc[0])

    def inclusion(self, labelled: Collection[str] | None = None) -> pd.Series:
        """The probability with which each row of the data was chosen to be labelled, in (0, 1].

        Args:
            labelled: ids of the rows that have a label by now. Within a stratum they are a random sample, so that a
                row's probability is their number over the stratum's rows. Without it, or in a stratum that has none
                yet, that of the whole plan.
        """
        stratum = self.rows["stratum"]
        drawn = self.rows["place"].notna().groupby(stratum).transform("sum")
        if labelled is not None:
            own = self.rows["id"].isin(list(labelled)).groupby(stratum).transform("sum")
            drawn = own.where(own > 0, drawn)
        return (drawn / stratum.groupby(stratum).transform("size")).astype("float64")

    def strata(self) -> pd.DataFrame:
        """Rows, drawn rows and inclusion probability of each stratum; columns stratum, rows, drawn, inclusion."""
        drawn = self.rows["place"].notna().groupby(self.rows["stratum"])
        table = pd.DataFrame({"rows": drawn.size(), "drawn": drawn.sum()}).reset_index()
        return table.assign(inclusion=table["drawn"] / table["rows"])


def make_plan(
    population: pd.DataFrame,
    *,
    data: str,
    scale: Scale,
    n: int,
    by: Sequence[str] = (),
    seed: int = 0,
    question: str = "",
    runs: Sequence[str] = (),
) -> Plan:
    """Draw the rows to label, as `draw` does.

    Args:
        population: table `population`, every row of the data.
        data: id of the data.
        scale: the labels.
        n: rows to label.
        by: as in `strata_of`.
        seed: of everything random.
        question: what people are asked.
        runs: as in `Plan`.

    Raises:
        InputError: as `strata_of` and `allocate`.
    """
    rows = POPULATION.conform(population)
    names, spreads = strata_of(rows, by)
    rng = np.random.default_rng(seed)
    order = draw(names, spreads, n, rng)
    place = np.full(len(rows), np.nan)
    place[order] = np.arange(len(order))
    swapped: npt.NDArray[np.int64] = (
        rng.integers(2, size=len(rows)) if scale.kind == Kind.PAIRS else np.zeros(len(rows), int)
    )
    table = PLANNED.conform(rows.assign(stratum=names, place=place, swapped=swapped))
    asked = " ".join(question.split())[:200]
    said = [data, asdict(scale), n, list(by), seed, asked, list(runs), table.to_csv(index=False)]
    plan_id = hashlib.sha256(dumps(said).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Plan(plan_id, data, scale, asked, tuple(by), n, seed, tuple(runs), now(), table)


def now() -> str:
    """The present moment in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
