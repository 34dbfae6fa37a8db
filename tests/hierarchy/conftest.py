"""Rows in groups of one or several factors, and what brute force needs of them."""

import numpy as np

from skboost.hierarchy import Factor, GroupedRows
from skboost.targets import (
    CumulativeLogits,
    Logistic,
    NegativeBinomial,
    Poisson,
    StudentTNoise,
)

# Groups and effects of each factor: none; one factor; crossed ones with slopes, the
# largest in the middle; and classes that are nested in schools.
DESIGNS = {
    "none": (),
    "intercepts": ((5, 1),),
    "slopes": ((5, 2),),
    "crossed": ((3, 1), (8, 2), (4, 2)),
    "nested": ((3, 1), (9, 1)),
}


def zeros_and_ones(rng, n):
    return rng.integers(0, 2, n).astype(float)


def counts(rng, n):
    return rng.poisson(2.0, n).astype(float)


def four_classes(rng, n):
    return rng.integers(0, 4, n).astype(float)


def normal(rng, n):
    return rng.normal(size=n)


LIKELIHOODS = [(Logistic(), zeros_and_ones), (Poisson(), counts)]
ALL_LIKELIHOODS = [
    *LIKELIHOODS,
    (NegativeBinomial(), counts),
    (CumulativeLogits(4), four_classes),
    (StudentTNoise(4.0), normal),
]


def of(name, response, **options):
    """Rows of a design by its name."""
    return grouped(DESIGNS[name], response, nested=name == "nested", **options)


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


def n_scales(rows):
    return sum(factor.n_effects for factor in rows.factors)


def points(rows, further=0, n=3, seed=1):
    """Coefficients, logarithms of scales and further parameters."""
    size = n, rows.X.shape[1] + n_scales(rows) + further
    return 0.5 * np.random.default_rng(seed).normal(size=size)


def split(theta, rows, noise=False):
    n = 2 + n_scales(rows)
    return theta[:, :2], theta[:, 2:n], *theta[:, n : n + int(noise)].T


def differences(func, theta, step=1e-5, at_once=True):
    """Central differences of a function of rows, (n, dim). All are asked for at once,
    but where a search for modes begins at those of other rows.
    """
    moves = step * np.eye(theta.shape[1])[:, None]
    moved = theta + np.stack([moves, -moves])
    if at_once:
        values = func(moved.reshape(-1, theta.shape[1]))
    else:
        values = np.concatenate([func(rows) for pair in moved for rows in pair])
    above, below = values.reshape(*moved.shape[:-1], *values.shape[1:])
    return np.moveaxis(above - below, 0, 1) / (2.0 * step)


def assert_score_is_the_slope(marginal, theta, rows, noise, atol):
    """Of the value, by central differences."""

    slopes = differences(lambda t: marginal.value(*split(t, rows, noise)), theta)
    _, score = marginal.value_and_score(*split(theta, rows, noise))
    np.testing.assert_allclose(score, slopes, atol=atol)


def effects_matrix(rows):
    """Z of all effects, factor by factor and group by group, and their scales."""
    parts, scale_of, seen = [np.zeros((len(rows.y), 0))], [], 0
    for factor in rows.factors:
        one_hot = factor.codes[:, None] == np.arange(factor.n_groups)
        part = one_hot[:, :, None] * factor.columns[:, None]
        parts.append(part.reshape(len(one_hot), -1))
        scale_of += [*range(seen, seen + factor.n_effects)] * factor.n_groups
        seen += factor.n_effects
    return np.hstack(parts), np.array(scale_of, dtype=int)


def standard_normals(rows, n, seed=3):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(f.n_effects, n, f.n_groups)) for f in rows.factors)


def flattened(draws):
    """Draws of all effects in the order of `effects_matrix`, (2 * n_draws, size)."""
    tables = [np.moveaxis(table, 1, 3) for table in draws]
    parts = [table.reshape(-1, *table.shape[2:]) for table in tables]
    return np.hstack([part.reshape(len(part), -1) for part in parts])


def choose_tables(monkeypatch, sparse):
    """The table of cells is kept whole, or only where it is filled."""
    if sparse:
        monkeypatch.setattr("skboost.hierarchy._crossed._DENSE_SIZE", 0)
        monkeypatch.setattr("skboost.hierarchy._crossed._DENSE_SHARE", 0)
        # Entries of the inverse are read from blocks of two groups.
        monkeypatch.setattr("skboost.hierarchy._precision._BLOCK", 100)
