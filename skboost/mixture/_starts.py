"""Where a mixture starts: responsibilities by name, or given parameters."""

import numpy as np
from threadpoolctl import threadpool_limits

from skboost._math import responsibilities
from skboost.conjugate import log_parts


def any_given(estimator):
    """Whether the user says where to start."""
    names = ("weights_init", "means_init", "precisions_init")
    return any(vars(estimator)[name] is not None for name in names)


def started(estimator, model, rows, weight, natural):
    """The start after the given parameters have assigned the rows.

    What is given takes the place of what `natural` has; the rows are shared out by the
    mixture of these values, as in a first step of EM.

    Parameters
    ----------
    estimator : SVIGaussianMixture or BoostedGaussianMixture
    model : GaussianMixtureModel
    rows : Rows
    weight : ndarray of shape (n_rows,)
    natural : dict
        A start without them.

    Returns
    -------
    dict
        Natural parameters; those that came where nothing is given.

    Raises
    ------
    ValueError
        If a value has the wrong shape or is no parameter of a mixture.
    """
    if not any_given(estimator):
        return natural
    means, precisions = model.means(natural), model.clusters.precisions(natural)
    draws = {
        "weights": _weights(estimator, model.mean_weights(natural)),
        "means": _given(estimator, "means_init", means),
        "precisions": _precisions(estimator, model.clusters.covariance, precisions),
    }
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


def _weights(estimator, default):
    weights = _given(estimator, "weights_init", default)
    if not ((weights >= 0).all() and np.isclose(weights.sum(), 1.0, atol=1e-6)):
        raise ValueError(
            "weights_init must be non-negative and sum to one; got a sum of "
            f"{weights.sum():g} and a least entry of {weights.min():g}. Divide it by "
            "its sum."
        )
    return weights


def _precisions(estimator, shape, default):
    precisions = _given(estimator, "precisions_init", default)
    matrices = shape.matrices(precisions)
    symmetric = np.allclose(matrices, np.swapaxes(matrices, -1, -2))
    if not (symmetric and np.linalg.eigvalsh(matrices).min() > 0):
        raise ValueError(
            "precisions_init must be symmetric and positive definite; got "
            f"{estimator.precisions_init!r}."
        )
    return precisions


def _given(estimator, name, default):
    """A parameter of the estimator as an array of the default's shape."""
    value = vars(estimator)[name]
    if value is None:
        return default
    try:
        value = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers of shape {default.shape}; got "
            f"{value!r}. Pass None to start from init_params."
        ) from error
    if value.shape != default.shape or not np.isfinite(value).all():
        raise ValueError(
            f"{name} must be finite and of shape {default.shape} for "
            f"n_components={estimator.n_components} and "
            f"covariance_type={estimator.covariance_type!r}; got shape {value.shape}."
        )
    return value


def kmeans(values, weight, n_components, rng):
    """Each row belongs to its k-means cluster."""
    # Loaded when it is used: it brings a third of scikit-learn.
    from sklearn.cluster import KMeans

    n_clusters = min(n_components, len(values))
    seed = int(rng.integers(2**31))
    # One thread, also in OpenMP: the order of its sums would show in the labels.
    with threadpool_limits(limits=1):
        labels = (
            KMeans(n_clusters, n_init=1, random_state=seed)
            .fit(values, sample_weight=weight)
            .labels_
        )
    return _one_hot(np.arange(len(values)), labels, len(values), n_components)


def random(values, weight, n_components, rng):
    """Uniform numbers, normalised over the clusters."""
    resp = rng.random((len(values), n_components))
    return resp / resp.sum(axis=1, keepdims=True)


def random_from_data(values, weight, n_components, rng):
    """Each cluster holds one row of its own, drawn at random by weight."""
    n_clusters = min(n_components, len(values))
    share = weight / weight.sum()
    index = rng.choice(len(values), n_clusters, replace=False, p=share)
    return _one_hot(index, np.arange(n_clusters), len(values), n_components)


def plusplus(values, weight, n_components, rng):
    """Each cluster holds one row, drawn by k-means++."""
    from sklearn.cluster import kmeans_plusplus

    n_clusters = min(n_components, len(values))
    seed = int(rng.integers(2**31))
    with threadpool_limits(limits=1):
        _, index = kmeans_plusplus(
            values, n_clusters, sample_weight=weight, random_state=seed
        )
    return _one_hot(index, np.arange(n_clusters), len(values), n_components)


STARTS = {
    "kmeans": kmeans,
    "k-means++": plusplus,
    "random": random,
    "random_from_data": random_from_data,
}


def _one_hot(rows, clusters, n_rows, n_components):
    resp = np.zeros((n_rows, n_components))
    resp[rows, clusters] = 1.0
    return resp
