"""A conjugate model as a family and a target: parameters and draws as flat rows.

The packages that hold draws, weights and diagnostics know draws as rows of numbers and
components as a family with a parameter vector. Laid out flat, the parameters of a
mixture (weights, means, precisions) and the natural parameters of its distribution fit
in, and nothing there has to know that they are no points of R^dim.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skboost._math import log_sum_exp, log_weights
from skboost._parallel import SharedWithWorkers, chunked_map, row_blocks
from skboost.conjugate._draws import Layout, RowFamily
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
    modes_known = True

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
        self.ledger.spend()
        return self.model.expect(natural, self.rows, noise * self.weight)

    def log_density(self, theta, strict=False):
        """Log joint of draws (n, dim), shape (n,), nats."""
        self.ledger.spend(len(theta))
        # Draws in one chunk of the log joint.
        parts = [theta[block] for block in row_blocks(len(theta), 1, 32)]
        values = chunked_map(_log_joint, parts, self.n_jobs, shared=self)
        return np.concatenate(values)


def _log_joint(target, theta):
    model, draws = target.model, target.family.draws_layout.tree(theta)
    values = log_likelihood(model, draws, target.rows, target.weight)
    return draws["log_prior"] + model.temperature * values


def log_parts(model, draws, rows):
    """``ln pi_k + ln N(x_n | mu_k, P_k)``, shape (n_rows, n_draws, n_components), less
    half of `reg_covar` times the trace of P_k.
    """
    means, precisions = draws["means"] - model.center, draws["precisions"]
    covariance = model.clusters.covariance
    logs = covariance.log_density_at(means, precisions, rows)
    logs += log_weights(draws["weights"])
    if model.reg_covar:
        if covariance.counts_entries and rows.seen is not None:
            traces = np.einsum("rd,nkd->rnk", rows.seen, precisions)
        else:
            traces = covariance.whole_trace(precisions, model.dim)
        logs -= 0.5 * model.reg_covar * traces
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
            each = log_sum_exp(parts.reshape(-1, n_components))
            values[some] += weight[block] @ each.reshape(-1, n_chosen)
    return values
