"""Runs that begin as the papers do: one component, and no search for modes."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from skboost import BoostedGaussianMixture, boost_posterior

from .conftest import normal_mixture

# Two bumps so far apart that none is seen from the other.
FAR, SLOPE = normal_mixture([-12.0, 12.0], [1.0, 1.0], [0.5, 0.5])
PLAIN = {"x0": [-12.0], "gradient": SLOPE, "orbit": None, "random_state": 0}


def test_a_run_goes_on_from_a_result_between_modes():
    settings = PLAIN | {"x0": [[-12.0], [12.0]]}
    once = boost_posterior(FAR, 1, **settings)
    first = boost_posterior(FAR, 1, **settings, max_iter=1)
    assert first.posterior.n_components == first.n_iter == 1
    assert not first.converged and "lacks" in first.message
    both = boost_posterior(FAR, 1, **settings, start=first)
    assert both.n_iter == once.n_iter >= 2
    assert np.array_equal(both.posterior.weights, once.posterior.weights)
    assert both.elbo == once.elbo


@pytest.mark.parametrize("objective", ["kl", "hellinger", "relbo"])
def test_others_are_found_by_the_search_of_the_objective(objective):
    near, slope = normal_mixture([-2.0, 2.0], [0.7, 1.0], [0.4, 0.6])
    settings = PLAIN | {"x0": [0.0], "gradient": slope, "max_iter": 4}
    settings["objective"] = objective
    single = boost_posterior(near, 1, init="single", **settings)
    counts = [stage.n_components for stage in single.stages]
    assert counts[0] == 1 and len(counts) > 1
    grid = np.linspace(-8, 8, 2001)
    q = np.exp(single.posterior.log_density(grid[:, None]))
    p = 0.4 * norm.pdf(grid, -2, 0.7) + 0.6 * norm.pdf(grid, 2, 1)
    terms = q * np.log(np.maximum(q, 1e-300) / p)
    assert np.trapezoid(terms, grid) < 1.0


def test_a_mixture_begins_with_its_most_probable_explanation():
    X = scale(load_iris().data)[::5]
    settings = {"n_components": 3, "covariance_type": "diag", "random_state": 0}
    every = BoostedGaussianMixture(**settings).fit(X)
    single = BoostedGaussianMixture(**settings, init="single", max_iter=1).fit(X)
    assert every.posterior_.n_components > 1
    assert single.posterior_.n_components == 1
    heaviest = every.posterior_.components[int(every.posterior_.weights.argmax())]
    assert str(single.posterior_.components[0]) == str(heaviest)
    more = BoostedGaussianMixture(**settings, init="single", max_iter=2).fit(X)
    assert [h["kind"] for h in more.history_][0] == "first"
    assert more.n_iter_ == 2


@pytest.mark.parametrize("x0", [[[0.0], [1.0]], (-3.0, 3.0)])
def test_several_starts_contradict_it(x0):
    with pytest.raises(ValueError, match="init='single'.*x0.*got"):
        boost_posterior(FAR, 1, x0=x0, init="single")
