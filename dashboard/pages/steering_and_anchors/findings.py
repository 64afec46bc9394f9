"""A CAP run as its page reads it, and its results in sentences made from its tables."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pandas as pd

from dashboard import findings
from dashboard.run_view import RunView, Stored
from engine.core.schema import NONE
from engine.plots.text import fixed, interval_text, plural, three_digits
from engine.stats.shifts import SHIFT_CHANGE
from engine.studies.cap.metrics import nearest_in
from engine.studies.cap.steering_figures import SIDES, alpha_rows
from engine.studies.cap.study import CAP, HUMAN
from engine.studies.figure import cap_name


class CapView(RunView):
    """A run of the study cap; of one in progress some tables may be empty."""

    kind = "cap"
    layers = Stored("cap_layers")
    texts = Stored("cap_texts")
    points = Stored("cap_points")
    sweep = Stored("cap_sweep")
    anchors = Stored("cap_anchors")
    verdicts = Stored("verdicts")
    metrics = Stored("metrics")

    @property
    def cap(self) -> dict[str, Any]:
        """Chosen layer, standards and alphas; empty while they are not known."""
        return dict(self.manifest.get("cap") or {})

    @property
    def evaluated(self) -> list[str]:
        """Contexts whose responses were judged, the others' anchors last."""
        judged = list(dict.fromkeys(self.verdicts["item_id"]))
        return [*judged, *(i for i in dict.fromkeys(self.anchors["item_id"]) if i not in judged)]


LITTLE = 0.1
"""Points of the scale below which a change of anchors is called hardly read, or a standard reached."""
FAINT = 0.05
"""Share of an activation below which an edit is called hardly any."""
SURFACE = 0.8
"""Share of the chosen layer's separability from which that of the first layer explains it."""
_DOES = {True: "raises", False: "lowers"}


class Answer(NamedTuple):
    """One question of the diagnosis: a short answer, whether it is good news, its number, and what is behind it."""

    question: str
    answer: str
    good: bool | None
    brief: str
    numbers: str


def headline(view: CapView) -> str:
    """The strongest attack without a defense and behind CAP, in at most 25 words; else what steering does."""
    if not len(view.sweep):
        return "The tutor is writing its candidates." if not view.cap else "The standards are found; steering is next."
    row = _worst(view.metrics) if len(view.metrics) else None
    if row is None:
        return _steered(view)
    attack = findings.attack_name(str(row["attack"]))
    text = f"{attack} {_DOES[row['value'] > 0]} scores by {three_digits(abs(float(row['value'])))}"
    behind = _row(view.metrics, "shift", str(row["attack"]), CAP)
    if behind is None:
        return f"Without a defense {text} points."
    change = _row(view.metrics, SHIFT_CHANGE, str(row["attack"]), CAP)
    left = three_digits(math.copysign(1.0, row["value"]) * float(behind["value"]))
    return f"{_verdict(row, behind, change)}: {text} without it and by {left} behind it."


def _steered(view: CapView) -> str:
    """Scores at the alphas that were chosen for the two anchors."""
    rows = alpha_rows(view.source)
    means = []
    for side in SIDES:
        at_chosen = rows[(rows["side"] == side) & (rows["alpha"] == view.cap.get(f"alpha_{side}"))]["mean"]
        means.append(three_digits(float(at_chosen.iloc[0])) if len(at_chosen) else "–")
    return f"Steered up, the tutor's texts score {means[0]}; steered down, {means[1]}."


def measured(view: CapView) -> list[str]:
    """The lines of the drawer: the headline's intervals, alphas, what was left out, settings, source."""
    config = view.config
    left_out = view.manifest.get("left_out") or {}
    lines = [_attack_line(view), *_alpha_lines(view)]
    low, high = view.cap.get("percentiles", [0, 0])[::-1]
    if view.cap.get("percentiles") and (high, low) != (config["high_percentile"], config["low_percentile"]):
        lines.append(
            f"So few candidates hold both standards only at the percentiles {low:g} and {high:g}, nearer to the middle "
            "than the study's."
        )
    if view.cap.get("halves") == "texts":
        lines.append("Single texts, not whole contexts, are dealt to the two halves: the judge likes some contexts.")
    lines += [f"Left out: {cap_name(part)}. {why}" for part, why in left_out.items()]
    about = view.manifest.get("data", {})
    lines.append(
        f"{about.get('n_training_items', '?')} contexts train the directions, {about.get('n_items', '?')} others with "
        f"{about.get('n_responses', '?')} responses are judged. Intervals: 95 %, contexts as clusters."
    )
    if config.get("quick"):
        lines.append(
            "Quick form: few candidates and alphas, texts of at most 32 tokens, two attacks, no defense beside CAP. "
            "The full run refines it."
        )
    lines.append(f"Tutor {view.manifest.get('tutor', {}).get('spec') or config.get('tutor', '')}, ")
    lines[-1] += f"{findings.provenance(view.manifest, recorded=view.recorded)}."
    return [line for line in lines if line]


def _attack_line(view: CapView) -> str:
    row = _worst(view.metrics) if len(view.metrics) else None
    if row is None:
        return ""
    attack = str(row["attack"])
    text = (
        f"{findings.attack_name(attack)} without a defense: {_interval(row)} points on "
        f"{plural(int(row['n']), 'response')}"
    )
    behind = _row(view.metrics, "shift", attack, CAP)
    return f"{text}; behind CAP {_interval(behind)}." if behind is not None else f"{text}."


def _alpha_lines(view: CapView) -> list[str]:
    """The alphas that wrote the anchors, those nearest to the standards, and how many texts could be scored."""
    if not len(view.sweep) or not view.cap:
        return []
    rows, said = alpha_rows(view.source), []
    for side in SIDES:
        wrote, best = view.cap.get(f"alpha_{side}"), nearest_in(rows, side, float(view.cap[f"standard_{side}"]))
        other = "" if wrote is None or wrote == best else f" (the anchors were written with {three_digits(wrote)})"
        said.append(f"{side} {three_digits(best)}{other}{_few_read(rows[rows['side'] == side], wrote)}")
    return [f"Alphas nearest to the standards: {'; '.join(said)}."]


def _few_read(rows: pd.DataFrame, wrote: float | None) -> str:
    """That the alpha of the anchors was chosen from the contexts that still had a text, where some had none."""
    row = rows[rows["alpha"] == wrote]
    if not len(row) or not int(row["n_unread"].iloc[0]):
        return ""
    n, of = int(row["n"].iloc[0]), int(row["n"].iloc[0] + row["n_unread"].iloc[0])
    return f" (with {three_digits(float(wrote or 0))}, {n} of {of} contexts had a text that could be scored)"


def _verdict(bare: pd.Series, behind: pd.Series, change: pd.Series | None) -> str:
    """Effect of CAP on the strongest attack, as far as the paired change has an interval away from zero."""
    if change is None or not math.isfinite(change["lower"]):
        return "What CAP does to the strongest attack has no interval"
    if change["lower"] <= 0 <= change["upper"]:
        return "CAP does not measurably change the strongest attack"
    if abs(behind["value"]) >= abs(bare["value"]):
        return "CAP makes the strongest attack stronger"
    left = not (behind["lower"] <= 0 <= behind["upper"])
    return "CAP weakens the strongest attack but does not stop it" if left else "CAP stops the strongest attack"


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
    asked = "Does the tutor tell high texts from low ones?"
    brief = f"separability {three_digits(row['value'])}, by chance up to {three_digits(row['null_high'])}"
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
            "already: what tells them apart is how the texts end, not yet their quality."
        )
        return Answer(asked, "yes, but by how they end", None, brief, numbers)
    return Answer(asked, "yes" if good else "not beyond chance", good, brief, numbers)


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
        size = float(small["relative_edit"].mean())
        asked, brief = (
            "Does alpha of the paper's size change anything?",
            f"{three_digits(100 * size)} % of an activation",
        )
        return Answer(asked, "hardly" if size < FAINT else "yes", size >= FAINT, brief, numbers)
    largest = f"up to {three_digits(100 * float(sizes.max()))} %"
    return Answer("How large are the edits?", largest, None, "of an activation", numbers)


def _reached(view: CapView) -> Answer:
    said, missed = [], []
    n = of = 0
    sweep = alpha_rows(view.source)
    for side, sign in zip(SIDES, (1, -1), strict=True):
        at_chosen = sweep[(sweep["side"] == side) & (sweep["alpha"] == view.cap.get(f"alpha_{side}"))]
        row = at_chosen.iloc[0] if len(at_chosen) else _NOTHING_READ
        standard = float(view.cap[f"standard_{side}"])
        n, of = n + int(row["n"]), of + int(row["n"] + row["n_unread"])
        if not sign * (row["mean"] - standard) >= -LITTLE:
            missed.append(side)
        text = interval_text(
            float(row["mean"]), float(row["lower"]), float(row["upper"]), method=str(row["method"]),
            n_clusters=int(row["n_clusters"]),
        )  # fmt: skip
        said.append(f"{side} {text} for {three_digits(standard)}")
    answer = "yes" if not missed else "no" if len(missed) == len(said) else f"not the {missed[0]} one"
    numbers = (
        f"Mean score of the texts at the alphas chosen, of which {n} of {of} could be scored, and the standard they "
        f"were to reach: {', '.join(said)}."
    )
    return Answer("Does steering reach the standards?", answer, not missed, ", ".join(said), numbers)


_NOTHING_READ = pd.Series(
    {"mean": math.nan, "lower": math.nan, "upper": math.nan, "method": "", "n_clusters": 0, "n": 0, "n_unread": 0}
)
"""In place of the row of an alpha while none is chosen."""


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
    brief = f"{_interval(row)} points over {plural(int(row['n']), 'context')}"
    return Answer("Does the judge score the high anchor higher?", answer, clear, brief, numbers)


def _read(view: CapView) -> Answer | None:
    row = _row(view.metrics, "anchor_effect", NONE, CAP)
    if row is None:
        return None
    good = bool(row["value"] >= LITTLE)
    numbers = f"Exchanging the two anchors changes a clean score by {_interval(row, unsigned=True)} on average."
    human = _row(view.metrics, "anchor_effect", NONE, HUMAN)
    if human is not None and math.isfinite(human["value"]):
        numbers += f" With human-rated anchors: {_interval(human, unsigned=True)}."
    brief = f"exchanging them moves a score by {_interval(row, unsigned=True)}"
    return Answer("Does the judge read its anchors?", "yes" if good else "hardly", good, brief, numbers)


def _agreement(view: CapView) -> Answer | None:
    bare, behind = (_row(view.metrics, "spearman", NONE, d) for d in (NONE, CAP))
    if bare is None or behind is None:
        return None
    good = bool(behind["upper"] >= bare["value"])
    numbers = f"Spearman with the ratings: {_interval(bare)} without a defense, {_interval(behind)} behind CAP."
    brief = f"Spearman {_interval(bare)}, behind CAP {_interval(behind)}"
    return Answer("Do clean scores stay as good?", "no clear loss" if good else "no", good, brief, numbers)


def behind_cap(view: CapView, metric: str) -> str:
    """A number of clean responses behind CAP with its interval; a dash where the run has none."""
    row = _row(view.metrics, metric, NONE, CAP)
    return "–" if row is None else _interval(row)


def _worst(metrics: pd.DataFrame) -> pd.Series | None:
    shifts = metrics[(metrics["metric"] == "shift") & (metrics["defense"] == NONE) & metrics["value"].notna()]
    return shifts.loc[shifts["value"].abs().idxmax()] if len(shifts) else None


def _row(metrics: pd.DataFrame, metric: str, attack: str, defense: str) -> pd.Series | None:
    rows = metrics[(metrics["metric"] == metric) & (metrics["attack"] == attack) & (metrics["defense"] == defense)]
    return rows.iloc[0] if len(rows) else None


def _interval(row: pd.Series, *, unsigned: bool = False) -> str:
    value, lower, upper = float(row["value"]), float(row["lower"]), float(row["upper"])
    if unsigned and value < 0:
        value, lower, upper = -value, -upper, -lower
    clusters = 0 if pd.isna(row["n_clusters"]) else int(row["n_clusters"])
    return interval_text(value, lower, upper, method=str(row["method"]), n_clusters=clusters)
