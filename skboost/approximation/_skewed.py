"""A mixture whose components are multiplied by their exact skewing weights.

Every component s_k is the same on all images of a point: where it is whitened, signs of
its coordinates may change, all together or block by block. The target is not. With
``f = ln p - ln q`` and S images, sigma theta of a point theta,

    q~(theta) = sum_k alpha_k s_k(theta) S exp(f(theta)) / sum_sigma exp(f(sigma theta))

is a normalised density whatever the evidence is: a draw of s_k goes to one of its
images with the probability that is its share of ``exp(f)``. It holds that

    KL(q~ || p) <= KL(q || p) - sum_k alpha_k E_{s_k}[ln mean exp f - mean f]

over images, with equality for one component, so that nothing can be lost. For one
component and two images, a point and its reflection about the centre: Pozza, Durante
and Szabo 2024; Durante, Pozza and Szabo 2024.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from skboost._math import log_sum_exp, log_weights
from skboost._pickles import reconstruction
from skboost.approximation._mixture import Mixture
from skboost.families import MAX_FULL_DIM

# The largest number of half precision.
_FARTHEST = float(np.finfo(np.float16).max)
# Standard deviations beyond which the tilt of a marginal is constant, and Newton steps
# that fit it.
_REACH, _NEWTON_STEPS = 4.0, 8
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)


def parts_of(component, offsets):
    """Parts (n_blocks, n, dim) that may change signs, whose sums are offsets (n, dim)
    from the centre of a component."""
    dim = offsets.shape[1]
    if dim == 1 or dim > MAX_FULL_DIM or not component.family.sign_symmetric:
        return offsets[None]
    # Blocks of whitened coordinates that change their signs: a draw has 2^2 images.
    n_blocks = 2
    whitening, block = component.whitening(), np.arange(dim) % n_blocks
    z = whitening.whiten(offsets)
    parts = (np.where(block == b, z, 0.0) for b in range(n_blocks))
    return np.stack([whitening.lift(part) for part in parts])


def image_signs(n_blocks):
    """Signs of the parts of every image, (2^n_blocks, n_blocks).

    The first image is the draw, and opposite ones stand opposite from the ends.
    """
    return np.array(list(product((1.0, -1.0), repeat=n_blocks)))


def images_of(parts):
    """All images of draws, from the centre, one array (n, dim) after the other."""
    for signs in image_signs(len(parts)):
        yield np.einsum("b,bnd->nd", signs, parts)


def image_excess(target, mixture, centre, parts):
    """f at all images of draws with these parts, (n, n_images), nats."""
    places = (centre + image for image in images_of(parts))
    with np.errstate(invalid="ignore"):
        f = [target.log_density(theta) - mixture.log_density(theta) for theta in places]
    # Where neither has mass.
    return np.nan_to_num(
        np.stack(f, axis=1), nan=-np.inf, posinf=np.inf, neginf=-np.inf
    )


def shares_of(f):
    """Probabilities of the images, (n, n_images); equal where there is mass at none."""
    nowhere = np.isneginf(f).all(axis=1, keepdims=True)
    f = np.where(nowhere, 0.0, f)
    return np.exp(f - log_sum_exp(f)[:, None])


class Skewing(NamedTuple):
    """What is known of the skewing weights of one component without the target."""

    # How far the weights move its mean, (dim,).
    shift: np.ndarray
    # What they add to its second moments about the centre, (dim, dim); (0, 0) where a
    # draw has no images but its reflection.
    turned: np.ndarray
    # By which these additions widen every marginal, (dim,).
    stretch: np.ndarray
    # Of every marginal, (dim, 2): see `marginal_tilt`.
    slopes: np.ndarray
    # Draws (n, dim) in coordinates in which the component has unit spread: in these
    # half precision is three digits, whatever the units are.
    whitened: np.ndarray
    # Of the images of these draws, (n, n_images).
    shares: np.ndarray

    @classmethod
    def of(cls, component, parts, shares, scale, n_kept):
        """From draws of a component, shares of their images, and its scales (dim,)."""
        whitened = component.whitening().whiten(parts[:, :n_kept].sum(axis=0))
        n, signs = len(shares), image_signs(len(parts))
        moved = shares @ signs / n
        turned = np.zeros(2 * parts.shape[2:] if len(parts) > 1 else (0, 0))
        for a, b in combinations(range(len(parts)), 2):
            together = shares @ (signs[:, a] * signs[:, b]) / n
            cross = (together[:, None] * parts[a]).T @ parts[b]
            turned += cross + cross.T
        second = np.square(parts.sum(axis=0)).mean(axis=0)
        added = np.diag(turned) / second if turned.size else np.zeros_like(second)
        half = signs.shape[0] // 2
        u = np.concatenate([image / scale for image in images_of(parts)][:half])
        tilts = half * (shares - shares[:, ::-1])[:, :half].T.ravel()
        return cls(
            np.einsum("nb,bnd->d", moved, parts),
            turned,
            np.sqrt(np.maximum(1.0 + added, 0.1)),
            _fitted_slopes(u, tilts),
            np.clip(whitened, -_FARTHEST, _FARTHEST).astype(np.float16),
            shares[:n_kept].astype(np.float16),
        )


def _features(u):
    """Odd functions of a standardised coordinate, constant beyond `_REACH`."""
    u = np.clip(u, -_REACH, _REACH)
    # Powers of arrays take ten times as long as products.
    return np.stack([u, u * u * u / _REACH])


def marginal_tilt(slopes, u):
    """``E[tanh o | u]`` of standardised coordinates (...), as ``tanh`` of an odd
    function with slopes (..., 2)."""
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
        fitted = np.tanh(np.einsum("fni,if->ni", features, slopes))
        gradient = np.einsum("fni,ni->if", features, tilts[:, None] - fitted)
        bend = np.einsum("fni,gni,ni->ifg", features, features, 1.0 - fitted**2)
        # Keeps a coordinate that is symmetric, or has few draws, where it is.
        bend += 1e-3 * len(u) * np.eye(2)
        step = np.linalg.solve(bend, (gradient - 1e-3 * len(u) * slopes)[..., None])
        slopes = slopes + step[..., 0]
    return slopes


@dataclass(frozen=True, eq=False)
class SkewedMixture(Mixture):
    """A mixture whose components are multiplied by skewing weights; see the module."""

    # One for each component.
    skewings: tuple = ()
    # With None there are draws, made of known ones, moments and marginals, but no
    # density.
    target: object = None
    # What boosting ended with, where the components have been corrected since.
    before: object = None

    skewed = True

    def __reduce__(self):
        # Without a target that holds the data: a pickle must not carry them.
        carried = self.target is not None and self.target.portable
        parts = self.components, self.weights, self.skewings
        target = self.target if carried else None
        return reconstruction(type(self), *parts, target, self.before)

    @property
    def plain(self):
        """The mixture before skewing, and before what was corrected for its sake."""
        return self.base if self.before is None else self.before

    @cached_property
    def base(self):
        """The mixture of the components that are skewed."""
        return Mixture(self.components, self.weights)

    def with_target(self, target):
        """The same with a target."""
        return replace(self, target=target)

    def log_density(self, theta):
        """``ln q~(theta)``, (n,), nats, for one evaluation of the
        target at every image under every component."""
        if self.target is None:
            raise ValueError(
                "This posterior is skewed by the log joint density, which it has not "
                "kept: pickles and files hold no data. Give it one, as with "
                "posterior.with_log_joint(estimator.make_log_joint(X, y))."
            )
        theta = np.asarray(theta, dtype=float)
        table = self.log_components(theta)
        for k, centre in enumerate(self.component_locations()):
            parts = parts_of(self.components[k], theta - centre)
            f = image_excess(self.target, self.base, centre, parts)
            with np.errstate(divide="ignore"):
                table[:, k] += np.log(f.shape[1] * shares_of(f)[:, 0])
        return log_sum_exp(table, log_weights(self.weights))

    # --- draws

    def _draw(self, counts, rng):
        drawn = [np.empty((0, self.dim))]
        centres = self.component_locations()
        for k, count in enumerate(counts):
            if count:
                parts, shares = self._orbits(k, int(count), centres[k], rng)
                below = shares.cumsum(axis=1)[:, :-1] < rng.random((len(shares), 1))
                signs = image_signs(len(parts))[below.sum(axis=1)]
                drawn.append(centres[k] + np.einsum("nb,bnd->nd", signs, parts))
        return np.concatenate(drawn)

    def _orbits(self, k, n, centre, rng):
        """Parts of new draws of a component, and the shares of their images."""
        component = self.components[k]
        drawn = component.sample(n, rng) - centre
        if self.target is not None:
            parts = parts_of(component, drawn)
            return parts, shares_of(image_excess(self.target, self.base, centre, parts))
        known = self.skewings[k]
        index = rng.integers(len(known.shares), size=n)
        near = component.whitening().lift(known.whitened[index].astype(float))
        # How much of a draw without a target is that of the known one which it is made
        # of: the rest is new, so that no draw comes twice.
        kept = 0.99
        near = kept * near + np.sqrt(1.0 - kept**2) * drawn
        return parts_of(component, near), known.shares[index].astype(float)

    def known_images(self):
        """Images of known draws, (m, dim), and what skewing adds to their masses (m,).

        Masses of the mixture before skewing are equal for all images of a component.
        What is added moves the mean of these images as far as that of all draws moved:
        a regression on them, which takes noise from sums over few.
        """
        theta, added = [], []
        centres = self.component_locations()
        for k, known in enumerate(self.skewings):
            whitening = self.components[k].whitening()
            offsets = whitening.lift(known.whitened.astype(float))
            parts = parts_of(self.components[k], offsets)
            images = np.concatenate(list(images_of(parts)))
            n, n_images = known.shares.shape
            mass = (known.shares.astype(float) - 1.0 / n_images).T.ravel() / n
            lacking = whitening.whiten((known.shift - mass @ images)[None])
            mass += whitening.whiten(images) @ lacking[0] / len(images)
            theta.append(centres[k] + images)
            added.append(self.weights[k] * mass)
        return np.concatenate(theta), np.concatenate(added)

    # --- marginals

    def marginal_log_density(self, k, index, x):
        """Log density of coordinates under a component, nats."""
        u, inner = self._standardised(k, index, x)
        skewing = self.skewings[k]
        tilt = marginal_tilt(skewing.slopes[index], u)
        value = super().marginal_log_density(k, index, inner)
        return value - np.log(skewing.stretch[index]) + np.log1p(tilt)

    def marginal_cdf(self, k, index, x):
        """Distribution function of coordinates under a component.

        The symmetric one, and the integral of its density times the tilt: an even
        function, by Gauss-Legendre from the point to where the tilt is constant.
        """
        x = np.asarray(x, dtype=float)
        index = np.broadcast_to(index, x.shape)
        slopes = self.skewings[k].slopes[index]
        u, x = self._standardised(k, index, x)
        u = np.abs(u)
        half = 0.5 * np.maximum(_REACH - u, 0.0)
        nodes = np.minimum(u, _REACH)[:, None] + half[:, None] * (1.0 + _NODES)
        centre, scale = self._place(k, index)
        at = (centre[:, None] + scale[:, None] * nodes).ravel()
        log_density = super().marginal_log_density(k, index.repeat(len(_NODES)), at)
        tilt = marginal_tilt(slopes[:, None], nodes)
        inner = np.exp(log_density.reshape(nodes.shape)) * tilt @ _NODE_WEIGHTS
        end = np.maximum(u, _REACH)
        beyond = super().marginal_cdf(k, index, centre - scale * end)
        beyond = beyond * marginal_tilt(slopes, end)
        return super().marginal_cdf(k, index, x) - scale * half * inner - beyond

    def _place(self, k, index):
        return self.component_locations()[k, index], self.component_scales()[k, index]

    def _standardised(self, k, index, x):
        """Coordinates before they are stretched: in standard units, and as they are."""
        centre, scale = self._place(k, index)
        u = (x - centre) / (scale * self.skewings[k].stretch[index])
        return u, centre + scale * u

    # --- moments

    def _shifts(self):
        return np.array([skewing.shift for skewing in self.skewings])

    def mean(self):
        """Mean, shape (dim,)."""
        return self.base.mean() + self.weights @ self._shifts()

    def covariance(self):
        """Covariance, shape (dim, dim)."""
        return self.base.covariance() + self._change_of_covariance()

    def _change_of_covariance(self):
        # Of the second moments about the centres parts alone keep theirs; means move,
        # and spread differently.
        shifts, centres = self._shifts(), self.component_means()
        cross = (self.weights[:, None] * shifts).T @ (centres - self.base.mean())
        moved = self.weights @ shifts
        change = cross + cross.T - np.outer(moved, moved)
        for weight, skewing in zip(self.weights, self.skewings, strict=True):
            if skewing.turned.size:
                change += weight * skewing.turned
        return change

    def std(self):
        """Standard deviations, shape (dim,)."""
        return np.sqrt(self.base.std() ** 2 + np.diag(self._change_of_covariance()))
