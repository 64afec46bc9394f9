"""Separability of two sets of activations at each layer (CAP, paper 001, equation 3).

    separability = |hv - lv| / (mean |h - hv| + mean |l - lv|)

with hv and lv the means of the two sets. The paper takes it after dimensionality reduction (section 4.2, components
not stated; two by default here). Raw values depend on the number of texts: without any difference they are near
sqrt(2 / n) / 2 for n texts a side in many dimensions, so each value is shown with its permutation null. The null
shuffles the sides within each context: texts of one context lie together whatever their quality.

Numpy only, all layers at once: arrays are (L, n, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import InputError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
RAW, PCA = "raw", "pca"
COMPONENTS = 2
DRAWS = 200


def separability(x: Floats, is_high: Bools) -> Floats:
    """Equation 3 for each layer.

    Args:
        x: activations or their components (L, n, k).
        is_high: the side of each text (n,); both sides non-empty.

    Returns:
        (L,), at least 0; NaN where all texts of both sides coincide.
    """
    high, low = x[:, is_high], x[:, ~is_high]
    hv, lv = high.mean(axis=1, keepdims=True), low.mean(axis=1, keepdims=True)
    within = np.linalg.norm(high - hv, axis=2).mean(axis=1) + np.linalg.norm(low - lv, axis=2).mean(axis=1)
    between = np.linalg.norm(hv - lv, axis=2)[:, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        out: Floats = np.where(within > 0, between / within, np.nan)
    return out


def principal(fit: Floats, k: int = COMPONENTS) -> tuple[Floats, Floats]:
    """Mean (L, 1, d) and the first k principal directions (L, d, k) of each layer, through the n x n Gram matrix."""
    centre = fit.mean(axis=1, keepdims=True)
    x = fit - centre
    values, vectors = np.linalg.eigh(x @ x.transpose(0, 2, 1))  # ascending
    values, vectors = values[:, ::-1][:, :k], vectors[:, :, ::-1][:, :, :k]
    directions = x.transpose(0, 2, 1) @ vectors
    return centre, directions / np.sqrt(np.maximum(values, 1e-30))[:, None, :]


@dataclass(frozen=True)
class LayerSeparability:
    """Separability at every layer, in one space.

    Attributes:
        space: raw or pca.
        fitted: on the half that chose the components and the layer (L,).
        value: on the other half (L,).
        lower, upper: bootstrap interval of `value` over contexts (L,).
        null_mean, null_high: mean and upper 95 % point of `value` with the sides shuffled within contexts (L,).
        p_value: share of shuffles that reach `value`, with the usual + 1 (L,); NaN where `value` is.
        n_high, n_low: texts of the other half.
    """

    space: str
    fitted: Floats
    value: Floats
    lower: Floats
    upper: Floats
    null_mean: Floats
    null_high: Floats
    p_value: Floats
    n_high: int
    n_low: int


def halves(contexts: NDArray[Any], is_high: Bools, seed: int) -> Bools:
    """True for the texts of the fitting half; contexts are dealt to the halves, so that none is in both.

    Raises:
        InputError: a half would lack a side.
    """
    names = np.unique(contexts)
    order = np.random.default_rng(seed).permutation(len(names))
    for turn in range(len(names)):  # a rotation of the deal, until each half has two texts a side
        first = names[np.roll(order, turn)[: (len(names) + 1) // 2]]
        fit: Bools = np.isin(contexts, first)
        if min((fit & is_high).sum(), (fit & ~is_high).sum(), (~fit & is_high).sum(), (~fit & ~is_high).sum()) >= 2:
            return fit
    raise InputError(
        f"The retained texts of {len(names)} contexts cannot be dealt into two halves that each hold both sides. "
        "Use more training contexts, or generate more candidates for each."
    )


def by_layer(
    activations: NDArray[np.floating[Any]],
    is_high: Bools,
    contexts: NDArray[Any],
    *,
    components: int = COMPONENTS,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
    fit: Bools | None = None,
) -> dict[str, LayerSeparability]:
    """Separability of every layer, raw and after PCA, fitted on half of the contexts and evaluated on the other.

    Args:
        activations: (L, n, d).
        is_high: (n,).
        contexts: the context of each text (n,); halves and bootstrap take whole contexts.
        components: principal components kept.
        draws: permutations, and bootstrap resamples.
        seed: of halves, permutations and resamples.
        level: of the intervals.
        fit: true for the fitting half (n,); by default whole contexts are dealt (`halves`).

    Returns:
        `raw` and `pca`.

    Raises:
        InputError: fewer than two texts a side in a half, or too few texts for the components.
    """
    fit = halves(contexts, is_high, seed) if fit is None else fit
    if components >= fit.sum():
        raise InputError(f"{int(fit.sum())} texts cannot give {components} components; generate more candidates.")
    x = np.asarray(activations, dtype=np.float64)
    centre, directions = principal(x[:, fit], components)
    spaces = {PCA: (x - centre) @ directions, RAW: x}
    return {name: _measure(name, space, is_high, contexts, fit, draws, seed, level) for name, space in spaces.items()}


def _measure(
    name: str, x: Floats, is_high: Bools, contexts: NDArray[Any], fit: Bools, draws: int, seed: int, level: float
) -> LayerSeparability:
    rng = np.random.default_rng([seed, 1])
    points, sides, groups = _compact(x[:, ~fit]), is_high[~fit], contexts[~fit]
    value = separability(points, sides)
    null = np.stack([separability(points, _shuffled(sides, groups, rng)) for _ in range(draws)])
    picks = _resamples(groups, sides, draws, rng)
    resampled = np.stack([separability(points[:, pick], sides[pick]) for pick in picks])
    tail = 100 * (1 - level) / 2
    lower, upper = np.nanpercentile(resampled, [tail, 100 - tail], axis=0)
    reached = np.where(np.isnan(value), np.nan, (null >= value).sum(axis=0))
    return LayerSeparability(
        space=name,
        fitted=separability(x[:, fit], is_high[fit]),
        value=value,
        lower=lower,
        upper=upper,
        null_mean=null.mean(axis=0),
        null_high=np.percentile(null, 95, axis=0),
        p_value=(1 + reached) / (1 + draws),
        n_high=int(sides.sum()),
        n_low=int((~sides).sum()),
    )


def _shuffled(sides: Bools, groups: NDArray[Any], rng: np.random.Generator) -> Bools:
    """Sides exchanged within each context only.

    Activations depend on the context more than on anything else. Where the sides come from different contexts, as a
    judge that likes one context's texts makes them, they lie apart for that reason alone; this null keeps it.
    """
    out = sides.copy()
    for name in np.unique(groups):
        place = np.flatnonzero(groups == name)
        out[place] = sides[rng.permutation(place)]
    return out


def _compact(x: Floats) -> Floats:
    """The same points in at most n dimensions: rotated onto their span, so every distance stays what it is."""
    if x.shape[2] <= x.shape[1]:
        return x
    centre, directions = principal(x, x.shape[1])
    return (x - centre) @ directions


def _resamples(groups: NDArray[Any], sides: Bools, draws: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Places of the texts of resampled contexts; draws that lack a side are drawn anew."""
    names = np.unique(groups)
    places = [np.flatnonzero(groups == name) for name in names]
    kept: list[NDArray[np.intp]] = []
    for _ in range(50 * draws):
        pick = np.concatenate([places[i] for i in rng.integers(len(names), size=len(names))])
        if sides[pick].any() and not sides[pick].all():
            kept.append(pick)
        if len(kept) == draws:
            break
    if not kept:
        raise InputError("Only one context holds both sides, so there is nothing to resample. Use more contexts.")
    return kept
