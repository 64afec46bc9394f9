"""Vectors on a plane: principal components, and UMAP for neighbourhoods. Neither needs torch."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.core.errors import UMAP, InputError, require_local

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Projection:
    """Points in the space of the first principal components.

    Attributes:
        points: coordinates of each row (n, k), centred.
        explained: share of the total variance each component holds (k,), descending, in [0, 1]; NaN where the
            rows do not vary at all.
        components: unit direction of each component in the original space (k, d).
    """

    points: Floats
    explained: Floats
    components: Floats


def pca(x: npt.ArrayLike, k: int = 2) -> Projection:
    """The first k principal components, by a singular value decomposition of the centred rows.

    Signs are fixed so that the largest entry of each component is positive; two machines then draw one picture.

    Args:
        x: rows (n, d), finite.
        k: components wanted; where n - 1 or d are fewer, the missing coordinates are zero.

    Raises:
        InputError: no rows, not a matrix, k below 1, or a value that is not finite.
    """
    rows = _checked(x)
    if k < 1:
        raise InputError(f"{k} components were asked for; at least 1 is needed.")
    centred = rows - rows.mean(axis=0)
    _, singular, directions = np.linalg.svd(centred, full_matrices=False)
    have = min(k, len(singular))
    turn = np.sign(directions[np.arange(have), np.abs(directions[:have]).argmax(axis=1)])
    components = np.zeros((k, rows.shape[1]))
    components[:have] = directions[:have] * np.where(turn == 0, 1.0, turn)[:, None]
    total = float((singular**2).sum())
    explained = np.zeros(k)
    explained[:have] = singular[:have] ** 2 / total if total > 0 else np.nan
    return Projection(centred @ components.T, explained, components)


def umap_map(x: npt.ArrayLike, *, seed: int, neighbours: int = 15) -> Floats:
    """A UMAP embedding in the plane (McInnes, Healy and Melville 2018), the same for the same seed.

    Distances between far groups mean nothing in it; neighbourhoods do. The first call on a machine compiles for half
    a minute, later ones load what was compiled.

    Args:
        x: rows (n, d), finite.
        seed: decides the layout; with a seed UMAP runs on one thread.
        neighbours: size of a neighbourhood; at most n - 1 is used.

    Returns:
        Coordinates (n, 2); for fewer than four rows those of `pca`, since UMAP has no neighbourhoods then.

    Raises:
        InputError: as `pca`, or fewer than two neighbours.
        LocalError: umap-learn is not installed.
    """
    rows = _checked(x)
    if neighbours < 2:
        raise InputError(f"UMAP needs neighbours >= 2; got {neighbours}.")
    if len(rows) < 4:
        return pca(rows).points
    require_local("A map by UMAP", UMAP)
    umap = _umap()
    few = min(neighbours, len(rows) - 1)
    # the spectral start needs more rows than it finds eigenvectors, and fails on rows that are all alike
    start = "spectral" if len(rows) > 10 and float(np.ptp(rows, axis=0).max()) > 0 else "random"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_jobs value", category=UserWarning)  # what a seed implies
        mapper = umap.UMAP(n_neighbors=few, random_state=seed, init=start)
        return np.asarray(mapper.fit_transform(rows), dtype=np.float64)


@lru_cache(maxsize=1)
def _umap() -> Any:
    """The library, with what it compiles kept on disk: it keeps none of it itself, so each process would wait anew."""
    import umap  # seconds, which a reader of PCA should not wait for
    from umap import distances, layouts, umap_, utils

    slow = (
        umap_.smooth_knn_dist,
        umap_.compute_membership_strengths,
        utils.fast_knn_indices,
        layouts._nb_optimize_layout_euclidean_single_epoch,
        distances.euclidean,
    )
    with contextlib.suppress(AttributeError, RuntimeError):  # another release, or no folder to write to
        for function in slow:
            function.enable_caching()
    return umap


def _checked(x: npt.ArrayLike) -> Floats:
    rows = np.asarray(x, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise InputError(f"A projection needs rows of numbers; got an array of shape {rows.shape}.")
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InputError(f"Row {bad + 1} of {len(rows)} holds NaN or infinity and cannot be projected. Leave it out.")
    return rows
