"""The fit of a warp: gradients, structure, and what makes it worth having."""

import json

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.approximation import Estimate, Mixture
from skboost.boosting import Settings
from skboost.families import DiagonalGaussian
from skboost.posterior._importance import BeyondWarp
from skboost.targets import Budget, BudgetSpent, CallableTarget
from skboost.warps import (
    Edges,
    ScoredDraws,
    Warp,
    WarpedELBO,
    WarpReport,
    candidate_axes,
    drivers_first,
    elbo_gain,
    find_edges,
    find_warp,
    not_tried,
    tail_gain,
)
from skboost.warps._fit import _why_not
from skboost.warps._structure import _Contrast, _fourth_derivatives, _third_derivatives


def density(function, dim, rotation=None):
    """A log density, in rotated coordinates where asked."""
    turned = np.eye(dim) if rotation is None else rotation
    return CallableTarget(lambda x: function(anp.dot(x, turned)), dim, vectorized=True)


def standard_normal(dim):
    return density(lambda x: -0.5 * anp.sum(x**2, axis=1), dim)


def funnel(dim=5, rotation=None):
    """First coordinate standard normal, the others with log variance it."""

    def value(x):
        scaled = anp.sum(x[:, 1:] ** 2, axis=1) * anp.exp(-x[:, 0])
        return -0.5 * (x[:, 0] ** 2 + scaled + (dim - 1) * x[:, 0])

    return density(value, dim, rotation)


def bananas(dim=4, rotation=None):
    """Pairs of x ~ N(0, 1) and y ~ N(x^2 - 1, 1 / 4), all x first."""

    def value(x):
        first, second = x[:, : dim // 2], x[:, dim // 2 :]
        return -0.5 * anp.sum(first**2 + 4.0 * (second - first**2 + 1.0) ** 2, axis=1)

    return density(value, dim, rotation)


def log_gammas(dim=5, rotation=None):
    """Independent logarithms of gamma variables of shape 1.5."""
    return density(lambda x: anp.sum(1.5 * x - anp.exp(x), axis=1), dim, rotation)


def rotation(dim, seed=0):
    draws = np.random.default_rng(seed).standard_normal((dim, dim))
    return np.linalg.qr(draws)[0]


def sample(target, mean, factor, n=4096):
    base = DiagonalGaussian().matched_draws(n, target.dim, np.random.default_rng(3))
    _, score = target.value_and_score(mean + base @ factor.T)
    return ScoredDraws(base, score @ factor + base)


def linear(mean, factor):
    one, none = np.ones(len(mean)), np.zeros((len(mean),) * 2)
    return Warp(mean, factor, one, one, none, none)


# --- the problem


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    lower = np.tril(np.ones((4, 4), dtype=bool), -1)
    factor = np.linalg.cholesky(np.eye(4) + 0.3)
    base = rng.standard_normal((64, 4))
    edges = Edges(lower, lower)
    return WarpedELBO(funnel(4), rng.standard_normal(4), factor, base, edges, 2.0)


def test_gradient_is_that_of_the_differences(problem):
    away = np.random.default_rng(1).standard_normal(len(problem.start))
    x, step = problem.start + 0.2 * away, 1e-5
    _, gradient = problem.value_and_gradient(x)
    each = [
        problem.value_and_gradient(x + h)[0] - problem.value_and_gradient(x - h)[0]
        for h in step * np.eye(len(x))
    ]
    assert_allclose(gradient, np.array(each) / (2 * step), rtol=1e-5, atol=1e-6)


def test_value_is_the_elbo_of_the_warp_and_starts_as_that_of_the_gaussian(problem):
    points = problem.mean + problem.base @ problem.factor.T
    first = problem.unpack(problem.start)
    assert_allclose(first.forward(problem.base), points, atol=1e-12, rtol=0)
    away = np.random.default_rng(1).standard_normal(len(problem.start))
    x = problem.start + 0.1 * away
    warp = problem.unpack(x)
    z = problem.base
    log_joint = problem.target.log_density(warp.forward(z))
    elbo = (log_joint + warp.log_jacobian(z)).mean()
    entropy = 0.5 * 4 * (1 + np.log(2 * np.pi))
    # The ridge takes little.
    assert_allclose(problem.value_and_gradient(x)[0], elbo + entropy, atol=5e-3)


def test_a_reflection_is_no_way_to_go(problem):
    x = problem.start
    x[4] = -1.0
    assert problem.value_and_gradient(x)[0] == -np.inf


def test_in_many_dimensions_the_linear_part_is_diagonal():
    dim = 60
    none, base = Edges(*np.zeros((2, dim, dim), dtype=bool)), np.ones((8, dim))
    frame = np.zeros(dim), np.eye(dim), base, none
    assert len(WarpedELBO(standard_normal(dim), *frame, 2.0).start) == 4 * dim


# --- structure


def test_edges_of_a_funnel_and_of_bananas():
    edges = find_edges(sample(funnel(), np.zeros(5), np.eye(5)))
    expected = np.zeros((5, 5), dtype=bool)
    expected[1:, 0] = True
    assert (edges.scales == expected).all() and not edges.curves.any()
    edges = find_edges(sample(bananas(), np.zeros(4), np.diag([0.4, 0.4, 0.5, 0.5])))
    expected = np.zeros((4, 4), dtype=bool)
    expected[[2, 3], [0, 1]] = True
    assert (edges.curves == expected).all() and not edges.scales.any()

    edges = find_edges(sample(standard_normal(6), np.zeros(6), np.eye(6)))
    assert not edges.scales.any() and not edges.curves.any()


def test_drivers_come_first():
    order = [4, 2, 0, 1, 3]
    turned = sample(funnel(5, np.eye(5)[:, order]), np.zeros(5), np.eye(5))
    axes = candidate_axes(turned)["coordinates"]
    assert np.abs(axes[:, 0]).argmax() == 4


def test_rotated_drivers_and_independent_coordinates_are_found():
    turned = rotation(5, 0)
    draws = sample(funnel(5, turned), np.zeros(5), np.eye(5), 16384)
    axes = candidate_axes(draws)
    assert np.abs(axes["curvature"][:, 0] @ turned[:, 0]) > 0.98
    # Near the best Gaussian, which is the same in every direction.
    centre = turned @ np.full(5, 0.1)
    found = candidate_axes(sample(log_gammas(5, turned), centre, 0.85 * np.eye(5)))
    overlap = np.abs(found["contrast"].T @ turned)
    assert (overlap.max(axis=0) > 0.97).all()


def test_fourth_derivatives_order_axes_beside_third_ones():
    w = np.random.default_rng(0).standard_normal((20_000, 2))
    x, y = w.T
    residual = np.column_stack([0.1 * (x**2 - 1), 0.08 * (y**3 - 3 * y)])
    # 0.2 of the first third derivative's square over 6 is less than of the second's
    # fourth, 0.48, over 24.
    assert_allclose(drivers_first(ScoredDraws(w, residual), np.eye(2)), np.eye(2)[::-1])


def test_no_small_turn_of_the_axis_of_greatest_contrast_has_more():
    w = np.random.default_rng(3).standard_normal((4000, 3))
    u = w @ rotation(3, 3)
    residual = u**2 * [0.3, 0.15, 0.06] + u**3 * [0.06, -0.2, 0.12]
    draws = ScoredDraws(
        w, residual @ rotation(3, 3).T + 0.2 * w[:, [1, 0, 1]] * w[:, [2]]
    )
    contrast = _Contrast(_third_derivatives(draws), _fourth_derivatives(draws))
    axis = contrast.best_axes()[:, :1]
    aside = 1e-4 * np.linalg.qr(axis, mode="complete")[0][:, 1:]
    turned = [(axis + s * aside) / np.sqrt(1 + 1e-8) for s in (1, -1)]
    slopes = (contrast(turned[0]) - contrast(turned[1])) / 2e-4
    assert_allclose(slopes, 0.0, atol=1e-6)


def test_axes_are_orthonormal_and_few_where_tensors_would_be_large():
    for dim, names in [(1, 1), (4, 3), (30, 2), (60, 1)]:
        target = standard_normal(dim)
        axes = candidate_axes(sample(target, np.zeros(dim), np.eye(dim), 256))
        assert len(axes) == names
        for found in axes.values():
            assert_allclose(found.T @ found, np.eye(dim), atol=1e-10, rtol=0)


# --- judgement


def test_gain_of_one_gaussian_over_another():
    std, target, rng = 0.7, standard_normal(2), np.random.default_rng(0)
    before, after = linear([0.5, 0.0], std * np.eye(2)), linear([0.0, 0.0], np.eye(2))
    gain = elbo_gain(target, before, after, 4096, rng)
    # KL(N(m, s^2 I) || N(0, I)): half the square of m, and what the scales add.
    kl = 0.125 + std**2 - 1.0 - 2.0 * np.log(std)
    assert abs(gain.value - kl) < 3 * gain.se
    before = linear([0.0, 0.0], 0.5 * np.eye(2))
    gain = tail_gain(target, before, after, 8192, rng)
    # KL(N(0, I) || N(0, I / 4)): per coordinate ln s + 1 / 2 s^2 - 1 / 2, s = 1 / 2.
    assert abs(gain.value - 2 * (np.log(0.5) + 2.0 - 0.5)) < 3 * gain.se


class Identity:
    """A map of one coordinate that has no inverse beyond `end`."""

    dim = 1

    def __init__(self, end):
        self.end = end

    def forward(self, z):
        return z

    def inverse(self, y):
        return np.where(np.abs(y) > self.end, 1e200, y)

    def log_jacobian(self, z):
        return np.zeros(len(z))


def test_mass_that_only_the_new_map_has_lost_counts():
    target, whole, rng = standard_normal(1), Identity(np.inf), np.random.default_rng(0)
    lost = tail_gain(target, whole, Identity(2.0), 1024, rng)
    assert lost.value == -np.inf
    assert "KL(p || q) rises by inf" in _why_not(Estimate(1.0, 0.0), lost, 0.01)


def test_mass_beyond_where_an_inverse_overflows_counts():
    """Through two bends it is no number, and no number is no mass."""
    one, none = np.ones(3), np.zeros((3, 3))
    chain = np.zeros((3, 3))
    chain[1, 0] = chain[2, 1] = 0.5
    far = np.array([1e6, 0.0, 0.0])
    before = Warp(far, np.eye(3), one, one, none, none)
    tails = np.array([0.1, 0.1, 1.0])
    after = Warp(np.zeros(3), np.eye(3), tails, tails, none, chain)
    target = density(lambda y: -0.5 * anp.sum((y - far) ** 2, axis=1), 3)
    lost = tail_gain(target, before, after, 4096, np.random.default_rng(0))
    assert "KL(p || q) rises by inf" in _why_not(Estimate(1.0, 0.0), lost, 0.01)


def test_density_through_a_warp_integrates_to_one():
    bend, scale = [[0.0, 0.0], [0.4, 0.0]], [[0.0, 0.0], [0.5, 0.0]]
    matrix = [[1.0, 0.2], [0.0, 0.7]]
    warp = Warp([0.1, -0.2], matrix, [0.8, 1.3], [1.2, 0.7], scale, bend, 2.0)
    x = np.linspace(-16.0, 16.0, 321)
    y = np.linspace(-14.0, 30.0, 441)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    normal = Mixture.single((DiagonalGaussian(), np.zeros(4)))
    beyond = BeyondWarp(normal, warp)
    density = np.exp(beyond.log_density(grid))
    assert beyond.log_density(np.array([[1e200, -1e200]])) == -np.inf
    cell = (x[1] - x[0]) * (y[1] - y[0])
    assert_allclose(density.sum() * cell, 1.0, atol=2e-3)


# --- the search


def settings(**other):
    return Settings(**{"seed": 0, "tol": 0.01} | other)


@pytest.mark.parametrize(
    "turned", [pytest.param(None, marks=pytest.mark.slow), rotation(4)]
)
def test_bananas_are_images_of_a_gaussian(turned):
    target = bananas(4, turned)
    # Some Gaussian: whatever it lacks the warp has to gain.
    spread = np.diag([0.3, 0.3, 0.4, 0.4])
    if turned is not None:
        spread = turned @ spread @ turned.T
    report = find_warp(target, np.zeros(4), spread, settings())
    assert report.accepted and report.n_curves >= 2
    assert (report.axes == "coordinates") == (turned is None)
    z = np.random.default_rng(9).standard_normal((8000, 4))
    y = report.warp.forward(z)
    log_q = -0.5 * (z**2).sum(axis=1) - 2 * np.log(2 * np.pi)
    log_q -= report.warp.log_jacobian(z)
    log_z = 2 * np.log(2 * np.pi) + 2 * np.log(0.5)
    each = target.log_density(y) - log_z - log_q
    divergence, error = -each.mean(), each.std() / np.sqrt(len(z))
    # The family holds the posterior; the fit stops within tol of it.
    assert -3 * error < divergence < 0.01 + 3 * error


def test_widths_of_a_funnel_follow_its_first_coordinate():
    spread = np.diag([1.0, np.exp(-0.5), np.exp(-0.5)])
    report = find_warp(funnel(3), np.zeros(3), spread, settings())
    assert report.accepted and report.axes == "coordinates"
    assert (report.n_scales, report.n_curves) == (2, 0)
    # Standard deviations are exp(x / 2), x the first coordinate.
    assert_allclose(report.warp.scales[1:, 0], 0.5, atol=0.02)


def test_tails_that_are_lost_are_seen():
    clear = Estimate(1.0, 0.01)
    lost = _why_not(clear, Estimate(-0.5, 0.1), 0.01)
    assert "KL(p || q) rises by 0.5 nats" in lost
    assert not _why_not(clear, Estimate(-0.1, 0.1), 0.01)
    assert "fresh draws" in _why_not(Estimate(0.02, 0.01), Estimate(0, 0), 0.01)
    assert "not finite" in _why_not(Estimate(np.nan, 0.1), Estimate(0, 0), 0.01)
    assert "not finite" in _why_not(Estimate(1.0, np.inf), Estimate(0, 0), 0.01)


HALF = CallableTarget(
    lambda x: np.where(x[:, 0] > 0, -0.5 * (x**2).sum(axis=1), -np.inf), 2, np.negative
)
STEEP = CallableTarget(
    lambda x: -0.5 * (x**2).sum(axis=1), 2, lambda x: 1e150 * x, vectorized=True
)


@pytest.mark.parametrize(
    ("target", "covariance", "reason"),
    [
        (HALF, np.eye(2), "zero, or too steep, at draws of the first component"),
        (STEEP, np.eye(2), "too steep"),
        (standard_normal(2), np.ones((2, 2)), "no Cholesky factor"),
        (standard_normal(2), np.eye(2), "Declined: it gains"),
    ],
    ids=["zero somewhere", "scores without squares", "singular", "a Gaussian"],
)
def test_where_nothing_is_fitted_or_gained(target, covariance, reason):
    report = find_warp(target, np.zeros(2), covariance, settings())
    assert not report.accepted and report.warp is None and reason in report.reason
    assert not abs(report.gain) > 1e-3


def test_a_map_without_an_inverse_is_refused(monkeypatch):
    singular = linear(np.zeros(2), np.ones((2, 2)))
    fitted = "skboost.warps._fit._fitted"
    monkeypatch.setattr(fitted, lambda *arguments: ("coordinates", singular))
    report = find_warp(standard_normal(2), np.zeros(2), np.eye(2), settings())
    assert "without an inverse" in report.reason and report.warp is None


def test_no_evaluation_after_the_budget():
    target = bananas(4)
    budget = Budget(max_evaluations=3000, ledger=target.ledger)
    with target.ledger.within(budget), pytest.raises(BudgetSpent):
        find_warp(target, np.zeros(4), 0.3 * np.eye(4), settings())
    assert target.n_evaluations < 3000 + 2 * 4096


def test_reports_are_kept_as_json():
    report = find_warp(bananas(2), np.zeros(2), 0.3 * np.eye(2), settings())
    for one in (report, report.declined("no reason"), not_tried("none")):
        again = WarpReport.from_record(json.loads(json.dumps(one.record())))
        assert again.record() == one.record() or not np.isfinite(one.gain)
        assert again.warp == one.warp
    untried = not_tried("none")
    assert (untried.n_scales, untried.n_curves, untried.axes) == (0, 0, "")
    assert report.declined("it is late").reason == "Declined: it is late."
    assert WarpReport.from_record(None) is None
