"""A conjugate model as a family and a target: parameters and draws as flat rows.

The packages that hold draws, weights and diagnostics know draws as rows of numbers and
components as a family with a parameter vector. Laid out flat, the parameters of a
mixture (weights, means, precisions) and the natural parameters of its distribution fit
in, and nothing there has to know that they are no points of R^dim.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skboost._parallel import SharedWithWorkers, chunked_map, row_blocks
from skboost.conjugate._likelihood import log_likelihood
from skboost.conjugate._statistics import statistics_of
from skboost.targets import Target

# Draws in one chunk of the log joint.
_CHUNK = 32


class LogDensities(NamedTuple):
    """Log densities of one component, as `ComponentDensities` asks for them."""

    log_density: np.ndarray


class DrawStream(NamedTuple):
    """What stands behind draws that are no function of base draws: a generator."""

    n: int
    rng: np.random.Generator


def _native_shape(covariance_type, n_components, dim):
    return {
        "full": (n_components, dim, dim),
        "tied": (dim, dim),
        "diag": (n_components, dim),
        "spherical": (n_components,),
    }[covariance_type]


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


@dataclass(frozen=True, eq=False)
class ConjugateFamily:
    """The distributions q(pi) prod_k q(mu_k, P_k) of one conjugate model.

    The part of `VariationalFamily` that mixtures, pools of draws and their
    diagnostics use; parameters are natural parameters in a row.

    Parameters
    ----------
    model : GaussianMixtureModel
    """

    model: object
    exact_expectations = False

    @cached_property
    def draws_layout(self):
        """`Layout` of draws: the parameters, and what densities need of them."""
        k, d = self.model.n_components, self.model.dim
        native = _native_shape(self.model.covariance_type, k, d)
        return Layout(
            {
                **self.model.weights.shapes,
                "means": (k, d),
                "precisions": native,
                "statistics": self._natural_layout.shapes,
                "log_prior": (),
            }
        )

    @property
    def parameters(self):
        """Names of the parameters in a draw."""
        return (*self.model.weights.shapes, "means", "precisions")

    @cached_property
    def _natural_layout(self):
        return Layout(_shapes(self.model.prior))

    def params(self, natural):
        """Natural parameters as a row (n_params,)."""
        ordered = {
            name: {key: np.asarray(value)[None] for key, value in own.items()}
            for name, own in self._ordered(natural).items()
        }
        return self._natural_layout.flat(ordered)[0]

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

    def base_draws(self, n, dim, rng):
        """A `DrawStream`: Wishart draws are no smooth function of base draws here."""
        return DrawStream(n, rng)

    def transport(self, params, eps):
        """Draws (n, dim) from a stream."""
        return self.rows(self.model.sample(self.natural(params), eps.n, eps.rng))

    def rows(self, draws):
        """Draws as rows (n, dim).

        Parameters
        ----------
        draws : dict
            As the model samples them, with a leading axis of draws.
        """
        tree = {name: draws[name] for name in self.parameters}
        tree["statistics"] = self._ordered(statistics_of(self.model, draws))
        tree["log_prior"] = self.model.log_prior(draws)
        return self.draws_layout.flat(tree)

    def at(self, params, theta):
        """Log densities of draws (n, dim), as an `LogDensities`."""
        return LogDensities(self.log_density(theta, params))

    def log_density(self, theta, params):
        """Log densities of draws (n, dim), shape (n,), nats."""
        natural = self.natural(params)
        change = params - self._prior
        # The normaliser, from one draw at which the model knows the density.
        one = self.model.sample(natural, 1, np.random.default_rng(0))
        known = self.model.log_density(natural, one)
        constant = known - self._change(self.rows(one), change)
        return self._change(theta, change) + constant

    def _change(self, theta, change):
        """Log density up to a constant: log prior and statistics times `change`."""
        return theta[:, -1] + theta[:, -1 - len(change) : -1] @ change

    @cached_property
    def _prior(self):
        return self.params(self.model.prior)

    def _ordered(self, tree):
        """A tree keyed as the natural parameters, in the order of their layout."""
        return {
            name: {key: tree[name][key] for key in own}
            for name, own in self.model.prior.items()
        }

    def entropy(self, params):
        """Differential entropy, nats."""
        return self.model.entropy(self.natural(params))


@dataclass(frozen=True, eq=False)
class ConjugateTarget(SharedWithWorkers, Target):
    """The posterior of a conjugate model, with the assignments summed out.

    Parameters
    ----------
    model : GaussianMixtureModel
    rows : Rows
    weight : ndarray of shape (n_rows,)
    n_jobs : int or None
        Threads over draws.
    """

    model: object
    rows: object
    weight: np.ndarray
    n_jobs: int | None = None

    @cached_property
    def family(self):
        """The family of the components."""
        return ConjugateFamily(self.model)

    @property
    def dim(self):
        """Numbers in a draw."""
        return self.family.draws_layout.size

    def expect(self, natural, noise=1.0):
        """Expected statistics and evidence of the rows, their weights times `noise`."""
        return self.model.expect(natural, self.rows, noise * self.weight)

    def log_density(self, theta):
        """Log joint of draws (n, dim), shape (n,), nats."""
        parts = [theta[block] for block in row_blocks(len(theta), 1, _CHUNK)]
        found = chunked_map(_log_joint, parts, self.n_jobs, shared=self.shared)
        return np.concatenate(found)


def _log_joint(target, theta):
    model, draws = target.model, target.family.draws_layout.tree(theta)
    found = log_likelihood(model, draws, target.rows, target.weight)
    return draws["log_prior"] + model.temperature * found
