"""Families with heavier tails than a Gaussian: Laplace and elliptical Student-t."""

from math import log, pi, sqrt
from numbers import Real

import numpy as np
from scipy.special import gammaincinv, gammaln, ndtri, psi, stdtr, stdtrit

from skboost._parallel import scratch
from skboost.families._base import VariationalFamily
from skboost.families._component import Evaluation
from skboost.families._diagonal import DiagonalGaussian, LocationScale
from skboost.families._full import FullGaussian
from skboost.families._moments import symmetric
from skboost.families._structured import gaussian_of


class LaplaceEvaluation(Evaluation):
    """Product of Laplace densities at points."""

    def __init__(self, location, log_scale, scale, theta):
        self._scale = scale
        # One array is kept: every other one would have to be paged in anew.
        self._z = theta - location
        self._z /= scale
        constant = -location.size * log(2) - log_scale.sum()
        self.log_density = constant - np.einsum("ij->i", self._of_z(np.abs))

    def _of_z(self, function):
        return function(self._z, out=scratch("of_z", self._z.shape))

    def score(self, rows=slice(None)):
        score = np.sign(self._z[rows])
        score /= -self._scale
        return score

    def pull(self, cotangent):
        g_location = (cotangent @ self._of_z(np.sign)) / self._scale
        g_log_scale = cotangent @ self._of_z(np.abs) - cotangent.sum()
        return np.concatenate([g_location, g_log_scale])


class Laplace(LocationScale, VariationalFamily):
    """Products of Laplace densities, ``exp(-|theta_j - m_j| / b_j) / (2 b_j)``.

    The base family of the experiments of Dresdner et al. and Locatello et al. 2018.
    ``params = (m, log b)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import Laplace
    >>> family = Laplace()
    >>> params = np.array([1.0, -1.0, 0.0, 0.0])  # locations, then logarithms of scales
    >>> family.log_density(np.zeros((1, 2)), params).round(2)
    array([-3.39])
    """

    distribution = "laplace"
    maps_to_cube = True
    tail_power = 1.0
    unit_variance = 2.0
    unit_entropy = 1 + log(2)
    log_scale_step = 1.0

    def matched_draws(self, n, dim, rng):
        return symmetric(self.base_draws(n, dim, rng), self.unit_variance)

    def _quantile(self, u):
        # Both branches measure the distance to the nearer end, where it is small.
        return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))

    def uniform(self, z):
        tail = 0.5 * np.exp(-np.sqrt(2.0) * np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def from_uniform(self, u):
        return self._quantile(u) / np.sqrt(2.0)

    def at(self, params, theta):
        return LaplaceEvaluation(*self.split(params), theta)

    def std(self, params):
        return np.sqrt(self.unit_variance) * self.split(params)[2]

    def mean_exponential(self, params, i, power):
        square = 0.5 * (power * self.std(params)[i]) ** 2
        if square >= 1:
            return np.inf
        return np.exp(power * self.mean(params)[i]) / (1.0 - square)

    def moments(self, params):
        return self.mean(params), np.diag(self.std(params) ** 2)

    def _residual(self, params, i, x):
        location, log_scale, scale = self.split(params)
        return (x - location[i]) / scale[i], log_scale[i]

    def marginal_cdf(self, params, i, x):
        z, _ = self._residual(params, i, x)
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    def marginal_log_density(self, params, i, x):
        z, log_scale = self._residual(params, i, x)
        return -np.abs(z) - log_scale - log(2)


# --- Student-t: a Gaussian whose draws share a random length


# Degrees of freedom tried by df="auto": nearly no variance, nearly no kurtosis, a
# tail that a logistic posterior has, and nearly a Gaussian.
AUTO_DF = (2.5, 4.0, 8.0, 30.0)


class StudentTEvaluation(Evaluation):
    """Student-t density: slopes are the Gaussian's times ``(df + dim) / (df +
    length^2)``."""

    def __init__(self, gaussian, family, params):
        df, dim = family._nu, family.dim_of(params)
        self._gaussian, self._scale_mask = gaussian, family.scale_mask(dim)
        self._share = (df + dim) / (df + gaussian.squared)
        fall = 0.5 * (df + dim) * np.log1p(gaussian.squared / df)
        self.log_density = family.log_peak(params) - fall

    def score(self, rows=slice(None)):
        return self._share[rows, None] * self._gaussian.score(rows)

    def pull(self, cotangent):
        # The log determinant in the Gaussian's pull must not take the share.
        surplus = cotangent @ (self._share - 1.0)
        return self._gaussian.pull(cotangent * self._share) + surplus * self._scale_mask


class StudentT(VariationalFamily):
    """Elliptical Student-t densities, with heavier tails than the Gaussian.

    A draw is ``m + L eps sqrt(df / w)`` with eps standard normal and w chi-squared
    with `df` degrees of freedom. Parameters are those of the Gaussian with the same
    covariance structure, which here describe the scale matrix ``L L^T``; the
    covariance is ``df / (df - 2)`` times it where df > 2, and infinite otherwise.

    Parameters
    ----------
    covariance : {"full", "diag"}, default="full"
        Structure of the scale matrix. ``"diag"`` makes coordinates uncorrelated, but
        not independent: a draw is far out in all of them at once.
    df : float, "auto" or tuple of float, default=5.0
        Degrees of freedom. A tuple lets every component have the best of its values;
        ``"auto"`` is ``(2.5, 4, 8, 30)``. Only a family with one number is a density;
        `variants` gives those.

    Raises
    ------
    ValueError
        When first used, if `covariance` or `df` is none of these, or if a density is
        asked of a family with several values of `df`.

    Notes
    -----
    The first two moments exist for df > 2, the mean for df > 1: `std` is infinite and
    `mean` nan where they do not. `location` and `scale` always exist.

    Examples
    --------
    >>> from skboost import BoostedBayesianPoissonRegression
    >>> from skboost.families import StudentT
    >>> model = BoostedBayesianPoissonRegression(family=StudentT(df="auto"))
    """

    distribution = "student_t"
    maps_to_cube = True

    def __init__(self, covariance="full", df=5.0):
        self.covariance = covariance
        self.df = df

    def variants(self):
        several = AUTO_DF if _is_auto(self.df) else self.df
        if not isinstance(several, (tuple, list)):
            return (self,)
        if not several:
            raise ValueError(
                "df must hold at least one number where it is a tuple; got ()."
            )
        return tuple(type(self)(self.covariance, _checked_df(df)) for df in several)

    @property
    def _nu(self):
        if _is_auto(self.df) or isinstance(self.df, (tuple, list)):
            raise ValueError(
                f"df must be one number where a density is asked for; got {self.df!r}, "
                "which leaves the choice open. Use one of the families in variants()."
            )
        return _checked_df(self.df)

    @property
    def gaussian(self):
        """The Gaussian family whose covariance is the scale matrix."""
        return gaussian_of(self, full=FullGaussian, diag=DiagonalGaussian)

    @property
    def full_covariance(self):
        return self.gaussian.full_covariance

    def n_params(self, dim):
        return self.gaussian.n_params(dim)

    def dim_of(self, params):
        return self.gaussian.dim_of(params)

    def scale_mask(self, dim):
        return self.gaussian.scale_mask(dim)

    def entropy_gradient(self, params):
        return self.gaussian.entropy_gradient(params)

    def structure(self, params):
        return self.gaussian.structure(params)

    def spread(self, params):
        return self.gaussian.structure(params)

    def widen(self, params, width):
        return self.gaussian.widen(params, width)

    def base_dim(self, dim):
        return dim + 1

    def _quantile(self, u):
        """Standard normals, and in the last column ``sqrt(df / w)``."""
        eps = ndtri(u)
        eps[..., -1] = np.sqrt(0.5 * self._nu / gammaincinv(0.5 * self._nu, u[..., -1]))
        return eps

    def uniform(self, z):
        # Given the coordinates before it, each has a Student-t distribution of one
        # degree of freedom more, and the wider the further out these are.
        df = self._nu + np.arange(z.shape[-1])
        before = np.cumsum(z**2, axis=-1) - z**2
        return stdtr(df, z * np.sqrt(df / (self._nu + before)))

    def from_uniform(self, u):
        df = self._nu + np.arange(u.shape[-1])
        # Of the half below the centre alone: the other end has fewer digits.
        z = np.where(u < 0.5, 1.0, -1.0) * stdtrit(df, np.minimum(u, 1.0 - u))
        total = np.full(u.shape[:-1], self._nu)
        for j, one in enumerate(df):
            z[..., j] *= np.sqrt(total / one)
            total = total + z[..., j] ** 2
        return z

    def transport(self, params, eps):
        return self.gaussian.transport(params, eps[:, :-1] * eps[:, -1:])

    def pull_transport(self, params, eps, cotangent):
        eps = eps[:, :-1] * eps[:, -1:]
        return self.gaussian.pull_transport(params, eps, cotangent)

    def at(self, params, theta):
        return StudentTEvaluation(self.gaussian.at(params, theta), self, params)

    def log_peak(self, params):
        nu, dim = self._nu, self.dim_of(params)
        log_determinant = self.gaussian.entropy(params) - 0.5 * dim * (1 + log(2 * pi))
        return float(_log_constant(nu, dim) - log_determinant)

    def entropy(self, params):
        # E ln(1 + length^2 / df) is a difference of digamma functions.
        nu, dim = self._nu, self.dim_of(params)
        spread = 0.5 * (nu + dim) * (psi(0.5 * (nu + dim)) - psi(0.5 * nu))
        return float(spread - self.log_peak(params))

    def location(self, params):
        return self.gaussian.mean(params)

    def mean(self, params):
        location = self.location(params)
        return location if self._nu > 1 else np.full(location.shape, np.nan)

    def scale(self, params):
        return self.gaussian.std(params)

    @property
    def _variance(self):
        """Variance of one standardised coordinate."""
        return self._nu / (self._nu - 2.0) if self._nu > 2 else np.inf

    def std(self, params):
        return sqrt(self._variance) * self.scale(params)

    def moments(self, params):
        """Mean (dim,) and covariance (dim, dim), infinite or nan where df is too
        small."""
        if self._nu > 2:
            mean, scale_matrix = self.gaussian.moments(params)
            return mean, self._variance * scale_matrix
        covariance = np.full((self.dim_of(params),) * 2, np.nan)
        np.fill_diagonal(covariance, np.inf)
        return self.mean(params), covariance

    def from_moments(self, mean, covariance):
        """As `VariationalFamily.from_moments`; where df <= 2 of the scale matrix."""
        shrunk = np.asarray(covariance, dtype=float)
        if self._nu > 2:
            shrunk = shrunk / self._variance
        return self.gaussian.from_moments(mean, shrunk)

    def move(self, params, x):
        return self.gaussian.move(params, self._whitened(x))

    def pull_move(self, params, x, gradient):
        x = self._whitened(x)
        return self._whitened(self.gaussian.pull_move(params, x, gradient))

    def _whitened(self, x):
        """The Gaussian's moves at unit Fisher information of this family.

        It is less by (df + dim) / (df + dim + 2), of the common scale by df / (df +
        dim) more; the map is symmetric.
        """
        nu, dim = self._nu, self.dim_of(x)
        mask = self.scale_mask(dim)
        common = (sqrt(1 + dim / nu) - 1.0) * x[mask].mean()
        return (x + common * mask) * sqrt((nu + dim + 2) / (nu + dim))

    def _standardised(self, params, i, x):
        scale = self.scale(params)[i]
        return (x - self.location(params)[i]) / scale, scale

    def mean_exponential(self, params, i, power):
        # Tails that are powers of theta are too heavy for any exponential.
        return np.inf

    def marginal_cdf(self, params, i, x):
        z, _ = self._standardised(params, i, x)
        return stdtr(self._nu, z)

    def marginal_log_density(self, params, i, x):
        nu = self._nu
        z, scale = self._standardised(params, i, x)
        bent = 0.5 * (nu + 1) * np.log1p(z**2 / nu)
        return _log_constant(nu, 1) - np.log(scale) - bent


def _log_constant(nu, dim):
    """Log density of the standard member at zero."""
    gammas = gammaln(0.5 * (nu + dim)) - gammaln(0.5 * nu)
    return gammas - 0.5 * dim * log(nu * pi)


def _is_auto(df):
    return isinstance(df, str) and df == "auto"


def _checked_df(df):
    if not (isinstance(df, Real) and not isinstance(df, bool) and 0 < df < np.inf):
        raise ValueError(
            "df must be a positive finite number, 'auto' or a tuple of such numbers; "
            f"got {df!r}. Use family='gaussian' for an infinite one."
        )
    return float(df)
