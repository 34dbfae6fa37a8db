"""Log joint densities of logistic models, binary and multinomial."""

import numpy as np
import pytest
from scipy import sparse, stats

from skboost.priors import PRIORS, as_prior
from skboost.targets import (
    KnownScale,
    Logistic,
    Multinomial,
    Poisson,
    StudentTNoise,
    sum_log,
)

from .conftest import (
    check_curvature,
    check_expectation,
    check_gradients,
    check_score,
    glm,
)

N_CLASSES = 3


def make_data(n=60, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X[rng.random((n, p)) < 0.3] = 0.0
    y = rng.integers(0, N_CLASSES, n)
    weight = rng.uniform(0.1, 2.0, n)
    return X, y, weight


LIKELIHOODS = {
    "logistic": Logistic(),
    "multinomial": Multinomial(N_CLASSES),
    "poisson": Poisson(),
    # Not log-concave.
    "known scale": KnownScale(StudentTNoise(3.0), 0.7),
}


# Of parameters; rates are exponentials of them.
SIZES = {"poisson": 0.3}


def make_target(kind, X, y, **options):
    y = (y > 0).astype(int) if kind == "logistic" else y
    return glm(X, y, LIKELIHOODS[kind], **options)


def naive_log_density(kind, X, y, theta, weight, temperature, prior, scale):
    """Written straight from the definition, one draw at a time, with intercept."""
    design = np.column_stack([X, np.ones(X.shape[0])])
    out = np.empty(theta.shape[0])
    for s, draw in enumerate(theta):
        eta = design @ draw.reshape(-1, design.shape[1]).T
        if kind == "poisson":
            log_p = stats.poisson.logpmf(y, np.exp(eta[:, 0]))
        elif kind == "known scale":
            log_p = stats.t.logpdf(y, 3.0, eta[:, 0], 0.7)
        else:
            if kind == "logistic":
                eta = np.column_stack([np.zeros(len(y)), eta])
            label = np.minimum(y, eta.shape[1] - 1)
            norm = np.log(np.exp(eta - eta.max(1, keepdims=True)).sum(1)) + eta.max(1)
            log_p = eta[np.arange(label.size), label] - norm
        out[s] = temperature * np.sum(weight * log_p)
    return out + prior.log_density(theta, scale)


def draws(target, n=7, scale=1.5, seed=3):
    return scale * np.random.default_rng(seed).normal(size=(n, target.dim))


each = pytest.mark.parametrize("kind", LIKELIHOODS)
classes = pytest.mark.parametrize("kind", ["logistic", "multinomial"])
# The prior's part does not know of the likelihood.
each_prior = pytest.mark.parametrize(
    ("kind", "prior"),
    [
        *((kind, "normal") for kind in LIKELIHOODS),
        *(("logistic", prior) for prior in PRIORS if prior != "normal"),
    ],
)


@each_prior
def test_log_density_is_the_definition(kind, prior):
    X, y, weight = make_data()
    prior = as_prior(prior)
    dim = make_target(kind, X, y).dim
    scale = np.linspace(0.5, 2.0, dim)
    options = {"sample_weight": weight, "temperature": 0.6, "scale": scale}
    target = make_target(kind, X, y, prior=prior, **options)
    theta = draws(target, scale=4.0 * SIZES.get(kind, 1.0))
    expected = naive_log_density(kind, X, y, theta, weight, 0.6, prior, scale)
    np.testing.assert_allclose(target.log_density(theta), expected, rtol=1e-12)
    value, _ = target.value_and_score(theta)
    np.testing.assert_allclose(value, expected, rtol=1e-12)


@each
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_score_equals_differences(kind, fit_intercept):
    X, y, weight = make_data()
    options = {"sample_weight": weight, "prior": as_prior("student_t")}
    target = make_target(kind, X, y, fit_intercept=fit_intercept, **options)
    theta = draws(target, scale=1.5 * SIZES.get(kind, 1.0))
    check_score(target, theta, rtol=0.0, atol=2e-7)


@classes
def test_extreme_predictors_stay_finite(kind):
    X, y, _ = make_data()
    target = make_target(kind, X * 1e4, y)
    theta = draws(target, scale=100.0)
    value, score = target.value_and_score(theta)
    assert np.all(np.isfinite(value)) and np.all(np.isfinite(score))
    np.testing.assert_allclose(value, target.log_density(theta), rtol=1e-12)


def everything(target, n_draws=5):
    """Every number that a target gives, as a flat list of arrays."""
    theta = draws(target, n_draws)
    results = [target.log_density(theta), *target.value_and_score(theta)]
    factor = 0.4 * np.tril(draws(target, target.dim, seed=5))
    variance = np.linspace(0.1, 1.0, target.dim)
    results += target.expected_curvature(theta[0], factor)
    results += target.expected_log_density(theta[0], variance, factor[:, :2])
    results += target.expected_log_density(theta[0], variance)[:3]
    results += target.expected_log_density(theta[0], None, factor)[:2]
    return results


def assert_same(first, second, rtol=1e-11):
    for a, b in zip(everything(first), everything(second), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-11)


@each
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sparse_equals_dense(kind, fit_intercept):
    X, y, weight = make_data()
    X[5] = 0.0
    rows = sparse.csr_matrix(X)
    # Explicit zeros are values like any other.
    rows.data[::7] = 0.0
    options = {"sample_weight": weight, "fit_intercept": fit_intercept}
    assert_same(
        make_target(kind, rows, y, **options),
        make_target(kind, rows.toarray(), y, **options),
    )


def test_very_sparse_rows_use_the_sparse_gram_matrix():
    _, y, _ = make_data()
    rows = sparse.random(60, 80, 0.02, format="csr", random_state=0)
    thin, dense = (make_target("logistic", X, y) for X in (rows, rows.toarray()))
    assert_same(thin, dense)


def small_blocks(n_rows, n_columns):
    return [slice(a, min(a + 7, n_rows)) for a in range(0, n_rows, 7)]


@pytest.mark.parametrize(
    ("kind", "as_sparse"), [("logistic", True), ("multinomial", False)]
)
def test_blocks_and_jobs_do_not_change_the_answer(kind, as_sparse, monkeypatch):
    X, y, weight = make_data(70)
    X = sparse.csr_matrix(X) if as_sparse else X
    expected = everything(make_target(kind, X, y, sample_weight=weight))
    monkeypatch.setattr("skboost._row_blocks.row_blocks", small_blocks)
    one, two = (
        everything(make_target(kind, X, y, sample_weight=weight, n_jobs=n_jobs))
        for n_jobs in (1, 2)
    )
    for a, b, whole in zip(one, two, expected, strict=True):
        np.testing.assert_allclose(a, whole, rtol=1e-11, atol=1e-11)
        np.testing.assert_array_equal(a, b)


@classes
def test_many_draws_come_in_batches(kind):
    X, y, _ = make_data(20)
    target = make_target(kind, X, y)
    theta = draws(target, 2500)
    value, score = target.value_and_score(theta)
    np.testing.assert_allclose(target.log_density(theta), value, rtol=1e-12)
    for part in (slice(0, 3), slice(1023, 1026), slice(2499, 2500)):
        few_value, few_score = target.value_and_score(theta[part])
        np.testing.assert_allclose(value[part], few_value, rtol=1e-12)
        np.testing.assert_allclose(score[part], few_score, rtol=1e-10, atol=1e-11)


@each
def test_weights_equal_repetition_and_zero_weights_absence(kind):
    X, y, _ = make_data()
    repeats = np.random.default_rng(2).integers(0, 4, y.size)
    weighted = make_target(kind, X, y, sample_weight=repeats.astype(float))
    repeated = make_target(kind, np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
    assert_same(weighted, repeated)


@each
def test_equal_weights_act_as_a_power(kind):
    X, y, _ = make_data()
    weighted = make_target(kind, X, y, sample_weight=np.full(y.size, 0.25))
    tempered = make_target(kind, X, y, temperature=0.25)
    assert_same(weighted, tempered)
    unequal = np.full(y.size, 0.25)
    unequal[0] = np.nextafter(0.25, 1.0)
    assert_same(weighted, make_target(kind, X, y, sample_weight=unequal))


@pytest.mark.parametrize(
    ("kind", "prior", "structure"),
    [
        *((kind, "normal", "both") for kind in LIKELIHOODS),
        *(("logistic", prior, "both") for prior in PRIORS if prior != "normal"),
        ("logistic", "normal", "variance"),
        ("multinomial", "normal", "factor"),
    ],
)
def test_expected_log_density_is_the_mean_over_draws(kind, prior, structure):
    X, y, weight = make_data()
    target = make_target(
        kind, X, y, sample_weight=weight, prior=as_prior(prior), scale=0.7
    )
    rng, size = np.random.default_rng(4), SIZES.get(kind, 1.0)
    mean = size * rng.normal(size=target.dim)
    variance = factor = None
    if structure != "factor":
        variance = size**2 * rng.uniform(0.1, 2.0, target.dim)
    if structure != "variance":
        factor = size * rng.normal(size=(target.dim, 3))
    check_expectation(target, mean, variance, factor, n=20_000)


def _fifth(near):
    return {name: 0.2 * size for name, size in near.items()}


@each_prior
def test_slopes_of_expectations_equal_differences(kind, prior):
    X, y, weight = make_data(20, 2)
    target = make_target(kind, X, y, sample_weight=weight, prior=as_prior(prior))
    rng, size = np.random.default_rng(5), SIZES.get(kind, 1.0)
    mean = size * rng.normal(size=target.dim)
    variance = size**2 * rng.uniform(0.5, 2.0, target.dim)
    factor = size * rng.normal(size=(target.dim, 2))
    # Of several classes the slope in a covariance is an average over nodes of its own.
    near = {"rtol": 2e-3, "atol": 2e-2} if kind == "multinomial" else {}
    check_gradients(target, mean, variance, factor, **near)
    check_gradients(target.finer(), mean, variance, factor, **_fifth(near))
    factor = size * np.tril(rng.normal(size=(target.dim, target.dim)))
    check_curvature(target, mean, factor, rtol=5e-6 if kind == "poisson" else 0.0)
    curvature = target.expected_curvature(mean, factor)[2]
    np.testing.assert_array_equal(curvature, curvature.T)


def test_scale_of_one_class_serves_every_class_and_any_classes_have_expectations():
    X, y, _ = make_data()
    scale = np.linspace(1.0, 2.0, X.shape[1] + 1)
    one = make_target("multinomial", X, y, scale=scale)
    np.testing.assert_array_equal(one.scale, np.tile(scale, N_CLASSES))
    assert one.exact_gaussian and glm(X, y, Multinomial(5)).exact_gaussian


def test_the_design_is_not_copied():
    X, y, _ = make_data()
    rows = sparse.csr_matrix(X)
    block = make_target("logistic", rows, y).rows.block(slice(3, 9))
    assert np.shares_memory(block.X.data, rows.data)


def test_a_likelihood_that_is_not_log_concave_bends_both_ways():
    target = make_target("known scale", *make_data()[:2])
    far = np.array([0.0, 0.0, 0.0, 0.0, 20.0])
    # Every error is far out in the tail, where the log density is convex.
    curvature = target.expected_curvature(far, 0.01 * np.eye(5))[2]
    assert np.linalg.eigvalsh(curvature - np.eye(5)).max() < 0.0


def test_draws_of_another_width_are_named():
    target = make_target("logistic", *make_data()[:2])
    with pytest.raises(ValueError, match=r"theta must have shape \(n_draws, 5\)"):
        target.log_density(np.zeros(5))


@pytest.mark.parametrize("n_classes", [3, 20, 1000])
def test_products_over_many_rows_and_classes_do_not_overflow(n_classes):
    # Of so many columns each is a product of its own.
    totals = np.full((600, 64), float(n_classes))
    found = sum_log(totals, Multinomial(n_classes)._limit)
    np.testing.assert_allclose(found, 600 * np.log(n_classes), rtol=1e-12)
