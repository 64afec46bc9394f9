"""A table that grows in parts is the table written at once."""

from __future__ import annotations

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.runs.folder import create_run
from engine.runs.parts import TableParts


def rows(start, stop):
    return pd.DataFrame(
        {
            "verdict_id": [f"v{i}" for i in range(start, stop)],
            "judge": "planted:x",
            "protocol": "pointwise",
            "attack": "none",
            "defense": "none",
            "item_id": [f"q{i // 4}" for i in range(start, stop)],
            "response_id": [f"r{i}" for i in range(start, stop)],
            "score": [None if i % 5 == 0 else i / 7 for i in range(start, stop)],
            "unread_reason": ["no number" if i % 5 == 0 else None for i in range(start, stop)],
            "probabilities": [None if i % 5 == 0 else [0.25, 0.75] for i in range(start, stop)],
            "prompt_tokens": range(start, stop),
        }
    )


@pytest.fixture
def run(settings):
    return create_run(settings.runs, "score", {}, None)


def test_parts_and_one_write_give_the_same_table(run, settings):
    parts = TableParts(run, "verdicts")
    for start, stop in ((0, 10), (10, 10), (10, 11), (11, 40)):
        parts.append(rows(start, stop))
    parts.publish()
    other = create_run(settings.runs, "score", {}, None)
    other.write_table("verdicts", rows(0, 40))
    pd.testing.assert_frame_equal(run.table("verdicts"), other.table("verdicts"))
    pd.testing.assert_frame_equal(parts.frame(), other.table("verdicts"))
    assert len(parts) == 40
    assert sorted(file.name for file in run.path.iterdir()) == ["manifest.json", "verdicts.parquet"]


def test_columns_are_read_alone(run):
    parts = TableParts(run, "verdicts")
    parts.append(rows(0, 9))
    parts.publish()
    wanted = ["item_id", "score"]
    pd.testing.assert_frame_equal(parts.frame(wanted), parts.frame()[wanted])
    pd.testing.assert_frame_equal(run.table("verdicts", wanted), run.table("verdicts")[wanted])
    assert TableParts(run, "verdicts").frame(wanted).columns.tolist() == wanted


def test_more_rows_stand_behind_once(run):
    parts = TableParts(run, "verdicts")
    parts.append(rows(0, 5))
    parts.publish(rows(5, 8))
    assert run.table("verdicts")["verdict_id"].tolist() == [f"v{i}" for i in range(8)]
    parts.publish()
    assert len(run.table("verdicts")) == 5


def test_an_id_that_repeats_in_another_part_is_refused_and_the_old_table_stays(run):
    parts = TableParts(run, "verdicts")
    parts.append(rows(0, 5))
    parts.publish()
    parts.append(rows(4, 7))
    with pytest.raises(InputError, match="'v4' stands twice"):
        parts.publish()
    assert len(run.table("verdicts")) == 5
