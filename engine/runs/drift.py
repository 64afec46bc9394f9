"""A judge now against a judge then on the same frozen prompts: what moved, beyond asking the same thing twice.

Each quantity is a mean over calls that both made, items are the clusters, and its interval holds at a level shared out
among all quantities (Bonferroni), so that a judge that did not change is called a drift in at most `1 - level` of
comparisons. A drift needs three things: the interval excludes no change, the estimate reaches the threshold, and it
lies outside the band that asking again makes. No drift is seen where the whole interval lies inside the threshold.
Everything else cannot be told, and the smallest change that would have been found in 80 % of cases stands beside it.

Asking again. Where one side holds several answers to each prompt, their spread within a prompt is the retest noise: it
gives the band of a mean, and the rate at which verdicts flip by themselves, which is taken off the flips between the
two sides. For a judge that did not change both flip rates have the same expectation. Where nothing was asked again,
flips of a judge behind a server or in a recording cannot be told from retest noise; a local one has none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri

from engine.core.errors import INCONCLUSIVE, OK, THRESHOLD_FAILED, InputError
from engine.core.gate import FAILED, PASSED, UNKNOWN, Check
from engine.core.schema import Order, Outcome, Protocol
from engine.runs.compare import ARM, KEY, SAME, differing_settings, matched_calls, same_scale
from engine.stats.agreement import Kappa, cluster_kappa
from engine.stats.intervals import NO_VARIATION, Interval, cluster_codes, cluster_mean, cluster_rate
from engine.stats.paired import POWER, detectable_effect, difference_of_rates, sign_flip_p
from engine.stats.shifts import interval_columns

Floats = npt.NDArray[np.float64]

NO_DRIFT, DRIFT, CANNOT_TELL = "no drift seen", "drift", "cannot tell"
EXIT_CODES = {NO_DRIFT: OK, DRIFT: THRESHOLD_FAILED, CANNOT_TELL: INCONCLUSIVE}
_STATUS = {NO_DRIFT: PASSED, DRIFT: FAILED, CANNOT_TELL: UNKNOWN}
MAX_SHIFT, MAX_FLIPS = 0.1, 0.05
"""Largest tolerated shift of a mean score [points of the scale], and share of verdicts flipped beyond retest."""
SCORE, RATE, FLIPS, UNREAD = "score", "rate", "flips", "unread"
COLUMNS = [
    "quantity", *ARM, "unit", "value_base", "value_new", "value", "lower", "upper", "level", "method", "n",
    "n_clusters", "n_unread", "threshold", "band", "detectable", "verdict",
]  # fmt: skip
_NAMED = ("spec", "fingerprint", "revision", "precision", "device", "dtype", "digest", "dataset_id", "name")
"""Entries of a manifest's judge and data that are named beside every verdict."""
_LOCAL = ("bundled:", "hf:", "path:", "planted:")
_NAN = math.nan


@dataclass(frozen=True)
class Answers:
    """One side of a comparison: a frozen set, a run or a recording.

    Attributes:
        name: for people.
        manifest: settings, data, judge and versions, as a run's manifest holds them; empty parts where not known.
        verdicts: table `verdicts`.
        again: tables of the same calls, asked anew.
        requests: the calls word for word (see `engine.runs.frozen`); empty where they are not at hand.
    """

    name: str
    manifest: Mapping[str, Any]
    verdicts: pd.DataFrame
    again: tuple[pd.DataFrame, ...] = ()
    requests: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Drift:
    """Result of `find_drift`.

    Attributes:
        verdict: `NO_DRIFT`, `DRIFT` or `CANNOT_TELL`.
        rows: one row a quantity and arm, columns `COLUMNS`; `value` is new minus base, of flips and unread the excess.
        agreement: Cohen's kappa between the two sides' verdicts, over all calls of both.
        changed: part, setting, a, b of everything that differs in judge, prompts, data, device and versions.
        matched, only_base, only_new: calls of both sides and of one alone.
        retest: times each prompt was asked again, base and new side.
        retest_flips: share of verdicts that flip when asked again; NaN where nothing was.
        remarks: what limits the comparison.
    """

    verdict: str
    rows: pd.DataFrame
    agreement: Kappa
    changed: pd.DataFrame
    matched: int
    only_base: int
    only_new: int
    retest: tuple[int, int] = (0, 0)
    retest_flips: float = _NAN
    remarks: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0, 3 where nothing can be told, 4 for a drift."""
        return EXIT_CODES[self.verdict]

    def checks(self) -> tuple[Check, ...]:
        """Every quantity and arm as a check of a gate."""
        if self.rows.empty:
            return (Check("calls", "Calls of both sides", UNKNOWN, self.sentence()),)
        return tuple(_check(row) for row in self.rows.to_dict("records"))

    def named_changes(self) -> list[str]:
        """What differs in judge, prompt, data and device, one line each."""
        rows = self.changed[self.changed["part"].isin(["judge", "data"])]
        named = [r for r in rows.to_dict("records") if _is_named(str(r["setting"]))]
        return [f"{r['part']} {r['setting']}: {str(r['a'])[:60]} → {str(r['b'])[:60]}" for r in named]

    def sentence(self) -> str:
        """The verdict in words, with its largest movement or its power."""
        if self.rows.empty:
            return "Cannot tell: the two sides have no judge call in common."
        order = self.rows.assign(size=self.rows["value"].abs() / self.rows["threshold"].clip(lower=1e-9))
        found = order[order["verdict"] == self.verdict].sort_values("size", ascending=False, kind="stable").iloc[0]
        if self.verdict == DRIFT:
            return f"Drift: {in_words(found)}, where {_amount(found, 'threshold')} is tolerated."
        if self.verdict == CANNOT_TELL:
            if found["quantity"] == FLIPS and not sum(self.retest) and found["value"] >= found["threshold"]:
                return f"Cannot tell: {in_words(found)}; nothing was asked again, so this may be retest noise."
            least = _amount(found, "detectable")
            seen = f"only a change of {least} or more would have been seen" if least else "there is too little to see"
            return f"Cannot tell: {in_words(found)}; {seen}."
        if not (order["value"].abs() > 0).any():
            missable = max((float(d) for d in order["detectable"].dropna()), default=_NAN)
            missed = (
                f" A change that touches fewer than {missable:.0%} of items could be missed." if missable > 0 else ""
            )
            return f"No drift seen: all {self.matched:,} answers are the same.{missed}"
        return f"No drift seen: the largest change is {in_words(found)}, within {_amount(found, 'threshold')}."


def find_drift(
    base: Answers,
    new: Answers,
    *,
    max_shift: float = MAX_SHIFT,
    max_flips: float = MAX_FLIPS,
    same: Collection[str] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Drift:
    """What moved between two sides.

    Args:
        base: the frozen side.
        new: the side that is held against it.
        max_shift: tolerated change of a mean score, points of the scale; 0 tolerates none.
        max_flips: tolerated share of verdicts flipped beyond retest, of a rate and of unread answers, in [0, 1].
        same: ids of the responses that are the same text on both sides; None where all are.
        level: at which all intervals hold together, in (0, 1).
        seed: of bootstraps.

    Raises:
        InputError: a threshold is out of range.
    """
    if not max_shift >= 0:
        raise InputError(f"The tolerated shift is {max_shift}; give 0 or more points of the scale, for example 0.1.")
    if not 0 <= max_flips <= 1:
        raise InputError(f"The tolerated share of flips is {max_flips}; give a share from 0 to 1, for example 0.05.")
    scale = same_scale(base.manifest, new.manifest)
    calls = matched_calls((base.verdicts, new.verdicts), same)
    n, whole = len(calls), [len(a.verdicts.drop_duplicates("verdict_id")) for a in (base, new)]
    remarks = [] if scale else ["The judges score on different scales, so their scores are not compared."]
    unknown = not base.again and not new.again and not (_steady(base) and _steady(new))
    if unknown:
        remarks.append("Nothing was asked again, so flips may be retest noise: --again or --retest measures it.")
    if same is not None:
        remarks.append("The data differ; only responses with the same id and the same text are compared.")
    draws = _Draws(base, new, calls)
    kinds = [kind for key, own in draws.arms() for kind in _quantities(key[0], own, scale)]
    shared = 1 - (1 - level) / max(len(kinds), 1)
    limits = {SCORE: max_shift, RATE: max_flips, FLIPS: max_flips, UNREAD: max_flips}
    rows = [
        _row(kind, key, draws, own, limits[kind], shared, seed)
        for key, own in draws.arms()
        for kind in _quantities(key[0], own, scale)
    ]
    for row in rows:
        if unknown and row["quantity"] == FLIPS and row["verdict"] == DRIFT:
            row["verdict"] = CANNOT_TELL
    table = pd.DataFrame(rows, columns=COLUMNS)
    return Drift(
        _overall(table), table, _agreement(calls, level, seed), differing_settings(base.manifest, new.manifest),
        n, whole[0] - n, whole[1] - n, (len(base.again), len(new.again)), draws.retest_flips(),
        tuple(remarks),
    )  # fmt: skip


def _steady(side: Answers) -> bool:
    """The judge runs on this machine and answers the same prompt alike each time, so that it has no retest noise."""
    return str(side.manifest.get("judge", {}).get("spec", "")).startswith(_LOCAL)


class _Draws:
    """Every answer to the calls of both sides: numbers, labels and whether read, a column an asking."""

    def __init__(self, base: Answers, new: Answers, calls: pd.DataFrame) -> None:
        self.calls = calls.reset_index(drop=True)
        self._sides: list[list[pd.DataFrame]] = []
        for side, answers in (("a", base), ("b", new)):
            first = self.calls[[side, f"outcome_{side}", f"unread_reason_{side}"]]
            own = [first.set_axis(["number", "outcome", "unread"], axis=1)]
            self._sides.append(own + [self._again(answers.verdicts, table) for table in answers.again])

    def _again(self, first: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
        other = matched_calls((first, table)).rename(
            columns={"b": "number", "outcome_b": "outcome", "unread_reason_b": "unread"}
        )
        joined = self.calls[KEY].merge(other[[*KEY, "number", "outcome", "unread"]], on=KEY, how="left")
        return joined[["number", "outcome", "unread"]]

    def arms(self) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
        """Arm and its calls, whose index says where they stand."""
        for key, own in self.calls.groupby(ARM, sort=False):
            yield tuple(map(str, key)), own

    def numbers(self, side: int, own: pd.DataFrame) -> Floats:
        """Scores (or probabilities) of a side, shape [askings, calls]; NaN where unread."""
        return np.array([one.loc[own.index, "number"].to_numpy(dtype=np.float64) for one in self._sides[side]])

    def events(self, side: int, own: pd.DataFrame) -> Floats:
        """1 where the first slot won or the verifier accepted, shape [askings, calls]; a half for a tie."""
        return np.array([_event(own, one.loc[own.index, "outcome"]) for one in self._sides[side]])

    def unread(self, side: int, own: pd.DataFrame) -> Floats:
        """1 where the first asking of a side has no verdict, shape [calls]."""
        return np.asarray(self._sides[side][0].loc[own.index, "unread"].notna(), dtype=np.float64)

    def still(self, own: pd.DataFrame) -> bool:
        """Both sides gave every call of an arm the same answer, and some were read."""
        apart = np.abs(self.numbers(0, own)[0] - self.numbers(1, own)[0])
        return bool((apart < SAME).any() and not (apart >= SAME).any())

    def flips(self, own: pd.DataFrame) -> tuple[Floats, Floats]:
        """Share of askings of both sides that differ, and of one side's askings among themselves, shape [calls] each.

        The second is NaN throughout where nothing was asked again.
        """
        sides = [[_verdict(own, one.loc[own.index]) for one in self._sides[side]] for side in (0, 1)]
        across = [_differ(x, y) for x in sides[0] for y in sides[1]]
        within = [_differ(x, y) for side in sides for x, y in combinations(side, 2)]
        return _mean(across), _mean(within) if within else np.full(len(own), _NAN)

    def noise(self, own: pd.DataFrame) -> float:
        """Standard error that retest noise alone gives the mean difference of an arm; NaN where not measured."""
        squares, spare = 0.0, 0
        sizes = []
        for side in (0, 1):
            drawn = self.numbers(side, own)
            sizes.append(len(drawn))
            if len(drawn) > 1:
                known = drawn[:, ~np.isnan(drawn).any(axis=0)]
                squares += float(((known - known.mean(axis=0)) ** 2).sum()) if known.size else 0.0
                spare += known.shape[1] * (len(drawn) - 1)
        n = len(own)
        return math.sqrt(squares / spare * (1 / sizes[0] + 1 / sizes[1]) / n) if spare else _NAN

    def retest_flips(self) -> float:
        """Share of verdicts that flip when the same side is asked again."""
        within = self.flips(self.calls)[1] if len(self.calls) else np.array([])
        return float(np.nanmean(within)) if len(within) and not np.isnan(within).all() else _NAN


def _event(own: pd.DataFrame, outcome: pd.Series) -> Floats:
    order = own["order"].to_numpy(dtype=object)
    said = outcome.to_numpy(dtype=object)
    first = np.where(order == Order.BA.value, Outcome.B.value, Outcome.A.value)
    value = np.where(said == Outcome.TIE.value, 0.5, (said == first) | (said == Outcome.YES.value)).astype(np.float64)
    return np.where(pd.isna(said), _NAN, value)


def _verdict(own: pd.DataFrame, answered: pd.DataFrame) -> pd.DataFrame:
    """The verdict that can flip: outcome of pairs and checks, the whole number nearest to a score."""
    number = answered["number"].astype(float)
    scored = (own["protocol"] == Protocol.POINTWISE.value).to_numpy()
    label = answered["outcome"].astype(object).where(~scored, number.map(_nearest))
    return pd.DataFrame({"label": label.to_numpy(dtype=object), "number": number.to_numpy(), "scored": scored})


def _nearest(score: float) -> str | None:
    return None if math.isnan(score) else f"{math.floor(score + 0.5)}"


def _differ(x: pd.DataFrame, y: pd.DataFrame) -> Floats:
    """1 where two askings give different verdicts; a score that moved by rounding alone is none."""
    missing = pd.isna(x["label"]) | pd.isna(y["label"])
    still = x["scored"] & ((x["number"] - y["number"]).abs() < SAME)
    other = ((x["label"] != y["label"]) & ~still).to_numpy(dtype=np.float64)
    return np.where(missing, _NAN, other)


def _mean(columns: Sequence[Floats]) -> Floats:
    """Mean over askings of the calls that were read each time; NaN elsewhere."""
    return np.asarray(np.mean(np.array(columns), axis=0))


def _quantities(protocol: str, own: pd.DataFrame, scale: bool) -> list[str]:
    """What is compared of an arm."""
    kinds = {Protocol.POINTWISE.value: [SCORE, FLIPS] if scale else [], Protocol.RANKING.value: []}
    unread = own["unread_reason_a"].notna().any() or own["unread_reason_b"].notna().any()
    return [*kinds.get(protocol, [RATE, FLIPS]), *([UNREAD] if unread else [])]


def _row(
    kind: str, arm: tuple[str, ...], draws: _Draws, own: pd.DataFrame, limit: float, level: float, seed: int
) -> dict[str, Any]:
    clusters = cluster_codes(own)
    band, base, new = _NAN, np.full(len(own), _NAN), np.full(len(own), _NAN)
    if kind == FLIPS:
        new, base = draws.flips(own)
        apart = new if np.isnan(base).all() else new - base
        found = (
            cluster_rate(apart, clusters, level=level)
            if np.isnan(base).all()
            else difference_of_rates(apart, clusters, level=level, seed=seed)
        )
    elif kind == UNREAD:
        base, new = draws.unread(0, own), draws.unread(1, own)
        apart = new - base
        found = difference_of_rates(apart, clusters, level=level, seed=seed)
    else:
        read = draws.numbers if kind == SCORE else draws.events
        base, new = _mean(read(0, own)), _mean(read(1, own))  # type: ignore[arg-type]
        apart = np.where(np.abs(new - base) < SAME, 0.0, new - base)
        found = (cluster_mean if kind == SCORE else difference_of_rates)(apart, clusters, level=level, seed=seed)
        if kind == SCORE:
            band = -float(ndtri((1 - level) / 2)) * draws.noise(own)
    still = kind != UNREAD and draws.still(own)
    both = ~np.isnan(apart)
    means = [float(np.nanmean(x[both])) if both.any() and not np.isnan(x[both]).all() else _NAN for x in (base, new)]
    return {
        "quantity": kind, **dict(zip(ARM, arm, strict=True)), "unit": "points" if kind == SCORE else "share",
        "value_base": means[0], "value_new": means[1], **interval_columns(found), "n_unread": len(own) - found.n,
        "threshold": limit, "band": band, "detectable": _detectable(kind, apart, clusters, found, level),
        "verdict": NO_DRIFT if still else _verdict_of(kind, found, apart, clusters, limit, band, level),
    }  # fmt: skip


def _detectable(kind: str, apart: Floats, clusters: npt.NDArray[Any], found: Interval, level: float) -> float:
    """Change found with 80 % power; where no verdict moved, the share of items that shows one case with that power."""
    size = detectable_effect(apart, clusters, level=level)
    if kind != SCORE and math.isnan(size) and found.n_clusters and found.value == 0:
        return float(1 - (1 - POWER) ** (1 / found.n_clusters))
    return size


def _verdict_of(
    kind: str, found: Interval, apart: Floats, clusters: npt.NDArray[Any], limit: float, band: float, level: float
) -> str:
    """The verdict on one quantity; more flips or unread answers are a drift, fewer are not."""
    value = found.value
    if not math.isfinite(value):
        return CANNOT_TELL
    signed = kind in (SCORE, RATE)
    size = abs(value) if signed else value
    if math.isnan(found.lower):
        clear = found.method == NO_VARIATION and sign_flip_p(apart, clusters) <= 1 - level
        inside = clear and size < limit
    else:
        clear = found.lower > 0 or (signed and found.upper < 0)
        inside = found.upper <= limit and (not signed or found.lower >= -limit)
    if clear and size >= limit and not size <= band:
        return DRIFT
    return NO_DRIFT if inside else CANNOT_TELL


def _overall(rows: pd.DataFrame) -> str:
    said = set(rows["verdict"])
    return DRIFT if DRIFT in said else CANNOT_TELL if CANNOT_TELL in said or not said else NO_DRIFT


def _agreement(calls: pd.DataFrame, level: float, seed: int) -> Kappa:
    sides = [_verdict(calls, calls[[s, f"outcome_{s}"]].set_axis(["number", "outcome"], axis=1))["label"] for s in "ab"]
    read = (sides[0].notna() & sides[1].notna()).to_numpy()
    labels = [list(map(str, side[read])) for side in sides]
    return cluster_kappa(labels[0], labels[1], cluster_codes(calls)[read], level=level, seed=seed)


# Words for a quantity.

TITLES = {SCORE: "mean score", RATE: "rate", FLIPS: "verdicts flipped", UNREAD: "unread answers"}


def title_of(row: Mapping[Any, Any] | pd.Series) -> str:
    """A quantity with its arm, for example `mean score, dsi`."""
    rate = {Protocol.PAIRWISE.value: "first slot wins", Protocol.VERIFIER.value: "accepted"}
    name = rate.get(str(row["protocol"]), "rate") if row["quantity"] == RATE else TITLES[str(row["quantity"])]
    arm = [str(row[k]) for k in ("attack", "defense", "variant") if row[k] not in ("", "none")]
    return ", ".join([name, *arm])


def _amount(row: Mapping[Any, Any] | pd.Series, name: str, *, signed: bool = False) -> str:
    """A number of a row in its unit; empty where it is not known."""
    value = float(row[name])
    if not math.isfinite(value):
        return ""
    sign = "+" if signed else ""
    points = row["unit"] == "points"
    return f"{value:{sign}.3f} points" if points else f"{100 * value:{sign}.1f} points of 100"


def in_words(row: Mapping[Any, Any] | pd.Series) -> str:
    """A quantity's change and interval in words."""
    return f"{title_of(row)} {_change(row)}".strip()


def _change(row: Mapping[Any, Any] | pd.Series) -> str:
    """Change and interval; empty where there is none."""
    factor, form = (1.0, ".3f") if row["unit"] == "points" else (100.0, ".1f")
    ends = [factor * float(row[k]) for k in ("lower", "upper")]
    interval = f" [{ends[0]:+{form}}, {ends[1]:+{form}}]" if np.isfinite(ends).all() else ""
    return f"{_amount(row, 'value', signed=True)}{interval}" if _amount(row, "value") else ""


def _check(row: Mapping[Any, Any]) -> Check:
    arm = [str(row[k]) for k in ARM if row[k] not in ("", "none")]
    size = f"{row['threshold']:g} points" if row["unit"] == "points" else f"{100 * row['threshold']:g} points of 100"
    allowed = f"within ±{size}" if row["quantity"] in (SCORE, RATE) else f"at most {size}"
    least = _amount(row, "detectable")
    power = f"Only a change of {least} or more would have been seen." if least else "There is too little to see."
    why = {DRIFT: "Beyond what is tolerated, and beyond what asking again makes.", CANNOT_TELL: power}
    known = {k: float(row[k]) for k in ("value", "lower", "upper", "threshold")}
    return Check(
        "/".join([str(row["quantity"]), *arm]), f"{title_of(row)} ({row['protocol']})", _STATUS[row["verdict"]],
        why.get(row["verdict"], "No change beyond what is tolerated."), _change(row), allowed, **known,
    )  # fmt: skip


def _is_named(setting: str) -> bool:
    return setting.rpartition(".")[2] in _NAMED or setting.startswith(("prompt ", "labels", "values"))
