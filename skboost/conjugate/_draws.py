"""Draws of a conjugate model laid out flat, as rows of numbers."""

from functools import cached_property
from typing import NamedTuple

import numpy as np


class LogDensities(NamedTuple):
    """Log densities of one component, as `ComponentDensities` asks for them."""

    log_density: np.ndarray


class DrawStream(NamedTuple):
    """What stands behind draws that are no function of base draws: a generator."""

    n: int
    rng: np.random.Generator


class Layout:
    """Nested dicts of arrays as rows of numbers, and back.

    Parameters
    ----------
    shapes : dict
        Of one row: shapes, or dicts of them.
    """

    def __init__(self, shapes):
        self.shapes = shapes

    @cached_property
    def size(self):
        """Numbers in one row."""
        return sum(int(np.prod(shape)) for shape in _leaves(self.shapes))

    def flat(self, tree):
        """Rows (n, size) of a tree whose arrays have a leading axis of n."""
        parts = list(_leaves(tree))
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    def tree(self, rows):
        """The tree of rows (n, size), as views."""
        if rows.shape[1] != self.size:
            raise ValueError(
                f"draws must have {self.size} numbers in a row; got {rows.shape[1]}."
            )
        return self._cut(self.shapes, rows, 0)[0]

    def _cut(self, shapes, rows, at):
        if not isinstance(shapes, dict):
            end = at + int(np.prod(shapes))
            return rows[:, at:end].reshape(len(rows), *shapes), end
        found = {}
        for key, inner in shapes.items():
            found[key], at = self._cut(inner, rows, at)
        return found, at


class RowFamily:
    """Distributions whose parameters are natural parameters of a model in a row.

    A subclass has the `Layout` of its draws, ``draws_layout``, and that of its natural
    parameters, ``_natural_layout``.
    """

    def natural(self, params):
        """Natural parameters of a row."""
        tree = self._natural_layout.tree(np.asarray(params)[None])
        return {
            name: {key: value[0] for key, value in own.items()}
            for name, own in tree.items()
        }

    def dim_of(self, params):
        """Numbers in a draw."""
        return self.draws_layout.size

    def variants(self):
        """The family itself."""
        return (self,)


def _leaves(tree):
    if isinstance(tree, dict):
        for value in tree.values():
            yield from _leaves(value)
    else:
        yield tree


def _shapes(tree):
    if isinstance(tree, dict):
        return {key: _shapes(value) for key, value in tree.items()}
    return np.shape(tree)
