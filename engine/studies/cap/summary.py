"""A CAP run in words and as a JSON object: layer, standards and alphas, each arm's shift, each defense's cost."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from engine.core.schema import NONE
from engine.runs.folder import RunFolder
from engine.stats.intervals import with_ends
from engine.stats.shifts import FROM_UNDEFENDED
from engine.steering.references import LEAST_READ
from engine.steering.vectors import SIDES, Side
from engine.studies.cap.metrics import COSTS
from engine.studies.cap.study import CAP
from engine.studies.study import Summary


def plan_text(plan: dict[str, Any]) -> str:
    """The cost of the study in words.

    Args:
        plan: from `engine.studies.cap.run.plan_cap`.
    """
    lines = [
        f"The tutor writes about {plan['texts']:,} texts: at most {plan['tutor_tokens']:,} tokens, prompts included. "
        f"Judge and helpers: about {plan['calls']:,} calls of {plan['tokens']:,} tokens; {plan['known']:,} answers are "
        "known already."
    ]
    if plan["learned_prompts"]:
        lines.append(f"Learning suffixes computes at most {plan['learned_prompts']:,} prompts more.")
    if plan["expense"]:
        lines.append(plan["expense"]["sentence"])
    if not math.isnan(plan["seconds"]):
        lines.append(f"About {plan['seconds']:,.0f} s at most, by the pace of a few texts and verdicts just made.")
    lines += _left_out(plan)
    return "\n".join(lines)


def summary_of(run: RunFolder) -> Summary:
    """A finished run in words and as a JSON object; of a stopped one only that it stopped."""
    manifest = run.manifest()
    if manifest["state"] != "done":
        return Summary("What was asked is kept.", {})
    record = as_record(run)
    return Summary(report(record), record | {"tutor": manifest["tutor"]["spec"]})


def as_record(run: RunFolder) -> dict[str, Any]:
    """The JSON object of a finished run, read back from its tables."""
    manifest, metrics = run.manifest(), run.table("metrics")
    cap = manifest["cap"]
    layers = run.table("cap_layers")
    relative, distance = (
        {(r["attack"], r["defense"]): r["value"] for r in _rows(metrics, metric)}
        for metric in ("relative_shift", FROM_UNDEFENDED)
    )
    arms = [
        {
            "attack": r["attack"],
            "defense": r["defense"],
            "n": int(r["n"]),
            "n_unread": int(r["n_unread"]),
            "shift": r["value"],
            "shift_lower": r["lower"],
            "shift_upper": r["upper"],
            "relative_shift": relative.get((r["attack"], r["defense"])),
            "from_undefended": distance.get((r["attack"], r["defense"])),
        }
        for r in _rows(metrics, "shift")
    ]

    def per_defense(metric: str) -> dict[str, float]:
        return {r["defense"]: float(r["value"]) for r in _rows(metrics, metric) if r["attack"] == NONE}

    def cost_of(name: str) -> dict[str, float | None]:
        cost = {metric: per_defense(metric).get(name) for metric in COSTS}
        return {"tokens": cost["tokens_alone"], "seconds": cost["seconds_alone"], **cost}

    return {
        "run_id": run.run_id,
        **{k: cap[k] for k in ("best_layer", "layer", "separated", "alpha_high", "alpha_low")},
        **{k: cap[k] for k in ("standard_high", "standard_low")},
        "alphas": {side: _alpha_read(run.table("cap_sweep"), side, cap[f"alpha_{side}"]) for side in SIDES},
        "left_out": manifest.get("left_out", {}),
        "perplexity": manifest.get("perplexity"),
        "learned": manifest.get("learned", []),
        "separability": layers[layers["space"] == "pca"].sort_values("layer")["value"].tolist(),
        "separability_written": _written_at(layers, cap["layer"]),
        "arms": arms,
        "spearman": per_defense("spearman"),
        "cost": {name: cost_of(name) for name in per_defense("tokens_alone")},
        "anchor_gap": per_defense("anchor_gap"),
        "anchor_effect": per_defense("anchor_effect"),
        "comparative": [_comparative(metrics, r["attack"]) for r in _rows(metrics, "comparative_shift")],
    }


def _left_out(found: dict[str, Any]) -> list[str]:
    return [f"Left out: {part}. {why}" for part, why in found.get("left_out", {}).items()]


def _written_at(layers: pd.DataFrame, layer: int) -> dict[str, float] | None:
    """Separability at the chosen layer without degraded texts, and its null; None where it was not taken."""
    rows = layers[(layers["space"] == "pca-written") & (layers["layer"] == layer)]
    names = ("value", "lower", "upper", "null_high", "p_value", "n_high", "n_low")
    return {name: float(rows[name].iloc[0]) for name in names} if len(rows) else None


def _alpha_read(sweep: pd.DataFrame, side: Side, alpha: float) -> dict[str, Any]:
    """The chosen alpha of a side: its texts' mean score and standard deviation, and how many were read."""
    scores = sweep.loc[(sweep["side"] == side) & (sweep["alpha"] == alpha), "score"]
    n = int(scores.notna().sum())
    enough = n >= LEAST_READ * len(scores)
    counts = {"n": n, "n_unread": len(scores) - n, "enough_read": enough}
    return {"alpha": alpha, "mean": float(scores.mean()), "sd": float(scores.std(ddof=1)), **counts}


def _comparative(metrics: pd.DataFrame, attack: str) -> dict[str, Any]:
    """One attack's shift of a preference and of a score, each in units of its clean standard deviation."""
    of_arm = metrics[(metrics["attack"] == attack) & (metrics["defense"] == NONE)].set_index("metric")["value"]
    names = ("comparative_shift", "comparative_shift_sd", "absolute_shift_sd")
    return {"attack": attack, **{name: float(of_arm[name]) for name in names}}


def _rows(metrics: pd.DataFrame, metric: str) -> list[dict[str, Any]]:
    rows = metrics[metrics["metric"] == metric].to_dict("records")
    return [{str(k): v for k, v in row.items()} for row in rows]


def _without_degraded(found: dict[str, float] | None) -> list[str]:
    if not found:
        return []
    return [
        f"Without degraded texts: {found['value']:.2f} [{found['lower']:.2f}, {found['upper']:.2f}], shuffled sides "
        f"reach {found['null_high']:.2f} (p {found['p_value']:.3g}; {found['n_high']:g} high and "
        f"{found['n_low']:g} low texts)."
    ]


def report(record: dict[str, Any]) -> str:
    """The JSON object for reading."""
    separation = "outside" if record["separated"] else "inside"
    lines = [
        f"Layer {record['layer']} of {len(record['separability'])}: separability after PCA "
        f"{record['separability'][record['layer'] - 1]:.2f} on texts it was not fitted on, {separation} its null.",
        f"Standards {record['standard_low']:.2f} and {record['standard_high']:.2f}; nearest alphas: "
        + "; ".join(_alpha(side, record["alphas"][side]) for side in ("low", "high"))
        + ".",
        *_without_degraded(record.get("separability_written")),
        *_left_out(record),
        *_fitted_thresholds(record.get("perplexity")),
        *(
            f"Learned on the judge {'behind CAP' if one['defense'] == CAP else 'undefended'}: "
            f"{' '.join(one['words'])!r} ({one['attack']}), mean training score {one['values'][0]:.2f} -> "
            f"{one['values'][-1]:.2f} after {one['queries']:,} prompts."
            for one in record.get("learned", ())
        ),
        "",
        *_shifts(record["arms"]),
        "",
        *_costs(record),
        "gap: score of the high anchor less the low one's; effect: mean change when the two change places.",
    ]
    return "\n".join(lines)


def _alpha(side: str, one: dict[str, Any]) -> str:
    """A chosen alpha: number of its texts that were read, their mean score and its standard deviation."""
    of = one["n"] + one["n_unread"]
    few = "" if one["enough_read"] else f", fewer than {LEAST_READ:.0%}, so its mean is of those that survived"
    return f"{one['alpha']:g} ({side}; {one['n']} of {of} texts read{few}, mean {one['mean']:.2f}, sd {one['sd']:.2f})"


def _fitted_thresholds(perplexity: dict[str, Any] | None) -> list[str]:
    """A line for each fitted threshold of perplexity."""
    if not perplexity:
        return []
    return [
        f"Perplexity under {perplexity['guard']}, threshold {one['threshold']:g} of best F1 ({one['f1']:.2f}) on "
        f"{one['n_clean']} clean and {one['n_attacked']} attacked training responses ({', '.join(one['attacks'])})."
        for one in perplexity["fitted"]
    ]


def _shifts(arms: list[dict[str, Any]]) -> list[str]:
    wide = max([14, *(len(arm["defense"]) for arm in arms)])
    lines = [
        f"{'attack':<10} {'defense':<{wide}} {'shift':>28} {'relative':>9} {'n':>4} {'unread':>6}",
        "-" * (62 + wide),
    ]
    for arm in arms:
        text = with_ends(arm["shift"], arm["shift_lower"], arm["shift_upper"], "+.2f")
        relative = _number(arm["relative_shift"], "+.0%")
        lines.append(
            f"{arm['attack']:<10} {arm['defense']:<{wide}} {text:>28} {relative:>9} {arm['n']:>4} {arm['n_unread']:>6}"
        )
    return lines


def _costs(record: dict[str, Any]) -> list[str]:
    wide = max([14, *map(len, record["cost"])])
    head = f"{'defense':<{wide}} {'Spearman':>9} {'tokens alone':>13} {'shared':>8} {'gap':>6} {'effect':>7}"
    lines = [head, "-" * len(head)]
    for defense, cost in record["cost"].items():
        cells = [
            f"{_number(record['spearman'].get(defense), '.2f'):>9}",
            f"{_number(cost['tokens_alone'], '.0f'):>13}",
            f"{_number(cost['tokens_shared'], '.0f'):>8}",
            f"{_number(record['anchor_gap'].get(defense), '.2f'):>6}",
            f"{_number(record['anchor_effect'].get(defense), '.2f'):>7}",
        ]
        lines.append(f"{defense:<{wide}} {' '.join(cells)}")
    return lines


def _number(value: float | None, form: str) -> str:
    """The number, or nothing where it is undefined."""
    return "" if value is None or math.isnan(value) else format(value, form)
