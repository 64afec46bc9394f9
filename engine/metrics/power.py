"""What a study of this size could have found: detectable effects, and the word "underpowered".

An interval that covers zero says nothing by itself: it may be narrow around zero or wide around anything. The
detectable effect tells the two apart.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import nctdtrinc, stdtrit

from engine.errors import InputError
from engine.metrics.intervals import standard_error
from engine.metrics.paired import Clusters

POWER = 0.8
"""Chance of a finding that a detectable effect has, the usual convention."""
EFFECT = 0.25
"""The effect asked about unless the user names another one [points of the judge's scale]."""
UNDERPOWERED = "underpowered"
ENOUGH = "enough"
UNKNOWN = "unknown"


def detectable_effect(
    differences: npt.ArrayLike, clusters: Clusters, *, level: float = 0.95, power: float = POWER
) -> float:
    """The smallest true mean that a two-sided test at 1 - level finds with this power, in the rows' unit.

    It is the CR2 standard error times the noncentrality at which the t test has the power wanted (the far tail,
    a finding with the wrong sign, is left out: it is below 1e-5 at 80 %). The error is the one seen, so this is
    a statement about the study as run, not about the effect it found.

    Args:
        differences: paired differences, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        level: confidence level of the test, in (0, 1).
        power: in (1 - level, 1).

    Returns:
        NaN with fewer than two clusters, or where all clusters agree (no spread to learn from).

    Raises:
        InputError: level or power out of range.
    """
    spread = standard_error(differences, clusters)
    if not spread.error > 0:
        _check(level, power)
        return math.nan
    return spread.error * noncentrality(spread.df, level=level, power=power)


def noncentrality(df: float, *, level: float = 0.95, power: float = POWER) -> float:
    """True mean over standard error at which the two-sided t test with df degrees of freedom has the power.

    Raises:
        InputError: level or power out of range.
    """
    _check(level, power)
    return float(nctdtrinc(df, 1 - power, float(stdtrit(df, 0.5 + level / 2))))


def power_verdict(detectable: float, effect: float = EFFECT) -> str:
    """`underpowered` where the detectable effect is larger than the one asked about, else `enough`.

    `unknown` where the detectable effect is NaN: one item, or no variation to learn from.

    Raises:
        InputError: the effect is not above zero.
    """
    if not effect > 0:
        raise InputError(f"The effect asked about is {effect}; give a size above zero, for example 0.25 points.")
    if math.isnan(detectable):
        return UNKNOWN
    return UNDERPOWERED if detectable > effect else ENOUGH


def power_verdicts(metrics: pd.DataFrame, effect: float = EFFECT) -> pd.Series:
    """`power_verdict` of each row of a metrics table, from its column `detectable`; same index.

    Raises:
        InputError: the effect is not above zero.
    """
    values = metrics["detectable"].to_numpy(dtype=np.float64)
    return pd.Series([power_verdict(float(v), effect) for v in values], index=metrics.index, dtype="str")


def _check(level: float, power: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"The confidence level is {level}; it must lie between 0 and 1, for example 0.95.")
    if not 1 - level < power < 1:
        raise InputError(f"The power is {power}; it must lie between {1 - level:g} and 1, for example 0.8.")
