"""Fitted attributes by the names of scikit-learn's mixtures."""

import numpy as np


def cluster_attributes(model, natural):
    """What follows from the natural parameters of one conjugate distribution.

    Parameters
    ----------
    model : GaussianMixtureModel
    natural : dict

    Returns
    -------
    dict
        Weights, means, covariances, precisions and their Cholesky factors, and the
        parameters of the distributions; None where the prior has no such parameter.
    """
    covariances = model.covariances(natural)
    shape = model.clusters.covariance
    factor = natural.get("clusters", {})
    dof = (natural.get("precisions") or factor).get("dof")
    if dof is not None:
        # Spherical precisions count every coordinate of a row.
        dof = _per_cluster(dof / shape.degrees(1.0, model.dim))
    mean_precision = factor.get("mean_precision")
    if mean_precision is not None:
        mean_precision = _per_cluster(mean_precision)
    concentration = tuple(natural["weights"].values())
    return {
        "weights_": model.mean_weights(natural),
        "means_": model.means(natural),
        "covariances_": covariances,
        "precisions_": model.clusters.precisions(natural),
        "precisions_cholesky_": precisions_cholesky(shape, covariances),
        "weight_concentration_": (
            concentration[0] if len(concentration) == 1 else concentration
        ),
        "mean_precision_": mean_precision,
        "degrees_of_freedom_": dof,
    }


def precisions_cholesky(shape, covariances):
    """Upper triangular U with ``U U'`` the precisions, as scikit-learn's.

    Parameters
    ----------
    shape : Covariance
    covariances : ndarray
        A native array.
    """
    lower = np.linalg.inv(np.linalg.cholesky(shape.matrices(covariances)))
    return shape.native(np.swapaxes(lower, -1, -2))


def prior_attributes(estimator, settings):
    """Parameters of the prior as they were used; None where it has no such parameter.

    Parameters
    ----------
    estimator : SVIGaussianMixture or BoostedGaussianMixture
    settings : dict
        Of `mixture_settings`.
    """
    alpha = settings["alpha"][0]
    if estimator.weight_concentration_prior_type == "finite_dirichlet_process":
        # Of the whole process, as it was given.
        alpha = alpha * len(settings["alpha"])
    return {
        "weight_concentration_prior_": float(alpha),
        "mean_prior_": settings["center"],
        "mean_precision_prior_": settings.get("mean_precision"),
        "mean_variance_prior_": settings.get("mean_variance"),
        "degrees_of_freedom_prior_": settings.get("dof"),
        "covariance_prior_": settings.get("rate"),
    }


def n_parameters(n_components, n_features, covariance_type):
    """Free parameters of a mixture: weights, means and covariances."""
    pairs = n_features * (n_features + 1) // 2
    covariances = {
        "full": n_components * pairs,
        "tied": pairs,
        "diag": n_components * n_features,
        "spherical": n_components,
        "known": 0,
    }[covariance_type]
    return n_components - 1 + n_components * n_features + covariances


def _per_cluster(values):
    """One number for each cluster, where all its features have the same."""
    if np.ndim(values) == 2 and np.array_equal(values, values[:, [0] * len(values[0])]):
        return values[:, 0]
    return values
