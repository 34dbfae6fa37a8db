"""Prior distributions of scales, as densities of their logarithms.

One scale may be that of all coefficients, and integrated out: theta_j = s scale_j z_j,
with z_j from a standard prior and one s for all j. The density of theta is that of the
z_j averaged over s, by a fine grid of ln s.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gammaln
from sklearn.base import BaseEstimator

from skboost._math import LOG_2PI, bounded_exp, log_sum_exp
from skboost._parameters import ParameterNames
from skboost.targets._priors import NormalPrior, Prior


class CheckedPrior(ParameterNames, BaseEstimator):
    """A prior whose parameters are positive numbers."""

    def checked(self):
        """This prior; a ValueError where its parameters mean nothing."""
        for name, value in self.get_params(deep=False).items():
            if not (np.isreal(value) and 0.0 < value < np.inf):
                raise ValueError(
                    f"{name} of {type(self).__name__} must be a positive finite "
                    f"number; got {value!r}."
                )
        return self


class ScalePrior(CheckedPrior):
    """Prior of a positive scale sigma.

    A subclass gives ``_log_density(z)``: the log density of ``z = sigma / scale`` on
    the positive half-line and its derivative in ``ln z``.

    Parameters
    ----------
    scale : float, default=1.0
        In the unit of sigma.

    Examples
    --------
    >>> from skboost.priors import HalfTPrior, ScalePrior
    >>> isinstance(HalfTPrior(scale=1.0), ScalePrior)
    True
    """

    def __init__(self, scale=1.0):
        self.scale = scale

    def value_and_score(self, level):
        """Log density of ``level = ln sigma``, Jacobian included, nats, and its
        derivative."""
        value, slope = self._log_density(bounded_exp(level - np.log(self.scale)))
        return value - np.log(self.scale) + level, slope + 1.0

    def _log_density(self, z):
        raise NotImplementedError(
            f"{type(self).__name__} must define _log_density(z): the log density of a "
            "scale in units of its prior's scale, and its derivative in ln z."
        )


class HalfNormalPrior(ScalePrior):
    """The absolute value of a Normal(0, scale^2) variable.

    Parameters
    ----------
    scale : float, default=1.0
        In the unit of the scale that has the prior. 95 per cent lie below twice it.

    References
    ----------
    Gelman: Prior distributions for variance parameters in hierarchical models, Bayesian
    Analysis 1, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.priors import HalfNormalPrior
    >>> level = np.linspace(-15.0, 3.0, 2001)  # logarithms of sigma
    >>> value, score = HalfNormalPrior(scale=1.0).value_and_score(level)
    >>> round(float(np.trapezoid(np.exp(value), level)), 3)
    1.0
    """

    def _log_density(self, z):
        return 0.5 * np.log(2.0 / np.pi) - 0.5 * z**2, -(z**2)


class HalfTPrior(ScalePrior):
    """The absolute value of a Student-t variable.

    Parameters
    ----------
    df : float, default=3.0
        Degrees of freedom, positive; 1 is the half-Cauchy distribution.
    scale : float, default=1.0
        In the unit of the scale that has the prior. With three degrees of freedom half
        of the prior lies below .76 times it, and 95 per cent below 3.2 times it.

    References
    ----------
    Gelman: Prior distributions for variance parameters in hierarchical models, Bayesian
    Analysis 1, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.priors import HalfTPrior
    >>> level = np.linspace(-15.0, 8.0, 2001)  # logarithms of sigma
    >>> value, score = HalfTPrior(scale=1.0).value_and_score(level)
    >>> round(float(np.trapezoid(np.exp(value), level)), 3)
    1.0
    """

    def __init__(self, df=3.0, scale=1.0):
        self.df = df
        self.scale = scale

    def _log_density(self, z):
        df = self.df
        constant = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df)
        constant += np.log(2.0) - 0.5 * np.log(df * np.pi)
        value = constant - 0.5 * (df + 1.0) * np.log1p(z**2 / df)
        return value, -(df + 1.0) * z**2 / (df + z**2)


class LKJPrior(CheckedPrior):
    """Prior of correlation matrices R with a density like ``|R| ** (shape - 1)``.

    Parameters
    ----------
    shape : float, default=1.0
        Positive. 1 is even over all correlation matrices; larger ones are nearer to the
        identity. Of two variables ``(rho + 1) / 2`` is Beta(shape, shape).

    References
    ----------
    Lewandowski, Kurowicka, Joe: Generating random correlation matrices based on vines
    and extended onion method, Journal of Multivariate Analysis 100, 2009.

    Examples
    --------
    >>> from skboost import BoostedHierarchicalLinearRegression
    >>> from skboost.priors import LKJPrior
    >>> model = BoostedHierarchicalLinearRegression(
    ...     groups=["school"], slopes={"school": ["hours"]}, correlated=LKJPrior(2.0)
    ... )
    """

    def __init__(self, shape=1.0):
        self.shape = shape

    def of_coordinates(self, n_variables):
        """Priors of the coordinates of `Correlation`, which are independent; of two
        variables, of that of the interval from -1 to 1.
        """
        unit = 2.0 if n_variables == 2 else 1.0
        powers = n_variables - np.tril_indices(n_variables, -1)[1]
        powers = powers + 2.0 * (self.shape - 1.0)
        return [PartialCorrelation(power, unit) for power in powers]


class PartialCorrelation(NamedTuple):
    """Prior ~ cosh(z)^-power of `unit` times z, artanh of a partial correlation."""

    power: float
    unit: float

    def value_and_score(self, level):
        """Log density and its derivative."""
        z = level / self.unit
        # ln cosh(z) without overflow.
        fall = np.logaddexp(z, -z) - np.log(2.0)
        constant = betaln(0.5 * self.power, 0.5) + np.log(self.unit)
        return -self.power * fall - constant, -self.power * np.tanh(z) / self.unit


class ScaleNode(NamedTuple):
    """A value of a common scale, the covariance there, and its evidence or a bound
    of it, where it is known."""

    log_s: float
    kind: int = 0
    bounded: bool = False
    log_evidence: float | None = None


class CommonScale(Prior):
    """Coordinates with a common factor s of their scales, which has a prior itself.

    `coef` is their prior given s, `shared` says which have it; sums over the grid of ln
    s, `log_mass` its log probabilities, are integrals.
    """

    closed = False
    # Roots of the covariances that coefficients in units of their scales may have; None
    # is the identity.
    roots = (None,)

    def __init__(self, coef, shared, n_shared, factor):
        self.coef, self.shared = coef, shared
        self.n_shared, self.factor = n_shared, factor
        # As a function of ln s the density of known coefficients has this width, and
        # the sum over a grid of that step an error of 1e-6.
        step = min(0.25, 1.2 / np.sqrt(2.0 * max(n_shared, 1)))
        # From here to there half-t priors of three degrees of freedom, in units of
        # their scale, have all but 2e-4 of their mass; ln.
        lowest, highest = -9.0, 7.0
        grid = np.arange(lowest, highest + step, step)
        self.log_s = np.log(factor.scale) + grid
        log_mass, _ = factor.value_and_score(self.log_s)
        self.log_mass = log_mass - log_sum_exp(log_mass[None])[0]

    def given(self, scale, s):
        """The prior of the coefficients where s is known, and their scales."""
        return self.coef, scale * np.where(np.resize(self.shared, len(scale)), s, 1.0)

    def log_density_given(self, theta, scale, node):
        """The log density of the coefficients at a `ScaleNode`."""
        prior, scale = self.given(scale, np.exp(node.log_s))
        return prior.log_density(theta, scale)

    def log_posterior(self, theta, scale):
        """Log probabilities of the grid, (n, n_nodes), where coefficients are known."""
        table, _ = self._table(theta, scale)
        return table - log_sum_exp(table)[:, None]

    def log_density(self, theta, scale):
        """See `Prior`; without the score, which costs more for many draws."""
        own = ~np.resize(self.shared, len(scale))
        more, _ = self._density_of_others(theta, scale, own)
        table, _ = self._table(theta, scale)
        return log_sum_exp(table) + more - np.log(scale[~own]).sum()

    def value_and_score(self, theta, scale):
        """See `Prior`."""
        own = ~np.resize(self.shared, len(scale))
        table, z = self._table(theta, scale)
        value = log_sum_exp(table)
        share = np.exp(table - value[:, None])
        score = np.empty(theta.shape)
        score[:, ~own] = self.coef.score_at_scales(z, np.exp(self.log_s), share)
        score[:, ~own] /= scale[~own]
        more, score[:, own] = self._density_of_others(theta, scale, own)
        return value + more - np.log(scale[~own]).sum(), score

    def _density_of_others(self, theta, scale, others):
        """Log density of coordinates without the factor, and its score."""
        return self.coef.value_and_score(theta[:, others], scale[others])

    def _table(self, theta, scale):
        """Log joint density of the coefficients and the grid, and the coefficients."""
        shared = np.resize(self.shared, len(scale))
        z = theta[:, shared] / scale[shared]
        log_density = self.coef.log_at_scales(z, np.exp(self.log_s))
        return self.log_mass + log_density, z


# Powers of the variances of principal components to which those of the coefficients
# are in proportion, and what is added to the former, as a share of their mean: where
# columns outnumber rows, some are zero.
_POWERS, _FLOOR = (0.0, 0.5, 1.0), 0.1


class PrincipalScale(CommonScale):
    """Normal coefficients that may be larger along components of large variance.

    Given s and a power g of 0, 1/2 or 1 their covariance is ``c s^2 V diag(l^g) V^T``
    in units of their scales, `covariance` being ``V diag(l) V^T`` of the columns; c
    keeps the prior variance of linear predictors. A `basis` says it of coefficients
    whose product with it is these, and independence of these is another kind.
    """

    def __init__(self, shared, covariance, factor, n_outputs=1, basis=None):
        n_shared = n_outputs * len(covariance)
        super().__init__(NormalPrior(), shared, n_shared, factor)
        self._by_output = np.eye(n_outputs)
        # Independent ones are another kind where it is others that are independent.
        powers = _POWERS[1:] if basis is None else _POWERS
        self.log_mass = self.log_mass - np.log(1 + len(powers))
        variances, axes = np.linalg.eigh(covariance)
        variances = np.maximum(variances, 0.0)
        lengths = variances + _FLOOR * variances.mean()
        lengths = lengths if lengths.any() else np.ones_like(lengths)
        roots, precisions, log_dets = [None], [np.eye(len(axes))], [0.0]
        basis = np.eye(len(axes)) if basis is None else basis
        inverse, log_det = np.linalg.inv(basis).T, 2.0 * np.linalg.slogdet(basis)[1]
        for power in powers:
            grown = lengths**power
            grown *= max(variances.sum(), 1e-300) / max(variances @ grown, 1e-300)
            roots.append(basis @ (axes * np.sqrt(grown)))
            precisions.append(inverse @ ((axes / grown) @ axes.T) @ inverse.T)
            log_dets.append(np.log(grown).sum() + log_det)
        # Of one class; the determinants are those of all.
        self.roots, self.precisions = tuple(roots), np.array(precisions)
        self._log_dets = n_outputs * np.array(log_dets)

    def covariance_given(self, scale, node):
        """The covariance of the coefficients at a node of another kind than 0."""
        whole, shared = np.diag(scale**2), self._shared(scale)
        root = np.kron(self._by_output, self.roots[node.kind])
        root = np.exp(node.log_s) * scale[shared][:, None] * root
        whole[np.ix_(shared, shared)] = root @ root.T
        return whole

    def log_density_given(self, theta, scale, node):
        """See `CommonScale`."""
        shared = self._shared(scale)
        z = theta[:, shared] / scale[shared]
        squares = (self._pulled(z, node.kind) * z).sum(axis=1)
        log_s = np.array([node.log_s])
        value = self._log_normal(squares, log_s)[:, 0] - np.log(scale[shared]).sum()
        value -= 0.5 * self._log_dets[node.kind]
        return value + self.coef.log_density(theta[:, ~shared], scale[~shared])

    def log_posterior(self, theta, scale):
        """See `CommonScale`."""
        table = np.logaddexp.reduce(self._tables(theta, scale)[0])
        return table - log_sum_exp(table)[:, None]

    def log_density(self, theta, scale):
        """See `Prior`; without the score, which costs as much for many draws."""
        shared = self._shared(scale)
        value = _of_all(self._tables(theta, scale)[0])
        more = self.coef.log_density(theta[:, ~shared], scale[~shared])
        return value + more - np.log(scale[shared]).sum()

    def value_and_score(self, theta, scale):
        """See `Prior`."""
        shared = self._shared(scale)
        tables, pulled = self._tables(theta, scale)
        value, score = _of_all(tables), np.empty(theta.shape)
        slope = np.zeros(pulled[0].shape)
        for table, part in zip(tables, pulled, strict=True):
            share = np.exp(table - value[:, None]) @ np.exp(-2.0 * self.log_s)
            slope -= share[:, None] * part
        score[:, shared] = slope / scale[shared]
        more, score[:, ~shared] = self.coef.value_and_score(
            theta[:, ~shared], scale[~shared]
        )
        return value + more - np.log(scale[shared]).sum(), score

    def _shared(self, scale):
        return np.resize(self.shared, len(scale))

    def _pulled(self, z, kind):
        """Precision times coefficients in units of their scales, class by class."""
        precision = self.precisions[kind]
        return (z.reshape(-1, len(precision)) @ precision).reshape(z.shape)

    def _log_normal(self, squares, log_s):
        """Log densities (n, n_scales) of coefficients with these squared lengths."""
        fall = 0.5 * squares[:, None] * np.exp(-2.0 * log_s)
        return -fall - self.n_shared * (log_s + 0.5 * LOG_2PI)

    def _tables(self, theta, scale):
        """For each kind the log joint density with the grid, and precision times z."""
        shared = self._shared(scale)
        z = theta[:, shared] / scale[shared]
        pulled = [self._pulled(z, kind) for kind in range(len(self.precisions))]
        tables = [
            self.log_mass + self._log_normal((part * z).sum(axis=1), self.log_s)
            - 0.5 * log_det
            for part, log_det in zip(pulled, self._log_dets, strict=True)
        ]  # fmt: skip
        return tables, pulled


def _of_all(tables):
    """Logarithm of the sum of the exponentials of several tables, row by row."""
    return log_sum_exp(np.array([log_sum_exp(table) for table in tables]).T)


class ColumnPriors(Prior):
    """One prior for all `n` coordinates of a linear predictor, but ``own`` for some.

    These are pairs of an index and a `Prior`, in units of its scale.
    """

    def __init__(self, rest, own, n):
        self.rest, self.own, self.n = rest, own, n
        parts = rest, *(prior for _, prior in own)
        self.log_concave = all(prior.log_concave for prior in parts)

    def _parts(self, dim):
        """Priors, the coordinates that have each, and its mean there."""
        index = np.arange(dim) % self.n
        yield self.rest, ~np.isin(index, [column for column, _ in self.own]), 0.0
        for column, prior in self.own:
            mean = getattr(prior, "mean", 0.0) / prior.scale
            yield prior, index == column, mean

    def _standard(self, z):
        value, score = np.empty_like(z), np.empty_like(z)
        for prior, here, mean in self._parts(z.shape[-1]):
            found = prior._standard(z[..., here] - mean)
            value[..., here], score[..., here] = found
        return value, score

    def _standard_expected(self, mean, variance):
        found = np.empty((3, len(mean)))
        for prior, here, centre in self._parts(len(mean)):
            found[:, here] = prior._standard_expected(
                mean[here] - centre, variance[here]
            )
        return found


class ColumnScale(CommonScale):
    """`CommonScale` of the coordinates that have no prior of their own."""

    def __init__(self, columns, shared, n_shared, factor):
        super().__init__(columns.rest, shared, n_shared, factor)
        self.columns = columns

    def given(self, scale, s):
        """See `CommonScale`."""
        _, inner = super().given(scale, s)
        return self.columns, inner

    def _density_of_others(self, theta, scale, others):
        value, score = self.columns._standard(theta / scale)
        value, scale = value[:, others], scale[others]
        return value.sum(axis=1) - np.log(scale).sum(), score[:, others] / scale
