"""Every number of jobs gives the same fit, bit for bit."""

import numpy as np
import pytest

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedGaussianMixture,
    SVIGaussianMixture,
    SVILatentDirichletAllocation,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 12)) + 2.0 * (np.arange(400) % 2)[:, None]
Y = (X[:, 0] + RNG.logistic(size=400) > 1.0).astype(int)
COUNTS = RNG.poisson(1.0, size=(60, 20))
TINY = {"n_draws": 64, "max_iter": 3, "random_state": 0}
FITS = {
    "logistic": lambda n_jobs: BoostedBayesianLogisticRegression(
        prior="laplace", n_restarts=3, n_jobs=n_jobs, **TINY
    ).fit(X, Y),
    "outputs": lambda n_jobs: BoostedBayesianLinearRegression(
        n_jobs=n_jobs, **TINY
    ).fit(X, X[:, :2] + Y[:, None]),
    "boosted mixture": lambda n_jobs: BoostedGaussianMixture(
        2, n_jobs=n_jobs, **TINY | {"n_draws": 8, "max_iter": 2}
    ).fit(X[:40, :2]),
    "svi": lambda n_jobs: SVIGaussianMixture(
        3, n_init=3, max_iter=10, random_state=0, n_jobs=n_jobs
    ).fit(X),
    "topics": lambda n_jobs: SVILatentDirichletAllocation(
        3, max_iter=4, random_state=0, n_jobs=n_jobs
    ).fit(COUNTS),
}


def numbers(model):
    """Fitted arrays and numbers; none of them is a time."""
    return {
        name: np.asarray(value)
        for name, value in vars(model).items()
        if name[-1] == "_" != name[0] and isinstance(value, float | np.ndarray)
    }


@pytest.mark.parametrize("name", FITS)
def test_every_number_of_jobs_gives_the_same_bits(name):
    alone = numbers(FITS[name](1))
    for n_jobs in (None, 2, 3, -1):
        found = numbers(FITS[name](n_jobs))
        assert found.keys() == alone.keys()
        for key, value in alone.items():
            np.testing.assert_array_equal(found[key], value, err_msg=f"{key} {n_jobs}")
