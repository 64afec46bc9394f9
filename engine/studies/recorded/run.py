"""A recording as a run of its own: every analysis that needs no judge, on verdicts somebody already has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from engine.judges.recorded import RecordedJudge, make_recorded
from engine.runs.folder import RunFolder, create_run, now
from engine.studies.recorded.metrics import recorded_metrics


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


def _description(judge: RecordedJudge) -> dict[str, object]:
    found = judge.recording
    return {
        "data": {
            "dataset_id": "",
            "name": judge.spec.partition(":")[2].partition("?")[0].rpartition("/")[2],
            "digest": judge.fingerprint,
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
