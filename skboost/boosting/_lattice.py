"""Boosting where coordinates are few: every expectation is a sum over a lattice.

Sums over the nodes of a lattice are integrals of a smooth density, to 1e-5 of a
Gaussian at steps of one standard deviation (Trefethen and Weideman: The exponentially
convergent trapezoidal rule, SIAM Review 56, 2014). As in Rue, Martino and Chopin
(Approximate Bayesian inference for latent Gaussian models by using integrated nested
Laplace approximations, Journal of the Royal Statistical Society B 71, 2009) its axes
are the principal ones at the mode; it grows from there, node by node, wherever the
density has not fallen enough.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter

import numpy as np

from skboost._math import N_ERRORS
from skboost.approximation import Estimate, FreshDraws, RemainingKL
from skboost.boosting._state import FIRST, Info, Move
from skboost.boosting._surrogate import KeptState, SurrogateBoosting
from skboost.boosting._weighted_points import Gaussians, WeightedPoints

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
# Components that are split, the heaviest first, until one gains: EM lowers another
# divergence, and may end at a component as narrow as the lattice allows.
_MOST_TRIED = 4
# Nodes at most, by coordinates: four times what examples took of a posterior with the
# longest tails.
_MOST = {1: 1 << 8, 2: 1 << 10, 3: 1 << 12}


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
        log_cell = np.linalg.slogdet(self.axes)[1] + self.z.shape[1] * np.log(self.step)
        return Estimate(float(top + np.log(mass.sum()) + log_cell), float(error))

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


# --- the engine


@dataclass(frozen=True)
class LatticeState(KeptState):
    """Everything that the next split needs."""

    lattice: Lattice
    gaussians: Gaussians

    @property
    def remaining(self):
        """Of the mixture, up to the error of the sums."""
        return self.fresh.remaining()


@dataclass(frozen=True)
class LatticeBoosting(SurrogateBoosting):
    """Boosting without draws: the density is evaluated at the nodes of a lattice alone.

    The first component has the density's moments; each iteration splits the heaviest
    one that gains, until `most_kl` nats are left. Where the lattice would take too many
    nodes, is too coarse, or takes more than limits allow, it is boosting on surrogates.
    """

    most_kl: float = 0.0

    begins_with = "a lattice"

    def init(self, target):
        """The Gaussian with the moments of the density."""
        began, lattice = perf_counter(), self._lattice(target)
        if lattice is None:
            return super().init(target)
        gaussians = lattice.gaussian()
        fresh = lattice.judged(gaussians)
        state = LatticeState(1, fresh, 1, lattice, gaussians)
        return state, self._make_info(state, FIRST, began)

    def _lattice(self, target):
        """The lattice around the mode; None where there is none of use."""
        ledger = target.ledger
        # A lattice takes many evaluations at once.
        if ledger.budget.cuts():
            return None
        with ledger.within(ledger.budget, raises=False):
            return Lattice.around(target, self._near_mode(target), _MOST[target.dim])

    def step(self, target, state):
        """One component more."""
        if not isinstance(state, LatticeState):
            return super().step(target, state)
        began, lattice, t = perf_counter(), state.lattice, state.iteration + 1
        for k in np.argsort(-state.gaussians.weights, kind="stable")[:_MOST_TRIED]:
            gaussians = lattice.split(state.gaussians, k)
            fresh = lattice.judged(gaussians)
            gain = fresh.elbo().value - state.fresh.elbo().value
            if gain > 0.0:
                move = Move("split", "split", float(gaussians.weights[-1]))
                after = LatticeState(t, fresh, t, lattice, gaussians)
                return after, self._make_info(after, move, began, Estimate(gain, 0.0))
        after, move = replace(state, iteration=t), Move("rejected", "split", 0.0)
        return after, self._make_info(after, move, began, Estimate(0.0, 0.0))

    def _make_info(self, state, move, *began_and_gain):
        left, n = state.remaining.value, len(state.lattice.z)
        info = Info.of(state, state.mixture, move, self.most_kl, *began_and_gain)
        if left <= self.most_kl:
            little = (
                f"Converged: {max(left, 0.0):.2g} nats are left, within tol, by sums "
                f"over a lattice of {n:,} points."
            )
            return replace(info, little_remains=little)
        stuck, much = move.kind == "rejected", left > 2.0 * self.most_kl
        return replace(info, tries_again=not stuck, inconclusive=stuck and much)
