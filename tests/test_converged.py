"""A fit says that it has converged only where little remains, edges and x0 included."""

import autograd.numpy as anp
import numpy as np
import pytest

from skboost import boost_posterior
from skboost.strategies import GreedySearch

from .cases import EVERY, each


def exponentials(theta):
    return np.where((theta > 0.0).all(axis=1), -theta.sum(axis=1), -np.inf)


def cube(theta):
    return np.where((np.abs(theta) < 1.0).all(axis=1), 0.0, -np.inf)


SLOPES = {exponentials: lambda t: 0.0 * t - 1.0, cube: np.zeros_like}


QUICK = {"max_iter": 2, "search": GreedySearch(64), "orbit": None, "random_state": 0}


@pytest.mark.parametrize(
    ("density", "surrogate"), [(exponentials, "auto"), (cube, None)]
)
def test_a_hard_edge_is_named_and_has_not_converged(density, surrogate):
    dim, start = 2, np.full(2, 0.5)
    # A large tolerance ends the run by the stopping rule.
    settings = QUICK | {"surrogate": surrogate, "tol": 0.2}
    settings["gradient"] = SLOPES[density]
    result = boost_posterior(density, dim, x0=start, **settings)
    assert not (result.converged and result.remaining_kl > 0.2)
    assert "constraints=" in result.message
    if not result.converged:
        assert "Converged" not in result.message


def test_an_edge_far_from_the_mass_is_not_named():
    def density(theta):
        inside = anp.all(anp.abs(theta) < 8.0, axis=1)
        return anp.where(inside, -0.5 * anp.sum(theta**2, axis=1), -anp.inf)

    result = boost_posterior(density, 2, **QUICK)
    assert result.converged and "constraints=" not in result.message


@each(EVERY, slow={*EVERY} - {"two classes", "mixture", "groups, classes", "poisson"})
def test_no_estimator_has_converged_where_much_remains(name):
    # Every other one at a tolerance that ends a run at once.
    tol = (0.2, 1e3)[[*EVERY].index(name) % 2]
    model = EVERY[name].fit(tol=tol)
    much = model.remaining_kl_ > min(10.0 * tol, max(0.5, tol))
    assert not (model.converged_ and much)
    if model.remaining_kl_ > 0.5 or not model.converged_:
        assert "Converged" not in model.message_
    assert "about -" not in model.message_


@pytest.mark.parametrize(
    ("dim", "narrow", "shift", "seed"),
    [
        (2, 1e-3, 0.5, 0),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((3, 1e-2, 0.0, 0), (2, 1e-3, 0.0, 1), (3, 1e-2, 0.5, 1))
        ),
    ],
)
def test_a_start_is_a_candidate_however_narrow_its_mode(dim, narrow, shift, seed):
    def density(theta):
        near = -0.5 * anp.sum(theta**2, axis=1) / narrow**2 - dim * np.log(narrow)
        return anp.logaddexp(near, -0.5 * anp.sum((theta - 6.0) ** 2, axis=1))

    def gradient(theta):
        near = -0.5 * np.sum(theta**2, axis=1) / narrow**2 - dim * np.log(narrow)
        share = np.exp(near - density(theta))[:, None]
        return -share * theta / narrow**2 - (1.0 - share) * (theta - 6.0)

    settings = {"gradient": gradient, "random_state": seed}
    result = boost_posterior(density, dim, x0=np.full(dim, shift * narrow), **settings)
    draws = result.posterior.sample(4000, random_state=0)
    share = np.mean(np.abs(draws).max(axis=1) < 6.0 * narrow)
    assert share == pytest.approx(0.5, abs=0.05)
    assert min(np.abs(mode.location).max() for mode in result.modes_found) < narrow


@pytest.mark.parametrize(
    ("start", "scored"),
    [((-2.0, 4.0), True), ((1.0, 1.0), False), ((-4.0, 16.0), True)],
)
@pytest.mark.parametrize(
    "width", [0.01, *(pytest.param(w, marks=pytest.mark.slow) for w in (0.1, 0.003))]
)
def test_a_surrogate_does_not_leave_a_bent_ridge(width, start, scored):
    scored = scored if width == 0.01 else not scored
    np_ = anp if scored else np

    def density(theta):
        theta = theta if scored else np.asarray(theta, dtype=float)
        off = (theta[:, 1] - theta[:, 0] ** 2) / width
        return np_.asarray(-(theta[:, 0] ** 2) / 8.0 - 0.5 * off**2)

    start = np.array(start)
    settings = {"surrogate": "auto", "max_iter": 1, "random_state": 0}
    result = boost_posterior(density, 2, x0=start, **settings)
    best = result.posterior.mean()
    assert density(best[None])[0] > density(start[None])[0] - 1.0
    # The width of the ridge, and a length of which both coordinates are of one size.
    assert result.elbo > np.log(width) - 6.0
