"""A check-up in words and as a JSON object, with an exit code that can gate a pipeline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from engine.core.errors import INCONCLUSIVE, OK, THRESHOLD_FAILED
from engine.runs.folder import RunFolder
from engine.studies.checkup.metrics import FAILS, NOT_ASKED, UNDERPOWERED, Decision, as_record, summary
from engine.studies.checkup.run import redecide
from engine.studies.study import Summary


def summary_of(folder: RunFolder, *, strict: bool) -> Summary:
    """The verdicts of a run by its own thresholds; a stopped one is inconclusive."""
    return _summary(redecide(folder, {}), {}, strict=strict, stopped=folder.manifest()["state"] != "done")


def decided_anew(folder: RunFolder, thresholds: dict[str, float], *, strict: bool) -> Summary:
    """The stored numbers of a run held against other thresholds.

    Raises:
        InputError: the run is of another study, has no numbers yet, or a threshold is wrong.
    """
    decisions = redecide(folder, thresholds)
    about = folder.manifest()
    done = {"run_id": folder.run_id, "judge": about["judge"]["spec"], "state": about["state"], "calls": 0}
    return _summary(decisions, done, strict=strict, stopped=False)


def _summary(decisions: Sequence[Decision], done: dict[str, Any], *, strict: bool, stopped: bool) -> Summary:
    verdicts = [d.verdict for d in decisions]
    code = OK
    if stopped or (strict and UNDERPOWERED in verdicts):
        code = INCONCLUSIVE
    if not set(verdicts) - {NOT_ASKED}:  # nothing was checked, which is no pass
        code = THRESHOLD_FAILED if strict and not stopped else INCONCLUSIVE
    if FAILS in verdicts and not stopped:
        code = THRESHOLD_FAILED
    counts = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    record = {"summary": summary(decisions), "verdicts": counts, "probes": [as_record(d) for d in decisions]}
    return Summary("\n".join(_lines(decisions)), {**done, **record}, code)


def _lines(decisions: Sequence[Decision]) -> list[str]:
    lines = [summary(decisions)]
    lines.append(f"{'probe':<28} {'verdict':<16} {'effect [interval]':<30} {'n':>5} {'items':>5}  allowed")
    for d in decisions:
        if d.verdict == NOT_ASKED:
            lines.append(f"{d.card.title:<28} {d.verdict:<16} {d.reason}")
            continue
        row = d.row
        items = "" if row["n_clusters"] is None else f"{row['n_clusters']}"
        where = ", ".join(str(row[c]) for c in ("arm", "protocol") if isinstance(row[c], str))
        lines.append(
            f"{d.card.title:<28} {d.verdict:<16} {_effect(row):<30} {row['n']:>5} {items:>5}  "
            f"{d.card.allowed(d.threshold)} ({where})"
        )
    return lines


def _effect(row: Any) -> str:
    if math.isnan(row["value"]):
        return "undefined"
    if math.isnan(row["lower"]):
        return f"{row['value']:+.3f}"
    return f"{row['value']:+.3f} [{row['lower']:+.3f}, {row['upper']:+.3f}]"
