"""One-dimensional expectations against dense quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import laplace, norm, t

from skboost.targets import (
    entropy_expectation,
    gaussian_expectation_1d,
    laplace_sigmoid_expectation,
    log_laplace_sigmoid,
    log_sigmoid_expectation,
    log_student_t_sigmoid,
    logistic_gaussian_expectations,
    sigmoid_expectation,
    sigmoid_over_scales,
    student_t_radii,
)

from .conftest import dense_rule


def softplus(t):
    return np.maximum(t, 0.0) + np.log1p(np.exp(-abs(t)))


def sigmoid(t):
    return 0.5 * (1.0 + np.tanh(0.5 * t))


def slope(t):
    decay = np.exp(-abs(t))
    return decay / (1.0 + decay) ** 2


def entropy(t):
    decay = np.exp(-abs(t))
    return np.log1p(decay) + abs(t) * decay / (1.0 + decay)


FUNCTIONS = [softplus, sigmoid, slope, entropy]


def by_quadrature(functions, mean, sd):
    """E f(mean + sd z) of each function, between points where they bend."""
    if sd == 0.0:
        return [func(mean) for func in functions]
    bends = (np.array([-40.0, -10.0, -3.0, 0.0, 3.0, 10.0, 40.0]) - mean) / sd
    edges = np.concatenate([[-13.0, -4.0, 0.0, 4.0, 13.0], bends])
    z, weight = dense_rule(edges[np.abs(edges) <= 13.0], 2)
    return [weight * norm.pdf(z) @ func(mean + sd * z) for func in functions]


def ours(mean, sd):
    values = logistic_gaussian_expectations(mean, sd)
    return [*values, entropy_expectation(mean, sd)]


# Both sides of every edge between rules, and the middle of the bins.
SDS = [
    *(0.0, 1e-7, 1e-3, 0.0029, 0.0199, 0.0699, 0.0999, 0.1499, 0.2499, 0.3499),
    *(0.4999, 0.6999, 0.8499, 0.9999, 1.2499, 1.4999, 1.9999, 2.4999, 2.9999),
    *(3.0001, 3.9999, 4.0001, 5.4999, 5.5001, 8.0, 30.0, 300.0, 1e3),
]


@pytest.mark.parametrize("sd", SDS)
def test_expectations_agree_with_quadrature(sd):
    units = np.array([0.0, 0.3, -1.0, 2.5, -6.0, 9.0])
    mean = np.unique(np.concatenate([units, units * sd, [0.5 * sd**2 + 20.0]]))
    mean = np.append(mean, [-1e4, 1e4, -700.0])
    mean = mean[np.abs(mean) <= 1e4]
    expected = np.transpose([by_quadrature(FUNCTIONS, m, sd) for m in mean])
    np.testing.assert_allclose(ours(mean, sd), expected, rtol=2e-14, atol=1e-11)


def test_sigmoid_alone_equals_the_joint_computation():
    rng = np.random.default_rng(0)
    mean, sd = 10.0 * rng.normal(size=5000), 10 ** rng.uniform(-8, 3, 5000)
    together = logistic_gaussian_expectations(mean, sd)[1]
    np.testing.assert_allclose(
        sigmoid_expectation(mean, sd), together, atol=1e-13, rtol=0
    )


def test_broadcasting_and_shapes():
    mean, sd = np.zeros((4, 1)), np.array([0.0, 1.0, 10.0])
    assert sigmoid_expectation(mean, sd).shape == (4, 3)
    assert [a.shape for a in logistic_gaussian_expectations(0.0, 1.0)] == [()] * 3
    assert entropy_expectation(np.empty(0), np.empty(0)).shape == (0,)
    np.testing.assert_allclose(sigmoid_expectation(mean, sd), 0.5, atol=1e-13, rtol=0)


def test_symmetry_and_relative_accuracy_of_the_tail():
    softplus_tail, low, bend = logistic_gaussian_expectations(-30.0, 0.5)
    # exp(mean + sd^2 / 2) up to a relative correction of exp(mean).
    np.testing.assert_allclose(
        [softplus_tail, low, bend], np.exp(-30.0 + 0.125), rtol=1e-12
    )
    high = sigmoid_expectation(2.0, 1.7)
    assert high + sigmoid_expectation(-2.0, 1.7) == pytest.approx(1.0, abs=1e-15)


def test_general_expectation_of_smooth_functions():
    mean, sd = np.array([0.0, 1.0, -3.0]), np.array([1.0, 0.2, 5.0])
    second = gaussian_expectation_1d(np.square, mean, sd)
    np.testing.assert_allclose(second, mean**2 + sd**2, rtol=1e-12)
    several = gaussian_expectation_1d(
        lambda t: np.stack([np.cos(t), np.log1p(t * t)]), mean, sd
    )
    np.testing.assert_allclose(
        several[0], np.cos(mean) * np.exp(-0.5 * sd**2), atol=1e-12, rtol=0
    )
    expected = [
        by_quadrature([lambda t: np.log1p(t * t)], m, s)[0]
        for m, s in zip(mean, sd, strict=True)
    ]
    np.testing.assert_allclose(several[1], expected, atol=1e-9, rtol=0)


def laplace_by_quadrature(mean, scales):
    """The characteristic-function integral, on a logarithmic grid."""
    edges = np.concatenate([[0.0], np.geomspace(1e-4 / max(1.0, max(scales)), 9.0, 60)])
    t, weight = dense_rule(edges)
    damping = np.prod(1.0 + (t[:, None] * scales) ** 2, axis=1)
    return 0.5 + weight @ (np.sin(t * mean) / (damping * np.sinh(np.pi * t)))


@pytest.mark.parametrize(
    "mean, scales",
    [
        (0.7, [0.5]),
        (-2.0, [3.0, 0.1]),
        (25.0, [1.0, 1.0, 1.0]),
        (40.0, [20.0]),
        (-3.0, [200.0, 0.01]),
        (0.0, [1.0]),
        (1e-3, [1e-6]),
        (5.0, [1.0] * 80),
        (8.0, [0.1] * 50 + [4.0]),
    ],
)
def test_laplace_probability_agrees_with_quadrature(mean, scales):
    scales = np.array(scales)
    value = laplace_sigmoid_expectation([mean], np.ones((1, scales.size)), scales)
    expected = laplace_by_quadrature(mean, scales)
    np.testing.assert_allclose(value, expected, atol=1e-9, rtol=0)


def test_laplace_probability_extremes_stay_in_the_unit_interval():
    X = np.ones((4, 3))
    value = laplace_sigmoid_expectation([1e4, -1e4, 1e6, 0.0], X, [1.0, 1e3, 1e-9])
    assert np.all((value >= 0.0) & (value <= 1.0))
    np.testing.assert_allclose(value[[2, 3]], [1.0, 0.5], atol=1e-9, rtol=0)


def test_laplace_probability_is_the_same_for_dense_and_sparse_rows():
    X = sparse.random(300, 40, 0.05, format="csr", random_state=0)
    X.data[:3] = 0.0
    rng = np.random.default_rng(1)
    mean, scale = 3.0 * rng.normal(size=300), rng.uniform(0.1, 5.0, 40)
    assert np.any(np.diff(X.indptr) == 0)
    np.testing.assert_allclose(
        laplace_sigmoid_expectation(mean, X, scale),
        laplace_sigmoid_expectation(mean, X.toarray(), scale),
        atol=1e-12,
        rtol=0,
    )


def student_t_sigmoid_expectation(location, scale, df):
    return sigmoid_over_scales(location, scale, *student_t_radii(df))


def test_student_t_probability_of_many_degrees_of_freedom_is_a_gaussians():
    location, scale = np.linspace(-5, 5, 11), np.linspace(0.0, 3.0, 11)
    value = student_t_sigmoid_expectation(location, scale, 1e8)
    expected = sigmoid_expectation(location, scale)
    np.testing.assert_allclose(value, expected, atol=1e-8, rtol=0)
    mirrored = student_t_sigmoid_expectation(-location, scale, 3.0)
    np.testing.assert_allclose(
        mirrored, 1.0 - student_t_sigmoid_expectation(location, scale, 3.0), rtol=1e-9
    )


# --- logarithms of expected logistic functions, against integrals in logarithms


def integral(log_density, points):
    """ln of an integral of sigma times a density, by quadrature between points."""
    x, weight = dense_rule(points, 20)
    return logsumexp(-np.logaddexp(0.0, -x) + log_density(x), b=weight)


@pytest.mark.parametrize(
    "mean, sd",
    [(0, 1), (1, 0.1), (-50, 2), (-800, 0.5), (-800, 30), (-30, 10), (-5, 100), (3, 2)],
)
def test_gaussian_tails_of_any_depth(mean, sd):
    # The integrand peaks between the mean and where exp(t) has moved it.
    ends = sorted({mean - 10.0 * sd, mean, 0.0, mean + sd**2, mean + 10.0 * sd})
    ends = [*ends, max(ends[-1], mean + sd**2) + 10.0 * sd]
    expected = integral(norm(mean, sd).logpdf, ends)
    found = log_sigmoid_expectation(np.array([float(mean)]), np.array([float(sd)]))
    assert_allclose(found, expected, atol=1e-8)


def test_without_spread_it_is_the_log_of_the_logistic_function():
    mean = np.array([-2000.0, -3.0, 0.0, 40.0, 800.0])
    found = log_sigmoid_expectation(mean, np.zeros(5))
    assert_allclose(found, -np.logaddexp(0.0, -mean), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("location, scale, df", [(-50, 2, 5), (-2e4, 1, 5), (-9, 1, 3)])
def test_student_t_tails_fall_off_as_a_power(location, scale, df):
    args = np.array([float(location)]), np.array([float(scale)]), float(df)
    # Beyond a few units sigma is a step, so that this is the density's own tail.
    ends = [location - 1e3, 2.0 * location, location, location / 2.0, -40.0, 0.0, 40.0]
    middle = integral(lambda x: t.logpdf(x, df, location, scale), sorted({*ends}))
    beyond = t.logsf(40.0, df, location, scale)
    expected = np.logaddexp(middle, beyond)
    assert_allclose(log_student_t_sigmoid(*args), expected, atol=1e-6)


def test_student_t_agrees_where_the_probability_is_not_small():
    args = np.linspace(-4.0, 4.0, 9), np.linspace(0.1, 3.0, 9), 5.0
    expected = student_t_sigmoid_expectation(*args)
    assert_allclose(np.exp(log_student_t_sigmoid(*args)), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("location", "scale", "df"),
    [
        (0.4, 1e-3, 0.7), (-6.0, 0.5, 0.7), (-6.0, 100.0, 2.5), (0.4, 0.5, 2.5),
        (0.4, 100.0, 30.0), (-6.0, 1e-3, 30.0), (-6.0, 0.5, 1e5), (0.4, 100.0, 1e5),
    ],
)  # fmt: skip
def test_student_t_probability_agrees_with_quadrature(location, scale, df):
    # The tails are unrolled by a hyperbolic sine: z = sinh(y).
    reach, bend = 80.0 / min(df, 2.0), np.arcsinh(-location / scale)
    near = bend + np.array([-3.0, -0.3, -0.05, 0.0, 0.05, 0.3, 3.0])
    y, weight = dense_rule([-reach, -20.0, -5.0, 0.0, 5.0, 20.0, reach, *near])
    density = t.pdf(np.sinh(y), df) * np.cosh(y)
    expected = weight * density @ sigmoid(location + scale * np.sinh(y))
    found = student_t_sigmoid_expectation(location, scale, df)
    assert_allclose(found, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    "mean, width", [(-30, 0.5), (-30, 2), (-700, 0.3), (-700, 5), (0, 1), (2, 0.7)]
)
def test_laplace_tails(mean, width):
    ends = sorted({mean - 60.0 * width, mean, 0.0, mean + 60.0 * width, 60.0 * width})
    expected = integral(laplace(mean, width).logpdf, ends)
    found = log_laplace_sigmoid(np.array([float(mean)]), np.eye(1) * width, np.ones(1))
    assert_allclose(found, expected, atol=1e-6)


def test_sums_of_laplace_variables_have_tails_by_their_poles():
    # E exp(t) in closed form: what sigma's expectation is far out, with scales below 1.
    rows, scale = np.array([[1.0, -2.0, 0.0]]), np.array([0.3, 0.2, 0.9])
    expected = -60.0 - np.log1p(-(np.array([0.3, 0.4]) ** 2)).sum()
    for table in (rows, sparse.csr_matrix(rows), sparse.csr_array(rows)):
        found = log_laplace_sigmoid(np.array([-60.0]), table, scale)
        assert_allclose(found, expected, atol=1e-8)
