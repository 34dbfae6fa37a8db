"""Data of the tests of boosted mixtures."""

import numpy as np
import pytest

from skboost.mixture import BoostedGaussianMixture


def two_groups(n=80, dim=2, apart=4.0, seed=0):
    """Rows in two groups, and the group of each row."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    X = rng.standard_normal((n, dim)) * np.where(labels, 1.0, 0.6)[:, None]
    return X + apart * labels[:, None], labels


def _odd_data():
    """Data that leave clusters empty, columns without spread, or numbers few digits."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    return {
        "duplicates": np.repeat(X[:3], 10, axis=0),
        "one distinct row": np.full((12, 2), 7.0),
        "one row": X[:1],
        "fewer rows than clusters": X[:4],
        "constant column": np.column_stack([X, np.full(30, 7.0)]),
        "collinear": np.column_stack([X, X[:, 0] - X[:, 1]]),
        "far off": X + 1e7,
        "tiny": 1e-9 * X,
        "huge": 1e8 * X,
        "outlier": np.vstack([X, [[1e6, -1e6]]]),
        "integers": rng.integers(0, 3, (30, 2)),
    }


ODD = _odd_data()
each_odd = pytest.mark.parametrize("X", ODD.values(), ids=ODD.keys())


@pytest.fixture(scope="session")
def groups():
    return two_groups()


@pytest.fixture(scope="session")
def chains():
    """Rows of groups that overlap, and a fit by Gibbs chains."""
    X, _ = two_groups(40, apart=2.0)
    gibbs = BoostedGaussianMixture(2, posterior="gibbs", random_state=0)
    return X, gibbs.fit(X)


@pytest.fixture(scope="session")
def model():
    """Estimators for small tests, with any parameter changed."""

    def make(**params):
        settings = {"n_components": 2, "max_iter": 2}
        return BoostedGaussianMixture(**(settings | {"random_state": 0} | params))

    return make


@pytest.fixture(scope="session")
def fitted(groups, model):
    return model(max_iter=3).fit(groups[0])
