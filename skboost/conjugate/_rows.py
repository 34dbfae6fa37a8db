"""Rows of data as the clusters see them: centred, and with what is missing."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rows:
    """Rows about the prior mean.

    Centring makes the prior means of all clusters zero, and keeps second moments
    accurate where the data lie far from the origin.

    Parameters
    ----------
    values : ndarray of shape (n_rows, dim)
        Zero where missing.
    patterns : ndarray of bool of shape (n_patterns, dim), default=None
        Distinct patterns of observed entries; None where nothing is missing.
    pattern : ndarray of int of shape (n_rows,), default=None
        Which pattern a row has.
    """

    values: np.ndarray
    patterns: np.ndarray | None = None
    pattern: np.ndarray | None = None

    @classmethod
    def of(cls, X, center):
        """Rows of an array in which NaN is missing."""
        values = np.asarray(X, dtype=float) - center
        missing = np.isnan(values)
        if not missing.any():
            return cls(values)
        values[missing] = 0.0
        patterns, pattern = np.unique(~missing, axis=0, return_inverse=True)
        return cls(values, patterns, pattern.reshape(-1))

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        """Some of the rows, by a slice or an array of positions."""
        if self.patterns is None:
            return Rows(self.values[index])
        return Rows(self.values[index], self.patterns, self.pattern[index])

    @property
    def seen(self):
        """Whether each entry is observed, shape (n_rows, dim); None if all are."""
        return None if self.patterns is None else self.patterns[self.pattern]

    def groups(self):
        """Pairs of a pattern (dim,) and the positions of the rows that have it."""
        for code in np.unique(self.pattern):
            yield self.patterns[code], np.flatnonzero(self.pattern == code)
