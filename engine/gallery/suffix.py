"""Figures of a search for a phrase."""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine.figures import suffix as figures
from engine.figures.palette import Mode
from engine.gallery.base import Entry, Shown, Source, Values, has_table

STUDY = "suffix"


def _steps(source: Source, _: Values) -> Shown:
    made = figures.prepare_steps(source.table("suffix_search"))
    config = source.config
    more = {"protocol": config["protocol"], "words": int(config["words"]), "note": source.origin}
    n = len(source.manifest.get("split", {}).get("train_responses", ())) or int(config.get("prompts", 0))
    return Shown(made, more, (f"n = {n} training prompts", "means of what was optimised, so no interval"))


def _lengths(source: Source, _: Values) -> Shown:
    made = figures.prepare_lengths(source.table("metrics"))
    return Shown(made, {"protocol": source.config["protocol"], "note": source.origin})


def _draw_steps(prepared: pd.DataFrame, more: dict[str, Any], mode: Mode) -> Any:
    return figures.plot_steps(prepared, protocol=more["protocol"], words=more["words"], mode=mode, note=more["note"])


ENTRIES = (
    Entry(
        STUDY, "steps", "Which word raises the objective most?", _steps, _draw_steps, (),
        has_table("suffix_search", "no word has been tried yet."),
    ),
    Entry(
        STUDY, "lengths", "What does the phrase do on other items?", _lengths,
        lambda p, more, mode: figures.plot_lengths(p, protocol=more["protocol"], mode=mode, note=more["note"]), (),
        has_table("metrics", "the phrase has not been measured on other items."),
    ),
)  # fmt: skip
