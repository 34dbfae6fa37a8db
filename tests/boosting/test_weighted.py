"""Boosting of Gaussians fitted to weighted draws: what remains, its end, and limits."""

import autograd.numpy as anp
import numpy as np
import pytest
from scipy.special import gammaln

from skboost.approximation import FreshDraws, RemainingKL
from skboost.boosting import Settings, SimplexCombination, WeightedBoosting
from skboost.boosting._weighted import KnownDraws
from skboost.families import as_family
from skboost.fitting import Limits, Options, boost
from skboost.objectives import JointGain
from skboost.proposals import DensityProposer
from skboost.targets import CallableTarget

SHAPES = np.array([2.0, 8.0, 1.0, 3.0])
# Log integral of `log_gamma`.
LOG_EVIDENCE = gammaln(SHAPES).sum()


def log_gamma(theta):
    """Logarithms of gamma variables: skewed, the third with a long exponential tail."""
    a = theta @ (np.eye(4) + 0.4 * np.tri(4, k=-1))
    return anp.sum(SHAPES * a - anp.exp(a), axis=1)


def engine_of(dim, most_kl=0.01, dear=False):
    parts = as_family("gaussian", dim), JointGain(), np.zeros((1, dim))
    combination = SimplexCombination.of("line-search", "fully-corrective")
    proposer = DensityProposer(*parts)
    settings = Settings(tol=most_kl)
    return WeightedBoosting(proposer, combination, settings, "auto", most_kl, dear)


def fitted(log_density, dim=4, most_kl=0.01, dear=False, **limits):
    target = CallableTarget(log_density, dim)
    target.unit = np.ones(dim)
    engine = engine_of(dim, most_kl, dear)
    return boost(target, Options(engine, Limits(**{"max_iter": 10} | limits)))


def test_what_remains_is_that_of_new_draws():
    fit = fitted(log_gamma)
    mixture, report = fit.corrected.mixture, fit.report
    assert fit.converged
    assert report.log_evidence == pytest.approx(LOG_EVIDENCE, abs=0.02)
    assert 0.0 <= report.remaining_kl <= 0.01
    low, high = report.remaining_kl_interval
    assert low <= report.remaining_kl <= high < 0.1
    theta = mixture.exact.sample(2000, np.random.default_rng(1))
    ratio = mixture.log_density(theta) - log_gamma(theta)
    error = 3.0 * ratio.std() / np.sqrt(len(ratio))
    truth = ratio.mean() + LOG_EVIDENCE
    assert low - error < truth < high + error
    # Of the logarithm of an exponential variable 5 per cent are below -2.97.
    a = theta @ (np.eye(4) + 0.4 * np.tri(4, k=-1))
    below = (a[:, 2] < np.log(-np.log(0.95))).mean()
    assert below == pytest.approx(0.05, abs=3.0 * np.sqrt(0.05 * 0.95 / 2000))


def test_an_iteration_draws_more_and_never_loses():
    fit = fitted(log_gamma, most_kl=1e-4, max_iter=3)
    assert fit.n_iter > 1
    kinds = [record["kind"] for record in fit.history]
    assert set(kinds[1:]) <= {"weighted", "rejected"}
    bounds = [record["elbo"] for record in fit.history]
    assert (np.diff(bounds) >= 0.0).all()


def test_seconds_end_it_after_one_round():
    fit = fitted(log_gamma, max_time=1e-9)
    assert fit.n_iter == 1
    assert fit.target.n_evaluations < fitted(log_gamma, max_iter=1).target.n_evaluations


def test_where_no_draw_has_much_weight_surrogates_take_its_place():
    """A ridge whose curvature changes by a factor of a million along it."""

    def ridge(theta):
        across = theta[:, 1:] - 40.0 * anp.sin(8.0 * theta[:, :1])
        return -0.5 * theta[:, 0] ** 2 - 0.5e4 * anp.sum(across**2, axis=1)

    fit = fitted(ridge, dim=5, max_iter=1)
    assert "weighted draws" not in fit.report.message
    assert not fit.converged


def test_few_evaluations_of_a_dear_density_bound_what_remains():
    fit = fitted(log_gamma, most_kl=0.03, dear=True)
    assert fit.target.n_evaluations < 1500
    mixture, report = fit.corrected.mixture, fit.report
    assert fit.converged
    low, high = report.remaining_kl_interval
    assert low <= report.remaining_kl <= high < 0.2
    theta = mixture.exact.sample(2000, np.random.default_rng(1))
    ratio = mixture.log_density(theta) - log_gamma(theta)
    error = 3.0 * ratio.std() / np.sqrt(len(ratio))
    assert low - error < ratio.mean() + LOG_EVIDENCE < high + error


@pytest.mark.parametrize(("khat", "known_to"), [(0.2, 0.02), (0.9, np.inf)])
def test_weights_with_a_heavy_tail_bound_nothing(khat, known_to):
    plain = fitted(log_gamma, max_iter=1).run.state.fresh
    fresh = FreshDraws(plain.mixture, *[None] * 5)
    remaining = RemainingKL(0.05, 0.01, khat, 0.05)
    assert KnownDraws.of(fresh, remaining).known_to == known_to
