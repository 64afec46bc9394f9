"""Numbers of a panel: judges beside people and each other, what the panel is worth, transfer, self-preference.

Metrics of the table `panel`, each with its interval, items as clusters:
    people: agreement of a judge (or, with other = "panel", of a rule) with people's labels: share of sides, ties
        half; of scores Spearman's correlation. On subjects that every judge read.
    people_kappa: the same of sides as Cohen's kappa.
    difference: `people` of a rule less that of a judge (other), on the same subjects.
    between: Cohen's kappa of two judges' sides; of scores their Spearman correlation.
    alpha: Krippendorff's of all judges; sides differ or not, scores by their squared difference.
    effective_votes, correlation: of the panel, `engine.stats.panel.effective_votes`.
    panel_of: `people` of panels of so many judges (judge), the mean over all such panels; by majority, scores by mean.
    transfer: shift on the judge `other` under the attack that moves `judge` most, which is chosen on one half of the
        items and measured on the other, both ways; points of each judge's own scale.
    transfer_learned: shift on `other` under a phrase that was learned on `judge`.
    self_preference: how much more often a judge takes the side of its own family (about) than `other` (people, or the
        judges of other families) does on the same pairs, in [-1, 1]; own_share and reference_share are the two parts.
    other_family: the same for a family that is not the judge's: a judge that tells good from bad better than its
        reference does shows that here too, and no preference for its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.schema import Protocol
from engine.data.families import family_of
from engine.stats.agreement import cluster_kappa, krippendorff_alpha, spearman
from engine.stats.intervals import Interval, cluster_mean, cluster_rate, with_ends
from engine.stats.paired import paired_test
from engine.stats.panel import (
    RULES,
    effective_votes,
    errors_of,
    panel_vote,
    panels_of,
    rank_correlations,
    sides,
    standardised,
)
from engine.stats.shifts import interval_columns
from engine.studies.panel.tables import PANEL

Floats = npt.NDArray[np.float64]
AS_PANEL, PEOPLE, OTHERS = "panel", "people", "other judges"
SUBJECT = ["item_id", "response_id", "response_b"]
_KINDS = {0.0: "b", 0.5: "tie", 1.0: "a"}
_EQUAL = 1e-9
_NAN = float("nan")


@dataclass(frozen=True)
class Ballot:
    """All votes on the subjects that every judge was asked.

    Attributes:
        judges: names, in the panel's order.
        subjects: item_id, response_id, response_b, system, system_b, human; shape (n, 6).
        vote: shape (n, judges); scores of judges whose scales differ are standardised.
        side: shape (n, judges); NaN throughout for scores.
        scores: the votes are scores.
    """

    judges: list[str]
    subjects: pd.DataFrame
    vote: Floats
    side: Floats
    scores: bool

    @property
    def items(self) -> npt.NDArray[Any]:
        """The cluster of each subject."""
        return self.subjects["item_id"].to_numpy(dtype=object).astype(str)

    @property
    def human(self) -> Floats:
        """People's score or side; NaN where there is none."""
        return self.subjects["human"].to_numpy(dtype=float)

    @property
    def read(self) -> npt.NDArray[np.bool_]:
        """Subjects that every judge read."""
        return np.asarray(~np.isnan(self.vote if self.scores else self.side).any(axis=1))


def ballot_of(votes: pd.DataFrame, protocol: str, *, same_scale: bool = True) -> Ballot:
    """The votes as arrays.

    Args:
        votes: table `panel_votes`; each judge has the same subjects.
        protocol: of the verdicts.
        same_scale: the judges' scores are on one scale.
    """
    judges = list(dict.fromkeys(votes["judge"]))
    by = {judge: own.reset_index(drop=True) for judge, own in votes.groupby("judge", sort=False)}
    subjects = by[judges[0]][[*SUBJECT, "system", "system_b", "human"]]
    vote, side = (np.stack([by[j][c].to_numpy(dtype=float) for j in judges], axis=1) for c in ("vote", "side"))
    scores = protocol == Protocol.POINTWISE.value
    return Ballot(judges, subjects, standardised(vote) if scores and not same_scale else vote, side, scores)


def panel_table(
    ballot: Ballot,
    shifts: Mapping[str, pd.DataFrame],
    owners: Mapping[str, str],
    families: Mapping[str, str],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Every number of a panel, as the table `panel`.

    Args:
        ballot: the clean votes.
        shifts: judge -> `paired_shifts` without a defense, where it was attacked.
        owners: attack -> judge that its phrase was learned on.
        families: judge -> family, empty where not known.
        level: of the intervals.
        seed: of the bootstrap and of the halves.
    """
    rows = [
        *people_rows(ballot, level, seed),
        *between_rows(ballot, level, seed),
        *worth_rows(ballot, level, seed),
        *transfer_rows(shifts, owners, level, seed),
        *self_rows(ballot, families, level, seed),
    ]
    return PANEL.conform(pd.DataFrame(rows, columns=PANEL.names))


def _row(metric: str, interval: Interval, judge: str = "", other: str = "", about: str = "", asked: int = -1) -> Any:
    unread = max(0, asked - interval.n) if asked >= 0 else 0
    named = {"metric": metric, "judge": judge or None, "other": other or None, "about": about or None}
    return named | interval_columns(interval) | {"n_unread": unread}


# Beside people.


def people_rows(ballot: Ballot, level: float, seed: int) -> Iterator[Any]:
    """Each judge and each rule beside people, the differences, and panels of one judge, two, and so on."""
    told = ~np.isnan(ballot.human)
    use = told & ballot.read
    if use.sum() < 2:
        return
    asked, items, human = int(told.sum()), ballot.items[use], ballot.human[use]
    own = ballot.vote[use] if ballot.scores else ballot.side[use]
    rules = RULES[1:] if ballot.scores else RULES
    voted = [panel_vote(own if rule == RULES[0] else ballot.vote[use], rule) for rule in rules]
    made: _Sides | _Ranks
    if ballot.scores:
        made = _Ranks(np.column_stack([own, *voted]), human, items, level, seed)
    else:
        made = _Sides(np.column_stack([own, *voted]), human, items, level, seed)
    for j, judge in enumerate(ballot.judges):
        yield _row("people", made.agreement(j), judge, asked=asked)
        if not ballot.scores:
            kappa = _kappa(own[:, j], sides(human), items, level, seed)
            yield _row("people_kappa", kappa, judge, PEOPLE, asked=asked)
    for k, rule in enumerate(rules, len(ballot.judges)):
        yield _row("people", made.agreement(k), rule, AS_PANEL, asked=asked)
        for j, judge in enumerate(ballot.judges):
            yield _row("difference", made.difference(j, k), rule, judge, asked=asked)
    rule = "mean" if ballot.scores else "majority"
    for size in range(1, len(ballot.judges) + 1):
        panels = [panel_vote(own[:, list(panel)], rule) for panel in panels_of(len(ballot.judges), size)]
        yield _row("panel_of", made.average(panels), str(size), rule, asked=asked)


class _Sides:
    """Agreement of votes with people's side: the share, ties half."""

    def __init__(self, votes: Floats, human: Floats, items: npt.NDArray[Any], level: float, seed: int) -> None:
        self._human, self._items, self._level, self._seed = sides(human), items, level, seed
        self._right = self._of(votes.T)

    def _of(self, votes: Floats) -> Floats:
        return np.asarray(1 - np.abs(sides(votes) - self._human))

    def agreement(self, column: int) -> Interval:
        return cluster_rate(self._right[column], self._items, level=self._level)

    def difference(self, before: int, after: int) -> Interval:
        gap = self._right[after] - self._right[before]
        return paired_test(gap, self._items, level=self._level, seed=self._seed).interval

    def average(self, panels: Sequence[Floats]) -> Interval:
        right = self._of(np.stack(panels)).mean(axis=0)
        return cluster_mean(right, self._items, level=self._level, seed=self._seed)


class _Ranks:
    """Agreement of scores with people's: Spearman's correlation."""

    def __init__(self, votes: Floats, human: Floats, items: npt.NDArray[Any], level: float, seed: int) -> None:
        self._human, self._truth = human, votes.shape[1]
        self._found = rank_correlations(np.column_stack([votes, human]), items, level=level, seed=seed)

    def agreement(self, column: int) -> Interval:
        return self._found.interval(column, self._truth)

    def difference(self, before: int, after: int) -> Interval:
        return self._found.change(before, after, self._truth)

    def average(self, panels: Sequence[Floats]) -> Interval:
        value = float(np.mean([spearman(votes, self._human) for votes in panels]))
        held = self._found
        return Interval(value, _NAN, _NAN, held.level, "no interval: a mean over panels", held.n, held.n_clusters)


# Beside each other.


def between_rows(ballot: Ballot, level: float, seed: int) -> Iterator[Any]:
    """Each two judges: of sides on the subjects that both read, of scores on those that all did."""
    asked = len(ballot.subjects)
    if ballot.scores:
        read = ballot.read
        found = rank_correlations(ballot.vote[read], ballot.items[read], level=level, seed=seed)
    for i, j in combinations(range(len(ballot.judges)), 2):
        if ballot.scores:
            agree = found.interval(i, j)
        else:
            both = ~np.isnan(ballot.side[:, i] + ballot.side[:, j])
            agree = _kappa(ballot.side[both, i], ballot.side[both, j], ballot.items[both], level, seed)
        yield _row("between", agree, ballot.judges[i], ballot.judges[j], asked=asked)
    votes = ballot.vote if ballot.scores else ballot.side
    scale: Literal["nominal", "interval"] = "interval" if ballot.scores else "nominal"
    alpha = krippendorff_alpha(votes, ballot.items, scale=scale, level=level, seed=seed)
    yield _row("alpha", alpha, asked=asked)


def _kappa(x: Floats, y: Floats, items: npt.NDArray[Any], level: float, seed: int) -> Interval:
    said = [_KINDS[float(v)] for v in x]
    return cluster_kappa(said, [_KINDS[float(v)] for v in y], items, level=level, seed=seed).interval


def worth_rows(ballot: Ballot, level: float, seed: int) -> Iterator[Any]:
    """Effective votes: from errors against people where there are labels, else from the verdicts."""
    known = not np.isnan(ballot.human).all()
    votes = ballot.vote if ballot.scores else ballot.side
    readings = errors_of(votes, ballot.human, scores=ballot.scores) if known else votes
    found = effective_votes(readings, ballot.items, level=level, seed=seed)
    asked = int((~np.isnan(ballot.human)).sum()) if known else len(votes)
    basis = "errors" if known else "verdicts"
    yield _row("effective_votes", found.effective, other=basis, asked=asked)
    yield _row("correlation", found.correlation, other=basis, asked=asked)


# Attacks carried over.


def transfer_rows(
    shifts: Mapping[str, pd.DataFrame], owners: Mapping[str, str], level: float, seed: int
) -> Iterator[Any]:
    """The matrix of transfers: attack chosen on a judge, shift on every judge; and phrases learned on a judge."""
    shared = set.intersection(*(set(s["attack"]) for s in shifts.values())) if len(shifts) > 1 else set()
    attacks = [a for a in dict.fromkeys(next(iter(shifts.values()))["attack"]) if a in shared] if shared else []
    if attacks:
        half = _halves(shifts, seed)
        for judge, own in shifts.items():
            chosen = _strongest(own[own["attack"].isin(attacks)], half)
            for other, theirs in shifts.items():
                side = theirs["item_id"].map(half)
                rows = theirs[theirs["attack"] == side.map(chosen)]
                named = " or ".join(dict.fromkeys(chosen.values()))
                yield _row("transfer", _mean_shift(rows, level, seed), judge, other, named, len(rows))
    for attack, owner in owners.items():
        for other, theirs in shifts.items():
            rows = theirs[theirs["attack"] == attack]
            if len(rows):
                yield _row("transfer_learned", _mean_shift(rows, level, seed), owner, other, attack, len(rows))


def _halves(shifts: Mapping[str, pd.DataFrame], seed: int) -> dict[str, int]:
    """Half 0 or 1 of each item, at random; all in one where there are fewer than four."""
    items = sorted({str(item) for s in shifts.values() for item in s["item_id"]})
    order = np.random.default_rng(seed).permutation(len(items))
    return {items[k]: (i % 2 if len(items) > 3 else 0) for i, k in enumerate(order)}


def _strongest(own: pd.DataFrame, half: Mapping[str, int]) -> dict[int, str]:
    """For each half the attack that moves the judge most on the other half; with one half, on that."""
    side = own["item_id"].map(half)
    found = {}
    for part in sorted(set(half.values())):
        elsewhere = own[side != part] if len(set(half.values())) > 1 else own
        means = elsewhere.groupby("attack", sort=False)["shift"].mean().abs()
        found[part] = str(means.idxmax()) if means.notna().any() else str(own["attack"].iloc[0])
    return found


def _mean_shift(rows: pd.DataFrame, level: float, seed: int) -> Interval:
    return cluster_mean(rows["shift"].to_numpy(dtype=float), rows["item_id"].to_numpy(), level=level, seed=seed)


# Own family.


def self_rows(ballot: Ballot, families: Mapping[str, str], level: float, seed: int) -> Iterator[Any]:
    """A judge's preference for systems of its family; nothing for a judge that saw no such pair."""
    own_families = {f for f in families.values() if f}
    pairs = contests(ballot)
    if pairs is None or not own_families & {*pairs.family, *pairs.family_b}:
        return
    for j, judge in enumerate(ballot.judges):
        own = families.get(judge, "")
        for family in sorted({*pairs.family, *pairs.family_b} - {""}, key=lambda f: (f != own, f)) if own else ():
            theirs = [k for k, other in enumerate(ballot.judges) if families.get(other, "") not in (own, family)]
            for name, reference in ((PEOPLE, pairs.human), (OTHERS, _row_mean(pairs.side[:, theirs]))):
                yield from _gap_rows(pairs, j, (judge, name, family), family == own, reference, level, seed)


def _gap_rows(
    pairs: Contests, j: int, named: tuple[str, str, str], mine: bool, reference: Floats, level: float, seed: int
) -> Iterator[Any]:
    """A judge's preference for one family less the reference's; for its own family the two parts as well."""
    family = named[2]
    first, second = pairs.family == family, pairs.family_b == family
    own = np.where(first, pairs.side[:, j], 1 - pairs.side[:, j])
    their = np.where(first, reference, 1 - reference)
    meets = first != second
    both = meets & ~np.isnan(own + their)
    if not both.any():
        return
    items, asked = pairs.items[both], int(meets.sum())
    gap = paired_test(own[both] - their[both], items, level=level, seed=seed).interval
    yield _row("self_preference" if mine else "other_family", gap, *named, asked=asked)
    for metric, values in (("own_share", own[both]), ("reference_share", their[both])) if mine else ():
        yield _row(metric, cluster_rate(values, items, level=level), *named, asked=asked)


@dataclass(frozen=True)
class Contests:
    """Pairs of systems with every judge's side.

    Attributes:
        items: cluster of each pair.
        family, family_b: of the two systems, empty where not known.
        side: shape (pairs, judges).
        human: people's side; NaN where not known.
    """

    items: npt.NDArray[Any]
    family: npt.NDArray[Any]
    family_b: npt.NDArray[Any]
    side: Floats
    human: Floats


def contests(ballot: Ballot) -> Contests | None:
    """The pairs of systems of different families, one of them known; single responses are paired by item."""
    names = ballot.subjects["system"].dropna().unique(), ballot.subjects["system_b"].dropna().unique()
    family = {str(name): family_of(str(name)) for part in names for name in part}
    own, other = (
        np.array([family.get(str(name), "") for name in ballot.subjects[c]], dtype=object)
        for c in ("system", "system_b")
    )
    named = ballot.subjects["system"].notna().to_numpy()
    if ballot.scores:
        at = [
            (i, j)
            for rows in pd.Series(np.flatnonzero(named)).groupby(ballot.items[named]).groups.values()
            for i, j in combinations(np.flatnonzero(named)[rows], 2)
            if own[i] != own[j]
        ]
        if not at:
            return None
        i, j = np.array(at).T
        human = _higher(ballot.human[i], ballot.human[j])
        return Contests(ballot.items[i], own[i], own[j], _higher(ballot.vote[i], ballot.vote[j]), human)
    named = named & ballot.subjects["system_b"].notna().to_numpy()
    use = named & (own != other)
    if not use.any():
        return None
    return Contests(ballot.items[use], own[use], other[use], ballot.side[use], sides(ballot.human[use]))


def _row_mean(values: Floats) -> Floats:
    """The mean of each row over what is there; NaN where nothing is."""
    known = (~np.isnan(values)).sum(axis=1)
    return np.where(known > 0, np.nansum(values, axis=1) / np.maximum(known, 1), np.nan)


def _higher(first: Floats, second: Floats) -> Floats:
    """1 where the first is higher, 0 where the second is, 0.5 where neither is."""
    gap = first - second
    return np.where(np.isnan(gap), np.nan, 0.5 + 0.5 * np.sign(np.where(np.abs(gap) < _EQUAL, 0.0, gap)))


# In words.


def number(table: pd.DataFrame, metric: str, judge: str = "", other: str = "") -> dict[str, Any]:
    """The row of a metric as a dict; empty where the panel has none."""
    rows = table[table["metric"] == metric]
    for column, wanted in (("judge", judge), ("other", other)):
        rows = rows[rows[column] == wanted] if wanted else rows
    return dict(rows.iloc[0]) if len(rows) else {}


def best_judge(table: pd.DataFrame) -> dict[str, Any]:
    """The single judge that agrees best with people; empty without labels."""
    rows = table[(table["metric"] == "people") & table["other"].isna()].dropna(subset="value")
    return dict(rows.iloc[int(rows["value"].to_numpy().argmax())]) if len(rows) else {}


def panel_lines(about: Mapping[str, Any], table: pd.DataFrame) -> list[str]:
    """The panel for the command line."""
    unit = str(about["unit"])
    lines = [
        f"{about['n_subjects']:,} {about['subjects']} that {about['n_judges']} judges answered, {about['protocol']}."
    ]
    worth = number(table, "effective_votes")
    lines.append(f"Effective votes ({worth['other']}): {_ends(worth, '.2f')} of {about['n_judges']}")
    if (table["metric"] == "people").any():
        lines.append(f"Agreement with people ({unit}), n {int(table.loc[table['metric'] == 'people', 'n'].iloc[0]):,}:")
        for row in table[table["metric"] == "people"].to_dict("records"):
            named = f"panel, {row['judge']}" if row["other"] == AS_PANEL else str(row["judge"])
            lines.append(f"  {named:<28} {_ends(row, '.3f')}")
    lines.append(f"Krippendorff's alpha of all judges: {_ends(number(table, 'alpha'), '.3f')}")
    lines.append(f"Agreement of two judges ({about['between']}):")
    lines += [
        f"  {row['judge'] + ' and ' + row['other']:<42} {_ends(row, '.3f')}"
        for row in table[table["metric"] == "between"].to_dict("records")
    ]
    for metric, words in (("transfer", "strongest on"), ("transfer_learned", "learned on")):
        rows = table[table["metric"] == metric].to_dict("records")
        lines += [f"  {r['about']}, {words} {r['judge']}, on {r['other']}: {_ends(r, '+.3f')}" for r in rows]
    for row in table[table["metric"].isin(["self_preference", "other_family"])].to_dict("records"):
        words = "own family" if row["metric"] == "self_preference" else "beside it"
        lines.append(
            f"{row['judge']} for {row['about']} ({words}), beyond {row['other']}: {_ends(row, '+.3f')} n {row['n']}"
        )
    return [*lines, *about.get("notes", [])]


def _ends(row: Mapping[Any, Any], form: str) -> str:
    value = float(row["value"])
    if math.isnan(value):
        return "not defined"
    if pd.isna(row["lower"]):
        return f"{value:{form}} ({row['method']})"
    return with_ends(value, float(row["lower"]), float(row["upper"]), form)
