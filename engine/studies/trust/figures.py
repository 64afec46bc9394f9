"""Figures of the study `trust`; each reads a stored table."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from engine.plots.dots import plot_dots, prepare_dots
from engine.plots.text import interval_text
from engine.studies.figure import FigureData, FigureSpec, Setting, Source, Values, has_table
from engine.studies.trust.drawings import (
    plot_attacked,
    plot_calibration,
    plot_confusion,
    plot_differences,
    plot_estimates,
    plot_needed,
    plot_selection,
)
from engine.studies.trust.tables import CORRECTED, LABELS_ONLY, RAW, ROGAN

STUDY = "trust"
SERIES = {RAW: "Raw", CORRECTED: "Corrected", LABELS_ONLY: "Labels alone"}
ALL = "All rows"
AXES = {"pass": "share that passes", "pair": "share of wins, ties half", "scale": "mean score"}
_TITLES = {"all": "What is the true number?", "system": "What is it by system?", "group": "What is it by group?"}


def _rows(source: Source, scope: str) -> pd.DataFrame:
    """Estimates of a scope as `prepare_dots` takes them."""
    table = source.table("trust")
    own = table[table["scope"] == scope]
    return own.assign(metric=own["estimate"], what=own["name"].fillna(ALL), n_clusters=own["n_items"])


def _estimates(scope: str, source: Source, _: Values) -> FigureData:
    rows, data = _rows(source, scope), source.manifest["data"]
    rows = rows.assign(n_unread=rows["n_unread"].where(rows["estimate"] == RAW, 0))
    series = SERIES if scope != "all" else SERIES | {ROGAN: "Rogan-Gladen"}
    order = [ALL] if scope == "all" else sorted(set(rows["what"]))
    truth = (data.get("truth") or {}).get("value") if scope == "all" else None
    made = prepare_dots(rows[rows["value"].notna()], series, by="what", order=order)
    labels = int(source.table("trust")["n_labels"].max())
    axis = AXES.get(str(data.get("kind")), AXES["scale"])
    return FigureData(made, {"title": _TITLES[scope], "axis": axis, "truth": truth}, (f"{labels} labels",))


def _differences(source: Source, _: Values) -> FigureData:
    rows = _rows(source, "difference")
    return FigureData(prepare_dots(rows[rows["value"].notna()], SERIES, by="what"))


def _agreement(source: Source, _: Values) -> FigureData:
    """Agreement of each group and system."""
    rows = source.table("metrics")
    own = rows[(rows["metric"] == "agreement") & rows["value"].notna()]
    own = own.assign(what=own["group"].fillna("").replace("", ALL), n_unread=0)
    return FigureData(prepare_dots(own, {"agreement": "agreement"}, by="what"))


def _unread(source: Source) -> str:
    """Rows without a verdict, for a caption."""
    return f"{int(source.manifest['data'].get('n_unread', 0))} unread"


def _confusion(source: Source, _: Values) -> FigureData:
    return FigureData(source.table("trust_confusion"), {}, (_unread(source), "counts, so no interval"))


def _calibration(source: Source, at: Values) -> FigureData:
    table, metrics = source.table("trust_calibration"), source.table("metrics")
    errors = metrics[metrics["metric"] == "calibration_error"].to_dict("records")
    said = {str(r["group"]): interval_text(r["value"], r["lower"], r["upper"]) for r in errors}
    first = list(dict.fromkeys(table["method"]))[:1]
    shown = table if at["recalibrated"] == "shown" else table[table["method"].isin(first)]
    share = bool(table[["predicted", "observed"]].max().max() <= 1)
    return FigureData(shown.reset_index(drop=True), {"share": share, "errors": said}, (_unread(source),))


def _selection(source: Source, _: Values) -> FigureData:
    config = source.config
    extras = {"bound": float(config["bound"]), "sure": 1 - float(config["delta"])}
    return FigureData(source.table("trust_selection"), extras, (_unread(source), "Clopper and Pearson's interval"))


def _needed(source: Source, _: Values) -> FigureData:
    table = source.table("trust")
    row = table[(table["scope"] == "all") & (table["estimate"] == CORRECTED)].iloc[0]
    half = float(row["upper"] - row["lower"]) / 2
    now = {"labels": int(row["n_labels"]), "half": half if np.isfinite(half) else float("nan")}
    unit = "points" if source.manifest["data"].get("kind") == "scale" else "share"
    return FigureData(
        source.table("trust_needed"), {"now": now, "unit": unit}, (_unread(source), "half of a 95 % interval")
    )


def _no(scope: str, why: str, source: Source) -> str:
    missing = has_table("trust", "nothing has been measured yet.")(source)
    return missing or ("" if (source.table("trust")["scope"] == scope).any() else why)


_RECALIBRATED = Setting(
    "recalibrated", "recalibrated", "choice", lambda _: "shown", choices=lambda _: ("shown", "hidden")
)


def _attacked(source: Source, _: Values) -> FigureData:
    table, kind = source.table("trust_attacked"), str(source.manifest["data"].get("kind"))
    least = (source.manifest.get("noticed") or {}).get("least_share")
    extras = {"axis": AXES.get(kind, AXES["scale"]), "least": float(least) if least is not None else np.inf}
    named = table.assign(name=table["estimate"].map(SERIES | {ROGAN: "Rogan-Gladen"}))
    return FigureData(named, extras, (_unread(source),))


_ESTIMATES = tuple(
    FigureSpec(STUDY, name, _TITLES[scope], partial(_estimates, scope), plot_estimates, (), partial(_no, scope, why))
    for name, scope, why in (
        ("estimates", "all", "nothing has been measured yet."),
        ("systems", "system", "the data name fewer than two systems."),
        ("groups", "group", "the data name fewer than two groups."),
    )
)
ENTRIES = (
    *_ESTIMATES,
    FigureSpec(
        STUDY, "differences", "Which system is better?", _differences, plot_differences, (),
        partial(_no, "difference", "the data name fewer than two systems."),
    ),
    FigureSpec(
        STUDY, "confusion", "Where do judge and people differ?", _confusion, plot_confusion, (),
        has_table("trust_confusion", "no row has a label."),
    ),
    FigureSpec(
        STUDY, "agreement", "Where should I not use the judge?", _agreement,
        partial(
            plot_dots, title="Where should I not use the judge?", axis="share of labels that it meets",
            colours={"agreement": "clean"}, positive=True,
        ),
        (), has_table("metrics", "no row has a label."),
    ),
    FigureSpec(
        STUDY, "calibration", "Does the judge mean what it says?", _calibration, plot_calibration, (_RECALIBRATED,),
        has_table("trust_calibration", "the verdicts carry neither probabilities nor scores."),
    ),
    FigureSpec(
        STUDY, "selection", "Which verdicts can go without people?", _selection, plot_selection, (),
        has_table("trust_selection", "the verdicts carry no confidence."),
    ),
    FigureSpec(
        STUDY, "labels", "How many labels do I need?", _needed, plot_needed, (),
        has_table("trust_needed", "nothing has been measured yet."),
    ),
    FigureSpec(
        STUDY, "attacked", "What could an attacker do to it?", _attacked, plot_attacked, (),
        has_table("trust_attacked", "nothing has been attacked yet."),
    ),
)  # fmt: skip
