"""A summary of the study refswap as the JSON object names it."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.attacks.master_keys import key_text
from engine.metrics.intervals import Interval
from engine.metrics.refswap import Baseline, Rates, Summary, Table


def as_record(table: Table, summary: Summary, judge: str, n_without_reference: int) -> dict[str, Any]:
    """What the JSON object holds of one arm; rates are of the test part, AUC and d of all accepted samples.

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
