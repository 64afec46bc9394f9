"""A RefSwap run in words and as a JSON object: what is accepted before and behind RefSwap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine.attacks.master_keys import key_text, shown
from engine.plots.text import plural
from engine.runs.folder import RunFolder
from engine.stats.intervals import Interval
from engine.studies.refswap.figures import fewer_note, unread_note
from engine.studies.refswap.metrics import USUAL_GAMMA, Baseline, Rates, Summary, Table, sample_table, summarise
from engine.studies.refswap.study import RefSwapConfig
from engine.studies.study import Summary as StudySummary

# A summary of the study refswap as the JSON object names it.


def as_record(table: Table, summary: Summary, judge: str, n_without_reference: int) -> dict[str, Any]:
    """Record of one arm in the JSON object; rates are of the test part, AUC and d of all accepted samples.

    Args:
        table: the samples of the arm.
        summary: their numbers at one setting.
        judge: spec of the verifier.
        n_without_reference: items that could not be asked about.
    """
    s = table.samples
    read = ~np.isnan(s.p)
    return {
        "judge": judge,
        "n_clean": int((s.clean & read).sum()),
        "n_keys": int((~s.clean & read).sum()),
        "n_unread": int((~read).sum()),
        "n_unread_clean": int((s.clean & ~read).sum()),
        "n_unread_keys": int((~s.clean & ~read).sum()),
        "n_test_keys": summary.before.fpr.n,
        "n_without_reference": n_without_reference,
        "accuracy_before": summary.before.accuracy.value,
        "accuracy_after": summary.after.accuracy.value,
        "fpr_before": summary.before.fpr.value,
        "fpr_after": summary.after.fpr.value,
        "fpr_worst_before": summary.before.fpr_worst.value,
        "fpr_worst_after": summary.after.fpr_worst.value,
        "auc": summary.auc.value,
        "one_auc": summary.one_auc.value,
        "s_auc": summary.s_auc.value,
        "cohens_d": summary.cohens_d.value,
        "gamma": summary.gamma,
        "delta": 100 * summary.delta,
        "k": summary.k,
        "per_key": _per_key(table, summary),
        "forward_passes_per_sample": {"clean": summary.cost_clean.passes, "key": summary.cost_key.passes},
        "tokens_ratio": {"clean": summary.cost_clean.tokens_ratio, "key": summary.cost_key.tokens_ratio},
        "accepted_tokens_ratio": {
            "clean": summary.cost_clean.accepted_tokens_ratio,
            "key": summary.cost_key.accepted_tokens_ratio,
        },
        "n_accepted": {"correct": summary.n_right, "key": summary.n_fooled},
        "n_fewer_references": summary.n_fewer,
        "pass_rates": {"correct": summary.pass_right.value, "key": summary.pass_fooled.value},
        "dev": _part(summary.dev_before, summary.dev_after),
        "test": _part(summary.before, summary.after),
        "baselines": {
            "k_1": _baseline(summary.k_one),
            "s_score": _baseline(summary.s_score),
            "length": _baseline(summary.length),
        },
        "intervals": {
            name: [one.lower, one.upper]
            for name, one in (
                ("auc", summary.auc),
                ("one_auc", summary.one_auc),
                ("s_auc", summary.s_auc),
                ("cohens_d", summary.cohens_d),
            )
        },
    }


def _per_key(table: Table, summary: Summary) -> list[dict[str, Any]]:
    return [
        {
            "key": key_text(name),
            "n": before.n,
            "n_unread": lost,
            "fpr_before": before.value,
            "fpr_after": after.value,
            "before": [before.lower, before.upper],
            "after": [after.lower, after.upper],
        }
        for name, before, after, lost in zip(
            table.keys, summary.before.per_key, summary.after.per_key, summary.before.unread_keys, strict=True
        )
    ]


def _part(before: Rates, after: Rates) -> dict[str, Any]:
    return {
        "n": before.accuracy.n,
        "n_items": before.accuracy.n_clusters,
        "n_unread": after.n_unread,
        "accuracy_before": _whole(before.accuracy),
        "accuracy_after": _whole(after.accuracy),
        "fpr_before": _whole(before.fpr),
        "fpr_after": _whole(after.fpr),
    }


def _baseline(one: Baseline) -> dict[str, float]:
    rates = {name: getattr(one.after, name).value for name in ("accuracy", "fpr", "fpr_worst")}
    return {"cut": one.cut.value, **rates}


def _whole(one: Interval) -> list[float]:
    return [one.value, one.lower, one.upper]


def summary_of(config: RefSwapConfig, folder: RunFolder) -> StudySummary:
    """Text of a run for the command line, and its JSON object."""
    about = folder.manifest()["data"]
    left_out = int(about["n_without_reference"])
    arms: dict[str, Any] = {}
    lines: list[str] = []
    for arm in config.arms:
        table, summary = _summary(folder, config, arm)
        arms[arm] = as_record(table, summary, config.judge, left_out)
        lines += _lines(table, summary, arm)
    if left_out:
        lines.append(f"Left out: {plural(left_out, 'item')} without a reference.")
    first = arms[config.arms[0]]
    return StudySummary("\n".join(lines), first | {"arms": arms} if len(arms) > 1 else first)


def _summary(run: RunFolder, config: RefSwapConfig, arm: str) -> tuple[Table, Summary]:
    table = sample_table(run.table("verdicts"), run.table("samples"), arm)
    k, delta = config.k, config.delta / 100
    return table, summarise(table.samples, k=k, delta=delta, threshold=config.threshold, level=config.level)


def _lines(table: Table, summary: Summary, arm: str) -> list[str]:
    lines: list[str] = []
    kind = "another" if arm == "other" else "the same"
    lines.append(f"Counterfactual references of {kind} answer type, K = {summary.k}")
    head = f"  {'master key':<40} {'accepted':<24} {'behind RefSwap':<24} {'n':>4}"
    lines.append(head)
    for name, before, after in zip(table.keys, summary.before.per_key, summary.after.per_key, strict=True):
        lines.append(f"  {shown(key_text(name)):<40} {_text(before):<24} {_text(after):<24} {before.n:>4}")
    for what, before, after in (
        ("mean of the keys", summary.before.fpr, summary.after.fpr),
        ("accuracy on responses (test part)", summary.before.accuracy, summary.after.accuracy),
        ("accuracy on responses (dev part)", summary.dev_before.accuracy, summary.dev_after.accuracy),
    ):
        lines.append(f"  {what:<40} {_text(before):<24} {_text(after):<24} {before.n:>4}")
    for note in (unread_note(table, summary), fewer_note(summary)):
        if note:
            lines.append(f"  {note}")
    bound = summary.before.fpr
    if math.isnan(bound.value):
        lines.append("  No key was read, so nothing can be said of keys.")
    elif not summary.n_fooled:
        lines.append(
            f"  No key was accepted: 0 of {bound.n} (test part), at most {bound.upper:.1%}. There is nothing to remove."
        )
    else:
        signed = "" if math.isnan(summary.auc.value) else ", signed"
        lines.append(
            f"  gamma {summary.gamma:.4g} at delta {100 * summary.delta:g} points; AUC {_text(summary.auc)}{signed}"
        )
        lines.append(
            f"  of the accepted, {_text(summary.pass_right)} of correct responses pass and "
            f"{_text(summary.pass_fooled)} of keys"
        )
        lines.append(
            f"  AUC at K = 1 {_text(summary.one_auc)}, of the s-score {_text(summary.s_auc)}; "
            f"Cohen's d {_text(summary.cohens_d)}"
        )
    if not summary.judged:
        lines.append(
            "  The data do not say which responses are correct: no accuracy, no AUC, and gamma is the paper's "
            f"({USUAL_GAMMA:g}). Name the column with --map quality=COLUMN."
        )
    elif summary.auc.lower <= 0.5 <= summary.auc.upper:
        lines.append("  max_p_cf does not measurably tell keys from correct answers here: gamma removes both alike.")
    elif summary.auc.value < 0.5:
        lines.append(
            "  Below 0.5: RefSwap would remove correct answers before keys, since they survive a swap less often."
        )
    clean, key = summary.cost_clean, summary.cost_key
    lines.append(f"  forward passes per sample: clean {clean.passes:.2f}, key {key.passes:.2f}")
    if not math.isnan(clean.tokens_ratio):
        lines.append(
            f"  tokens against the undefended verifier: clean {clean.tokens_ratio:.2f}, key {key.tokens_ratio:.2f}"
        )
    return lines


def _text(one: Interval) -> str:
    if math.isnan(one.value):
        return "undefined"
    if math.isnan(one.lower):
        return f"{one.value:.3f}"
    return f"{one.value:.3f} [{one.lower:.3f}, {one.upper:.3f}]"
