"""Random vectors of standards for a tiny model, and one thread for tiny products."""

from __future__ import annotations

import numpy as np
import pytest

from engine.steering.vectors import Standards
from tests.engine.inference.conftest import one_thread  # noqa: F401


@pytest.fixture
def standards() -> Standards:
    """Standards of layer 1 of a model of width 32, far apart."""
    rng = np.random.default_rng(5)
    high, low = rng.normal(size=(2, 32))
    return Standards(1, high, low, 6.0)
