"""Sums over rows and groups of a linear model, from which rows are no longer needed."""

import numpy as np

from skboost.hierarchy._rows import Factor


class Residuals:
    """Sums of squares of y - X beta as |root h|^2, without the rows.

    Responses are those that least squares leaves, h is 1 beside what coefficients
    lack to these: no digits are lost where responses or columns lie far from zero. The
    first `n_effects` columns lie around it, and are not fitted.
    """

    def __init__(self, rows, n_effects=0):
        self.mass, size = rows.weight.sum(), np.sqrt(rows.weight)[:, None]
        scaled = size * rows.X[:, n_effects:]
        unit = np.maximum(np.abs(scaled).max(axis=0, initial=0.0), 1e-300)
        fitted = np.linalg.lstsq(scaled / unit, size[:, 0] * rows.y, rcond=1e-12)[0]
        self.centre = np.append(np.zeros(n_effects), fitted / unit)
        self.root = np.linalg.qr(size * self._columns(rows), mode="r")

    def _columns(self, rows):
        return np.column_stack([rows.X, rows.y - rows.X @ self.centre])

    def weighted(self, rows):
        """Weighted columns of X and of responses that least squares leaves."""
        return self._columns(rows) * rows.weight[:, None]

    def at(self, beta):
        """What the columns are multiplied by, (n_draws, n_columns + 1)."""
        return np.column_stack([self.centre - beta, np.ones(len(beta))])


def no_groups(n_rows):
    return Factor(np.zeros(n_rows, dtype=int), 0, np.zeros((n_rows, 1)))


def sums_of(factor, table):
    """Sums of the rows of a table over every group."""
    sums = [
        np.bincount(factor.codes, column, factor.n_groups)[: factor.n_groups]
        for column in table.T
    ]
    return np.stack(sums, axis=-1)
