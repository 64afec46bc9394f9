"""The recorded demo run that ships with the project is what the bundled judge gives today."""

from __future__ import annotations

import pytest

from engine.attacks.registry import make_attack
from engine.data.store import DEMO_DIALOGUE, load_dataset
from engine.defenses.registry import defend
from engine.judges.registry import make_judge
from engine.runs import demo_run
from engine.studies.requests import build_requests, with_attack


@pytest.fixture
def recorded():
    return demo_run()


def test_it_is_marked_recorded_whole_and_covers_every_response(recorded, settings):
    manifest = recorded.manifest()
    assert manifest["recorded"] is True
    assert manifest["state"] == "done"
    verdicts = recorded.table("verdicts")
    responses = load_dataset(DEMO_DIALOGUE, settings.datasets).responses
    arms = verdicts.groupby(["attack", "defense"])["response_id"].apply(set)
    assert all(seen == set(responses["response_id"]) for seen in arms)
    assert verdicts["unread_reason"].isna().all()


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
