"""The transport bench on a small problem: what it compares must agree; how fast it is, it says itself."""

import pytest

from engine.bench.transport import _size, measure, table
from engine.core.errors import InputError


def test_every_way_gives_the_same_costs_and_the_table_says_so():
    row = measure(20, 63, masses=6, default_runs=2)
    assert row["largest_cost_difference"] < 1e-9
    assert row["dual_gap"] < 1e-12
    assert min(row[k] for k in ("ours_seconds", "pot_tuned_seconds", "pot_warm_seconds", "pot_default_seconds")) > 0
    assert "| 20 x 63 |" in table([row])


@pytest.mark.parametrize("size", ["500", "0x3", "axb", "3x"])
def test_sizes_that_are_none_are_refused(size):
    with pytest.raises(InputError, match="write PxU"):
        _size(size)
