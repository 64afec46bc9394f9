"""The page bench without a browser: its planted pairs, its medians, what it refuses."""

import math
from argparse import Namespace

import numpy as np
import pytest

from engine.bench.page import LEAST, RIGHT, Measured, Seen, median, planted_pairs, planted_run, run_page, summary, table
from engine.core.errors import InputError
from engine.data.comparisons import load_comparisons
from engine.runs.folder import RunFolder


def test_planted_pairs_are_of_the_size_asked_for_and_as_right_as_said():
    found = planted_pairs(60, 340).comparisons
    labelled = found["human"].isin(["a", "b"])
    assert (int(labelled.sum()), len(found)) == (60, 400)
    assert planted_pairs(60, 340).set_id == planted_pairs(60, 340).set_id


@pytest.mark.slow
def test_the_planted_audit_transports_exactly_so_many_and_finds_what_was_planted(settings):
    set_id = planted_run(settings, 60, 240, bootstraps=2)
    assert len(load_comparisons(set_id, settings.comparisons).comparisons) == 300
    run = RunFolder(next(settings.runs.iterdir()))
    audit = run.table("audit")
    itself = audit[audit["split"] == -1]
    assert itself["role"].value_counts().to_dict() == {"unlabelled": 240, "positive": 60}
    mass = run.manifest()["summary"]["mass"]
    assert abs(mass - RIGHT) < 4 * math.sqrt(RIGHT * (1 - RIGHT) / 60)


def test_the_interval_of_a_median_covers_it_in_19_of_20_draws():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        found = median(rng.exponential(size=9).tolist())
        hits += found["lower"] <= math.log(2) <= found["upper"]
    assert 0.94 < hits / 2000 < 0.98  # exactly 1 - 2 P(X <= 1) = 0.961 for n = 9


def test_too_few_values_have_no_interval_and_nothing_is_undefined():
    assert math.isnan(median([3.0] * (LEAST - 1))["lower"])
    assert median([])["n"] == 0
    row = summary(Measured("x", "", [Seen(1, 2, 3, math.nan)] * LEAST, (0.5, 0.5)))
    assert row["text"]["n"] == 0
    assert "| 1 [1, 1] | 2 [2, 2] | 3 [3, 3] | none | 6 | 0.5 to 0.5 |" in table([row])


@pytest.mark.parametrize("wrong", [{"repeats": 5}, {"size": "10x10"}, {"size": "500"}])
def test_what_cannot_be_measured_is_refused(wrong):
    with pytest.raises(InputError):
        run_page(Namespace(**{"repeats": 12, "size": "500x2000", "job": None} | wrong))
