"""What a run of the study `cap` says, in sentences made from its tables; no Streamlit here."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from dashboard.panels import findings
from dashboard.panels.cap_view import CAP, CapView
from engine.figures.text import fixed, interval_text, plural, three_digits
from engine.metrics.gains import SHIFT_CHANGE
from engine.schema import NONE

LITTLE = 0.1
"""Points of the scale below which a change of anchors is called hardly read."""
SURFACE = 0.8
"""Share of the chosen layer's separability from which that of the first layer explains it."""
_DOES = {True: "raises", False: "lowers"}


class Answer(NamedTuple):
    """One question of the diagnosis: a short answer, whether it is good news, and the numbers behind it."""

    question: str
    answer: str
    good: bool | None
    numbers: str


def headline(view: CapView) -> str:
    """The strongest attack without a defense and behind CAP, in one sentence."""
    if not len(view.metrics):
        if view.cap:
            return "The standards are found; the attacks on the anchored judge are still to come."
        return "The tutor is writing its candidates."
    row = _worst(view.metrics)
    if row is None:
        return "No response has been read with and without an attack."
    attack = findings.attack_name(str(row["attack"]))
    text = (
        f"{attack} {_DOES[row['value'] > 0]} the mean score by {_interval(row, unsigned=True)} without a defense, on "
        f"{plural(int(row['n']), 'response')}"
    )
    behind = _row(view.metrics, "shift", str(row["attack"]), CAP)
    if behind is None:
        return f"{text}."
    change = _row(view.metrics, SHIFT_CHANGE, str(row["attack"]), CAP)
    if change is None or not math.isfinite(change["lower"]):
        verdict = "a difference without an interval"
    elif change["lower"] <= 0 <= change["upper"]:
        verdict = "no measurable difference"
    else:
        verdict = "less" if abs(behind["value"]) < abs(row["value"]) else "more"
    return f"{text}; behind CAP the shift is {_interval(behind)}: {verdict}."


def diagnosis(view: CapView) -> list[Answer]:
    """Why CAP holds the score or does not: the links of its chain, one after the other."""
    if not view.cap or not len(view.layers):
        return []
    parts = [_separated(view)]
    if len(view.sweep):
        parts += [_edits(view), _reached(view)]
    parts += [part for part in (_gap(view), _read(view), _agreement(view)) if part]
    return parts


def _separated(view: CapView) -> Answer:
    pca = view.layers[view.layers["space"] == "pca"].set_index("layer")
    row = pca.loc[view.cap["layer"]]
    good = bool(row["value"] > row["null_high"])
    numbers = (
        f"Layer {view.cap['layer']} of {len(pca)}: separability {three_digits(row['value'])} after PCA, on texts it "
        f"was not fitted on; with the sides shuffled within contexts 95 % lie below "
        f"{three_digits(row['null_high'])} (p = "
        f"{three_digits(row['p_value'])})."
    )
    first = float(pca.loc[pca.index.min(), "value"])
    if good and first >= SURFACE * float(row["value"]):
        numbers += (
            f" Layer {pca.index.min()}, which knows little but the last token itself, has {three_digits(first)} "
            "already: what parts them is how the texts end, not yet their quality."
        )
        return Answer("Do high and low texts part in the tutor?", "yes, but so do their last tokens", None, numbers)
    return Answer("Do high and low texts part in the tutor?", "yes" if good else "not beyond chance", good, numbers)


def _edits(view: CapView) -> Answer:
    sweep = view.sweep
    small = sweep[(sweep["alpha"] > 0) & (sweep["alpha"] <= 4)]
    common = float(view.cap.get("common_cosine", math.nan))
    sizes = sweep.groupby("alpha")["relative_edit"].mean()
    numbers = (
        f"The activations' mean length is {three_digits(view.cap['mean_norm'])} and the two standards have a cosine of "
        f"{fixed(common, 3)}, so 1 − cosine all but cancels the edit (form: {view.manifest['config']['form']}). "
    )
    if len(small):
        numbers += (
            f"Alpha {three_digits(float(small['alpha'].max()))}, the paper's size, changes an activation by "
            f"{three_digits(100 * float(small['relative_edit'].mean()))} %; the sweep goes up to "
            f"{three_digits(float(sizes.index.max()))} ({three_digits(100 * float(sizes.max()))} %)."
        )
        little = float(small["relative_edit"].mean()) < 0.05
        return Answer(
            "Does alpha of the paper's size change anything?", "hardly" if little else "yes", not little, numbers
        )
    return Answer("How large are the edits?", f"up to {three_digits(100 * float(sizes.max()))} %", None, numbers)


def _reached(view: CapView) -> Answer:
    ends = []
    good = True
    for side, sign in (("high", 1), ("low", -1)):
        own = view.sweep[(view.sweep["side"] == side) & (view.sweep["alpha"] == view.cap.get(f"alpha_{side}"))]
        standard = float(view.cap[f"standard_{side}"])
        mean = float(own["score"].mean()) if len(own) else math.nan
        good &= bool(sign * (mean - standard) >= -0.1)
        ends.append(f"{side} {three_digits(mean)} for a standard of {three_digits(standard)}")
    numbers = f"Mean score of the texts at the alphas chosen: {', '.join(ends)} (training contexts)."
    return Answer("Does steering reach the standards?", "yes" if good else "no", good, numbers)


def _gap(view: CapView) -> Answer | None:
    row = _row(view.metrics, "anchor_gap", NONE, CAP)
    if row is None:
        return None
    clear = bool(row["lower"] > 0)
    answer = "yes" if clear else "the wrong way round" if row["upper"] < 0 else "not measurably"
    numbers = (
        f"The judge, without anchors, scores the high anchor {_interval(row)} above the low one, over "
        f"{plural(int(row['n']), 'context')} that nothing was chosen on."
    )
    return Answer("Are the two anchors apart for the judge?", answer, clear, numbers)


def _read(view: CapView) -> Answer | None:
    row = _row(view.metrics, "anchor_effect", NONE, CAP)
    if row is None:
        return None
    good = bool(row["value"] >= LITTLE)
    numbers = f"Exchanging the two anchors changes a clean score by {_interval(row, unsigned=True)} on average."
    human = _row(view.metrics, "anchor_effect", NONE, "human-anchors")
    if human is not None and math.isfinite(human["value"]):
        numbers += f" With human-rated anchors: {_interval(human, unsigned=True)}."
    return Answer("Does the judge read its anchors?", "yes" if good else "hardly", good, numbers)


def _agreement(view: CapView) -> Answer | None:
    bare, behind = (_row(view.metrics, "spearman", NONE, d) for d in (NONE, CAP))
    if bare is None or behind is None:
        return None
    good = bool(behind["upper"] >= bare["value"])
    numbers = f"Spearman with the ratings: {_interval(bare)} without a defense, {_interval(behind)} behind CAP."
    return Answer("Do clean scores stay as good?", "no clear loss" if good else "no", good, numbers)


def sweep_sentence(view: CapView, high: float, low: float) -> str:
    """What the two alphas looked at do."""
    parts = []
    for side, alpha in (("high", high), ("low", low)):
        own = view.sweep[(view.sweep["side"] == side) & (view.sweep["alpha"] == alpha)]
        if len(own):
            size, score = (three_digits(float(x)) for x in (100 * own["relative_edit"].mean(), own["score"].mean()))
            parts.append(
                f"Steered {side} with alpha {three_digits(alpha)} ({size} % of the activation), the texts score "
                f"{score} on average"
            )
    return "; ".join(parts).replace("; Steered", "; steered") + "." if parts else "Choose an alpha."


def behind_cap(view: CapView, metric: str) -> str:
    """A number of clean responses behind CAP with its interval; a dash where the run has none."""
    row = _row(view.metrics, metric, NONE, CAP)
    return "–" if row is None else _interval(row)


def _worst(metrics: pd.DataFrame) -> pd.Series | None:
    shifts = metrics[(metrics["metric"] == "shift") & (metrics["defense"] == NONE) & metrics["value"].notna()]
    return shifts.loc[shifts["value"].abs().idxmax()] if len(shifts) else None


def _row(metrics: pd.DataFrame, metric: str, attack: str, defense: str) -> pd.Series | None:
    own = metrics[(metrics["metric"] == metric) & (metrics["attack"] == attack) & (metrics["defense"] == defense)]
    return own.iloc[0] if len(own) else None


def _interval(row: pd.Series, *, unsigned: bool = False) -> str:
    value, lower, upper = float(row["value"]), float(row["lower"]), float(row["upper"])
    if unsigned and value < 0:
        value, lower, upper = -value, -upper, -lower
    clusters = 0 if pd.isna(row["n_clusters"]) else int(row["n_clusters"])
    return interval_text(value, lower, upper, method=str(row["method"]), n_clusters=clusters)
