"""Run folders and strict JSON."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pandas as pd
import pytest

from engine.errors import InputError, RunError
from engine.runs import create_run, list_runs, new_run_id, open_run
from engine.strict_json import dumps

ROW = {"metric": "shift", "value": float("nan"), "n": 3, "attack": "dsi"}


def test_tables_round_trip_and_are_empty_before(tmp_path):
    run = create_run(tmp_path, "score", {"judge": "planted:noisy"})
    assert run.table("verdicts").empty
    run.write_table("metrics", pd.DataFrame([ROW]))
    back = open_run(tmp_path, run.run_id).table("metrics")
    assert back.loc[0, "attack"] == "dsi"
    assert math.isnan(back.loc[0, "value"])
    assert back["n"].dtype == "Int64"


def test_a_table_that_breaks_the_schema_is_not_written(tmp_path):
    run = create_run(tmp_path, "score", {})
    with pytest.raises(InputError, match="no column"):
        run.write_table("metrics", pd.DataFrame([{"metric": "shift"}]))
    assert run.table("metrics").empty


def test_list_is_newest_first_and_survives_a_broken_folder(tmp_path):
    root = tmp_path / "runs"
    names = [create_run(root, "score", {}, name).run_id for name in ("one", "two")]
    (root / "broken").mkdir()
    for when, name in enumerate((*names, "broken")):
        os.utime(root / name, (when, when))
    listed = list_runs(root)
    assert [r["run_id"] for r in listed] == ["broken", "two", "one"]
    assert listed[0]["state"] == "unreadable"
    assert list_runs(tmp_path / "nowhere") == []


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a" * 81, "x\n", "/etc"])
def test_a_run_id_is_no_path(tmp_path, name):
    with pytest.raises(RunError, match="no run id"):
        open_run(tmp_path, name)


def test_an_unknown_run_says_so(tmp_path):
    with pytest.raises(RunError, match="There is no run"):
        open_run(tmp_path, "score-1")


def test_run_ids_differ():
    assert len({new_run_id("score") for _ in range(50)}) == 50


def test_json_is_strict():
    value = {
        "a": float("nan"),
        "b": [np.float64("inf"), np.int64(3), np.float32(0.5)],
        "c": pd.NA,
        "d": (True, None, "x"),
    }
    text = dumps(value)

    def refuse(name):
        raise AssertionError(name)

    assert json.loads(text, parse_constant=refuse) == {
        "a": None,
        "b": [None, 3, 0.5],
        "c": None,
        "d": [True, None, "x"],
    }
