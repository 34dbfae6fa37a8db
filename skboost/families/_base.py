"""What every base family offers, and what all Gaussians share."""

from math import log, pi

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator

from skboost._parallel import row_blocks
from skboost.families._component import Component
from skboost.families._moments import open_unit_cube, symmetric, whitened


class VariationalFamily(BaseEstimator):
    """Base class of families of densities on R^dim that can be reparameterised.

    A family is stateless apart from its hyperparameters; one density of it is a
    real vector `params` of length ``n_params(dim)`` that starts with the mean.
    Scales are held as logarithms, so every real vector is a density.

    Attributes
    ----------
    root_products : bool
        Whether the square roots of two members multiply to something in closed
        form, which ``objective="hellinger"`` needs; see `log_affinity`.
    tail_power : float or None
        The p for which a density widened by kappa about its highest point is

            ln s_kappa = log_peak - dim ln kappa - (log_peak - ln s) / kappa^p

        2 for a Gaussian, 1 for a Laplace density; None if there is no such p.
    distribution : {"gaussian", "student_t", "laplace"} or None
        Of its members, by the name under which quadratures and exports know it. None
        if it is another: draws then take the place of a quadrature.

    Examples
    --------
    >>> from skboost.families import DiagonalGaussian
    >>> DiagonalGaussian().n_params(3)
    6
    """

    root_products = False
    tail_power = None
    distribution = None
    # Whether targets know exact expectations under its members, from `structure`.
    exact_expectations = False
    # Whether every density is symmetric about its location.
    symmetric = True
    # Whether `uniform` maps every density to the uniform one on the unit cube.
    maps_to_cube = False
    # Whether `params` hold a Cholesky factor, and a factor of low rank.
    full_covariance = False
    low_rank = False
    # Whether every component takes the rank that the target asks for.
    rank_is_open = False

    def variants(self):
        """Families, a tuple, of which each component has one; all have the same
        `params`."""
        return (self,)

    def with_rank(self, rank=None):
        """The family with one rank (int; None its own default) for all components."""
        return self

    def convert(self, params, dim):
        """A component whose rank may be another, in this family's layout."""
        return params

    def _lacks(self, method):
        return NotImplementedError(f"{type(self).__name__} does not define {method}.")

    def n_params(self, dim):
        """Length of the parameter vector of one component on R^dim."""
        raise self._lacks("n_params")

    def dim_of(self, params):
        """Dimension of the space on which the component `params` lives."""
        raise self._lacks("dim_of")

    def base_dim(self, dim):
        """Number of base variables behind one draw."""
        return dim

    def scale_mask(self, dim):
        """Which of `params`, and of `move`, are log scales: bool (n_params,)."""
        raise self._lacks("scale_mask")

    def base_draws(self, n, dim, rng):
        """Base draws (n, base_dim): scrambled Sobol' points through the inverse cdf."""
        return self._quantile(open_unit_cube(n, self.base_dim(dim), rng))

    def matched_draws(self, n, dim, rng):
        """Base draws whose first two moments are exact where that can be, for searches.

        Not for estimates that are reported, whose draws are `base_draws`.
        """
        return self.base_draws(n, dim, rng)

    def random_draws(self, n, dim, rng):
        """Base draws that are independent of each other; arguments of `base_draws`."""
        smallest = np.finfo(float).tiny
        return self._quantile(rng.uniform(smallest, 1.0, (n, self.base_dim(dim))))

    def _quantile(self, u):
        """Inverse distribution function of one base variable."""
        raise self._lacks("_quantile")

    def transport(self, params, eps):
        """Draws (n, dim) by `params` (n_params,), smooth in these, from `eps` (n,
        base_dim)."""
        raise self._lacks("transport")

    def pull_transport(self, params, eps, cotangent):
        """Gradient in `params`, (n_params,), of ``sum(cotangent * transport)``."""
        raise self._lacks("pull_transport")

    def at(self, params, theta):
        """The `Evaluation` of the component `params` at points `theta` (n, dim)."""
        raise self._lacks("at")

    def log_density(self, theta, params):
        """Log density in nats at `theta` (n, dim), ndarray of shape (n,)."""
        return self.at(params, theta).log_density

    def entropy(self, params):
        """Differential entropy in nats, in closed form."""
        raise self._lacks("entropy")

    def entropy_gradient(self, params):
        """Gradient of `entropy`, (n_params,): one for each log scale by default."""
        return self.scale_mask(self.dim_of(params)).astype(float)

    def log_peak(self, params):
        """``ln s`` at the highest point, nats, from the entropy and the
        `tail_power`."""
        return self.dim_of(params) / self.tail_power - self.entropy(params)

    def log_affinity(self, a, b):
        """Logarithm of ``integral sqrt(s_a s_b)``, pair by pair, with its gradients.

        Of pairs `a`, `b` (n, n_params) the values (n,) in nats, never positive, and
        both gradients: the ``<g_i, g_j>`` of Campbell and Li 2019, section 3. A
        ValueError where there is no closed form (`root_products` is False).
        """
        if not self.root_products:
            raise ValueError(self._no_root_products())
        # Pairs a block at a time, so that the temporaries of many stay small.
        parts = [self._log_affinity(a[r], b[r]) for r in row_blocks(*a.shape)]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _log_affinity(self, a, b):
        raise self._lacks("log_affinity")

    def root_product(self, a, b):
        """The density in proportion to ``sqrt(s_a s_b)``, a `Component`, of `a`, `b`
        (n_params,).

        Of the same family, or of twice the rank; its log density is ``(ln s_a + ln s_b)
        / 2`` minus `log_affinity`. A ValueError where there is no closed form.
        """
        raise ValueError(self._no_root_products())

    def _no_root_products(self):
        return (
            "the family must have a closed form of integral sqrt(s_a s_b), as "
            f"objective='hellinger' needs; got {self!r}, which has none. Use "
            "family='gaussian'."
        )

    def mean(self, params):
        """Mean, ndarray of shape (dim,)."""
        return np.asarray(params)[: self.dim_of(params)]

    def location(self, params):
        """Centre, shape (dim,): the mean, where one exists, and finite where not."""
        return self.mean(params)

    def std(self, params):
        """Marginal standard deviations, ndarray of shape (dim,)."""
        raise self._lacks("std")

    def scale(self, params):
        """Marginal scales (dim,): `std`, or that of the normal density of equal
        height."""
        scale = np.array(self.std(params))
        lacking = np.flatnonzero(~np.isfinite(scale))
        if lacking.size:
            centre = self.location(params)[lacking]
            height = self.marginal_log_density(params, lacking, centre)
            scale[lacking] = np.exp(-height) / np.sqrt(2.0 * np.pi)
        return scale

    def spread(self, params):
        """Location (dim,), and what whitens: variance (dim,) and factor (dim, rank), or
        None.

        Their covariance is diag(variance) + factor factor^T; variance is None where the
        factor is a Cholesky factor.
        """
        return self.location(params), self.scale(params) ** 2, None

    def uniform(self, z):
        """Images of whitened points (..., dim) in the unit cube: see `maps_to_cube`."""
        raise self._lacks("uniform")

    def from_uniform(self, u):
        """The inverse of `uniform`."""
        raise self._lacks("from_uniform")

    def moments(self, params):
        """Mean of shape (dim,) and covariance matrix of shape (dim, dim)."""
        raise self._lacks("moments")

    def from_moments(self, mean, covariance):
        """`params` (n_params,) with given moments, as far as the family can have them.

        Parameters
        ----------
        mean : array-like of shape (dim,)
        covariance : array-like of shape (dim,) or (dim, dim)
            Variances or the covariance matrix. What the family cannot represent is
            dropped; marginal variances are always kept. A low-rank Gaussian takes the
            leading eigen-directions of the correlation, never a factor of exactly zero.

        Raises
        ------
        ValueError
            If a variance is not positive, or a full Gaussian's covariance not definite.
        """
        raise self._lacks("from_moments")

    def widen(self, params, width):
        """The component stretched about its centre by `width`, a float or (dim,)."""
        raise self._lacks("widen")

    def recentre(self, params, mean):
        """The component with another mean of shape (dim,)."""
        return np.concatenate([mean, params[self.dim_of(params) :]])

    def move(self, params, x):
        """Chart by `x` (n_params,) around `params` whose Fisher information at 0 is
        about identity."""
        raise self._lacks("move")

    def pull_move(self, params, x, gradient):
        """Gradient (n_params,) in `x` from the `gradient` in ``move(params, x)``."""
        raise self._lacks("pull_move")

    def mean_exponential(self, params, i, power):
        """``E exp(power theta_i)``, from fixed draws by default; inf where tails are
        too heavy."""
        base = self.base_draws(1024, self.dim_of(params), np.random.default_rng(0))
        return np.exp(power * self.transport(params, base)[:, i]).mean()

    def marginal_cdf(self, params, i, x):
        """Distribution function of coordinate `i` at `x` (n,)."""
        raise self._lacks("marginal_cdf")

    def marginal_log_density(self, params, i, x):
        """Log density in nats of coordinate `i` at `x` (n,)."""
        raise self._lacks("marginal_log_density")


# --- what Gaussians of any covariance have in common


class GaussianFamily(VariationalFamily):
    """Gaussians with a `structure` whose covariance is diag(variance) + factor
    factor^T."""

    root_products = True
    tail_power = 2.0
    distribution = "gaussian"
    exact_expectations = True
    maps_to_cube = True
    _quantile = staticmethod(ndtri)
    uniform, from_uniform = staticmethod(ndtr), staticmethod(ndtri)

    def matched_draws(self, n, dim, rng):
        eps = self.base_draws(n, dim, rng)
        # Fewer draws leave directions of hardly any variance, which would be blown up.
        return whitened(eps) if n >= 2 * eps.shape[1] else self._balanced(eps, dim)

    def _balanced(self, eps, dim):
        """Base draws with the moments that so few can have."""
        return symmetric(eps, 1.0)

    def spread(self, params):
        return self.structure(params)

    def std(self, params):
        _, variance, factor = self.structure(params)
        total = 0.0 if variance is None else variance
        if factor is not None:
            total = total + np.einsum("ij,ij->i", factor, factor)
        return np.sqrt(total)

    def moments(self, params):
        mean, variance, factor = self.structure(params)
        if factor is None:
            return mean, np.diag(variance)
        covariance = factor @ factor.T
        if variance is not None:
            covariance[np.diag_indices_from(covariance)] += variance
        return mean, covariance

    def root_product(self, a, b):
        return Component(self, self.root_params(a, b))

    def mean_exponential(self, params, i, power):
        variance = self.std(params)[i] ** 2
        return np.exp(power * (self.mean(params)[i] + 0.5 * power * variance))

    def marginal_cdf(self, params, i, x):
        return ndtr((x - self.mean(params)[i]) / self.std(params)[i])

    def marginal_log_density(self, params, i, x):
        std = self.std(params)[i]
        z = (x - self.mean(params)[i]) / std
        return -0.5 * z**2 - np.log(std) - 0.5 * log(2 * pi)
