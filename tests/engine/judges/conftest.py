"""Tiny models are quickest on one thread; the bundled one keeps what it has."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread(request):
    before = torch.get_num_threads()
    if "bundled" not in request.fixturenames:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
