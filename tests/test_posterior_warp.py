"""``warp="auto"``: everything that a posterior can do, behind a warp."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import digamma, gammaln, ndtri, polygamma

from skboost import boost_posterior
from skboost.posterior import MixturePosterior, TransformedPosterior
from skboost.targets import FailedEvaluationWarning

LOG_2PI = np.log(2.0 * np.pi)
TOL = 1e-2
SHAPE = 1.5


def normal(theta):
    return -0.5 * anp.sum(theta**2, axis=-1)


def banana(theta):
    """x ~ N(0, 1), y ~ N(x^2 - 1, 1 / 4)."""
    x, y = theta[..., 0], theta[..., 1]
    return -0.5 * x**2 - 2.0 * (y - x**2 + 1.0) ** 2


def banana_gradient(theta):
    x, y = theta[..., 0], theta[..., 1]
    residual = 4.0 * (y - x**2 + 1.0)
    return np.stack([2.0 * x * residual - x, -residual], axis=-1)


BANANA_LOG_Z = LOG_2PI + np.log(0.5)


def gamma(theta):
    """Independent gamma variables of shape 1.5 and rate 1."""
    return anp.sum((SHAPE - 1.0) * anp.log(theta) - theta, axis=-1)


GRADIENTS = {
    normal: np.negative,
    banana: banana_gradient,
    gamma: lambda theta: (SHAPE - 1.0) / theta - 1.0,
}


def two_modes(theta):
    return anp.logaddexp(normal(theta - 4.0), normal(theta + 4.0))


def boost(log_density, dim, **settings):
    own = {"random_state": 0, "warp": "auto", "gradient": GRADIENTS.get(log_density)}
    return boost_posterior(log_density, dim, **own | settings)


@pytest.fixture(scope="module")
def bent():
    heard = []
    result = boost(banana, 2, names=["x", "y"], callback=heard.append)
    # A callback hears every iteration.
    assert [record["iteration"] for record in heard] == [*range(1, result.n_iter + 1)]
    return result


@pytest.fixture(scope="module")
def positive():
    return boost(gamma, 2, constraints="positive")


def elbo(log_density, posterior, n=20_000):
    theta = posterior.sample(n, random_state=11)
    ratio = log_density(theta) - posterior.log_density(theta)
    return ratio.mean(), ratio.std() / np.sqrt(n)


# --- what it finds


def test_a_banana_is_one_warped_gaussian(bent):
    assert bent.warp.accepted and bent.warp.n_curves == 1
    value, error = elbo(banana, bent.posterior)
    # The family holds the posterior, and the run stops within tol of it.
    assert BANANA_LOG_Z - value < TOL + 3 * error
    assert abs(bent.elbo - value) < 3 * np.hypot(error, bent.elbo_se)
    single = boost(banana, 2, warp=None, orbit=None, max_iter=1)
    gain = bent.elbo - single.elbo
    assert abs(bent.warp.gain - gain) < TOL + 3 * np.hypot(
        bent.warp.gain_se, single.elbo_se
    )


def test_constraints_are_composed_with_a_warp(positive):
    assert positive.warp.accepted
    posterior = positive.posterior
    assert isinstance(posterior, TransformedPosterior)
    value, error = elbo(gamma, posterior)
    assert 2 * gammaln(SHAPE) - value < TOL + 3 * error
    draws = posterior.sample(20_000, random_state=0)
    assert (draws > 0).all()
    logs = np.log(draws)
    assert_allclose(logs.mean(axis=0), digamma(SHAPE), atol=0.03)
    assert_allclose(logs.std(axis=0), np.sqrt(polygamma(1, SHAPE)), rtol=0.03)


def test_a_gaussian_is_left_as_it_is():
    result, plain = boost(normal, 3), boost(normal, 3, warp=None)
    assert not result.warp.accepted and plain.warp is None
    assert type(result.posterior) is MixturePosterior
    theta = result.posterior.sample(50, random_state=0)
    assert_allclose(
        result.posterior.log_density(theta), plain.posterior.log_density(theta), rtol=0
    )
    assert result.elbo == plain.elbo and result.message == plain.message


@pytest.mark.slow
def test_a_declined_warp_wastes_no_iteration():
    def cross(theta):
        wide, narrow = np.array([3.0, 0.4]), np.array([0.4, 3.0])
        return anp.logaddexp(normal(theta / wide), normal(theta / narrow))

    few = {"max_iter": 2, "orbit": None}
    result, plain = boost(cross, 2, **few), boost(cross, 2, warp=None, **few)
    assert "a second component in its place gains" in result.warp.reason
    assert np.isfinite(result.warp.gain) and result.warp.warp is None
    assert result.elbo == plain.elbo
    assert [h["elbo"] for h in result.history] == [h["elbo"] for h in plain.history]


@pytest.mark.parametrize(
    ("log_density", "settings", "reason"),
    [
        (two_modes, {"x0": (-8.0 * np.ones(2), 8.0 * np.ones(2))}, "several modes"),
    ],
)
def test_where_no_warp_is_tried(log_density, settings, reason):
    result = boost(log_density, 2, max_iter=2, **settings)
    assert not result.warp.accepted
    assert result.warp.reason.startswith("Not tried") and reason in result.warp.reason


@pytest.mark.parametrize("family", ["laplace", "gaussian-diag"])
def test_families_without_full_covariances_are_refused(family):
    with pytest.raises(ValueError, match=f"full covariances.*family='{family}'"):
        boost(banana, 2, family=family)


@pytest.mark.slow
def test_the_hellinger_objective_goes_on_behind_a_warp():
    result = boost(banana, 2, objective="hellinger", max_iter=2)
    assert result.warp.accepted
    value, error = elbo(banana, result.posterior)
    assert BANANA_LOG_Z - value < 2 * TOL + 3 * error


# --- the density and its draws


def test_summaries_of_a_banana(bent):
    posterior = bent.posterior
    # y = x^2 - 1 + noise: mean 0, variance 2 + 1 / 4.
    assert_allclose(posterior.mean(), 0.0, atol=0.06)
    assert_allclose(posterior.std(), [1.0, 1.5], rtol=0.05)
    assert abs(posterior.covariance()[0, 1]) < 0.1
    assert_allclose(posterior.interval(0.9)[0], ndtri([0.05, 0.95]), atol=0.04)
    marginal = posterior.marginal("y")
    p = np.array([0.1, 0.5, 0.9])
    assert_allclose(marginal.cdf(marginal.quantile(p)), p, atol=1e-3)
    draws = posterior.sample(40_000, random_state=5)[:, 1]
    assert_allclose(marginal.cdf(np.quantile(draws, p)), p, atol=0.01)
    x = np.linspace(-4.0, 25.0, 2001)
    assert_allclose(marginal.pdf(x).sum() * (x[1] - x[0]), 1.0, atol=5e-3)
    assert len(posterior.summary()) == 2


def test_the_mode_is_that_of_the_density_after_the_warp(bent):
    mode = bent.posterior.modes()[0]
    assert_allclose(mode.location, [0.0, -1.0], atol=0.15)
    steps = 0.05 * np.vstack([np.eye(2), -np.eye(2)])
    around = bent.posterior.log_density(mode.location + steps)
    at = bent.posterior.log_density(mode.location[None])[0]
    assert (around < at).all()
    assert_allclose(mode.log_density, at, atol=1e-8, rtol=0)


@pytest.mark.slow
def test_importance_sampling_and_distances(bent):
    evidence = bent.posterior.evidence(banana, random_state=0)
    assert abs(evidence.log_evidence - BANANA_LOG_Z) < 0.02
    plain = boost(banana, 2, warp=None)
    near = bent.posterior.hellinger(plain.posterior, random_state=0)
    assert near.distance < 0.2
    assert_allclose(
        plain.posterior.hellinger(bent.posterior, random_state=0).squared,
        near.squared,
        atol=5 * near.squared_se,
    )
    assert bent.posterior.hellinger(bent.posterior).distance == 0.0
    with pytest.raises(ValueError, match="same constraints"):
        bent.posterior.hellinger(boost(gamma, 2, constraints="positive").posterior)


# --- kept, loaded, cut


@pytest.mark.slow
def test_stages_and_truncations_are_behind_the_same_warp():
    def chain(theta):
        bent = theta[..., 1:] - 0.5 * (theta[..., :-1] ** 2 - 1.0)
        return normal(theta[..., :1]) + normal(2.0 * bent)

    result = boost(chain, 4, max_iter=3)
    assert result.warp.accepted and result.posterior.n_components > 1
    for stage in (*result.stages, result.posterior.truncate(1)):
        assert stage.constraints == result.posterior.constraints
        assert stage.constraints.warp == result.warp.warp
        theta = stage.sample(200, random_state=0)
        assert np.isfinite(stage.log_density(theta)).all()
    assert len(result.stages) == result.n_iter == len(result.history)
    assert result.stages[0].n_components == 1


# --- limits, failures, errors


@pytest.mark.slow
def test_densities_that_fail_far_out():
    def failing(theta):
        value = banana(theta)
        far = theta[..., 1] > 8.0
        return np.where(far, np.nan, value)

    settings = {"gradient": banana_gradient, "failures": "zero", "max_iter": 2}
    with pytest.warns(FailedEvaluationWarning):
        result = boost(failing, 2, **settings)
    assert result.warp is not None
    assert np.isfinite(result.elbo)
    assert result.posterior.sample(10, random_state=0).shape == (10, 2)


@pytest.mark.parametrize(
    "limits",
    [{"max_evaluations": 2000}, {"max_evaluations": 20_000}, {"max_time": 1e-3}],
)
def test_limits_bind_within_the_search(limits):
    result = boost(banana, 2, **limits)
    ((name, limit),) = limits.items()
    assert result.message.startswith(f"Stopped at {name}")
    assert np.isfinite(result.elbo) and result.n_iter >= 1
    if name == "max_evaluations":
        # One batch of fresh draws at most, and the first mixture.
        assert result.n_evaluations < limit + 2 * 8192
    if not result.warp.accepted:
        assert "half of what max_time and max_evaluations leave" in result.warp.reason
