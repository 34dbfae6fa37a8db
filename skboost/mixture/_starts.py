"""Where a mixture starts: responsibilities by name, or given parameters."""

import numpy as np

from skboost._math import responsibilities
from skboost.conjugate import LABELS, log_parts
from skboost.mixture._priors import check_definite, given


def start_of(estimator, model, rows, weight, rng):
    """Natural parameters that a run of `SVIGaussianMixture` begins with."""
    make = STARTS[estimator.init_params]
    # In an order that does not depend on where the origin of the data is.
    order = np.lexsort(rows.values.T[::-1])
    values = rows.values[order]
    resp = np.empty((len(values), model.n_components))
    resp[order] = make(values, weight[order], model.n_components, rng)
    natural = model.start(rows, resp * weight[:, None])
    return started(estimator, model, rows, weight, natural)


def any_given(estimator):
    """Whether the user says where to start."""
    names = ("weights_init", "means_init", "precisions_init")
    return any(vars(estimator)[name] is not None for name in names)


def started(estimator, model, rows, weight, natural):
    """The start after the given parameters have assigned the rows, as EM begins."""
    if not any_given(estimator):
        return natural
    draws = {
        "weights": model.mean_weights(natural),
        "means": model.means(natural),
        "precisions": model.clusters.precisions(natural),
    }
    for name, default in draws.items():
        if vars(estimator)[f"{name}_init"] is not None:
            draws[name] = given(estimator, f"{name}_init", default.shape)
    if estimator.precisions_init is not None:
        covariance = model.clusters.covariance
        check_definite("precisions_init", covariance, draws["precisions"])
    weights = draws["weights"]
    if not ((weights >= 0).all() and np.isclose(weights.sum(), 1.0, atol=1e-6)):
        raise ValueError(
            "weights_init must be non-negative and sum to one; got a sum of "
            f"{weights.sum():g} and a least entry of {weights.min():g}. Divide it by "
            "its sum."
        )
    draws = {name: value[None] for name, value in draws.items()}
    joint = log_parts(model, draws, rows)[:, 0]
    resp, log_density = responsibilities(joint)
    if not np.isfinite(log_density).all():
        raise ValueError(
            "weights_init, means_init and precisions_init must give every row a "
            "positive density; some rows have none. Give weights above zero, and "
            "precisions on the scale of X."
        )
    return model.start(rows, resp * weight[:, None])


def kmeans(values, weight, n_components, rng):
    """Each row belongs to its k-means cluster."""
    n_clusters = min(n_components, len(values))
    return np.eye(n_components)[LABELS["kmeans"](values, weight, n_clusters, rng)]


def random(values, weight, n_components, rng):
    """Uniform numbers, normalised over the clusters."""
    resp = rng.random((len(values), n_components))
    return resp / resp.sum(axis=1, keepdims=True)


def random_from_data(values, weight, n_components, rng):
    """Each cluster holds one row of its own, drawn at random by weight."""
    n_clusters = min(n_components, len(values))
    share = weight / weight.sum()
    index = rng.choice(len(values), n_clusters, replace=False, p=share)
    return _one_each(index, len(values), n_components)


def plusplus(values, weight, n_components, rng):
    """Each cluster holds one row, drawn by k-means++."""
    from sklearn.cluster import kmeans_plusplus

    n_clusters = min(n_components, len(values))
    seed = int(rng.integers(2**31))
    _, index = kmeans_plusplus(
        values, n_clusters, sample_weight=weight, random_state=seed
    )
    return _one_each(index, len(values), n_components)


STARTS = {
    "kmeans": kmeans,
    "k-means++": plusplus,
    "random": random,
    "random_from_data": random_from_data,
}


def _one_each(rows, n_rows, n_components):
    """Each of the rows in a cluster of its own, the others in none."""
    resp = np.zeros((n_rows, n_components))
    resp[rows, np.arange(len(rows))] = 1.0
    return resp
