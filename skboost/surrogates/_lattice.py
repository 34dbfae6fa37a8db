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

import numpy as np

from skboost._math import N_ERRORS
from skboost.approximation import Estimate, FreshDraws, RemainingKL
from skboost.surrogates._weighted import WeightedPoints

# Nats below the top from which on a node has no neighbours: .02 per cent of the mass of
# a Gaussian in three dimensions are farther out.
_DEPTH = 10.0
# Steps in standard deviations, by dimension. In one nodes are few, and every second
# one says how many suffice.
_STEPS = {1: 0.5, 2: 1.0, 3: 1.0}
# Error of the log evidence above which a lattice is too coarse.
_LARGEST_ERROR = 0.1
# Nodes along an axis that can be told apart.
_SIDE = 1 << 10
# Least standard deviation of a component, in steps.
_NARROWEST = 0.55


@dataclass(frozen=True)
class Lattice(WeightedPoints):
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

    @property
    def narrowest(self):
        """Least standard deviation of a component: sums of narrower ones are wrong by
        more than half a per cent.
        """
        return _NARROWEST * self.step

    # --- mixtures

    def judged(self, found):
        """The `LatticeSums` of the mixture of some `Gaussians`."""
        mixture = self.mixture(found)
        log_q = self.log_density(found)
        mass = np.exp(log_q) * self.step ** len(self.centre)
        source = np.zeros(len(mass), dtype=int)
        return LatticeSums(
            mixture, self.points, mass / mass.sum(), source, self.log_joint, None,
            *self.log_evidence, float(mass.sum()),
        )  # fmt: skip


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
