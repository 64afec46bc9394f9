"""What a check-up is said to take beforehand is what the study then asks, or a little more."""

from __future__ import annotations

import pytest

from engine.attacks.master_keys import KEY_TEXTS
from engine.core.schema import Protocol
from engine.data.comparisons import DEMO_PAIRS, load_comparisons
from engine.data.store import load_dataset
from engine.judges.registry import make_judge
from engine.studies.checkup import run as checkup
from engine.studies.checkup.material import make_subject, of_dataset, of_pairs
from engine.studies.checkup.metrics import Size, most_calls
from engine.studies.checkup.run import probes_of
from engine.studies.checkup.study import CheckupConfig
from tests.engine.studies.checkup_judges import Sighted, made_data

EVERY = tuple(Protocol)


def asked(material, judge, config):
    subject = make_subject(judge, material, config.size)
    return checkup._requests(probes_of(config), subject)


def said(material, config, protocols, pairs=None):
    size = Size(config.limit or 10**6, config.responses, config.pairs, len(config.attacks), len(KEY_TEXTS))
    return most_calls(material.dataset.items, material.dataset.responses, pairs, size, protocols)


@pytest.mark.parametrize("task", ["instruction", "verification"])
@pytest.mark.parametrize(("limit", "responses", "pairs"), [(5, 2, 1), (None, 4, 2), (3, 1, 0)])
def test_of_responses(task, limit, responses, pairs):
    dataset, quality = made_data(9, 3, task=task)
    material = of_dataset(dataset)
    config = CheckupConfig(judge="x", data="x", limit=limit, responses=responses, pairs=pairs)
    judge = Sighted(quality, answers=EVERY)
    calls = asked(material, judge, config)
    found = said(material, config, EVERY)
    for protocol in EVERY:
        exact = sum(r.protocol is protocol for r in calls)
        assert exact <= found.get(protocol, 0) <= 1.35 * exact + 8, protocol


@pytest.mark.parametrize("limit", [4, None])
def test_of_pairs_and_of_a_judge_that_answers_one_protocol(settings, limit):
    held = load_comparisons(DEMO_PAIRS, settings.comparisons)
    material, config = of_pairs(held), CheckupConfig(judge="x", data="x", limit=limit)
    judge = make_judge("planted:position", settings)
    calls = asked(material, judge, config)
    found = said(material, config, [Protocol.PAIRWISE], held.comparisons)
    assert set(found) == {Protocol.PAIRWISE}
    assert len(calls) <= found[Protocol.PAIRWISE] <= 1.35 * len(calls)


def test_more_attacks_and_keys_take_more(settings):
    data = load_dataset("demo-dialogue", settings.datasets)
    few, more = (
        most_calls(data.items, data.responses, None, Size(60, 4, 2, n, k), [Protocol.POINTWISE])[Protocol.POINTWISE]
        for n, k in ((1, 2), (3, 5))
    )
    assert more - few == 2 * 48 + 3 * 12
