"""UBVI end to end, against quadrature."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import boost_posterior
from skboost.strategies import GreedySearch


def squared_hellinger(log_density, posterior, scale=1.0):
    """By the midpoint rule on a compactified line; `log_density` up to a constant."""
    u = (np.arange(5000) + 0.5) / 5000 - 0.5
    theta = (scale * np.tan(np.pi * u))[:, None]
    log_jacobian = np.log(scale * np.pi / 5000) - 2 * np.log(np.cos(np.pi * u))
    log_p = log_density(theta)
    log_q = posterior.log_density(theta)
    z = np.exp(log_p + log_jacobian).sum()
    return 1.0 - np.exp(0.5 * (log_p + log_q) + log_jacobian).sum() / np.sqrt(z)


ROOTS = {"objective": "hellinger", "tol": 0.0}


def test_two_normals_need_two_components(boosted, densities):
    few = {"search": GreedySearch(512), "max_iter": 2, "random_state": 0}
    result = boosted("figure 1b", **few, **ROOTS)
    assert squared_hellinger(densities["figure 1b"], result.posterior, 10.0) < 1e-4


def bananas(theta):
    x, y = theta[:, ::2], theta[:, 1::2]
    return -0.125 * anp.sum(x**2, axis=1) - 2.0 * anp.sum(
        (y - 0.25 * x**2) ** 2, axis=1
    )


@pytest.mark.slow
def test_a_run_that_is_stuck_has_not_converged():
    """In ten dimensions it said "Converged" at a KL of 134 to 186 nats."""
    result = boost_posterior(
        bananas, 10, objective="hellinger", max_iter=4, random_state=0
    )
    log_z = 5.0 * np.log(2.0 * np.pi)
    theta = result.posterior.sample(20_000, random_state=1)
    kl = log_z - np.mean(bananas(theta) - result.posterior.log_density(theta))
    assert kl < 10.0
    assert not result.converged
    assert "Converged" not in result.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "share_left"),
    [
        ({"max_iter": 6}, 0.14),
        ({"search": GreedySearch(refine=False)}, 0.7),
        ({"search": GreedySearch(refine=False), "corrective": "none"}, 0.7),
        ({"search": GreedySearch(max_components=2)}, 0.7),
    ],
    ids=repr,
)
def test_more_components_come_closer_to_heavy_tails(
    boosted, densities, settings, share_left
):
    settings = {"max_iter": 4, "random_state": 1} | ROOTS | settings
    result = boosted("cauchy", **settings)
    path = [squared_hellinger(densities["cauchy"], stage) for stage in result.stages]
    assert path[-1] < share_left * path[0]
    assert np.all(np.diff(path) < 1e-4)
    most = settings.get("search", GreedySearch()).max_components
    pairs = most or result.n_iter
    assert result.posterior.n_components <= pairs * (pairs + 1) // 2


def test_the_gain_is_the_fall_in_distance(boosted, densities):
    result = boosted("cauchy", max_iter=3, random_state=2, **ROOTS)
    path = [squared_hellinger(densities["cauchy"], stage) for stage in result.stages]
    assert_allclose(path[0], 0.0685, atol=1e-3)
    assert np.all(np.diff(path) < 1e-4)
    for record, before, after in zip(result.history[1:], path, path[1:], strict=False):
        if record["kind"] != "rejected":
            assert abs(record["gain"] - (before - after)) < 5 * record["gain_se"]


def test_it_stops_on_its_own_scale(boosted):
    result = boosted("normal", objective="hellinger", random_state=0)
    assert result.converged
    assert result.n_iter <= 4
    assert abs(result.remaining_kl) < 1e-3
