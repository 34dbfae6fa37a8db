"""Starts from weights, means and precisions that the user gives."""

import numpy as np

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
