"""The recorded run of study protocols is whole, and is what the bundled judge gives today."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.schema import NONE
from engine.core.settings import get_settings
from engine.data.store import DEMO_INSTRUCTION, load_dataset
from engine.judges.registry import make_judge
from engine.runs.folder import open_run
from engine.stats.arena import build_arena
from engine.studies.protocols.requests import Asker
from engine.studies.protocols.rows import metrics_of
from engine.studies.protocols.study import ProtocolsConfig


@pytest.fixture
def recorded():
    return open_run(get_settings().assets / "demo" / "protocols", "instruction")


def test_the_recorded_run_is_whole_and_its_metrics_follow(recorded, settings):
    manifest = recorded.manifest()
    assert manifest["recorded"] is True
    assert manifest["state"] == "done"
    config = ProtocolsConfig.model_validate(manifest["config"])
    variants = recorded.table("variants")
    arena = build_arena(recorded.table("verdicts"), variants)
    assert set(arena.arms) == set(config.arms)
    assert len(arena.items) >= 10
    assert len(arena.systems) >= 4
    assert np.isfinite(arena.shares[NONE, ""]).mean() > 0.95
    texts = load_dataset(DEMO_INSTRUCTION, settings.datasets).responses.set_index("response_id")["text"]
    originals = variants[variants["style"] == NONE]
    assert (originals["text"].to_numpy() == texts.loc[originals["response_id"]].to_numpy()).all()
    again = metrics_of(arena, config.view, config.boards, config.lowest, config.elo_k)
    stored = recorded.table("metrics")
    assert again["metric"].tolist() == stored["metric"].tolist()
    assert np.allclose(again["value"], stored["value"], equal_nan=True, atol=1e-6)


@pytest.mark.weights
def test_a_few_verdicts_recomputed_agree(recorded, settings, weights):
    judge = make_judge("bundled:judge", settings)
    weights_then, weights_now = (
        f.rpartition("-")[0] for f in (recorded.manifest()["judge"]["fingerprint"], judge.fingerprint)
    )
    assert weights_then == weights_now, "the adapter changed: record the run anew, see README"
    asker = Asker(load_dataset(DEMO_INSTRUCTION, settings.datasets), recorded.table("variants"), {})
    asked = {(r.protocol, r.attack, r.response_id): r for r in asker.scores()}
    asked |= {(r.protocol, r.order, r.response_id, r.response_b_id): r for r in asker.clean_pairs()}
    verdicts = recorded.table("verdicts")
    for row in verdicts[verdicts["protocol"] == "pointwise"].sample(3, random_state=1).itertuples():
        [found] = judge.judge([asked["pointwise", row.attack, row.response_id]])
        assert found.score == pytest.approx(row.score, abs=1e-3)
    clean = (verdicts["attack"] == NONE) & (verdicts["response_id"] != verdicts["response_b"])
    for row in verdicts[clean & (verdicts["protocol"] == "pairwise")].sample(3, random_state=1).itertuples():
        [found] = judge.judge([asked["pairwise", row.order, row.response_id, row.response_b]])
        assert found.p_a == pytest.approx(row.p_a, abs=1e-3)
