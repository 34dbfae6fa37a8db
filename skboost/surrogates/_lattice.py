"""A density of few coordinates from sums over a lattice, and mixtures fitted to these.

Sums over the nodes of a lattice are integrals of a smooth density, to 1e-5 of a
Gaussian at steps of one standard deviation (Trefethen and Weideman: The exponentially
convergent trapezoidal rule, SIAM Review 56, 2014). As in Rue, Martino and Chopin
(Approximate Bayesian inference for latent Gaussian models by using integrated nested
Laplace approximations, Journal of the Royal Statistical Society B 71, 2009) its axes
are the principal ones at the mode; it grows from there, node by node, wherever the
density has not fallen enough.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skboost._math import LOG_2PI, N_ERRORS, log_sum_exp, log_weights, responsibilities
from skboost.approximation import Estimate, FreshDraws, Mixture, RemainingKL
from skboost.families import Component, FullGaussian

# Nats below the top from which on a node has no neighbours: .02 per cent of the mass of
# a Gaussian in three dimensions are farther out.
_DEPTH = 10.0
# Steps in standard deviations, by dimension. In one nodes are few, and every second
# one says how many suffice. In four a step of one takes twice as many; over the
# examples of benchmarks/mixed_models.py the evidence changed by .002 nats at most.
_STEPS = {1: 0.5, 2: 1.0, 3: 1.0, 4: 1.2}
# Error of the log evidence above which a lattice is too coarse.
_LARGEST_ERROR = 0.1
# Nodes along an axis that can be told apart.
_SIDE = 1 << 10
# Least standard deviation of a component in steps: sums of narrower ones are wrong by
# more than half a per cent.
_NARROWEST = 0.55
# Iterations of EM, which end where one gains less than so many nats.
_MAX_EM, _EM_TOL = 200, 1e-5


@dataclass(frozen=True)
class Lattice:
    """Nodes ``centre + axes @ z`` with the log joint density at each, nats.

    z (n, dim) are about standard normal, in multiples of `step`.
    """

    centre: np.ndarray
    axes: np.ndarray
    step: float
    z: np.ndarray
    log_joint: np.ndarray

    @classmethod
    def around(cls, target, near, most):
        """Grown from the mean of a `LaplaceApproximation`.

        None where that would take more than `most` nodes, or than limits allow, and
        where its steps are too long.
        """
        dim = len(near.mean)
        step = _STEPS[dim]
        variances, axes = np.linalg.eigh(near.covariance)
        axes = axes * np.sqrt(variances)
        shape = (_SIDE,) * dim
        middle = np.ravel_multi_index((_SIDE // 2,) * dim, shape)
        strides = _SIDE ** np.arange(dim)
        moves = np.append(strides, -strides)
        codes, log_joint = np.empty(0, dtype=int), np.empty(0)
        new = np.array([middle])
        while len(new):
            if len(codes) + len(new) > most or target.ledger.budget.cuts():
                return None
            z = step * (np.array(np.unravel_index(new, shape)).T - _SIDE // 2)
            found = target.log_density(near.mean + z @ axes.T)
            codes = np.append(codes, new)
            log_joint = np.append(log_joint, found)
            inside = codes[log_joint > log_joint.max() - _DEPTH]
            new = np.setdiff1d(inside[:, None] + moves, codes)
        z = step * (np.array(np.unravel_index(codes, shape)).T - _SIDE // 2)
        lattice = cls(near.mean, axes, step, z, log_joint)
        # Not a number, too, where no node has any density.
        return lattice if lattice.log_evidence.se < _LARGEST_ERROR else None

    @property
    def points(self):
        """The nodes as coordinates, (n, dim)."""
        return self.centre + self.z @ self.axes.T

    @cached_property
    def log_cell(self):
        """Log volume of a cell."""
        return np.linalg.slogdet(self.axes)[1] + self.z.shape[1] * np.log(self.step)

    @cached_property
    def shares(self):
        """Of the mass, by node."""
        mass = np.exp(self.log_joint - self.log_joint.max())
        return mass / mass.sum()

    @cached_property
    def log_evidence(self):
        """Log integral, and by how much every second node says otherwise: nats."""
        top = self.log_joint.max()
        mass = np.exp(self.log_joint - top)
        even = np.rint(self.z / self.step).sum(axis=1) % 2 == 0
        error = abs(np.log(2.0 * mass[even].sum() / mass.sum()))
        # What lies farther out is less than what the outermost nodes hold.
        error += mass[mass < np.exp(-_DEPTH)].sum() / mass.sum()
        return Estimate(float(top + np.log(mass.sum()) + self.log_cell), float(error))

    @cached_property
    def _terms(self):
        """1, z and products of z: what densities and moments are made of."""
        pairs = self.z[:, :, None] * self.z[:, None]
        ones = np.ones((len(self.z), 1))
        return np.hstack([ones, self.z, pairs.reshape(len(self.z), -1)])

    # --- mixtures

    def gaussian(self):
        """The Gaussian with the moments of the density, as `Gaussians`."""
        return self._moments(self.shares[:, None])

    def split(self, found, k=None):
        """`Gaussians` of which one, the heaviest by default, is two, likelier on the
        nodes.

        EM on nodes weighted by their shares: the least KL(p || q), which leaves means
        and covariances of the whole as they are.
        """
        k = int(found.weights.argmax()) if k is None else k
        share = self._responsibilities(found)[0][:, k] * self.shares
        share /= share.sum()
        root = np.linalg.cholesky(found.covariances[k])
        white = np.linalg.solve(root, (self.z - found.means[k]).T).T
        # Along the skewness, where there is some.
        lean = (share * (white**2).sum(axis=1)) @ white
        size = np.linalg.norm(lean)
        lean = lean / size if size > 1e-9 else np.eye(len(lean))[0]
        away = 0.6 * root @ lean
        halves = np.stack([found.means[k] - away, found.means[k] + away])
        narrow = found.covariances[k] - np.outer(away, away)
        others = np.arange(len(found.weights)) != k
        started = Gaussians(
            np.append(found.weights[others], np.full(2, 0.5 * found.weights[k])),
            np.concatenate([found.means[others], halves]),
            np.concatenate([found.covariances[others], [narrow, narrow]]),
        )
        return self._climbed(started)

    def _climbed(self, found):
        before = -np.inf
        for _ in range(_MAX_EM):
            share, log_q = self._responsibilities(found)
            now = self.shares @ log_q
            if now - before < _EM_TOL:
                break
            before, found = now, self._moments(share * self.shares[:, None])
        return found

    def _responsibilities(self, found):
        table = self._terms @ found.coefficients().T
        return responsibilities(table + log_weights(found.weights))

    def _moments(self, share):
        """`Gaussians` with the moments of shares (n, n_components) of the nodes."""
        dim = self.z.shape[1]
        sums = share.T @ self._terms
        mass = sums[:, 0]
        sums = sums / np.maximum(mass, np.finfo(float).tiny)[:, None]
        means = sums[:, 1 : 1 + dim]
        covariances = sums[:, 1 + dim :].reshape(-1, dim, dim)
        covariances = covariances - means[:, :, None] * means[:, None]
        variances, axes = np.linalg.eigh(covariances)
        variances = np.maximum(variances, (_NARROWEST * self.step) ** 2)
        covariances = (axes * variances[:, None]) @ axes.swapaxes(1, 2)
        return Gaussians(mass / mass.sum(), means, covariances)

    def judged(self, found):
        """The `LatticeSums` of the mixture of some `Gaussians`."""
        family = FullGaussian()
        means = self.centre + found.means @ self.axes.T
        covariances = self.axes @ found.covariances @ self.axes.T
        components = tuple(
            Component(family, family.from_moments(mean, covariance))
            for mean, covariance in zip(means, covariances, strict=True)
        )
        mixture = Mixture(components, found.weights)
        table = self._terms @ found.coefficients().T
        log_q = log_sum_exp(table, log_weights(found.weights))
        mass = np.exp(log_q) * self.step ** len(self.centre)
        source = np.zeros(len(mass), dtype=int)
        return LatticeSums(
            mixture, self.points, mass / mass.sum(), source, self.log_joint, None,
            *self.log_evidence, float(mass.sum()),
        )  # fmt: skip


class Gaussians(NamedTuple):
    """A mixture of Gaussians in the coordinates z of a `Lattice`."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def coefficients(self):
        """Of log densities in 1, z and products of z, (n_components, n_terms)."""
        precision = np.linalg.inv(self.covariances)
        pulled = np.einsum("kij,kj->ki", precision, self.means)
        constant = np.einsum("ki,ki->k", pulled, self.means)
        constant += np.linalg.slogdet(self.covariances)[1]
        constant += self.means.shape[1] * LOG_2PI
        products = precision.reshape(len(constant), -1)
        return np.column_stack([-0.5 * constant, pulled, -0.5 * products])


@dataclass(frozen=True)
class LatticeSums(FreshDraws):
    """What sums over a lattice say of a mixture: nodes, in place of draws, weighted by
    its density.
    """

    log_evidence: float
    # Of the log evidence; and the mass of the mixture by the same sums, near one.
    error: float
    mass: float

    def elbo(self):
        inside = np.isfinite(self.log_joint)
        value = self.row_weights[inside] @ self.log_ratio[inside]
        return Estimate(float(value + np.log1p(-self.outside)), self.error)

    @property
    def known_to(self):
        """The error, and what the mixture has where the lattice ends or is too coarse
        for it, at a depth of that of its end.
        """
        return N_ERRORS * self.error + _DEPTH * abs(1.0 - self.mass)

    def remaining(self):
        """`RemainingKL`, whose error is that of the sums: no weights have a tail."""
        value = max(self.log_evidence - self.elbo().value, 0.0)
        return RemainingKL(value, self.error, 0.0, value, self.outside)
