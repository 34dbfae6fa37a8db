"""A conjugate model as a family and a target: parameters and draws as flat rows.

The packages that hold draws, weights and diagnostics know draws as rows of numbers and
components as a family with a parameter vector. Laid out flat, the parameters of a
mixture (weights, means, precisions) and the natural parameters of its distribution fit
in, and nothing there has to know that they are no points of R^dim.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skboost._math import log_weights
from skboost._parallel import SharedWithWorkers, chunked_map, row_blocks
from skboost.conjugate._draws import Layout, RowFamily
from skboost.conjugate.gaussian_mixture._shared import USUAL, SharedPrior
from skboost.targets import Target


@dataclass(frozen=True, eq=False)
class ConjugateFamily(RowFamily):
    """The distributions q(pi) prod_k q(mu_k, P_k) of one conjugate model."""

    model: object
    exact_expectations = False

    @cached_property
    def draws_layout(self):
        """`Layout` of draws: the parameters, and what densities need of them."""
        size = self.model.clusters.shape
        return Layout(
            {
                **self.model.weights.shapes,
                "means": size,
                "precisions": self.model.clusters.covariance.native_shape(*size),
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
        return Layout(
            {
                name: {key: np.shape(value) for key, value in own.items()}
                for name, own in self.model.prior.items()
            }
        )

    def transport(self, params, eps):
        """Draws (n, dim) from a stream."""
        return self.rows(self.model.sample(self.natural(params), eps.n, eps.rng))

    def rows(self, draws):
        """Draws of the model as rows (n, dim)."""
        known = {
            "statistics": self.model.sufficient(draws),
            "log_prior": self.model.log_prior(draws),
        }
        return self.draws_layout.flat(draws | known)

    def log_density(self, theta, params):
        """Log densities of draws (n, dim), shape (n,), nats."""
        natural = self.natural(params)
        change = params - self.params(self.model.prior)
        # The normaliser, from one draw at which the model knows the density.
        one = self.model.sample(natural, 1, np.random.default_rng(0))
        known = self.model.log_density(natural, one)
        constant = known - self._change(self.rows(one), change)
        return self._change(theta, change) + constant

    def _change(self, theta, change):
        """Log density up to a constant: log prior and statistics times `change`."""
        return theta[:, -1] + theta[:, -1 - len(change) : -1] @ change

    def entropy(self, params):
        """Differential entropy, nats."""
        return self.model.entropy(self.natural(params))


@dataclass(frozen=True, eq=False)
class ConjugateTarget(SharedWithWorkers, Target):
    """The posterior of a conjugate model, with the assignments summed out."""

    model: object
    rows: object
    weight: np.ndarray
    n_jobs: int | None = None
    # A `SharedPrior` in place of the prior of the model; None has that.
    shared: object = None
    modes_known = True

    @cached_property
    def family(self):
        """The family of the components."""
        return ConjugateFamily(self.model)

    @property
    def dim(self):
        """Numbers in a draw."""
        return self.family.draws_layout.size

    @cached_property
    def prior(self):
        """What the clusters of a run have in common, learned or not."""
        if self.shared is None:
            return SharedPrior.fixed(self.model.settings)
        return self.shared.take([min(USUAL, self.shared.n_runs - 1)])

    @property
    def all_priors(self):
        """What clusters may have in common: a run for each possibility."""
        return self.prior if self.shared is None else self.shared

    def log_density(self, theta, strict=False):
        """Log joint of draws (n, dim), shape (n,), nats."""
        self.ledger.spend(len(theta))
        # Draws in one chunk of the log joint.
        parts = [theta[block] for block in row_blocks(len(theta), 1, 32)]
        values = chunked_map(_log_likelihood, parts, self.n_jobs, shared=self)
        return self._log_prior(theta) + np.concatenate(values)

    def _log_prior(self, theta):
        model, draws = self.model, self.family.draws_layout.tree(theta)
        if self.shared is None:
            return draws["log_prior"]
        centred = draws | {"means": draws["means"] - model.center}
        weights = model.weights.log_density(model.weights.prior, draws)
        return weights + self.shared.log_density(centred)


def _log_likelihood(target, theta):
    model, draws = target.model, target.family.draws_layout.tree(theta)
    values = log_likelihood(model, draws, target.rows, target.weight)
    return model.temperature * values


def log_parts(model, draws, rows):
    """``ln pi_k + ln N(x_n | mu_k, P_k) - reg_covar tr(P_k) / 2``, (n_rows, n_draws,
    K)."""
    means, precisions = draws["means"] - model.center, draws["precisions"]
    covariance = model.clusters.covariance
    logs = covariance.log_density_at(means, precisions, rows)
    logs += log_weights(draws["weights"])
    if np.any(model.reg_covar):
        cloud = precisions * model.reg_covar
        if covariance.counts_entries and rows.seen is not None:
            logs -= 0.5 * np.einsum("rd,nkd->rnk", rows.seen, cloud)
        else:
            logs -= 0.5 * covariance.whole_trace(cloud, model.dim)
    return logs


def log_likelihood(model, draws, rows, weight):
    """``sum_n w_n ln sum_k pi_k N(x_n | mu_k, P_k)``, shape (n_draws,), nats."""
    n_draws, n_components = draws["weights"].shape
    values = np.zeros(n_draws)
    # As many draws at a time as leave all rows in one block, at least one.
    for some in row_blocks(n_draws, len(rows) * n_components):
        chosen = {
            name: draws[name][some] for name in ("weights", "means", "precisions")
        }
        n_chosen = len(chosen["weights"])
        for block in row_blocks(len(rows), n_chosen * n_components):
            parts = log_parts(model, chosen, rows[block])
            # Sums over a first axis are several times as fast as over a last one.
            parts = np.ascontiguousarray(np.moveaxis(parts, -1, 0))
            top = np.maximum(parts.max(axis=0), -np.finfo(float).max)
            parts -= top
            with np.errstate(divide="ignore"):
                top += np.log(np.exp(parts, out=parts).sum(axis=0))
            values[some] += weight[block] @ top
    return values
