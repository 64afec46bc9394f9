"""What is written: no key in any file of a run, no path outside the home, no formula in a table that a person opens."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from engine.core.errors import InputError, RunError
from engine.data.store import DEMO_DIALOGUE
from engine.jobs import manager as jobs
from engine.jobs.manager import MAX_QUEUE, JobManager
from engine.runs.folder import create_run, open_run
from engine.studies.attack_grid.run import MAX_VERDICTS, check_size
from engine.studies.attack_grid.study import ScoreConfig
from tests.engine.jobs.test_jobs import wait
from tests.engine.judges.api_server import completion, fault, serving

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-canary-5f1e77aa0c9d42b8"
TOKEN = "canary-token-93d1c0ffee"
ENDS = ("done", "failed", "cancelled", "interrupted")
RAW_CSV = {
    "engine/core/files.py",  # the one that makes a table safe to open
    "engine/data/comparisons.py",  # digests of a table's content, kept nowhere
    "engine/data/recordings.py",  # the same
    "engine/data/labelled.py",  # the same
    "engine/data/label_plan.py",  # the same
    "engine/bench/whole_run.py",  # made-up words of ours, read at once
    "engine/data/formats/conversion.py",  # `judgescope convert`: data that are read back must come out as they went in
    "engine/bench/formats.py",  # planted tables of ours, read at once
    "engine/bench/page.py",  # planted words of ours, read at once
    "engine/bench/verifier.py",  # numbers and names of ours
    "engine/bench/full_data.py",  # public data in memory, read at once
}


@pytest.fixture
def manager(settings, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_API_KEY", KEY)
    monkeypatch.setenv("JUDGESCOPE_TOKEN", TOKEN)
    found = JobManager(settings)
    yield found
    found.close()


def test_a_key_is_in_no_file_even_where_the_server_repeats_it(settings, manager, monkeypatch):
    refusing: list[bool] = []

    def script(n, body):
        if refusing:
            return fault(401, f"Incorrect API key provided: {KEY}")
        return completion("4", {"4": 0.7, "5": 0.3})

    with serving(script) as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        monkeypatch.setenv("JUDGESCOPE_API_MODELS", "m")
        params = {"judge": "api:m", "data": DEMO_DIALOGUE, "attacks": ["dsi"], "limit": 1}
        good = wait(manager, manager.submit("score", params), *ENDS)
        refusing.append(True)
        bad = wait(manager, manager.submit("score", params | {"limit": 2}), *ENDS)
        assert f"Bearer {KEY}" in server.keys  # the key was really used
    assert (good.state, bad.state) == ("done", "failed")
    found = [p for root in (settings.data_dir, settings.cache_dir) for p in root.rglob("*") if p.is_file()]
    assert sum(p.name == "manifest.json" for p in found) == 2
    for path in found:
        if "weights" in path.parts:
            continue
        content = path.read_bytes()
        assert KEY.encode() not in content, path
        assert TOKEN.encode() not in content, path
    assert KEY not in bad.error


NAMES = ["../escaped", "/tmp/escaped", "a/../../escaped", "..", "x\\..\\y", "x\n", "\u202ex"]


def test_a_run_s_name_never_leads_out_of_the_runs_folder(settings, manager):
    before = {p for p in settings.data_dir.rglob("*") if p.is_dir()}
    params = {"judge": "planted:injection", "data": DEMO_DIALOGUE, "attacks": ["dsi"], "limit": 1}
    for name in NAMES:
        with pytest.raises(RunError, match="is no run id"):
            open_run(settings.runs, name)
        with pytest.raises(RunError, match="is no run id"):
            create_run(settings.runs, "score", {}, name)
        job = wait(manager, manager.submit("score", params | {"run_id": name}), *ENDS)
        assert (job.state, "is no run id" in job.error) == ("failed", True), name
    assert {p for p in settings.data_dir.rglob("*") if p.is_dir()} - before <= {settings.runs}
    assert not (settings.data_dir.parent / "escaped").exists()


def test_a_full_queue_refuses_and_says_what_to_do(settings, manager):
    slow = {"judge": "planted:injection?delay=500", "data": DEMO_DIALOGUE, "attacks": ["dsi"]}
    ids = [manager.submit("score", slow) for _ in range(MAX_QUEUE + 1)]  # one of them runs
    with pytest.raises(jobs.JobError, match="Let one finish or stop one"):
        manager.submit("score", slow)
    for job_id in ids[1:]:
        manager.cancel(job_id)


def test_a_grid_that_is_too_large_is_refused_before_a_judge_is_asked():
    config = ScoreConfig(judge="planted:injection", data="x", attacks=("dsi", "bed"), defenses=("none", "sandwich"))
    check_size(MAX_VERDICTS // 6, config)
    with pytest.raises(InputError, match="--limit"):
        check_size(MAX_VERDICTS // 6 + 1, config)
    with pytest.raises(ValueError, match="at most 64"):
        ScoreConfig(judge="planted:injection", data="x", attacks=tuple(f"a{i}" for i in range(65)))


def test_every_table_for_people_is_written_by_the_one_module_that_makes_it_safe():
    found = set()
    for folder in ("engine", "dashboard"):
        for path in (ROOT / folder).rglob("*.py"):
            attributes = [
                n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Attribute)
            ]
            names = {n.attr for n in attributes} | {ast.unparse(n) for n in attributes}
            if names & {"to_csv", "to_excel", "csv.DictWriter", "csv.writer"} and "training" not in path.parts:
                found.add(path.relative_to(ROOT).as_posix())
    assert found <= RAW_CSV, f"use safe_csv, or say here why not: {found - RAW_CSV}"
