"""A transport audit before it runs and afterwards: its cost, its summary in the manifest, and both in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.core.schema import NONE
from engine.data.comparisons import Comparisons
from engine.judges.base import Cost, Judge
from engine.runs.folder import RunFolder
from engine.stats.intervals import NO_VARIATION
from engine.studies.running import Plan, as_json, expense_of, make_plan
from engine.studies.study import Summary
from engine.studies.transport_audit.metrics import CONDITIONAL, Audit, Split, best_control, decide
from engine.studies.transport_audit.study import AuditConfig
from engine.studies.transport_audit.verdicts import clean_requests, plan_pairs

SHOWN = (
    "cons_orig", "cons_adj", "gain", "cons_all", "cons_random", "cons_centroid", "cons_nearest", "cons_top10",
    "gain_over_best", "gain_over_random", "auc_entry_mass", "auc_centroid", "auc_nearest", "auc_top10", "verdict_flips",
    "verdict_undecided", "decided", "orders_disagree", "mass_clean", "mass_attacked", "mass_oracle", "cons_adj_items",
    "gain_items",
)  # fmt: skip
"""Metrics that the command line prints."""
UNLABELLED = "left_out_without_labels"
"""Key of the manifest's summary where no pair has a person's choice: a sentence on what the run left out."""


def plan_of(config: AuditConfig, pairs: Comparisons, judge: Judge | None) -> tuple[dict[str, Any], str]:
    """Calls of the clean arm, as the JSON object and in words."""
    cost = plan_pairs(judge, pairs, config.limit) if judge else Cost(0, 0, 2 * len(pairs.comparisons))
    arms = len(config.attacks)
    lines = [
        f"Clean arm: {cost.calls:,} calls of {cost.tokens:,} tokens, {cost.known:,} known; as many for each of",
        f"{arms} attacks, whose texts depend on the clean verdicts; then each text is encoded once per encoder.",
    ]
    plan: dict[str, Any] = {
        "clean_calls": cost.calls,
        "clean_tokens": cost.tokens,
        "known": cost.known,
        "attacks": arms,
    }
    if judge and (expense := expense_of(judge, cost)):
        lines.append(f"Clean arm: {expense.sentence()}")
        plan |= {"clean_expense": as_json(expense)}
    return plan, "\n".join(lines)


def cost_of(config: AuditConfig, pairs: Comparisons, judge: Judge | None) -> Plan:
    """What all arms will take, every attacked one as much as the clean one; the encoder is not counted."""
    if judge is None:
        return Plan(2 * len(pairs.comparisons), 0, 0, 2 * len(pairs.comparisons), float("nan"), 0, 0.0)
    plan = make_plan([(judge, clean_requests(pairs, config.limit))])
    arms = 1 + len(config.attacks)
    return plan._replace(
        verdicts=plan.verdicts * arms,
        calls=plan.calls + plan.verdicts * (arms - 1),
        seconds=plan.seconds + (plan.seconds / plan.calls if plan.calls else 0.0) * plan.verdicts * (arms - 1),
    )


def manifest_summary(
    audited: Audit, audit: pd.DataFrame, metrics: pd.DataFrame, config: AuditConfig, seconds: float, n_excluded: int
) -> dict[str, Any]:
    """The clean arm's numbers, for the manifest and the JSON object.

    Args:
        audited: its audit.
        audit: table `audit`.
        metrics: table `metrics`.
        config: the settings.
        seconds: of one path, mean over the splits [s].
        n_excluded: pairs left out.
    """
    rows, shown = audited.rows(audit), audited.shown
    clean = metrics[(metrics["attack"] == NONE)]
    overall = clean[clean["group"].isna()].drop_duplicates("metric").set_index("metric")
    n_estimate = sum(s.n_estimate for s in shown)
    types = [str(t) for t in dict.fromkeys(audited.pairs["type"])]
    return {
        "n_positive": int((rows["role"] != "unlabelled").sum()),
        "n_positive_kept": sum(s.path.n_positive for s in shown),
        "n_unlabelled": sum(s.path.n_unlabelled for s in shown),
        "n_excluded": n_excluded,
        "n_splits": len({s.number for s in audited.splits}),
        "encoder": config.encoders[0],
        "mass": _mean_mass(shown, config.mass),
        "mass_source": "set" if config.mass is not None else f"consistency on {n_estimate} positives",
        "cons_orig": _interval(overall, "cons_orig"),
        "cons_adj": _interval(overall, "cons_adj"),
        "gain": _interval(overall, "gain"),
        "cons_random": _interval(overall, "cons_random"),
        "best_control": best_control(clean),
        "best_control_chosen": "on the same pairs, which favours it",
        "intervals": CONDITIONAL,
        "gain_over_best": _interval(overall, "gain_over_best"),
        "n_flipped": sum(int(decide(s, config.mass, config.eta).flips.sum()) for s in shown),
        "auc": {name: _interval(overall, f"auc_{name}") for name in ("entry_mass", "centroid", "nearest", "top10")},
        "path_seconds": seconds,
        "by_type": [_of_type(clean, name, config.min_cell) for name in types],
        "sensitivity": {
            str(row.group): row.value for row in clean[clean["metric"] == "sensitivity_cons_adj"].itertuples()
        },
    }


def _mean_mass(shown: Sequence[Split], wanted: float | None) -> float:
    """The mass, averaged over the pairs where each question type has its own."""
    sizes = [s.path.n_unlabelled for s in shown]
    return float(np.average([s.mass(wanted) for s in shown], weights=sizes))


def _interval(table: pd.DataFrame, metric: str) -> dict[str, Any] | None:
    if metric not in table.index:
        return None
    row = dict(zip(table.columns, table.loc[[metric]].iloc[0].tolist(), strict=True))
    return {name: row[name] for name in ("value", "lower", "upper", "method")} | {"n": int(row["n"])}


def _of_type(clean: pd.DataFrame, name: str, min_cell: int) -> dict[str, Any]:
    rows = clean[(clean["group"] == name) & clean["metric"].isin(["cons_orig", "cons_adj", "gain"])].set_index("metric")
    n = int(rows["n"].max()) if len(rows) else 0
    numbers = {metric: _interval(rows, metric) for metric in ("cons_orig", "cons_adj", "gain")}
    return {"type": name, "n": n, "enough": n >= min_cell} | numbers


def summary_of(folder: RunFolder) -> Summary:
    """Metrics of every arm, gains by question type, the best control, and the pairs left out.

    A run that was stopped holds no summary yet.
    """
    manifest = folder.manifest()
    summary: dict[str, Any] = manifest.get("summary") or {}
    if not summary:
        return Summary("No audit yet: it was stopped before the verdicts were measured.", {})
    metrics = folder.table("metrics")
    overall = metrics[metrics["group"].isna() & metrics["metric"].isin(SHOWN)]
    if UNLABELLED in summary:
        said = _lines(overall)
        return Summary("\n".join([str(summary[UNLABELLED]), *said]), {"excluded": manifest["excluded"]} | summary)
    lines = [f"{'attack':<12} {'metric':<16} value [95 % interval]", *_lines(overall)]
    for kind in summary["by_type"]:
        if kind["gain"] and kind["enough"]:
            lines.append(f"{NONE:<12} gain, {kind['type']:<24} {_number(kind['gain'])}  n {kind['n']}")
    if summary["best_control"]:
        lines.append(f"Best control: {summary['best_control']}, chosen on the same pairs, which favours it.")
        lines.append(CONDITIONAL)
    if not summary["n_splits"]:
        lines.append("Consistency cannot be checked: no labelled pair with a verdict could be held back.")
    excluded = manifest["excluded"]
    lines.append(f"Excluded: {sum(excluded.values())} pairs {excluded}. Kept share = mass by construction (an input).")
    return Summary("\n".join(lines), {"excluded": excluded} | summary)


def _lines(metrics: pd.DataFrame) -> list[str]:
    return [
        f"{row['attack']:<12} {row['metric']:<16} {_number(row)}  n {row['n']}" for row in metrics.to_dict("records")
    ]


def _number(row: dict[Any, Any]) -> str:
    """Value and interval of a row or a summary's entry; the reason where it has none."""
    if pd.isna(row["value"]):
        return "undefined"
    if not pd.isna(row["lower"]):
        return f"{row['value']:+.3f} [{row['lower']:+.3f}, {row['upper']:+.3f}]"
    return f"{row['value']:+.3f}" + (f" ({row['method']})" if row["method"] == NO_VARIATION else "")
