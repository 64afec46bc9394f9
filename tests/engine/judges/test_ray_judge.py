"""Calls spread over a real Ray cluster of two nodes on this machine, with processes, a node and the driver killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'judgescope[ray]'")

from ray.cluster_utils import Cluster  # noqa: E402

from engine.core.errors import InputError  # noqa: E402
from engine.core.schema import Protocol, Task  # noqa: E402
from engine.core.settings import child_environment, get_settings, quiet_ray  # noqa: E402
from engine.jobs.manager import JobManager  # noqa: E402
from engine.judges import ray_actors, ray_judge  # noqa: E402
from engine.judges.base import Request, Verdict, no_checkpoint  # noqa: E402
from engine.judges.planted import make_planted  # noqa: E402
from engine.judges.ray_judge import Holder, RayJudge, packed, unpacked  # noqa: E402
from engine.runs.folder import open_run  # noqa: E402
from engine.studies.attack_grid.study import STUDY as GRID  # noqa: E402
from engine.studies.attack_grid.study import ScoreConfig  # noqa: E402
from engine.studies.protocols.study import STUDY as PROTOCOLS  # noqa: E402
from engine.studies.protocols.study import ProtocolsConfig  # noqa: E402
from engine.studies.study import Context  # noqa: E402

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
SPEC = "planted:injection?noise=0.2&delay=5"
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


class Machines:
    """A cluster of two nodes, the second of which can be killed and brought back."""

    def __init__(self) -> None:
        self.cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        self.second = self.cluster.add_node(**NODE)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def kill_second(self) -> None:
        self.cluster.remove_node(self.second, allow_graceful=False)
        self.second = None

    def whole(self) -> None:
        if self.second is None:
            self.second = self.cluster.add_node(**NODE)
        self.cluster.wait_for_nodes()

    def holders(self) -> list[psutil.Process]:
        """Processes of the actors that this test process began, by their title."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            if "ray::Holder" in " ".join(process.info["cmdline"] or ()):
                found.append(process)
        return found


def started() -> Machines:
    """A cluster. Ray gives a node 30 s to start; where three tries are not enough there is none to test."""
    for _ in range(3):
        try:
            return Machines()
        except Exception as error:  # noqa: BLE001 - Ray's own is a plain one
            why = str(error).splitlines()[0][:200]
            ray.shutdown()
    pytest.skip(f"Ray starts no node on this machine: {why}")


@pytest.fixture(scope="module")
def machines():
    quiet_ray()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))  # the workers import the engine, wherever the tests were begun
        made = started()
        yield made
        ray.shutdown()
        made.cluster.shutdown()


@pytest.fixture
def two(machines):
    machines.whole()
    yield machines
    for actors, _ in ray_judge._last.values():
        actors.close()
    ray_judge._last.clear()


def table_of(settings, run_id: str):
    """A run's verdicts without the seconds they took."""
    return open_run(settings.runs, run_id).table("verdicts").drop(columns="seconds")


def plain_and_spread(settings, address, study, config, checkpoint=no_checkpoint) -> None:
    """The same study in this process and over the cluster."""
    study.job(config.model_copy(update={"run_id": "plain"}), Context(settings), settings.runs)
    spread = replace(settings, ray=address, ray_shard=8)
    study.job(config.model_copy(update={"run_id": "spread"}), Context(spread, checkpoint), settings.runs)
    assert table_of(settings, "plain").equals(table_of(settings, "spread"))
    metrics = [open_run(settings.runs, name).table("metrics") for name in ("plain", "spread")]
    assert metrics[0].equals(metrics[1])
    manifest = open_run(settings.runs, "spread").manifest()
    assert (manifest["state"], manifest["judge"]["ray_actors"]) == ("done", "2")


def at_half(act):
    """A checkpoint that acts once, when half the calls are done."""
    done_it: list[int] = []

    def look(done: int, total: int) -> None:
        if not done_it and done >= total / 2:
            done_it.append(done)
            act()

    return look, done_it


GRID_CONFIG = ScoreConfig(judge=SPEC, data="demo-dialogue", attacks=("dsi", "bed"))


def test_a_study_over_two_nodes_has_the_tables_of_one_process(settings, two):
    config = ProtocolsConfig(judge="planted:assertiveness?delay=2", data="demo-instruction", limit=4)
    plain_and_spread(settings, two.address, PROTOCOLS, config)


def test_a_killed_node_costs_nothing_but_its_shards(settings, two):
    look, killed = at_half(two.kill_second)
    plain_and_spread(settings, two.address, GRID, GRID_CONFIG, look)
    assert killed


def test_a_killed_process_is_replaced(settings, two):
    def kill() -> None:
        two.holders()[0].kill()

    look, killed = at_half(kill)
    plain_and_spread(settings, two.address, GRID, GRID_CONFIG, look)
    assert killed


def test_a_killed_driver_goes_on_with_what_came_back(settings, two, tmp_path):
    GRID.job(GRID_CONFIG.model_copy(update={"run_id": "plain"}), Context(settings), settings.runs)
    command = [
        sys.executable, "-m", "engine.cli.main", "score", "demo-dialogue", "--judge", SPEC, "--attack", "dsi",
        "--attack", "bed", "--run-id", "spread", "--ray", two.address,
    ]  # fmt: skip
    environment = child_environment(JUDGESCOPE_RAY_SHARD="4", PYTHONPATH=str(ROOT))
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as driver:
        while answers_kept(settings.calls) < 40 and driver.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                driver.wait(0.2)
        assert driver.poll() is None, "it ended before it could be killed"
        driver.send_signal(signal.SIGKILL)
    kept = answers_kept(settings.calls)
    assert 40 <= kept < 144
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert table_of(settings, "plain").equals(table_of(settings, "spread"))
    seconds = open_run(settings.runs, "spread").table("verdicts")["seconds"]
    assert (seconds == 0).sum() == kept  # a planted call that is made anew takes its delay


def answers_kept(path: Path) -> int:
    """Verdicts in the cache of calls."""
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30) as db:
            return int(db.execute("SELECT count(*) FROM replies").fetchone()[0])
    except sqlite3.OperationalError:  # its tables are not made yet
        return 0


class Poisoned(Holder):
    """A judge whose process dies over one response, and raises an error that is nobody's over another."""

    def judge(self, requests, cards=()):
        for request in requests:
            if request.response == "kills":
                os.kill(os.getpid(), signal.SIGKILL)
            if request.response == "breaks":
                raise RuntimeError("out of numbers")
        return super().judge(requests, cards)


def test_a_poisonous_call_is_unread_with_its_reason_and_the_others_are_answered(settings, two):
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    held = ("planted:noisy", None)
    actors = ray_actors.Actors(Poisoned, two.address, 0, False, held, {})
    judge = RayJudge(actors, actors.ask("open"), None, size=4)
    texts = [f"text {k}" for k in range(20)]
    texts[8], texts[10] = "kills", "breaks"
    requests = [Request(f"i{k}", f"r{k}", Task.DIALOGUE, "context", text) for k, text in enumerate(texts)]
    verdicts = judge.judge(requests)
    actors.close()
    assert [k for k, v in enumerate(verdicts) if not v.read] == [8, 10]
    assert "lost 2 times on this call" in verdicts[8].unread_reason
    assert "RuntimeError: out of numbers" in verdicts[10].unread_reason
    read = [k for k in range(20) if k not in (8, 10)]
    plain = make_planted("planted:noisy").judge([requests[k] for k in read])
    assert list(map(repr, (verdicts[k] for k in read))) == list(map(repr, plain))


def test_the_dashboards_queue_runs_over_the_cluster_that_the_environment_names(settings, two, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_RAY", two.address)
    jobs = JobManager(get_settings())
    try:
        job_id = jobs.submit("score", {"judge": SPEC, "data": "demo-dialogue", "attacks": ["dsi"]})
        while (job := jobs.get(job_id)).state in ("queued", "running"):
            threading.Event().wait(0.1)
    finally:
        jobs.close()
    assert job.state == "done", job.error
    run = open_run(settings.runs, job.result["run_id"])
    assert len(run.table("verdicts")) == 96
    assert run.manifest()["judge"]["ray_actors"] == "2"


def test_an_error_of_the_judge_is_the_users_as_without_a_cluster(settings, two):
    spread = replace(settings, ray=two.address)
    pair = Request("i", "a", Task.DIALOGUE, "c", "text", protocol=Protocol.PAIRWISE)
    with pytest.raises(InputError) as here:
        make_planted("planted:noisy").judge([pair])
    with pytest.raises(InputError) as there:
        Context(spread).judge("planted:noisy").judge([pair])
    assert str(there.value) == str(here.value)
    with pytest.raises(InputError, match="nosuch"):
        Context(spread).judge("planted:nosuch")


def test_a_verdict_comes_back_as_it_was():
    judged = make_planted("planted:position").judge(
        [Request("i", "a", Task.DIALOGUE, "c", "t", protocol=Protocol.PAIRWISE, response_b_id="b", response_b="u")]
    )[0]
    ranked = replace(Verdict(), ranking=(2, 1), unread_reason="it “said” nothing \ud800", seconds=0.1 + 0.2)
    assert repr(unpacked(packed(judged))) == repr(judged)
    assert repr(unpacked(packed(ranked))) == repr(ranked)
