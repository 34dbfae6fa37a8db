"""One density of a family, what mixtures are made of, and what it is at points."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

# --- coordinates in which a component is a standard normal, without a dense inverse


class Triangular:
    """Whitening by a Cholesky factor L: ``theta = L z``."""

    def __init__(self, factor):
        self.factor = factor

    def whiten(self, rows):
        """Differences ``theta - mean`` as rows z."""
        return solve_triangular(self.factor, rows.T, lower=True).T

    def pull(self, rows):
        """Gradients in theta as gradients in z."""
        return rows @ self.factor

    def lift(self, rows):
        """Rows z as differences ``theta - mean``."""
        return rows @ self.factor.T


class Diagonal:
    """Whitening by marginal scales."""

    def __init__(self, std):
        self.std = std

    def whiten(self, rows):
        """As `Triangular.whiten`."""
        return rows / self.std

    def pull(self, rows):
        """As `Triangular.pull`."""
        return rows * self.std

    lift = pull


class LowRank:
    """Whitening by ``S^(1/2) (I + U U^T)^(1/2)``: rank x rank problems only."""

    def __init__(self, variance, factor):
        self.std = np.sqrt(variance)
        whitened = factor / self.std[:, None]
        values, vectors = np.linalg.eigh(whitened.T @ whitened)
        root = np.sqrt(1.0 + np.maximum(values, 0.0))
        # (root - 1) / values and (1 / root - 1) / values, free of cancellation.
        self._left = whitened @ (vectors / (1.0 + root))
        self._inverse = -self._left / root
        self._right = whitened @ vectors

    def whiten(self, rows):
        """As `Triangular.whiten`."""
        rows = rows / self.std
        return rows + (rows @ self._right) @ self._inverse.T

    def pull(self, rows):
        """As `Triangular.pull`."""
        rows = rows * self.std
        return rows + (rows @ self._right) @ self._left.T

    def lift(self, rows):
        """As `Triangular.lift`."""
        return self.std * (rows + (rows @ self._right) @ self._left.T)


def whitening_by(variance, factor):
    """Whitening by the matrix diag(variance) + factor factor^T; see `spread`."""
    if variance is None:
        return Triangular(factor)
    if factor is None:
        return Diagonal(np.sqrt(variance))
    return LowRank(variance, factor)


# --- one density


class Evaluation:
    """Log density (n,) of one component at fixed points, nats, with what its slopes
    need: the whitened residual is computed once for all of them."""

    log_density: np.ndarray

    def score(self, rows=slice(None)):
        """Gradient (n, dim) of the log density in the points of some rows."""
        raise NotImplementedError(f"{type(self).__name__} does not define score.")

    def pull(self, cotangent):
        """``sum_n cotangent_n * d ln s(theta_n) / d params``, shape (n_params,)."""
        raise NotImplementedError(f"{type(self).__name__} does not define pull.")


def resolved(family):
    """The one family that a family stands for, which is mostly itself."""
    variants = family.variants()
    return variants[0] if len(variants) == 1 else family


@dataclass(frozen=True, eq=False)
class Component:
    """One density of a family, with the methods of the family for it.

    Parameters
    ----------
    family : VariationalFamily
        Of `Gaussian` that for which it stands.
    params : array-like of shape (n_params,)
        Which density of the family it is; see `VariationalFamily`. It is copied, and
        the copy is read-only.

    Attributes
    ----------
    dim : int
        Dimension of the space on which it lives.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import Component, Gaussian
    >>> normal = Component(Gaussian("diag"), np.zeros(2))
    >>> normal.log_density(np.zeros((1, 2))).round(3)
    array([-0.919])
    """

    family: object
    params: np.ndarray

    def __post_init__(self):
        params = np.array(self.params, dtype=float)
        params.setflags(write=False)
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "family", resolved(self.family))
        object.__setattr__(self, "dim", self.family.dim_of(params))

    def __reduce__(self):
        # Through the constructor: unpickled arrays would come back writeable.
        return Component, (self.family, self.params)

    def with_params(self, params):
        """Another density of the same family."""
        return Component(self.family, params)

    def in_family(self, family):
        """The component with the layout of another variant of its family."""
        return Component(family, family.convert(self.params, self.dim))

    # --- at points

    def at(self, theta):
        """`Evaluation` at points (n, dim): log density, its score and its pull."""
        return self.family.at(self.params, theta)

    def log_density(self, theta):
        """Log density at `theta` (n, dim), shape (n,), nats."""
        return self.family.log_density(theta, self.params)

    def log_peak(self):
        """Log density at the highest point, nats."""
        return self.family.log_peak(self.params)

    # --- draws

    def base_draws(self, n, rng):
        """Base draws for `draws`; see `VariationalFamily.base_draws`."""
        return self.family.base_draws(n, self.dim, rng)

    def matched_draws(self, n, rng):
        """Base draws for searches; see `VariationalFamily.matched_draws`."""
        return self.family.matched_draws(n, self.dim, rng)

    def draws(self, eps):
        """Draws, shape (n, dim), as a smooth function of `params`, from base draws."""
        return self.family.transport(self.params, eps)

    def sample(self, n, rng):
        """New draws, shape (n, dim)."""
        return self.draws(self.base_draws(n, rng))

    def pull_draws(self, eps, cotangent):
        """Gradient in `params` from gradients (n, dim) in the draws."""
        return self.family.pull_transport(self.params, eps, cotangent)

    # --- moments

    def entropy(self):
        """Differential entropy, nats."""
        return self.family.entropy(self.params)

    def entropy_gradient(self):
        """Gradient of the entropy in `params`."""
        return self.family.entropy_gradient(self.params)

    def mean(self):
        """Mean, shape (dim,); nan where there is none."""
        return self.family.mean(self.params)

    def location(self):
        """Centre, shape (dim,): the mean, and finite where there is none."""
        return self.family.location(self.params)

    def std(self):
        """Standard deviations, shape (dim,)."""
        return self.family.std(self.params)

    def scale(self):
        """Scales, shape (dim,): lengths that are finite where `std` is infinite."""
        return self.family.scale(self.params)

    def moments(self):
        """Mean (dim,) and covariance matrix (dim, dim)."""
        return self.family.moments(self.params)

    def structure(self):
        """Mean, variance and factor: covariance diag(variance) + factor factor^T."""
        return self.family.structure(self.params)

    def pull_structure(self, g_mean, g_variance, g_factor):
        """Gradient in `params` from gradients in what `structure` returns."""
        return self.family.pull_structure(self.params, g_mean, g_variance, g_factor)

    def spread(self):
        """Location, variance and factor of the matrix that whitens."""
        return self.family.spread(self.params)

    def whitening(self):
        """Coordinates in which it has unit spread: Triangular, Diagonal or LowRank."""
        return self._whitening

    @cached_property
    def _whitening(self):
        # Asked for every mode and every orbit by which others are compared with it.
        _, variance, factor = self.spread()
        return whitening_by(variance, factor)

    def distance(self, points):
        """Of points (n, dim) from its centre, in its own standard deviations, (n,)."""
        z = self.whitening().whiten(points - self.location())
        return np.sqrt((z**2).sum(axis=1))

    def mean_exponential(self, i, power):
        """``E exp(power theta_i)``; inf where the tails are too heavy."""
        return self.family.mean_exponential(self.params, i, power)

    # --- marginals

    def marginal_cdf(self, i, x):
        """Distribution function of coordinate `i` at `x` (n,)."""
        return self.family.marginal_cdf(self.params, i, x)

    def marginal_log_density(self, i, x):
        """Log density of coordinate `i` at `x` (n,), nats."""
        return self.family.marginal_log_density(self.params, i, x)

    # --- others near it

    def widen(self, width):
        """The component stretched about its centre by factors of its scales."""
        return self.with_params(self.family.widen(self.params, width))

    def recentre(self, mean):
        """The component with another mean."""
        return self.with_params(self.family.recentre(self.params, mean))

    def move(self, x):
        """The component moved in coordinates of unit Fisher information."""
        return self.with_params(self.family.move(self.params, x))

    def pull_move(self, x, gradient):
        """Gradient in `x` from the gradient in the parameters of ``move(x)``."""
        return self.family.pull_move(self.params, x, gradient)

    def limits(self):
        """How far a search may go in each coordinate of `move`, inf for free ones."""
        # A scale may leave its start by a factor of e^7 within one search.
        return np.where(self.family.scale_mask(self.dim), 7.0, np.inf)
