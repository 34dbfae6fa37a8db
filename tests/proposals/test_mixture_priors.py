"""Priors as mixtures of normal ones: their densities, and posteriors by quadrature."""

import numpy as np
import pytest
from scipy.special import log_expit
from scipy.stats import laplace, norm, t

from skboost.proposals._scale_nodes import scale_nodes
from skboost.proposals._signed_rows import MixedRows, SignedRows
from skboost.targets import horseshoe_mixture, laplace_mixture, student_t_mixture

PRIORS = {
    "laplace": (laplace_mixture(), laplace),
    "cauchy": (student_t_mixture(1.0), t(1)),
    "t4": (student_t_mixture(4.0), t(4)),
    "t40": (student_t_mixture(40.0), t(40)),
}
NODES, SHARES = np.polynomial.legendre.leggauss(200)
each = pytest.mark.parametrize(("mixture", "exact"), PRIORS.values(), ids=PRIORS)


def density(mixture, x):
    parts = norm(scale=np.exp(0.5 * mixture.log_variances)).pdf(x[:, None])
    return parts @ np.exp(mixture.log_weights)


@each
def test_mixtures_are_their_distributions(mixture, exact):
    x = np.array([0.01, 0.3, 1.0, 3.0, 6.0])
    assert density(mixture, x) == pytest.approx(exact.pdf(x), rel=1e-5)


@pytest.mark.parametrize(
    ("mixture", "exact", "mean"),
    [
        (*pair, m)
        for pair, m in zip(PRIORS.values(), (0.2, -2.5, 0.2, -2.5), strict=True)
    ],
    ids=PRIORS,
)
def test_expectations_are_those_of_quadrature(mixture, exact, mean):
    def log_z(mean, variance=0.7):
        # Gauss and Legendre's rule on both sides of the kink.
        half = 0.5 * (8.0 + mean * np.array([[-1.0], [1.0]]))
        x = half * (1.0 + NODES) * [[-1.0], [1.0]]
        ratio = norm.pdf(x, mean, np.sqrt(variance)) / norm.pdf(x / mixture.width)
        return np.log(np.sum(half * SHARES * exact.pdf(x) * ratio) * mixture.width)

    point, step = (np.array([[mean]]), np.array([[0.7]])), 1e-3
    value, slope, bend = (part.item() for part in mixture.log_evidence(*point))
    low, middle, high = (log_z(mean + k * step) for k in (-1, 0, 1))
    assert value == pytest.approx(middle, abs=1e-5)
    assert slope == pytest.approx((high - low) / (2 * step), abs=1e-4)
    assert bend == pytest.approx(max(2 * middle - low - high, 0.0) / step**2, abs=1e-2)
    bound, slope, _ = (part.item() for part in mixture.expected_log(*point))
    assert bound < middle
    higher, *_ = mixture.expected_log(point[0] + step, point[1])
    assert slope == pytest.approx((higher.item() - bound) / step, abs=1e-2)


RNG = np.random.default_rng(0)
X = RNG.standard_normal((25, 2))
SIGNS = np.where(X[:, 0] + RNG.logistic(size=25) > 0, 1.0, -1.0)
ROWS = X * SIGNS[:, None]


def by_quadrature(exact, s):
    """Log evidence, means and deviations of two coefficients."""
    axis = np.linspace(-15.0, 15.0, 301)
    theta = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    log_joint = log_expit(ROWS @ theta.T).sum(axis=0)
    log_joint += (exact.logpdf(theta / s) - np.log(s)).sum(axis=1)
    mass = np.exp(log_joint - log_joint.max()) * 0.1**2
    log_z, mass = np.log(mass.sum()) + log_joint.max(), mass / mass.sum()
    mean = mass @ theta
    return log_z, mean, np.sqrt(mass @ (theta - mean) ** 2)


@each
def test_posteriors_have_their_moments_and_evidence(mixture, exact):
    rows = MixedRows(ROWS, np.ones(25), mixture)
    found = rows.gaussians(np.array([[0.5], [2.0]]) ** 2 * np.ones(2))
    for k, s in enumerate((0.5, 2.0)):
        log_z, mean, std = by_quadrature(exact, s)
        assert found.log_evidence[k] == pytest.approx(log_z, abs=0.03)
        assert found.means[k] == pytest.approx(mean, abs=0.1 * std.min())
        assert np.sqrt(np.diag(found.covariances[k])) == pytest.approx(std, rel=0.1)


def test_fewer_rows_than_columns_have_the_same_posterior():
    rng = np.random.default_rng(1)
    wide, s = rng.standard_normal((7, 9)), np.array([[0.3], [2.0]]) * np.ones(9)
    dual = MixedRows(wide, np.ones(7), horseshoe_mixture()).predictors(s**2)
    # Rows of zeros say nothing, and with ten of them the other form is taken.
    padded = np.vstack([wide, np.zeros((10, 9))])
    primal = MixedRows(padded, np.ones(17), horseshoe_mixture()).predictors(s**2)
    assert type(dual) is not type(primal)
    sites = rng.uniform(0.1, 2.0, (2, 16)), rng.standard_normal((2, 16))
    more = [np.insert(part, [7] * 10, 0.0, axis=1) for part in sites]
    for given, others in zip(dual.moments(*sites), primal.moments(*more), strict=True):
        others = np.delete(others, range(7, 17), axis=1) if others.ndim > 1 else others
        assert given == pytest.approx(others, rel=1e-6, abs=1e-8)
    means, covariances = dual.posterior(*sites)
    expected = primal.posterior(*more)
    assert means == pytest.approx(expected[0], rel=1e-6, abs=1e-8)
    assert covariances == pytest.approx(expected[1], rel=1e-6, abs=1e-8)
    marginal = dual.marginals(*sites)
    assert marginal[0] == pytest.approx(means)
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    assert marginal[1] == pytest.approx(variances, rel=1e-6)


def test_the_horseshoe_leaves_alone_what_is_large():
    rng = np.random.default_rng(3)
    columns = rng.standard_normal((60, 100))
    signs = np.where(3.0 * columns[:, 0] > rng.logistic(size=60), 1.0, -1.0)
    rows = columns * signs[:, None]
    sparse, normal = (
        kind.gaussians(np.full((1, 100), scale**2)).means[0]
        for kind, scale in (
            (MixedRows(rows, np.ones(60), horseshoe_mixture()), 0.02),
            (SignedRows(rows, np.ones(60)), 0.2),
        )
    )
    # 3.5 for .5, and .008 for .05.
    assert abs(sparse[0]) > 2.0 * abs(normal[0])
    assert np.median(abs(sparse[1:])) < 0.5 * np.median(abs(normal[1:]))


def test_a_weight_is_repetition():
    mixture, variances = laplace_mixture(), np.ones((1, 2))
    weighted = MixedRows(ROWS, np.full(25, 2.0), mixture).gaussians(variances)
    twice = MixedRows(np.tile(ROWS, (2, 1)), np.ones(50), mixture).gaussians(variances)
    assert weighted.log_evidence == pytest.approx(twice.log_evidence, abs=1e-2)
    assert weighted.means == pytest.approx(twice.means, abs=1e-2)


def test_scales_are_weighted_by_evidence_where_sweeps_do_not_settle_by_a_bound():
    # Coefficients of one column twice have two modes under heavy tails.
    rows = MixedRows(ROWS[:, [0, 0]], np.ones(25), student_t_mixture(1.0))
    nodes = scale_nodes(
        rows,
        lambda log_s: np.exp(2 * log_s)[:, None] * np.ones(2),
        lambda log_s: -0.5 * log_s**2,
        0.0,
    )
    assert nodes.weights.sum() == pytest.approx(1.0)
    assert np.isfinite(nodes.gaussians.means).all()
    assert np.isfinite(nodes.log_evidence)


def test_the_evidence_is_averaged_over_the_scale():
    rows = SignedRows(ROWS[:, :1], np.ones(25))
    nodes = scale_nodes(
        rows, lambda log_s: np.exp(2 * log_s)[:, None], norm.logpdf, 0.0
    )
    log_s, z = np.linspace(-6, 6, 121), np.linspace(-7, 7, 141)
    theta = np.exp(log_s)[:, None] * z
    likelihood = np.exp(log_expit(ROWS[:, 0] * theta[..., None]).sum(axis=-1))
    expected = norm.pdf(log_s) @ (likelihood @ norm.pdf(z)) * 0.1**2
    assert nodes.log_evidence == pytest.approx(np.log(expected), abs=0.01)
