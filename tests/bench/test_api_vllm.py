"""The bundled base model behind a real vLLM: label masses by token id, answers held to the labels, perplexity.

vLLM is not installed with the project: `JUDGESCOPE_TEST_VLLM` names the base URL of a server of the base model in 32
bits.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from engine.core.schema import Protocol, Task
from engine.core.settings import ApiSettings, get_settings
from engine.defenses.served_guard import ServedGuard
from engine.inference.loading import load_model
from engine.inference.perplexity import perplexities
from engine.inference.served import ApiClient
from engine.judges.api import ApiJudge
from engine.judges.api_spec import parse_api
from engine.judges.cards import read_cards
from engine.judges.kinds import both_orders
from engine.judges.labelled import CardJudge
from tests.engine.judges.test_api import READERS
from tests.engine.judges.test_protocols import FIT, ONE

URL = os.environ.get("JUDGESCOPE_TEST_VLLM", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.weights,
    pytest.mark.skipif(not URL, reason="JUDGESCOPE_TEST_VLLM names no vLLM server"),
]
GRADE = replace(ONE, context="What do bees make?", response="Bees make honey.")
PAIR = replace(GRADE, protocol=Protocol.PAIRWISE, task=Task.INSTRUCTION, response_b_id="s", response_b="They do not.")
CHECK = replace(FIT, context="What is 7 + 5?", response="7 + 5 = 12. The answer is 12.")
ASKED = [GRADE, *both_orders([PAIR]), CHECK]
TEXTS = ["Bees make honey from nectar.", "zx q qwe 12 //", "The answer is 12."]


@pytest.fixture(scope="module")
def base():
    return load_model("bundled:base", get_settings())


def client():
    return ApiClient(ApiSettings(base_url=URL, timeout_seconds=600, concurrency=2))


def judge(dials=""):
    spec = f"api:{client().models()[0]}{dials}"
    cards = read_cards(get_settings().assets / "cards")
    return ApiJudge(spec, parse_api(spec), client(), cards, READERS, min_coverage=0.0)


def test_label_masses_by_token_id_are_the_local_model_s(base):
    remote, local = judge(), CardJudge(base, read_cards(get_settings().assets / "cards"), READERS, min_coverage=0.0)
    for here, there in zip(local.judge(ASKED), remote.judge(ASKED), strict=True):
        assert there.coverage == pytest.approx(here.coverage, abs=1e-4)
        assert there.probabilities == pytest.approx(here.probabilities, abs=1e-4)
        assert there.prompt_tokens == here.prompt_tokens
    assert remote.server["label_tokens_by_id"] is True
    assert remote.server["version"]


def test_an_answer_held_to_the_labels_is_always_read():
    remote = judge("?answers=choice")
    assert all(verdict.read for verdict in remote.judge(ASKED))
    assert remote.server["held_to_labels"] == "structured_outputs"


def test_perplexity_is_the_local_model_s(base):
    guard = ServedGuard(client(), client().models()[0], lambda: base, None)
    found = [reading.value for reading in guard.perplexities(TEXTS, 0, lambda: None)]
    assert found == pytest.approx(perplexities(base, TEXTS), rel=1e-3)
