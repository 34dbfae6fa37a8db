"""Coefficients beside the scales that they were integrated out for.

Given scales the coefficients are Gaussian, so that a mixture over (transformed) scales
z is one over everything: q(beta, z) = sum_k w_k q_k(z) N(beta; m(z), C(z)).
"""

from functools import cached_property
from types import SimpleNamespace

import numpy as np
from scipy.special import ndtr

from skboost._math import LOG_2PI, log_sum_exp
from skboost._parallel import row_blocks
from skboost._random import generator
from skboost.approximation import Mixture
from skboost.families import Component
from skboost.hierarchy._covariances import Quadratic

# Draws of scales over which moments and marginals of coefficients are averages, in all
# and of a component at least; they are quasi-random, and averages smooth.
_N_NODES, _FEWEST_NODES = 256, 64
# Draws to which quadratics are fitted, for each of their terms.
_DRAWS_PER_TERM = 4


def with_coefficients(mixture, target):
    """The mixture over coefficients and scales of one over the scales of a target."""
    # At every draw a mode is searched, or a large matrix factorised, of all others.
    quick = target.marginal.exact and target.marginal.quick
    given = target if quick else SmoothCoefficients.of(mixture, target)
    # Where components have orbits it is those that are Gaussian beside coefficients.
    n_nodes = max(_N_NODES // mixture.n_components, _FEWEST_NODES)
    parts = [
        Component(GivenScales(part, given, n_nodes), component.params)
        for part, component in zip(mixture.parts, mixture.components, strict=True)
    ]
    return Mixture(tuple(parts), mixture.weights)


class SmoothCoefficients:
    """Gaussians of coefficients as quadratics in the scales: of means, of logarithms of
    diagonals of triangular factors, and of what else is in a row over its diagonal.
    """

    def __init__(self, z, mean, root):
        self.n_coefficients = mean.shape[1]
        self.below = np.tril_indices(self.n_coefficients, -1)
        diagonal = np.einsum("skk->sk", root)
        table = [mean, np.log(diagonal), (root / diagonal[..., None])[:, *self.below]]
        self.trend = Quadratic(z, np.hstack(table))

    @staticmethod
    def n_points(dim):
        """As many as are enough for quadratics in so many scales."""
        return _DRAWS_PER_TERM * Quadratic.n_terms(dim)

    @classmethod
    def of(cls, mixture, target):
        """Those of a target, fitted where a mixture over its scales has draws."""
        z = mixture.exact.sample(cls.n_points(target.dim), generator(0))
        return cls(z, *target.coefficients(z))

    def coefficients(self, z):
        """Means (n, p) and triangular factors (n, p, p) at scales (n, d)."""
        p, values = self.n_coefficients, self.trend(z)
        mean, log_diagonal, below = np.split(values, [p, 2 * p], axis=1)
        root = np.zeros((len(z), p, p))
        root[:, *self.below] = below
        root[:, np.arange(p), np.arange(p)] = 1.0
        return mean, root * np.exp(log_diagonal)[..., None]


class GivenScales:
    """One component of `with_coefficients`, as a family of which it is a member.

    ``target.coefficients(z)`` gives means (n, p) and triangular factors (n, p, p); for
    `SmoothCoefficients` in place of a target these are approximate.
    """

    exact_expectations = full_covariance = False
    # What files would have to hold, as their error calls it.
    label = "coefficients that were integrated out given scales"

    def __init__(self, component, target, n_nodes=_N_NODES):
        self.component, self.target, self.n_nodes = component, target, n_nodes
        self.p = target.n_coefficients

    def variants(self):
        """It stands for no other."""
        return (self,)

    def dim_of(self, params):
        """Coefficients and scales."""
        return self.p + self.component.dim

    def __getstate__(self):
        # Nodes are computed again.
        return {name: held for name, held in vars(self).items() if name != "nodes"}

    @cached_property
    def nodes(self):
        """Means and standard deviations of coefficients (n, p) at draws of the scales,
        the mean of their covariance matrices, and the draws.
        """
        z = self.component.sample(self.n_nodes, generator(0))
        mean, sd = np.empty((2, len(z), self.p))
        within = np.zeros((self.p, self.p))
        for some, centre, root in self._coefficients(z):
            mean[some], sd[some] = centre, np.sqrt((root**2).sum(axis=2))
            within += np.einsum("spq,srq->pr", root, root) / len(z)
        return mean, sd, within, z

    def _coefficients(self, z):
        """Slices of scales, and means and factors of the coefficients at these."""
        for some in row_blocks(len(z), 4 * self.p**2):
            yield some, *self.target.coefficients(z[some])

    # --- at points

    def log_density(self, theta, params):
        """Log density at (n, dim), nats."""
        beta, z = theta[:, : self.p], theta[:, self.p :]
        value = self.component.log_density(z) - 0.5 * self.p * LOG_2PI
        for some, mean, root in self._coefficients(z):
            white = np.linalg.solve(root, (beta[some] - mean)[..., None])[..., 0]
            value[some] -= 0.5 * (white**2).sum(axis=1)
            value[some] -= np.log(np.abs(np.einsum("skk->sk", root))).sum(axis=1)
        return value

    def at(self, params, theta):
        """`Evaluation` at points; scores are central differences."""

        def score():
            scale = 1e-5 * self.scale(params)
            steps = np.diag(scale)
            ends = [
                self.log_density(theta + s, params)
                - self.log_density(theta - s, params)
                for s in steps
            ]
            return np.stack(ends, axis=1) / (2.0 * scale)

        return SimpleNamespace(log_density=self.log_density(theta, params), score=score)

    # --- draws

    def base_draws(self, n, dim, rng):
        """Standard normal numbers, and draws of the scales."""
        return np.hstack(
            [rng.standard_normal((n, self.p)), self.component.sample(n, rng)]
        )

    def transport(self, params, eps):
        """Draws of coefficients beside those of scales."""
        theta = eps.copy()
        for some, mean, root in self._coefficients(eps[:, self.p :]):
            away = np.einsum("spq,sq->sp", root, eps[some, : self.p])
            theta[some, : self.p] = mean + away
        return theta

    # --- moments

    def mean(self, params):
        """Mean, (dim,)."""
        return np.append(self.nodes[0].mean(axis=0), self.component.mean())

    location = mean

    def moments(self, params):
        """Mean and covariance matrix."""
        mean, _, within, z = self.nodes
        out = np.cov(np.hstack([mean, z]), rowvar=False, bias=True)
        out[: self.p, : self.p] += within
        out[self.p :, self.p :] = self.component.moments()[1]
        return self.mean(params), out

    def std(self, params):
        """Standard deviations, (dim,)."""
        mean, sd, *_ = self.nodes
        variance = mean.var(axis=0) + (sd**2).mean(axis=0)
        return np.append(np.sqrt(variance), self.component.std())

    def scale(self, params):
        """Lengths, (dim,)."""
        return np.append(self.std(params)[: self.p], self.component.scale())

    # --- marginals

    def marginal_cdf(self, params, i, x):
        """Distribution function of coordinate `i` at `x` (n,)."""

        def of_nodes(u, sd):
            return ndtr(u).mean(axis=0)

        return self._marginal(i, x, self.component.marginal_cdf, of_nodes)

    def marginal_log_density(self, params, i, x):
        """Log density of coordinate `i` at `x` (n,), nats."""

        def of_nodes(u, sd):
            table = -0.5 * u**2 - 0.5 * LOG_2PI - np.log(sd)
            return log_sum_exp(table.T, -np.log(len(table)))

        return self._marginal(i, x, self.component.marginal_log_density, of_nodes)

    def _marginal(self, i, x, of_scales, of_nodes):
        """Of coefficients by the nodes, of scales by their component."""
        x = np.asarray(x, dtype=float)
        i = np.broadcast_to(i, x.shape)
        own, out = i < self.p, np.empty(x.shape)
        if own.any():
            mean, sd = (table[:, i[own]] for table in self.nodes[:2])
            out[own] = of_nodes((x[own] - mean) / sd, sd)
        if not own.all():
            out[~own] = of_scales(i[~own] - self.p, x[~own])
        return out
