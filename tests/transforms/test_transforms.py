"""Every transform against its own inverse, and against finite differences."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.stats import dirichlet

from skboost.transforms import (
    TRANSFORMS,
    Correlation,
    Interval,
    LowerBound,
    Ordered,
    Real,
    Scale,
    Simplex,
    UpperBound,
    as_transform,
)

CASES = {name: make() for name, make in TRANSFORMS.items()} | {
    "lower": LowerBound(-3.0),
    "scale": Scale(0.3),
    "upper": UpperBound(2.5),
    "between": Interval(-1.0, 4.0),
    "below zero": Interval(-2.0, 0.0),
}
ELEMENTWISE = [name for name, t in CASES.items() if t.elementwise]
each = pytest.mark.parametrize("transform", CASES.values(), ids=CASES.keys())
each_elementwise = pytest.mark.parametrize(
    "transform", [CASES[name] for name in ELEMENTWISE], ids=ELEMENTWISE
)


def points(low, high, n_columns=6):
    number = st.floats(low, high, allow_nan=False, width=64)
    return arrays(float, (2, n_columns), elements=number)


def jacobian(transform, z, h=1e-5):
    """Of all coordinates but the dropped ones, by central differences, at z (k,)."""
    k = z.size
    around = np.concatenate([z + h * np.eye(k), z - h * np.eye(k)])
    theta = transform.forward(around)[:, :k]
    return ((theta[:k] - theta[k:]) / (2 * h)).T


@each
@settings(max_examples=10, deadline=None)
@given(z=points(-12, 12))
def test_there_and_back(transform, z):
    # Of correlations near one no digits are left.
    z = z / 6 if isinstance(transform, Correlation) else z
    theta = transform.forward(z)
    assert theta.shape == (2, 6 + transform.n_dropped)
    assert transform.contains(theta).all()
    # A step of exp(-12) between ordered numbers has the digits that they leave it.
    ordered = isinstance(transform, Ordered)
    lost = 4e-16 * np.abs(theta).max() * np.exp(12) if ordered else 0.0
    assert_allclose(transform.inverse(theta), z, rtol=1e-9, atol=1e-9 + lost)


@each
@settings(max_examples=10, deadline=None)
@given(z=points(-4, 4))
def test_the_jacobian_is_the_determinant_of_differences(transform, z):
    for row, found in zip(z, transform.log_jacobian(z), strict=True):
        matrix = jacobian(transform, row)
        sign, log_det = np.linalg.slogdet(matrix)
        assert sign > 0
        # Differences are good to about 1e-10 of the largest entry.
        tolerance = 1e-8 * np.abs(matrix).max() * np.abs(np.linalg.inv(matrix)).max()
        assert found == pytest.approx(log_det, rel=1e-7, abs=1e-7 + tolerance)


@each
@settings(max_examples=10, deadline=None)
@given(z=points(-4, 4), seed=st.integers(0, 2**16))
def test_gradients_are_those_of_differences(transform, z, seed):
    slope = np.random.default_rng(seed).standard_normal(6 + transform.n_dropped)

    def f(points):
        theta = transform.forward(points)
        return theta @ slope + np.sin(theta).sum(axis=1)

    h = 1e-5
    theta = transform.forward(z)
    pulled = transform.pull(z, slope + np.cos(theta))
    of_jacobian = transform.log_jacobian_gradient(z)
    size = 1.0 + np.abs(theta).max()
    step = h * np.eye(6)[:, None]
    ahead, behind = ((z + s * step).reshape(-1, 6) for s in (1, -1))
    # Third derivatives grow with theta, rounding with f over h.
    change = (f(ahead) - f(behind)).reshape(6, -1).T / (2 * h)
    assert_allclose(pulled, change, rtol=1e-6, atol=1e-7 * size)
    change = transform.log_jacobian(ahead) - transform.log_jacobian(behind)
    assert_allclose(of_jacobian, change.reshape(6, -1).T / (2 * h), atol=1e-7)


@each
@settings(max_examples=10, deadline=None)
@example(z=np.full((2, 6), -1e6))
@example(z=np.full((2, 6), 1e6))
@given(z=points(-700, 700))
def test_far_out_nothing_overflows_and_no_point_leaves_the_set(transform, z):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        theta = transform.forward(z)
        assert np.isfinite(theta).all()
        assert transform.contains(theta).all()
        assert np.isfinite(transform.log_jacobian(z)).all()
        assert np.isfinite(transform.log_jacobian_gradient(z)).all()
        assert np.isfinite(transform.pull(z, np.ones_like(theta))).all()


@each_elementwise
@settings(max_examples=10, deadline=None)
@given(z=points(-30, 30))
def test_elementwise_transforms_increase_between_their_ends(transform, z):
    z = np.sort(z.ravel())
    theta = transform.forward(z)
    assert (np.diff(theta) >= 0).all()
    assert ((theta > transform.low) & (theta < transform.high)).all()


def test_the_ends_keep_their_digits():
    z = np.array([-50.0, 50.0])
    assert_allclose(Interval().forward(z)[0], np.exp(-50.0))
    # Seen from the upper end of (-2, 0) the distance is 2 exp(-50), not rounding.
    assert_allclose(Interval(-2.0, 0.0).forward(z)[1], -2.0 * np.exp(-50.0))
    assert_allclose(LowerBound(0.0).forward(np.array([-700.0])), np.exp(-700.0))


def test_a_simplex_starts_at_its_centre_and_adds_up():
    transform = Simplex()
    assert_allclose(transform.forward(np.zeros((1, 6))), np.full((1, 7), 1 / 7))
    z = np.random.default_rng(0).normal(0, 5, (50, 200))
    assert_allclose(transform.forward(z).sum(axis=1), 1.0, rtol=1e-13)


def test_the_simplex_jacobian_integrates_dirichlet_densities():
    # Uniform on the simplex of 3: in z the density is its Jacobian times Gamma(3).
    grid = np.linspace(-25, 25, 401)
    z = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    transform = Simplex()
    alpha = np.array([2.0, 3.0, 1.5])
    theta = transform.forward(z)
    inside = theta / theta.sum(axis=1, keepdims=True)
    log_density = dirichlet.logpdf(inside.T, alpha) + transform.log_jacobian(z)
    area = (grid[1] - grid[0]) ** 2
    assert np.exp(log_density).sum() * area == pytest.approx(1.0, abs=1e-8)


def test_the_jacobian_integrates_densities_of_correlations():
    # The volume of correlation matrices of three variables is pi^2 / 2 (Rousseeuw and
    # Molenberghs 1994); LKJ densities have marginals that are beta distributions.
    grid = np.linspace(-5.9, 5.9, 48)
    z = np.stack(np.meshgrid(grid, grid, grid), axis=-1).reshape(-1, 3)
    transform = Correlation()
    a, b, c = theta = transform.forward(z).T
    determinant = 1.0 + 2.0 * a * b * c - a**2 - b**2 - c**2
    volume = np.exp(transform.log_jacobian(z))
    total = volume.sum() * (grid[1] - grid[0]) ** 3
    assert total == pytest.approx(np.pi**2 / 2, rel=1e-4)
    for eta in (1.0, 2.0):
        density, alpha = determinant ** (eta - 1.0) * volume, eta + 0.5
        squares = (theta**2 @ density) / density.sum()
        assert_allclose(squares, 1.0 / (2.0 * alpha + 1.0), rtol=1e-3)


def test_correlations_are_those_of_their_matrix():
    rng = np.random.default_rng(0)
    r = np.corrcoef(rng.standard_normal((5, 20)))
    below = r[np.tril_indices(5, -1)][None]
    transform = Correlation()
    assert transform.contains(below).all()
    assert_allclose(transform.forward(transform.inverse(below)), below, atol=1e-14)
    # The first column are plain correlations.
    assert_allclose(np.tanh(transform.inverse(below))[0, [0, 1, 3, 6]], r[1:, 0])
    assert not transform.contains(np.array([[0.9, 0.9, -0.9], [np.nan, 0, 0]])).any()
    box = rng.uniform(-1, 1, (200, 10))
    moved = transform.from_box(box)
    assert transform.contains(moved).all()
    possible = transform.contains(box)
    assert_allclose(moved[possible], box[possible], rtol=0.02)


def test_ordered_points_never_tie():
    theta = Ordered().forward(np.array([[1e6, -700.0, -700.0, 3.0]]))
    assert (np.diff(theta) > 0).all()


def test_what_lies_outside():
    assert not Simplex().contains(np.array([[0.5, 0.5 + 1e-7], [1.0, 0.0]])).any()
    assert Simplex().contains(np.array([[0.5, 0.5 + 1e-9]])).all()
    assert not Ordered().contains(np.array([[1.0, 1.0], [2.0, 1.0], [0, np.inf]])).any()
    for transform in (CASES[name] for name in ELEMENTWISE):
        # The lower end of a circle is one of its points.
        ends = [transform.high] if transform.period else [transform.low, transform.high]
        outside = np.array([[np.nan], *([end] for end in ends)])
        assert not transform.contains(outside).any()


def test_pairs_make_intervals():
    assert isinstance(as_transform((None, 3)), UpperBound)
    assert isinstance(as_transform((0, 2.5)), Interval)
    assert isinstance(as_transform((-np.inf, np.inf)), Real)
    assert as_transform((0, None)) == as_transform("positive") == LowerBound(0.0)
    assert as_transform((0, 1)) == as_transform("unit_interval") != LowerBound(0.0)


@each
def test_a_record_makes_the_transform_again(transform):
    again = as_transform(transform.record())
    assert again == transform
    assert hash(again) == hash(transform)
    assert repr(transform) == repr(transform.record())
