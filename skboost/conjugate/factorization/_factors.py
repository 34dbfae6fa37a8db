"""Gaussian factors of a matrix, and the weighted entries that they sum up.

Each factor sums the same entries up with the moments of another one, which are new by
then. So what is handed around is the entries and their weights, and that is linear.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from skboost._entries import Entries
from skboost.conjugate._natural import Cone


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of Gaussians, augmented: (u, b, 1)'(v, 1, c) = u'v + b + c."""

    mean: np.ndarray
    covariance: np.ndarray
    log_det: np.ndarray
    augmented: np.ndarray
    free: np.ndarray

    @cached_property
    def outer(self):
        """Products of the augmented means, upper triangles: (n, d (d + 1) / 2)."""
        above, beside = np.triu_indices(self.augmented.shape[1])
        return self.augmented[:, above] * self.augmented[:, beside]

    @cached_property
    def spread(self):
        """Covariances of the augmented factors, as `outer`; constants have none."""
        above, beside = np.triu_indices(self.augmented.shape[1])
        where = np.full(self.augmented.shape[1], -1)
        where[self.free] = np.arange(len(self.free))
        random = (where[above] >= 0) & (where[beside] >= 0)
        spread = np.zeros((len(self.mean), len(above)), dtype=self.mean.dtype)
        spread[:, random] = self.covariance[
            :, where[above[random]], where[beside[random]]
        ]
        return spread

    @cached_property
    def second(self):
        """E[z z'] of the augmented factors z, as `outer`."""
        return self.outer + self.spread


def times_in_full(dim):
    """How often each entry of an upper triangle stands in the whole matrix."""
    above, beside = np.triu_indices(dim)
    return np.where(above == beside, 1.0, 2.0)


def unpacked(packed, dim):
    """Symmetric matrices (n, dim, dim) of their upper triangles."""
    where = np.zeros((dim, dim), dtype=int)
    where[np.triu_indices(dim)] = np.arange(packed.shape[1])
    return packed[:, np.maximum(where, where.T)]


class GaussianFactors:
    """Independent Gaussians: ``precision`` (n, p, p), ``first`` (n, p), precision
    times mean."""

    def __init__(self, name, free, constant, dtype, prior=None):
        self.name, self.free, self.constant = name, free, constant
        self.dtype, self.prior = np.dtype(dtype), prior
        self._last = None

    @property
    def dim(self):
        """Coordinates of each Gaussian, p."""
        return len(self.free)

    def moments(self, own):
        """Moments of natural parameters; those of the last ones are remembered."""
        last = self._last
        if last is None or last[0] is not own:
            last = self._last = (own, self.stack(own))
        return last[1]

    def stack(self, own):
        """Moments of natural parameters of any number of such Gaussians."""
        precision = own["precision"]
        roots = np.diagonal(np.linalg.cholesky(precision), axis1=1, axis2=2)
        covariance = np.linalg.inv(precision)
        mean = np.einsum("npq,nq->np", covariance, own["first"])
        log_det = 2.0 * np.log(roots).sum(axis=1)
        return Moments(mean, covariance, log_det, self.augmented(mean), self.free)

    def augmented(self, values, constant=1.0):
        """Factors (n, p) with the constant, (n, d)."""
        width = self.dim + (self.constant is not None)
        augmented = np.full((len(values), width), constant, dtype=values.dtype)
        augmented[:, self.free] = values
        return augmented

    def regressed(self, sums, noise, shared, prior=None):
        """The optimum of q by the other side's sums: second moments and means times
        values."""
        second, first = sums
        if self.constant is not None:
            first = first - second[:, self.constant]
        noise = self.dtype.type(noise)
        precision = noise * second[:, self.free[:, None], self.free]
        first = noise * first[:, self.free]
        if prior is not None:
            precision, first = precision + prior["precision"], first + prior["first"]
        else:
            diagonal = np.arange(self.dim)
            precision[:, diagonal, diagonal] += shared.astype(self.dtype)
        return {"precision": precision, "first": first}

    def start(self, mean, variance):
        """Natural parameters of Gaussians about given means, all of one variance."""
        precision = np.eye(self.dim) / variance
        precision = np.repeat(precision[None], len(mean), axis=0).astype(self.dtype)
        return {"precision": precision, "first": (mean / variance).astype(self.dtype)}

    def cone(self, own):
        """The precisions must be positive definite."""
        # Noise at most halves a precision. Near to the boundary means grow beyond all
        # bounds, and with their squares the statistics of the other side: at 0.99 runs
        # on ratings went up to 1e4 stars and ended in rounding.
        return Cone((), own["precision"], reach=0.5)

    def squares(self, own):
        """Sums of E[z z'] over the Gaussians, its diagonal: (p,)."""
        q = self.moments(own)
        spread = np.einsum("npp->p", q.covariance, dtype=float)
        return spread + np.square(q.mean, dtype=float).sum(axis=0)

    def kl(self, own, shared, log_shared):
        """KL from priors with expected precisions and log precisions (p,); nats."""
        q = self.moments(own)
        change = np.sum(q.log_det, dtype=float) - q.mean.size
        if self.prior is None:
            spread = shared @ self.squares(own)
            return 0.5 * float(spread + change - len(q.mean) * np.sum(log_shared))
        p = self.prior["precision"]
        away = q.mean - np.linalg.solve(p, self.prior["first"][:, :, None])[:, :, 0]
        second = away[:, :, None] * away[:, None, :] + q.covariance
        change -= np.sum(np.linalg.slogdet(p)[1], dtype=float)
        return 0.5 * float(np.sum(p * second, dtype=float) + change)

    def __getstate__(self):
        return vars(self) | {"_last": None}


@dataclass(frozen=True, eq=False)
class ObservedEntries:
    """Entries about the global bias as data units with a length and selections."""

    entries: Entries
    _memory: dict = field(default_factory=dict, repr=False)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        """Some of the entries; the order of the positions is lost."""
        return ObservedEntries(self.entries[index])

    def noise(self, size, rng):
        """Weights of entries, centred by row and column, of variance n / size - 1,
        or None."""
        made = {}
        for name in ("rows", "columns"):
            index = getattr(self.entries, name)
            draws, count = rng.standard_normal(len(index)), np.bincount(index)
            mean = np.bincount(index, draws) / np.maximum(count, 1)
            deviation = np.sqrt(np.maximum(count / size - 1.0, 0.0))
            made[name] = deviation[index] * (draws - mean[index])
        return made if any(map(np.any, made.values())) else None

    @cached_property
    def squares(self):
        """Squares of the values, shape (n_entries,)."""
        return np.square(self.entries.values, dtype=float)

    @cached_property
    def sides(self):
        """Pattern and values as matrices, for "rows" and for "columns"."""
        return self.matrices(None)

    def matrices(self, weight):
        """The pattern of the entries, and their values, both times the weights."""
        entries = self.entries
        if weight is None:
            weight = np.ones(len(entries), dtype=entries.values.dtype)
        # Above this share of observed entries dense products are faster than sparse
        # ones, and need at most a few times the memory of the entries.
        if len(entries) >= 0.25 * np.prod(entries.shape, dtype=float):
            pair = [
                entries.matrix(w).toarray() for w in (weight, weight * entries.values)
            ]
            return {"rows": pair, "columns": [matrix.T for matrix in pair]}
        turned, order = entries.transposed, entries.by_column
        return {
            "rows": [entries.matrix(weight), entries.matrix(weight * entries.values)],
            "columns": [
                turned.matrix(weight[order]),
                turned.matrix(weight[order] * turned.values),
            ],
        }


class WeightedEntries:
    """Weights of entries, closed under sums and multiples."""

    def __init__(self, observed, weight=None, scale=1.0, memory=None):
        self.observed, self.weight, self.scale = observed, weight, scale
        if memory is None:
            memory = observed._memory if weight is None else {}
        self._memory = memory

    def __rmul__(self, factor):
        scale = factor * self.scale
        return WeightedEntries(self.observed, self.weight, scale, self._memory)

    def __add__(self, other):
        weight = self._weights() + other._weights()
        return WeightedEntries(self.observed, weight)

    def _weights(self):
        if self.weight is None:
            kind = self.observed.entries.values.dtype
            return np.full(len(self.observed), self.scale, dtype=kind)
        return self.weight.dtype.type(self.scale) * self.weight

    @property
    def total(self):
        """Sum of the weights."""
        if self.weight is None:
            return self.scale * len(self.observed)
        return self.scale * float(np.sum(self.weight, dtype=float))

    @property
    def squares(self):
        """Weighted sum of squared values."""
        if self.weight is None:
            return self.scale * float(self.observed.squares.sum())
        return self.scale * float(self.weight @ self.observed.squares)

    def sums(self, side, moments):
        """Of each row or column, the other side's second moments and means times
        values."""
        last = self._memory.get(side)
        if last is None or last[0] is not moments:
            pattern, values = self._sides[side]
            second = unpacked(pattern @ moments.second, moments.augmented.shape[1])
            last = moments, (second, values @ moments.augmented)
            self._memory[side] = last
        if self.scale == 1.0:
            return last[1]
        return tuple(part.dtype.type(self.scale) * part for part in last[1])

    @cached_property
    def _sides(self):
        if self.weight is None:
            return self.observed.sides
        return self.observed.matrices(self.weight)
