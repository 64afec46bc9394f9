"""An interrupted run goes on, a failed call is asked again alone, and what is done stays as it is."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from engine.core.errors import Cancelled, InputError, RunError
from engine.core.schema import Order, Outcome, Protocol, Task
from engine.core.settings import ApiSettings
from engine.data.store import load_dataset
from engine.inference.served import ApiClient
from engine.jobs.worker import job_of
from engine.judges.api import ApiJudge
from engine.judges.api_spec import parse_api
from engine.judges.base import Request, Verdict, no_checkpoint, unread, verdict_id, verdict_table
from engine.judges.cards import read_cards
from engine.judges.kinds import PointwiseReader
from engine.judges.planted import make_planted
from engine.runs.folder import RETRY, create_run, open_run, state_of, versions
from engine.runs.library import unread_of
from engine.studies import retry
from engine.studies.attack_grid import run as score
from engine.studies.attack_grid.study import STUDY as GRID
from engine.studies.attack_grid.study import ScoreConfig
from engine.studies.checkup import run as checkup
from engine.studies.protocols import run as protocols
from engine.studies.refswap import run as refswap
from engine.studies.registry import all_studies, study_named
from engine.studies.retry import RetryConfig, resume_run, retry_job
from engine.studies.running import KeptJudge, keeping
from engine.studies.study import Context
from engine.studies.verify.study import STUDY as VERIFY
from engine.studies.verify.study import VerifyConfig
from tests.engine.judges.api_server import completion, fault, serving


class Flaky:
    """A planted judge whose calls fail when told to, and that remembers what it was asked."""

    def __init__(self, spec: str, fails) -> None:
        self._inner, self._fails = make_planted(spec), fails
        self.seen: list[str] = []

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def judge(self, requests, checkpoint=no_checkpoint):
        answers = self._inner.judge(requests, checkpoint)
        self.seen += [verdict_id(r) for r in requests]
        return [
            unread(Verdict(), "503 from the server") if self._fails(r) else a
            for r, a in zip(requests, answers, strict=True)
        ]


@pytest.fixture
def flaky(monkeypatch):
    """`flaky(module, spec, fails)`: the study's judge from now on."""

    def use(spec: str, fails=lambda r: False) -> Flaky:
        judge = Flaky(spec, fails)
        monkeypatch.setattr("engine.judges.registry.make_judge", lambda *a, **k: judge)
        for module in (score, refswap, protocols, checkup):
            monkeypatch.setattr(module, "make_judge", lambda *a, **k: judge, raising=False)
        return judge

    return use


STUDIES = {
    "score": (
        "planted:injection",
        {"data": "demo-dialogue", "attacks": ["dsi"], "limit": 10, "defenses": ["none", "delimiters"]},
    ),
    "verify": ("planted:verifier", {"data": "demo-verification", "limit": 20}),
    "refswap": (
        "planted:verifier?leak=0.9",
        {"data": "demo-verification", "keys": ["Solution"], "k": 2, "k_max": 2, "limit": 20},
    ),
    "protocols": (
        "planted:assertiveness",
        {"data": "demo-instruction", "limit": 2, "distractors": ["assertiveness"], "boards": ["assertiveness"]},
    ),
    "puaudit": (
        "planted:position",
        {"data": "demo-pairs", "attacks": ["length"], "encoders": ["words"], "splits": 2, "bootstraps": 2}
        | {"umap": False, "p_ratios": [], "limit": 60},
    ),
    "checkup": ("planted:injection", {"data": "demo-dialogue", "attacks": ["dsi"], "limit": 3, "responses": 2}),
}


@pytest.mark.parametrize("study", STUDIES)
def test_only_the_failed_calls_are_asked_again_and_the_result_is_that_of_a_run_without_failures(study, settings, flaky):
    spec, options = STUDIES[study]
    model, job = job_of(study)

    def run(name: str) -> None:
        job(model.model_validate({**options, "judge": spec, "run_id": name}), settings, no_checkpoint)

    flaky(spec)
    run("whole")
    whole = open_run(settings.runs, "whole")
    table = whole.table("verdicts")
    victims = set(table["verdict_id"].iloc[[1, len(table) // 2]])
    responses = set(table.loc[table["verdict_id"].isin(victims), "response_id"])
    flaky(spec, lambda r: r.response_id in responses and r.attack == "none")
    run("broken")
    broken = open_run(settings.runs, "broken")
    before = broken.table("verdicts")
    failed = set(before.loc[before["unread_reason"].notna(), "verdict_id"])
    assert failed
    judge = flaky(spec)
    found = retry_job(RetryConfig(run_id="broken"), settings, no_checkpoint)
    assert (found["unread_before"], found["unread_after"]) == (len(failed), 0)
    known = set(before["verdict_id"]) - failed
    assert not known & set(judge.seen)
    after = broken.table("verdicts")
    kept = after[after["verdict_id"].isin(known)].sort_values("verdict_id", ignore_index=True)
    was = before[before["verdict_id"].isin(kept["verdict_id"])].sort_values("verdict_id", ignore_index=True)
    pd.testing.assert_frame_equal(kept, was)
    columns = ["verdict_id", "score", "p_a", "p_yes", "outcome", "unread_reason"]
    same = [t[columns].sort_values("verdict_id", ignore_index=True) for t in (after, table)]
    pd.testing.assert_frame_equal(*same)
    pd.testing.assert_frame_equal(*(_results(run) for run in (broken, whole)))
    manifest = broken.manifest()
    assert manifest["state"] == "done"
    assert RETRY not in manifest


def _results(run) -> pd.DataFrame:
    """The metrics without those that are times or memory."""
    metrics = run.table("metrics")
    return metrics[~metrics["metric"].str.contains("seconds|memory")].reset_index(drop=True)


def test_a_run_that_broke_off_goes_on_to_the_end(settings, flaky):
    spec, options = STUDIES["score"]
    config = ScoreConfig.model_validate({**options, "judge": spec, "run_id": "cut", "budget_seconds": 99})

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise Cancelled

    flaky(spec)
    with pytest.raises(Cancelled):
        GRID.job(config, Context(settings, stop), settings.runs)
    cut = open_run(settings.runs, "cut")
    half = cut.table("verdicts")
    assert cut.manifest()["state"] == "stopped"
    began = cut.manifest()["created"]
    resume_run("cut", settings, no_checkpoint)
    assert cut.manifest()["state"] == "done"
    assert cut.manifest()["created"] == began
    assert len(cut.manifest()["resumed"]) == 1
    assert set(half["verdict_id"]) < set(cut.table("verdicts")["verdict_id"])
    with pytest.raises(InputError, match="is done"):
        resume_run("cut", settings, no_checkpoint)


def test_a_retry_that_is_stopped_keeps_all_that_was_read(settings, flaky):
    spec, options = STUDIES["score"]
    config = ScoreConfig.model_validate({**options, "judge": spec, "run_id": "a"})
    flaky(spec, lambda r: r.attack == "none")
    GRID.job(config, Context(settings), settings.runs)
    run = open_run(settings.runs, "a")
    before = run.table("verdicts")

    def stop(done: int, total: int) -> None:
        if done >= total // 3:
            raise Cancelled

    flaky(spec)
    with pytest.raises(Cancelled):
        retry_job(RetryConfig(run_id="a"), settings, stop)
    after = run.table("verdicts")
    assert set(after["verdict_id"]) == set(before["verdict_id"])
    read = before[before["unread_reason"].isna()]["verdict_id"]
    assert after.set_index("verdict_id").loc[list(read), "unread_reason"].isna().all()
    assert run.manifest()["state"] == "stopped"
    resume_run("a", settings, no_checkpoint)
    assert unread_of(run.table("verdicts")).total == 0


def test_a_grid_stays_a_grid(settings, flaky):
    spec, options = STUDIES["score"]
    config = ScoreConfig.model_validate({**options, "judge": spec, "run_id": "g"})
    judge = flaky(spec, lambda r: r.attack == "none" and r.response_id.endswith("good"))
    run = create_run(settings.runs, "grid", config.model_dump(), "g")
    score.run_score(config, load_dataset(config.data, settings.datasets), judge, run, no_checkpoint)
    began = run.manifest()["created"]
    flaky(spec)
    assert retry_job(RetryConfig(run_id="g"), settings, no_checkpoint)["unread_after"] == 0
    assert (run.manifest()["study"], run.manifest()["created"]) == ("grid", began)


def test_what_cannot_be_asked_again_says_why(settings, flaky):
    spec, options = STUDIES["verify"]
    config = VerifyConfig.model_validate({**options, "judge": spec, "run_id": "v"})
    flaky(spec)
    VERIFY.job(config, Context(settings), settings.runs)
    again = RetryConfig(run_id="v")
    with pytest.raises(InputError, match="Every one of the 20 calls"):
        retry_job(again, settings, no_checkpoint)
    run = open_run(settings.runs, "v")
    run.write_table("verdicts", run.table("verdicts").assign(unread_reason="lost"))
    before = run.manifest()
    run.update_manifest(versions=before["versions"] | {"judgescope": "0.0.1"})
    with pytest.raises(RunError, match=r"made by version 0\.0\.1"):
        retry_job(again, settings, no_checkpoint)
    run.write_manifest(before | {"judge": before["judge"] | {"fingerprint": "another"}})
    with pytest.raises(RunError, match="not the judge this run was made with"):
        retry_job(again, settings, no_checkpoint)
    run.write_manifest(before | {"config": before["config"] | {"novel": 1}})
    with pytest.raises(InputError, match="does not know: novel"):
        retry_job(again, settings, no_checkpoint)
    run.write_manifest(before | {"study": "recorded", "kind": "recorded"})
    with pytest.raises(InputError, match="'recorded' cannot be taken up again: its study asks no judge"):
        retry_job(again, settings, no_checkpoint)
    run.write_manifest(before | {"study": "other", "kind": "other"})
    with pytest.raises(InputError, match="'other' cannot be taken up again: no such study"):
        retry_job(again, settings, no_checkpoint)
    run.write_manifest(before | {"state": "running"})
    with pytest.raises(RunError, match="is going already"):
        retry_job(again, settings, no_checkpoint)


def test_a_server_that_failed_on_some_calls_is_asked_for_these_alone_even_without_the_call_cache(settings, monkeypatch):
    broken = {"down": True}
    victim = load_dataset("demo-dialogue", settings.datasets).responses["text"].iloc[2]

    def script(_, body):
        hit = broken["down"] and victim in json.dumps(body, ensure_ascii=False)
        return fault(503, "overloaded") if hit else completion("4", {"4": 0.9, "3": 0.1})

    with serving(script) as server:
        api = ApiSettings(base_url=server.url, retries=0)
        cards = read_cards(settings.assets / "cards")

        def make(*_, **__):
            return ApiJudge("api:m", parse_api("api:m"), ApiClient(api), cards, [PointwiseReader()], None)

        monkeypatch.setattr("engine.judges.registry.make_judge", make)
        _, options = STUDIES["score"]
        config = {**options, "judge": "api:m", "run_id": "api", "defenses": ["none"]}
        GRID.job(ScoreConfig.model_validate(config), Context(settings), settings.runs)
        before = open_run(settings.runs, "api").table("verdicts")
        assert before["unread_reason"].notna().sum() == 2  # clean and under attack
        assert before["unread_reason"].dropna().str.contains("503").all()
        broken["down"] = False
        server.seen.clear()
        found = retry_job(RetryConfig(run_id="api"), settings, no_checkpoint)
        assert (found["unread_before"], found["unread_after"]) == (2, 0)
        judged = [body for body in server.seen if victim in json.dumps(body, ensure_ascii=False)]
        assert len(judged) == len(server.seen)  # a few may ask what the server can do, on the same prompt
        assert 2 <= len(judged) <= 4


def test_a_kept_verdict_is_the_one_that_was_given():
    probe = Request("i", "r", Task.DIALOGUE, "c", "t")
    pair = replace(probe, protocol=Protocol.PAIRWISE, response_b_id="s", response_b="u", order=Order.BA)
    given = [
        Verdict(2.5, probabilities=(0.25, 0.75), coverage=0.9, raw_text="two", prompt_tokens=7, forward_passes=2.0),
        Verdict(p_a=0.3, p_tie=0.1, outcome=Outcome.B, ranking=(2, 1)),
        unread(Verdict(), "no answer"),
    ]
    requests = [probe, pair, replace(probe, response_id="x")]
    judge = Flaky("planted:constant", lambda r: False)
    kept = KeptJudge(judge, verdict_table(judge, requests, given))
    assert repr(kept.judge(requests)[:2]) == repr(given[:2])  # repr: NaN equals NaN
    assert judge.seen == [verdict_id(requests[2])]
    assert kept.cost(requests).known >= 2


def test_the_documentation_names_the_studies_that_keep_nothing():
    root = Path(retry.__file__).parent
    keep = {s.kind for s in all_studies() if any("keeping(" in f.read_text() for f in (root / s.kind).glob("*.py"))}
    said = (root.parents[1] / "docs/runs-and-reports.md").read_text()
    [others] = re.findall(r"\(Studies (\w+), (\w+) and (\w+) rely on the call cache instead\.\)", said)
    # thresholds, panels and the trust study ask no judge, and what is recorded is asked of nobody
    asks_nobody = {"perplexity_threshold", "recorded", "panel", "trust"}
    assert {s.kind for s in all_studies()} - keep - asks_nobody == {study_named(name).kind for name in others}


def test_nothing_is_kept_outside_a_retry(settings):
    run = create_run(settings.runs, "score", {"judge": "planted:constant"}, "x")
    judge = make_planted("planted:constant")
    assert keeping(judge, run) is judge
    about = {"fingerprint": judge.fingerprint, "version": versions()["judgescope"]}
    run.update_manifest(**{RETRY: about})
    assert isinstance(keeping(judge, run), KeptJudge)
    run.update_manifest(**{RETRY: about | {"fingerprint": "another"}})
    assert keeping(judge, run) is judge


MUST = {"format", "run_id", "study", "state", "created", "finished", "config", "data", "judge", "versions"}


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_says_what_its_numbers_rest_on(study, settings, flaky):
    spec, options = STUDIES[study]
    model, job = job_of(study)
    flaky(spec)
    job(model.model_validate({**options, "judge": spec, "run_id": "m"}), settings, no_checkpoint)
    manifest = open_run(settings.runs, "m").manifest()
    assert manifest.keys() >= MUST
    assert manifest["data"].keys() >= {"dataset_id", "name", "digest", "n_items", "n_responses"}
    assert manifest["judge"].keys() >= {"spec", "fingerprint", "labels", "device"}
    assert "seed" in manifest["config"]
    assert state_of(manifest) == "done"
    assert manifest["created"] <= manifest["finished"]
