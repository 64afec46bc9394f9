"""Run folders and strict JSON."""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError, RunError
from engine.core.json import dumps
from engine.runs.folder import (
    _process,
    broke_off,
    create_run,
    list_runs,
    new_run_id,
    open_run,
    process_alive,
    state_of,
    this_process,
)

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
    for when, name in enumerate(names):
        open_run(root, name).update_manifest(created=f"2026-01-0{when + 1}T00:00:00+00:00")
    os.utime(root / "broken", (0, 0))
    listed = list_runs(root)
    assert [r["run_id"] for r in listed] == ["two", "one", "broken"]
    assert listed[-1]["state"] == "unreadable"
    assert list_runs(tmp_path / "nowhere") == []


def test_a_title_does_not_make_an_old_run_the_newest(tmp_path):
    for when, name in enumerate(("old", "new")):
        create_run(tmp_path / "runs", "score", {}, name).update_manifest(created=f"2026-01-0{when + 1}T00:00:00+00:00")
    open_run(tmp_path / "runs", "old").write_notes({"title": "changed just now"})
    assert [r["run_id"] for r in list_runs(tmp_path / "runs")] == ["new", "old"]


def test_a_changed_manifest_is_read_again_and_an_unchanged_one_is_not(tmp_path, monkeypatch):
    run = create_run(tmp_path / "runs", "score", {}, "one")
    assert list_runs(tmp_path / "runs")[0]["state"] == "running"
    run.update_manifest(state="done")
    assert list_runs(tmp_path / "runs")[0]["state"] == "done"
    monkeypatch.setattr("engine.runs.folder.RunFolder.manifest", lambda self: pytest.fail("read again"))
    assert list_runs(tmp_path / "runs")[0]["state"] == "done"


def test_a_resumed_run_keeps_when_it_was_begun_and_other_settings_begin_anew(tmp_path):
    first = create_run(tmp_path, "score", {"judge": "a", "attacks": ("dsi",), "budget_seconds": 1.0}, "one")
    first.update_manifest(created="2026-01-01T00:00:00+00:00", state="stopped")
    again = create_run(tmp_path, "score", {"judge": "a", "attacks": ("dsi",), "budget_seconds": None}, "one").manifest()
    assert again["created"] == "2026-01-01T00:00:00+00:00"
    assert len(again["resumed"]) == 1
    assert again["state"] == "running"
    other = create_run(tmp_path, "score", {"judge": "b", "attacks": ("dsi",)}, "one").manifest()
    assert other["created"] > "2026-01-02"
    assert "resumed" not in other


def test_a_run_is_running_only_as_long_as_the_process_that_writes_it(tmp_path):
    manifest = create_run(tmp_path, "score", {}).manifest()
    assert state_of(manifest) == "running"
    assert state_of(manifest | {"state": "done"}) == "done"
    pid = manifest["writer"].partition(":")[0]
    for gone in (f"{pid}:1", "99999999:0", "", "x", "-1:0", "0:0", "٣:0"):
        assert state_of(manifest | {"writer": gone}) == "interrupted", gone


WRITER = """
import sys
from pathlib import Path
from engine.runs.folder import create_run
run = create_run(Path(sys.argv[1]), "score", {"judge": "theirs"}, "one")
print("writing", flush=True)
sys.stdin.readline()
run.release()
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def writer(tmp_path):
    """Another process that writes the run `one` until it is told to go on."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], **pipes)
    try:
        assert process.stdout.readline() == "writing\n"
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("config", [{"judge": "theirs"}, {"judge": "ours"}])
def test_a_run_that_another_process_writes_is_refused_and_stays_as_it_is(tmp_path, writer, config):
    before = (tmp_path / "one" / "manifest.json").read_bytes()
    for ask in (lambda: create_run(tmp_path, "score", config, "one"), lambda: open_run(tmp_path, "one").claimed()):
        with pytest.raises(InputError, match=f"{writer.pid}.*one"):
            ask()
    broke_off(tmp_path, "one", "failed", "refused")
    assert (tmp_path / "one" / "manifest.json").read_bytes() == before
    assert create_run(tmp_path, "score", config, "two").manifest()["writer"] == this_process()
    writer.stdin.write("\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "done\n"
    assert create_run(tmp_path, "score", config, "one").manifest()["config"] == config


def test_a_killed_writer_blocks_nobody(tmp_path, writer):
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    assert state_of(open_run(tmp_path, "one").manifest()) == "interrupted"
    assert create_run(tmp_path, "score", {"judge": "ours"}, "one").manifest()["state"] == "running"


def test_the_right_to_write_is_shared_within_a_process_and_ends_with_its_last_use(tmp_path):
    code = "import sys; from pathlib import Path; from engine.runs.folder import open_run\n"
    code += "open_run(Path(sys.argv[1]), 'one').claimed()"

    def others_may() -> bool:
        return not subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=False
        ).returncode

    first = create_run(tmp_path, "score", {}, "one")
    second = open_run(tmp_path, "one").claimed()
    first.release()
    assert not others_may()
    second.release()
    assert others_may()
    third = create_run(tmp_path, "score", {}, "one")
    assert not others_may()
    del third
    gc.collect()
    assert others_may()


def test_without_locks_on_the_file_system_the_manifest_tells_who_writes(tmp_path, monkeypatch):
    def no_locks(*_args):
        raise OSError("not here")

    monkeypatch.setattr("fcntl.flock", no_locks)
    run = create_run(tmp_path, "score", {}, "one")
    run.update_manifest(writer=_process(os.getppid()))
    run.release()
    with pytest.raises(InputError, match="one"):
        create_run(tmp_path, "score", {}, "one")
    open_run(tmp_path, "one").update_manifest(writer=f"{os.getppid()}:1")  # its number is another's now
    create_run(tmp_path, "score", {}, "one")


def test_a_process_is_told_from_a_later_one_of_its_number():
    assert process_alive(this_process())
    for gone in (f"{os.getpid()}:1", f"{os.getpid()}", "4194301:1", "", "x:y", "-1:0"):
        assert not process_alive(gone)


def deep(levels: int) -> str:
    return '{"config": ' + '{"a": ' * levels + "1" + "}" * levels + "}"


DAMAGED = {
    "nested beyond the parser": deep(10**5),
    "nested": deep(900),
    "no JSON": "{",
    "a list": "[1]",
    "digits without end": '{"config": ' + "9" * 5000 + "}",
    **{
        f"{key} {value}": json.dumps({key: value})
        for key in ("study", "kind", "state", "created")
        for value in (3, [], None)
    },
    **{
        f"{key} {value}": json.dumps({key: value})
        for key in ("config", "data", "judge", "versions")
        for value in (3, [], "x")
    },
    "resumed a text": '{"resumed": "x"}',
    "prompts a number": '{"judge": {"prompts": 3}}',
    "values a number": '{"judge": {"values": 3}}',
    "api a text": '{"judge": {"api": "x"}}',
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_manifest_is_named_and_hides_no_other_run(tmp_path, name):
    create_run(tmp_path, "score", {}, "good").update_manifest(state="done")
    create_run(tmp_path, "score", {}, "odd")
    (tmp_path / "odd" / "manifest.json").write_text(DAMAGED[name])
    listed = {m["run_id"]: m for m in list_runs(tmp_path)}
    assert listed["good"]["state"] == "done"
    assert listed["odd"]["state"] == "unreadable"
    assert "odd" in listed["odd"]["error"]
    assert len(listed["odd"]["error"]) < 500
    with pytest.raises(RunError, match="odd"):
        open_run(tmp_path, "odd").manifest()


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
