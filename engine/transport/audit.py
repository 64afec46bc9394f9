"""One audit: positives denoised, the exact path from them to the unlabelled pairs, and the baselines beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.errors import InputError
from engine.readout.transport import TransportPath
from engine.transport.geometry import baselines, denoise
from engine.transport.path import cosine_costs, transport_path

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
    """What transport says about the unlabelled pairs.

    Attributes:
        stays: which positives the filter kept (n,).
        path: from those (n_P) to the unlabelled (n_U).
        scores: baselines of each unlabelled pair, see `geometry.baselines`.
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
        InputError: no positive is left, or there is nothing to audit.
    """
    how = how or Denoising()
    if not len(unlabelled):
        raise InputError("There is no unlabelled pair with a verdict to audit.")
    if not len(positives):
        raise InputError("There is no positive: no pair with a human preference could be embedded.")
    stays = denoise(embeddings, positives, types, alpha1=how.alpha1, alpha2=how.alpha2, pool_below=how.pool_below)
    if not stays.any():
        n, kinds = len(positives), len(set(types))
        raise InputError(
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
