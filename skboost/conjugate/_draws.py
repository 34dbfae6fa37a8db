"""Draws of a conjugate model laid out flat, as rows of numbers."""

from functools import cached_property
from typing import NamedTuple

import numpy as np


class LogDensities(NamedTuple):
    """Log densities of one component, as `Mixture` asks for them."""

    log_density: np.ndarray


class DrawStream(NamedTuple):
    """What stands behind draws that are no function of base draws: a generator."""

    n: int
    rng: np.random.Generator


class Layout:
    """Nested dicts of arrays as rows of numbers; `shapes` are those of one row."""

    def __init__(self, shapes):
        self.shapes = shapes

    @cached_property
    def size(self):
        """Numbers in one row."""
        return sum(int(np.prod(shape)) for shape in _leaves(self.shapes, self.shapes))

    def flat(self, tree):
        """Rows (n, size) of a tree whose arrays have a leading axis of n."""
        parts = _leaves(self.shapes, tree)
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
        tree = {}
        for key, inner in shapes.items():
            tree[key], at = self._cut(inner, rows, at)
        return tree, at


class RowFamily:
    """Distributions whose parameters are natural parameters of a model in a row."""

    # Not a Gaussian that is evaluated in one product with others.
    full_covariance = False

    def natural(self, params):
        """Natural parameters of a row."""
        tree = self._natural_layout.tree(np.asarray(params)[None])
        return {
            name: {key: value[0] for key, value in own.items()}
            for name, own in tree.items()
        }

    def params(self, natural):
        """Natural parameters as a row (n_params,)."""
        tree = {
            name: {
                key: np.asarray(value, dtype=float)[None] for key, value in own.items()
            }
            for name, own in natural.items()
        }
        return self._natural_layout.flat(tree)[0]

    def base_draws(self, n, dim, rng):
        """A `DrawStream`: Gamma draws are no smooth function of base draws here."""
        return DrawStream(n, rng)

    def at(self, params, theta):
        """Log densities of draws (n, dim), as `LogDensities`."""
        return LogDensities(self.log_density(theta, params))

    def dim_of(self, params):
        """Numbers in a draw."""
        return self.draws_layout.size

    def variants(self):
        """The family itself."""
        return (self,)


def _leaves(shapes, tree):
    """Arrays of a tree in the order of the shapes."""
    if isinstance(shapes, dict):
        for key, inner in shapes.items():
            yield from _leaves(inner, tree[key])
    else:
        yield tree
