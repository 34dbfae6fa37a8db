"""Coordinates in which a search moves a component, zero where it starts."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrtri

from skboost._math import LOG_2PI
from skboost.families._evaluation import Evaluation

# A scale may leave its start by this factor (in logarithms) within one search.
LOG_SCALE_RANGE = 7.0
# Length, in standard deviations, below which a shift has no direction yet.
_SHORT = 0.1


@dataclass(frozen=True)
class Chart:
    """All parameters of a component, scaled to unit Fisher information.

    Parameters
    ----------
    family : VariationalFamily
    params : ndarray of shape (n_params,)
        Where the search starts.
    """

    family: object
    params: np.ndarray

    @property
    def size(self):
        """Number of coordinates."""
        return len(self.params)

    @property
    def scale_mask(self):
        """Which coordinates are log scales."""
        return self.family.scale_mask(self.family.dim_of(self.params))

    @property
    def limits(self):
        """Largest absolute value of every coordinate, inf for free ones."""
        return np.where(self.scale_mask, LOG_SCALE_RANGE, np.inf)

    def at_limit(self, x):
        """Whether a scale stopped at the end of its range."""
        return bool(np.any(np.abs(x[self.scale_mask]) > 0.98 * LOG_SCALE_RANGE))

    def move(self, x):
        """Parameters at coordinates `x`."""
        return self.family.move(self.params, x)

    def pull(self, x, gradient):
        """Gradient in `x` from the gradient in the parameters."""
        return self.family.pull_move(self.params, x, gradient)

    @property
    def line_factor(self):
        """Factor of the covariance that `line` stretches; None for other charts."""
        return None


@dataclass(frozen=True)
class LineChart(Chart):
    """A shift, a scale, and a scale along the shift: dim + 2 coordinates.

    A full covariance has dim (dim + 3) / 2 parameters, more than a few hundred draws
    can tell apart: a search over all of them fits the draws. Where a component
    splits off along a line, which is how skewed posteriors fall apart, these
    coordinates hold the split exactly, and repeated searches add up their lines.

    In coordinates whitened by the start, the covariance becomes
    ``e^{2a} (I + (e^{2b} - 1) v v^T)`` with v the direction of the shift; its
    Cholesky factor has a closed form, diagonal plus the lower half of rank one.
    """

    @property
    def size(self):
        return self.family.dim_of(self.params) + 2

    @property
    def scale_mask(self):
        mask = np.zeros(self.size, dtype=bool)
        mask[-2:] = True
        return mask

    def move(self, x):
        line = _Triangle(x)
        full = self.family.inner(line.mean, line.factor)
        return self.family.compose(self.params, full)

    def pull(self, x, gradient):
        line = _Triangle(x)
        full = self.family.inner(line.mean, line.factor)
        return line.pull(*self.family.pull_compose(self.params, full, gradient))

    @cached_property
    def line_factor(self):
        return self.family.structure(self.params)[2]

    def line(self, x):
        """The moved component as N(mean, scale (F F^T + stretch u u^T)).

        Parameters
        ----------
        x : ndarray of shape (dim + 2,)

        Returns
        -------
        mean : ndarray of shape (dim,)
        scale, stretch : float
        direction : ndarray of shape (dim,)
            u; F is `line_factor`.
        """
        line, factor = _Line(x), self.line_factor
        mean = self._centre + factor @ line.mean
        return mean, float(np.exp(2.0 * line.a)), float(line.beta), factor @ line.v

    @cached_property
    def _centre(self):
        return self.family.structure(self.params)[0]

    @cached_property
    def _inverse(self):
        return dtrtri(self.line_factor, lower=1)[0]

    def whiten(self, theta):
        """Points (n, dim) in coordinates that the start whitens."""
        return (theta - self._centre) @ self._inverse.T

    def whitened_draws(self, x, eps):
        """Draws (n, dim) of the moved component, whitened by the start."""
        return _Triangle(x).transport(eps)

    def at(self, x, whitened):
        """The moved component at points in coordinates that the start whitens.

        Parameters
        ----------
        x : ndarray of shape (dim + 2,)
        whitened : ndarray of shape (n, dim)

        Returns
        -------
        LineEvaluation
        """
        return LineEvaluation(_Line(x), whitened, self._inverse)

    def pull_line(self, x, g_mean, g_scale, g_stretch, g_direction):
        """Gradient in `x` from gradients in what `line` returns."""
        line, factor = _Line(x), self.line_factor
        d_shift = g_mean @ factor + line.pull_direction(g_direction @ factor)
        d_a = 2.0 * np.exp(2.0 * line.a) * g_scale
        return np.concatenate([d_shift, [d_a, 2.0 * line.stretch * g_stretch]])


class _Line:
    """Shift, scale and stretch of the whitened component at coordinates x."""

    def __init__(self, x):
        self.mean, self.a, b = x[:-2], x[-2], x[-1]
        self.length = np.sqrt(self.mean @ self.mean + _SHORT**2)
        self.v = self.mean / self.length
        self.stretch = np.exp(2.0 * b)
        self.beta = self.stretch - 1.0

    def pull_direction(self, d_v):
        """Gradient in the mean from one in its direction."""
        return (d_v - self.v * (self.v @ d_v)) / self.length


class _Triangle(_Line):
    """The same with the Cholesky factor of the covariance."""

    def __init__(self, x):
        super().__init__(x)
        self.squares = np.cumsum(self.v**2)
        self.t = 1.0 + self.beta * self.squares
        self.before = np.concatenate([[1.0], self.t[:-1]])
        self.root = np.sqrt(self.t * self.before)
        self.w = self.beta * self.v / self.root
        self.lower = np.tril(np.outer(np.exp(self.a) * self.v, self.w), -1)
        self.log_diagonal = self.a + 0.5 * np.log(self.t / self.before)

    def transport(self, eps):
        """Whitened draws, without the factor: diagonal, and rank one below it."""
        below = np.cumsum(eps * self.w, axis=1)
        draws = eps * np.exp(self.log_diagonal)
        draws[:, 1:] += np.exp(self.a) * self.v[1:] * below[:, :-1]
        draws += self.mean
        return draws

    @property
    def factor(self):
        factor = self.lower.copy()
        factor[np.diag_indices_from(factor)] = np.exp(self.log_diagonal)
        return factor

    def pull(self, d_mean, d_lower, d_log_diagonal):
        """Gradient in x; `d_lower` is strictly lower triangular."""
        scale = np.exp(self.a)
        d_a = np.sum(d_lower * self.lower) + d_log_diagonal.sum()
        d_v = scale * (d_lower @ self.w)
        d_w = scale * (self.v @ d_lower)
        d_v += d_w * self.beta / self.root
        d_beta = d_w @ (self.v / self.root)
        half = -0.5 * d_w * self.w
        d_log_t = half + 0.5 * d_log_diagonal
        d_log_t[:-1] += (half - 0.5 * d_log_diagonal)[1:]
        d_t = d_log_t / self.t
        d_beta += d_t @ self.squares
        d_v += 2.0 * self.v * np.cumsum((self.beta * d_t)[::-1])[::-1]
        d_shift = d_mean + self.pull_direction(d_v)
        return np.concatenate([d_shift, [d_a, 2.0 * self.stretch * d_beta]])


class LineEvaluation(Evaluation):
    """A component moved along a line, at points in coordinates whitened by its start.

    The covariance there is ``e^{2a} (I + beta v v^T)``, whose inverse is as short, so
    that points cost ``dim`` operations each.

    Parameters
    ----------
    line : _Line
    whitened : ndarray of shape (n, dim)
    inverse : ndarray of shape (dim, dim)
        Of the start's Cholesky factor.
    """

    def __init__(self, line, whitened, inverse):
        self._line, self._inverse = line, inverse
        dim = whitened.shape[1]
        self._away = whitened - line.mean
        self._along = self._away @ line.v
        self._precision = np.exp(-2.0 * line.a)
        self._volume = 1.0 + line.beta * (line.v @ line.v)
        self._kappa = line.beta / self._volume
        squares = np.einsum("ij,ij->i", self._away, self._away)
        self._squared = squares - self._kappa * self._along**2
        constant = np.log(np.diagonal(inverse)).sum() - dim * line.a
        constant -= 0.5 * (dim * LOG_2PI + np.log(self._volume))
        self.log_density = constant - 0.5 * self._precision * self._squared

    def score(self, rows=slice(None)):
        away = self._kappa * np.outer(self._along[rows], self._line.v)
        away -= self._away[rows]
        return self._precision * (away @ self._inverse)

    def pull(self, cotangent):
        """Vector-Jacobian product in the coordinates of the chart, points fixed."""
        line, precision, kappa = self._line, self._precision, self._kappa
        total, along = cotangent.sum(), cotangent * self._along
        d_mean = precision * (cotangent @ self._away - kappa * along.sum() * line.v)
        d_a = precision * (cotangent @ self._squared) - line.v.size * total
        d_kappa = 0.5 * precision * (along @ self._along)
        d_beta = d_kappa / self._volume**2
        d_beta -= 0.5 * total * (line.v @ line.v) / self._volume
        d_v = precision * kappa * (along @ self._away)
        d_v -= (total * kappa + 2.0 * d_kappa * kappa**2) * line.v
        d_shift = d_mean + line.pull_direction(d_v)
        return np.concatenate([d_shift, [d_a, 2.0 * line.stretch * d_beta]])
