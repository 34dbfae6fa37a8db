"""A mixture whose components are multiplied by their exact skewing weights.

Every component s_k is symmetric about its centre m_k, the target is not. With
``f = ln p - ln q`` and ``o_k(theta) = (f(theta) - f(2 m_k - theta)) / 2``, its odd part
about m_k,

    q~(theta) = sum_k alpha_k s_k(theta) 2 sigmoid(2 o_k(theta))

is a normalised density whatever the evidence is: a draw of s_k stays where it is with
probability ``sigmoid(2 o_k)`` and is reflected about m_k otherwise. It holds that

    KL(q~ || p) <= KL(q || p) - sum_k alpha_k E_{s_k}[ln cosh o_k]

with equality for one component, so that nothing can be lost. The second moments about
the centres stay as they are, and the mean of a component moves by E[(theta - m_k) tanh
o_k]. For one component: Pozza, Durante and Szabo 2024; Durante, Pozza and Szabo 2024.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit

from skboost._math import log_sum_exp, log_weights
from skboost._pickles import reconstruction
from skboost.approximation._mixture import Mixture

# How much of a draw without a target is that of the pair which it is made of: the rest
# is new, so that no draw comes twice.
_KEPT = 0.99
# Standard deviations beyond which the tilt of a marginal is constant, and Newton steps
# that fit it.
_REACH, _NEWTON_STEPS = 4.0, 8
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)


class Skewing(NamedTuple):
    """What is known of the skewing weights of one component without the target.

    Attributes
    ----------
    shift : ndarray of shape (dim,)
        How far the weights move its mean.
    slopes : ndarray of shape (dim, 2)
        Of every marginal: see `marginal_tilt`.
    offsets : ndarray of shape (n, dim)
        Draws, from the centre.
    tilts : ndarray of shape (n,)
        ``tanh o`` at the draws: a draw has the weight (1 + tilt) / 2, its reflection
        (1 - tilt) / 2.
    """

    shift: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray
    tilts: np.ndarray

    @classmethod
    def of(cls, offsets, tilts, scale, n_kept):
        """From draws of a component, their tilts and its scales (dim,)."""
        return cls(
            tilts @ offsets / len(tilts),
            _fitted_slopes(offsets / scale, tilts),
            offsets[:n_kept].astype(np.float32),
            tilts[:n_kept].astype(np.float32),
        )


def _features(u):
    """Odd functions of a standardised coordinate, constant beyond `_REACH`."""
    u = np.clip(u, -_REACH, _REACH)
    return np.stack([u, u**3 / _REACH])


def marginal_tilt(slopes, u):
    """``E[tanh o | u]`` of standardised coordinates, as ``tanh`` of an odd function.

    Parameters
    ----------
    slopes : ndarray of shape (..., 2)
    u : ndarray of shape (...)
    """
    linear, cubic = _features(u)
    return np.tanh(slopes[..., 0] * linear + slopes[..., 1] * cubic)


def _fitted_slopes(u, tilts):
    """Slopes of all marginals, shape (dim, 2): logistic regressions on soft labels.

    The probability that a draw stays, given one coordinate, is the mean of
    ``sigmoid(2 o)`` over the others. Newton steps on a convex problem of two numbers.
    """
    features = _features(u)
    slopes = np.zeros((u.shape[1], 2))
    for _ in range(_NEWTON_STEPS):
        fitted = marginal_tilt(slopes, u)
        gradient = np.einsum("fni,ni->if", features, tilts[:, None] - fitted)
        bend = np.einsum("fni,gni,ni->ifg", features, features, 1.0 - fitted**2)
        # Keeps a coordinate that is symmetric, or has few draws, where it is.
        bend += 1e-3 * len(u) * np.eye(2)
        step = np.linalg.solve(bend, (gradient - 1e-3 * len(u) * slopes)[..., None])
        slopes = slopes + step[..., 0]
    return slopes


def pair_excess(target, mixture, centre, offsets):
    """f at ``centre + offsets`` and at their reflections, (n,) each, nats."""
    return tuple(
        target.log_density(theta) - mixture.log_density(theta)
        for theta in (centre + offsets, centre - offsets)
    )


@dataclass(frozen=True, eq=False)
class SkewedMixture(Mixture):
    """See the module.

    Parameters
    ----------
    components, weights
        As in `Mixture`.
    skewings : tuple of Skewing
        One for each component.
    target : Target, default=None
        With None there are draws, made of known ones, moments and marginals, but no
        density.
    """

    skewings: tuple = ()
    target: object = None

    def __reduce__(self):
        # Without a target that holds the data: a pickle must not carry them.
        carried = self.target is not None and self.target.portable
        parts = self.components, self.weights, self.skewings
        return reconstruction(type(self), *parts, self.target if carried else None)

    @property
    def plain(self):
        """The mixture before skewing."""
        return Mixture(self.components, self.weights)

    @property
    def skewed(self):
        """Whether components have skewing weights."""
        return True

    def with_target(self, target):
        """The same with a target."""
        return SkewedMixture(self.components, self.weights, self.skewings, target)

    def log_density(self, theta):
        """``ln q~(theta)``, (n,), nats, for 2 K evaluations of the target a point."""
        if self.target is None:
            raise ValueError(
                "This posterior is skewed by the log joint density, which it has not "
                "kept: pickles and files hold no data. Give it one, as with "
                "posterior.with_log_joint(estimator.make_log_joint(X, y))."
            )
        theta = np.asarray(theta, dtype=float)
        table = self.log_components(theta)
        for k, centre in enumerate(self.component_locations()):
            pair = pair_excess(self.target, self.plain, centre, theta - centre)
            table[:, k] += np.log(2.0) + log_expit(_difference(*pair))
        return log_sum_exp(table, log_weights(self.weights))

    # --- draws

    def _draw(self, counts, rng):
        parts = [np.empty((0, self.dim))]
        centres = self.component_locations()
        for k, count in enumerate(counts):
            if count:
                offsets, tilts = self._offsets(k, int(count), centres[k], rng)
                stays = rng.random(len(tilts)) < 0.5 * (1.0 + tilts)
                parts.append(centres[k] + np.where(stays[:, None], offsets, -offsets))
        return np.concatenate(parts)

    def _offsets(self, k, n, centre, rng):
        """New draws of a component, from its centre, and their tilts."""
        family, params = self.components[k]
        drawn = family.transport(params, family.base_draws(n, self.dim, rng)) - centre
        if self.target is not None:
            here, there = pair_excess(self.target, self.plain, centre, drawn)
            return drawn, np.tanh(0.5 * _difference(here, there))
        known = self.skewings[k]
        index = rng.integers(len(known.tilts), size=n)
        near = _KEPT * known.offsets[index] + np.sqrt(1.0 - _KEPT**2) * drawn
        return near, known.tilts[index]

    # --- marginals

    def marginal_log_density(self, k, index, x):
        """Log density of coordinates under a component, nats."""
        u = self._standardised(k, index, x)
        tilt = marginal_tilt(self.skewings[k].slopes[index], u)
        return super().marginal_log_density(k, index, x) + np.log1p(tilt)

    def marginal_cdf(self, k, index, x):
        """Distribution function of coordinates under a component.

        The symmetric one, and the integral of its density times the tilt: an even
        function, by Gauss-Legendre from the point to where the tilt is constant.
        """
        x = np.asarray(x, dtype=float)
        index = np.broadcast_to(index, x.shape)
        slopes = self.skewings[k].slopes[index]
        u = np.abs(self._standardised(k, index, x))
        half = 0.5 * np.maximum(_REACH - u, 0.0)
        nodes = np.minimum(u, _REACH)[:, None] + half[:, None] * (1.0 + _NODES)
        centre, scale = self._place(k, index)
        log_density = super().marginal_log_density(
            k,
            np.repeat(index, len(_NODES)),
            (centre[:, None] + scale[:, None] * nodes).ravel(),
        )
        tilt = marginal_tilt(slopes[:, None], nodes)
        inner = np.exp(log_density.reshape(nodes.shape)) * tilt @ _NODE_WEIGHTS
        end = np.maximum(u, _REACH)
        beyond = super().marginal_cdf(k, index, centre - scale * end)
        beyond = beyond * marginal_tilt(slopes, end)
        return super().marginal_cdf(k, index, x) - scale * half * inner - beyond

    def _place(self, k, index):
        return self.component_locations()[k, index], self.component_scales()[k, index]

    def _standardised(self, k, index, x):
        centre, scale = self._place(k, index)
        return (x - centre) / scale

    # --- moments

    def _shifts(self):
        return np.array([skewing.shift for skewing in self.skewings])

    def mean(self):
        """Mean, shape (dim,)."""
        return self.plain.mean() + self.weights @ self._shifts()

    def covariance(self):
        """Covariance, shape (dim, dim)."""
        return self.plain.covariance() + self._change_of_covariance()

    def _change_of_covariance(self):
        # Second moments about the centres stay: means move, and spread differently.
        shifts, centres = self._shifts(), self.component_means()
        cross = (self.weights[:, None] * shifts).T @ (centres - self.plain.mean())
        moved = self.weights @ shifts
        return cross + cross.T - np.outer(moved, moved)

    def std(self):
        """Standard deviations, shape (dim,)."""
        return np.sqrt(self.plain.std() ** 2 + np.diag(self._change_of_covariance()))


def _difference(here, there):
    """f at points less f at their reflections; 0 where there is mass at neither."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(here - there, nan=0.0, posinf=np.inf, neginf=-np.inf)
