"""Covariances of group effects: triangular factors, and gradients in what makes them.

Effects of a factor are u = L v with standard normal v and L = diag(sigma) C, where C is
the identity or, where they are correlated, the triangular factor of their correlation
matrix. Levels are the log scales of all factors, then the coordinates of correlations,
factor by factor: inverse hyperbolic tangents of partial correlations, and twice that of
the one of two effects, which is the coordinate of the interval (-1, 1). By Fisher's
identity the gradient of a log likelihood in L is L^-T M, with M the sum over groups of
E[v v'] - I.
"""

import numpy as np

from skboost.targets import bounded_exp
from skboost.transforms import Correlation


class Covariances:
    """Of factors with so many effects each, correlated or not."""

    def __init__(self, sizes, correlated):
        self.sizes, self.correlated = tuple(sizes), tuple(map(bool, correlated))
        self.any_correlated = any(self.correlated)
        self.n_scales = sum(self.sizes)
        # Of every factor the places of its scales and of its correlations.
        self.places, scale, further = [], 0, self.n_scales
        for q, one in zip(self.sizes, self.correlated, strict=True):
            more = q * (q - 1) // 2 if one else 0
            self.places.append(
                (slice(scale, scale + q), slice(further, further + more))
            )
            scale, further = scale + q, further + more
        self.n_levels = further

    @classmethod
    def of(cls, factors):
        """Those of factors of rows."""
        return cls([f.n_effects for f in factors], [f.correlated for f in factors])

    def correlation_roots(self, levels):
        """C (n_draws, q, q) of correlated factors and None of others."""
        return [
            Correlation.root(self._partial(levels, place)) if one else None
            for (_, place), one in zip(self.places, self.correlated, strict=True)
        ]

    @staticmethod
    def _partial(levels, place):
        """Inverse hyperbolic tangents of the partial correlations of a factor."""
        return levels[:, place] * (0.5 if place.stop - place.start == 1 else 1.0)

    def correlations(self, levels):
        """What is below the diagonals of correlation matrices, (n_draws, ...)."""
        parts = [np.empty((len(levels), 0))]
        for _, place in self.places:
            if place.stop > place.start:
                parts.append(Correlation().forward(self._partial(levels, place)))
        return np.hstack(parts)

    def roots(self, levels):
        """L (q, q, n_draws) of every factor."""
        scales, out = bounded_exp(levels[:, : self.n_scales].T), []
        for (place, _), root in zip(
            self.places, self.correlation_roots(levels), strict=True
        ):
            sized = scales[place]
            if root is None:
                root = np.eye(len(sized))[None]
            out.append(sized[:, None] * np.moveaxis(root, 0, 2))
        return out

    def score(self, levels, squares):
        """Gradients (n_draws, n_levels) from M (q, q, n_draws) of every factor."""
        out = np.empty((len(levels), self.n_levels))
        parts = zip(self.places, self.correlation_roots(levels), squares, strict=True)
        for (scales, further), root, square in parts:
            if root is None:
                out[:, scales] = np.einsum("qqs->sq", square)
                continue
            # L^-T M, where the scales of L cancel.
            slope = np.moveaxis(_solved(np.moveaxis(root, 0, 2), square), 2, 0)
            out[:, scales] = np.einsum("skr,skr->sk", slope, root)
            slope = Correlation.pull_root(self._partial(levels, further), slope)
            out[:, further] = self._partial(slope, slice(0, slope.shape[1]))
        return out


def _solved(root, table):
    """Triangular factors (q, q, n), transposed, solved for tables (q, r, n).

    Row by row over all draws: LAPACK is called for each of these small systems.
    """
    out = np.array(table)
    for k in reversed(range(len(root))):
        out[k] -= np.einsum("jn,jrn->rn", root[k + 1 :, k], out[k + 1 :])
        out[k] /= root[k, k]
    return out
