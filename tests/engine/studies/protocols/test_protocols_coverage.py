"""A planted preference comes back from study `protocols`, and its 95 % interval covers it as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from engine.attacks.rewriting import RuleRewriter
from engine.core.schema import Protocol
from engine.judges.base import verdict_table
from engine.judges.planted import make_planted
from engine.stats.arena import build_arena
from engine.studies.protocols.metrics import View, copy_rates
from engine.studies.protocols.requests import Asker, variant_table
from tests.engine.studies.protocols.test_protocols import made, ran, row

VIEW = View()
RUNS, ITEMS, SYSTEMS = 120, 16, 4


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.0, 0.6])
def test_the_assertive_judge_gives_its_dial_back(strength):
    """Of two texts of one response the assertive one wins with probability 0.5 + strength / 2."""
    data, dial, hits, values = made(ITEMS), 0.5 + strength / 2, [], []
    variants = variant_table(data, ["assertiveness"], RuleRewriter())
    asked = Asker(data, variants, {}).copies()
    for seed in range(RUNS):
        judge = make_planted(f"planted:assertiveness?strength={strength}&seed={seed}")
        verdicts = verdict_table(judge, asked, judge.judge(asked))
        found = copy_rates(build_arena(verdicts, variants), Protocol.PAIRWISE, ["assertiveness"], VIEW).preferred
        values.append(found.value)
        hits.append(found.lower <= dial <= found.upper)
    assert np.mean(values) == pytest.approx(dial, abs=4 * np.sqrt(dial * (1 - dial) / (RUNS * ITEMS * SYSTEMS)))
    assert 0.9 <= np.mean(hits) <= 0.99  # a true 0.95 is outside by chance in 2 % of such tests; the seeds are fixed


def test_the_study_reports_what_its_verdicts_say(settings):
    judge = "planted:assertiveness?strength=0.6&seed=3"
    _, metrics, arena = ran(settings, judge, made(ITEMS), distractors=("assertiveness",), boards=())
    found = row(metrics, "preferred_distracted", protocol="pairwise", attack="assertiveness")
    assert found.value == copy_rates(arena, Protocol.PAIRWISE, ["assertiveness"], VIEW).preferred.value
    assert found.lower <= 0.8 <= found.upper
