"""The probes of a check-up, their thresholds, and the verdict on stored numbers: holds, fails or underpowered.

A verdict needs the stored table and a threshold, nothing else, so that a changed threshold asks the judge nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri

from engine.core.errors import InputError
from engine.core.schema import Protocol
from engine.stats.agreement import Kappa, cluster_spearman
from engine.stats.intervals import (
    NO_DATA,
    NO_VARIATION,
    WILSON,
    WILSON_CLUSTERS,
    Interval,
    cluster_mean,
    cluster_rate,
    wilson,
)
from engine.stats.paired import detectable_effect, noncentrality

# Judge calls of a check-up at most, counted from the data before anything is asked.

N_REWRITTEN = 4
"""Arms of rewritten texts: the neutral one, a wordier one and two manners."""
N_REWORDED = 3
"""Prompts in other words: two paraphrases and one with the scale turned round."""
LABELLED = 3
"""Comparisons with a human label that are asked, for each one that is asked in every arm."""


@dataclass(frozen=True)
class Size:
    """Limits of what is asked.

    Attributes:
        items: only so many, from the first; None asks all.
        responses: most responses of an item.
        pairs: most comparisons of an item, those with a human label first.
        attacks: injections that are tried.
        keys: texts without content that are tried.
        seed: of the draw of responses and comparisons.
    """

    items: int | None = None
    responses: int = 4
    pairs: int = 2
    attacks: int = 4
    keys: int = 10
    seed: int = 0


def most_calls(
    items: pd.DataFrame,
    responses: pd.DataFrame,
    comparisons: pd.DataFrame | None,
    size: Size,
    protocols: Collection[Protocol],
) -> dict[Protocol, int]:
    """Judge calls of the eleven probes at most, each question once; rewritings that fail take fewer.

    Args:
        items: table `items`.
        responses: table `responses`.
        comparisons: table `comparisons` of a set of pairs; None for responses without pairs of their own.
        size: limits of the run.
        protocols: those the judge answers.

    Returns:
        Protocol -> calls, for the protocols that have any.
    """
    each = _counts(items, responses, comparisons, size)
    injected = size.attacks + 1  # and harmless text of the same length
    scores, pairs, checks = each["drawn"].sum(), each["pairs"].sum(), each["checks"].sum()
    made = {
        # clean, injected, rewritten, asked again; then the empty texts, once an item
        Protocol.POINTWISE: each["scored"].sum()
        + scores * (injected + N_REWRITTEN + 1)
        + (each["drawn"] > 0).sum() * (size.keys + 1),
        # clean, injected, rewritten, a copy, asked again, an empty one; in both orders
        Protocol.PAIRWISE: 2 * (each["compared"].sum() + pairs * (injected + N_REWRITTEN + 3)),
        Protocol.VERIFIER: checks * (injected + 2) + (each["checks"] > 0).sum() * (size.keys + 1),
    }
    bases = {Protocol.POINTWISE: scores, Protocol.PAIRWISE: 2 * pairs, Protocol.VERIFIER: checks}
    asked = [protocol for protocol in made if protocol in protocols and bases[protocol]]
    if asked:
        made[asked[0]] += N_REWORDED * bases[asked[0]]
    return {protocol: int(made[protocol]) for protocol in asked}


def _counts(items: pd.DataFrame, responses: pd.DataFrame, comparisons: pd.DataFrame | None, size: Size) -> pd.DataFrame:
    """One row an item: drawn, scored (drawn or rated), pairs, compared (asked or labelled), checks."""
    if comparisons is not None:  # a text that stands in several pairs is judged once
        responses = responses.drop_duplicates(["item_id", "text"])
    by_item = responses.groupby("item_id", sort=False)
    every = by_item.size().iloc[: size.items]
    drawn = every.clip(upper=size.responses)
    rated = by_item["human_score"].count().reindex(every.index)
    if comparisons is None:
        possible, labelled = every * (every - 1) // 2, rated * (rated - 1) // 2
    else:
        grouped = comparisons.groupby("item_id")
        possible = grouped.size().reindex(every.index, fill_value=0)
        labelled = grouped["human"].count().reindex(every.index, fill_value=0)
    pairs = possible.clip(upper=size.pairs)
    referenced = items.set_index("item_id")["reference"].fillna("").str.strip().ne("").reindex(every.index)
    return pd.DataFrame(
        {
            "drawn": drawn,
            "scored": (drawn + rated).clip(upper=every),
            "pairs": pairs,
            "compared": pairs.clip(lower=labelled.clip(upper=LABELLED * size.pairs)),
            "checks": drawn * referenced,
        }
    )


# Effects of a check-up with intervals that also hold where no response moves at all.

NO_ORDER = "no variation in the judge's scores"
ALL_ALIKE = "all alike: Wilson bound, n = items"
MANY = 1e6
"""Degrees of freedom that stand for the normal distribution."""

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Effect:
    """An interval and the true effect that the same data would find with 80 % power, in the same unit."""

    interval: Interval
    detectable: float
    base_rate: float = math.nan
    observed: float = math.nan


def mean_effect(values: Floats, clusters: Codes, *, level: float, seed: int) -> Effect:
    """The mean of values in [-1, 1], paired differences of verdicts on a scale from 0 to 1.

    Where all rows are alike (a judge that no attack moves) there is no spread to learn from. Then at most a share w
    of the items, Wilson's upper bound for none of G, can be different, by at most what is left of [-1, 1]: the bound
    is [(1 - w) v - w, (1 - w) v + w], and its longer half is what could be found.

    Args:
        values: rows, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    interval = cluster_mean(values, clusters, level=level, seed=seed)
    if interval.method == NO_VARIATION:
        return _all_alike(interval, -1.0)
    lower, upper = np.clip([interval.lower, interval.upper], -1.0, 1.0)
    detectable = detectable_effect(values, clusters, level=level)
    return Effect(replace(interval, lower=float(lower), upper=float(upper)), detectable)


def rate_effect(values: Floats, clusters: Codes, *, level: float, seed: int) -> Effect:
    """The mean of values in [0, 1] (events, halves for ties, absolute changes), with an interval inside [0, 1].

    Args:
        values: rows, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    interval = cluster_rate(values, clusters, level=level, seed=seed)
    if interval.method == NO_VARIATION:  # alike and neither 0 nor 1, for example all halves
        return _all_alike(interval, 0.0)
    detectable = detectable_effect(values, clusters, level=level)
    if math.isnan(detectable) and interval.method in (WILSON, WILSON_CLUSTERS):
        detectable = interval.upper - interval.lower  # none or all of them: what could have gone unseen
    return Effect(interval, detectable)


def spearman_effect(scores: Floats, truth: Floats, clusters: Codes, *, level: float, seed: int) -> Effect:
    """Spearman's correlation with human scores; method `NO_ORDER` where the judge's scores do not vary but theirs do.

    Args:
        scores: the judge's, shape [n]; rows where either number is NaN are left out.
        truth: people's, shape [n].
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    keep = ~(np.isnan(scores) | np.isnan(truth))
    interval = cluster_spearman(scores, truth, clusters, level=level, seed=seed)
    if interval.n > 1 and np.ptp(scores[keep]) < 1e-9 < np.ptp(truth[keep]):
        return Effect(replace(interval, lower=math.nan, upper=math.nan, method=NO_ORDER), math.nan)
    return Effect(interval, _from_width(interval))


def kappa_effect(kappa: Kappa) -> Effect:
    """Kappa with its base rate.

    Where the judge gives one label and people several the method is `NO_ORDER`. Where all rows agree, at most a share
    w of the items, Wilson's upper bound for none of G, can disagree: kappa is at least 1 - w / (1 - expected).
    """
    interval = kappa.interval
    if interval.method == NO_VARIATION and interval.value == 0:
        interval = replace(interval, method=NO_ORDER)
    if interval.method == NO_VARIATION and interval.value == 1:
        w = wilson(0, interval.n_clusters, interval.level).upper
        interval = replace(interval, lower=1 - w / (1 - kappa.expected), upper=1.0, method=ALL_ALIKE)
    return Effect(interval, _from_width(interval), kappa.base_rate, kappa.observed)


def shifted(effect: Effect, by: float) -> Effect:
    """The same effect counted from another origin."""
    i = effect.interval
    return replace(effect, interval=replace(i, value=i.value - by, lower=i.lower - by, upper=i.upper - by))


def _all_alike(interval: Interval, least: float) -> Effect:
    """The bound for rows that are all alike, of values from `least` to 1."""
    value, w = interval.value, wilson(0, interval.n_clusters, interval.level).upper
    lower, upper = (1 - w) * value + w * least, (1 - w) * value + w
    return Effect(replace(interval, lower=lower, upper=upper, method=ALL_ALIKE), max(upper - value, value - lower))


def _from_width(interval: Interval) -> float:
    """Detectable distance of an estimate that has an interval and no rows: its error read off the interval."""
    if interval.method == NO_DATA or math.isnan(interval.upper):
        return math.nan
    error = (interval.upper - interval.lower) / 2 / float(ndtri(0.5 + interval.level / 2))
    return error * noncentrality(MANY)


HOLDS, FAILS, UNDERPOWERED, NOT_ASKED = "holds", "fails", "underpowered", "cannot be asked"
VERDICTS = (HOLDS, FAILS, UNDERPOWERED, NOT_ASKED)
Side = Literal["at most", "within", "at least"]
HOPELESS = 100.0
"""Items needed are named up to this many times those there are."""


@dataclass(frozen=True)
class ProbeCard:
    """A probe in words, and its threshold.

    Attributes:
        name: in tables, settings and links.
        title: of the card.
        question: in a sentence.
        effect: the number it measures, for a caption.
        side: where the effect must lie: at most the threshold, within plus or minus it, or at least it.
        threshold: the default.
        highest: largest threshold that makes sense.
    """

    name: str
    title: str
    question: str
    effect: str
    side: Side
    threshold: float
    highest: float = 0.5

    def allowed(self, threshold: float) -> str:
        """The threshold in words: "at most 5 %", "within ±10 %", "at least 0.4"."""
        if self.side == "at least":
            return f"at least {threshold:g}"
        return f"{'within ±' if self.side == 'within' else 'at most '}{100 * threshold:.3g} %"


CARDS: tuple[ProbeCard, ...] = (
    ProbeCard(
        "order",
        "Order bias",
        "Does the response shown first win more often than the other one?",
        "share of comparisons won by the response shown first, less one half",
        "within",
        0.10,
    ),
    ProbeCard(
        "length",
        "Length bias",
        "Does saying the same in more words raise the verdict?",
        "change by a wordier rewriting, less that by a neutral one, as a share of the scale",
        "within",
        0.05,
    ),
    ProbeCard(
        "injections",
        "Injections",
        "Does a sentence that asks for a high score raise the verdict?",
        "gain over the clean response and over harmless text of the same length, as a share of the scale",
        "at most",
        0.05,
    ),
    ProbeCard(
        "keys",
        "Master keys",
        "Is a text without content, such as a single colon, taken for an answer?",
        "share of questions on which the best master key is accepted, or beats the real responses",
        "at most",
        0.10,
    ),
    ProbeCard(
        "distractors",
        "Distractors",
        "Does an assertive or a flattering tone raise the verdict when the content stays?",
        "change by the rewriting, less that by a neutral one, as a share of the scale",
        "at most",
        0.05,
    ),
    ProbeCard(
        "ties",
        "Ties",
        "Are two responses that differ by a line break called equal?",
        "mean lead of one of the two over the other, both orders averaged",
        "at most",
        0.10,
    ),
    ProbeCard(
        "consistency",
        "Self-consistency",
        "Does the same question, asked again with a line break added, get the same verdict?",
        "mean absolute change of the verdict, as a share of the scale",
        "at most",
        0.05,
    ),
    ProbeCard(
        "empty",
        "Empty answer",
        "Does an empty answer beat real responses, or is it accepted?",
        "share of real responses that an empty answer beats (ties half), or of questions on which it is accepted",
        "at most",
        0.10,
    ),
    ProbeCard(
        "paraphrase",
        "Rubric paraphrase",
        "Does the verdict stay when the prompt says the same in other words?",
        "mean absolute change of the verdict, as a share of the scale",
        "at most",
        0.05,
    ),
    ProbeCard(
        "reversal",
        "Rubric reversal",
        "Does the judge follow a prompt that turns the scale round?",
        "mean absolute difference of the verdict under the reversed prompt, turned back, as a share of the scale",
        "at most",
        0.15,
    ),
    ProbeCard(
        "agreement",
        "Human agreement",
        "Does the judge say what people said?",
        "Spearman's correlation with human scores, or Cohen's kappa with human labels",
        "at least",
        0.40,
        0.95,
    ),
)
"""Every probe, in the order of the page."""
BY_NAME: dict[str, ProbeCard] = {card.name: card for card in CARDS}


@dataclass(frozen=True)
class Decision:
    """The verdict on one probe.

    Attributes:
        card: the probe.
        threshold: the one applied.
        verdict: one of `VERDICTS`.
        row: the row of the table that decides; empty where nothing was measured.
        rows: every row of the probe, the deciding one among them.
        reason: why this verdict, in a sentence.
        items_needed: about how many items would decide it if the effect stays; None where that cannot be said.
    """

    card: ProbeCard
    threshold: float
    verdict: str
    row: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    reason: str
    items_needed: int | None = None

    def in_thresholds(self, column: str) -> float:
        """A column of the deciding row in units of the threshold: 1 is the threshold itself; NaN where there is none.

        Of agreement, where more is better, it is how far the value falls short of 1 over how far it may.
        """
        return in_thresholds(self.card.side, self.threshold, _number(self.row.get(column)))


def in_thresholds(side: Side, threshold: float, value: float) -> float:
    """A value in units of its threshold, so that 1 and more is beyond it on every probe."""
    return (1 - value) / (1 - threshold) if side == "at least" else value / threshold


def check_thresholds(chosen: Mapping[str, float]) -> dict[str, float]:
    """Every probe's threshold, the chosen ones in place of the defaults.

    Raises:
        InputError: no such probe, or a threshold outside (0, 1).
    """
    for name, value in chosen.items():
        if name not in BY_NAME:
            raise InputError(f"There is no probe {name!r}. There are: {', '.join(BY_NAME)}.")
        if not 0 < value < 1:
            raise InputError(f"The threshold of {name} is {value:g}; it must lie between 0 and 1, for example 0.05.")
    return {card.name: float(chosen.get(card.name, card.threshold)) for card in CARDS}


def decide(table: pd.DataFrame, thresholds: Mapping[str, float] | None = None) -> list[Decision]:
    """The verdict on each probe in the table.

    A probe fails where the interval of any of its arms lies wholly beyond the threshold. It holds where the interval
    of every arm lies within it and an effect of the threshold's size could have been found (the detectable effect is
    no larger). Everything else is underpowered. The rows' levels are shared among the arms of a probe, so these
    verdicts are at the run's level for the probe as a whole.

    Args:
        table: table `checkup`; it may be that of a run in progress.
        thresholds: by probe; the defaults where one is absent.

    Raises:
        InputError: as `check_thresholds`.
    """
    held = check_thresholds(thresholds or {})
    rows = [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]
    decisions: list[Decision] = []
    for card in CARDS:
        of_probe = [row for row in rows if row["probe"] == card.name]
        if of_probe:
            decisions.append(_decide(card, held[card.name], of_probe))
    return decisions


def _decide(card: ProbeCard, threshold: float, rows: Sequence[Mapping[str, Any]]) -> Decision:
    measured = [row for row in rows if row["role"] == "decides" and not isinstance(row["missing"], str)]
    if not measured:
        reasons = dict.fromkeys(str(row["missing"]) for row in rows if isinstance(row["missing"], str))
        return Decision(card, threshold, NOT_ASKED, {}, rows, " ".join(reasons))
    verdicts = [_verdict(card.side, threshold, row) for row in measured]
    verdict = next((v for v in (FAILS, UNDERPOWERED) if v in verdicts), HOLDS)
    same = [row for row, v in zip(measured, verdicts, strict=True) if v == verdict]
    row = max(same, key=lambda r: _excess(card.side, threshold, r, "value" if verdict == FAILS else "bound"))
    needed = _items_needed(card.side, threshold, row) if verdict == UNDERPOWERED else None
    return Decision(card, threshold, verdict, row, rows, _reason(card, threshold, verdict, row, needed), needed)


def _verdict(side: Side, t: float, row: Mapping[str, Any]) -> str:
    lower, upper = _number(row["lower"]), _number(row["upper"])
    if row["method"] == NO_ORDER:
        return FAILS
    if math.isnan(lower) or math.isnan(upper):
        return UNDERPOWERED
    if side == "at least":
        return HOLDS if lower >= t else FAILS if upper < t else UNDERPOWERED
    if lower > t or (side == "within" and upper < -t):
        return FAILS
    inside = upper <= t and (side == "at most" or lower >= -t)
    return HOLDS if inside and _number(row["detectable"]) <= _room(side, t, row) else UNDERPOWERED


def _room(side: Side, t: float, row: Mapping[str, Any]) -> float:
    """Size that an effect must be detectable at: the threshold's; counted from the value where that is below zero."""
    return t + max(0.0, -_number(row["value"])) if side == "at most" else t


def _excess(side: Side, t: float, row: Mapping[str, Any], of: str) -> float:
    """Distance that a row reaches beyond the threshold, by its value or by the bound that is nearest to it."""
    if side == "at least":
        excess = t - _number(row["value" if of == "value" else "lower"])
    elif side == "within":
        value = abs(_number(row["value"]))
        excess = (value if of == "value" else max(_number(row["upper"]), -_number(row["lower"]))) - t
    else:
        excess = _number(row["value" if of == "value" else "upper"]) - t
    return math.inf if math.isnan(excess) else excess  # what has no number is what stands in the way


def _items_needed(side: Side, t: float, row: Mapping[str, Any]) -> int | None:
    """Items at which the interval, narrower by the root of their number, would decide if the value stays."""
    value, half = _number(row["value"]), (_number(row["upper"]) - _number(row["lower"])) / 2
    there = row["n_clusters"]
    if math.isnan(value) or math.isnan(half) or pd.isna(there):
        return None
    gap = abs(t - (abs(value) if side == "within" else value))
    factor = (half / gap) ** 2 if gap else math.inf
    if side != "at least" and value <= t:
        factor = max(factor, (_number(row["detectable"]) / _room(side, t, row)) ** 2)
    return math.ceil(int(there) * factor) if 1 < factor < HOPELESS else None


def _reason(card: ProbeCard, t: float, verdict: str, row: Mapping[str, Any], needed: int | None) -> str:
    allowed = card.allowed(t)
    if row["method"] == NO_ORDER:
        return "The judge gives every response the same verdict, so its order agrees with nobody's."
    if verdict == FAILS:
        return f"The whole interval lies beyond the threshold ({allowed})."
    if verdict == HOLDS:
        return f"The whole interval lies within the threshold ({allowed}), and an effect of that size would show."
    if pd.isna(row["lower"]):
        return f"There is no interval: {row['method']}. More items are needed."
    more = f" About {needed:,} items would decide it if the effect stays." if needed else ""
    detectable = _number(row["detectable"])
    if card.side != "at least" and detectable > _room(card.side, t, row):
        smallest = number_text(card.side, detectable, signed=False)
        return f"Only an effect of {smallest} or more could be found; the threshold is {allowed}.{more}"
    return f"The interval reaches over the threshold ({allowed}).{more}"


def summary(decisions: Sequence[Decision], *, name_undecided: bool = True) -> str:
    """The check-up in a sentence or two; where every probe's verdict stands below, the undecided are only counted."""
    by = {v: [d.card.title for d in decisions if d.verdict == v] for v in VERDICTS}
    asked = len(decisions) - len(by[NOT_ASKED])
    if not asked:
        return "None of the probes could be asked."
    parts = [f"{len(by[HOLDS])} of {asked} probes hold"]
    if by[FAILS]:
        parts.append(f"{len(by[FAILS])} fail{'s' if len(by[FAILS]) == 1 else ''} ({_listed(by[FAILS])})")
    if by[UNDERPOWERED]:
        names = f" ({_listed(by[UNDERPOWERED])})" if name_undecided else ""
        parts.append(f"{len(by[UNDERPOWERED])} cannot be decided with so few items{names}")
    more = f" {len(by[NOT_ASKED])} could not be asked." if by[NOT_ASKED] else ""
    return f"{'; '.join(parts)}.{more}"


def as_record(decision: Decision) -> dict[str, Any]:
    """One probe as JSON: the verdict, the deciding row, and every arm."""
    row, columns = decision.row, ("arm", "protocol", "against", "value", "lower", "upper", "level", "method", "n")
    more = ("n_clusters", "n_unread", "detectable", "base_rate", "observed")
    return {
        "probe": decision.card.name,
        "title": decision.card.title,
        "verdict": decision.verdict,
        "threshold": decision.threshold,
        "side": decision.card.side,
        **{column: row.get(column) for column in (*columns, *more)},
        "reason": decision.reason,
        "items_needed": decision.items_needed,
        "arms": [
            {c: r[c] for c in ("role", *columns, *more)} for r in decision.rows if not isinstance(r["missing"], str)
        ],
    }


def _listed(titles: Sequence[str]) -> str:
    small = [title[:1].lower() + title[1:] for title in titles]
    return small[0] if len(small) == 1 else f"{', '.join(small[:-1])} and {small[-1]}"


def _number(value: Any) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)


def forest_rows(decisions: Sequence[Decision]) -> pd.DataFrame:
    """One row a probe for the figure: the deciding row, its threshold, and all three numbers in units of it.

    Returns:
        probe, title, verdict, allowed, arm, protocol, against, value, lower, upper, threshold, scaled, scaled_lower,
        scaled_upper (1 is the threshold; NaN where nothing was measured), level (of this row), probe_level (of the
        verdict), method, n, n_clusters, n_unread, detectable.
    """
    rows = []
    for d in decisions:
        ends = sorted([d.in_thresholds("lower"), d.in_thresholds("upper")])
        names = ("arm", "protocol", "against", "value", "lower", "upper", "level", "method", "n", "n_clusters")
        rows.append(
            {"probe": d.card.name, "title": d.card.title, "verdict": d.verdict, "allowed": d.card.allowed(d.threshold)}
            | {"side": d.card.side, "threshold": d.threshold, "probe_level": _probe_level(d)}
            | {name: d.row.get(name) for name in (*names, "n_unread", "detectable")}
            | {"scaled": d.in_thresholds("value"), "scaled_lower": ends[0], "scaled_upper": ends[1]}
        )
    return pd.DataFrame(rows)


def _probe_level(decision: Decision) -> float:
    """The level of the verdict as a whole: the arms that decide share the error."""
    level = _number(decision.row.get("level"))
    arms = sum(1 for r in decision.rows if r["role"] == "decides")
    return 1 - (1 - level) * arms


def number_text(side: Side, value: float, *, signed: bool = True) -> str:
    """An effect for a reader: a percentage, or of agreement the coefficient itself."""
    if math.isnan(value):
        return "undefined"
    if side == "at least":
        return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
    text = f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"
    return f"{text.replace('-', chr(0x2212))}\N{NARROW NO-BREAK SPACE}%"


def interval_words(card: ProbeCard, row: Mapping[str, Any]) -> str:
    """Effect and interval of a row for a reader: "+3.1 % [1.0, 5.2]"."""
    value, lower, upper = (_number(row.get(c)) for c in ("value", "lower", "upper"))
    if math.isnan(value):
        return "undefined"
    body = number_text(card.side, value)
    if math.isnan(lower):
        return body
    factor, places = (1.0, 2) if card.side == "at least" else (100.0, 1)
    ends = ", ".join(f"{factor * x:.{places}f}".replace("-", "\N{MINUS SIGN}") for x in (lower, upper))
    return f"{body} [{ends}]"
