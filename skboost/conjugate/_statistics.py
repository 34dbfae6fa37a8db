"""Sufficient statistics of the parameters of a Gaussian mixture.

The distributions of a conjugate model are an exponential family in those parameters:

    ln q(theta; lambda) = ln p(theta) + t(theta) . (lambda - lambda_prior) + c(lambda)

With t and the log prior computed once for every draw, the density of a draw under any
distribution is an inner product.
"""

import numpy as np


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
