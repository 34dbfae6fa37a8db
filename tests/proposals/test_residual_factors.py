"""The oracle of Locatello et al. 2018 for factorisations, against their algorithm."""

from types import SimpleNamespace

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose

from skboost import BoostedMatrixFactorization
from skboost._random import BASE, SEARCH, generator, root_seed
from skboost.approximation import Mixture, PooledDraws
from skboost.boosting import Settings
from skboost.conjugate import Entries, FactorTarget, ObservedEntries
from skboost.families import Component
from skboost.objectives import FixedMixture, SearchContext, joint_gains
from skboost.proposals import FACTOR_PROPOSERS, factor_proposer
from skboost.proposals._factors import _sizes
from skboost.strategies import ResidualGain, StochasticSearch

# Fewer steps than by default: components that run away magnify rounding.
RANK, SHAPE, N_DRAWS, N_STEPS = 2, (4, 3), 8, 30
PUBLISHED = ResidualGain(early_stopping=False)


def matrix():
    X = np.random.default_rng(0).normal(size=SHAPE)
    X[0, 2] = X[3, 1] = np.nan
    return X


def fitted(proposal=PUBLISHED, **params):
    """In the model of the paper: noise and priors of variance one."""
    published = {
        "noise_scale": 1.0, "prior_scale": 1.0, "step_size": "predefined",
        "corrective": "none", "tol": 0.0, "n_restarts": 1, "n_draws": N_DRAWS,
        "max_iter": 3, "random_state": 0,
    }  # fmt: skip
    few = StochasticSearch(N_STEPS, n_step_draws=None)
    return BoostedMatrixFactorization(
        RANK, proposal=proposal, search=few, **{**published, **params}
    ).fit(matrix())


@pytest.fixture(scope="module")
def published():
    return fitted()


def plain(mixture):
    """Weights, means and scales."""
    for weight, component in zip(mixture.weights, mixture.components, strict=True):
        mean, log_scale = np.split(component.params, 2)
        yield weight, mean, np.exp(log_scale)


def log_q(mixture, theta):
    """Of diagonal Gaussians, at rows of theta."""
    logs = []
    for w, m, s in mixture:
        parts = ((theta - m) / s) ** 2 + anp.log(2 * anp.pi * s**2)
        logs.append(anp.log(w) - 0.5 * anp.sum(parts, axis=1))
    top = anp.max(anp.array(logs), axis=0)
    return top + anp.log(sum(anp.exp(each - top) for each in logs))


def expected_log_joint(mean, scale):
    """``E_s[ln p]``, entry by entry and factor by factor."""
    X = matrix()
    seen, n = np.isfinite(X), len(X)
    means, scales = (anp.reshape(each, (-1, RANK)) for each in (mean, scale))
    u, v, a, b = means[:n], means[n:], scales[:n] ** 2, scales[n:] ** 2
    squares = (np.where(seen, X, 0.0) - anp.dot(u, v.T)) ** 2
    squares = squares + anp.dot(a, (v**2).T) + anp.dot(u**2, b.T) + anp.dot(a, b.T)
    fit = -0.5 * anp.sum(seen * (squares + anp.log(2 * anp.pi)))
    return fit - 0.5 * anp.sum(mean**2 + scale**2 + anp.log(2 * anp.pi))


def moments(z):
    half = len(z) // 2
    return z[:half], anp.log(1.0 + anp.exp(z[half:])) + 1e-6


def residual_elbo(z, mixture, weight, draws):
    """Equation 9, with one sample of draws."""
    mean, scale = moments(z)
    entropy = anp.sum(anp.log(scale)) + 0.5 * len(mean) * anp.log(2 * anp.pi * anp.e)
    away = anp.mean(log_q(mixture, mean + scale * draws))
    return expected_log_joint(mean, scale) + weight * entropy - away


def test_three_steps_are_those_of_a_literal_implementation(published):
    found = published.posterior_.mixture
    mixture = [(1.0, *next(plain(found))[1:])]
    size = len(mixture[0][1])
    for t in (1, 2):
        rng = generator(root_seed(0), t, SEARCH, 0)
        z = rng.standard_normal(2 * size)
        first = second = np.zeros(len(z))
        slope = grad(residual_elbo)
        for k in range(N_STEPS):
            draws = rng.standard_normal((N_DRAWS, size))
            g = slope(z, mixture, 1.0 / np.sqrt(t + 1.0), draws)
            first = 0.9 * first + 0.1 * g
            second = 0.999 * second + 0.001 * g * g
            up = first / (1 - 0.9 ** (k + 1))
            up = up / (np.sqrt(second / (1 - 0.999 ** (k + 1))) + 1e-8)
            z = z + 0.1 * 0.9 ** (k // 100) * up
        gamma = 2.0 / (t + 2.0)
        mixture = [((1.0 - gamma) * w, m, s) for w, m, s in mixture]
        mixture.append((gamma, *moments(z)))
    for mine, theirs in zip(plain(found), mixture, strict=True):
        for each, expected in zip(mine, theirs, strict=True):
            assert_allclose(each, expected, rtol=1e-6)


def test_the_gradient_is_that_of_the_residual_elbo(published):
    posterior = published.posterior_
    target = FactorTarget(posterior.model, ObservedEntries(Entries.of(matrix())))
    proposer, mixture = factor_proposer("residual"), posterior.mixture
    context = SimpleNamespace(
        target=target, fixed=SimpleNamespace(mixture=mixture), exact=True, iteration=3
    )
    rng = np.random.default_rng(1)
    z, draws = rng.normal(size=2 * target.dim), rng.normal(size=(N_DRAWS, target.dim))

    def problem(z):
        component = Component(proposer.family, proposer._params(_sizes(target), z))
        return PUBLISHED.problem(context, component, 0.5, draws)

    at = problem(z)
    found = proposer._pulled(z, at.value_and_gradient(at.start)[1])
    steps = 1e-5 * np.eye(len(z))
    values = [
        [problem(z + step).value_and_gradient(at.start)[0] for step in (e, -e)]
        for e in steps
    ]
    expected = np.subtract(*np.transpose(values)) / 2e-5
    assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    value = at.value_and_gradient(at.start)[0]
    assert_allclose(value, residual_elbo(z, list(plain(mixture)), 0.5, draws))


def test_the_name_stops_early_and_never_loses(published):
    path = fitted("residual", step_size="line-search").elbo_path_
    assert (np.diff(path) >= 0.0).all()
    # As published the second component of three loses hundreds of nats.
    assert published.elbo_path_[1] < path[0] - 1.0


@pytest.mark.parametrize("weight", [-1.0, np.inf, "decaying"])
def test_another_entropy_weight_is_checked_before_the_fit(weight):
    with pytest.raises(ValueError, match="entropy_weight must be a finite number"):
        fitted(ResidualGain(entropy_weight=weight))


def test_of_several_ends_the_one_that_gains_most_is_proposed():
    model = BoostedMatrixFactorization(RANK, max_iter=1, n_restarts=1, random_state=0)
    posterior = model.fit(matrix()).posterior_
    target = FactorTarget(posterior.model, ObservedEntries(Entries.of(matrix())))
    (best,) = posterior.mixture.components
    poor = best.params.copy()
    poor[: len(poor) // 8] += 10.0
    ends = [poor, best.params, poor]

    class Ended(FACTOR_PROPOSERS["coordinate_ascent"]):
        def next_run(self, target, context, settings, k):
            return ends[k]

    mixture = Mixture.single((target.family, poor))
    base = [target.family.base_draws(1024, target.dim, np.random.default_rng(0))]
    pool = PooledDraws.of(target, mixture, base, True)
    fixed = FixedMixture.of(mixture, pool)
    context = SearchContext(target, mixture, fixed, pool, 1, True)
    settings = Settings(seed=0, n_restarts=3, n_draws=1024)
    proposer = Ended()
    found = proposer.propose(target, context, settings)
    turned = (proposer.aligned(target, one, poor) for one in ends)
    components = [found, *(Component(target.family, one) for one in turned)]
    draws = target.family.base_draws(1024, target.dim, generator(0, 1, BASE))
    gains = joint_gains(context, components, draws, np.array([0.98, 0.5, 0.1, 0.01]))
    own, *others = gains.max(axis=1)
    # Draws are others than those of the proposal.
    assert own > 0.5 * (max(others) + min(others)) > min(others) + 0.3
