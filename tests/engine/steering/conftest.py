"""Random vectors of standards for a tiny model, and one thread for tiny products."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.steering.vectors import Standards


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def standards() -> Standards:
    """Standards of layer 1 of a model of width 32, far apart."""
    rng = np.random.default_rng(5)
    high, low = rng.normal(size=(2, 32))
    return Standards(1, high, low, 6.0)
