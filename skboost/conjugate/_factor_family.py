"""A matrix factorisation as a family: factors of all rows and columns as flat rows.

Draws are rows of numbers, as mixtures and pools of draws know them: the factors of all
rows, then those of all columns (a bias behind the factors of each), and then logarithms
of the precisions that are inferred, so that every real vector is a draw.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import digamma, gammaln

from skboost._math import LOG_2PI
from skboost.conjugate._family import DrawStream, Layout, LogDensities

SIDES = ("rows", "columns")


@dataclass(frozen=True, eq=False)
class FactorFamily:
    """Products of a Gaussian for each row and column, and of Gammas of precisions.

    The part of `VariationalFamily` that mixtures, pools of draws and their diagnostics
    use; parameters are natural parameters of the model in a row.

    Parameters
    ----------
    model : MatrixFactorizationModel
    """

    model: object
    exact_expectations = True

    @cached_property
    def gammas(self):
        """Names of the inferred precisions."""
        return tuple(factor.name for factor in self.model.factors[2:])

    @cached_property
    def draws_layout(self):
        """`Layout` of draws."""
        counts = dict(zip(SIDES, self.model.shape, strict=True))
        shapes = {
            name: (n, getattr(self.model, name).dim) for name, n in counts.items()
        }
        return Layout(shapes | self._gamma_shapes)

    @cached_property
    def _gamma_shapes(self):
        return {f.name: np.shape(f.prior["rate"]) for f in self.model.factors[2:]}

    @cached_property
    def _natural_layout(self):
        shapes = self.draws_layout.shapes
        found = {
            name: {"precision": (*shapes[name], shapes[name][1]), "first": shapes[name]}
            for name in SIDES
        }
        for name, shape in self._gamma_shapes.items():
            found[name] = {"shape": shape, "rate": shape}
        return Layout(found)

    def params(self, natural):
        """Natural parameters as a row (n_params,)."""
        ordered = {
            name: {
                key: np.asarray(natural[name][key], dtype=float)[None] for key in own
            }
            for name, own in self._natural_layout.shapes.items()
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

    def structure(self, params):
        """What `FactorTarget.expected_log_density` takes: natural parameters."""
        return None, self.natural(params), None

    # --- draws and densities

    def base_draws(self, n, dim, rng):
        """A `DrawStream`: Gamma draws are no smooth function of base draws here."""
        return DrawStream(n, rng)

    def transport(self, params, eps):
        """Draws (n, dim) from a stream."""
        natural, made = self.natural(params), {}
        for name in SIDES:
            mean, root = self._mean_and_root(natural[name])
            noise = eps.rng.standard_normal((*mean.shape, eps.n))
            away = np.linalg.solve(np.swapaxes(root, 1, 2), noise)
            made[name] = np.moveaxis(mean[:, :, None] + away, 2, 0)
        for name, shape in self._gamma_shapes.items():
            own = natural[name]
            draws = eps.rng.standard_gamma(own["shape"], (eps.n, *shape))
            made[name] = np.log(draws) - np.log(own["rate"])
        return self.draws_layout.flat(made)

    def _mean_and_root(self, own):
        """Means, and Cholesky factors of the precisions."""
        root = np.linalg.cholesky(own["precision"])
        mean = np.linalg.solve(own["precision"], own["first"][:, :, None])[:, :, 0]
        return mean, root

    def at(self, params, theta):
        """Log densities of draws (n, dim), as a `LogDensities`."""
        return LogDensities(self.log_density(theta, params))

    def log_density(self, theta, params):
        """Log densities of draws (n, dim), shape (n,), nats."""
        natural, draws = self.natural(params), self.draws_layout.tree(theta)
        found = np.zeros(len(theta))
        for name in SIDES:
            mean, root = self._mean_and_root(natural[name])
            away = np.moveaxis(draws[name] - mean, 0, 2)
            z = np.swapaxes(root, 1, 2) @ away
            found -= 0.5 * np.einsum("nps,nps->s", z, z)
            found += _log_roots(root) - 0.5 * mean.size * LOG_2PI
        for name in self.gammas:
            shape, rate = natural[name]["shape"], natural[name]["rate"]
            eta = draws[name]
            each = shape * (np.log(rate) + eta) - rate * np.exp(eta) - gammaln(shape)
            found += each.reshape(len(theta), -1).sum(axis=1)
        return found

    def entropy(self, params):
        """Differential entropy of a draw, nats."""
        natural, found = self.natural(params), 0.0
        for name in SIDES:
            mean, root = self._mean_and_root(natural[name])
            found += 0.5 * mean.size * (1.0 + LOG_2PI) - _log_roots(root)
        for name in self.gammas:
            shape = natural[name]["shape"]
            found += np.sum(shape + gammaln(shape) - shape * digamma(shape))
        return float(found)

    # --- moments

    def mean(self, params):
        """Means of the coordinates of a draw, shape (dim,)."""
        natural = self.natural(params)
        means = {n: self._mean_and_root(natural[n])[0][None] for n in SIDES}
        for name in self.gammas:
            own = natural[name]
            means[name] = (digamma(own["shape"]) - np.log(own["rate"]))[None]
        return self.draws_layout.flat(means)[0]

    location = mean


def _log_roots(root):
    return float(np.log(np.diagonal(root, axis1=1, axis2=2)).sum())
