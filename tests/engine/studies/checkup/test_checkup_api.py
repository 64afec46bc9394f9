"""A check-up of a judge behind a server: reworded prompts reach it, one cap covers them, what was answered is kept."""

from __future__ import annotations

import pytest

from engine.core.errors import OutOfCalls
from engine.core.settings import ApiSettings
from engine.inference.served import ApiClient
from engine.judges.api import ApiJudge
from engine.judges.api_spec import parse_api
from engine.judges.kinds import PairwiseReader, PointwiseReader, VerifierReader
from engine.runs.folder import create_run, open_run
from engine.studies.checkup.material import of_dataset
from engine.studies.checkup.metrics import FAILS
from engine.studies.checkup.run import run_checkup
from engine.studies.checkup.study import STUDY, CheckupConfig
from tests.engine.judges.api_server import completion, serving
from tests.engine.studies.checkup_judges import POINTWISE, made_data

READERS = (PointwiseReader(), PairwiseReader(), VerifierReader())


def always_four(n, body):
    return completion("4", {"4": 0.9, "3": 0.1} if body.get("logprobs") else None)


def api_judge(server, **settings):
    client = ApiClient(ApiSettings(base_url=server.url, retries=0, **settings))
    return ApiJudge("api:m", parse_api("api:m"), client, [POINTWISE], READERS), client


def check(judge, root):
    dataset, _ = made_data(8)
    probes = ("paraphrase", "reversal", "order")
    config = CheckupConfig(judge=judge.spec, data=dataset.dataset_id, responses=1, probes=probes)
    run = create_run(root, "checkup", STUDY.stored(config), "api")
    return {d.card.name: d for d in run_checkup(config, of_dataset(dataset), judge, run, lambda done, total: None)}


def test_a_server_that_ignores_the_rubric_fails_the_reversal(tmp_path):
    with serving(always_four) as server:
        judge, client = api_judge(server)
        found = check(judge, tmp_path)
    assert found["reversal"].verdict == FAILS
    assert found["reversal"].row["value"] == pytest.approx(2 * (3.9 - 3) / 4)  # 3.9 of 5, read as 2.1 when turned round
    assert found["paraphrase"].row["value"] == pytest.approx(0)
    assert "pairwise" in found["order"].reason
    prompts = [body["messages"][-1]["content"] for body in server.seen]
    assert sum("turned round" in p for p in prompts) == 8
    assert sum(p.startswith("Score the response from 1 (very bad)") for p in prompts) == 8
    assert client.purse.spent.calls == len(server.seen)
    manifest = open_run(tmp_path, "api").manifest()
    assert len(manifest["judge"]["prompts"]) == 4  # the plain one, two wordings, the reversed one
    assert manifest["judge"]["fingerprint"] == judge.fingerprint


def test_the_cap_covers_the_reworded_prompts_too(tmp_path):
    with serving(always_four) as server:
        judge, _ = api_judge(server, max_calls=20)
        with pytest.raises(OutOfCalls):
            check(judge, tmp_path)
    assert len(server.seen) <= 20
    assert open_run(tmp_path, "api").manifest()["state"] == "stopped"
