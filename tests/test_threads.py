"""Threads, workers that die and densities that hang."""

import os
import threading

import numpy as np
import pytest
from joblib import parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.base import clone

from skboost import (
    BoostedGaussianMixture,
    SVIGaussianMixture,
    SVILatentDirichletAllocation,
    SVIMatrixFactorization,
    boost_posterior,
)
from skboost.strategies import GreedySearch

from .kinds import Linear, Logistic, OnlineLinear, OnlineLogistic
from .test_reproducibility import numbers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) + 3.0 * (np.arange(40) % 2)[:, None]
Y = (X[:, 0] + RNG.logistic(size=40) > 1.0).astype(int)
OTHERS = {"max_iter": 2, "random_state": 0}
TINY = {"search": GreedySearch(32), **OTHERS}
EIGHT = [
    (Logistic(**TINY), Y),
    (Linear(**TINY), X[:, 1] + Y),
    (BoostedGaussianMixture(2, **OTHERS), None),
    (OnlineLogistic(), Y),
    (OnlineLinear(), X[:, 1] + Y),
    (SVIGaussianMixture(2, random_state=0), None),
    (SVILatentDirichletAllocation(2, max_iter=3, random_state=0), None),
    (SVIMatrixFactorization(2, max_iter=3, random_state=0), None),
]


def fit_of(model, y):
    return model.fit(np.abs(np.round(X)) if y is None else X, y)


@pytest.mark.slow
def test_eight_threads_fit_eight_estimators_at_once():
    alone = [numbers(fit_of(clone(model), y)) for model, y in EIGHT]
    found, together = [None] * 8, threading.Barrier(8)

    def work(k):
        model, y = EIGHT[k]
        together.wait()
        found[k] = [numbers(fit_of(clone(model), y)) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for expected, repeats in zip(alone, found, strict=True):
        for repeat in repeats:
            assert repeat.keys() == expected.keys()
            for name, value in expected.items():
                np.testing.assert_array_equal(repeat[name], value, err_msg=name)


@pytest.mark.slow
def test_a_worker_that_dies_is_an_error_and_the_next_fit_works():
    # Defined here: worker processes can not import a test module.
    def density(theta):
        if abs(theta[0]) > 0.5 and os.getpid() != parent:
            os._exit(9)
        return -0.5 * float(theta @ theta)

    def sound(theta):
        return -0.5 * float(theta @ theta)

    parent = os.getpid()
    settings = TINY | {"gradient": lambda t: -t, "vectorized": False}
    with parallel_config(backend="loky", n_jobs=2):
        with pytest.raises(TerminatedWorkerError):
            boost_posterior(density, 2, **settings)
        again = boost_posterior(sound, 2, **settings)
    assert again.elbo == boost_posterior(sound, 2, **settings).elbo


@pytest.mark.parametrize("failures", ["zero", "raise"])
def test_garbage_at_random_is_an_answer_or_an_error(failures):
    """Exceptions, NaN, infinities, strings and wrong shapes, at one point in ten."""
    garbage = [
        lambda: 1.0 / 0.0, lambda: np.nan, lambda: np.inf, lambda: "text",
        lambda: None, lambda: [1.0, 2.0], lambda: 1e308, lambda: object(),
    ]  # fmt: skip
    outcomes = set()
    for seed in range(12):
        rng = np.random.default_rng(seed)

        def density(theta, rng=rng):
            if rng.random() < 0.1:
                return garbage[rng.integers(len(garbage))]()
            return -0.5 * float(theta @ theta)

        try:
            result = boost_posterior(
                density, 2, gradient=lambda t: -t, vectorized=False,
                failures=failures, **TINY | {"max_iter": 1},
            )  # fmt: skip
        except ValueError as error:
            assert "log_density" in str(error) or "x0" in str(error)
            outcomes.add("error")
        else:
            assert np.isfinite(result.posterior.mean()).all()
            outcomes.add("answer")
    assert outcomes
    if failures == "raise":
        assert outcomes == {"error"}
