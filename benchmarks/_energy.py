"""Energy distances to reference draws, what does not change computed once."""

import numpy as np


def distances(a, b, block=500):
    """Euclidean distances of all pairs, block of rows by block of rows."""
    squares = (b**2).sum(axis=1)
    for k in range(0, len(a), block):
        rows = a[k : k + block]
        found = (rows**2).sum(axis=1)[:, None] + squares - 2.0 * rows @ b.T
        yield np.sqrt(np.maximum(found, 0.0, out=found), out=found)


def mean_distance(a, b=None):
    """Mean distance between two sets, or of the different draws of one."""
    total = sum(d.sum() for d in distances(a, a if b is None else b))
    return float(total / (len(a) * (len(a) - 1 if b is None else len(b))))


# Draws from which every independent one is taken.
_OUT_OF = 16


def independent(posterior, n, seed):
    """As good as independent draws of a posterior: a random few of many.

    ``posterior.sample`` is quasi-random, and energy distances are unbiased for
    independent draws only. Points that are spread evenly make the mean distance within
    the set, and so the energy, too small by up to that distance divided by `n`: 0.0009
    on 4,000 draws of 31 coefficients, where draws of two posteriors that are equal
    would be at -0.0009 in place of 0.
    """
    return posterior.sample(_OUT_OF * n, random_state=seed)[:n]


class EnergyTo:
    """``2 E|X - Y| - E|X - X'| - E|Y - Y'|``, unbiased, to fixed draws Y."""

    def __init__(self, draws):
        self.centre = np.median(draws, axis=0)
        self.draws = draws - self.centre
        self.within = mean_distance(self.draws)

    def __call__(self, draws):
        draws = draws - self.centre
        between = mean_distance(draws, self.draws)
        return 2.0 * between - mean_distance(draws) - self.within


class HalvesRatio:
    """Energy distance to a half of the reference over that between its halves.

    Coordinates are divided by their standard deviations in the reference, and a set
    has as many draws as a half. `quantile` is that of the same ratio for disjoint
    halves of the reference, over random splits.

    Parameters
    ----------
    draws : array (n, dim)
        Of the reference.
    n_splits : int
    """

    def __init__(self, draws, n_splits=200, seed=0):
        self.mean, self.scale = draws.mean(axis=0), draws.std(axis=0)
        self.draws = (draws - self.mean) / self.scale
        self.size = len(draws) // 2
        pairs = np.vstack(list(distances(self.draws, self.draws)))
        rng = np.random.default_rng(seed)
        chosen = np.zeros((n_splits, len(draws)))
        for row in chosen:
            row[rng.permutation(len(draws))[: self.size]] = 1.0
        inside = np.einsum("ij,ij->i", chosen @ pairs, chosen)
        other = 1.0 - chosen
        outside = np.einsum("ij,ij->i", other @ pairs, other)
        between = np.einsum("ij,ij->i", chosen @ pairs, other)
        self._chosen, self._inside = chosen, inside / self.size**2
        n_other = len(draws) - self.size
        energy = 2.0 * between / (self.size * n_other) - self._inside
        energy -= outside / n_other**2
        self.floor = float(energy.mean())
        self._null = energy / self.floor

    def quantile(self, level):
        """Quantile of the ratio between halves of the reference."""
        return float(np.quantile(self._null, level))

    def __call__(self, draws, split):
        """Ratio of `size` draws to the half of a split."""
        draws = (draws[: self.size] - self.mean) / self.scale
        chosen = self._chosen[split]
        total = sum(float((d @ chosen).sum()) for d in distances(draws, self.draws))
        within = mean_distance(draws) * (1.0 - 1.0 / self.size)
        energy = 2.0 * total / self.size**2 - within - self._inside[split]
        return float(energy / self.floor)
