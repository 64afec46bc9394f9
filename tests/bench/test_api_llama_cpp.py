"""The bundled judge behind llama.cpp's own server: another engine, tokenizer and template, the same verdicts."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from engine.core.errors import ModelError
from engine.core.schema import Protocol
from engine.data.store import load_dataset
from engine.defenses.served_guard import ServedGuard
from engine.inference.weights import base_record, find_gguf
from engine.judges.kinds import both_orders
from engine.judges.registry import make_judge
from engine.studies.running import build_requests
from tests.bench.llama_cpp import llama_server, write_gguf

pytestmark = [
    pytest.mark.weights,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None,
        reason="llama.cpp's server is not installed (pip install xllamacpp, 34 MB)",
    ),
]
TOLERANCE = 5e-3
"""Largest difference of a label's probability: llama.cpp keeps its keys and values in half precision."""


@pytest.fixture
def llama(bundled, settings, tmp_path, monkeypatch):
    path = tmp_path / "judge.gguf"
    write_gguf(bundled.model, find_gguf(settings, base_record(settings.assets / "judge")), path)
    with llama_server(path) as url:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", f"{url}/v1")
        yield


def test_scores_anchors_pairs_and_checks_agree(llama, settings):
    dialogue = build_requests(load_dataset("demo-dialogue", settings.datasets))
    anchored = [replace(r, anchor_low=dialogue[3].response, anchor_high=dialogue[0].response) for r in dialogue[4:7]]
    asked = build_requests(load_dataset("demo-instruction", settings.datasets))
    pairs = [
        replace(a, protocol=Protocol.PAIRWISE, response_b_id=b.response_id, response_b=b.response)
        for a, b in zip(asked[:6:2], asked[1:6:2], strict=True)
    ]
    checks = build_requests(load_dataset("demo-verification", settings.datasets))[:6]
    checks = [replace(r, protocol=Protocol.VERIFIER) for r in checks]
    requests = [*dialogue[:6], *anchored, *both_orders(pairs), *checks]
    local = make_judge("bundled:judge", settings, cache=False).judge(requests)
    remote = make_judge("api:whatever", settings, cache=False).judge(requests)
    for a, b in zip(local, remote, strict=True):
        assert b.prompt_tokens == a.prompt_tokens  # the server's own template and tokenizer write the same prompt
        assert np.abs(np.subtract(a.probabilities, b.probabilities)).max() < TOLERANCE
        assert b.coverage == pytest.approx(a.coverage, abs=TOLERANCE)
        assert (b.read, b.outcome) == (a.read, a.outcome)


def test_answers_are_held_to_the_labels_and_perplexity_is_not_offered(llama, settings):
    request = build_requests(load_dataset("demo-dialogue", settings.datasets))[0]
    judge = make_judge("api:whatever?answers=choice", settings, cache=False)
    assert judge.judge([request])[0].read
    assert judge.server["held_to_labels"] == "response_format"
    likeliest = make_judge("api:whatever", settings, cache=False)
    likeliest.judge([request])
    assert likeliest.server["label_tokens_by_id"] is False  # its tokenizer takes other requests
    with pytest.raises(ModelError, match="no log-probabilities of a prompt"):
        ServedGuard(judge.client, "whatever", lambda: None, None).perplexities(["Hello there."], 0, lambda: None)
