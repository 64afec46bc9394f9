"""A CAP run in words and as a JSON object."""

from __future__ import annotations

import math
from typing import Any

from engine.runs.folder import RunFolder
from engine.steering.references import LEAST_READ
from engine.studies.cap.run import summary
from engine.studies.study import Summary


def summary_of(folder: RunFolder) -> Summary:
    """A finished run in words and as a JSON object; of a stopped one only that it stopped."""
    manifest = folder.manifest()
    if manifest["state"] != "done":
        return Summary("What was asked is kept.", {})
    result = summary(folder)
    return Summary(report(result), {**result, "tutor": manifest["tutor"]["spec"]})


def plan_text(plan: dict[str, Any]) -> str:
    """What the study would take."""
    lines = [
        f"The tutor writes about {plan['texts']:,} texts: at most {plan['tutor_tokens']:,} tokens, prompts included. "
        f"Judge and helpers: about {plan['calls']:,} calls of {plan['tokens']:,} tokens; {plan['known']:,} answers are "
        "known already."
    ]
    if plan["learned_prompts"]:
        lines.append(f"Learning suffixes computes at most {plan['learned_prompts']:,} prompts more.")
    if plan["expense"]:
        lines.append(plan["expense"]["sentence"])
    lines.append("Texts are counted at their longest; how long they get decides the time, so no seconds are given.")
    return "\n".join(lines)


def report(result: dict[str, Any]) -> str:
    """The summary for reading."""
    separation = "outside" if result["separated"] else "inside"
    lines = [
        f"Layer {result['layer']} of {len(result['separability'])}: separability after PCA "
        f"{result['separability'][result['layer'] - 1]:.2f} on texts it was not fitted on, {separation} its null.",
        f"Standards {result['standard_low']:.2f} and {result['standard_high']:.2f}; nearest alphas: "
        + "; ".join(_alpha(side, result["alphas"][side]) for side in ("low", "high"))
        + ".",
        *_screens(result.get("perplexity")),
        *(
            f"Learned on the judge {'behind CAP' if one['defense'] == 'cap' else 'undefended'}: "
            f"{' '.join(one['words'])!r} ({one['attack']}), mean training score {one['values'][0]:.2f} -> "
            f"{one['values'][-1]:.2f} after {one['queries']:,} prompts."
            for one in result.get("learned", ())
        ),
        "",
        *_shifts(result["arms"]),
        "",
        *_costs(result),
        "gap: score of the high anchor less the low one's; effect: mean change when the two change places.",
    ]
    return "\n".join(lines)


def _alpha(side: str, one: dict[str, Any]) -> str:
    """How many of a chosen alpha's texts were read, and what they score."""
    of = one["n"] + one["n_unread"]
    few = "" if one["enough_read"] else f", fewer than {LEAST_READ:.0%}, so its mean is of those that survived"
    return f"{one['alpha']:g} ({side}; {one['n']} of {of} texts read{few}, mean {one['mean']:.2f}, sd {one['sd']:.2f})"


def _screens(found: dict[str, Any] | None) -> list[str]:
    """The fitted thresholds."""
    if not found:
        return []
    return [
        f"Perplexity under {found['guard']}, threshold {one['threshold']:g} of best F1 ({one['f1']:.2f}) on "
        f"{one['n_clean']} clean and {one['n_attacked']} attacked training responses ({', '.join(one['attacks'])})."
        for one in found["fitted"]
    ]


def _shifts(arms: list[dict[str, Any]]) -> list[str]:
    wide = max([14, *(len(arm["defense"]) for arm in arms)])
    lines = [
        f"{'attack':<10} {'defense':<{wide}} {'shift':>28} {'relative':>9} {'n':>4} {'unread':>6}",
        "-" * (62 + wide),
    ]
    for arm in arms:
        text = f"{arm['shift']:+.2f} [{arm['shift_lower']:+.2f}, {arm['shift_upper']:+.2f}]"
        relative = _number(arm["relative_shift"], "+.0%")
        lines.append(
            f"{arm['attack']:<10} {arm['defense']:<{wide}} {text:>28} {relative:>9} {arm['n']:>4} {arm['n_unread']:>6}"
        )
    return lines


def _costs(result: dict[str, Any]) -> list[str]:
    wide = max([14, *map(len, result["cost"])])
    head = f"{'defense':<{wide}} {'Spearman':>9} {'tokens alone':>13} {'shared':>8} {'gap':>6} {'effect':>7}"
    lines = [head, "-" * len(head)]
    for defense, cost in result["cost"].items():
        cells = [
            f"{_number(result['spearman'].get(defense), '.2f'):>9}",
            f"{_number(cost['tokens_alone'], '.0f'):>13}",
            f"{_number(cost['tokens_shared'], '.0f'):>8}",
            f"{_number(result['anchor_gap'].get(defense), '.2f'):>6}",
            f"{_number(result['anchor_effect'].get(defense), '.2f'):>7}",
        ]
        lines.append(f"{defense:<{wide}} {' '.join(cells)}")
    return lines


def _number(value: float | None, form: str) -> str:
    """The number, or nothing where it is undefined."""
    return "" if value is None or math.isnan(value) else format(value, form)
