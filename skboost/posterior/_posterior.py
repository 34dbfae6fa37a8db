"""Approximate posteriors as users meet them: of any vector, and of constrained ones.

The two classes know each other, since `MixturePosterior.load` returns either, and so
share a file.
"""

from dataclasses import replace
from functools import cache, partial

import numpy as np

from skboost.approximation import Mixture, checked_points
from skboost.posterior._backed import as_generator, check_size
from skboost.posterior._base import BasePosterior
from skboost.posterior._marginal import Marginal, quantile_table
from skboost.posterior._modes import mixture_modes
from skboost.posterior._storage import (
    FORMAT,
    FORMAT_VERSION,
    loaded_mixture,
    reading_archive,
)
from skboost.posterior._transformed import (
    SampledMarginal,
    TransformedMarginal,
    covariance,
    fixed_draws,
    moments,
)
from skboost.transforms import Constraints


class MixturePosterior(BasePosterior):
    """A mixture density as approximate posterior of a parameter vector.

    Immutable: methods that change something return a new posterior.
    `skboost.inspection.PosteriorDisplay.from_posterior` draws it.

    Parameters
    ----------
    mixture : Mixture
        Components of weight zero are dropped.
    names : sequence of str of length dim, default=None
        Names of the coordinates, for tables and plots.

    Attributes
    ----------
    mixture : Mixture
        The numerical core: component densities, responsibilities, scores.
    names : tuple of str or None
    constraints : Constraints or None
        None: the parameter may lie anywhere. See `TransformedPosterior`.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import DiagonalGaussian
    >>> from skboost.posterior import Mixture, MixturePosterior
    >>> normal = Mixture.single((DiagonalGaussian(), np.zeros(2)))
    >>> MixturePosterior(normal).std()
    array([1.])
    """

    __slots__ = ()

    def __repr__(self):
        return f"MixturePosterior(dim={self.dim}, n_components={self.n_components})"

    def _quantiles(self, levels):
        """Quantiles at probabilities `levels`, shape (dim, len)."""
        return quantile_table(self._mixture, range(self.dim), levels)

    def log_density(self, theta):
        """Log density in nats at `theta` (n, dim), shape (n,)."""
        return self._mixture.log_density(theta)

    def sample(self, n=1, random_state=None):
        """Draws in random order, shape (n, dim).

        Quasi-random within each component: averages over them are at least as accurate
        as over independent draws.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None
        """
        return self._mixture.sample(check_size("n", n), as_generator(random_state))

    def mean(self):
        """Posterior mean, shape (dim,)."""
        return self._mixture.mean()

    def covariance(self):
        """Posterior covariance, shape (dim, dim)."""
        return self._mixture.covariance()

    def std(self):
        """Posterior standard deviations, shape (dim,)."""
        return self._mixture.std()

    def marginal(self, i):
        """Marginal of one coordinate, with pdf, cdf and quantile.

        Parameters
        ----------
        i : int or str
            Index (negative ones count from the end) or name of the coordinate.

        Returns
        -------
        Marginal
            Of constrained coordinates a `TransformedMarginal` or `SampledMarginal`.
        """
        (marginal,) = self._marginals([self.index_of(i)])
        return marginal

    def _marginals(self, indices):
        """Marginals of some coordinates."""
        return [Marginal(self._mixture, i) for i in indices]

    def modes(self):
        """Local maxima of the mixture, before orbits, highest first: list of `Mode`.

        Each has ``location``, ``log_density`` (nats), the total ``weight`` and the
        indices (``components``) of the components whose means climb to it, and its
        ``distance`` from the highest mode in standard deviations.
        """
        return mixture_modes(self.mixture)

    @classmethod
    def load(cls, path):
        """Posterior that `save` wrote, of its class; refuses other files with a
        ValueError."""
        archive = reading_archive(path, FORMAT, FORMAT_VERSION, "MixturePosterior.save")
        with archive as (header, arrays):
            return as_posterior(*loaded_mixture(header, arrays))

    @classmethod
    def from_components(cls, components, weights, names=None):
        """Posterior from `Component` objects and their weights."""
        return cls(Mixture(tuple(components), weights), names)


class TransformedPosterior(MixturePosterior):
    """Posterior of constrained parameters: a mixture of unconstrained ones, mapped.

    Everything it returns, and every log joint that it takes, is on the user's scale,
    except `mixture`. Marginals are exact, by change of variables, for a coordinate
    with a transform of its own; inside a simplex or among ordered coordinates they come
    from fixed draws: quantiles and cdf to about 1e-3 in probability, the density by
    kernels. Behind a warp no coordinate has a transform of its own: all
    moments and marginals are those of fixed draws, and infinite ones do not show.

    Parameters
    ----------
    mixture : Mixture
        Of the ``constraints.n_free`` unconstrained coordinates.
    constraints : Constraints
    names : sequence of str of length ``constraints.dim``, default=None

    Attributes
    ----------
    mixture, constraints, names
        As given; names are a tuple, or None.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import Component, Gaussian
    >>> from skboost.posterior import Mixture, TransformedPosterior
    >>> from skboost.transforms import Constraints
    >>> normal = Mixture.single(Component(Gaussian("diag"), np.zeros(2)))
    >>> lognormal = TransformedPosterior(normal, Constraints("positive", dim=1))
    >>> lognormal.mean().round(4)
    array([1.6487])
    """

    __slots__ = ("_constraints", "_held")

    def __init__(self, mixture, constraints, names=None):
        if not isinstance(constraints, Constraints):
            raise TypeError(
                "constraints must be a Constraints object, which knows the dimension; "
                f"got {type(constraints).__name__}."
            )
        if mixture.dim != constraints.n_free:
            raise ValueError(
                f"mixture must have dimension {constraints.n_free}, the number of "
                f"unconstrained coordinates; got dimension {mixture.dim}."
            )
        self._constraints = constraints
        super().__init__(mixture, names)

    def __repr__(self):
        return (
            f"TransformedPosterior(dim={self.dim}, n_components={self.n_components}, "
            f"constraints={self._constraints!r})"
        )

    @property
    def constraints(self):
        return self._constraints

    @property
    def dim(self):
        """Number of coordinates on the user's scale."""
        return self._constraints.dim

    def log_density(self, theta):
        """Log density in nats at `theta` (n, dim), shape (n,).

        -inf outside the constraints. With a simplex it is that of all coordinates but
        its last, and rows are inside where coordinates add up to one within 1e-8.
        """
        theta = checked_points(theta, self.dim)
        inside = self._constraints.contains(theta)
        out = np.full(len(theta), -np.inf)
        if inside.any():
            z = self._constraints.inverse(theta[inside])
            value = self._mixture.log_density(z) - self._constraints.log_jacobian(z)
            out[inside] = np.fmax(value, -np.inf)
        return out

    def sample(self, n=1, random_state=None):
        """As `MixturePosterior.sample`; all draws are inside the constraints."""
        return self._constraints.forward(super().sample(n, random_state))

    def _placed(self, z, *mixtures):
        # By way of z: rounding at the edge of the support does not show.
        _, *values = super()._placed(z, *mixtures)
        log_jacobian = self._constraints.log_jacobian(z)
        return self._constraints.forward(z), *(v - log_jacobian for v in values)

    def mean(self):
        """Posterior mean, shape (dim,).

        By quadrature, to about 1e-9 standard deviations where components are smooth,
        for coordinates with a transform of their own and ordered ones; for a simplex
        from fixed draws, to about 1e-3 standard deviations. Infinite where there is
        none: the exponential of a Student-t, or of a Laplace variable with a scale of
        one or more, has no mean. Of a periodic coordinate the mean direction.
        """
        return self._moments[0].copy()

    def std(self):
        """Posterior standard deviations, shape (dim,), accurate as `mean` is.

        Those of ordered coordinates come from fixed draws, to about one per cent.
        Of a periodic coordinate ``sqrt(-2 ln R)``, R the mean resultant length.
        """
        return self._moments[1].copy()

    @property
    def _moments(self):
        # Of blocks they are averages over tens of thousands of draws: made once.
        if getattr(self, "_held", None) is None:
            self._held = moments(self._mixture, self._constraints)
        return self._held

    def covariance(self):
        """Posterior covariance, shape (dim, dim).

        Correlations come from fixed quasi-random draws (32768; fewer above 128
        coordinates), the diagonal from `std`. NaN beside an infinite variance.
        """
        return covariance(self._mixture, self._constraints)

    def _marginals(self, indices):
        # The draws behind marginals inside of blocks are made once, where needed.
        draws = cache(partial(fixed_draws, self._mixture, self._constraints))
        found = []
        for i in indices:
            transformed = self._constraints.elementwise(i)
            if transformed is None:
                theta, *others = draws()
                others += [self.weights, self._constraints.range_of(i)]
                found.append(SampledMarginal(theta[:, i], *others))
            else:
                transform, free = transformed
                marginal = Marginal(self._mixture, free)
                found.append(TransformedMarginal(marginal, transform))
        return found

    def _quantiles(self, levels):
        out, inside_blocks = np.empty((self.dim, len(levels))), []
        for transform, columns, free in self._constraints.parts:
            if transform.elementwise:
                z = quantile_table(self._mixture, free, levels)
                out[columns] = transform.forward(z)
            else:
                inside_blocks.extend(columns)
        marginals = self._marginals(inside_blocks)
        for i, marginal in zip(inside_blocks, marginals, strict=True):
            out[i] = marginal.quantile(levels)
        return out

    def modes(self):
        """Local maxima of the *unconstrained* density, highest first: list of `Mode`.

        Each has its ``location`` on the user's scale. ``log_density`` and ``distance``
        are those of the unconstrained coordinates, or before a warp: a density has
        other maxima on every scale, and may have none on the user's.
        """
        modes = mixture_modes(self.mixture, self._constraints.warp)
        locations = self._constraints.forward(np.array([m.location for m in modes]))
        return [
            replace(mode, location=location)
            for mode, location in zip(modes, locations, strict=True)
        ]

    @classmethod
    def from_components(cls, components, weights, constraints, names=None):
        """Posterior from `Component` objects, their weights, and constraints."""
        return cls(Mixture(tuple(components), weights), constraints, names)


def as_posterior(mixture, names=None, constraints=None):
    """The posterior of a mixture: `TransformedPosterior` where it has constraints."""
    if constraints is None or constraints.trivial:
        return MixturePosterior(mixture, names)
    return TransformedPosterior(mixture, constraints, names)
