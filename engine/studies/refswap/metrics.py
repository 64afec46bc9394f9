"""RefSwap in numbers with intervals: verdict tables in, one summary out (paper 003, section 4).

The population of AUC, Cohen's d and pass rates are correct responses and master keys that the undefended verifier
accepts. Rates under a calibrated threshold are of the items that it was not calibrated on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from engine.core.schema import NONE
from engine.stats.auc import (
    LOGIT,
    SEPARATED,
    SINH,
    auc_bounds,
    auc_parts,
    cohens_d,
    d_bounds,
    separation_bounds,
)
from engine.stats.intervals import NO_DATA, NO_VARIATION, ONE_CLUSTER, Interval, cluster_rate, cluster_ratio
from engine.stats.paired import difference_of_rates
from engine.stats.shifts import interval_columns
from engine.studies.refswap.scores import (
    CLEAN,
    Bools,
    Cost,
    Cut,
    Floats,
    Ints,
    Samples,
    calibrate,
    cost,
    decide,
    max_p_cf,
    s_score,
)

_NAN = float("nan")
USUAL_GAMMA = 0.01
"""The paper's gamma at a tolerance of 2 points, on its own verifier; used where there is nothing to calibrate on."""


@dataclass(frozen=True)
class Table:
    """Samples of a run and what they are called.

    Attributes:
        samples: the arrays.
        keys: name of each key's arm, by its number.
        frame: item_id, response_id, attack of each sample, in the order of the arrays.
    """

    samples: Samples
    keys: tuple[str, ...]
    frame: pd.DataFrame


def sample_table(verdicts: pd.DataFrame, samples: pd.DataFrame, arm: str = "other") -> Table:
    """The arrays of one arm of counterfactual references.

    Args:
        verdicts: table `verdicts`; rows without a reference_id are under the true reference.
        samples: table `samples`.
        arm: other (another answer type) or same.
    """
    frame = samples.reset_index(drop=True)
    index = pd.MultiIndex.from_frame(frame[["response_id", "attack"]])
    place = verdicts["reference_id"].fillna("").str.extract(rf"^{arm}-(\d+)$")[0]
    true = verdicts[verdicts["reference_id"].isna()].set_index(["response_id", "attack"])
    own = verdicts[place.notna()]
    at = place[place.notna()].astype(int).to_numpy() - 1
    width = int(at.max(initial=-1)) + 1
    row = index.get_indexer(pd.MultiIndex.from_frame(own[["response_id", "attack"]]))
    cf, fresh = np.full((len(frame), width), np.nan), np.full((len(frame), width), np.nan)
    asked = np.zeros((len(frame), width), dtype=np.bool_)
    asked[row, at] = True
    cf[row, at] = own["p_yes"].to_numpy(dtype=np.float64)
    used = own["prompt_tokens"].astype("Float64") - own["shared_tokens"].astype("Float64").fillna(0)
    fresh[row, at] = _numbers(used)
    keys = tuple(dict.fromkeys(a for a in frame["attack"] if a != NONE))
    number = {name: i for i, name in enumerate(keys)}
    base = true.reindex(index)
    tokens = _numbers(base["prompt_tokens"])
    known = np.where(tokens > 0, tokens, np.nan)
    return Table(
        Samples(
            p=base["p_yes"].to_numpy(dtype=np.float64),
            cf=cf,
            asked=asked,
            right=frame["right"].to_numpy(dtype=np.int64) == 1,
            key=np.array([number.get(a, CLEAN) for a in frame["attack"]], dtype=np.int64),
            item=pd.factorize(frame["item_id"])[0].astype(np.int64),
            length=frame["length"].to_numpy(dtype=np.int64),
            dev=frame["dev"].to_numpy(dtype=np.int64) == 1,
            tokens=known,
            fresh=np.where(np.isnan(known)[:, None], np.nan, fresh),
            judged=not (frame["right"] < 0).any(),
        ),
        keys,
        frame,
    )


def _numbers(values: pd.Series) -> Floats:
    return np.asarray(values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan))


@dataclass(frozen=True)
class Rates:
    """One defense on one part of the items.

    Attributes:
        accuracy: on clean responses.
        fpr: mean over the keys of the share accepted of each, whatever was unread of it; items as clusters. Its n is
            what was read of all keys.
        per_key: share accepted of each key, by its number; n is what was read.
        worst: number of the key that is accepted most, -1 without keys.
        unread_clean: responses left out since a verdict or a check was unread.
        unread_keys: likewise of each key, by its number.
    """

    accuracy: Interval
    fpr: Interval
    per_key: tuple[Interval, ...]
    worst: int
    unread_clean: int
    unread_keys: tuple[int, ...]

    @property
    def n_unread(self) -> int:
        """Samples of both kinds that are left out."""
        return self.unread_clean + sum(self.unread_keys)

    @property
    def fpr_worst(self) -> Interval:
        """The share of the key that is accepted most."""
        return self.per_key[self.worst] if self.worst >= 0 else _nothing(self.fpr.level)


@dataclass(frozen=True)
class Baseline:
    """Another filter of YES verdicts, calibrated as RefSwap is (eq. 5), and its rates on the test part."""

    cut: Cut
    after: Rates


@dataclass(frozen=True)
class Summary:
    """A verifier, its flaw and what RefSwap does to it, at one setting.

    Attributes:
        before, after: on the test part, undefended and behind RefSwap.
        accuracy_change: accuracy behind RefSwap less the undefended one, response by response, on the test part.
        dev_before, dev_after: on the calibration part.
        gamma: the threshold in use; `cut` is what eq. 5 gives.
        k_one, s_score, length: the baselines: max_p_cf at K = 1 (the s-score sees the same two probabilities), the
            s-score, and the length of the response.
        auc, one_auc, s_auc: signed, over accepted correct responses and accepted keys of all parts; `cohens_d`
            likewise.
        pass_right, pass_fooled: shares of those two populations that reach gamma.
        n_right, n_fooled: sizes of those two populations; where the data say of no response that it is correct, the
            first is of all responses accepted.
        kept_right, kept_fooled: those of them that keep their YES.
        judged: the data say which responses are correct; without it there is no accuracy, no AUC and no eq. 5.
        n_fewer: samples among those with fewer than K references, since there are no more of the same answer type.
        cost_clean, cost_key: passes and tokens, all parts.
    """

    threshold: float
    k: int
    delta: float
    gamma: float
    cut: Cut
    before: Rates
    after: Rates
    accuracy_change: Interval
    dev_before: Rates
    dev_after: Rates
    k_one: Baseline
    s_score: Baseline
    length: Baseline
    auc: Interval
    one_auc: Interval
    s_auc: Interval
    cohens_d: Interval
    pass_right: Interval
    pass_fooled: Interval
    n_right: int
    n_fooled: int
    kept_right: int
    kept_fooled: int
    judged: bool
    n_fewer: int
    cost_clean: Cost
    cost_key: Cost


def summarise(
    samples: Samples,
    *,
    k: int,
    delta: float,
    gamma: float | None = None,
    threshold: float = 0.5,
    level: float = 0.95,
    seed: int = 0,
) -> Summary:
    """Everything the page and the command line say of a verifier.

    Args:
        samples: of one arm.
        k: counterfactual references of a check.
        delta: accuracy tolerance of eq. 5, as a fraction of 1.
        gamma: threshold set by hand; None takes eq. 5's, or `USUAL_GAMMA` without correctness.
        threshold: p_yes from which the baseline verdict is YES.
        level: of the intervals.
        seed: of their bootstrap.
    """
    yes, score, s = samples.yes(threshold), max_p_cf(samples, k), s_score(samples)
    first, size, part = max_p_cf(samples, 1), samples.length.astype(np.float64), ~samples.dev
    rates = partial(_rates, samples, level=level, seed=seed)

    def baseline(values: Floats, floor: float = 0.0, top: float = 1.0) -> Baseline:
        own = _fitted(samples, yes, values, delta, floor, top)
        return Baseline(own, rates(decide(yes, values, own.value), part))

    cut = _fitted(samples, yes, score, delta)
    used = gamma if gamma is not None else cut.value if samples.judged else USUAL_GAMMA
    after, good, fooled = decide(yes, score, used), (yes == 1) & samples.meant, (yes == 1) & ~samples.clean
    groups = samples.item, good & samples.known, fooled
    return Summary(
        threshold=threshold,
        k=k,
        delta=delta,
        gamma=used,
        cut=cut,
        before=rates(yes, part),
        after=rates(after, part),
        accuracy_change=_changed(samples, yes, after, part & samples.clean, level, seed),
        dev_before=rates(yes, samples.dev),
        dev_after=rates(after, samples.dev),
        k_one=baseline(first),
        s_score=baseline(s, floor=-1.0),
        length=baseline(size, top=float(size.max(initial=0)) + 1),
        auc=auc_interval(score, *groups, level=level),
        one_auc=auc_interval(first, *groups, level=level),
        s_auc=auc_interval(s, *groups, level=level),
        cohens_d=d_interval(score, *groups, level=level),
        **_passed(samples, after, good, fooled, level, seed),
        judged=samples.judged,
        n_fewer=int((good | fooled)[(samples.asked[:, :k].sum(axis=1) < k)].sum()),
        cost_clean=cost(samples, yes, k, samples.clean),
        cost_key=cost(samples, yes, k, ~samples.clean),
    )


def _fitted(samples: Samples, yes: Floats, values: Floats, delta: float, floor: float = 0.0, top: float = 1.0) -> Cut:
    """Eq. 5 on the responses of the calibration part whose correctness is known."""
    own = samples.clean & samples.dev & samples.known
    return calibrate(values[own], yes[own], samples.right[own], delta, floor=floor, top=top)


def _rates(samples: Samples, verdicts: Floats, part: Bools, level: float, seed: int) -> Rates:
    own = part & samples.clean
    lost = np.isnan(verdicts)
    hit = np.where(lost | ~samples.known, np.nan, verdicts == samples.right)
    numbers = range(int(samples.key.max(initial=CLEAN)) + 1)
    per_key = tuple(_rate(verdicts, samples, part & (samples.key == i), level, seed) for i in numbers)
    known = [-1.0 if np.isnan(one.value) else one.value for one in per_key]
    return Rates(
        accuracy=_rate(hit, samples, own, level, seed),
        fpr=_mean_of_keys(verdicts, samples, part & ~samples.clean, level, seed),
        per_key=per_key,
        worst=int(np.argmax(known)) if known else -1,
        unread_clean=int(lost[own].sum()),
        unread_keys=tuple(int(lost[part & (samples.key == i)].sum()) for i in numbers),
    )


def _rate(values: Floats, samples: Samples, part: Bools, level: float, seed: int) -> Interval:
    return cluster_rate(values[part], samples.item[part], level=level, seed=seed)


def _passed(samples: Samples, after: Floats, good: Bools, fooled: Bools, level: float, seed: int) -> dict[str, Any]:
    """The accepted correct responses and the accepted keys that keep their YES, as `Summary` names them."""
    return {
        "pass_right": _rate(after, samples, good, level, seed),
        "pass_fooled": _rate(after, samples, fooled, level, seed),
        "n_right": int(good.sum()),
        "n_fooled": int(fooled.sum()),
        "kept_right": int((good & (after == 1)).sum()),
        "kept_fooled": int((fooled & (after == 1)).sum()),
    }


def _changed(samples: Samples, before: Floats, after: Floats, part: Bools, level: float, seed: int) -> Interval:
    """How much more often the later verdicts are right, response by response."""
    gain = np.where(samples.right, after - before, before - after)
    return difference_of_rates(gain[part], samples.item[part], level=level, seed=seed)


def _mean_of_keys(values: Floats, samples: Samples, part: Bools, level: float, seed: int) -> Interval:
    """The mean over the keys of each key's share.

    With weights 1 / n of its key for each row this mean is a ratio of sums; its residual is what a row differs from
    its own key's share, which is moved to the mean, so that the cluster intervals take it as it is.
    """
    used = part & ~np.isnan(values)
    v, key, item = values[used], samples.key[used], samples.item[used]
    n = np.bincount(key)
    if (n > 0).sum() < 2 or v.min() == v.max():
        return cluster_rate(v, item, level=level, seed=seed)
    share = np.bincount(key, weights=v) / np.maximum(n, 1)
    weight = 1 / n[key]
    found = cluster_ratio(weight * (v - share[key] + share[n > 0].mean()), weight, item, level=level, seed=seed)
    lower, upper = np.clip([found.lower, found.upper], 0.0, 1.0)
    return replace(found, lower=float(lower), upper=float(upper))


def _nothing(level: float) -> Interval:
    return Interval(_NAN, _NAN, _NAN, level, NO_DATA, 0, 0)


def _no_interval(value: float, level: float, n: int, g: int) -> Interval:
    return Interval(value, _NAN, _NAN, level, NO_DATA if np.isnan(value) else ONE_CLUSTER, n, g)


def _by_item(item: Ints, used: Bools) -> tuple[Ints, int, int]:
    """Items that are used numbered from 0 (N,), 0 elsewhere; how many scores and how many items are used."""
    codes = np.unique(item[used], return_inverse=True)[1]
    full = np.zeros(len(item), dtype=np.int64)
    full[used] = codes
    return full, int(used.sum()), int(codes.max(initial=-1)) + 1


def auc_interval(score: Floats, item: Ints, high: Bools, low: Bools, *, level: float = 0.95) -> Interval:
    """The signed AUC of two groups of scores.

    An item brings all its scores of both groups along, so responses and keys of one question stay together.

    Args:
        score: (N,); NaN is left out.
        item: the cluster of each score (N,).
        high: members of the first group (N,).
        low: members of the second; the AUC is the chance that one of `high` exceeds one of `low`.
        level: confidence level.

    Returns:
        NaN where a group is empty. Where the groups do not overlap at all no item differs, so the bound is Wilson's for
        no event among the items of the smaller group.
    """
    high, low = high & ~np.isnan(score), low & ~np.isnan(score)
    full, n, g = _by_item(item, high | low)
    value, parts = auc_parts(score[high], full[high], score[low], full[low], g)
    if np.isnan(value) or g < 2:
        return _no_interval(value, level, n, g)
    if value in (0.0, 1.0):
        fewest = min(len(np.unique(item[high])), len(np.unique(item[low])))
        return Interval(value, *separation_bounds(value, fewest, level), level, SEPARATED, n, g)
    if np.abs(parts).max() < 1e-12:
        return Interval(value, _NAN, _NAN, level, NO_VARIATION, n, g)
    return Interval(value, *auc_bounds(value, parts, level), level, LOGIT, n, g)


def d_interval(score: Floats, item: Ints, high: Bools, low: Bools, *, level: float = 0.95) -> Interval:
    """Cohen's d of two groups of scores; arguments as `auc_interval`."""
    high, low = high & ~np.isnan(score), low & ~np.isnan(score)
    value = cohens_d(score[high], score[low])
    full, n, g = _by_item(item, high | low)
    if np.isnan(value) or g < 2:
        return _no_interval(value, level, n, g)
    return Interval(value, *d_bounds(score[high], full[high], score[low], full[low], g, level), level, SINH, n, g)


# A summary of RefSwap as rows of the table `metrics`.

REFSWAP, K_ONE, S_SCORE, LENGTH = "refswap", "refswap, K = 1", "s-score", "length"


def summary_rows(summary: Summary, keys: Sequence[str]) -> pd.DataFrame:
    """The summary as rows of the table `metrics`: group is the part of the items, attack the key."""
    rows: list[dict[str, object]] = []

    def add(metric: str, group: str, defense: str, one: Interval, attack: str = NONE, unread: int = 0) -> None:
        about = {"metric": metric, "attack": attack, "defense": defense, "group": group, "n_unread": unread}
        rows.append(about | interval_columns(one))

    for group, defense, rates in (
        ("test", NONE, summary.before),
        ("test", REFSWAP, summary.after),
        ("test", K_ONE, summary.k_one.after),
        ("test", S_SCORE, summary.s_score.after),
        ("test", LENGTH, summary.length.after),
        ("dev", NONE, summary.dev_before),
        ("dev", REFSWAP, summary.dev_after),
    ):
        add("accuracy", group, defense, rates.accuracy, unread=rates.unread_clean)
        add("fpr", group, defense, rates.fpr, unread=sum(rates.unread_keys))
        worst = rates.unread_keys[rates.worst] if rates.worst >= 0 else 0
        add("fpr_worst", group, defense, rates.fpr_worst, unread=worst)
        for name, one, lost in zip(keys, rates.per_key, rates.unread_keys, strict=True):
            add("key_fpr", group, defense, one, name, unread=lost)
    for metric, one in (
        ("auc", summary.auc),
        ("one_auc", summary.one_auc),
        ("s_auc", summary.s_auc),
        ("cohens_d", summary.cohens_d),
    ):
        add(metric, "all", NONE, one)
    for metric, one in (("pass_right", summary.pass_right), ("pass_fooled", summary.pass_fooled)):
        add(metric, "all", REFSWAP, one)
    for metric, defense, cut in (
        ("gamma", REFSWAP, summary.cut),
        ("one_cut", K_ONE, summary.k_one.cut),
        ("s_cut", S_SCORE, summary.s_score.cut),
        ("length_cut", LENGTH, summary.length.cut),
    ):
        add(metric, "dev", defense, Interval(cut.value, np.nan, np.nan, summary.auc.level, "eq. 5", cut.n, cut.n))
    add("accuracy_change", "test", REFSWAP, summary.accuracy_change, unread=summary.after.unread_clean)
    return pd.DataFrame(rows)
