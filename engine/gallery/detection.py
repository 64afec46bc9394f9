"""The figure of a screen's threshold, at any threshold."""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine.figures import detection as figures
from engine.figures.palette import Mode
from engine.figures.text import interval_text, three_digits
from engine.gallery.base import Dial, Entry, Shown, Source, Values, has_table
from engine.metrics.detection import detection_at, fitted, pr_curve, side_of
from engine.schema import NONE

STUDY = "detection"
FITTED = 0.0
"""threshold that stands for the one of best F1 on the fitting side."""


def families(source: Source) -> tuple[str, ...]:
    """Families of attacks that were read."""
    return tuple(str(f) for f in dict.fromkeys(source.table("readings")["family"]) if f != NONE)


def curves(readings: pd.DataFrame, family: str, threshold: float) -> pd.DataFrame:
    """Precision and recall of both sides, the threshold in use marked."""
    made = {
        side: pr_curve(own.loc[own["attack"] == NONE, "value"], own.loc[own["attack"] != NONE, "value"])
        for side in ("train", "test")
        for own in [side_of(readings, family, side)]
    }
    return figures.prepare_curves(made, threshold)


FAMILY = Dial("family", "against", "choice", lambda s: families(s)[0], choices=families)
THRESHOLD = Dial(
    "threshold", "threshold", "number", lambda _: FITTED, high=lambda _: 1e30, words={FITTED: "of best F1"}
)


def _curve(source: Source, at: Values) -> Shown:
    readings, family = source.table("readings"), str(at["family"])
    threshold = float(at["threshold"]) or fitted(readings, family)[1]
    test = side_of(readings, family, "test")
    found = detection_at(test, threshold, level=source.level, seed=source.seed)
    said = ", ".join(
        f"{name.replace('_', ' ')} {interval_text(i.value, i.lower, i.upper, method=i.method, n_clusters=i.n_clusters)}"
        for name, i in found.items()
    )
    more = {
        "n": len(test),
        "items": int(test["item_id"].nunique()),
        "note": f"{readings['screen'].iloc[0]} under bundled:base, {source.origin}",
    }
    facts = (
        f"at the threshold {three_digits(threshold)}: {said}",
        f"{100 * source.level:g} % intervals ({found['f1'].method})",
        f"{int(test['value'].isna().sum())} unread",
    )
    return Shown(curves(readings, family, threshold), more, facts)


def _draw(prepared: pd.DataFrame, more: dict[str, Any], mode: Mode) -> Any:
    return figures.plot_curves(prepared, n=more["n"], items=more["items"], mode=mode, note=more["note"])


ENTRIES = (
    Entry(
        STUDY, "curve", "Does perplexity give the attack away?", _curve, _draw, (FAMILY, THRESHOLD),
        has_table("readings", "nothing has been read yet."),
    ),
)  # fmt: skip
