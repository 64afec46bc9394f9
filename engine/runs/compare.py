"""Two runs side by side: paired differences where both judged the same thing, and the settings that differ.

A difference is always second run minus first. Verdicts are matched by what was asked (protocol, prompt variant, attack,
defense, response ids, order); items are the clusters. Where a study's own metric rests on more than single verdicts
there is nothing to pair, and the two intervals are joined as if independent: square-and-add (MOVER; Zou and Donner
2008, eq. 3). For two runs on the same items that interval is too wide rather than too narrow as a rule, since their
errors go together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import InputError
from engine.core.json import dumps
from engine.core.schema import NONE, Order, Outcome, Protocol
from engine.data.comparisons import load_comparisons
from engine.data.store import load_dataset
from engine.stats.intervals import cluster_codes, cluster_rate
from engine.stats.paired import PairedTest, benjamini_hochberg, mcnemar, paired_test
from engine.stats.shifts import interval_columns

SQUARE_AND_ADD = "as if independent, square-and-add"
ARM = ["protocol", "variant", "attack", "defense"]
_RESPONSE = ["item_id", "response_id"]
KEY = [*ARM, "item_id", "response_id", "response_b", "order", "reference_id", "candidates"]
COLUMNS = [
    "what", "unit", *ARM, "group", "value_a", "value_b", "value", "lower", "upper", "level", "method", "n",
    "n_clusters", "n_unread", "p_value", "q_value", "paired",
]  # fmt: skip
POINTS, SHARE, OWN_UNIT = "points", "share", "own unit"
SCORE, SHIFT, P_A, FIRST, CHANGED, P_YES, YES = (
    "score", "shift", "p_a", "first_slot", "outcome_changed", "p_yes", "accepted",
)  # fmt: skip
_PAIRED_AWAY = {"mean", "shift", "relative_shift"}
"""Metrics of the pointwise arms, whose paired differences stand above."""
_NOT_SETTINGS = frozenset({"run_id", "budget_seconds"})
_NAMES = ("metric", "attack", "defense", "protocol", "group")
MISSING = "not there"
SAME = 1e-4
"""Two answers nearer than this are one. In float32 a judge's own number depends on what is asked in the same batch,
since sums over other shapes add up in another order (a score moved by up to 1.3e-5 in 352 resumed calls); so even
and so small an error would be "significant"."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of two runs.

    Attributes:
        differences: one row per quantity and arm, columns `COLUMNS`; `value` is second minus first, `value_a` and
            `value_b` are over exactly the rows that entered it (paired) or the runs' own (not paired).
        matched: judge calls that both runs made.
        only_a, only_b: judge calls of one run alone.
        calls: the matched calls, one row each, with `a` and `b` (score, p_a or p_yes) and outcomes.
        remarks: what was not compared, and why.
    """

    differences: pd.DataFrame
    matched: int
    only_a: int
    only_b: int
    calls: pd.DataFrame
    remarks: tuple[str, ...]


def compare_runs(
    verdicts: tuple[pd.DataFrame, pd.DataFrame],
    metrics: tuple[pd.DataFrame, pd.DataFrame],
    *,
    same: Collection[str] | None = None,
    same_scale: bool = True,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare two runs.

    Args:
        verdicts: table `verdicts` of the first and the second run.
        metrics: table `metrics` of both.
        same: ids of the responses that are the same text in both; None where the data are the same.
        same_scale: true where both judges score on one scale; otherwise differences of scores mean nothing.
        level: confidence level in (0, 1).
        seed: of bootstraps and random sign flips.
    """
    calls = matched_calls(verdicts, same)
    remarks: list[str] = []
    if same is not None:
        remarks.append("The runs are on different data; only responses with the same id and the same text are paired.")
    if not same_scale:
        remarks.append("The judges score on different scales, so their scores are not subtracted.")
    rows = list(_paired_rows(calls, same_scale, level, seed))
    done = {(r["attack"], r["defense"]) for r in rows if r["what"] == SCORE}
    rows += _unpaired_rows(*metrics, done, same_scale)
    table = pd.DataFrame(rows, columns=COLUMNS)
    table["q_value"] = benjamini_hochberg(table["p_value"].astype(float)) if len(table) else table["p_value"]
    n, whole = len(calls), tuple(len(t.drop_duplicates("verdict_id")) for t in verdicts)
    kept = [*KEY, "a", "b", "outcome_a", "outcome_b", "unread_reason_a", "unread_reason_b"]
    return Comparison(table, n, whole[0] - n, whole[1] - n, calls[kept], tuple(remarks))


def matched_calls(verdicts: tuple[pd.DataFrame, pd.DataFrame], same: Collection[str] | None = None) -> pd.DataFrame:
    """The calls that two tables `verdicts` share, one row each.

    Args:
        verdicts: the first and the second table.
        same: as `compare_runs`.

    Returns:
        `KEY`, the columns of both answers with `_a` and `_b`, and `a`, `b`: score, else p_a, else p_yes.
    """
    a, b = (_asked(table) for table in verdicts)
    if same is not None:
        a, b = (_of_these(table, same) for table in (a, b))
    calls = a.merge(b, on=KEY, suffixes=("_a", "_b"))
    return calls.assign(a=_number(calls, "a"), b=_number(calls, "b"))


def _asked(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Each call once, what identifies it without missing values."""
    once = verdicts.drop_duplicates("verdict_id")
    names = {c: once[c].astype(object).where(once[c].notna(), "") for c in KEY}
    values = ["score", "p_a", "p_yes", "outcome", "unread_reason"]
    return pd.DataFrame(names).assign(**{c: once[c] for c in values}).drop_duplicates(KEY)


def _of_these(asked: pd.DataFrame, same: Collection[str]) -> pd.DataFrame:
    ids = set(same) | {""}
    return asked[asked["response_id"].isin(ids) & asked["response_b"].isin(ids) & (asked["candidates"] == "")]


def _number(calls: pd.DataFrame, side: str) -> pd.Series:
    """The number a call is about: score, else p_a, else p_yes."""
    columns = [calls[f"{name}_{side}"].astype(float) for name in ("score", "p_a", "p_yes")]
    return columns[0].fillna(columns[1]).fillna(columns[2])


def _paired_rows(calls: pd.DataFrame, same_scale: bool, level: float, seed: int) -> Iterator[dict[str, Any]]:
    for key, own in calls.groupby(ARM, sort=False):
        arm = dict(zip(ARM, key, strict=True))
        make = _Rows(arm, own, level, seed)
        if arm["protocol"] == Protocol.POINTWISE and same_scale:
            yield make.mean(SCORE, POINTS, own["score_a"], own["score_b"])
            if arm["attack"] != NONE and (moved := _shifts(calls, own, arm)) is not None:
                yield _Rows(arm, moved, level, seed).mean(SHIFT, POINTS, moved["shift_a"], moved["shift_b"])
        if arm["protocol"] == Protocol.PAIRWISE:
            yield make.mean(P_A, SHARE, own["p_a_a"], own["p_a_b"])
            yield make.mean(FIRST, SHARE, _first(own, "a"), _first(own, "b"))
            yield make.changed()
        if arm["protocol"] == Protocol.VERIFIER:
            base = own[own["reference_id"] == ""]  # further references were asked only where the first gave a YES
            plain = _Rows(arm, base, level, seed)
            yield plain.mean(P_YES, SHARE, base["p_yes_a"], base["p_yes_b"])
            yield plain.events(YES, _yes(base, "a"), _yes(base, "b"))


class _Rows:
    """Makes the rows of one arm."""

    def __init__(self, arm: dict[str, Any], own: pd.DataFrame, level: float, seed: int) -> None:
        self._arm, self._own, self._level, self._seed = arm, own, level, seed
        self._clusters = cluster_codes(own)

    def mean(self, what: str, unit: str, a: pd.Series, b: pd.Series) -> dict[str, Any]:
        """Mean of second minus first over calls read both times."""
        first, second = (x.to_numpy(dtype=np.float64) for x in (a, b))
        apart = second - first
        apart = np.where(np.abs(apart) < SAME, 0.0, apart)
        test = paired_test(apart, self._clusters, level=self._level, seed=self._seed)
        return self._row(what, unit, first, second, test)

    def events(self, what: str, a: pd.Series, b: pd.Series) -> dict[str, Any]:
        """Difference of two shares over calls read both times."""
        first, second = (x.to_numpy(dtype=np.float64) for x in (a, b))
        test = mcnemar(first, second, self._clusters, level=self._level, seed=self._seed)
        return self._row(what, SHARE, first, second, test)

    def changed(self) -> dict[str, Any]:
        """Share of calls, read both times, with another outcome."""
        read = self._own["outcome_a"].notna() & self._own["outcome_b"].notna()
        other = np.where(read, (self._own["outcome_a"] != self._own["outcome_b"]).astype(float), np.nan)
        interval = cluster_rate(other, self._clusters, level=self._level, seed=self._seed)
        empty = np.full(len(other), np.nan)
        return self._row(CHANGED, SHARE, empty, empty, PairedTest(interval, float("nan"), ""))

    def _row(self, what: str, unit: str, first: np.ndarray, second: np.ndarray, test: PairedTest) -> dict[str, Any]:
        both = ~(np.isnan(first) | np.isnan(second))
        means = [float(x[both].mean()) if both.any() else float("nan") for x in (first, second)]
        about = {"what": what, "unit": unit, **self._arm, "group": "", "value_a": means[0], "value_b": means[1]}
        left_out = len(first) - test.interval.n
        return {**about, **interval_columns(test.interval), "n_unread": left_out, "p_value": test.p_value, "paired": 1}


def _shifts(calls: pd.DataFrame, own: pd.DataFrame, arm: dict[str, Any]) -> pd.DataFrame | None:
    """Shift of each response by the attack in both runs; None without a clean arm."""
    clean = calls[
        (calls["protocol"] == arm["protocol"])
        & (calls["variant"] == arm["variant"])
        & (calls["defense"] == arm["defense"])
        & (calls["attack"] == NONE)
    ].drop_duplicates(_RESPONSE)
    if clean.empty:
        return None
    both = own.merge(clean[[*_RESPONSE, "score_a", "score_b"]], on=_RESPONSE, suffixes=("", "_clean"))
    return both.assign(**{f"shift_{s}": both[f"score_{s}"] - both[f"score_{s}_clean"] for s in ("a", "b")})


def _first(own: pd.DataFrame, side: str) -> pd.Series:
    """1 where the response shown first won, 0 where the second, one half for a tie, NaN unread."""
    outcome = own[f"outcome_{side}"]
    winner_first = ((own["order"] == Order.AB) & (outcome == Outcome.A)) | (
        (own["order"] == Order.BA) & (outcome == Outcome.B)
    )
    value = winner_first.astype(float).where(outcome != Outcome.TIE, 0.5)
    return value.where(outcome.notna() & own["order"].isin([Order.AB.value, Order.BA.value]))


def _yes(own: pd.DataFrame, side: str) -> pd.Series:
    return own[f"outcome_{side}"].map({Outcome.YES.value: 1.0, Outcome.NO.value: 0.0}).astype(float)


def _unpaired_rows(
    a: pd.DataFrame, b: pd.DataFrame, done: Collection[tuple[str, str]], same_scale: bool
) -> Iterator[dict[str, Any]]:
    names = list(_NAMES)
    keyed = [t.assign(**{c: t[c].astype(object).where(t[c].notna(), "") for c in names}) for t in (a, b)]
    joined = keyed[0].drop_duplicates(names).merge(keyed[1].drop_duplicates(names), on=names, suffixes=("_a", "_b"))
    for record in joined.to_dict("records"):
        row = {str(name): value for name, value in record.items()}
        metric = str(row["metric"])
        if metric in _PAIRED_AWAY and (not same_scale or (row["attack"], row["defense"]) in done):
            continue
        first, second = ([float(row[f"{k}_{s}"]) for k in ("value", "lower", "upper")] for s in ("a", "b"))
        if np.isnan(first[0]) or np.isnan(second[0]):
            continue
        lower, upper = square_and_add(first, second)
        yield {
            "what": metric, "unit": OWN_UNIT, "protocol": row["protocol"], "variant": "", "attack": row["attack"],
            "defense": row["defense"], "group": row["group"], "value_a": first[0], "value_b": second[0],
            "value": second[0] - first[0], "lower": lower, "upper": upper, "level": _level(row),
            "method": SQUARE_AND_ADD, "n": _least(row, "n"), "n_clusters": _least(row, "n_clusters"),
            "n_unread": _whole(row["n_unread_a"]) + _whole(row["n_unread_b"]), "p_value": float("nan"), "paired": 0,
        }  # fmt: skip


def square_and_add(first: list[float], second: list[float]) -> tuple[float, float]:
    """Interval of second minus first from two independent estimates, each [value, lower, upper] of one level.

    Zou and Donner (2008), eq. 3: each side's distance to its own bound, squared and added. NaN bounds stay NaN.
    """
    (a, a_low, a_high), (b, b_low, b_high) = first, second
    return (
        b - a - float(np.hypot(b - b_low, a_high - a)),
        b - a + float(np.hypot(b_high - b, a - a_low)),
    )


def _level(row: Mapping[str, Any]) -> float:
    levels = {row["level_a"], row["level_b"]}
    return float(levels.pop()) if len(levels) == 1 else float("nan")


def _least(row: Mapping[str, Any], name: str) -> int:
    return min(_whole(row[f"{name}_a"]), _whole(row[f"{name}_b"]))


def _whole(value: Any) -> int:
    return 0 if pd.isna(value) else int(value)


def differing_settings(first: Mapping[str, Any], second: Mapping[str, Any]) -> pd.DataFrame:
    """Differences of two manifests.

    Returns:
        part (settings, data, judge, versions), setting, a, b; texts, `MISSING` where one has none.
    """
    rows = []
    for part, key in (("settings", "config"), ("data", "data"), ("judge", "judge"), ("versions", "versions")):
        a, b = (_flat(m.get(key)) for m in (first, second))
        for name in dict.fromkeys((*a, *b)):
            if name in _NOT_SETTINGS:
                continue
            left, right = (_text(x[name]) if name in x else MISSING for x in (a, b))
            if left != right:
                rows.append({"part": part, "setting": name, "a": left, "b": right})
    if first.get("study") != second.get("study"):
        about = {"part": "study", "setting": "study", "a": _text(first.get("study")), "b": _text(second.get("study"))}
        rows.insert(0, about)
    return pd.DataFrame(rows, columns=["part", "setting", "a", "b"])


def _flat(value: object) -> dict[str, Any]:
    """A manifest's part with one name a value: `prompts` by their own names, other objects by their keys."""
    out: dict[str, Any] = {}
    for key, held in value.items() if isinstance(value, Mapping) else ():
        if key == "prompts" and isinstance(held, list):
            out |= {f"prompt {p.get('name', k)}": p for k, p in enumerate(held) if isinstance(p, Mapping)}
        elif isinstance(held, Mapping):
            out |= {f"{key}.{name}": one for name, one in held.items()}
        else:
            out[str(key)] = held
    return out


def _text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


def same_scale(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """True where two manifests' judges were offered the same answers, as far as they say."""
    a, b = (m.get("judge") or {} for m in (first, second))
    both = [(x.get("values") or x.get("labels") or []) for x in (a, b)]
    return not (both[0] and both[1]) or [str(v) for v in both[0]] == [str(v) for v in both[1]]


# Which responses of two data sets are the same text under the same id, so that verdicts on them can be paired.


def same_responses(first: str, second: str, *, datasets: Path, comparisons: Path) -> set[str] | None:
    """Ids of the responses that two data sets share, item and text alike; None where both are one set.

    Args:
        first: id of a saved or bundled data set, or of a set of pairs.
        second: the same of the other run.
        datasets: where data sets are saved (`settings.datasets`).
        comparisons: where sets of pairs are saved (`settings.comparisons`).

    Returns:
        An empty set where one of them is not on this machine any more.
    """
    if first and first == second:
        return None
    try:
        a, b = (_texts(one, datasets, comparisons) for one in (first, second))
    except InputError:
        return set()
    both = a.merge(b, on=["response_id", "item_id", "text", "context"], how="inner")
    return set(both["response_id"])


def _texts(data_id: str, datasets: Path, comparisons: Path) -> pd.DataFrame:
    try:
        found = load_dataset(data_id, datasets)
        items, responses = found.items, found.responses
    except InputError:
        pairs = load_comparisons(data_id, comparisons)
        items, responses = pairs.items, pairs.responses
    own = responses[["response_id", "item_id", "text"]].merge(items[["item_id", "context"]], on="item_id")
    return own.fillna({"text": "", "context": ""})
