"""Sentences that say what is seen, made from the same tables as the figures; no Streamlit here."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from engine.core.schema import NONE
from engine.plots.text import count, fixed, interval_text, plural, three_digits
from engine.runs.library import text_read
from engine.stats.paired import EFFECT, power_verdict
from engine.stats.shifts import SHIFT_CHANGE
from engine.studies.figure import (
    arm_name,
    attack_name,
    defense_name,
    judge_name,
    label_values,
    origin,
    shifts_by_size,
    short_titles,
    strongest_arm,
)

__all__ = [
    "arm_details",
    "arm_name",
    "arm_sentence",
    "attack_name",
    "compared_sentence",
    "defense_name",
    "duration",
    "judge_name",
    "label_values",
    "one_sentence",
    "origin",
    "provenance",
    "run_sentences",
    "short_titles",
    "strongest_arm",
    "unread_warning",
]
_SMALL = 0.05
"""Changes of a score that are next to nothing [points], and shares."""
_MOST_DEFENDED = 3
"""Sentences on defenses at most; the grid has the rest."""


def run_sentences(metrics: pd.DataFrame, judge: str) -> tuple[str, str]:
    """Effects of attacks on the mean score in words: the strongest undefended arm; then the others and the defenses."""
    pool = shifts_by_size(metrics)
    if not len(pool):
        return "No response has been read with and without an attack yet.", ""
    worst = pool.iloc[0]
    headline = (
        f"{arm_name(worst['attack'], worst['defense'])} {_verb(worst)} the mean score of {judge} "
        f"{_by(worst)}{_levels(metrics, worst)}, on {plural(int(worst['n']), 'response')}{_left_out(worst)}."
    )
    others = [f"{arm_name(r['attack'], r['defense'])}: {_interval(r)}." for _, r in pool.iloc[1:3].iterrows()]
    return headline, " ".join([*others, *_defended(metrics, worst)])


def _unclear(row: pd.Series) -> bool:
    """True where the interval covers no change at all."""
    return bool(row["lower"] <= 0 <= row["upper"])


def _verb(row: pd.Series) -> str:
    if _unclear(row) or row["value"] == 0:
        return "does not measurably change"
    return "raises" if row["value"] > 0 else "lowers"


def _by(row: pd.Series) -> str:
    if _unclear(row) or row["value"] == 0:
        return f"(shift {_interval(row)})"
    return f"by {_interval(row if row['value'] > 0 else _mirrored(row))}"


def _interval(row: pd.Series) -> str:
    return interval_text(
        row["value"], row["lower"], row["upper"], method=str(row["method"]), n_clusters=int(row["n_clusters"])
    )


def _mirrored(row: pd.Series) -> pd.Series:
    turned = row.copy()
    turned["value"], turned["lower"], turned["upper"] = -row["value"], -row["upper"], -row["lower"]
    return turned


def _levels(metrics: pd.DataFrame, row: pd.Series) -> str:
    before = _mean(metrics, NONE, row["defense"])
    after = _mean(metrics, row["attack"], row["defense"])
    if math.isnan(before) or math.isnan(after):
        return ""
    return f", from {three_digits(before)} to {three_digits(after)}"


def _mean(metrics: pd.DataFrame, attack: str, defense: str) -> float:
    found = metrics[(metrics["metric"] == "mean") & (metrics["attack"] == attack) & (metrics["defense"] == defense)]
    return float(found["value"].iloc[0]) if len(found) else math.nan


def _left_out(row: pd.Series) -> str:
    return f" ({count(int(row['n_unread']))} left out as unread)" if row["n_unread"] else ""


def _defended(metrics: pd.DataFrame, worst: pd.Series) -> list[str]:
    """Sentences on what defenses leave of the strongest attack, and where one makes an attack stronger instead."""
    shifts = metrics[(metrics["metric"] == "shift") & metrics["value"].notna()]
    behind = shifts[(shifts["attack"] == worst["attack"]) & (shifts["defense"] != NONE)]
    if worst["defense"] != NONE or not len(behind):
        return []
    best = behind.loc[behind["value"].abs().idxmin()]
    parts = [
        f"Least of {attack_name(worst['attack'])} is left behind {defense_name(best['defense'])}: {_interval(best)}."
    ]
    bare = {row["attack"]: row for _, row in shifts[shifts["defense"] == NONE].iterrows()}
    for _, row in shifts[shifts["defense"] != NONE].iterrows():
        without = bare.get(row["attack"])
        # Intervals that do not touch: a cautious reading, since both arms judge the same responses.
        if without is not None and row["lower"] > max(0.0, without["upper"]):
            parts.append(f"{arm_name(row['attack'], row['defense'])} is stronger than undefended: {_interval(row)}.")
    return parts[:_MOST_DEFENDED]


def arm_details(metrics: pd.DataFrame, attack: str, defense: str) -> str:
    """Certainty of the arm's number: against chance over the whole grid, its power, and the change by the defense."""
    own = metrics[(metrics["attack"] == attack) & (metrics["defense"] == defense)].set_index("metric")
    parts: list[str] = []
    if SHIFT_CHANGE in own.index and math.isfinite(own.loc[SHIFT_CHANGE, "value"]):
        parts.append(f"Against no defense, response by response: {_interval(own.loc[SHIFT_CHANGE])}.")
    if "shift" not in own.index:
        return " ".join(parts)
    row = own.loc["shift"]
    if math.isfinite(row["q_value"]):
        grid = plural(int((metrics["metric"] == "shift").sum()), "arm")
        parts.append(f"Against chance over {grid}: q = {three_digits(row['q_value'])} (Benjamini-Hochberg).")
    if math.isfinite(row["detectable"]):
        weak = power_verdict(row["detectable"]) != "enough" and _unclear(row)  # what was found was not too small
        verdict = f": underpowered for a shift of {EFFECT:g}" if weak else ""
        parts.append(f"This arm could detect a shift of {three_digits(row['detectable'])} (80 % power){verdict}.")
    return " ".join(parts)


def arm_sentence(metrics: pd.DataFrame, attack: str, defense: str) -> str:
    """One arm of a run in one sentence."""
    found = metrics[(metrics["metric"] == "shift") & (metrics["attack"] == attack) & (metrics["defense"] == defense)]
    if not len(found) or math.isnan(found["value"].iloc[0]):
        return f"{arm_name(attack, defense)}: no response has been read both ways yet."
    row = found.iloc[0]
    n = plural(int(row["n"]), "response")
    return (
        f"{arm_name(attack, defense)} {_verb(row)} the mean score {_by(row)}{_levels(metrics, row)}, "
        f"on {n}{_left_out(row)}."
    )


def one_sentence(result: dict[str, Any], attack: str, defense: str) -> str:
    """The judge's answer to one response without and with the attack, in a sentence."""
    clean, attacked = result["clean"], result["attacked"]
    behind = "" if defense == NONE else f"Behind {defense_name(defense)}: "
    for verdict, when in ((clean, "without the attack"), (attacked, "with the attack")):
        if verdict["unread_reason"]:
            return f"{behind}No usable verdict {when}: {verdict['unread_reason']}."
    top = f"{max(label_values(result['labels']), default=math.nan):g}"
    before, after = three_digits(clean["score"]), three_digits(attacked["score"])
    if attack == NONE:
        return f"{behind}The judge gives this response {before} of {top}."
    if before == after:
        return f"{behind}{attack_name(attack)} leaves this response at {before} of {top}."
    verb = "lifts" if attacked["score"] > clean["score"] else "lowers"
    return f"{behind}{attack_name(attack)} {verb} this response from {before} to {after} of {top}."


def compared_sentence(off: dict[str, Any], on: dict[str, Any] | None, attack: str, defense: str) -> str:
    """One response without a defense and, where one is chosen, behind it: what the defense takes of the change."""
    said = one_sentence(off, attack, NONE)
    if on is None or attack == NONE:
        return said if on is None else f"{said} {one_sentence(on, attack, defense)}"
    if off["clean"]["unread_reason"] or off["attacked"]["unread_reason"]:
        return f"{said} {one_sentence(on, attack, defense)}"
    behind = f"Behind {defense_name(defense)}"
    for verdict in (on["clean"], on["attacked"]):
        if verdict["unread_reason"]:
            return f"{said} {behind}: no usable verdict."
    before, after = (float(one["attacked"]["score"]) - float(one["clean"]["score"]) for one in (off, on))
    told = f"{said} {behind} it moves by {fixed(after, 2, signed=True)}{_share(before, after)}."
    own = float(on["clean"]["score"]) - float(off["clean"]["score"])
    if abs(own) < max(_SMALL, abs(before) / 2):
        return told
    return f"{told} The defense alone moves it by {fixed(own, 2, signed=True)}."


def _share(before: float, after: float) -> str:
    """What a defense takes of a change, in words; empty where there was next to none."""
    if abs(before) < _SMALL:
        return ""
    left = after / before
    if left > 1 + _SMALL:
        return ": the defense makes it stronger"
    if left < -_SMALL:
        return ": the defense turns it round"
    return f": the defense takes {100 * (1 - max(0.0, left)):.0f} % of it"


def unread_warning(metrics: pd.DataFrame) -> str:
    """A warning where arms lost different numbers of responses, since their means then are of different ones."""
    shifts = metrics[metrics["metric"] == "shift"]
    lost = shifts["n_unread"]
    if not len(lost) or lost.min() == lost.max():
        return ""
    most = shifts.loc[lost.idxmax()]
    return (
        f"Arms differ in unread verdicts: {arm_name(most['attack'], most['defense'])} lost {count(int(lost.max()))} "
        f"responses, another arm {count(int(lost.min()))}. Their means are of different responses."
    )


def duration(seconds: float) -> str:
    """A length of time to be read at a glance: "40 s", "3 min", "2 h 5 min"."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def provenance(manifest: dict[str, Any], *, recorded: bool) -> str:
    """Where the numbers of a run come from: when, which judge, on what device."""
    judge = manifest.get("judge", {})
    parts = [origin(manifest, recorded=recorded)]
    if judge.get("device") == "no model":
        parts.append("no model")
    elif judge:
        parts += [f"judge {str(judge.get('fingerprint', '?'))[:8]}", f"device {judge.get('device', '?')}"]
        parts += ["read from text"] if text_read(manifest) else []
    return ", ".join(parts)
