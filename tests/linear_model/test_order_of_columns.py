"""Answers do not depend on the order of columns, nor on labels of groups."""

import numpy as np
import pytest

from skboost import (
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalOrdinalRegression,
)
from skboost._random import generator, quasi_normal

KINDS = {
    BoostedHierarchicalLogisticRegression: [0.0],
    BoostedHierarchicalOrdinalRegression: [-1.0, 0.5],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_columns_and_labels_of_groups_may_change_places(kind, seed):
    rng = np.random.default_rng(seed)
    groups, X = rng.integers(8, size=80), rng.standard_normal((80, 3))
    eta = X @ [1.0, -0.5, 0.3] + rng.standard_normal(8)[groups]
    y = np.digitize(eta + rng.logistic(size=80), KINDS[kind])

    def answer(X, groups):
        table = np.column_stack([X, groups])
        return kind(groups=[3], random_state=0).fit(table, y).predict_proba(table)

    said = answer(X, groups)
    turned, renamed = answer(X[:, ::-1], groups), answer(X, 7 - groups)
    # Resampled draws differ: by .012 and .004 at most where they are random.
    assert np.abs(said - renamed).max() < 2e-3
    assert np.abs(said - turned).max() < 4e-3
    assert np.abs(said - turned).mean() < 1e-3


def test_quasi_random_draws_are_standard_normal():
    one, two = quasi_normal([(2, 512, 3), (1, 512, 4)], generator(0))
    assert one.shape == (2, 512, 3) and two.shape == (1, 512, 4)
    flat = np.column_stack([*np.moveaxis(one, 1, 0).reshape(1, 512, 6), two[0]])
    # Means of random draws would be off by .04.
    assert np.abs(flat.mean(axis=0)).max() < 0.005
    assert np.abs(np.cov(flat.T) - np.eye(10)).max() < 0.05
    wide = quasi_normal([(1, 8, 2000)], generator(0))[0]
    assert wide.shape == (1, 8, 2000) and np.isfinite(wide).all()
