"""The scale of the clusters' covariances and the spread of their centres, learned."""

import numpy as np

from skboost._random import generator
from skboost.conjugate import (
    ConjugateTarget,
    GaussianMixtureModel,
    SharedPrior,
    shared_ascent,
    start,
)

# Rows beyond these say little more about what all clusters share.
_MOST_ROWS = 4096
# Every row stands for a cloud of this share of a feature's variance: tied values would
# draw the scale to zero.
_FLOOR = 1e-6
_STARTS = ("kmeans", "k-means++", "random_from_data", "random")
_SHORT, _LONG = 20, 300


def with_learned_prior(settings, covariance, X, weight, learn_tie):
    """Settings of a model with the rate, and `mean_precision` where `learn_tie`, at
    their posterior means under the shared prior whose expected rate is given.
    """
    # Draws are the same for all seeds, and rows in an order that does not depend on
    # where their origin is: the prior is a function of the rows.
    rng, order = generator(0), np.lexsort((X - settings["center"]).T[::-1])
    X, weight = X[order], weight[order]
    if len(X) > _MOST_ROWS:
        some = rng.choice(len(X), _MOST_ROWS, replace=False)
        total, X, weight = weight.sum(), X[some], weight[some]
        weight = weight * (total / weight.sum())
    unit = _unit(settings, covariance)
    scaled = _in_units(settings, unit)
    learn_tie = learn_tie and "mean_precision" in settings
    prior = SharedPrior.of(scaled, learn_tie)
    model = GaussianMixtureModel(**prior.expected())
    target = ConjugateTarget(model, model.rows(X / unit), weight)
    rows = model, target.rows, weight
    found = []
    for init in _STARTS if model.n_components > 1 else _STARTS[:1]:
        natural = start(target, init, rng)
        found.append(_ascended(prior, natural, *rows, _SHORT))
    # Runs with the same optimum differ by rounding: the first of them is taken.
    _, prior, natural = max(found, key=lambda run: round(run[0], 1))
    _, prior, _ = _ascended(prior, natural, *rows, _LONG)
    return _in_units(prior.expected(), 1.0 / unit) | {
        "center": settings["center"],
        "reg_covar": settings["reg_covar"],
    }


def _ascended(prior, natural, model, rows, weight, max_iter):
    return shared_ascent(prior, model, natural, rows, weight, max_iter)


def _unit(settings, covariance):
    """Units of the features, one for all where the model is not free in each."""
    variance = np.diag(covariance)
    one = settings["covariance_type"] == "spherical" or "mean_variance" in settings
    if one or settings["reg_covar"]:
        variance = np.full_like(variance, variance.mean())
    return np.sqrt(variance)


def _in_units(settings, unit):
    """Settings of the same model for rows divided by `unit`."""
    squares = unit[0] ** 2
    rate = {"spherical": squares, "diag": unit**2}.get(
        settings["covariance_type"], np.outer(unit, unit)
    )
    changed = {
        "center": settings["center"] / unit,
        "rate": settings["rate"] / rate,
        "reg_covar": settings["reg_covar"] / squares + _FLOOR,
    }
    if "mean_variance" in settings:
        changed["mean_variance"] = settings["mean_variance"] / squares
    return settings | changed
