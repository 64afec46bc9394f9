"""The recorded demo run that ships with the project is what the bundled judge gives today."""

from __future__ import annotations

import pytest

from engine.attacks.registry import make_attack
from engine.data.store import DEMO_DIALOGUE, DEMO_INSTRUCTION, DEMO_SUMMARY, DEMO_VERIFICATION, load_dataset
from engine.defenses.registry import defend
from engine.judges.registry import make_judge
from engine.runs.folder import demo_run
from engine.studies.running import build_requests, with_attack

SCORED = (DEMO_DIALOGUE, DEMO_SUMMARY, DEMO_INSTRUCTION)


@pytest.fixture
def recorded():
    return demo_run()


@pytest.mark.parametrize("name", [*SCORED, DEMO_VERIFICATION])
def test_every_demo_set_has_a_whole_recorded_run(name, settings):
    run = demo_run(name)
    manifest = run.manifest()
    assert manifest["recorded"] is True
    assert manifest["state"] == "done"
    assert manifest["data"]["dataset_id"] == name
    verdicts = run.table("verdicts")
    arms = verdicts.groupby(["attack", "defense"])["response_id"].apply(set)
    assert all(seen == set(load_dataset(name, settings.datasets).responses["response_id"]) for seen in arms)
    assert len(run.table("metrics"))


@pytest.mark.weights
def test_five_rows_recomputed_agree(recorded, settings, weights):
    judge = make_judge("bundled:judge", settings)
    assert recorded.manifest()["judge"]["fingerprint"] == judge.fingerprint, "record the demo anew: see README"
    rows = recorded.table("verdicts").sample(5, random_state=7)
    dataset = load_dataset(DEMO_DIALOGUE, settings.datasets)
    for row in rows.itertuples():
        [request] = build_requests(dataset, response_ids=[row.response_id])
        [verdict] = defend(judge, row.defense).judge([with_attack(request, make_attack(row.attack))])
        assert verdict.score == pytest.approx(row.score, abs=1e-3)
        assert verdict.prompt_tokens == row.prompt_tokens
