"""Priors: normalisation, scores, Gaussian expectations, names and scales."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import exp1
from sklearn.base import clone

from skboost.priors import (
    PRIORS,
    LaplacePrior,
    NormalPrior,
    Prior,
    StudentTPrior,
    as_prior,
)
from skboost.targets import validate_scale

from .conftest import dense_rule, differences


class Horseshoe:
    """Sixteen normal distributions by their deviation, which is half-Cauchy."""

    def logpdf(self, z):
        deviations = np.exp(np.linspace(-5.0, 6.0, 16))
        share = deviations * stats.halfcauchy.pdf(deviations)
        parts = stats.norm(scale=deviations).pdf(np.asarray(z)[..., None])
        return np.log(parts @ (share / share.sum()))


REFERENCE = {
    "normal": stats.norm,
    "laplace": stats.laplace,
    "student_t": stats.t(df=4.0),
    "cauchy": stats.cauchy,
    "horseshoe": Horseshoe(),
}


class LogisticPrior(Prior):
    """A user's prior without closed forms."""

    def _standard(self, z):
        return -z - 2.0 * np.logaddexp(0.0, -z), -np.tanh(0.5 * z)


CASES = {**{name: as_prior(name) for name in PRIORS}, "own": LogisticPrior()}
parametrised = pytest.mark.parametrize("prior", CASES.values(), ids=CASES.keys())
SCALE = np.array([0.3, 1.0, 7.0])
SDS = [1e-2, 0.5, 3.0, 40.0]


@pytest.mark.parametrize("name", PRIORS)
def test_density_is_the_reference_density(name):
    theta = np.random.default_rng(0).normal(size=(6, 3)) * 3.0
    expected = REFERENCE[name].logpdf(theta / SCALE) - np.log(SCALE)
    np.testing.assert_allclose(
        as_prior(name).log_density(theta, SCALE), expected.sum(axis=1), rtol=1e-12
    )


@parametrised
def test_density_integrates_to_one(prior):
    # The tails are unrolled by an exponential.
    t, weight = dense_rule([-25.0, 25.0])
    density = np.exp(prior.log_density(np.exp(t)[:, None], np.array([0.7])))
    assert 2.0 * weight @ (density * np.exp(t)) == pytest.approx(1.0, abs=1e-7)


@parametrised
def test_score_equals_finite_differences(prior):
    theta = np.random.default_rng(1).normal(size=(5, 3)) * 2.0
    _, score = prior.value_and_score(theta, SCALE)
    for row, slope in zip(theta, score, strict=True):
        found = differences(lambda x: prior.log_density(x[None], SCALE)[0], row, 1e-6)
        np.testing.assert_allclose(found, slope, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "sd"),
    [(name, sd) for k, name in enumerate(CASES) for sd in SDS[k % 2 :: 2]],
)
def test_expected_value_agrees_with_quadrature(name, sd):
    prior = CASES[name]
    for mean in (0.0, 0.4, -5.0):
        found = prior.expected(np.array([mean]), np.array([sd**2]), np.array([0.5]))

        bends = (np.array([-5.0, -0.5, 0.0, 0.5, 5.0]) - mean) / sd
        edges = np.concatenate([[-12.0, 0.0, 12.0], bends])
        z, weight = dense_rule(edges[np.abs(edges) <= 12.0])
        log_density = prior.log_density(mean + sd * z[:, None], np.array([0.5]))
        expected = weight * stats.norm.pdf(z) @ log_density
        assert found.value == pytest.approx(expected, rel=1e-9, abs=1e-9)


@parametrised
def test_derivatives_of_the_expected_value(prior):
    mean = np.array([0.2, -1.0, 3.0])
    variance = np.array([0.05, 2.0, 30.0])
    _, *slopes = prior.expected(mean, variance, SCALE)

    def value(x):
        return prior.expected(x[:3], x[3:], SCALE).value

    numerical = differences(value, np.concatenate([mean, variance]))
    assert np.concatenate(slopes) == pytest.approx(numerical, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", PRIORS)
def test_a_vanishing_variance_gives_the_density_itself(name):
    prior, mean = as_prior(name), np.array([0.4, -2.0, 5.0])
    found = prior.expected(mean, np.zeros(3), SCALE)
    value, score = prior.value_and_score(mean[None], SCALE)
    assert found.value == pytest.approx(value[0], rel=1e-12)
    np.testing.assert_allclose(found.d_mean, score[0], rtol=1e-12)
    assert np.all(np.isfinite(found.d_variance))


def test_sixteen_scales_are_the_horseshoe():
    z = np.geomspace(0.01, 100.0, 50)
    half = 0.5 * z**2
    # exp(x) E1(x), which is nearly 1 / (x + 1) where it underflows.
    tail = np.where(
        half < 500, np.exp(np.minimum(half, 500)) * exp1(half), 1 / (half + 1)
    )
    expected = tail / np.sqrt(2.0 * np.pi**3)
    found = np.exp(as_prior("horseshoe").log_density(z[:, None], np.ones(1)))
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("name", ["student_t", "horseshoe"])
def test_densities_at_many_scales_are_those_of_each(name):
    rng, s = np.random.default_rng(2), np.geomspace(0.05, 20.0, 7)
    z, share = rng.standard_t(2, size=(200, 4)), rng.dirichlet(np.ones(7), 200)
    z[0, 0] = 0.0
    prior = as_prior(name)
    parts = [prior.value_and_score(z, np.full(4, one)) for one in s]
    found = prior.log_at_scales(z, s)
    assert found == pytest.approx(np.column_stack([v for v, _ in parts]), rel=1e-6)
    expected = sum(w[:, None] * g for w, (_, g) in zip(share.T, parts, strict=True))
    found = prior.score_at_scales(z, s, share)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-3)


def test_student_t_is_accurate_when_the_variance_dwarfs_the_scale():
    # E ln(1 + t^2 / c^2) tends to E ln(t^2) - ln(c^2) = ln(2) + psi(1/2) + ln(v/c^2).
    prior = StudentTPrior(df=2.0)
    found = prior.expected(np.zeros(1), np.array([1e12]), np.ones(1))
    limit = np.log(2.0) - np.euler_gamma - 2.0 * np.log(2.0) + np.log(1e12 / 2.0)
    expected = stats.t(df=2.0).logpdf(0.0) - 1.5 * limit
    assert found.value == pytest.approx(expected, abs=1e-5)
    assert found.d_variance[0] == pytest.approx(-1.5e-12, rel=1e-5)


def test_names_instances_and_scales():
    assert isinstance(as_prior("normal"), NormalPrior)
    assert as_prior("cauchy", 2.5).get_params() == {"df": 1.0, "scale": 2.5}
    own = StudentTPrior(df=3.0)
    assert as_prior(own) is own
    changed = as_prior(own, [1.0, 2.0])
    assert changed.df == 3.0 and own.scale == 1.0
    np.testing.assert_array_equal(changed.resolve_scale(2), [1.0, 2.0])
    assert clone(LaplacePrior(scale=2.0)).scale == 2.0
    with pytest.raises(ValueError, match="prior must be one of .*'gauss'"):
        as_prior("gauss")
    with pytest.raises(TypeError, match="got int"):
        as_prior(3)


@pytest.mark.parametrize("df", [0.0, -1.0, np.inf])
def test_impossible_degrees_of_freedom(df):
    with pytest.raises(ValueError, match="df must be a positive finite number"):
        StudentTPrior(df=df).log_density(np.zeros((1, 1)), np.ones(1))


@pytest.mark.parametrize(
    "scale, message",
    [
        (0.0, "positive and finite; got 0.0"),
        (-1.0, "positive and finite; got -1.0"),
        (np.inf, "positive and finite; got inf"),
        ([1.0, np.nan, 1.0], "positive and finite; got nan"),
        ([1.0, 2.0], r"shape \(3,\); got shape \(2,\)"),
        (np.ones((1, 3)), r"got shape \(1, 3\)"),
        ("wide", "must be a number or an array of shape .3,.; got 'wide'"),
    ],
)
def test_bad_scales_are_named(scale, message):
    with pytest.raises(ValueError, match=message):
        validate_scale(scale, 3)


def test_good_scales():
    np.testing.assert_array_equal(validate_scale(2, 3), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(validate_scale([2.0], 2), [2.0, 2.0])
    given = np.ones(3)
    assert validate_scale(given, 3) is not given
