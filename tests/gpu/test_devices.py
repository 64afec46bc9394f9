"""Several GPUs: a process on each, and one model split over them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.judges.base import Request
from engine.judges.processes import Processes, SpreadCardJudge
from engine.judges.registry import make_judge

COUNT = torch.cuda.device_count()
pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(COUNT < 1, reason="no CUDA device")]
ASKED = [
    Request(
        f"q{i // 4}", f"r{i}", Task.SUMMARY, f"The bridge opened in {1900 + i // 4}.", "A bridge opened. " * (i % 4)
    )
    for i in range(64)
]


@pytest.mark.weights
def test_a_process_on_each_gpu_gives_what_one_gives(weights):
    settings = dataclasses.replace(get_settings(), device="cuda:0")
    devices = tuple(f"cuda:{k}" for k in range(COUNT)) if COUNT > 1 else ("cuda:0", "cuda:0")
    processes = Processes("bundled:judge", dataclasses.replace(settings, devices=devices), {"cache": False})
    try:
        spread = [v.score for v in SpreadCardJudge(processes).judge(ASKED)]
    finally:
        processes.close()
    alone = [v.score for v in make_judge("bundled:judge", settings, cache=False).judge(ASKED)]
    np.testing.assert_allclose(spread, alone, atol=0.1)  # bfloat16, other batches


@pytest.mark.skipif(COUNT < 2, reason="one CUDA device")
def test_a_model_split_over_gpus_scores_as_on_one(tiny_folders, settings):
    from engine.inference.loading import load_model
    from engine.inference.scoring import LabelTokens, label_probabilities

    labels = LabelTokens(("a", "b"), ((5,), (7,)))
    prompts = [list(range(3, 10 + i)) for i in range(12)]
    spec = f"path:{tiny_folders('llama')}"
    one, split = (load_model(spec, dataclasses.replace(settings, device=d)) for d in ("cuda:0", "split"))
    np.testing.assert_allclose(
        label_probabilities(split, prompts, labels), label_probabilities(one, prompts, labels), atol=1e-2
    )
