"""Limits of time end every regression, also within what it begins with."""

import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianOrdinalRegression,
    BoostedBayesianPoissonRegression,
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalOrdinalRegression,
    BoostedHierarchicalPoissonRegression,
)

RNG = np.random.default_rng(0)
G, H = RNG.integers(12, size=300), RNG.integers(15, size=300)
X = np.column_stack([RNG.standard_normal((300, 3)), G, H])
ETA = X[:, 0] + RNG.standard_normal(12)[G] + 0.5 * RNG.standard_normal(15)[H]
RESPONSES = [
    ETA + 0.3 * RNG.standard_normal(300),
    (ETA > 0.0).astype(int),
    np.digitize(ETA, [-1.0, 0.5]),
    RNG.poisson(np.exp(0.5 * ETA)),
]
FLAT = [
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianOrdinalRegression,
    BoostedBayesianPoissonRegression,
]
GROUPED = [
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalOrdinalRegression,
    BoostedHierarchicalPoissonRegression,
]


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize(
    "groups", [None, [3], pytest.param([3, 4], marks=pytest.mark.slow)]
)
def test_a_limit_of_time_ends_a_fit_within_its_first_component(groups, kind):
    model = FLAT[kind]() if groups is None else GROUPED[kind](groups=groups)
    model.set_params(max_time=1e-3, random_state=0)
    y, began = RESPONSES[kind], time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    # What is left takes no search: a judgement, and draws to predict by.
    assert time.process_time() - began < 1.2
    assert np.isfinite(model.predict(X)).all() and np.isfinite(model.elbo_)
