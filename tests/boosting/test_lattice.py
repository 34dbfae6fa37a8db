"""Boosting on a lattice: what it reports, when it ends, and what takes its place."""

import autograd.numpy as anp
import numpy as np
import pytest
from scipy.special import gammaln

from skboost.boosting import LatticeBoosting, Settings, SimplexCombination
from skboost.families import as_family
from skboost.fitting import Limits, Options, boost
from skboost.objectives import JointGain
from skboost.proposals import DensityProposer
from skboost.targets import CallableTarget

# Log integral of `log_gamma`.
LOG_EVIDENCE = gammaln(2.0) + gammaln(8.0) - 8.0 * np.log(8.0)


def log_gamma(theta):
    """Logarithms of a gamma variable of shape 2 and one of shape 8, turned."""
    a = theta[:, 0] + 0.6 * theta[:, 1]
    b = theta[:, 1]
    return 2.0 * a - anp.exp(a) + 8.0 * b - 8.0 * anp.exp(b)


def fitted(log_density, dim, most_kl=0.005, **limits):
    target = CallableTarget(log_density, dim)
    target.unit = np.ones(dim)
    parts = as_family("gaussian", dim), JointGain(), np.zeros((1, dim))
    combination = SimplexCombination.of("line-search", "fully-corrective")
    engine = LatticeBoosting(
        DensityProposer(*parts), combination, Settings(n_fresh=512), "auto", most_kl
    )
    return boost(target, Options(engine, Limits(**{"max_iter": 10} | limits)))


def test_all_that_is_reported_comes_from_the_lattice():
    fit = fitted(log_gamma, 2)
    n_evaluated = fit.target.n_evaluations
    report = fit.report
    # Nothing is evaluated for it but a few points that must not have changed.
    assert report.log_evidence == pytest.approx(LOG_EVIDENCE, abs=0.002)
    assert report.elbo + report.remaining_kl == pytest.approx(report.log_evidence)
    assert 0.0 < report.remaining_kl <= 0.005
    low, high = report.remaining_kl_interval
    assert low <= report.remaining_kl <= high < 0.03
    assert fit.converged
    assert "by sums over a lattice" in report.message
    assert n_evaluated < 300
    theta = fit.mixture.sample(100_000, np.random.default_rng(0))
    ratio = fit.mixture.log_density(theta) - log_gamma(theta)
    error = 3.0 * ratio.std() / np.sqrt(len(ratio))
    assert low - error < ratio.mean() + LOG_EVIDENCE < high + error


def test_every_iteration_has_one_component_more_and_leaves_less():
    fit = fitted(log_gamma, 2, most_kl=0.002)
    left = [record["remaining_kl"] for record in fit.history]
    counts = [record["n_components"] for record in fit.history]
    # But for one, perhaps, that would leave more.
    moved = [record["kind"] != "rejected" for record in fit.history]
    assert counts == np.cumsum(moved).tolist()
    assert all(moved[:5])
    assert (np.diff(left)[np.array(moved[1:])] < 0).all()
    gains = [record["gain"] for record in fit.history[1:]]
    np.testing.assert_allclose(gains, -np.diff(left), atol=1e-12)


def test_limits_hold():
    fit = fitted(log_gamma, 2, max_iter=2)
    assert fit.n_iter == 2
    assert not fit.converged
    assert fit.report.remaining_kl > 0.005
    # Without the seconds for a lattice a Gaussian near the mode is judged by draws.
    fit = fitted(log_gamma, 2, max_time=1e-9)
    assert fit.n_iter == 1
    assert fit.target.n_evaluations < 100
    assert fit.report.remaining_kl_interval[1] == np.inf


def test_a_density_with_long_tails_is_boosted_on_surrogates():
    def log_density(theta):
        return -1.2 * anp.log1p(theta[:, 0] ** 2 / 0.01)

    fit = fitted(log_density, 1, max_iter=1)
    assert "lattice" not in fit.report.message
    assert np.isfinite(fit.report.elbo)
