"""The predictive probability of a logistic model under Laplace coefficients."""

import numpy as np

# The contour of integration: left-opening hyperbolas sin(-_BEND + i x). In the strip
# 0 < _BEND < pi/4 the integrand is analytic and decays; the middle of the strip and
# this step leave an error of exp(-2 pi (pi/8) / step), about 1e-11.
_BEND = np.pi / 8
_STEP = 0.0975
_NEGLIGIBLE = 1e-13
_MAX_NODES = 1000


class _Squares:
    """Squared scales of the Laplace terms of each row, and products over a row.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, dim)
    scale : ndarray of shape (dim,)
    """

    def __init__(self, X, scale):
        if isinstance(X, np.ndarray):
            self.values = ((X * scale) ** 2).ravel()
            self.lengths = np.full(len(X), X.shape[1])
        else:
            self.values = (X.data * scale[X.indices]) ** 2
            self.lengths = np.diff(X.indptr)
        self.n_rows, self.filled = X.shape[0], np.flatnonzero(self.lengths)
        starts = np.cumsum(self.lengths) - self.lengths
        self.starts = starts[self.filled]

    def totals(self):
        total = np.zeros(self.n_rows)
        if self.filled.size:
            total[self.filled] = np.add.reduceat(self.values, self.starts)
        return total

    def products(self, square):
        """Product over a row's terms of ``1 - square * term``."""
        product = np.ones(self.n_rows, dtype=complex)
        if self.filled.size:
            factors = 1.0 - np.repeat(square, self.lengths) * self.values
            product[self.filled] = np.multiply.reduceat(factors, self.starts)
        return product


def _tail_probability(mean, squares):
    """P(W < 0), W = mean + Laplace terms + a standard logistic, mean >= 0.

    The inverse Laplace transform of W's moment generating function, whose poles all
    lie on the real axis, taken along a hyperbola between them: oscillations in the
    mean and the slow algebraic decay under wide scales both turn into an exponential
    decay, at equally spaced nodes of the hyperbola's parameter.
    """
    sd = np.sqrt(2.0 * squares.totals() + np.pi**2 / 3.0)
    width = 0.5 / sd
    total = np.zeros(mean.size)
    for k in range(_MAX_NODES):
        angle = complex(-_BEND, k * _STEP)
        point = width * (np.sin(angle) - 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            term = np.exp(point * mean) * np.cos(angle) * width
            term /= squares.products(point * point) * np.sin(np.pi * point)
        # An overflowing product in the denominator belongs to a vanished term.
        term = np.where(np.isfinite(term), term, 0.0)
        total += (0.5 if k == 0 else 1.0) * term.real
        if np.max(np.abs(term), initial=0.0) < _NEGLIGIBLE:
            break
    return np.clip(-_STEP * total, 0.0, 1.0)


def laplace_sigmoid_expectation(mean, X, scale):
    """E sigma(x^T theta) for independent theta_j ~ Laplace(m_j, scale_j).

    Parameters
    ----------
    mean : array (n,)
        ``X @ m`` (plus an offset, if the model has one).
    X : array or CSR matrix (n, dim)
    scale : array (dim,)
        Scales b of the Laplace densities exp(-\\|t - m\\| / b) / (2 b).

    Returns
    -------
    probability : array (n,), absolute error below 1e-9

    Notes
    -----
    Equals the characteristic-function integral
    1/2 + int_0^inf sin(t mean) prod_j (1 + t^2 b_j^2 x_j^2)^{-1} / sinh(pi t) dt
    on a contour in the complex plane where it does not oscillate.
    """
    mean = np.asarray(mean, dtype=float)
    scale = np.asarray(scale, dtype=float)
    n, dim = X.shape
    out = np.empty(n)
    per_row = dim if isinstance(X, np.ndarray) else X.nnz // max(1, n)
    # Temporaries of one block of rows stay in the cache.
    rows = max(1, (1 << 16) // max(1, per_row))
    for start in range(0, n, rows):
        block = slice(start, start + rows)
        tail = _tail_probability(np.abs(mean[block]), _Squares(X[block], scale))
        out[block] = np.where(mean[block] > 0.0, 1.0 - tail, tail)
    return out
