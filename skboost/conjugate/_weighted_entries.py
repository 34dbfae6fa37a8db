"""Entries with weights: statistics of a matrix factorisation before they are summed.

Each factor sums the same entries up with the moments of another one, which are new by
then. So what is handed around is the entries and their weights, and that is linear.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from skboost._entries import Entries
from skboost.conjugate._factor_gaussians import unpacked

# Above this share of observed entries dense products are faster than sparse ones, and
# need at most a few times the memory of the entries.
_DENSE = 0.25


@dataclass(frozen=True, eq=False)
class Observed:
    """Entries as the engine sees them: data units with a length and selections.

    Parameters
    ----------
    entries : Entries
        Values about the global bias.
    """

    entries: Entries
    _memory: dict = field(default_factory=dict, repr=False)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        """Some of the entries; the order of the positions is lost."""
        return Observed(self.entries[index])

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
        if len(entries) >= _DENSE * np.prod(entries.shape, dtype=float):
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
    """Weights of entries, closed under sums and multiples.

    Parameters
    ----------
    observed : Observed
    weight : ndarray of shape (n_entries,), default=None
        None weighs all alike.
    scale : float, default=1.0
        Multiplies the weights.
    memory : dict, default=None
        Sums that are remembered: those of the entries without weights outlast a step.
    """

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
        """Sums over the entries of each row, or each column.

        Parameters
        ----------
        side : {"rows", "columns"}
        moments : Moments
            Of the other side.

        Returns
        -------
        second : ndarray of shape (n, d, d)
            Of the second moments.
        first : ndarray of shape (n, d)
            Of the means times the values.
        """
        last = self._memory.get(side)
        if last is None or last[0] is not moments:
            last = self._memory[side] = (moments, self._sums(side, moments))
        if self.scale == 1.0:
            return last[1]
        return tuple(part.dtype.type(self.scale) * part for part in last[1])

    def _sums(self, side, moments):
        pattern, values = self._sides[side]
        second = unpacked(pattern @ moments.second, moments.augmented.shape[1])
        return second, values @ moments.augmented

    @cached_property
    def _sides(self):
        if self.weight is None:
            return self.observed.sides
        return self.observed.matrices(self.weight)
