"""Rows in groups of one or several factors, and how derivatives are checked."""

import numpy as np

from skboost.hierarchy import Factor, GroupedRows


def zeros_and_ones(rng, n):
    return rng.integers(0, 2, n).astype(float)


def counts(rng, n):
    return rng.poisson(2.0, n).astype(float)


def normal(rng, n):
    return rng.normal(size=n)


def grouped(design, response, n=60, offset=True, nested=False, seed=0):
    """Rows with integer weights; groups and effects of every factor in the design."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), np.ones(n)])
    slopes = np.column_stack([np.ones(n), rng.normal(size=n)])
    codes = [
        np.append(np.arange(groups), rng.integers(0, groups, n - groups))
        for groups, _ in design
    ]
    if nested:
        codes[0] = codes[1] // 3
    factors = tuple(
        Factor(code, groups, slopes[:, :q])
        for code, (groups, q) in zip(codes, design, strict=True)
    )
    weight = rng.integers(1, 3, n).astype(float)
    offset = 0.3 * rng.normal(size=n) if offset else None
    return GroupedRows(X, response(rng, n), weight, factors, offset)


def points(rows, further=0, n=3, seed=1):
    """Coefficients, logarithms of scales and further parameters."""
    size = n, rows.X.shape[1] + rows.n_scales + further
    return 0.5 * np.random.default_rng(seed).normal(size=size)


def split(theta, rows, noise=False):
    levels = theta[:, 2 : 2 + rows.n_scales]
    return (theta[:, :2], levels, theta[:, -1]) if noise else (theta[:, :2], levels)


def differences(func, theta, step=1e-5):
    """Central differences of a function of rows, (n, dim)."""
    unit = np.eye(theta.shape[1])
    pairs = [func(theta + step * e) - func(theta - step * e) for e in unit]
    return np.stack(pairs, axis=1) / (2.0 * step)


def assert_score_is_the_slope(marginal, theta, rows, noise, atol):
    """Of the value, by central differences."""

    def value_and_score(theta):
        return marginal.value_and_score(*split(theta, rows, noise))

    slopes = differences(lambda t: value_and_score(t)[0], theta)
    np.testing.assert_allclose(value_and_score(theta)[1], slopes, atol=atol)
