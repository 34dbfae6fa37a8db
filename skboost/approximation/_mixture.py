"""The mixture q = sum_k alpha_k s_k as an immutable number cruncher."""

from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import attrgetter

import numpy as np
from scipy.linalg.lapack import dtrtri

from skboost._math import LOG_2PI, log_sum_exp, log_weights, responsibilities
from skboost._parallel import row_blocks
from skboost._pickles import reconstruction
from skboost.families import Component

_DIM, _IS_EXACT = attrgetter("dim"), attrgetter("family.exact_expectations")


def checked_points(theta, dim):
    """Points as an array of shape (n, dim); a ValueError where they have another."""
    theta = np.asarray(theta, dtype=float)
    if theta.ndim != 2 or theta.shape[1] != dim:
        raise ValueError(
            f"theta must have shape (n, {dim}); got {theta.shape}. Pass one draw per "
            "row."
        )
    return theta


class GaussianStack:
    """Inverse Cholesky factors (K dim, dim) of K Gaussians, one below the other."""

    def __init__(self, components):
        means, _, factors = zip(*map(Component.structure, components), strict=True)
        # Subtracted from every point first: far from the origin the difference of two
        # large products would cost digits.
        self.center = np.mean(means, axis=0)
        inverses, shifts, log_scales = [], [], []
        for mean, factor in zip(means, factors, strict=True):
            inverse, info = dtrtri(factor, lower=1)
            if info != 0:
                raise ValueError(
                    "params of a full-covariance Gaussian must have a Cholesky factor "
                    "with a positive diagonal; got a zero scale. Bound the log scales."
                )
            inverses.append(np.tril(inverse))
            shifts.append(inverses[-1] @ (mean - self.center))
            log_scales.append(np.log(np.diag(factor)).sum())
        self.whiten, self.shift = np.concatenate(inverses), np.concatenate(shifts)
        # Log densities at the means.
        self.constant = -0.5 * self.center.size * LOG_2PI - np.array(log_scales)

    def at(self, theta):
        """Whitened residuals (n, K, dim) and log densities (n, K) at points."""
        z = (theta - self.center) @ self.whiten.T
        z -= self.shift
        z = z.reshape(len(theta), self.constant.size, self.center.size)
        return z, self.constant - 0.5 * np.einsum("nkd,nkd->nk", z, z)

    def score(self, residuals, responsibilities):
        """``sum_k responsibilities_nk * d ln s_k / d theta``, shape (n, dim)."""
        pulled = residuals * -responsibilities[:, :, None]
        return pulled.reshape(len(residuals), -1) @ self.whiten


def _validated_weights(weights, n_components):
    weights = np.array(weights, dtype=float)
    weights.setflags(write=False)
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
    components : tuple of Component
        Pairs of a family and parameters are made to be some.
    weights : ndarray of shape (n_components,)
        On the simplex; exact zeros are legal.

    Attributes
    ----------
    n_components, dim : int
        Components of weight zero are counted, too.

    Raises
    ------
    ValueError
        If weights are no point of the simplex or components differ in dimension.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import DiagonalGaussian
    >>> from skboost.posterior import Mixture
    >>> Mixture.single((DiagonalGaussian(), np.zeros(4))).dim
    2
    """

    components: tuple
    weights: np.ndarray

    # Whether components are reweighted over orbits.
    orbiting = False

    def __post_init__(self):
        components = tuple(
            one if isinstance(one, Component) else Component(*one)
            for one in self.components
        )
        if not components:
            raise ValueError("components must hold at least one component; got none.")
        dims = sorted(set(map(_DIM, components)))
        if len(dims) > 1:
            raise ValueError(
                f"components must share one dimension; got dimensions {dims}."
            )
        weights = _validated_weights(self.weights, len(components))
        object.__setattr__(self, "components", components)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "n_components", len(components))
        object.__setattr__(self, "dim", dims[0])

    def __reduce__(self):
        # Through the constructor: unpickled arrays would come back writeable.
        return reconstruction(type(self), self.components, self.weights)

    @classmethod
    def single(cls, component):
        """Mixture of one component."""
        return cls((component,), np.ones(1))

    @property
    def base(self):
        """The mixture of the components as they are, without orbits."""
        return self

    @property
    def exact(self):
        """The mixture whose draws have exactly its density, as ratios need them."""
        return self

    @property
    def parts(self):
        """The densities of which it is the mixture, one for each component."""
        return self.components

    # --- densities

    @cached_property
    def _stacked(self):
        """Indices and stack of full Gaussians, evaluated at once, and the other
        indices."""
        full, others, stacked = [], [], []
        for k, component in enumerate(self.components):
            family = component.family
            if family.exact_expectations and family.full_covariance:
                full.append(k)
                stacked.append(component)
            else:
                others.append(k)
        return full, GaussianStack(stacked) if full else None, others

    def _blocks(self, n):
        """Rows whose residuals stay in cache."""
        stack = self._stacked[1]
        return row_blocks(n, self.dim if stack is None else stack.shift.size)

    def _evaluate(self, theta, out):
        """Fill `out` with log densities; what their scores need is returned."""
        index, stack, others = self._stacked
        residuals, evaluations = None, []
        if stack is not None:
            residuals, out[:, index] = stack.at(theta)
        for k in others:
            evaluations.append(self.components[k].at(theta))
            out[:, k] = evaluations[-1].log_density
        return residuals, evaluations

    def log_components(self, theta):
        """Log density of every component at `theta` (n, dim), (n, n_components),
        nats."""
        theta = checked_points(theta, self.dim)
        out = np.empty((len(theta), self.n_components))
        for rows in self._blocks(len(theta)):
            self._evaluate(theta[rows], out[rows])
        return out

    def log_density(self, theta):
        """``ln q(theta)``, shape (n,), nats; see `log_components`."""
        return log_sum_exp(self.log_components(theta), log_weights(self.weights))

    def responsibilities(self, theta):
        """``alpha_k s_k(theta) / q(theta)``, shape (n, n_components)."""
        table = self.log_components(theta) + log_weights(self.weights)
        return responsibilities(table)[0]

    def score_and_log_density(self, theta):
        """``d ln q / d theta`` (n, dim) and ``ln q`` (n,), nats, at `theta` (n,
        dim)."""
        theta = checked_points(theta, self.dim)
        index, stack, others = self._stacked
        score, log_q = np.zeros_like(theta), np.empty(len(theta))
        for rows in self._blocks(len(theta)):
            here = theta[rows]
            table = np.empty((len(here), self.n_components))
            residuals, evaluations = self._evaluate(here, table)
            share, log_q[rows] = responsibilities(table + log_weights(self.weights))
            if stack is not None:
                score[rows] += stack.score(residuals, share[:, index])
            for k, evaluation in zip(others, evaluations, strict=True):
                score[rows] += share[:, k, None] * evaluation.score()
        return score, log_q

    def marginal_log_density(self, k, index, x):
        """Log density of coordinates `index` at `x` (n,) under component k, nats."""
        return self.components[k].marginal_log_density(index, x)

    def marginal_cdf(self, k, index, x):
        """Probability of coordinates `index` below `x` (n,) under component k."""
        return self.components[k].marginal_cdf(index, x)

    # --- draws

    def sample(self, n, rng):
        """`n` draws in random order, shape (n, dim), by a generator `rng` of NumPy."""
        counts = rng.multinomial(n, self.weights / self.weights.sum())
        return rng.permutation(self._draw(counts, rng), axis=0)

    def _draw(self, counts, rng):
        parts = [np.empty((0, self.dim))]
        for count, component in zip(counts, self.components, strict=True):
            if count:
                parts.append(component.sample(int(count), rng))
        return np.concatenate(parts)

    def stratified_draws(self, n, rng, at_once=False):
        """Draws by component, with row weights that make averages unbiased.

        Parameters
        ----------
        n : int
            Shared out by weight, eight at least for each component of positive weight.
        rng : numpy.random.Generator
        at_once : bool
            Whether full Gaussians share one sequence of points.

        Returns
        -------
        theta : ndarray of shape (m, dim)
        row_weights : ndarray of shape (m,)
            Sum to one; ``row_weights @ f(theta)`` estimates ``E_q[f]``.
        source : ndarray of int of shape (m,)
            Component of each draw.
        """
        counts = np.maximum(np.ceil(self.weights * n).astype(int), 8)
        counts[self.weights == 0] = 0
        source = np.repeat(np.arange(self.n_components), counts)
        row_weights = (self.weights / np.maximum(counts, 1))[source]
        if at_once and not self._stacked[2]:
            base = self.components[0].base_draws(int(counts.sum()), rng)
            parts = np.split(base, counts.cumsum()[:-1])
            pairs = zip(self.components, parts, strict=True)
            theta = np.concatenate([one.draws(part) for one, part in pairs])
        else:
            theta = self._draw(counts, rng)
        return theta, row_weights, source

    # --- moments

    def component_means(self):
        """Means of the components, shape (n_components, dim)."""
        return np.array([*map(Component.mean, self.components)])

    def component_locations(self):
        """Centres of the components, also of those without a mean, like their means."""
        return np.array([*map(Component.location, self.components)])

    def component_scales(self):
        """Lengths of the components, also of those without a variance."""
        return np.array([*map(Component.scale, self.components)])

    def mean(self):
        """Mean of the mixture, shape (dim,)."""
        return self.weights @ self.component_means()

    def covariance(self):
        """Covariance of the mixture, shape (dim, dim)."""
        spread = self.component_means() - self.mean()
        total = (self.weights[:, None] * spread).T @ spread
        for weight, component in zip(self.weights, self.components, strict=True):
            total += weight * component.moments()[1]
        return total

    def std(self):
        """Standard deviations of the coordinates, shape (dim,), without a matrix."""
        spread = self.component_means() - self.mean()
        stds = np.array([*map(Component.std, self.components)])
        return np.sqrt(self.weights @ (stds**2 + spread**2))

    def equals(self, other):
        """Whether another mixture has the same components and weights, bit by bit."""
        if not np.array_equal(self.weights, other.weights):
            return False
        return all(
            a.family is b.family and np.array_equal(a.params, b.params)
            for a, b in zip(self.components, other.components, strict=True)
        )

    # --- changes, each a new mixture

    def with_weights(self, weights):
        """The same components under other weights."""
        return Mixture(self.components, weights)

    def append(self, component):
        """One more component, at weight zero."""
        components = (*self.components, component)
        return Mixture(components, np.append(self.weights, 0.0))

    def replace(self, k, component):
        """Component k exchanged, its weight kept."""
        others = self.components[:k], self.components[k + 1 :]
        return Mixture((*others[0], component, *others[1]), self.weights)

    def widen(self, width):
        """The components stretched about their centres, without orbits."""
        return Mixture(tuple(c.widen(width) for c in self.components), self.weights)

    def keep(self, mask):
        """The components where `mask` is True, weights divided by their sum."""
        mask = np.asarray(mask, dtype=bool)
        kept = self.weights[mask]
        if not kept.sum() > 0:
            raise ValueError(
                "mask must keep a component of positive weight; it keeps none."
            )
        return Mixture(compress(self.components, mask), kept / kept.sum())

    @property
    def gaussian(self):
        """Whether all components have the exact expectations of Gaussians."""
        return all(map(_IS_EXACT, self.components))

    @property
    def heaviest(self):
        """The component of the largest weight, the first of several."""
        return self.components[int(self.weights.argmax())]

    def drop_zero_weights(self):
        """The components of positive weight; the mixture itself if that is all."""
        positive = self.weights > 0
        return self if positive.all() else self.keep(positive)


def kept_components(weights, max_components):
    """Mask of components that stay: positive weights, and the heaviest of too many."""
    kept = weights > 0
    if max_components is None or kept.sum() <= max_components:
        return kept
    kept[:] = False
    kept[(-weights).argsort(kind="stable")[:max_components]] = True
    return kept
