"""Prior densities of independent coordinates, and their Gaussian expectations."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ndtr
from sklearn.base import BaseEstimator

from skboost._math import LOG_2PI
from skboost._parameters import ParameterNames
from skboost.targets._quadrature import LogGrid, gaussian_expectation_1d
from skboost.targets._scale_mixtures import horseshoe_mixture


class PriorExpectation(NamedTuple):
    """Expected log prior under independent Gaussian margins, nats, and derivatives."""

    value: float
    d_mean: np.ndarray
    d_variance: np.ndarray


# Numbers of which densities at many scales are interpolated.
_MANY = 500


def validate_scale(scale, n):
    """``prior_scale`` as a float array (n,); a ValueError says what is wrong."""
    try:
        values = np.asarray(scale, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"prior_scale must be a number or an array of shape ({n},); got {scale!r}."
        ) from error
    if values.ndim > 1 or (values.ndim == 1 and values.size not in (1, n)):
        raise ValueError(
            f"prior_scale must be a scalar or have one entry per coefficient, shape "
            f"({n},); got shape {values.shape}. Pass a scalar to use it everywhere."
        )
    bad = ~(np.isfinite(values) & (values > 0.0))
    if np.any(bad):
        worst = values[bad].ravel()[0] if values.ndim else values[()]
        raise ValueError(
            f"prior_scale must be positive and finite; got {worst}. For a nearly flat "
            "prior use a large number instead."
        )
    return np.array(np.broadcast_to(values, (n,)))


class Prior(ParameterNames, BaseEstimator):
    """Prior with independent coordinates theta_j = scale_j * z_j.

    A subclass gives ``_standard(z)``: log density and score of z. It may override
    ``_standard_expected`` where the Gaussian expectation has a closed form; the
    default integrates numerically and needs a smooth density.

    Parameters
    ----------
    scale : float or array-like (dim,), default=1.0
        Used where no other scale is given.

    Examples
    --------
    >>> from skboost.priors import LaplacePrior, NormalPrior, Prior, StudentTPrior
    >>> priors = NormalPrior(), LaplacePrior(), StudentTPrior()
    >>> all(isinstance(prior, Prior) for prior in priors)
    True
    """

    # Whether the log density is concave.
    log_concave = False
    # Whether its Gaussian expectations are known.
    closed = True
    # The power p where it is exp(-|z|^p) up to constants; None for others.
    power = None
    # Whether it is symmetric and smooth, but at zero.
    symmetric = False

    def __init__(self, scale=1.0):
        self.scale = scale

    def resolve_scale(self, n, scale=None):
        """The scale as an array (n,); ``scale`` overrides the prior's own."""
        return validate_scale(self.scale if scale is None else scale, n)

    def log_density(self, theta, scale):
        """Log prior density (n_draws,), nats, of draws `theta` (n_draws, dim), at
        `scale` (dim,)."""
        return self.value_and_score(theta, scale)[0]

    def value_and_score(self, theta, scale):
        """Log density (n_draws,) and its gradient (n_draws, dim)."""
        value, score = self._standard(theta / scale)
        return value.sum(axis=1) - np.log(scale).sum(), score / scale

    def expected(self, mean, variance, scale):
        """`PriorExpectation` where theta_j is Gaussian with mean and variance given,
        (dim,).

        A variance of zero is a point.
        """
        value, d_mean, d_variance = self._standard_expected(
            mean / scale, variance / scale**2
        )
        return PriorExpectation(
            float(value.sum() - np.log(scale).sum()),
            d_mean / scale,
            d_variance / scale**2,
        )

    def log_at_scales(self, z, s):
        """Log density (n_draws, n_scales), nats, of `z` (n_draws, dim) under common
        scales `s`."""
        volume = z.shape[1] * np.log(s)
        if self.power is None and self.symmetric and z.size > _MANY:
            places = LogGrid(z, s)
            return places.counts() @ self._standard(places.nodes / s)[0] - volume
        if self.power is None:
            columns = [self._standard(z / one)[0].sum(axis=1) for one in s]
            return np.column_stack(columns) - volume
        peak = self._standard(np.zeros((1, z.shape[1])))[0].sum()
        fall = peak - self._standard(z)[0].sum(axis=1)
        return peak - fall[:, None] * s**-self.power - volume

    def score_at_scales(self, z, s, share):
        """Average of gradients (n_draws, dim) by the weights ``share`` (n_draws,
        n_scales)."""
        if self.power is not None:
            return (share @ s**-self.power)[:, None] * self._standard(z)[1]
        if self.symmetric and z.size > _MANY:
            places = LogGrid(z, s)
            ratio = places.nodes / s
            return places.at(share @ (ratio * self._standard(ratio)[1]).T) / places.z
        used = np.flatnonzero(share.max(axis=0) > 1e-12)
        parts = (share[:, [k]] * self._standard(z / s[k])[1] / s[k] for k in used)
        return sum(parts)

    def _standard(self, z):
        raise NotImplementedError(
            f"{type(self).__name__} must define _standard(z): log density and score."
        )

    def _standard_expected(self, mean, variance):
        # Differences of the score stand in for its derivative at a point mass.
        sd = np.sqrt(np.maximum(variance, 1e-8))

        def terms(t):
            value, score = self._standard(t)
            return np.stack([value, score, score * (t - mean) / (2.0 * sd**2)])

        return gaussian_expectation_1d(terms, mean, sd)


class FlatPrior(Prior):
    """No prior at all: a likelihood whose prior stands elsewhere."""

    log_concave = True

    def _standard(self, z):
        return np.zeros_like(z), np.zeros_like(z)

    def _standard_expected(self, mean, variance):
        return (np.zeros_like(mean),) * 3


class NormalPrior(Prior):
    """Independent Normal(mean, scale^2) coordinates.

    Parameters
    ----------
    scale : float or array-like (dim,), default=1.0
        Standard deviation.
    mean : float, default=0.0
        Other than zero for single coefficients only: ``prior={"age": NormalPrior(0.5,
        mean=1.0)}`` of a linear model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.priors import NormalPrior
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> known = {"bmi": NormalPrior(10.0, mean=700.0)}
    >>> bool(BoostedBayesianLinearRegression(prior=known).fit(X, y).coef_[2] > 600)
    True
    """

    log_concave = True
    power = 2.0

    def __init__(self, scale=1.0, mean=0.0):
        self.scale = scale
        self.mean = mean

    def _standard(self, z):
        return -0.5 * (z * z + LOG_2PI), -z

    def _standard_expected(self, mean, variance):
        value = -0.5 * (mean**2 + variance + LOG_2PI)
        return value, -mean, np.full_like(mean, -0.5)


class LaplacePrior(Prior):
    """Independent Laplace(0, scale) coordinates: ``exp(-|t| / b) / (2 b)``.

    Parameters
    ----------
    scale : float or array-like (dim,), default=1.0
        The Laplace scale b; the standard deviation is sqrt(2) b.

    Examples
    --------
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.priors import LaplacePrior
    >>> model = BoostedBayesianLogisticRegression(prior=LaplacePrior(0.5))
    """

    log_concave = True
    power = 1.0

    def _standard(self, z):
        return -np.abs(z) - np.log(2.0), -np.sign(z)

    def _standard_expected(self, mean, variance):
        # A floor this small keeps a point mass at a nonzero mean exact.
        sd = np.sqrt(np.maximum(variance, 1e-280))
        ratio = np.minimum(np.abs(mean) / sd, 50.0)
        density = np.exp(-0.5 * ratio**2 - 0.5 * LOG_2PI) / sd
        slope = np.sign(mean) * (1.0 - 2.0 * ndtr(-ratio))
        value = mean * slope + 2.0 * sd**2 * density
        return -value - np.log(2.0), -slope, -density


class StudentTPrior(Prior):
    """Independent Student-t coordinates with ``df`` degrees of freedom.

    Parameters
    ----------
    df : float, default=4.0
        Positive; 1 is the Cauchy distribution.
    scale : float or array-like (dim,), default=1.0
        Not the standard deviation, which is larger, or infinite for ``df <= 2``.

    Examples
    --------
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.priors import StudentTPrior
    >>> prior = StudentTPrior(df=3, scale=2.5)
    >>> model = BoostedBayesianLogisticRegression(prior=prior)
    """

    symmetric = True

    def __init__(self, df=4.0, scale=1.0):
        self.df = df
        self.scale = scale

    def checked(self):
        """This prior; a ValueError where its degrees of freedom mean nothing."""
        df = self.df
        if not (np.isreal(df) and 0.0 < df < np.inf):
            raise ValueError(
                f"df must be a positive finite number; got {df!r}. Use NormalPrior "
                "for the limit of infinitely many degrees of freedom."
            )
        return self

    def _constant(self):
        df = self.checked().df
        return gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * np.log(np.pi * df)

    def _standard(self, z):
        constant, power = self._constant(), 0.5 * (self.df + 1.0)
        value = constant - power * np.log1p(z * z / self.df)
        return value, -2.0 * power * z / (self.df + z * z)

    def _standard_expected(self, mean, variance):
        constant, power = self._constant(), 0.5 * (self.df + 1.0)
        value, d_offset, d_spread = _expected_log1p_square(
            mean**2 / self.df, variance / self.df
        )
        return (
            constant - power * value,
            -2.0 * power * d_offset * mean / self.df,
            -power * d_spread / self.df,
        )


def _expected_log1p_square(offset, spread):
    """E ln(1 + t^2) for t ~ N(m, v), and derivatives in m^2 (`offset`) and v
    (`spread`).

    Frullani's integral int_0^inf (1 - exp(-u t^2)) exp(-u) / u du has a Gaussian
    expectation in closed form under the integral, which is smooth in ln u at every
    scale.
    """
    largest = 1.0 + np.max(offset + spread, initial=0.0)
    log_u = np.arange(-36.0 - np.log(largest), 3.8, 0.25)[:, None]
    u = np.exp(log_u)
    weight = 0.25 * np.exp(-u)
    shrink = 1.0 / (1.0 + 2.0 * u * spread)
    exponent = 0.5 * np.log(shrink) - u * offset * shrink
    decayed = weight * np.exp(exponent) * u * shrink
    value = -(weight * np.expm1(exponent)).sum(axis=0)
    d_offset = decayed.sum(axis=0)
    d_spread = (decayed * (1.0 - 2.0 * u * offset * shrink)).sum(axis=0)
    return value, d_offset, d_spread


class HorseshoePrior(Prior):
    """Independent horseshoe coordinates: most are near zero, few are large.

    Each is normal with a standard deviation whose prior is half-Cauchy. Sixteen of
    these stand for all, from 0.007 to 400: the density is a finite mixture, within
    2 % of the horseshoe's between a hundredth of the scale and a hundred times it, and
    bounded at zero.

    Leave `prior_scale` to be learned. At a fixed one boosting follows the many shapes
    of the posterior for ten iterations, which takes longer: try ``max_iter=1``.

    Parameters
    ----------
    scale : float or array-like (dim,), default=1.0
        Of the half-Cauchy prior.

    References
    ----------
    Carvalho, Polson, Scott: The horseshoe estimator for sparse signals, Biometrika 97,
    2010.

    Examples
    --------
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.priors import HorseshoePrior
    >>> model = BoostedBayesianLinearRegression(prior=HorseshoePrior())
    """

    symmetric = True

    def _standard(self, z):
        return horseshoe_mixture().log_density(z)

    def _standard_expected(self, mean, variance):
        # In u, where t = narrow sinh(u), the density is smooth everywhere, and Gaussian
        # margins of any width are.
        sd, narrow = np.sqrt(np.maximum(variance, 1e-16)), 1e-3
        low, high = (np.arcsinh((mean + end * sd) / narrow) for end in (-9.0, 9.0))
        u = np.linspace(low, high, 257)
        t = narrow * np.sinh(u)
        weight = np.exp(-0.5 * ((t - mean) / sd) ** 2) * np.cosh(u)
        weight /= weight.sum(axis=0)
        value, score = self._standard(t)
        slope = score * (t - mean) / (2.0 * sd**2)
        return tuple((weight * part).sum(axis=0) for part in (value, score, slope))


PRIORS = {
    "normal": NormalPrior,
    "laplace": LaplacePrior,
    "student_t": StudentTPrior,
    "cauchy": partial(StudentTPrior, df=1.0),
    "horseshoe": HorseshoePrior,
}


def as_prior(prior, scale=None):
    """Prior object from a name or an instance, with a new `scale` where one is given.

    A ValueError for an unknown name, a TypeError for anything else.
    """
    if isinstance(prior, str):
        if prior not in PRIORS:
            raise ValueError(
                f"prior must be one of {sorted(PRIORS)} or a Prior instance; "
                f"got {prior!r}."
            )
        return PRIORS[prior]() if scale is None else PRIORS[prior](scale=scale)
    if isinstance(prior, Prior):
        if scale is None:
            return prior
        parameters = {**prior.get_params(deep=False), "scale": scale}
        return type(prior)(**parameters)
    raise TypeError(
        f"prior must be one of {sorted(PRIORS)} or a Prior instance; "
        f"got {type(prior).__name__}."
    )
