"""From verdicts and labels to the tables of the study `trust`; no judge is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.schema import METRICS
from engine.stats.agreement import cluster_kappa, krippendorff_alpha
from engine.stats.calibration import Calibration, Recalibrated, calibrate, recalibrate, true_rates
from engine.stats.corrected import (
    Estimate,
    compare_difference,
    compare_estimates,
    labels_needed_after,
    labels_needed_before,
    rogan_gladen,
)
from engine.stats.intervals import Interval
from engine.stats.selective import Selection, choose_threshold
from engine.stats.shifts import interval_columns
from engine.studies.trust.tables import AS_SAID, CALIBRATION, CONFUSION, NEEDED, ROGAN, SELECTION, TRUST

Floats = npt.NDArray[np.float64]
MOST_SYSTEMS = 6
"""Systems, from the one with most rows on, that are compared two by two."""
HALVES = (0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2)
"""Half widths that labels are counted for: shares, or parts of the labels' range."""


@dataclass(frozen=True)
class Rows:
    """Columns of the table `labelled` as the estimators take them; rows without a verdict are left out and counted.

    Attributes:
        frame: rows with a verdict.
        kind: pass, pair or scale.
        n_unread: rows without one.
        level: of the intervals.
        seed: of bootstraps and random splits.
    """

    frame: pd.DataFrame
    kind: str
    n_unread: int
    level: float = 0.95
    seed: int = 0

    @property
    def verdict(self) -> Floats:
        """Of every row."""
        return self.frame["verdict"].to_numpy(dtype=float)

    @property
    def label(self) -> Floats:
        """NaN where nobody labelled."""
        return self.frame["label"].to_numpy(dtype=float)

    @property
    def item(self) -> npt.NDArray[np.int64]:
        """Item of each row as a code."""
        return np.asarray(pd.factorize(self.frame["item_id"])[0], dtype=np.int64)

    @property
    def chance(self) -> Floats | None:
        """Chance to be labelled; None where all rows had the same."""
        held = self.frame["chance"].to_numpy(dtype=float)
        return None if np.isnan(held).all() else held

    @property
    def weights(self) -> Floats | None:
        """One over the chance, of labelled rows alone."""
        chance = self.chance
        return None if chance is None else 1 / chance[~np.isnan(self.label)]

    @property
    def binary(self) -> bool:
        """Labels are 0 or 1 and verdicts lie between."""
        y, v = self.label[~np.isnan(self.label)], self.verdict
        return self.kind != "pair" and bool(np.isin(y, (0, 1)).all() and ((v >= 0) & (v <= 1)).all())

    @property
    def decided(self) -> Floats:
        """Verdicts as 0 or 1 where labels are; as they are otherwise."""
        return (self.verdict >= 0.5).astype(float) if self.binary else self.verdict

    @property
    def prediction(self) -> Floats | None:
        """The number whose calibration can be asked: a probability, or a score; None where there is none."""
        held = self.frame["probability"].to_numpy(dtype=float)
        if not np.isnan(held).all():
            return held
        v = self.verdict
        return v if len(np.unique(v)) > 3 else None

    def where(self, mask: npt.NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(self.frame[mask], self.kind, 0, self.level, self.seed)


def rows_of(labelled: pd.DataFrame, kind: str, *, level: float = 0.95, seed: int = 0) -> Rows:
    """The rows of a table `labelled` that have a verdict."""
    read = labelled["verdict"].notna()
    return Rows(labelled[read].reset_index(drop=True), kind, int((~read).sum()), level, seed)


# Estimates.


def estimates_table(rows: Rows) -> pd.DataFrame:
    """Raw, corrected and labels-only number of all rows, of each system and group, and differences of systems.

    A row of a pair that names both systems counts for both: a win of one is the other's loss.
    """
    out = list(_estimates(rows, "all", None))
    for scope, name, part in _parts(rows):
        out += _estimates(part, scope, name)
    sides = by_system(rows)
    names = list(sides.frame["system"].dropna().value_counts().index[:MOST_SYSTEMS])
    system = sides.frame["system"].to_numpy(dtype=object)
    for a, b in combinations(names, 2):
        made = compare_difference(
            sides.verdict, sides.label, sides.item, system == a, system == b, sides.chance, level=rows.level
        )
        out += [_row(name, "difference", f"{a} − {b}", one, 0) for name, one in made.items()]
    return TRUST.conform(pd.DataFrame(out))


def _parts(rows: Rows) -> Iterator[tuple[str, str, Rows]]:
    """Each system's rows, and each group's, where there is more than one."""
    for scope, of in (("system", by_system(rows)), ("group", rows)):
        values = of.frame[scope]
        names = list(values.dropna().unique())
        for name in names if len(names) > 1 else ():
            yield scope, str(name), of.where((values == name).to_numpy())


def by_system(rows: Rows) -> Rows:
    """Rows from the view of each system: of a pair that names both, a second row with verdict and label turned."""
    frame = rows.frame
    both = frame[frame["system_b"].notna() & frame["system"].notna()]
    if both.empty or rows.kind != "pair":
        return rows
    turned = {name: 1 - both[name] for name in ("verdict", "label", "probability")}
    other = both.assign(system=both["system_b"], row_id=both["row_id"] + ":b", **turned)
    return Rows(pd.concat([frame, other], ignore_index=True), rows.kind, rows.n_unread, rows.level, rows.seed)


def _estimates(rows: Rows, scope: str, name: str | None) -> Iterator[dict[str, object]]:
    given = (rows.verdict, rows.label, rows.item, rows.chance)
    for estimate, made in compare_estimates(*given, level=rows.level, seed=rows.seed).items():
        yield _row(estimate, scope, name, made, rows.n_unread)
    if rows.binary and rows.kind != "pair":
        made = rogan_gladen(rows.decided, rows.label, rows.item, rows.chance, level=rows.level)
        yield _row(ROGAN, scope, name, made, rows.n_unread)


def _row(estimate: str, scope: str, name: str | None, made: Estimate, unread: int) -> dict[str, object]:
    held = {f: getattr(made, f) for f in ("value", "lower", "upper", "level", "method", "n", "n_labels", "n_items")}
    more = {"error": made.error, "labels_saved": made.labels_saved, "n_unread": unread}
    return {"estimate": estimate, "scope": scope, "name": name, **held, **more}


# Quality of the judge.


def quality_table(rows: Rows, recalibrated: list[Recalibrated]) -> pd.DataFrame:
    """Agreement of judge and people as a table `metrics`; column `group` is empty, or names a group or system.

    Metrics: tpr, tnr (labels of two kinds), agreement, kappa and alpha (Krippendorff's, of nominal values, or squared
    differences of scores) of all labelled rows; tpr, tnr and agreement of each group and system; calibration_error,
    calibration_error_debiased and brier as the judge says it and recalibrated (`group` then names the method).
    """
    out: list[dict[str, object]] = []
    for name, part in [("", rows), *((n, p) for _, n, p in _parts(rows))]:
        out += [_metric(metric, name, one) for metric, one in _rates(part).items()]
    known = ~np.isnan(rows.label)
    said, wanted, items = rows.decided[known], rows.label[known], rows.item[known]
    if known.any():
        kappa = cluster_kappa(
            _words(said, rows), _words(wanted, rows), items, weights=rows.weights, level=rows.level, seed=rows.seed
        )
        scale: Literal["nominal", "interval"] = "nominal" if rows.binary or rows.kind != "scale" else "interval"
        alpha = krippendorff_alpha(
            np.column_stack([said, wanted]), items, scale=scale, weights=rows.weights, level=rows.level, seed=rows.seed
        )  # fmt: skip
        out += [_metric("kappa", "", kappa.interval), _metric("alpha", "", alpha)]
    for name, held in _calibrations(recalibrated):
        out.append(_metric("calibration_error", name, held.error))
        for metric, value in (("calibration_error_debiased", held.debiased), ("brier", held.brier)):
            out.append(
                _metric(metric, name, Interval(value, np.nan, np.nan, rows.level, "no interval", held.error.n, 0))
            )
    return METRICS.conform(pd.DataFrame(out))


def _calibrations(recalibrated: list[Recalibrated]) -> list[tuple[str, Calibration]]:
    first = [(AS_SAID, recalibrated[0].before)] if recalibrated else []
    return first + [(one.method, one.after) for one in recalibrated]


def _rates(rows: Rows) -> dict[str, Estimate]:
    made = true_rates(rows.decided, rows.label, rows.item, rows.chance, level=rows.level)
    if rows.binary:
        return made
    if rows.kind == "scale":
        same = true_rates(np.round(rows.verdict), np.round(rows.label), rows.item, rows.chance, level=rows.level)
        return {"agreement": same["agreement"]}
    return {"agreement": made["agreement"]}


def _metric(metric: str, group: str, made: Estimate | Interval) -> dict[str, object]:
    if isinstance(made, Estimate):
        made = Interval(made.value, made.lower, made.upper, made.level, made.method, made.n_labels, made.n_items)
    return {"metric": metric, "attack": "none", "defense": "none", "group": group, "n_unread": 0} | interval_columns(
        made
    )


def _words(values: Floats, rows: Rows) -> list[str]:
    """Values as a confusion table names them; scores are rounded."""
    if rows.kind == "pair":
        return [{1.0: "a", 0.0: "b"}.get(float(v), "tie") for v in values]
    if rows.binary:
        return [{1.0: "pass", 0.0: "fail"}.get(float(v), "between") for v in values]
    return [f"{round(float(v)):g}" for v in values]


def confusion_table(rows: Rows) -> pd.DataFrame:
    """Labelled rows by what judge and people said; the share is by the chances to be labelled."""
    known = ~np.isnan(rows.label)
    weights = np.ones(int(known.sum())) if rows.weights is None else rows.weights
    held = pd.DataFrame({"verdict": _words(rows.decided[known], rows), "label": _words(rows.label[known], rows)})
    held["weight"] = weights
    names = sorted({*held["verdict"], *held["label"]}, key=_rank)
    grid = [
        (v, y, held[(held["verdict"] == v) & (held["label"] == y)], held[held["label"] == y])
        for v in names
        for y in names
    ]
    cells = [
        {"verdict": v, "label": y, "n": len(own), "share": own["weight"].sum() / max(of["weight"].sum(), 1e-12)}
        for v, y, own, of in grid
    ]
    return CONFUSION.conform(pd.DataFrame(cells)) if cells else CONFUSION.empty()


def _rank(word: str) -> tuple[int, float]:
    order = {"pass": 0, "between": 1, "fail": 2, "a": 0, "tie": 1, "b": 2}
    return (0, float(order[word])) if word in order else (1, float(word))


# Calibration.


def recalibrations(rows: Rows) -> list[Recalibrated]:
    """The judge's number recalibrated by isotonic regression and by a line; empty where it gives none."""
    predicted = rows.prediction
    if predicted is None or np.isnan(rows.label).all():
        return []
    share = bool(((rows.label >= 0) & (rows.label <= 1) | np.isnan(rows.label)).all() and np.nanmax(predicted) <= 1)
    return [
        recalibrate(
            predicted, rows.label, rows.item, rows.chance, method=method, level=rows.level, seed=rows.seed
        )
        for method in ("isotonic", "platt" if share else "linear")
    ]  # fmt: skip


def calibration_table(rows: Rows, recalibrated: list[Recalibrated], bins: int) -> pd.DataFrame:
    """Bins of equal count, as the judge says it and recalibrated."""
    if not recalibrated:
        return CALIBRATION.empty()
    given = (rows.label, rows.item, rows.chance)
    ways = [(AS_SAID, rows.prediction), *((one.method, one.predicted) for one in recalibrated)]
    out = []
    for method, predicted in ways:
        assert predicted is not None
        held = calibrate(predicted, *given, bins=bins, level=rows.level, seed=rows.seed)
        out += [
            {
                "method": method, "bin": k, "predicted": b.predicted, "observed": b.observed.value,
                "lower": b.observed.lower, "upper": b.observed.upper, "n": b.observed.n_labels,
            }
            for k, b in enumerate(held.bins)
        ]  # fmt: skip
    return CALIBRATION.conform(pd.DataFrame(out)) if out else CALIBRATION.empty()


# Selective judging.

NO_CONFIDENCE = (
    "the verdicts carry no confidence: give a probability, the probabilities of both orders (p_ab, p_ba), or the "
    "verdicts of both orders (verdict, verdict_ba)"
)


def select(rows: Rows, bound: float, delta: float, off_by: float) -> Selection | None:
    """The verdicts to keep; None where they carry no confidence.

    Args:
        rows: the rows.
        bound: largest error among kept verdicts.
        delta: chance that the guarantee fails.
        off_by: a score is wrong where it is off by at least this.
    """
    confidence = rows.frame["confidence"].to_numpy(dtype=float)
    if np.isnan(confidence).all():
        return None
    scores = rows.kind == "scale" and not rows.binary
    apart = np.abs(rows.decided - rows.label)
    wrong = np.where(np.isnan(apart), np.nan, (apart >= off_by if scores else apart > 1e-9).astype(float))
    return choose_threshold(confidence, wrong, rows.item, rows.chance, bound=bound, delta=delta, seed=rows.seed)


def selection_table(selection: Selection | None) -> pd.DataFrame:
    """Every threshold, from the strictest to none."""
    if selection is None or not selection.steps:
        return SELECTION.empty()
    frame = pd.DataFrame([vars(step) for step in selection.steps])
    chosen = [int(i == selection.chosen) for i in range(len(frame))]
    return SELECTION.conform(
        frame.assign(passes=frame["passes"].astype(int), tested=frame["tested"].astype(int), chosen=chosen)
    )


# Labels needed.


def needed_table(rows: Rows, half: float, agreement: float) -> pd.DataFrame:
    """Labels for each half width: in the worst case, with an agreement assumed, and by what the labels show.

    Args:
        rows: the rows.
        half: a half width that is among those listed.
        agreement: share of rows on which judge and people are assumed to agree before any label.
    """
    known = rows.label[~np.isnan(rows.label)]
    share = bool(((known >= 0) & (known <= 1)).all())
    width = 1.0 if share else float(np.ptp(known)) or 1.0
    out = []
    for one in sorted({*(h * width for h in HALVES), half}):
        after = labels_needed_after(rows.verdict, rows.label, rows.item, one, rows.chance, level=rows.level)
        before, assumed = np.nan, np.nan
        if share and one < 0.5:
            said = labels_needed_before(one, rows=len(rows.frame), agreement=agreement, level=rows.level)
            before, assumed = said.labels_only, said.with_judge
        numbers = {
            "before": before,
            "assumed": assumed,
            "labels_only": after.labels_only,
            "with_judge": after.with_judge,
        }
        out.append({"half": one, **numbers, "reason": after.reason or None})
    return NEEDED.conform(pd.DataFrame(out))
