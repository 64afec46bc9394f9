"""Many tests at once: Benjamini-Hochberg over a grid of arms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.errors import InputError


def benjamini_hochberg(p_values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The q value of each test: the smallest false discovery rate at which it would be called a finding.

    q of the i-th smallest of m p values is the minimum over j >= i of m p_(j) / j (Benjamini and Hochberg,
    1995). Valid for independent and for positively dependent tests; arms that share their clean scores are
    positively dependent.

    Args:
        p_values: shape [m], in [0, 1]. NaN (no test was possible) stays NaN and does not count towards m.

    Returns:
        Shape [m], in [0, 1].

    Raises:
        InputError: a value outside [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(p))
    if ((p[tested] < 0) | (p[tested] > 1)).any():
        raise InputError("A p value must lie between 0 and 1.")
    q = np.full(p.shape, np.nan)
    if not len(tested):
        return q
    order = tested[np.argsort(p[tested], kind="stable")]
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q
