"""The mixture q = sum_k alpha_k s_k as an immutable number cruncher."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skboost._math import log_sum_exp, log_weights, responsibilities
from skboost._pickles import reconstruction
from skboost.approximation._densities import ComponentDensities


def _read_only(values):
    array = np.array(values, dtype=float)
    array.setflags(write=False)
    return array


def _validated_weights(weights, n_components):
    weights = _read_only(weights)
    if weights.shape != (n_components,):
        raise ValueError(
            f"weights must have shape ({n_components},), one per component; got "
            f"{weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(
            f"weights must be finite and non-negative; got {weights}. Project them "
            "onto the simplex."
        )
    if abs(weights.sum() - 1.0) > 1e-6:
        raise ValueError(
            f"weights must sum to one; got the sum {weights.sum():.9g}. Divide by it."
        )
    return weights


@dataclass(frozen=True, eq=False)
class Mixture:
    """Mixture density on R^dim; components may come from several families.

    Immutable, so the mixture of every iteration can be kept: every change returns a
    new object and arrays are read-only.

    Parameters
    ----------
    components : tuple of (VariationalFamily, ndarray of shape (n_params,))
    weights : ndarray of shape (n_components,)
        On the simplex; exact zeros are legal.

    Raises
    ------
    ValueError
        If weights are no point of the simplex or components differ in dimension.
    """

    components: tuple
    weights: np.ndarray

    def __post_init__(self):
        components = tuple((f, _read_only(params)) for f, params in self.components)
        if not components:
            raise ValueError("components must hold at least one component; got none.")
        dims = {family.dim_of(params) for family, params in components}
        if len(dims) > 1:
            raise ValueError(
                f"components must share one dimension; got dimensions {sorted(dims)}."
            )
        weights = _validated_weights(self.weights, len(components))
        object.__setattr__(self, "components", components)
        object.__setattr__(self, "weights", weights)

    def __reduce__(self):
        # Through the constructor: unpickled arrays would come back writeable.
        return reconstruction(type(self), self.components, self.weights)

    @classmethod
    def single(cls, family, params):
        """Mixture of one component."""
        return cls(((family, params),), np.ones(1))

    @cached_property
    def dim(self):
        """Dimension of theta."""
        family, params = self.components[0]
        return family.dim_of(params)

    @property
    def n_components(self):
        """Number of components, those of weight zero included."""
        return len(self.components)

    @property
    def plain(self):
        """The mixture of the components as they are; see `SkewedMixture`."""
        return self

    @property
    def base(self):
        """The mixture whose components are skewed, if they are; see `SkewedMixture`."""
        return self

    @property
    def skewed(self):
        """Whether components have skewing weights."""
        return False

    # --- densities

    @cached_property
    def _densities(self):
        return ComponentDensities(self.components, self.dim)

    def log_components(self, theta):
        """Log density of every component, nats.

        Parameters
        ----------
        theta : array-like of shape (n, dim)

        Returns
        -------
        ndarray of shape (n, n_components)
        """
        return self._densities.log_density(theta)

    def log_density(self, theta):
        """``ln q(theta)``, shape (n,), nats; see `log_components`."""
        return log_sum_exp(self.log_components(theta), log_weights(self.weights))

    def responsibilities(self, theta):
        """``alpha_k s_k(theta) / q(theta)``, shape (n, n_components)."""
        table = self.log_components(theta) + log_weights(self.weights)
        return responsibilities(table)[0]

    def score_and_log_density(self, theta):
        """``d ln q / d theta`` and ``ln q``.

        Parameters
        ----------
        theta : array-like of shape (n, dim)

        Returns
        -------
        score : ndarray of shape (n, dim)
        log_density : ndarray of shape (n,)
            Nats.
        """
        return self._densities.mixture_score(theta, log_weights(self.weights))

    def marginal_log_density(self, k, index, x):
        """Log density of coordinates `index` at `x` (n,) under component k, nats."""
        family, params = self.components[k]
        return family.marginal_log_density(params, index, x)

    def marginal_cdf(self, k, index, x):
        """Probability of coordinates `index` below `x` (n,) under component k."""
        family, params = self.components[k]
        return family.marginal_cdf(params, index, x)

    # --- draws

    def sample(self, n, rng):
        """Draws from the mixture in random order, shape (n, dim).

        Parameters
        ----------
        n : int
        rng : numpy.random.Generator
        """
        counts = rng.multinomial(n, self.weights / self.weights.sum())
        return rng.permutation(self._draw(counts, rng), axis=0)

    def _draw(self, counts, rng):
        parts = [np.empty((0, self.dim))]
        for count, (family, params) in zip(counts, self.components, strict=True):
            if count:
                eps = family.base_draws(int(count), self.dim, rng)
                parts.append(family.transport(params, eps))
        return np.concatenate(parts)

    def stratified_draws(self, n, rng, minimum=8):
        """Draws by component, with row weights that make averages unbiased.

        Parameters
        ----------
        n : int
            Shared out in proportion to the weights; at least `minimum` go to every
            component of positive weight, so the total may exceed n.
        rng : numpy.random.Generator
        minimum : int, default=8

        Returns
        -------
        theta : ndarray of shape (m, dim)
        row_weights : ndarray of shape (m,)
            Sum to one; ``row_weights @ f(theta)`` estimates ``E_q[f]``.
        source : ndarray of int of shape (m,)
            Component of each draw.
        """
        counts = np.maximum(np.ceil(self.weights * n).astype(int), minimum)
        counts[self.weights == 0] = 0
        source = np.repeat(np.arange(self.n_components), counts)
        row_weights = (self.weights / np.maximum(counts, 1))[source]
        return self._draw(counts, rng), row_weights, source

    # --- moments

    def component_means(self):
        """Means of the components, shape (n_components, dim)."""
        return np.array([family.mean(params) for family, params in self.components])

    def component_locations(self):
        """Centres of the components, also of those without a mean, like their means."""
        return np.array([family.location(params) for family, params in self.components])

    def component_scales(self):
        """Lengths of the components, also of those without a variance."""
        return np.array([family.scale(params) for family, params in self.components])

    def mean(self):
        """Mean of the mixture, shape (dim,)."""
        return self.weights @ self.component_means()

    def covariance(self):
        """Covariance of the mixture, shape (dim, dim)."""
        spread = self.component_means() - self.mean()
        total = (self.weights[:, None] * spread).T @ spread
        for weight, (family, params) in zip(self.weights, self.components, strict=True):
            total += weight * family.moments(params)[1]
        return total

    def std(self):
        """Standard deviations of the coordinates, shape (dim,), without a matrix."""
        spread = self.component_means() - self.mean()
        stds = np.array([family.std(params) for family, params in self.components])
        return np.sqrt(self.weights @ (stds**2 + spread**2))

    def linear_moments(self, X):
        """Mean and standard deviation of ``x @ theta`` under every component.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n, dim)

        Returns
        -------
        mean, std : ndarray of shape (n, n_components)
        """
        pairs = [f.linear_moments(params, X) for f, params in self.components]
        return tuple(np.column_stack(part) for part in zip(*pairs, strict=True))

    def equals(self, other):
        """Whether another mixture has the same components and weights, bit by bit."""
        if not np.array_equal(self.weights, other.weights):
            return False
        pairs = zip(self.components, other.components, strict=True)
        return all(f is g and np.array_equal(a, b) for (f, a), (g, b) in pairs)

    # --- changes, each a new mixture

    def with_weights(self, weights):
        """The same components under other weights."""
        other = Mixture(self.components, weights)
        for name in ("dim", "_densities"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    def append(self, family, params):
        """One more component, at weight zero."""
        return Mixture(
            (*self.components, (family, params)), np.append(self.weights, 0.0)
        )

    def replace(self, k, family, params):
        """Component k exchanged, its weight kept."""
        components = list(self.components)
        components[k] = (family, params)
        return Mixture(tuple(components), self.weights)

    def keep(self, mask):
        """The components where `mask` is True, weights divided by their sum."""
        mask = np.asarray(mask, dtype=bool)
        kept = self.weights[mask]
        if not kept.sum() > 0:
            raise ValueError(
                "mask must keep a component of positive weight; it keeps none."
            )
        components = tuple(
            c for c, keep in zip(self.components, mask, strict=True) if keep
        )
        return Mixture(components, kept / kept.sum())

    @property
    def gaussian(self):
        """Whether all components have the exact expectations of Gaussians."""
        return all(family.exact_expectations for family, _ in self.components)

    def drop_zero_weights(self):
        """The components of positive weight; the mixture itself if that is all."""
        positive = self.weights > 0
        return self if positive.all() else self.keep(positive)


def kept_components(weights, max_components):
    """Which components stay: positive weights, and the heaviest of too many.

    Parameters
    ----------
    weights : ndarray of shape (n_components,)
    max_components : int or None

    Returns
    -------
    ndarray of bool of shape (n_components,)
    """
    kept = weights > 0
    if max_components is None or kept.sum() <= max_components:
        return kept
    kept[:] = False
    kept[(-weights).argsort(kind="stable")[:max_components]] = True
    return kept
