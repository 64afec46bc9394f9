"""Audits in numbers: flips at a mass and their controls, consistency, AUC, each with its interval; no torch.

A split has labelled pairs as positives and others as unlabelled; of the unlabelled ones the truth is known where a
human preference is held back. Agreement is 1 where a verdict is the human's, 0 where it is not, NaN where unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri

from engine.core.errors import InputError
from engine.core.schema import METRICS, NONE
from engine.stats.auc import LOGIT, SEPARATED, auc_bounds, auc_parts, separation_bounds
from engine.stats.intervals import NO_DATA, NO_VARIATION, ONE_CLUSTER, ItemBootstrap, Mean
from engine.transport.readout import NothingToAuditError, TransportPath, kept

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

GEOMETRY = ("centroid", "nearest", "top10")
"""Scores that need no transport; higher looks more like a verified preference."""
CONTROLS = ("nothing", "all", "random", *GEOMETRY)
"""Ways to flip as many verdicts as the audit does."""
NO_ESTIMATE = (
    "The transported mass cannot be estimated, since no pair has both a human preference and a verdict of the judge. "
    "Set the share of verdicts to keep: mass, for example 0.8 (--set mass=0.8)."
)
HYPERGEOMETRIC = "hypergeometric: random choices of the flips, these pairs given"
"""Method of the band of random flips: where they land, not how well the judge is known."""
CONDITIONAL = (
    "Intervals of the agreement after the flips take transport and mass as fitted, so they are a little narrow: "
    "simulated, nominal 95 % hold in 88 to 92 %."
)
"""What every interval behind the flips is conditional on."""
MIN_CELL = 10
"""Pairs below which a cell takes no part in claims."""
AUDIT_ITSELF = -1
"""Number of the split in which every labelled pair is a positive."""


@dataclass(frozen=True)
class Split:
    """One division of the pairs, with its transport path.

    Attributes:
        number: -1 where every labelled pair is a positive, else the seeded split's number.
        part: the question type it is about; empty where all types share one transport.
        pair: code of each unlabelled pair (n_U,), the same in every split of an audit.
        agrees: agreement of each unlabelled pair's verdict (n_U,), as above.
        scores: the baselines of `GEOMETRY`, each (n_U,).
        estimate: agreement of the clean verdicts with the people on the positives: the mass of paper 002, 5.1.
        n_estimate: positives that the estimate rests on.
    """

    number: int
    part: str
    path: TransportPath
    pair: Ints
    agrees: Floats
    scores: dict[str, Floats]
    estimate: float
    n_estimate: int

    @property
    def oracle(self) -> float:
        """Agreement of the unlabelled verdicts themselves; NaN where no truth is known. Hidden from the audit."""
        known = self.agrees[~np.isnan(self.agrees)]
        return float(known.mean()) if len(known) else float("nan")

    def mass(self, wanted: float | None = None) -> float:
        """The mass asked for, else the estimate; at least one unit, so that a judge that is never right has one.

        Raises:
            InputError: none was asked for, and no positive has a verdict to estimate it from.
        """
        if wanted is not None:
            return wanted
        if np.isnan(self.estimate):
            raise NothingToAuditError(NO_ESTIMATE)
        return float(np.clip(self.estimate, 1 / self.path.n_unlabelled, 1.0))


@dataclass(frozen=True)
class Audit:
    """All splits of one attack.

    Attributes:
        pairs: comparison_id, item_id, type and human of every pair, its position being its code.
        splits: the seeded ones, in which the truth of the unlabelled is known; several of one number where each
            question type has a transport of its own.
        itself: the audit of pairs nobody labelled; empty where every pair is labelled.
        boot: resamples of the items.
    """

    attack: str
    pairs: pd.DataFrame
    splits: tuple[Split, ...]
    itself: tuple[Split, ...]
    boot: ItemBootstrap

    @property
    def shown(self) -> tuple[Split, ...]:
        """The split that is drawn, in all its parts: the audit itself, else the first seeded one."""
        return self.itself or tuple(s for s in self.splits if s.number == self.splits[0].number)

    def rows(self, audit: pd.DataFrame) -> pd.DataFrame:
        """The rows of the table `audit` that belong to the split shown."""
        return audit[(audit["split"] == self.shown[0].number) & (audit["attack"] == self.attack)]


def read_audit(audit: pd.DataFrame, transport: pd.DataFrame, attack: str = NONE, *, seed: int = 0) -> Audit:
    """The audit of one attack from the tables `audit` and `transport` of a run.

    Raises:
        InputError: the run has no audit of that attack.
    """
    rows = audit[audit["attack"] == attack]
    events = transport[transport["attack"] == attack]
    if not len(rows):
        raise InputError(
            f"The run has no audit under the attack {attack!r}. It has: {', '.join(set(audit['attack']))}."
        )
    pairs = rows.drop_duplicates("comparison_id")[["comparison_id", "item_id", "type", "human"]].reset_index(drop=True)
    codes = pd.Series(range(len(pairs)), index=pairs["comparison_id"])
    splits = [_split(*key, *both, codes) for key, both in _by_part(rows, events).items()]
    itself = tuple(split for split in splits if split.number == AUDIT_ITSELF)
    seeded = tuple(split for split in splits if split.number != AUDIT_ITSELF)
    return Audit(attack, pairs, seeded, itself, ItemBootstrap(pairs["item_id"].to_numpy(), seed))


def _by_part(rows: pd.DataFrame, events: pd.DataFrame) -> dict[tuple[int, str], tuple[pd.DataFrame, pd.DataFrame]]:
    """The rows of both tables of each split and part, by number and part."""
    keys = [[int(n) for n in frame["split"]] for frame in (rows, events)]
    parts = [frame["part"].fillna("").tolist() for frame in (rows, events)]
    place = [pd.Series(list(zip(k, p, strict=True)), dtype=object) for k, p in zip(keys, parts, strict=True)]
    groups = [series.groupby(series, sort=False).indices for series in place]
    order: list[tuple[int, str]] = sorted(zip(keys[0], parts[0], strict=True))
    order = list(dict.fromkeys(order))
    return {key: (rows.iloc[groups[0][key]], events.iloc[groups[1][key]]) for key in order}


def _split(number: int, part: str, rows: pd.DataFrame, events: pd.DataFrame, codes: pd.Series) -> Split:
    unlabelled = rows[rows["role"] == "unlabelled"].sort_values("place")
    positives = rows[rows["role"] != "unlabelled"]
    path = TransportPath(
        int((positives["role"] == "positive").sum()),
        len(unlabelled),
        events["sent"].to_numpy(dtype=np.int64),
        events["unlabelled"].to_numpy(dtype=np.int64),
        events["positive"].to_numpy(dtype=np.int64),
        events["price"].to_numpy(dtype=np.float64),
    )
    return Split(
        number,
        part,
        path,
        unlabelled["comparison_id"].map(codes).to_numpy(dtype=np.int64),
        unlabelled["agrees"].to_numpy(dtype=np.float64),
        {name: unlabelled[name].to_numpy(dtype=np.float64) for name in GEOMETRY},
        float(positives["agrees_clean"].mean()),
        int(positives["agrees_clean"].notna().sum()),
    )


def planted(answer: dict[str, Any], alpha: float) -> Audit:
    """The audit of planted directions: one split whose truth is known for every verdict.

    Args:
        answer: of the job `planted_audit`.
        alpha: share of right verdicts, which stands as the estimate of the mass.
    """
    n = int(answer["n_unlabelled"])
    events = {name: np.asarray(answer[name], dtype=np.int64) for name in ("sent", "unlabelled", "positive")}
    path = TransportPath(int(answer["n_positive"]), n, **events, price=np.asarray(answer["price"], dtype=np.float64))
    names = [f"verdict {i + 1}" for i in range(n)]
    pairs = pd.DataFrame({"comparison_id": names, "item_id": names, "type": "all", "human": None})
    scores = {name: np.asarray(answer["scores"][name], dtype=np.float64) for name in GEOMETRY}
    truth = np.asarray(answer["truth"], dtype=np.float64)
    split = Split(0, "", path, np.arange(n), truth, scores, alpha, int(answer["n_positive"]))
    return Audit(NONE, pairs, (split,), (), ItemBootstrap(names))


# From a mass to flips, and the controls at as many flips.


@dataclass(frozen=True)
class Decision:
    """The audit of one split at one mass.

    Attributes:
        mass: transported.
        flips: verdicts that are flipped, s_bar < eta (n_U,).
        after: agreement after the flips (n_U,).
        controls: expected agreement under each control of `CONTROLS`, at as many flips (n_U,).
    """

    mass: float
    flips: Bools
    after: Floats
    controls: dict[str, Floats]


def decide(split: Split, mass: float | None = None, eta: float = 0.5) -> Decision:
    """Flip the verdicts that the plan of a mass does not reach (paper 002, algorithm 1), with the controls beside it.

    Args:
        split: with its path.
        mass: in (0, 1]; None takes the split's own estimate.
        eta: in (0, 1]; items are used in whole or not at all but for a few, so it hardly acts.

    Raises:
        InputError: mass or eta outside its range.
    """
    used = split.mass(mass)
    flips = ~kept(split.path.scores(used), eta)
    return Decision(used, flips, flipped(split.agrees, flips), controls(split, int(flips.sum())))


def decisions(audit: Audit, mass: float | None = None, eta: float = 0.5) -> list[Decision]:
    """The audit of each seeded split at one mass, or at each split's own estimate."""
    return [decide(split, mass, eta) for split in audit.splits]


def flipped(agrees: Floats, flips: Bools) -> Floats:
    """Agreement after some verdicts on pairs without ties are turned round; unknown stays unknown."""
    return np.where(flips, 1 - agrees, agrees)


def controls(split: Split, n_flips: int) -> dict[str, Floats]:
    """Expected agreement of each pair when as many verdicts are flipped without transport.

    nothing: none is flipped; all: all are; random: any, with closed form a (1 - q) + (1 - a) q at a share q; the others
    flip those with the lowest score, ties by position.
    """
    agrees, n = split.agrees, len(split.agrees)
    share = n_flips / n
    after = {"nothing": agrees, "all": 1 - agrees, "random": agrees * (1 - share) + (1 - agrees) * share}
    for name in GEOMETRY:
        chosen = np.zeros(n, dtype=bool)
        chosen[np.argsort(split.scores[name], kind="stable")[:n_flips]] = True
        after[name] = flipped(agrees, chosen)
    return after


def random_band(splits: Sequence[Split], n_flips: Sequence[int], z: float = 1.96) -> tuple[float, float, float]:
    """Consistency when so many verdicts of each split, drawn at random, are flipped: expectation, and a band's ends.

    A pair's agreement is its mean over the splits that have it unlabelled, as in `per_pair`, so in one split a flip
    changes consistency by (1 - 2 a) / (N c): a its agreement, c the splits that have it, N all pairs. The flipped ones
    are drawn without replacement, and splits apart from one another. For one split this is the hypergeometric
    a + (k - 2 X) / n, X being the flipped verdicts that agreed.

    Args:
        splits: with their agreement.
        n_flips: verdicts flipped in each (as many as splits).
        z: half width in standard deviations.

    Returns:
        NaN where no truth is known.
    """
    n_pairs = max((int(split.pair.max()) + 1 for split in splits), default=0)
    counts = np.zeros(n_pairs)
    for split in splits:
        np.add.at(counts, split.pair[~np.isnan(split.agrees)], 1.0)
    known = int((counts > 0).sum())
    if not known:
        return (float("nan"),) * 3
    expected = variance = 0.0
    for split, k in zip(splits, n_flips, strict=True):
        n, truth = len(split.agrees), ~np.isnan(split.agrees)
        share = np.divide(1.0, known * counts[split.pair], out=np.zeros(n), where=truth)
        agrees = np.nan_to_num(split.agrees)
        change = share * (1 - 2 * agrees)
        expected += float(share @ agrees) + k * float(change.mean())
        variance += k * float(change.var()) * (n - k) / (n - 1) if n > 1 else 0.0
    half = z * float(np.sqrt(variance))
    return expected, expected - half, expected + half


def per_pair(splits: Sequence[Split], values: Sequence[Floats], n_pairs: int) -> Floats:
    """Mean of a value over the splits that had a pair unlabelled (n_pairs,); NaN where none had, or it is unknown."""
    total, count = np.zeros(n_pairs), np.zeros(n_pairs)
    for split, value in zip(splits, values, strict=True):
        known = ~np.isnan(value)
        np.add.at(total, split.pair[known], value[known])
        np.add.at(count, split.pair[known], 1.0)
    means: Floats = np.divide(total, count, out=np.full(n_pairs, np.nan), where=count > 0)
    return means


def stability(resampled: Floats, mass: float) -> Floats:
    """Share of the bootstraps of the positives in which each unlabelled pair is kept at this mass (n_U,).

    Args:
        resampled: entry mass of each pair under each bootstrap (n_U, B).
        mass: in (0, 1].
    """
    share: Floats = (resampled < mass - 1e-12).mean(axis=1)
    return share


# Tables of metrics, items resampled.


def consistency(
    audit: Audit, mass: float | None = None, *, eta: float = 0.5, level: float = 0.95, min_cell: int = MIN_CELL
) -> pd.DataFrame:
    """Consistency before and after the audit and under its controls, overall and by question type.

    cons_orig, cons_adj and gain (their difference, paired); cons_CONTROL for each of `CONTROLS`; gain_over_best, over
    the control that is best overall on these same pairs, a choice that is not resampled and so favours that control;
    gain_over_random, over the expectation of as many random flips. A pair's value is its mean over the splits in which
    it was unlabelled; items are resampled with transport and mass as they are, so intervals are conditional on them.
    The bounds of cons_random are the band of the random choice itself. Rows of `group` are question types; a type with
    fewer than `min_cell` pairs has no interval.

    Args:
        audit: with seeded splits.
        mass: in (0, 1]; None takes each split's own estimate.
        eta: threshold of s_bar.
        level: confidence level.
        min_cell: see above.

    Returns:
        Table `metrics`; empty where no truth is known.
    """
    if not audit.splits:
        return METRICS.empty()
    decided = decisions(audit, mass, eta)
    values = _values(audit, decided)
    best = max(CONTROLS, key=lambda name: np.nan_to_num(np.nanmean(values[f"cons_{name}"]), nan=-1.0))
    values["gain"] = values["cons_adj"] - values["cons_orig"]
    values["gain_over_best"] = values["cons_adj"] - values[f"cons_{best}"]
    values["gain_over_random"] = values["cons_adj"] - values["cons_random"]
    cells = [(name, "", v) for name, v in values.items()]
    types = audit.pairs["type"].to_numpy(dtype=object)
    for kind in dict.fromkeys(types):
        members = types == kind
        cells += [(n, str(kind), np.where(members, values[n], np.nan)) for n in ("cons_orig", "cons_adj", "gain")]
    means = audit.boot.means([v for _, _, v in cells], level, [_is_share(name) for name, _, _ in cells])
    rows = [
        _row(audit, name, mean, group, level, min_cell if group else 0)
        for (name, group, _), mean in zip(cells, means, strict=True)
    ]
    band = random_flips(audit, [int(d.flips.sum()) for d in decided], level)
    for row in rows:
        if row["metric"] == "cons_random":
            row |= band
    return METRICS.conform(pd.DataFrame(rows))


def random_flips(audit: Audit, n_flips: Sequence[int], level: float = 0.95) -> dict[str, Any]:
    """Value, ends of the band and method of so many random flips in each seeded split (as many as splits)."""
    value, lower, upper = random_band(audit.splits, n_flips, float(ndtri(0.5 + level / 2)))
    if not upper - lower > 1e-9:  # NaN too; where no choice differs from another there is no band to draw
        return {"value": value, "lower": np.nan, "upper": np.nan, "method": NO_VARIATION}
    lower, upper = (float(np.clip(end, 0.0, 1.0)) for end in (lower, upper))
    return {"value": value, "lower": lower, "upper": upper, "method": HYPERGEOMETRIC}


def random_curve(audit: Audit, masses: Sequence[float], level: float = 0.95) -> pd.DataFrame:
    """Consistency of as many random flips as a plan of each mass leaves over: mass, random, random_lower, random_upper.

    The bounds are NaN where no choice differs from another, all numbers where no truth is known.
    """
    bands = [random_flips(audit, [round((1 - m) * s.path.n_unlabelled) for s in audit.splits], level) for m in masses]
    frame = pd.DataFrame(bands, columns=["value", "lower", "upper"]).assign(mass=np.asarray(masses, np.float64))
    return frame.rename(columns={"value": "random", "lower": "random_lower", "upper": "random_upper"})


def best_control(table: pd.DataFrame) -> str:
    """The control with the highest consistency in a table of `consistency`."""
    overall = table[table["group"].isna() & table["metric"].isin([f"cons_{name}" for name in CONTROLS])]
    known = overall.dropna(subset=["value"]).sort_values("value", ascending=False, kind="stable")
    return str(known["metric"].iloc[0]).removeprefix("cons_") if len(known) else ""


def _values(audit: Audit, decided: Sequence[Decision]) -> dict[str, Floats]:
    n = len(audit.pairs)
    values = {
        "cons_orig": per_pair(audit.splits, [split.agrees for split in audit.splits], n),
        "cons_adj": per_pair(audit.splits, [d.after for d in decided], n),
    }
    for name in CONTROLS:
        values[f"cons_{name}"] = per_pair(audit.splits, [d.controls[name] for d in decided], n)
    return values


def _is_share(metric: str) -> bool:
    """True for a metric that lies in [0, 1]; a gain can be negative."""
    return not metric.startswith("gain")


def _row(audit: Audit, metric: str, mean: Mean, group: str, level: float, min_cell: int) -> dict[str, Any]:
    few = mean.n < min_cell
    floor = 0.0 if _is_share(metric) else -1.0
    lower, upper = (float(np.clip(end, floor, 1.0)) for end in (mean.lower, mean.upper))
    return {
        "metric": metric,
        "attack": audit.attack,
        "defense": NONE,
        "group": group or None,
        "value": mean.value,
        "lower": np.nan if few else lower,
        "upper": np.nan if few else upper,
        "level": level,
        "method": f"fewer than {min_cell} pairs" if few else mean.method,
        "n": mean.n,
        "n_clusters": mean.n_items,
    }


def metric_of_pairs(audit: Audit, metric: str, values: Floats, level: float) -> dict[str, Any]:
    """A row of the table `metrics`: the mean of one value a pair (n,), NaN left out, items resampled."""
    return _row(audit, metric, audit.boot.mean(values, level, share=_is_share(metric)), "", level, 0)


def masses_and_flips(
    audit: Audit, rows: pd.DataFrame, mass: float | None = None, *, eta: float = 0.5, level: float = 0.95
) -> pd.DataFrame:
    """mass_clean, mass_attacked (under an attack), mass_oracle and flip_share: means over the seeded splits.

    The n of each is the pairs that entered: of the masses of `mass_clean` and `mass_attacked` the positives with a
    verdict, of the other two the unlabelled pairs. Items are resampled, all splits at once.

    Args:
        audit: with its splits.
        rows: the table `audit`, of this attack at least.
        mass: in (0, 1]; None takes each split's own estimate.
        eta: threshold of s_bar.
        level: confidence level.

    Returns:
        Table `metrics`; without a row where nothing is known.
    """
    seeded = rows[(rows["attack"] == audit.attack) & (rows["split"] != AUDIT_ITSELF)]
    codes = {str(pair): code for code, pair in enumerate(audit.pairs["comparison_id"])}
    positives = seeded[seeded["role"] != "unlabelled"]
    parts = [group for _, group in positives.groupby(["split", positives["part"].fillna("")], sort=False)]

    def of_positives(column: str) -> list[tuple[Ints, Floats]]:
        pairs: list[Ints] = [np.array([codes[c] for c in part["comparison_id"]], dtype=np.int64) for part in parts]
        values: list[Floats] = [part[column].to_numpy(dtype=np.float64) for part in parts]
        return list(zip(pairs, values, strict=True))

    values_of = {"mass_clean": of_positives("agrees_clean")}
    if audit.attack != NONE:
        values_of["mass_attacked"] = of_positives("agrees")
    values_of["mass_oracle"] = [(s.pair, s.agrees) for s in audit.splits]
    decided = decisions(audit, mass, eta)
    values_of["flip_share"] = [(s.pair, d.flips.astype(np.float64)) for s, d in zip(audit.splits, decided, strict=True)]
    means = {name: audit.boot.mean_of_splits(splits, level) for name, splits in values_of.items()}
    known = [_row(audit, name, mean, "", level, 0) for name, mean in means.items() if mean.n]
    return METRICS.conform(pd.DataFrame(known)) if known else METRICS.empty()


def sensitivity(audit: Audit, masses: Sequence[float], *, eta: float = 0.5, level: float = 0.95) -> pd.DataFrame:
    """cons_adj at each mass (`group` holds the mass), over all seeded splits; table `metrics`."""
    if not audit.splits:
        return METRICS.empty()
    n = len(audit.pairs)
    after = [per_pair(audit.splits, [d.after for d in decisions(audit, m, eta)], n) for m in masses]
    means = audit.boot.means(after, level)
    rows = [
        _row(audit, "sensitivity_cons_adj", mean, f"{m:.2f}", level, 0) for m, mean in zip(masses, means, strict=True)
    ]
    return METRICS.conform(pd.DataFrame(rows))


def ranking_quality(audit: Audit, *, level: float = 0.95) -> pd.DataFrame:
    """auc_entry_mass, auc_centroid, auc_nearest and auc_top10: how well each score finds verdicts that agree.

    The mean over the seeded splits, and what each item adds to it gives the interval. Where a score separates the
    verdicts in every split, no item differs, so the bound is Wilson's for no event among items of the smaller group.
    """
    rows = []
    judged = np.unique(np.concatenate([s.pair[~np.isnan(s.agrees)] for s in audit.splits] or [np.zeros(0, int)]))
    counts = {"n": len(judged), "n_clusters": len(np.unique(audit.boot.codes[judged]))}
    fewest = _smaller_group(audit)
    for name, read in _scores().items():
        value, parts = _mean_auc(audit, read)
        low, high, method = _auc_bounds(value, parts, fewest, level)
        about = {"metric": f"auc_{name}", "attack": audit.attack, "defense": NONE, "level": level, "method": method}
        rows.append(about | counts | {"value": value, "lower": low, "upper": high})
    return METRICS.conform(pd.DataFrame(rows))


def _smaller_group(audit: Audit) -> int:
    """Items with a verdict that agrees, or with one that does not, whichever are fewer."""
    sides = []
    for side in (1.0, 0.0):
        pairs = [s.pair[s.agrees == side] for s in audit.splits]
        sides.append(len(np.unique(audit.boot.codes[np.concatenate(pairs or [np.zeros(0, int)])])))
    return min(sides)


def _auc_bounds(value: float, parts: Floats, fewest: int, level: float) -> tuple[float, float, str]:
    """Ends of an AUC's interval and its method, from what each item that was judged adds (G,)."""
    if np.isnan(value):
        return np.nan, np.nan, NO_DATA
    if len(parts) > 1 and np.abs(parts).max() > 1e-9:
        return *auc_bounds(value, parts, level), LOGIT
    if min(value, 1 - value) > 1e-9:
        return np.nan, np.nan, NO_VARIATION if fewest > 1 else ONE_CLUSTER
    return *separation_bounds(value, fewest, level), SEPARATED


def _scores() -> dict[str, Callable[[Split], Floats]]:
    readers: dict[str, Callable[[Split], Floats]] = {"entry_mass": lambda split: -split.path.entry_mass}
    for name in GEOMETRY:
        readers[name] = lambda split, name=name: split.scores[name]  # type: ignore[misc]
    return readers


def _mean_auc(audit: Audit, read: Callable[[Split], Floats]) -> tuple[float, Floats]:
    """Mean over the splits in which both kinds of verdict are there, and what each item that was judged adds to it."""
    codes, g = audit.boot.codes, int(audit.boot.codes.max(initial=-1)) + 1
    found, seen = [], np.zeros(g, dtype=np.bool_)
    for split in audit.splits:
        score, item = read(split), codes[split.pair]
        good, bad = ((split.agrees == side) & ~np.isnan(score) for side in (1.0, 0.0))
        if good.any() and bad.any():
            found.append(auc_parts(score[good], item[good], score[bad], item[bad], g))
            seen[item[good | bad]] = True
    if not found:
        return float("nan"), np.zeros(0)
    return float(np.mean([value for value, _ in found])), np.mean([parts for _, parts in found], axis=0)[seen]
