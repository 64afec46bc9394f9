"""A recording as a run of its own: every analysis that needs no judge, on verdicts somebody already has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from engine.judges.recorded import RecordedJudge, make_recorded
from engine.runs.folder import RunFolder, now
from engine.studies.recorded.metrics import recorded_metrics
from engine.studies.recorded.study import RecordedConfig


def run_recorded(config: RecordedConfig, run: RunFolder, roots: Sequence[Path] = ()) -> None:
    """Write a recording's verdicts, arms as recorded, and their metrics.

    Args:
        config: names the recording.
        run: its tables are written here.
        roots: folders the file must lie in (`settings.model_roots`); empty allows any.

    Raises:
        InputError: as `make_recorded`.
    """
    judge = make_recorded(config.judge, roots=roots)
    verdicts = judge.recording.verdicts
    run.write_table("verdicts", verdicts)
    run.write_table("metrics", recorded_metrics(verdicts, level=config.level, seed=config.seed))
    run.update_manifest(state="done", finished=now(), recorded=True, **_description(judge))


def _description(judge: RecordedJudge) -> dict[str, object]:
    recording = judge.recording
    return {
        "data": {
            "dataset_id": "",
            "name": judge.spec.partition(":")[2].partition("?")[0].rpartition("/")[2],
            "digest": judge.fingerprint,
            "n_items": int(recording.verdicts["item_id"].nunique()),
            "n_responses": _count_responses(recording.verdicts),
        },
        "judge": {"spec": judge.spec, "fingerprint": judge.fingerprint, "labels": [], "device": "no model"},
        "recording": {
            "layout": recording.layout.name,
            "columns": recording.fields,
            "n_records": recording.n_records,
            "n_selected": recording.n_selected,
            "n_calls": recording.n_calls,
            "n_read": recording.n_read,
            "unread": recording.unread,
            "left_out": recording.left_out,
            "labels": recording.spellings,
            "pass": recording.passed,
            "warnings": recording.warnings,
        },
    }


def _count_responses(verdicts: pd.DataFrame) -> int:
    """Responses of all calls; an id counts within its item."""
    sides = [verdicts[["item_id", side]].set_axis(["item", "id"], axis=1) for side in ("response_id", "response_b")]
    return len(pd.concat(sides).dropna().drop_duplicates())
