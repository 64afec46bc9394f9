"""Intervals of means over pairs, items resampled whole, all of one draw: fast enough for a slider.

Percentiles of 1000 ratios, spread by t / z * sqrt(G / (G - 1)) around the estimate for few items, as
`engine.metrics.intervals` does for its own (Hesterberg 2015, section 5.3). Where no item differs from another, every
resample agrees, which is no certainty: a share of 0 or 1 then has Wilson's bound with n = items, all else no bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from engine.metrics.intervals import BOOTSTRAP, NO_DATA, NO_VARIATION, ONE_CLUSTER, WILSON_CLUSTERS, wilson

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
RESAMPLES = 1000
_ROUNDING = 1e-9


class Mean(NamedTuple):
    """A mean over pairs; where the bounds are NaN the method says why.

    Attributes:
        n: pairs that entered.
        n_items: items that entered.
        method: how the interval was made, in words for a caption.
    """

    value: float
    lower: float
    upper: float
    n: int
    n_items: int
    method: str


class ItemBootstrap:
    """Resamples of items.

    Args:
        items: the item of each pair (n,).
        seed: of the draw.
    """

    def __init__(self, items: Sequence[object] | npt.NDArray[np.object_], seed: int = 0) -> None:
        self.codes = np.unique(np.asarray(items, dtype=str), return_inverse=True)[1]
        self._g = int(self.codes.max()) + 1 if len(self.codes) else 0
        rng = np.random.default_rng(seed)
        self.weights = rng.multinomial(self._g, np.full(self._g, 1 / self._g), size=RESAMPLES).astype(np.float64)

    def mean(self, values: Floats, level: float = 0.95, *, share: bool = True) -> Mean:
        """As `means`, of one."""
        return self.means([values], level, [share])[0]

    def means(self, columns: Sequence[Floats], level: float = 0.95, shares: Sequence[bool] | None = None) -> list[Mean]:
        """Mean over pairs of each column with its interval; one multiplication serves them all.

        Args:
            columns: each one number a pair (n,); NaN is left out.
            level: confidence level in (0, 1).
            shares: whether each column is a share, in [0, 1]; all are by default. A difference is none.
        """
        if not columns:
            return []
        known = [~np.isnan(column) for column in columns]
        pairs = zip(known, columns, strict=True)
        sums = [np.bincount(self.codes[k], v[k], self._g).astype(np.float64) for k, v in pairs]
        sizes = [np.bincount(self.codes[k], minlength=self._g).astype(np.float64) for k in known]
        drawn = self.weights @ np.stack([*sums, *sizes], axis=1)  # (RESAMPLES, 2 K)
        k = len(columns)
        found = []
        for c, share in enumerate(shares if shares is not None else [True] * k):
            top, below = drawn[:, c], drawn[:, k + c]
            value = float(sums[c].sum() / sizes[c].sum()) if sizes[c].any() else float("nan")
            n, g = int(sizes[c].sum()), int((sizes[c] > 0).sum())
            alike = bool(np.abs(sums[c] - value * sizes[c]).max() <= _ROUNDING) if n else True
            found.append(_mean(value, top[below > 0] / below[below > 0], n, g, level, share=share, alike=alike))
        return found

    def mean_of_splits(self, splits: Sequence[tuple[Ints, Floats]], level: float = 0.95) -> Mean:
        """Mean over splits of the share in each, every resample of the items taken in all splits at once.

        Args:
            splits: pairs that are in it (k,), and the value of each in [0, 1] (k,), NaN being left out; a split in
                which nothing is known takes no part.
            level: confidence level in (0, 1).
        """
        known = [(pairs[~np.isnan(v)], v[~np.isnan(v)]) for pairs, v in splits]
        known = [(pairs, v) for pairs, v in known if len(v)]
        if not known:
            return _mean(float("nan"), np.zeros(0), 0, 0, level, share=True, alike=True)
        sums = np.stack([np.bincount(self.codes[pairs], v, self._g) for pairs, v in known], axis=1)  # (G, S)
        sizes = np.stack([np.bincount(self.codes[pairs], minlength=self._g) for pairs, _ in known], axis=1)
        top, below = self.weights @ sums, self.weights @ sizes  # (RESAMPLES, S)
        ratios = np.divide(top, below, out=np.full(top.shape, np.nan), where=below > 0)
        drawn = np.nanmean(ratios[~np.isnan(ratios).all(axis=1)], axis=1)
        pairs = np.unique(np.concatenate([pairs for pairs, _ in known]))
        value = float(np.mean([v.mean() for _, v in known]))
        g = len(np.unique(self.codes[pairs]))
        alike = bool(np.abs(drawn - value).max(initial=0.0) <= _ROUNDING)
        return _mean(value, drawn, len(pairs), g, level, share=True, alike=alike)


def _mean(value: float, drawn: Floats, n: int, g: int, level: float, *, share: bool, alike: bool) -> Mean:
    """The mean with what its resamples say of it; `alike` where no item differs from another."""
    nan = float("nan")
    if not n:
        return Mean(nan, nan, nan, 0, 0, NO_DATA)
    if alike and share and min(abs(value), abs(1 - value)) <= _ROUNDING:
        bound = wilson(g * round(value), g, level)
        return Mean(value, bound.lower, bound.upper, n, g, WILSON_CLUSTERS)
    if g < 2:
        return Mean(value, nan, nan, n, g, ONE_CLUSTER)
    if alike:
        return Mean(value, nan, nan, n, g, NO_VARIATION)
    ratios = np.sort(drawn)
    low, high = (float(ratios[round(q * (len(ratios) - 1))]) for q in ((1 - level) / 2, (1 + level) / 2))
    wider = _spread(g, level)
    return Mean(value, value - (value - low) * wider, value + (high - value) * wider, n, g, BOOTSTRAP)


def _spread(g: int, level: float) -> float:
    """Widening t / z * sqrt(g / (g - 1)), with t by the Cornish-Fisher expansion of its quantile."""
    z = float(ndtri(0.5 + level / 2))
    df = g - 1
    t = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    return float(t / z * np.sqrt(g / df))
