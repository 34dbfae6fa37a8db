"""Data sets and the rival of the benchmarks of matrix factorisation.

The rival is ridge regression by turns (alternating least squares) on the observed
entries, without any loop over rows: what a point estimate of the same factors costs,
and how well it predicts.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


def faces(load):
    """The faces on the scale of [0, 1], one row for each."""
    return load.load("cbcl_faces")["X"] / 255.0


def masked(X, seed, share=0.5):
    """Training matrix with NaN, and rows, columns and values of the hidden entries."""
    hidden = np.random.default_rng(seed).random(X.shape) < share
    train = np.where(hidden, np.nan, X)
    rows, cols = np.nonzero(hidden)
    return train, (rows, cols, X[rows, cols])


def ratings(load, name):
    """Ratings as a sparse matrix, users by films."""
    return load.ratings_matrix(load.load(name)).tocsr()


def split_entries(X, share=0.1, seed=0):
    """Training and test matrices (CSR) that share out the stored entries.

    One of each row, drawn at random, stays in training.
    """
    found, rng = sp.coo_array(X), np.random.default_rng(seed)
    order = rng.permutation(found.nnz)
    _, first = np.unique(found.row[order], return_index=True)
    free = np.delete(order, first)[: round(share * found.nnz)]
    held = np.zeros(found.nnz, dtype=bool)
    held[free] = True

    def only(which):
        parts = found.data[which], (found.row[which], found.col[which])
        return sp.csr_array(parts, shape=found.shape)

    return only(~held), only(held)


def triples(X):
    """Rows, columns and values of the observed entries of either kind of matrix."""
    if sp.issparse(X):
        found = X.tocoo()
        return found.row, found.col, found.data
    rows, cols = np.nonzero(~np.isnan(X))
    return rows, cols, X[rows, cols]


@dataclass(frozen=True)
class Factors:
    """A point estimate: factors, biases and the mean."""

    U: np.ndarray
    V: np.ndarray
    b: np.ndarray
    c: np.ndarray
    mean: float

    def predict(self, rows, cols):
        dot = np.einsum("ij,ij->i", self.U[rows], self.V[cols])
        return self.mean + self.b[rows] + self.c[cols] + dot


class RidgeALS:
    """Alternating ridge regressions on the observed entries, all rows at once.

    The normal equations of all rows come from one product of the pattern of observed
    entries with the outer products of the other side's factors: a dense product where
    the matrix is dense with gaps, a sparse one otherwise. Systems are solved in one
    batch.

    Parameters
    ----------
    rank : int
    ridge : float
        Penalty of the squares of all factors and biases.
    biases : bool
    n_iter : int
        Rounds.
    seed : int
    """

    def __init__(self, rank, ridge, biases=False, n_iter=30, seed=0):
        self.rank, self.ridge, self.biases = rank, ridge, biases
        self.n_iter, self.seed = n_iter, seed

    def prepare(self, X):
        """Pattern and values, for rows and for columns."""
        rows, cols, values = triples(X)
        mean = values.mean() if self.biases else 0.0
        both = (np.ones(len(values)), values - mean)
        made = [sp.csr_matrix((v, (rows, cols)), X.shape) for v in both]
        sides = [made, [m.T.tocsr() for m in made]]
        if not sp.issparse(X):
            sides = [[m.toarray() for m in side] for side in sides]
        return sides, mean

    def start(self, shape):
        rng = np.random.default_rng(self.seed)
        scale = 1.0 / np.sqrt(self.rank)
        U, V = (scale * rng.standard_normal((n, self.rank)) for n in shape)
        return U, V, *(np.zeros(n) for n in shape)

    def half(self, side, other, offset):
        """Factors, and biases, of one side given those of the other."""
        pattern, values = side
        if self.biases:
            other = np.column_stack([other, np.ones(len(other))])
        width = other.shape[1]
        outer = (other[:, :, None] * other[:, None, :]).reshape(len(other), -1)
        gram = (pattern @ outer).reshape(-1, width, width)
        gram[:, np.arange(width), np.arange(width)] += self.ridge
        right = values @ other
        if self.biases:
            right -= pattern @ (offset[:, None] * other)
        solved = np.linalg.solve(gram, right[:, :, None])[:, :, 0]
        if self.biases:
            return solved[:, :-1], solved[:, -1]
        return solved, np.zeros(len(solved))

    def fit(self, X):
        sides, mean = self.prepare(X)
        U, V, b, c = self.start(X.shape)
        for _ in range(self.n_iter):
            U, b = self.half(sides[0], V, c)
            V, c = self.half(sides[1], U, b)
        return Factors(U, V, b, c, float(mean))


def chosen_ridge(X, rank, biases, grid, seed=0, n_iter=15):
    """The penalty of a grid that predicts a tenth of the training entries best."""
    rows, cols, values = triples(X)
    held = np.random.default_rng(seed).random(len(values)) < 0.1
    kept = sp.csr_matrix((values[~held], (rows[~held], cols[~held])), X.shape)
    if not sp.issparse(X):
        kept = X.copy()
        kept[rows[held], cols[held]] = np.nan
    errors = []
    for ridge in grid:
        found = RidgeALS(rank, ridge, biases, n_iter=n_iter).fit(kept)
        gap = found.predict(rows[held], cols[held]) - values[held]
        errors.append(float(np.mean(gap**2)))
    return grid[int(np.argmin(errors))]
