"""The figure of the perplexity threshold: what is drawn is what the readings say."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import InputError
from engine.plots.theme import MODES
from engine.stats.detection import best_f1, pr_curve
from engine.studies.perplexity_threshold.figures import plot_curves, prepare_curves

CLEAN, ATTACKED = [10.0, 20.0, 30.0, 60.0], [25.0, 50.0, 80.0, 90.0]


def test_the_threshold_in_use_is_marked_on_both_curves():
    _, threshold = best_f1(CLEAN, ATTACKED)
    curves = {side: pr_curve(CLEAN, ATTACKED) for side in ("train", "test")}
    prepared = prepare_curves(curves, threshold)
    used = prepared[prepared["used"] == 1]
    assert used["side"].tolist() == ["train", "test"]
    hits, alarms = (sum(v > threshold for v in values) for values in (ATTACKED, CLEAN))
    np.testing.assert_allclose(used["recall"], hits / 4)
    np.testing.assert_allclose(used["precision"], hits / (hits + alarms))
    for mode in MODES:
        figure = plot_curves(prepared, n=8, items=4, mode=mode)
        assert figure.data[3].x[0] == pytest.approx(hits / 4)
        assert "n = 8 texts of 4 items" in figure.layout.title.subtitle.text
    with pytest.raises(InputError, match="train"):
        prepare_curves({"test": curves["test"]}, threshold)


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 1e6])
def test_a_threshold_outside_the_readings_still_has_a_place(threshold):
    curves = {side: pr_curve(CLEAN, ATTACKED) for side in ("train", "test")}
    assert prepare_curves(curves, threshold)["used"].sum() == 2
