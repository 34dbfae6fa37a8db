"""Log likelihood of many draws of a mixture's parameters at once.

A search asks for thousands of draws on what may be a few rows, where a loop over draws
costs more than its arithmetic. All draws and clusters are one stack of Gaussians here.
"""

import numpy as np

from skboost._math import LOG_2PI, log_sum_exp, log_weights
from skboost._parallel import row_blocks

_PARAMETERS = ("weights", "means", "precisions")


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
        chosen = {name: draws[name][some] for name in _PARAMETERS}
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
    covariances = np.linalg.inv(precisions)
    for seen, index in rows.groups():
        inner = covariances[..., seen, :][..., seen]
        roots = np.linalg.cholesky(np.linalg.inv(inner))
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
