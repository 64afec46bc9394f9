"""One audit: positives denoised, the exact path from them to the unlabelled pairs, and the baselines beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError
from engine.transport.path import cosine_costs, transport_path
from engine.transport.readout import NothingToAuditError, TransportPath

# Difference embeddings, the denoising of positives, and the geometric baselines (paper 002, 3.2 and A.4).

SAME = 1e-6
"""Two embeddings nearer than this, relative to their length, are the same: float32 states differ by as much."""
NEIGHBOURS = 10
"""Positives that the baseline `top10` averages over."""


@dataclass(frozen=True)
class Differences:
    """Unit vectors from the response that lost to the one that won.

    Attributes:
        z: one row per comparison that has a direction (n, d), of length 1.
        rows: positions of those comparisons (n,), ascending.
        same: comparisons whose two embeddings are the same and have no direction (k,).
    """

    z: Floats
    rows: npt.NDArray[np.intp]
    same: npt.NDArray[np.intp]


def differences(won: npt.ArrayLike, lost: npt.ArrayLike) -> Differences:
    """Unit differences (e_won - e_lost) / |e_won - e_lost| (paper 002, equation 1); zero differences are set apart.

    Args:
        won: embeddings of the responses that won (n, d).
        lost: embeddings of those that lost (n, d).

    Raises:
        InputError: shapes that differ, or NaN or infinity in a row, which is named.
    """
    winner, loser = np.asarray(won, dtype=np.float64), np.asarray(lost, dtype=np.float64)
    if winner.shape != loser.shape or winner.ndim != 2:
        raise InputError(f"Embeddings of both responses are needed; got shapes {winner.shape} and {loser.shape}.")
    broken = np.flatnonzero(~np.isfinite(np.concatenate([winner, loser], axis=1)).all(axis=1))
    if len(broken):
        raise InputError(
            f"The embedding of comparison {broken[0] + 1} of {len(winner)} holds NaN or infinity. Leave it out or "
            "encode it again."
        )
    delta = winner - loser
    length = np.linalg.norm(delta, axis=1)
    scale = np.maximum(np.linalg.norm(winner, axis=1), np.linalg.norm(loser, axis=1))
    apart = length > SAME * scale
    rows = np.flatnonzero(apart)
    return Differences(delta[rows] / length[rows, None], rows, np.flatnonzero(~apart))


def denoise(
    embeddings: npt.ArrayLike,
    z: npt.ArrayLike,
    types: Sequence[str],
    *,
    alpha1: float = 0.7,
    alpha2: float = 0.7,
    pool_below: int = 0,
) -> Bools:
    """The positives that stay (n,): within each question type, first the most central, then the best aligned of those.

    Paper 002, A.4: floor(alpha1 n) by the cosine of the winner's embedding to the type's mean, then floor(alpha2 n')
    of these by the cosine of z to their mean direction. A type of one positive keeps none, since the floor is 0.

    Args:
        embeddings: of the preferred responses (n, d).
        z: difference embeddings (n, d).
        types: question type of each (n,).
        alpha1: share of the most central kept, in (0, 1]; 1 keeps all.
        alpha2: share of the best aligned of those kept, in (0, 1].
        pool_below: types with fewer positives are denoised together; 0 pools none.

    Raises:
        InputError: a share outside (0, 1].
    """
    for name, alpha in (("alpha1", alpha1), ("alpha2", alpha2)):
        if not 0 < alpha <= 1:
            raise InputError(f"{name} is {alpha}; it must lie above 0 and at most 1 (the paper's 0.7).")
    e, directions = np.asarray(embeddings, np.float64), np.asarray(z, np.float64)
    stays = np.zeros(len(e), dtype=bool)
    for members in _by_type(types, pool_below):
        core = members[_top(_cosine(e[members], e[members].mean(axis=0)), alpha1)]
        aligned = _cosine(directions[core], directions[core].mean(axis=0)) if len(core) else np.zeros(0)
        stays[core[_top(aligned, alpha2)]] = True
    return stays


def baselines(positives: npt.ArrayLike, unlabelled: npt.ArrayLike) -> dict[str, Floats]:
    """Scores without transport: cosine to the positives' mean, to the nearest one, and the mean of the ten nearest.

    Args:
        positives: unit rows (n_P, d).
        unlabelled: unit rows (n_U, d).

    Returns:
        centroid, nearest and top10, each (n_U,) in [-1, 1]; higher looks more like a verified preference.
    """
    p, u = np.asarray(positives, np.float64), np.asarray(unlabelled, np.float64)
    cosines = np.sort(u @ p.T, axis=1)
    return {
        "centroid": _cosine(u, p.mean(axis=0)),
        "nearest": cosines[:, -1],
        "top10": cosines[:, -NEIGHBOURS:].mean(axis=1),
    }


def _by_type(types: Sequence[str], pool_below: int) -> list[npt.NDArray[np.intp]]:
    names = np.asarray(types, dtype=object)
    groups = [np.flatnonzero(names == name) for name in dict.fromkeys(types)]
    small = [g for g in groups if len(g) < pool_below]
    large = [g for g in groups if len(g) >= pool_below]
    return [*large, np.sort(np.concatenate(small))] if small else large


def _top(scores: Floats, share: float) -> npt.NDArray[np.intp]:
    """Positions of the highest floor(share n), ties by position."""
    return np.argsort(-scores, kind="stable")[: int(np.floor(share * len(scores) + 1e-9))]


def _cosine(rows: Floats, direction: Floats) -> Floats:
    scale = np.linalg.norm(rows, axis=1) * np.linalg.norm(direction)
    cosines: Floats = np.divide(rows @ direction, scale, out=np.zeros(len(rows)), where=scale > 0)
    return cosines


Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Denoising:
    """The filter of paper 002, A.4, with its settings.

    Attributes:
        alpha1, alpha2: shares kept by centrality, then by alignment, in (0, 1].
        pool_below: question types with fewer positives are filtered together; 0 pools none.
    """

    alpha1: float = 0.7
    alpha2: float = 0.7
    pool_below: int = 0


@dataclass(frozen=True)
class Audited:
    """An audit of the unlabelled pairs.

    Attributes:
        stays: true for positives that the filter kept (n,).
        path: from those (n_P) to the unlabelled (n_U).
        scores: baselines of each unlabelled pair, see `baselines`.
    """

    stays: Bools
    path: TransportPath
    scores: dict[str, Floats]


def audit(
    embeddings: Floats, positives: Floats, types: Sequence[str], unlabelled: Floats, how: Denoising | None = None
) -> Audited:
    """Audit the unlabelled pairs against the positives.

    Args:
        embeddings: of the positives' preferred responses (n, d).
        positives: difference embeddings of the positives (n, d), unit rows.
        types: question type of each positive (n,).
        unlabelled: difference embeddings in the direction of the judge's verdict (n_U, d), unit rows.
        how: the filter; the paper's 0.7 and 0.7 by default.

    Raises:
        NothingToAuditError: no positive is left, or there is nothing to audit.
    """
    how = how or Denoising()
    if not len(unlabelled):
        raise NothingToAuditError("There is no unlabelled pair with a verdict to audit.")
    if not len(positives):
        raise NothingToAuditError("There is no positive: no pair with a human preference could be embedded.")
    stays = denoise(embeddings, positives, types, alpha1=how.alpha1, alpha2=how.alpha2, pool_below=how.pool_below)
    if not stays.any():
        n, kinds = len(positives), len(set(types))
        raise NothingToAuditError(
            f"Denoising keeps none of {n} positive{'s' * (n != 1)} in {kinds} question type{'s' * (kinds != 1)}, since "
            "it rounds down within each type. Label more pairs, pool small types (pool_below), or raise alpha1 and "
            "alpha2."
        )
    kept = positives[stays]
    return Audited(stays, transport_path(cosine_costs(kept, unlabelled)), baselines(kept, unlabelled))


def resampled_entries(positives: Floats, unlabelled: Floats, times: int, seed: int) -> Floats:
    """Entry mass of each unlabelled pair under bootstraps of the positives (n_U, times), in [0, 1].

    Args:
        positives: unit rows that the filter kept (n_P, d).
        unlabelled: unit rows (n_U, d).
        times: bootstraps, each of n_P draws with replacement.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    costs = cosine_costs(positives, unlabelled)
    drawn = [rng.integers(len(costs), size=len(costs)) for _ in range(times)]
    return np.array([transport_path(costs[rows]).entry_mass for rows in drawn]).reshape(times, -1).T
