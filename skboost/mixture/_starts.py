"""Where a mixture starts: responsibilities by name, or given parameters."""

import numpy as np

from skboost._math import responsibilities
from skboost.conjugate import ConjugateTarget, log_parts, start
from skboost.mixture._priors import check_definite, given


def start_of(estimator, model, rows, weight, known, rng):
    """Natural parameters that a run of `SVIGaussianMixture` begins with, known ones
    first."""
    if known:
        return known.pop()
    # In an order that does not depend on where the origin of the data is.
    order = np.lexsort(rows.values.T[::-1])
    ordered = ConjugateTarget(model, rows[order], weight[order])
    natural = start(ordered, estimator.init_params, rng)
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
