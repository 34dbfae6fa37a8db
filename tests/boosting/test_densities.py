"""Known densities are reached, by the divergence that quadrature finds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import boost_posterior
from skboost.objectives import DegenerateComponentWarning, ResidualGain
from skboost.strategies import GreedySearch

from .conftest import KNOWN


@pytest.mark.parametrize(
    ("name", "n"),
    [pytest.param("two modes", 3, marks=pytest.mark.slow), ("figure 1b", 2)],
)
def test_two_modes_are_found(boosted, reverse_kl, name, n):
    result = boosted(name, search=GreedySearch(512), random_state=0)
    assert result.converged
    assert result.posterior.n_components <= n
    assert reverse_kl(name, result.posterior) < 1e-3
    if name == "figure 1b":
        # Each mode has half of the mass, and draws of one say nothing of the other.
        assert_allclose(result.history[0]["remaining_kl"], np.log(2.0), atol=1e-2)
        assert_allclose(result.history[1]["gamma"], 0.5, atol=1e-2)


@pytest.mark.slow
def test_heavy_tails_are_approached(boosted, reverse_kl, recwarn):
    result = boosted("cauchy", max_iter=8, tol=0.0, random_state=0)
    # One Gaussian leaves 0.26; eight greedy ones of the first prototypes left 0.01.
    assert reverse_kl("cauchy", result.posterior) < 1e-2
    assert not [w for w in recwarn if w.category is DegenerateComponentWarning]


def test_the_kept_iterate_is_named(boosted, reverse_kl):
    # A step of one throws the mixture away for every new component.
    settings = {"step_size": 1.0, "corrective": "none", "tol": 0.0}
    settings["search"] = GreedySearch(128, refine=False)
    result = boosted("two modes", max_iter=4, random_state=0, **settings)
    elbos = [record["elbo"] for record in result.history]
    best = int(np.argmax(elbos)) + 1
    assert best < result.n_iter
    assert f"Kept the mixture of iteration {best}." in result.message
    kl = [reverse_kl("two modes", stage) for stage in result.stages]
    assert kl[-1] == min(kl)


@pytest.mark.parametrize(
    ("step_size", "corrective"), [("line-search", "none"), ("adaptive", "away")]
)
def test_steps_of_length_zero_are_iterations(step_size, corrective):
    # One component is the density: there is nothing to gain, and in five dimensions
    # none that a search proposes gains by the noise of its draws.
    settings = {"search": GreedySearch(64, refine=False), "tol": 0.0, "max_iter": 4}
    settings |= {"step_size": step_size, "corrective": corrective, "random_state": 0}
    result = boost_posterior(
        lambda t: -0.5 * np.sum(t**2, axis=1), 5, gradient=np.negative, **settings
    )
    gammas = [record["gamma"] for record in result.history]
    assert len(gammas) == result.n_iter == 4 and not result.converged
    assert 0.0 in gammas and {*map(type, gammas)} == {float}
    assert result.posterior.n_components == 1


@pytest.mark.slow
@pytest.mark.parametrize("early_stopping", [False, True])
def test_where_the_residual_objective_is_unbounded(
    boosted, reverse_kl, recwarn, early_stopping
):
    # A Gaussian has lighter tails than a Cauchy.
    objective = ResidualGain(early_stopping=early_stopping)
    settings = {"search": GreedySearch(refine=False), "max_iter": 5, "tol": 0.0}
    result = boosted("cauchy", objective=objective, random_state=0, **settings)
    said = [w for w in recwarn if w.category is DegenerateComponentWarning]
    if early_stopping:
        kl = [reverse_kl("cauchy", stage) for stage in result.stages]
        assert not said and kl[-1] < 0.2 * kl[0]
    else:
        assert "lighter tails" in str(said[0].message)
        assert np.isfinite(result.elbo)
        assert np.isfinite(result.posterior.std()).all()


def test_an_unnormalised_density_shifts_the_elbo_alone(boosted):
    def shifted(theta):
        return log_density(theta) + 700.0

    log_density, gradient = KNOWN["two modes"]
    settings = {"max_iter": 2, "search": GreedySearch(64), "random_state": 0}
    one = boosted("two modes", **settings)
    two = boost_posterior(shifted, 1, gradient=gradient, **settings)
    noise = np.hypot(one.elbo_se, two.elbo_se)
    assert abs(two.elbo - 700.0 - one.elbo) < 4 * noise + 1e-9
    assert abs(two.remaining_kl - one.remaining_kl) < 1e-3
