"""Expected logistic functions under Laplace and Student-t coefficients, and their logs.

Expectations that are accurate to 1e-11 say nothing of a probability of 1e-300. In the
logarithms no term cancels another: every sum is of one sign, or of terms that alternate
and fall.
"""

from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.special import erfcx, gammaincinv, log_ndtr

from skboost._parallel import row_blocks
from skboost.targets._logistic_gaussian import sigmoid_expectation


class _Squares:
    """Squared scales of the Laplace terms of each row, and products over a row."""

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

    def _reduced(self, ufunc, values):
        out = np.full(self.n_rows, ufunc.identity, dtype=values.dtype)
        if self.filled.size:
            out[self.filled] = ufunc.reduceat(values, self.starts)
        return out

    def totals(self):
        return self._reduced(np.add, self.values)

    def products(self, square):
        """Product over a row's terms of ``1 - square * term``."""
        factors = 1.0 - np.repeat(square, self.lengths) * self.values
        return self._reduced(np.multiply, factors)


def _tail_probability(mean, squares):
    """P(W < 0), W = mean + Laplace terms + a standard logistic, mean >= 0.

    The inverse Laplace transform of W's moment generating function along a hyperbola
    between its real poles, where the integrand decays exponentially.
    """
    # The contour of integration: left-opening hyperbolas sin(-bend + i x). In the strip
    # 0 < bend < pi/4 the integrand is analytic and decays; the middle of the strip and
    # this step leave an error of exp(-2 pi (pi/8) / step), about 1e-11.
    bend, step, negligible, max_nodes = np.pi / 8, 0.0975, 1e-13, 1000
    sd = np.sqrt(2.0 * squares.totals() + np.pi**2 / 3.0)
    width = 0.5 / sd
    total = np.zeros(mean.size)
    for k in range(max_nodes):
        angle = complex(-bend, k * step)
        point = width * (np.sin(angle) - 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            term = np.exp(point * mean) * np.cos(angle) * width
            term /= squares.products(point * point) * np.sin(np.pi * point)
        # An overflowing product in the denominator belongs to a vanished term.
        term = np.where(np.isfinite(term), term, 0.0)
        total += (0.5 if k == 0 else 1.0) * term.real
        if np.max(np.abs(term), initial=0.0) < negligible:
            break
    return np.clip(-step * total, 0.0, 1.0)


def laplace_sigmoid_expectation(mean, X, scale):
    """E sigma(x^T theta) for independent theta_j ~ Laplace(m_j, scale_j), to 1e-9.

    `mean` is ``X @ m``, plus an offset: 1/2 + int_0^inf sin(t mean) prod_j (1 + t^2
    b_j^2 x_j^2)^{-1} / sinh(pi t) dt, on a complex contour.
    """
    mean = np.asarray(mean, dtype=float)
    scale = np.asarray(scale, dtype=float)
    n, dim = X.shape
    out = np.empty(n)
    per_row = dim if isinstance(X, np.ndarray) else X.nnz // max(1, n)
    for block in row_blocks(n, per_row, 1 << 16):
        tail = _tail_probability(np.abs(mean[block]), _Squares(X[block], scale))
        out[block] = np.where(mean[block] > 0.0, 1.0 - tail, tail)
    return out


@lru_cache(maxsize=32)
def student_t_radii(df, cut=1e-13):
    """Nodes and weights for sqrt(df / w), w chi-squared with `df` degrees of freedom.

    A trapezoid rule in ln w, analytic, with a step of three quarters of the density's
    width; `cut` is the mass left out at the lower end, which is a power.
    """
    half = 0.5 * df
    step = 0.75 / np.sqrt(half + 2.0)
    # The lower tail of a gamma variable is a power: its end follows from the mass.
    low = np.log(gammaincinv(half, cut))
    high = np.log(half + 8.0 * np.sqrt(half) + 40.0)
    x = np.arange(low, high + step, step)
    weights = np.exp(half * (x - np.log(half)) - (np.exp(x) - half))
    weights /= weights.sum()
    nodes = np.sqrt(half * np.exp(-x))
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def sigmoid_over_scales(location, scale, nodes, shares):
    """E sigma(t), t Gaussian of scale ``node * scale`` by shares; errors below 1e-9."""
    location, scale = np.broadcast_arrays(location, scale)
    total = np.zeros(location.shape)
    for node, share in zip(nodes, shares, strict=True):
        total += share * sigmoid_expectation(location, node * scale)
    return total


# Probabilities below it are taken from rules for tails; errors of 1e-11 do not matter
# above.
_SMALL = 1e-4
# Nodes along the contour of `log_laplace_sigmoid`, in widths of its saddle: the poles
# are one width off, and the slowest decay is exp(-u).
_CONTOUR = np.arange(0.0, 30.0, 0.2)
_BEND = 0.4


def _alternating(n):
    """Weights of an alternating sum of moments, with errors below 5.8^-n.

    Cohen, Rodriguez Villegas, Zagier 2000, Algorithm 1.
    """
    d = 0.5 * ((3.0 + np.sqrt(8.0)) ** n + (3.0 - np.sqrt(8.0)) ** n)
    b, c, weights = -1.0, -d, []
    for k in range(n):
        c = b - c
        weights.append(c / d)
        b *= (k + n) * (k - n) / ((k + 0.5) * (k + 1.0))
    return weights


_WEIGHTS = _alternating(18)


def log_sigmoid_expectation(mean, sd):
    """``ln E sigma(t)`` for t ~ N(mean, sd^2), to 1e-12 of the probability.

    By alternating series in exp(k t), whose expectations are error functions.
    """
    mean, sd = np.broadcast_arrays(mean, sd)
    # A standard deviation of less changes no digit.
    least_sd = 1e-9
    sd = np.maximum(sd, least_sd)
    lower = _log_lower(np.abs(mean), sd)
    return np.where(mean > 0.0, np.log1p(-np.exp(lower)), lower)


def _log_lower(m, sd):
    """``ln E sigma(-t)`` for t ~ N(m, sd^2), m >= 0."""
    half_square = 0.5 * (m / sd) ** 2
    root = np.sqrt(2.0) * sd

    def below(k):
        """ln E exp(k t) where t < 0."""
        return np.log(0.5 * erfcx((k * sd**2 + m) / root)) - half_square

    def above(k):
        """ln E exp(-k t) where t > 0."""
        z = (k * sd**2 - m) / root
        near = np.log(0.5 * erfcx(np.maximum(z, 0.0))) - half_square
        far = log_ndtr(-np.sqrt(2.0) * z) - k * m + 0.5 * (k * sd) ** 2
        return np.where(z > 0.0, near, far)

    return np.logaddexp(_log_series(below, 0), _log_series(above, 1))


def _log_series(log_term, first):
    """Logarithm of an alternating series from the term of index `first`."""
    top = log_term(first)
    total = _WEIGHTS[0] * np.ones_like(top)
    for k, weight in enumerate(_WEIGHTS[1:], first + 1):
        total += weight * np.exp(log_term(k) - top)
    return top + np.log(total)


def log_student_t_sigmoid(location, scale, df):
    """``ln E sigma(t)`` for t Student-t, over scales; below 1e-100 part of the tail
    only."""
    total = _over_radii(location, scale, student_t_radii(float(df)))
    # Further out the mass that this rule cuts off is what counts.
    tail = total < np.log(_SMALL)
    # Student-t: mass cut off at either end where the tails count, a power.
    cut = 1e-100
    if tail.any():
        rule = student_t_radii(float(df), cut)
        total[tail] = _over_radii(location[tail], scale[tail], rule)
    return total


def _over_radii(location, scale, rule):
    total = np.full(np.shape(location), -np.inf)
    for node, weight in zip(*rule, strict=True):
        part = log_sigmoid_expectation(location, node * scale)
        np.logaddexp(total, np.log(weight) + part, out=total)
    return total


def log_laplace_sigmoid(mean, rows, scale):
    """``ln E sigma(t)`` for ``t = mean + rows @ (scale * e)``, e standard Laplace, to
    1e-6.

    ``E sigma(-t)`` is the integral of ``pi / sin(pi z) M(-z)`` over a line through the
    saddle point before the first pole, M the moment generating function.
    """
    direct = laplace_sigmoid_expectation(-np.abs(mean), rows, scale)
    lower = np.log(np.maximum(direct, np.finfo(float).tiny))
    for i in np.flatnonzero(direct < _SMALL):
        row = rows[[i]].toarray()[0] if sparse.issparse(rows) else rows[i]
        widths = np.abs(row * scale)
        lower[i] = _laplace_lower(abs(mean[i]), widths[widths > 0.0])
    return np.where(mean > 0.0, np.log1p(-np.exp(lower)), lower)


def _laplace_lower(m, widths):
    """The same of ``-t`` for one row with m >= 0."""

    def exponent(z):
        terms = np.log1p(-np.multiply.outer(z**2, widths**2)).sum(axis=-1)
        return np.log(np.pi / np.sin(np.pi * z)) - m * z - terms

    def slope(c):
        poles = 2.0 * widths**2 * c / (1.0 - (widths * c) ** 2)
        return poles.sum() - np.pi / np.tan(np.pi * c) - m

    low, high = 0.0, 1.0 / max(1.0, widths.max(initial=0.0))
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0.0 else (middle, high)
    c = low if low > 0.0 else high
    squares = (widths * c) ** 2
    bend = (2.0 * widths**2 * (1.0 + squares) / (1.0 - squares) ** 2).sum()
    width = 1.0 / np.sqrt(bend + (np.pi / np.sin(np.pi * c)) ** 2)
    u = _CONTOUR
    z = c + width * (1j * u + _BEND * u**2)
    top = exponent(np.array(c + 0j)).real
    values = np.exp(exponent(z) - top) * (1.0 - 2j * _BEND * u)
    step = u[1] - u[0]
    total = step * (2.0 * values.real.sum() - values.real[0])
    return top + np.log(width * total / (2.0 * np.pi))
