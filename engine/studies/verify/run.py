"""Study `verify`: each response asked about once, then how often YES is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from engine.core.schema import METRICS, NONE, Outcome, Protocol
from engine.data.dataset import Dataset
from engine.data.mapping import needed_right
from engine.judges.base import Checkpoint, Judge, Request, verdict_table
from engine.runs.folder import RunFolder, now
from engine.stats.intervals import cluster_codes, cluster_rate
from engine.stats.shifts import metric_row
from engine.studies.running import Plan, about_data, about_judge, build_requests, ending, keeping, make_plan, within
from engine.studies.verify.study import VerifyConfig


def run_verify(
    config: VerifyConfig, dataset: Dataset, judge: Judge, run: RunFolder, checkpoint: Checkpoint
) -> pd.DataFrame:
    """Ask for every response whether it agrees with the reference; returns the metrics table.

    Raises:
        InputError: the data say of no response whether it is right, or a label says neither.
        Cancelled: from the checkpoint; finished calls are in the cache and the run is marked stopped.
    """
    requests = _requests(config, dataset)
    run.update_manifest(
        data=about_data(dataset, len({r.item_id for r in requests}), len(requests)),
        judge=about_judge(judge, judge.labels(requests[0]), requests[:1]),
    )
    judge = keeping(judge, run)
    with ending(run):
        verdicts = verdict_table(judge, requests, judge.judge(requests, within(config.budget_seconds, checkpoint)))
        metrics = verify_metrics(verdicts, needed_right(dataset), level=config.level, seed=config.seed)
    run.write_table("verdicts", verdicts)
    run.write_table("metrics", metrics)
    run.update_manifest(state="done", finished=now())
    return metrics


def plan_verify(config: VerifyConfig, dataset: Dataset, judge: Judge) -> Plan:
    """The cost of the study; a judge that runs here is asked a few requests to measure the pace.

    Raises:
        InputError: as `run_verify`.
    """
    return make_plan([(judge, _requests(config, dataset))])


def _requests(config: VerifyConfig, dataset: Dataset) -> list[Request]:
    requests = build_requests(dataset, response_ids=list(needed_right(dataset)))[: config.limit]
    return [replace(request, protocol=Protocol.VERIFIER) for request in requests]


def verify_metrics(
    verdicts: pd.DataFrame, known: Mapping[str, bool], *, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """accuracy, and the share of YES among right and among wrong responses, as a table `metrics`.

    Args:
        verdicts: of responses whose correctness is known.
        known: response id -> true where the response is correct.
        level: of the intervals.
        seed: of the bootstrap.
    """
    right = verdicts["response_id"].map(known).astype(bool)
    yes = verdicts["outcome"].map({Outcome.YES.value: 1.0, Outcome.NO.value: 0.0}).to_numpy(dtype=np.float64)
    hit = np.where(np.isnan(yes), np.nan, (yes == right.to_numpy()).astype(float))
    rows = []
    for name, values, part in (
        ("accuracy", hit, np.ones(len(verdicts), dtype=bool)),
        ("yes_rate_right", yes, right.to_numpy()),
        ("yes_rate_wrong", yes, ~right.to_numpy()),
    ):
        asked = verdicts[part]
        interval = cluster_rate(values[part], cluster_codes(asked), level=level, seed=seed)
        rows.append(metric_row(name, NONE, NONE, interval, len(asked)))
    return METRICS.conform(pd.DataFrame(rows))
