"""The scale of the clusters' covariances and the spread of their centres, learned."""

import numpy as np

from skboost._random import generator
from skboost.conjugate import (
    ConjugateTarget,
    GaussianMixtureModel,
    SharedPrior,
    explanations,
)

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


def learns_tie(estimator, settings):
    """Whether the spread of centres is learned, too."""
    return estimator.mean_precision_prior is None and "mean_precision" in settings


def with_learned_prior(estimator, settings, X, weight):
    """Settings of a model at the expected hyperparameters of the best explanation of
    the rows, under the usual degrees of freedom, and its natural parameters.
    """
    # Draws are the same for all seeds, and rows in an order that does not depend on
    # where their origin is: the prior is a function of the rows.
    order = np.lexsort((X - settings["center"]).T[::-1])
    X, weight = X[order], weight[order]
    if len(X) > _MOST_ROWS:
        some = generator(0).choice(len(X), _MOST_ROWS, replace=False)
        total, X, weight = weight.sum(), X[some], weight[some]
        weight = weight * (total / weight.sum())
    model = GaussianMixtureModel(**settings)
    tie = learns_tie(estimator, settings)
    prior = SharedPrior.of(settings, tie, settings["dof"])
    target = ConjugateTarget(model, model.rows(X), weight, shared=prior)
    best, *_ = explanations(target, "kmeans", 0, _STARTS)
    reg_covar = {"reg_covar": float(estimator.reg_covar)}
    return best.prior.model().settings | reg_covar, best.natural
