"""The recorded check-up is whole, its verdicts follow from its numbers, and the bundled judge gives them today."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_PAIRS
from engine.judges.registry import make_judge
from engine.runs.folder import open_run
from engine.studies.checkup.material import in_both_orders, load_material, make_subject
from engine.studies.checkup.metrics import BY_NAME, NOT_ASKED
from engine.studies.checkup.run import measured, probes_of, redecide
from engine.studies.checkup.study import CheckupConfig
from tests.engine.studies.checkup_judges import Sighted


@pytest.fixture
def recorded():
    return open_run(get_settings().assets / "demo" / "checkup", "pairs")


def test_the_recorded_run_is_whole_and_its_verdicts_follow(recorded):
    manifest = recorded.manifest()
    assert manifest["recorded"] is True
    assert manifest["state"] == "done"
    assert manifest["config"]["data"] == DEMO_PAIRS
    assert set(manifest["config"]["thresholds"]) == set(BY_NAME)
    decisions = redecide(recorded, {})
    assert [d.card.name for d in decisions] == list(BY_NAME)
    assert NOT_ASKED not in {d.verdict for d in decisions}
    assert [d.verdict for d in decisions] == [p["verdict"] for p in manifest["probes"]]


def test_its_numbers_follow_from_its_verdicts(recorded, settings):
    """The probes measured anew from the stored verdicts; the judge is stood in for, since nothing is asked."""
    manifest = recorded.manifest()
    config = CheckupConfig.model_validate(manifest["config"])
    stand_in = Sighted({})
    subject = make_subject(stand_in, load_material(config.data, settings), config.size)
    again = measured(probes_of(config), subject, recorded.table("verdicts"), config.level, config.seed)
    stored = recorded.table("checkup")
    assert again[["probe", "arm", "protocol"]].fillna("").equals(stored[["probe", "arm", "protocol"]].fillna(""))
    for column in ("value", "lower", "upper", "detectable"):
        assert np.allclose(again[column], stored[column], equal_nan=True, atol=1e-6), column


@pytest.mark.weights
def test_a_few_verdicts_recomputed_agree(recorded, settings, weights):
    judge = make_judge("bundled:judge", settings)
    weights_then, weights_now = (
        f.rpartition("-")[0] for f in (recorded.manifest()["judge"]["fingerprint"], judge.fingerprint)
    )
    assert weights_then == weights_now, "the adapter changed: record the run anew, see README"
    config = CheckupConfig.model_validate(recorded.manifest()["config"])
    subject = make_subject(judge, load_material(config.data, settings), config.size)
    verdicts = recorded.table("verdicts")
    clean = verdicts[(verdicts["attack"] == "none") & verdicts["variant"].isna()]
    scores = clean[clean["protocol"] == "pointwise"].set_index("response_id")["score"]
    for request in subject.scores[:2]:
        [found] = judge.judge([request])
        assert found.score == pytest.approx(scores[request.response_id], abs=1e-3)
    pairs = clean[clean["protocol"] == "pairwise"].set_index(["response_id", "response_b", "order"])["p_a"]
    for request in in_both_orders(subject.pairs[:1]):
        [found] = judge.judge([request])
        at = (request.response_id, request.response_b_id, request.order.value)
        assert found.p_a == pytest.approx(pairs[at], abs=1e-3)
