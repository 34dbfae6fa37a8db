"""A conjugate model as a family and a target: parameters and draws as flat rows.

The packages that hold draws, weights and diagnostics know draws as rows of numbers and
components as a family with a parameter vector. Laid out flat, the parameters of a
mixture (weights, means, precisions) and the natural parameters of its distribution fit
in, and nothing there has to know that they are no points of R^dim.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skboost._math import LOG_2PI, log_sum_exp, log_weights
from skboost._parallel import SharedWithWorkers, chunked_map, row_blocks
from skboost.conjugate._draws import (
    DrawStream,
    Layout,
    LogDensities,
    RowFamily,
    _shapes,
)
from skboost.targets import Target


def _native_shape(covariance_type, n_components, dim):
    return {
        "full": (n_components, dim, dim),
        "tied": (dim, dim),
        "diag": (n_components, dim),
        "spherical": (n_components,),
    }[covariance_type]


@dataclass(frozen=True, eq=False)
class ConjugateFamily(RowFamily):
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
        # Draws in one chunk of the log joint.
        parts = [theta[block] for block in row_blocks(len(theta), 1, 32)]
        found = chunked_map(_log_joint, parts, self.n_jobs, shared=self.shared)
        return np.concatenate(found)


def _log_joint(target, theta):
    model, draws = target.model, target.family.draws_layout.tree(theta)
    found = log_likelihood(model, draws, target.rows, target.weight)
    return draws["log_prior"] + model.temperature * found


def statistics_of(model, draws):
    """``t(theta)`` of every draw, in the form of the model's natural parameters.

    Parameters
    ----------
    model : GaussianMixtureModel
    draws : dict
        As the model samples them, with a leading axis of draws.

    Returns
    -------
    dict
        Of dicts of arrays with a leading axis of draws, keyed as ``model.prior``.
    """
    means, precisions = draws["means"] - model.center, draws["precisions"]
    found = {"weights": model.weights.statistics(draws)}
    for name, own in model.prior.items():
        if name != "weights":
            found[name] = _STATISTICS[name](model, own, means, precisions)
    return found


def _clusters(model, own, means, precisions):
    """Of Normal-Wishart clusters."""
    first = _times(model.covariance_type, precisions, means)
    squares = first * means
    if model.covariance_type != "diag":
        squares = squares.sum(axis=-1)
    return {
        "dof": 0.5 * _log_det(model, precisions),
        "mean_precision": -0.5 * squares,
        "first": first,
        "second": -0.5 * precisions,
    }


def _means(model, own, means, precisions):
    """Of means that are independent of the precisions."""
    products = {
        3: lambda: means[..., :, None] * means[..., None, :],
        2: lambda: means**2,
        1: lambda: (means**2).sum(axis=-1),
    }[own["precision"].ndim]()
    return {"precision": -0.5 * products, "first": means}


def _precisions(model, own, means, precisions):
    return {"dof": 0.5 * _log_det(model, precisions), "rate": -0.5 * precisions}


_STATISTICS = {"clusters": _clusters, "means": _means, "precisions": _precisions}


def _times(covariance_type, precisions, means):
    """P mu of every draw and cluster."""
    if covariance_type == "full":
        return np.einsum("nkde,nke->nkd", precisions, means)
    if covariance_type == "tied":
        return means @ precisions
    return means * (precisions[..., None] if precisions.ndim == 2 else precisions)


def _log_det(model, precisions):
    """ln |P| of every Wishart."""
    roots = np.linalg.cholesky(model.clusters.covariance.matrices(precisions))
    return 2.0 * np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(axis=-1)


def log_parts(model, draws, rows):
    """``ln pi_k + ln N(x_n | mu_k, P_k)`` of every draw, missing entries left out.

    With `reg_covar` of the model less half of it times the trace of P_k.

    Parameters
    ----------
    model : GaussianMixtureModel
    draws : dict
        ``weights``, ``means``, ``precisions``, with a leading axis of draws.
    rows : Rows

    Returns
    -------
    ndarray of shape (n_rows, n_draws, n_components)
    """
    means = draws["means"] - model.center
    evaluate = _EVALUATE[model.covariance_type]
    found = evaluate(means, draws["precisions"], rows) + log_weights(draws["weights"])
    if model.reg_covar:
        found -= 0.5 * model.reg_covar * _traces(model, draws["precisions"], rows)
    return found


def log_likelihood(model, draws, rows, weight):
    """``sum_n w_n ln sum_k pi_k N(x_n | mu_k, P_k)``, shape (n_draws,), nats.

    Parameters as in `log_parts`, and the weights (n_rows,) of the rows.
    """
    n_draws, n_components = draws["weights"].shape
    found = np.zeros(n_draws)
    # As many draws at a time as leave all rows in one block, at least one.
    for some in row_blocks(n_draws, len(rows) * n_components):
        chosen = {
            name: draws[name][some] for name in ("weights", "means", "precisions")
        }
        n_chosen = len(chosen["weights"])
        for block in row_blocks(len(rows), n_chosen * n_components):
            parts = log_parts(model, chosen, rows[block])
            each = log_sum_exp(parts.reshape(-1, n_components))
            found[some] += weight[block] @ each.reshape(-1, n_chosen)
    return found


def _traces(model, precisions, rows):
    """tr P of every draw and cluster, over what is observed where that counts."""
    covariance, dim = model.clusters.covariance, model.dim
    if covariance.counts_entries and rows.seen is not None:
        return np.einsum("rd,nkd->rnk", rows.seen, precisions)
    traces = {
        "full": lambda: np.einsum("nkdd->nk", precisions),
        "tied": lambda: np.einsum("ndd->n", precisions)[:, None],
        "diag": lambda: precisions.sum(axis=-1),
        "spherical": lambda: dim * precisions,
    }
    return traces[covariance.name]()


def _diag(means, precisions, rows):
    stack, n_components = means.reshape(-1, means.shape[-1]), means.shape[1]
    scales = precisions.reshape(stack.shape)
    linear = scales * stack
    constant = 0.5 * (np.log(scales) - LOG_2PI - linear * stack)
    found = rows.values @ linear.T - (rows.values**2) @ (0.5 * scales.T)
    seen = rows.seen
    found += constant.sum(axis=1) if seen is None else seen @ constant.T
    return found.reshape(len(rows), -1, n_components)


def _spherical(means, precisions, rows):
    return _diag(means, np.repeat(precisions[..., None], means.shape[-1], -1), rows)


def _full(means, precisions, rows):
    if rows.patterns is None:
        return _complete(means, np.linalg.cholesky(precisions), rows.values)
    found = np.empty((len(rows), *means.shape[:2]))
    for seen, index in rows.groups():
        # With what is missing first, the last block of the root is the root of the
        # precision of what was seen. An inverse of an inverse may have no root.
        order, n_missing = np.argsort(seen, kind="stable"), np.sum(~seen)
        root = np.linalg.cholesky(precisions[..., order, :][..., order])
        roots = root[..., n_missing:, n_missing:]
        found[index] = _complete(means[..., seen], roots, rows.values[index][:, seen])
    return found


def _tied(means, precisions, rows):
    spread = np.broadcast_to(precisions[:, None], (*means.shape, means.shape[-1]))
    return _full(means, spread, rows)


def _complete(means, roots, values):
    """Log densities of rows, with roots (n_draws, n_components, dim, dim) of P."""
    dim, n_columns = values.shape[1], means.shape[0] * means.shape[1]
    # By coordinate of the whitened residual: columns are contiguous, and the roots
    # are lower triangular.
    columns = np.moveaxis(roots, (-2, -1), (0, 1)).reshape(dim, dim, n_columns)
    shifts = np.einsum("skd,skde->esk", means, roots).reshape(dim, n_columns)
    squares = np.zeros((len(values), n_columns))
    for e in range(dim):
        away = values[:, e:] @ columns[e:, e]
        away -= shifts[e]
        away *= away
        squares += away
    log_root = np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(axis=-1)
    squares = squares.reshape(len(values), *means.shape[:2])
    return log_root - 0.5 * (squares + dim * LOG_2PI)


_EVALUATE = {"full": _full, "tied": _tied, "diag": _diag, "spherical": _spherical}
