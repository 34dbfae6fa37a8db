"""Functions of JAX, against quadrature."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from scipy.special import expit, logsumexp
from scipy.stats import binom, norm

from skboost import boost_posterior
from skboost.adapters import from_jax
from skboost.strategies import GreedySearch

from ..conftest import Extra

jax = Extra("jax")

# Deaths of five animals at each of four log doses (Racine et al. 1986).
DOSE, DIED, N = [-0.86, -0.30, -0.05, 0.73], [0, 1, 3, 5], 5


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def bioassay():
    """Logistic regression of deaths on dose; no binomial coefficients."""
    import jax.numpy as jnp

    dose, died = jnp.array(DOSE), jnp.array(DIED)

    @jax.jit
    def log_density(theta):
        logit = theta[0] + theta[1] * dose
        prior = -0.5 * ((theta[0] / 3) ** 2 + (theta[1] / 10) ** 2)
        return jnp.sum(died * logit - N * jnp.logaddexp(0.0, logit)) + prior

    return log_density


@pytest.fixture(scope="module")
def density(double_precision):
    return from_jax(bioassay(), 2)


def on_a_grid():
    """Log evidence, means and standard deviations of the bioassay posterior."""
    a, b = np.meshgrid(np.linspace(-8, 12, 401), np.linspace(-20, 60, 401))
    p = expit(a[..., None] + b[..., None] * np.array(DOSE))
    log_p = (binom.logpmf(DIED, N, p) - np.log([1, 5, 10, 1])).sum(axis=-1)
    log_p += norm.logpdf(a, 0, 3) + np.log(3 * np.sqrt(2 * np.pi))
    log_p += norm.logpdf(b, 0, 10) + np.log(10 * np.sqrt(2 * np.pi))
    log_evidence = logsumexp(log_p) + np.log(20 / 400) + np.log(80 / 400)
    weight = np.exp(log_p - logsumexp(log_p))
    mean = np.array([(weight * t).sum() for t in (a, b)])
    var = [(weight * (t - m) ** 2).sum() for t, m in zip((a, b), mean, strict=True)]
    return log_evidence, mean, np.sqrt(var)


def test_the_posterior_is_that_of_quadrature(density):
    result = boost_posterior(
        **density.arguments(search=GreedySearch(512), random_state=0)
    )
    log_evidence, mean, sd = on_a_grid()
    assert result.elbo < log_evidence + 4 * result.elbo_se
    assert log_evidence - result.elbo < 0.05
    assert_allclose((result.posterior.mean() - mean) / sd, 0.0, atol=0.05)
    assert_allclose(result.posterior.std() / sd, 1.0, atol=0.1)
    drawn = result.posterior.resample(density.log_density, 1000, random_state=0)
    error = 4 * drawn.log_evidence_se
    assert drawn.log_evidence == pytest.approx(log_evidence, abs=error)
    assert_array_equal(density.constrain(drawn.draws), drawn.draws)


def test_constraints_are_on_the_scale_of_the_function():
    """Gamma(3) with rate 2: JAX sees positive numbers only."""
    import jax.numpy as jnp

    def log_density(theta):
        # NaN, and so a failure, below zero.
        return jnp.sum(2 * jnp.log(theta) - 2 * theta)

    density = from_jax(log_density, 1)
    result = boost_posterior(
        **density.arguments(constraints="positive", random_state=0)
    )
    assert result.n_failures == 0
    assert result.elbo == pytest.approx(np.log(2 / 2**3), abs=0.02)
    assert_allclose(result.posterior.mean(), 1.5, rtol=0.03)
    assert_allclose(result.posterior.std(), np.sqrt(3) / 2, rtol=0.05)


@pytest.mark.parametrize("n", [1, 17])
def test_rows_and_points_agree(density, n):
    theta = np.random.default_rng(n).standard_normal((n, 2))
    value, gradient = density.log_density.value_and_gradient(theta)
    assert value.shape == (n,)
    assert gradient.shape == (n, 2)
    assert_allclose(density.log_density(theta), value, rtol=1e-12)
    assert_allclose(density.log_density(theta[0]), value[0], rtol=1e-12)
    assert_array_equal(density.gradient(theta), gradient)
    error = check_grad(
        density.log_density, lambda row: density.gradient(row[None])[0], theta[0]
    )
    assert error < 1e-5 * (1 + np.linalg.norm(gradient[0]))


def test_few_sizes_are_compiled():
    traced = []
    inner = bioassay()

    def log_density(theta):
        traced.append(1)
        return inner(theta)

    density = from_jax(log_density, 2)
    for n in range(1, 65):
        density.log_density(np.zeros((n, 2)))
    # Of 32 and 128 rows.
    assert len(traced) == 2


def test_it_can_be_pickled():
    density = from_jax(_module_level, 2)
    theta = np.random.default_rng(0).standard_normal((20, 2))
    copy = pickle.loads(pickle.dumps(density))
    assert_array_equal(copy.log_density(theta), density.log_density(theta))
    assert copy.gradient.__self__ is copy.log_density


@pytest.mark.slow
def test_workers_give_the_same_bits():
    # More rows than one chunk has.
    settings = {"random_state": 0, "max_iter": 1, "search": GreedySearch(2100)}
    alone, together = (
        boost_posterior(**from_jax(bioassay(), 2).arguments(n_jobs=n, **settings))
        for n in (1, 2)
    )
    assert together.elbo == alone.elbo


def _module_level(theta):
    return -(theta**2).sum()


def test_nan_is_an_error_with_the_point():
    import jax.numpy as jnp

    density = from_jax(lambda theta: jnp.sum(jnp.log(1.0 - theta) - theta**2), 1)
    with pytest.raises(ValueError, match="got nan at theta="):
        boost_posterior(**density.arguments(random_state=0))


def test_single_precision_is_refused():
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(ValueError, match="double precision.*jax_enable_x64"):
        from_jax(lambda theta: 0.0, 1)
    jax.config.update("jax_enable_x64", True)
