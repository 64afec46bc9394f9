from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from engine.core.errors import InputError
from engine.stats.projection import pca, umap_map


def test_pca_agrees_with_scikit_learn_up_to_sign():
    x = np.random.default_rng(0).normal(size=(60, 7)) @ np.diag([5, 3, 2, 1, 1, 0.5, 0.1])
    ours, theirs = pca(x, 3), PCA(3).fit(x)
    assert ours.explained == pytest.approx(theirs.explained_variance_ratio_, rel=1e-10)
    assert np.abs(ours.components) == pytest.approx(np.abs(theirs.components_), abs=1e-10)
    assert np.abs(ours.points) == pytest.approx(np.abs(theirs.transform(x)), abs=1e-9)


def test_points_are_the_centred_rows_on_the_components():
    x = np.random.default_rng(1).normal(size=(9, 4))
    found = pca(x, 4)
    assert found.points @ found.components == pytest.approx(x - x.mean(axis=0), abs=1e-12)
    assert found.explained.sum() == pytest.approx(1)


def test_sign_does_not_depend_on_the_sign_of_the_decomposition():
    x = np.random.default_rng(2).normal(size=(20, 3))
    assert pca(x).components == pytest.approx(pca(x[::-1]).components, abs=1e-9)


@pytest.mark.parametrize("x", [np.ones((5, 3)), np.ones((1, 3)), np.array([[1.0], [2.0]])])
def test_rows_without_spread_or_with_few_dimensions_keep_their_shape(x):
    found = pca(x, 2)
    assert found.points.shape == (len(x), 2)
    assert np.isfinite(found.points).all()


@pytest.mark.parametrize("x", [np.zeros((0, 3)), np.zeros(4), np.array([[1.0, np.nan]])])
def test_what_cannot_be_projected_is_named(x):
    with pytest.raises(InputError, match=r"projection needs|NaN"):
        pca(x)


@pytest.mark.slow
def test_umap_is_seeded_and_keeps_well_separated_groups_apart():
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(0, 0.1, (20, 5)), rng.normal(8, 0.1, (20, 5))])
    first, again = (umap_map(x, seed=4, neighbours=5) for _ in range(2))
    assert np.array_equal(first, again)
    centres = first[:20].mean(axis=0), first[20:].mean(axis=0)
    own = np.linalg.norm(first[:20] - centres[0], axis=1)
    other = np.linalg.norm(first[:20] - centres[1], axis=1)
    assert (own < other).all()


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3, 5, 11])
def test_umap_takes_few_rows(n):
    x = np.random.default_rng(5).normal(size=(n, 4))
    assert umap_map(x, seed=0).shape == (n, 2)


def test_umap_settings_are_checked():
    with pytest.raises(InputError, match="neighbours"):
        umap_map(np.eye(5), seed=0, neighbours=1)
