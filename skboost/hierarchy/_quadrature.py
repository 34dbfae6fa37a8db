"""One factor and any likelihood: adaptive Gauss-Hermite quadrature.

Given coefficients and scales the groups are independent, and each is an integral over
its few effects. It is taken over standard normal v, u = L v, around the mode of
every group: v = mode + R t with R R' the inverse of minus the Hessian there. The
gradient is Fisher's identity at the same nodes.

Both sides of the mode have nodes and a width of their own along each axis of R. Where
all responses of a group are equal and the scale is large, the integrand falls like a
step on one side and like a Gaussian on the other; nodes that do not tell them apart
are wrong by up to .1 nats a group, which adds up over groups to modes that no density
has.

Pinheiro and Bates 1995, Approximations to the log-likelihood function in the nonlinear
mixed-effects model, Journal of Computational and Graphical Statistics 4.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from skboost._math import LOG_2PI
from skboost._parallel import row_blocks
from skboost.hierarchy._covariances import (
    Conditional,
    Covariances,
    cholesky,
    inverse_and_log_det,
)
from skboost.hierarchy._marginal import LikelihoodMarginal
from skboost.hierarchy._rows import GroupSums

# Numbers of nodes on each side of a mode that may do, and by how much the last of these
# may say otherwise: values by nats, but for a constant, and slopes by means in standard
# deviations.
NODES, _ERROR = (2, 3, 5), 0.03
# Rows times nodes up to which values come by thousands.
_FEW = 1 << 12
# Newton steps at most. Where they are shorter than the tolerance, in standard
# deviations, nodes sit well enough.
_MAX_STEPS, _TOLERANCE = 40, 1e-3
# Standard deviations from the mode at which the width of a side is measured, and the
# least and the most that it may be in their unit.
REACH, _NARROWEST, _WIDEST = 3.0, 0.2, 5.0
# Nats above the mode up to which a node counts: products with slopes are finite.
_HIGHEST = 300.0


class QuadratureMarginal(LikelihoodMarginal):
    """Log likelihood of a generalised linear model with one factor.

    The gradient is that of the exact integral.
    """

    @property
    def lattice_dim(self):
        """See `Marginal`: three coordinates of few rows."""
        return 3 if len(self.rows.y) * len(self.nodes) <= 1 << 13 else 2

    @property
    def cost(self):
        """See `Marginal`: little is a tenth of a millisecond or two."""
        return "little" if len(self.rows.y) * self._n_nodes <= _FEW else "much"

    @property
    def _n_nodes(self):
        """Nodes of a row at one draw."""
        return len(self.nodes)

    # Five nodes on each side of a mode leave errors below 1e-6 nats a group at scales
    # of one, 3e-5 at two and .002 at any.
    def __init__(self, rows, likelihood, n_nodes=None, merge=True):
        super().__init__(rows, likelihood, merge)
        factor, *_ = self.rows.factors
        self.n_groups = factor.n_groups
        self.sizes = [(factor.n_effects, factor.n_groups)]
        # Groups with the same rows are one, counted so many times.
        self.kind, self.times = np.arange(self.n_groups), np.ones(self.n_groups)
        if merge:
            self.rows, self.kind = self.rows.kinds_of_groups()
            self.times = np.bincount(self.kind).astype(float)
            self.linear = likelihood.linear(self.rows.y)
        factor, *_ = self.rows.factors
        self.codes, self.columns = factor.codes, factor.columns
        # By effect, of what rows are the groups.
        self.codes_of = (self.codes,) * factor.n_effects
        self.n_kinds = factor.n_groups
        self.row_times = self.times[self.codes][:, None]
        self._over_groups = GroupSums(self.codes, self.n_kinds)
        self.covariances = Covariances.of(self.rows.factors)
        default = NODES[-1 if factor.n_effects < 3 else 0]
        self.use_nodes(n_nodes or default)

    def use_nodes(self, n_nodes):
        """Take so many nodes on each side of a mode, along each axis."""
        q = self.columns.shape[1]
        self.nodes, self.behind, self.log_weights = grid_of(n_nodes, q)

    def value(self, beta, levels, *further):
        """Log likelihood alone, without slopes at nodes."""
        value = np.empty(len(levels))
        for some, integral in self._integrals(beta, levels, further, slopes=False):
            value[some] = self.total(integral)
        return value + self._shared(*further)[0] + self.constant

    def choose_nodes(self, *given):
        """From now on take as few nodes as say the same at some draws as more do."""
        # A thousand nodes of three effects are never worth it.
        few, found = len(self.codes_of) > 2, {}
        answer = self._answer(*given)
        for n_nodes in NODES[: -1 if few else None]:
            self.use_nodes(n_nodes)
            found[n_nodes] = last = answer()
        for n_nodes, (value, slope) in found.items():
            self.use_nodes(n_nodes)
            if max((value - last[0]).std(), np.abs(slope - last[1]).max()) < _ERROR:
                return

    def _answer(self, *given):
        """What says, with the nodes that there are, values and slopes that count."""
        return lambda: (self.value(*given), 0.0)

    def _integrated(self, beta, levels, further):
        n, n_levels = levels.shape
        value, score = np.empty(n), np.empty((n, beta.shape[1] + n_levels))
        by_further = np.empty((n, self.n_further))
        for some, integral in self._integrals(beta, levels, further):
            value[some] = self.total(integral)
            by_level = self.covariances.score(levels[some], self.squares(integral))
            by_column = (integral.slope * self.row_times).T @ self.rows.X
            score[some] = np.hstack([by_column, by_level])
            by_further[some] = integral.by_level
        return value, np.hstack([score, by_further])

    def total(self, integral):
        """Sum over groups of what integrals are, (n_draws,)."""
        return self.times @ integral.log_integral

    def squares(self, integral):
        """M of `Covariances`, by factor."""
        shared = integral.nodes * (self.times[:, None] * integral.shares)[:, None]
        squares = np.einsum("mqjs,mrjs->qrs", integral.nodes, shared)
        return [squares - self.n_groups * np.eye(len(squares))[..., None]]

    def effects(self, normals, beta, levels, *further):
        """Draws of the group effects; they have the first four moments of the nodes."""
        return self.effects_and_value(normals, beta, levels, *further)[0]

    def effects_and_value(self, normals, beta, levels, *further):
        """The same, and what they were integrated to, (n_draws,), but for what the rows
        have in common.
        """
        out, value = np.empty((2, *normals[0].shape)), np.empty(len(levels))
        (root,) = self.covariances.roots(levels)
        for some, integral in self._integrals(beta, levels, further, slopes=False):
            value[some] = self.total(integral)
            given = moments(integral, root[..., some]).of_groups(self.kind)
            both = given.both(normals[0][:, some].swapaxes(1, 2))
            out[:, :, some] = both.swapaxes(2, 3)
        return (out,), value

    def _integrals(self, beta, levels, further, slopes=True):
        """Blocks of draws with their integrals; temporaries fit into a cache."""
        roots = self.covariances.roots(levels)
        for some in row_blocks(len(beta), self._width):
            given = self.likelihood.given(*(level[some] for level in further))
            root = [root[..., some] for root in roots]
            around = self._around(beta[some], root, given)
            yield some, self._integral(*around, slopes=slopes)

    @property
    def _width(self):
        """Numbers of a draw that are looked at in one go."""
        return 4 * len(self.rows.y) + self.nodes.size * self.n_kinds // 2

    def _around(self, beta, roots, likelihood):
        """What an integral begins with at some draws; L are (q, q, n_draws)."""
        eta, (root,) = self._without_effects(beta), roots
        tilts = np.stack([self.columns @ column for column in root.swapaxes(0, 1)])
        mode, *curves = self._modes(eta, tilts, likelihood)
        return likelihood, eta, tilts, mode, curves

    def _integral(self, likelihood, eta, tilts, mode, curves, slopes=True):
        """Integrals over all groups at some draws; of rows slopes where asked for."""
        inverse, log_det = curves
        axes = cholesky(inverse)
        top, widths = self._widths(eta, tilts, likelihood, mode, axes)
        # (n_nodes, q, n_groups, n_draws)
        widths = widths[self.behind, np.arange(len(tilts))]
        steps = self.nodes[:, :, None, None] * widths
        nodes = mode + np.einsum("qrjs,mrjs->mqjs", axes, steps)
        # Shares of nodes, first in units of the integrand at the mode.
        log_shares = self.log_weights[:, None, None] + np.log(widths).sum(axis=1)
        log_shares -= top + 0.5 * np.einsum("mqjs,mqjs->mjs", nodes, nodes)
        shares = np.empty(log_shares.shape)
        slope = np.zeros(eta.shape)
        by_level = np.zeros((self.n_further, *top.shape))
        for m, node in enumerate(nodes):
            moved = self._moved(eta, tilts, node)
            value, own, level_slopes = self._value_and_slopes(moved, likelihood, slopes)
            share = self._over_groups(value) + log_shares[m]
            # Far out the climb may end below a mode.
            shares[m] = np.exp(np.minimum(share, _HIGHEST))
            if slopes:
                slope += own * np.take(shares[m], self.codes, axis=0)
            for k, part in enumerate(level_slopes):
                by_level[k] += self._over_groups(part) * shares[m]
        # Or nodes may all lie so far below it that nothing is left.
        total = np.maximum(shares.sum(axis=0), np.finfo(float).tiny)
        shares /= total
        slope /= np.take(total, self.codes, axis=0)
        by_level = np.einsum("kjs,j->sk", by_level / total, self.times)
        value = top + np.log(total) - 0.5 * log_det
        return Integral(value, slope, nodes, shares, by_level)

    def _modes(self, eta, tilts, likelihood):
        """Modes (q, n_groups, n_draws), inverses of minus the Hessians, and ln det."""
        v = np.zeros((len(tilts), self.n_kinds, eta.shape[1]))
        inverse, log_det = np.zeros((len(tilts), *v.shape)), np.zeros(v.shape[1:])
        longest = [self._over_groups(np.abs(tilt), np.maximum) for tilt in tilts]
        # What a draw gets must not depend on the steps that others need.
        going = np.ones(eta.shape[1], dtype=bool)
        for _ in range(_MAX_STEPS):
            moved = self._moved(eta, tilts, v)
            gradient, hessian = self._derivatives(moved, tilts, likelihood)
            found = inverse_and_log_det(hessian)
            inverse, log_det = (
                np.where(going, *pair)
                for pair in zip(found, (inverse, log_det), strict=True)
            )
            gradient -= v
            step = np.einsum("qrjs,rjs->qjs", inverse, gradient)
            decrement = np.einsum("qjs,qjs->js", step, gradient)
            reach = np.einsum("qjs,qjs->js", np.abs(step), longest)
            reach = np.maximum(reach, 1e-300)
            step *= np.minimum(1.0, likelihood.longest_step / reach)
            v += step * going
            going = going & (decrement.max(axis=0) >= _TOLERANCE**2)
            if not going.any():
                break
        return v, inverse, log_det

    def _widths(self, eta, tilts, likelihood, mode, axes):
        """The integrand at the mode, and widths of the sides ahead of it and behind it,
        (2, q, n_groups, n_draws): of Gaussians that fall as far as the integrand, in
        units of those of the Hessian.
        """

        def height(v):
            moved = self._moved(eta, tilts, v)
            value, _, _ = self._value_and_slopes(moved, likelihood, shared=False)
            return self._over_groups(value) - 0.5 * (v**2).sum(axis=0)

        top, away = height(mode), REACH * axes.swapaxes(0, 1)
        fall = top - np.array([[height(mode + s * a) for a in away] for s in (1, -1)])
        return top, widths_of(fall)

    def _derivatives(self, eta, tilts, likelihood):
        """Slopes of the log likelihood in v, and minus the Hessian with the prior."""
        (slope, bend), q = self._slope_and_bend(eta, likelihood), len(tilts)
        gradient = np.stack([self._over_groups(slope * tilt) for tilt in tilts])
        hessian = np.empty((q, *gradient.shape))
        for k in range(q):
            pulled = bend * tilts[k]
            for r in range(k + 1):
                entry = self._over_groups(pulled * tilts[r])
                hessian[k, r] = hessian[r, k] = entry + (k == r)
        return gradient, hessian

    def explained(self, tilts, curves, bend):
        """Of curvatures in coefficients what effects explain, (n_draws, p, p)."""
        (inverse, _), n = curves, bend.shape[1]
        crossed = np.stack([self.by_kind @ (bend * tilt) for tilt in tilts])
        crossed = crossed.reshape(len(tilts), self.n_kinds, -1, n)
        pushed = np.einsum("qrjs,rjps->qjps", inverse, crossed)
        crossed *= self.times[:, None, None]
        return np.einsum("qjas,qjbs->sab", crossed, pushed)

    def _slope_and_bend(self, eta, likelihood):
        """Weighted slopes and curvatures of rows, of which the latter stay positive."""
        slope, bend = likelihood.slope_and_bend(eta, self.rows.y[:, None])
        weight = self.rows.weight[:, None]
        return weight * (slope + self.linear[:, None]), weight * bend

    def _moved(self, eta, tilts, v):
        """Linear predictors with effects v (q, n_groups, n_draws) added."""
        for tilt, effect, codes in zip(tilts, v, self.codes_of, strict=False):
            eta = eta + tilt * np.take(effect, codes, axis=0)
        return eta


def widths_of(fall):
    """Of sides of a mode, by how far an integrand falls within `REACH`."""
    widths = REACH / np.sqrt(2.0 * np.maximum(fall, 1e-300))
    return np.clip(widths, _NARROWEST, _WIDEST)


def grid_of(n_nodes, q):
    """Nodes (n, q) on both sides of a mode of q effects, on which side each is, and
    logarithms of weights over the normal density.
    """
    nodes, weights = _half_rule(n_nodes)
    nodes, weights = np.concatenate([nodes, -nodes]), np.tile(weights, 2)
    grid = np.array(list(product(range(2 * n_nodes), repeat=q)))
    log_weights = np.log(weights)[grid].sum(axis=1)
    nodes = nodes[grid]
    log_weights += 0.5 * (nodes**2).sum(axis=1) - 0.5 * q * LOG_2PI
    return nodes, grid // n_nodes, log_weights


def _half_rule(n_nodes):
    """Nodes and weights for the integral of exp(-t^2 / 2) f(t) over t > 0."""
    # Golub and Welsch 1969; inner products of the orthogonal polynomials are sums over
    # Legendre's nodes.
    t, mass = np.polynomial.legendre.leggauss(200)
    t, mass = 7.0 * (t + 1.0), 7.0 * mass
    mass *= np.exp(-0.5 * t**2)
    total = mass.sum()
    before, now = np.zeros_like(t), np.ones_like(t) / np.sqrt(total)
    jacobi = np.zeros((n_nodes, n_nodes))
    for k in range(n_nodes):
        rest = t * now
        jacobi[k, k] = mass @ (rest * now)
        rest -= jacobi[k, k] * now + (jacobi[k - 1, k] if k else 0.0) * before
        size = np.sqrt(mass @ rest**2)
        if k + 1 < n_nodes:
            jacobi[k, k + 1] = jacobi[k + 1, k] = size
        before, now = now, rest / size
    nodes, axes = np.linalg.eigh(jacobi)
    return nodes, total * axes[0] ** 2


def moments(integral, outer):
    """Effects with the first four moments of the nodes; L is (q, q, n_draws)."""
    mean = np.einsum("mqjs,mjs->qjs", integral.nodes, integral.shares)
    away = integral.nodes - mean
    covariance = np.einsum("mqjs,mrjs,mjs->qrjs", away, away, integral.shares)
    root = cholesky(covariance)
    z = _solved(root, away)
    # Powers above two are a logarithm and an exponential of each number.
    square = z * z
    third = np.einsum("mqjs,mjs->qjs", square * z, integral.shares)
    fourth = np.einsum("mqjs,mjs->qjs", square * square, integral.shares) - 3.0
    mean = np.einsum("qrs,rjs->qjs", outer, mean)
    root = np.einsum("qas,arjs->qrjs", outer, root)
    return Conditional(mean, root, third, fourth)


def _solved(root, away):
    """Solutions of triangular systems, one for each node, group and draw."""
    z = np.empty_like(away)
    for k in range(len(root)):
        done = np.einsum("rjs,mrjs->mjs", root[k, :k], z[:, :k])
        z[:, k] = (away[:, k] - done) / root[k, k]
    return z


class Integral(NamedTuple):
    """Integrals (n_groups, n_draws) in nats, expected slopes (n_rows, n_draws), nodes
    (n_nodes, q, n_groups, n_draws), their shares, slopes in what rows share, and of
    effects within those of these groups expected squares.
    """

    log_integral: np.ndarray
    slope: np.ndarray
    nodes: np.ndarray
    shares: np.ndarray
    by_level: np.ndarray
    square: np.ndarray | None = None
