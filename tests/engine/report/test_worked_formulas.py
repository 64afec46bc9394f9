"""Formulas of assets/methods worked by hand, and what the engine makes of the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from engine.report.methods import formulas
from engine.stats.agreement import cluster_kappa
from engine.stats.auc import auc, cohens_d
from engine.stats.corrected import prediction_powered, rogan_gladen
from engine.stats.intervals import wilson
from engine.stats.paired import benjamini_hochberg, exact_mcnemar_p
from engine.stats.ratings import elo
from engine.stats.selective import upper_bound
from engine.steering.separability import separability
from engine.transport.audit import differences

NAN = float("nan")


def _separability():
    x = np.array([[[1.0, 0], [3, 0], [-1, 0], [-3, 0]]])  # means 4 apart, each text 1 from its mean
    return float(separability(x, np.array([True, True, False, False]))[0])


def _rogan_gladen():
    label = [1] * 40 + [0] * 40 + [NAN] * 20
    verdict = [1] * 36 + [0] * 4 + [1] * 8 + [0] * 32 + [1] * 16 + [0] * 4  # TPR 0.9, TNR 0.8, passes 60 of 100
    return rogan_gladen(verdict, label, range(100)).value


def _prediction_powered():
    verdict, label = [1, 1, 0, 0, 1, 1, 1, 1], [1, 0, 0, 0, NAN, NAN, NAN, NAN]
    return prediction_powered(verdict, label, range(8), lam=0.5).value


def _kappa():
    judged, human = ["a"] * 25 + ["b"] * 25, ["a"] * 20 + ["b"] * 5 + ["a"] * 10 + ["b"] * 15
    return cluster_kappa(judged, human, range(50)).interval.value


WORKED = {
    "Separability of a layer": (_separability, 4 / (1 + 1)),
    "Cohen's d": (lambda: cohens_d(np.array([1.0, 2, 3]), np.array([0.0, 1, 2])), 1.0),
    "Area under the ROC curve": (lambda: auc([2, 3], [1, 2]), (1 + 0.5 + 1 + 1) / 4),
    "Wilson interval": (lambda: wilson(0, 10).upper, norm.ppf(0.975) ** 2 / (10 + norm.ppf(0.975) ** 2)),
    "Paired events": (lambda: exact_mcnemar_p(1, 5), 2 * (1 + 6) / 2**6),
    "Many tests at once": (lambda: benjamini_hochberg([0.01, 0.04, 0.03, 0.005])[0], min(4 * 0.01 / 2, 0.04)),
    "Cohen's kappa": (_kappa, (0.7 - 0.5) / (1 - 0.5)),
    "Rogan-Gladen": (_rogan_gladen, (0.6 + 0.8 - 1) / (0.9 + 0.8 - 1)),
    "Corrected by labels (PPI++)": (_prediction_powered, 0.5 * 6 / 8 + (0.5 - 0.5 + 0 + 0) / 4),
    "Online Elo": (lambda: elo([[1.0]], np.array([[0, 1]]), 2).rating[0], 1000 + 16 * (1 - 0.5)),
    "Verdicts to keep": (lambda: upper_bound(0, 20, 0.05), 1 - 0.05 ** (1 / 20)),
    "Direction of a verdict": (lambda: differences([[3.0, 4]], [[0.0, 0]]).z[0, 0], 3 / 5),
}


def test_every_worked_formula_is_one():
    assert set(WORKED) <= {one.name for one in formulas(Path(__file__).parents[3] / "assets")}


@pytest.mark.parametrize("name", WORKED)
def test_the_engine_does_what_the_formula_says(name):
    made, expected = WORKED[name]
    assert made() == pytest.approx(expected, abs=1e-9)
