"""Affinity and root product of diagonal plus low rank, in time linear in dim.

Components come as (mean, log sigma, B). With U = B / sigma and the QR decomposition
of U over the identity, ``(U; I) = (Q; V) R``, Woodbury's identity reads

    covariance^-1 = (I - Q Q^T) / sigma^2,   covariance^-1 B = Q V^T / sigma

row by row, I - Q^T Q = V^T V, and V = R^-1: no inverse, no product of U with itself.
"""

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

from skboost._math import log_cosh
from skboost.families._moments import narrowed


class _Root:
    """Q, V and half the log determinant of a stack of whitened factors."""

    def __init__(self, whitened):
        *stack, dim, rank = whitened.shape
        below = np.broadcast_to(np.eye(rank), (*stack, rank, rank))
        both, r = np.linalg.qr(np.concatenate([whitened, below], axis=-2))
        self.q, self.v = both[..., :dim, :], both[..., dim:, :]
        diagonal = np.diagonal(r, axis1=-2, axis2=-1)
        self.log_root_determinant = np.log(np.abs(diagonal)).sum(axis=-1)
        self.precision_times_factor = self.q @ np.swapaxes(self.v, -1, -2)
        self.rest = 1.0 - np.square(self.q).sum(axis=-1)


class _Average:
    """The Gaussian of the average covariance, which every closed form asks.

    Half the sum and half the difference are its factor: between components that are
    nearly alike the second vanishes, and no determinant cancels another.
    """

    def __init__(self, a, b):
        (mean_a, log_a, factor_a), (mean_b, log_b, factor_b) = a, b
        self.scale = np.exp(0.5 * (np.logaddexp(2 * log_a, 2 * log_b) - np.log(2)))
        factor = np.concatenate(
            [0.5 * (factor_a + factor_b), 0.5 * (factor_a - factor_b)], axis=-1
        )
        self.root = _Root(factor / self.scale[..., None])
        whitened = (mean_a - mean_b) / self.scale
        latent = np.einsum("...dk,...d->...k", self.root.q, whitened)
        rest = whitened - np.einsum("...dk,...k->...d", self.root.q, latent)
        # covariance^-1 of the difference in means, and the factor times it.
        self.pulled = rest / self.scale
        self.explained = np.einsum("...jk,...k->...j", self.root.v, latent)
        self.squared = np.square(rest).sum(-1) + np.square(self.explained).sum(-1)

    def halves(self, columns):
        """What belongs to either factor, of what belongs to the average's."""
        half, other = np.split(columns, 2, axis=-1)
        return half + other, half - other


def log_affinity(a, b):
    """Value (n,), and the gradients in the parts of `a` and of `b`."""
    u = a[1] - b[1]
    roots = [_Root(factor / np.exp(log)[..., None]) for _, log, factor in (a, b)]
    average = _Average(a, b)
    squeezed = 0.5 * log_cosh(u).sum(axis=1) + average.root.log_root_determinant
    squeezed -= 0.5 * sum(root.log_root_determinant for root in roots)
    # A log determinant is concave, so this is never negative; its rounding may be.
    value = -np.maximum(squeezed, 0.0) - 0.125 * average.squared
    slopes = average.halves(average.root.precision_times_factor)
    explained = average.halves(average.explained)
    gradients = []
    for k, (sign, (_, log_scale, _)) in enumerate(zip((1, -1), (a, b), strict=True)):
        scale, y = np.exp(log_scale), average.pulled
        g_log_scale = 0.5 * roots[k].rest + 0.125 * np.square(scale * y)
        g_log_scale -= expit(2 * sign * u) * average.root.rest
        g_factor = 0.5 * roots[k].precision_times_factor / scale[..., None]
        g_factor -= 0.5 * slopes[k] / average.scale[..., None]
        g_factor += 0.125 * y[..., None] * explained[k][:, None, :]
        gradients.append((-0.25 * sign * y, g_log_scale, g_factor))
    return value, *gradients


def root_product(a, b):
    """Mean, log sigma and factor of the density ~ sqrt(s_a s_b), one pair.

    The average precision is ``D - F F^T`` with F of both ranks; its inverse is
    ``D^-1 + D^-1 F K^-1 F^T D^-1`` with K = I - F^T D^-1 F. As a sum of squares,
    K = Z^T Z, it has no cancellation however long the axes are.
    """
    (mean_a, log_a, factor_a), (mean_b, log_b, factor_b) = a, b
    u = log_a - log_b
    log_scale = 0.5 * (log_a + log_b - log_cosh(u))
    # Shares of either precision in their sum.
    share_a, share_b = (np.sqrt(expit(s * 2 * u))[:, None] for s in (-1, 1))
    root_a = _Root(factor_a / np.exp(log_a)[:, None])
    root_b = _Root(factor_b / np.exp(log_b)[:, None])
    nothing = np.zeros_like(root_a.v)
    z = np.block(
        [
            [root_a.v, nothing],
            [nothing, root_b.v],
            [share_b * root_a.q, -share_a * root_b.q],
        ]
    )
    columns = np.hstack([share_a * root_a.q, share_b * root_b.q])
    triangle = np.linalg.qr(z, mode="r")
    factor = solve_triangular(triangle, columns.T, trans="T").T
    factor *= np.exp(log_scale)[:, None]
    factor = narrowed(factor)
    average = _Average(a, b)
    explained_a, explained_b = average.halves(average.explained)
    shift = (np.exp(2 * log_b) - np.exp(2 * log_a)) * average.pulled
    shift += factor_b @ explained_b - factor_a @ explained_a
    return 0.5 * (mean_a + mean_b) + 0.25 * shift, log_scale, factor
