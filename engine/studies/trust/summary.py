"""A finished run of the study `trust` in words and as a JSON object."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import INCONCLUSIVE, OK, THRESHOLD_FAILED
from engine.core.gate import FAILED, PASSED, UNKNOWN, Check
from engine.runs.folder import RunFolder
from engine.stats.intervals import with_ends
from engine.studies.study import Summary
from engine.studies.trust.requirements import QUALITY, held
from engine.studies.trust.tables import CORRECTED, LABELS_ONLY, RAW, ROGAN

TITLES = {
    RAW: "Raw (judge alone)",
    CORRECTED: "Corrected (PPI++)",
    LABELS_ONLY: "Labels alone",
    ROGAN: "Corrected (Rogan-Gladen)",
}
"""The numbers in words."""


def summary_of(folder: RunFolder) -> Summary:
    """Raw, corrected and labels-only number, the judge's quality, labels needed, and which verdicts may be kept."""
    table, metrics, manifest = folder.table("trust"), folder.table("metrics"), folder.manifest()
    whole = table[table["scope"] == "all"]
    data = manifest["data"]
    n, labels = data["n_responses"], data["n_labels"]
    lines = [f"{n:,} rows, {labels:,} with a label" + (f", {data['n_unread']:,} unread." if data["n_unread"] else ".")]
    lines += [_line(row) for row in whole.to_dict("records")]
    truth = data.get("truth")
    if truth:
        lines.append(f"{'True (all labels)':<26} {truth['value']:.3f}  n {truth['n']:,}")
    lines += _saved(whole)
    lines += _quality(metrics)
    asked, words = _needed(folder.table("trust_needed"), manifest["config"] | {"n": n})
    chosen, kept = _selected(folder.table("trust_selection"), manifest)
    lines += [words, kept]
    attacked, told = _attacked(folder)
    lines += told
    overall = list(lines)
    for scope in ("system", "group", "difference"):
        part = table[(table["scope"] == scope) & (table["estimate"] != ROGAN)]
        lines += [f"By {scope}:" if scope != "difference" else "Between systems:"] * bool(len(part))
        lines += [f"  {row['name']}: {_line(row)}" for row in part.to_dict("records")]
    record: dict[str, Any] = {str(row["estimate"]): _record(row) for row in whole.to_dict("records")}
    record |= {
        "truth": truth,
        "systems": _by_name(table, "system"),
        "groups": _by_name(table, "group"),
        "differences": _by_name(table, "difference"),
        "quality": _quality_record(metrics),
        "labels_needed": asked,
        "selective": chosen,
        "under_attack": attacked,
    }
    checks = (_corrected_known(whole), *held(manifest["config"].get("require", ()), table, metrics))
    statuses = {check.status for check in checks}
    code = THRESHOLD_FAILED if FAILED in statuses else INCONCLUSIVE if UNKNOWN in statuses else OK
    lines += [f"Required {c.name}: {c.status}. {c.measured} {c.message}" for c in checks[1:]]
    return Summary("\n".join(lines), record, code, checks, tuple(overall))


def _corrected_known(whole: pd.DataFrame) -> Check:
    """There is a corrected number with an interval."""
    row = whole[whole["estimate"] == CORRECTED].iloc[0]
    known = bool(np.isfinite(row["lower"]))
    numbers = {name: float(row[name]) for name in ("value", "lower", "upper")}
    status, title = (PASSED if known else UNKNOWN), TITLES[CORRECTED]
    measured = with_ends(numbers["value"], numbers["lower"], numbers["upper"]) if known else ""
    return Check("corrected", title, status, str(row["method"]), measured, "has an interval", **numbers)


def _line(row: dict[Any, Any]) -> str:
    name = TITLES[row["estimate"]]
    if row["value"] != row["value"]:
        return f"{name:<26} {row['method']}"
    return (
        f"{name:<26} {with_ends(row['value'], row['lower'], row['upper'])}  n {row['n']:,}, {row['n_labels']:,} labels"
    )


def _record(row: dict[Any, Any]) -> dict[str, Any]:
    held = ("value", "lower", "upper", "method", "n", "n_labels", "n_items", "labels_saved")
    return {name: row[name] for name in held}


def _by_name(table: pd.DataFrame, scope: str) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for row in table[table["scope"] == scope].to_dict("records"):
        out.setdefault(str(row["name"]), {})[str(row["estimate"])] = _record(row)
    return out


def _saved(whole: pd.DataFrame) -> list[str]:
    row = whole[whole["estimate"] == CORRECTED].iloc[0]
    saved = float(row["labels_saved"])
    if not np.isfinite(saved):
        return []
    labels = int(row["n_labels"])
    return [f"The judge saves {saved:,.0f} labels: {labels:,} with it are worth {labels + saved:,.0f} without."]


def _quality(metrics: pd.DataFrame) -> list[str]:
    whole = metrics[metrics["group"].fillna("") == ""]
    known = whole[whole["metric"].isin(list(QUALITY)) & whole["value"].notna()].to_dict("records")
    said = [f"{QUALITY[r['metric']]} {with_ends(r['value'], r['lower'], r['upper'])}" for r in known]
    errors = metrics[metrics["metric"] == "calibration_error"].to_dict("records")
    said += [f"calibration error {r['group']} {with_ends(r['value'], r['lower'], r['upper'])}" for r in errors]
    return ["Judge against people: " + "; ".join(said) + "."] if said else []


def _quality_record(metrics: pd.DataFrame) -> dict[str, Any]:
    """Metric -> its numbers, those of a group or method below its name."""
    out: dict[str, Any] = {}
    for row in metrics.to_dict("records"):
        held = {name: row[name] for name in ("value", "lower", "upper", "method", "n")}
        group = row["group"] if isinstance(row["group"], str) and row["group"] else ""
        out.setdefault(str(row["metric"]), {})[group or "all"] = held
    return out


def _needed(table: pd.DataFrame, config: dict[str, Any]) -> tuple[dict[str, Any], str]:
    half = float(config["half"])
    row = table.iloc[int((table["half"] - half).abs().argmin())]
    record = {name: row[name] for name in ("half", "before", "assumed", "labels_only", "with_judge", "reason")}
    worst = f"{row['before']:,.0f} in the worst case" if np.isfinite(row["before"]) else ""
    if np.isfinite(row["with_judge"]):
        said = f"{row['with_judge']:,.0f} with the judge, {row['labels_only']:,.0f} without it"
        return record, f"Labels for ±{half:g}: {'; '.join(filter(None, (said, worst)))}."
    if np.isfinite(row["labels_only"]) or not worst:
        reason = row["reason"] if isinstance(row["reason"], str) else "too few labels to tell"
        return record, f"Labels for ±{half:g}: not with these rows ({reason})."
    guess = f", {row['assumed']:,.0f} with a judge that is right on {float(config['agreement']):.0%}"
    guess = guess if np.isfinite(row["assumed"]) else f"; these {config['n']:,} rows are too few"
    return record, f"Labels for ±{half:g}: {worst}{guess}."


def _selected(table: pd.DataFrame, manifest: dict[str, Any]) -> tuple[dict[str, Any], str]:
    config, reason = manifest["config"], str((manifest.get("selective") or {}).get("reason", ""))
    bound, sure = float(config["bound"]), 1 - float(config["delta"])
    chosen = table[table["chosen"] == 1]
    record: dict[str, Any] = {"bound": bound, "delta": config["delta"], "reason": reason}
    if chosen.empty:
        return record | {"threshold": None, "kept": 0.0, "error": None, "upper": None}, (
            f"No verdict may be kept at an error of at most {bound:g}: {reason}."
        )
    row = chosen.iloc[0]
    record |= {name: row[name] for name in ("threshold", "kept", "n_kept", "n_labels", "errors", "error", "upper")}
    return record, (
        f"Keep the {row['kept']:.0%} of verdicts with a confidence of at least {row['threshold']:.3f}: error "
        f"{row['error']:.3f}, at most {bound:g} with {sure:.0%} confidence "
        f"({row['errors']} of {row['n_labels']} labelled items wrong). People read the others."
    )


def _attacked(folder: RunFolder) -> tuple[dict[str, Any], list[str]]:
    """What an attack on every unlabelled row would do, and the smallest one that the labels notice."""
    table, manifest = folder.table("trust_attacked"), folder.manifest()
    noticed = manifest.get("noticed") or {}
    if table.empty:
        return {}, []
    power = folder.table("trust_noticed").to_dict("records")
    record = {**noticed, "attack": manifest["config"].get("attacked") or "every attacked row passes",
              "rows": table.to_dict("records"), "power": power}  # fmt: skip
    worst = table[(table["case"] == "after") & (table["share"] == table["share"].max())]
    said = [f"{TITLES[r.estimate]} {r.value:.3f} ({r.moved:+.3f})" for r in worst.itertuples() if np.isfinite(r.moved)]
    least = float(noticed.get("least_share") or np.inf)
    seen = f"from {least:.1%} of rows on" if least <= 1 else "at no share of rows"
    lines = [f"All unlabelled rows attacked after the labels were taken ({record['attack']}): " + "; ".join(said) + "."]
    return record, [*lines, f"The verdicts of labelled and unlabelled rows would show it {seen} (80 % power)."]
