"""The scale of the clusters' covariances and the spread of their centres, learned."""

import numpy as np

from skboost._random import generator
from skboost.conjugate import ConjugateTarget, SharedPrior, explanations

# Rows beyond these say little more about what all clusters share.
_MOST_ROWS = 4096
# Every row stands for a cloud of this share of a feature's variance: tied values would
# draw the scale to zero.
_FLOOR = 1e-7
_STARTS = 8


def with_floor(settings, covariance):
    """Settings of a model whose rows are clouds of a tiny width, at least."""
    variance = np.diag(covariance)
    if settings["covariance_type"] == "spherical":
        variance = variance.mean()
    return settings | {"reg_covar": settings["reg_covar"] + _FLOOR * variance}


def shared_prior(estimator, settings, dof):
    """What clusters share under the settings of a model, before rows are seen."""
    # With the spread of their centres, where that is not given.
    tie = estimator.mean_precision_prior is None and "mean_precision" in settings
    return SharedPrior.of(settings, tie, dof)


def known_start(model, shared, X, weight):
    """Natural parameters of a `SharedMixtureModel` at the best explanation of rows."""
    # Draws are the same for all seeds, and rows in an order that does not depend on
    # where their origin is: the start is a function of the rows.
    order = np.lexsort((X - model.center).T[::-1])
    X, weight = X[order], weight[order]
    if len(X) > _MOST_ROWS:
        some = generator(0).choice(len(X), _MOST_ROWS, replace=False)
        total, X, weight = weight.sum(), X[some], weight[some]
        weight = weight * (total / weight.sum())
    plain = shared.model()
    target = ConjugateTarget(plain, plain.rows(X), weight, shared=shared)
    best, *_ = explanations(target, "kmeans", 0, _STARTS)
    return model.with_hyperparameters(best.natural, best.prior)
