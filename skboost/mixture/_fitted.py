"""Fitted attributes of mixtures, by the names of scikit-learn."""

import numpy as np

from skboost.mixture._predictive import SinglePredictive


def precisions_cholesky(shape, covariances):
    """Upper triangular U with ``U U'`` the precisions, native as `covariances`."""
    lower = np.linalg.inv(np.linalg.cholesky(shape.matrices(covariances)))
    return shape.native(np.swapaxes(lower, -1, -2))


def prior_attributes(model, kind):
    """Parameters of the prior in use; None where it has no such parameter."""
    settings = model.settings
    alpha = settings["alpha"][0]
    if kind == "finite_dirichlet_process":
        # Of the whole process, as it was given.
        alpha = alpha * len(settings["alpha"])
    precision = settings.get("mean_precision")
    if precision is None:
        precision = 1.0 / settings["mean_variance"]
    return {
        "weight_concentration_prior_": float(alpha),
        "mean_prior_": settings["center"],
        "mean_precision_prior_": precision,
        "degrees_of_freedom_prior_": settings.get("dof"),
        "covariance_prior_": settings.get("rate"),
    }


def natural_attributes(model, kind, natural):
    """Attributes of a single distribution; None where the prior has no such number."""
    covariances = model.covariances(natural)
    shape = model.clusters.covariance
    factor = natural.get("clusters", {})
    dof = (natural.get("precisions") or factor).get("dof")
    if dof is not None:
        # Spherical precisions count every coordinate of a row.
        dof = dof / shape.degrees(1.0, model.dim)
    concentration = tuple(natural["weights"].values())
    if len(concentration) == 1:
        (concentration,) = concentration
    return {
        "weights_": model.mean_weights(natural),
        "means_": model.means(natural),
        "covariances_": covariances,
        "precisions_": model.clusters.precisions(natural),
        "precisions_cholesky_": precisions_cholesky(shape, covariances),
        "weight_concentration_": concentration,
        "mean_precision_": _per_cluster(factor.get("mean_precision")),
        "degrees_of_freedom_": _per_cluster(dof),
        **prior_attributes(model.given(natural), kind),
        "_predictive": SinglePredictive.of(model, natural),
    }


def posterior_attributes(posterior, prior, kind):
    """Attributes of a mixture of distributions, and of the model with its prior."""
    mean, weights = posterior.mean(), posterior.assignment()
    shape = posterior.model.clusters.covariance
    return {
        "weights_": weights,
        "means_": mean["means"],
        "covariances_": mean["covariances"],
        "precisions_": mean["precisions"],
        "precisions_cholesky_": precisions_cholesky(shape, mean["covariances"]),
        # A cluster counts as occupied from that expected weight on.
        "n_components_effective_": int((weights >= 0.01).sum()),
        **prior_attributes(prior, kind),
    }


def _per_cluster(values):
    """One number for each cluster, where all its features have the same."""
    if np.ndim(values) == 2 and np.array_equal(values, values[:, [0] * len(values[0])]):
        return values[:, 0]
    return values
