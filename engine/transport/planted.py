"""Planted geometry: directions whose truth is known, as paper 002 assumes them (assumptions 4.1, 4.2 and 4.4).

Two departures from the assumptions can be planted too, since that is where an audit does harm: verified positives with
the wrong label, and right verdicts of a kind that no positive shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError

Floats = npt.NDArray[np.float64]

CONTRARY = -0.5
"""Cosine between the axes of both kinds of right verdicts, where there are two."""


@dataclass(frozen=True)
class Planted:
    """Directions and their truth.

    Attributes:
        positives: unit rows within the cone (n_P, d).
        unlabelled: unit rows (n_U, d).
        truth: true where an unlabelled row was drawn from the cone (n_U,).
        bias: the nuisance direction (d,), orthogonal to the cone's axis.
    """

    positives: Floats
    unlabelled: Floats
    truth: npt.NDArray[np.bool_]
    bias: Floats


def planted_cone(
    n_positive: int, n_unlabelled: int, *, d: int = 512, tau: float = 0.8, delta: float = 0.5, alpha: float = 0.6,
    nuisance: float = 0.0, mislabelled: float = 0.0, contrary: float = 0.0, seed: int = 0,
) -> Planted:  # fmt: skip
    """Positives with cosine tau to 1 to an axis, negatives below tau - delta, a share alpha of positives unlabelled.

    Args:
        n_positive: labelled positives.
        n_unlabelled: unlabelled rows; round(alpha n_unlabelled) are from the cone.
        d: dimensions; theorem 4.3 holds with high probability as they grow.
        tau: concentration of the cone, in (0, 1).
        delta: margin; tau^2 > tau - delta makes the gap non-empty (assumption 4.2).
        alpha: prior of the unlabelled, in [0, 1].
        nuisance: lambda of theorem 4.5: how much of the bias direction is added to every unlabelled row.
        mislabelled: share of the positives that lie outside the cone, in [0, 1).
        contrary: share of the right unlabelled rows that are of another kind, in [0, 1]: around a second axis, whose
            cosine to the first is `CONTRARY`.
        seed: of the draw.

    Raises:
        InputError: an argument outside its range.
    """
    if not (0 <= mislabelled < 1 and 0 <= contrary <= 1):
        raise InputError(f"No cone with {mislabelled} of the positives mislabelled and {contrary} of another kind.")
    if not (0 < tau < 1 and 0 < delta < 1 + tau and 0 <= alpha <= 1 and d >= 3 and min(n_positive, n_unlabelled) > 0):
        raise InputError(f"No cone with tau {tau}, delta {delta}, alpha {alpha}, {d} dimensions.")
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, 3)))[0].T
    axis, bias = basis[0], basis[1]
    n_true = round(alpha * n_unlabelled)
    inside = _around(axis, rng.uniform(tau, 1, n_positive + n_true), rng)
    outside = _around(axis, rng.uniform(-1, tau - delta, n_unlabelled - n_true), rng)
    right, positives = inside[n_positive:], inside[:n_positive]
    if n_other := round(contrary * n_true):
        other = CONTRARY * axis + np.sqrt(1 - CONTRARY**2) * basis[2]
        right[:n_other] = _around(other, rng.uniform(tau, 1, n_other), rng)
    if n_wrong := round(mislabelled * n_positive):
        positives[:n_wrong] = _around(axis, rng.uniform(-1, tau - delta, n_wrong), rng)
    unlabelled = np.concatenate([right, outside]) + nuisance * bias
    truth = np.arange(n_unlabelled) < n_true
    mixed = rng.permutation(n_unlabelled)
    return Planted(positives, _unit(unlabelled)[mixed], truth[mixed], bias)


def _around(axis: Floats, cosines: Floats, rng: np.random.Generator) -> Floats:
    """Unit rows with these cosines to the axis, uniform around it."""
    across = rng.normal(size=(len(cosines), len(axis)))
    across = _unit(across - np.outer(across @ axis, axis))
    rows: Floats = cosines[:, None] * axis + np.sqrt(1 - cosines**2)[:, None] * across
    return rows


def _unit(rows: Floats) -> Floats:
    scaled: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    return scaled
