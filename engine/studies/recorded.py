"""A recording as a run of its own: every analysis that needs no judge, on verdicts somebody already has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from engine.judges.recorded import RecordedJudge, make_recorded
from engine.metrics.clusters import cluster_codes
from engine.metrics.intervals import Interval, cluster_rate
from engine.metrics.order import first_slot_rate, order_agreement
from engine.metrics.shifts import metric_row, shift_metrics
from engine.runs import RunFolder, create_run, now
from engine.schema import METRICS, NONE, Outcome, Protocol


@dataclass(frozen=True)
class RecordedConfig:
    """What to read.

    Attributes:
        judge: `recorded:FILE?...`, see `engine.judges.recorded`.
        level: confidence level in (0, 1).
        seed: of bootstrap intervals.
    """

    judge: str
    level: float = 0.95
    seed: int = 0


def recorded_run(
    config: RecordedConfig, root: Path, run_id: str | None = None, *, roots: Sequence[Path] = ()
) -> RunFolder:
    """Write a recording's verdicts, arms as recorded, and their metrics into a run folder under `root`.

    Args:
        config: what to read.
        root: where runs live (`settings.runs`).
        run_id: name of the run; made up where None.
        roots: folders the file must lie in (`settings.model_roots`); empty allows any.

    Raises:
        InputError: as `make_recorded`.
    """
    judge = make_recorded(config.judge, roots=roots)
    run = create_run(root, "recorded", {"judge": config.judge, "level": config.level, "seed": config.seed}, run_id)
    run.write_table("verdicts", judge.recording.verdicts)
    run.write_table("metrics", recorded_metrics(judge.recording.verdicts, level=config.level, seed=config.seed))
    run.update_manifest(state="done", finished=now(), recorded=True, **_description(judge))
    return run


def recorded_metrics(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """What the verdicts of one judge say without asking it again, per arm, as a table `metrics`.

    pointwise: `shift_metrics`. pairwise: first_slot (share that prefers the response shown first, ties half)
    and order_agreement (pairs whose orders agree). verifier: yes_rate.
    """
    protocols = set(verdicts["protocol"])
    if protocols <= {Protocol.POINTWISE.value}:
        return shift_metrics(verdicts, level=level, seed=seed)
    out: list[dict[str, object]] = []
    for (attack, defense), arm in verdicts.groupby(["attack", "defense"], sort=False):
        for metric, interval, rows in _rates(arm, level, seed):
            out.append(metric_row(metric, str(attack), str(defense), interval, rows))
    return METRICS.conform(pd.DataFrame(out).sort_values("attack", key=lambda a: a != NONE, kind="stable"))


def _rates(arm: pd.DataFrame, level: float, seed: int) -> list[tuple[str, Interval, int]]:
    if (arm["protocol"] == Protocol.VERIFIER.value).all():
        yes = arm["outcome"].map({Outcome.YES.value: 1.0, Outcome.NO.value: 0.0})
        return [("yes_rate", cluster_rate(yes, cluster_codes(arm), level=level, seed=seed), len(arm))]
    both = arm.groupby(["item_id", "response_id", "response_b"])["order"].nunique()
    return [
        ("first_slot", first_slot_rate(arm, level=level, seed=seed), len(arm)),
        ("order_agreement", order_agreement(arm, level=level, seed=seed), int((both == 2).sum())),
    ]


def _description(judge: RecordedJudge) -> dict[str, object]:
    found = judge.recording
    return {
        "data": {
            "dataset_id": "",
            "name": judge.spec.partition(":")[2].partition("?")[0].rpartition("/")[2],
            "n_items": int(found.verdicts["item_id"].nunique()),
            "n_responses": int(pd.concat([found.verdicts["response_id"], found.verdicts["response_b"]]).nunique()),
        },
        "judge": {"spec": judge.spec, "fingerprint": judge.fingerprint, "labels": [], "device": "no model"},
        "recording": {
            "layout": found.layout.name,
            "columns": found.fields,
            "n_records": found.n_records,
            "n_selected": found.n_selected,
            "n_calls": found.n_calls,
            "n_read": found.n_read,
            "unread": found.unread,
            "left_out": found.left_out,
            "labels": found.spellings,
        },
    }
