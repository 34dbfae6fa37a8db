"""Questions that every target of a regression answers: gradients and expectations."""

from functools import cache

import numpy as np
from numpy.testing import assert_allclose
from scipy import stats

from skboost.targets import GLMTarget, Table


def table(X, y, sample_weight=None, offset=None, n_jobs=None):
    """Rows in memory, weights as one number where all are equal."""
    weight = 1.0 if sample_weight is None else np.asarray(sample_weight, float)
    weight = weight if np.ptp(weight) else np.max(weight)
    return Table(X, y, weight, offset, n_jobs=n_jobs)


def glm(X, y, likelihood, sample_weight=None, offset=None, n_jobs=None, **settings):
    """A regression of rows in memory."""
    return GLMTarget(table(X, y, sample_weight, offset, n_jobs), likelihood, **settings)


def differences(f, x, step=1e-5):
    """Central differences of a function of one vector, stacked first."""
    steps = step * np.eye(x.size)
    return np.array([(f(x + e) - f(x - e)) / (2.0 * step) for e in steps])


leggauss = cache(np.polynomial.legendre.leggauss)


def dense_rule(edges, n_parts=8, n=40):
    """Nodes and weights of Gauss and Legendre on equal parts between the edges."""
    node, weight = leggauss(n)
    ends = np.unique(edges)
    shares = np.linspace(0.0, 1.0, n_parts, endpoint=False)
    low = (ends[:-1, None] + np.diff(ends)[:, None] * shares).ravel()
    half = 0.5 * np.repeat(np.diff(ends), n_parts)[:, None] / n_parts
    return (low[:, None] + half * (1.0 + node)).ravel(), (half * weight).ravel()


def check_score(target, theta, rtol=1e-6, atol=1e-6):
    """The score of each draw is the slope of the log density."""
    value, score = target.value_and_score(theta)
    assert_allclose(value, target.log_density(theta), rtol=1e-12)
    for point, slope in zip(theta, score, strict=True):
        found = differences(lambda x: target.log_density(x[None])[0], point)
        assert_allclose(found, slope, rtol=rtol, atol=atol)


def check_expectation(target, mean, variance=None, factor=None, n=40_000):
    """Expected value and gradient under a Gaussian are means over its draws."""
    rng = np.random.default_rng(3)
    theta = mean + np.zeros((n, target.dim))
    if variance is not None:
        theta += np.sqrt(variance) * rng.normal(size=theta.shape)
    if factor is not None:
        theta += rng.normal(size=(n, factor.shape[1])) @ factor.T
    values, score = target.value_and_score(theta)
    value, g_mean, *_ = target.expected_log_density(mean, variance, factor)
    assert abs(values.mean() - value) < 5.0 * stats.sem(values)
    assert np.all(np.abs(score.mean(axis=0) - g_mean) < 5.0 * stats.sem(score))


def check_gradients(target, mean, variance=None, factor=None, rtol=5e-6, atol=5e-6):
    """Gradients of the expected log density are its differences, None where unused."""
    given = [mean, variance, factor]
    used = [k for k, part in enumerate(given) if part is not None]
    ends = np.cumsum([given[k].size for k in used])[:-1]

    def expected(x):
        parts = [None, None, None]
        for k, part in zip(used, np.split(x, ends), strict=True):
            parts[k] = part.reshape(given[k].shape)
        return target.expected_log_density(*parts)

    x = np.concatenate([given[k].ravel() for k in used])
    gradients = expected(x)[1:]
    assert [k for k, part in enumerate(gradients) if part is not None] == used
    found = np.concatenate([np.ravel(gradients[k]) for k in used])
    numerical = differences(lambda x: expected(x)[0], x, 1e-4)
    assert_allclose(found, numerical, rtol=rtol, atol=atol)


def check_curvature(target, mean, factor, rtol=5e-6, atol=5e-6):
    """The expected curvature is minus the derivative of the expected gradient."""
    value, g_mean, curvature = target.expected_curvature(mean, factor)
    same, same_mean, *_ = target.expected_log_density(mean, None, factor)
    assert_allclose(value, same, rtol=1e-12)
    assert_allclose(g_mean, same_mean, rtol=1e-10)
    found = differences(lambda x: -target.expected_curvature(x, factor)[1], mean, 1e-4)
    assert_allclose(found, curvature, rtol=rtol, atol=atol)
