"""Ratios of odds and of rates: exponentials of coefficients, with intervals."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.linear_model._coefficients import tails_of
from skboost.posterior import summary_table

# Draws that contrasts of classes are quantiles of, and how many numbers they may hold.
_N_DRAWS, _MOST_NUMBERS = 1 << 14, 1 << 24


def ratio_table(estimator, kind, level, increment):
    """Exponentials of the coefficients and intercepts of an estimator, a table.

    Parameters
    ----------
    estimator : object
        With ``posterior_`` over (coefficients, intercept) of every output, and
        whatever else.
    kind : str
        Name of the first column.
    level : float
    increment : float, dict or array-like of shape (n_features,)
    """
    check_is_fitted(estimator)
    tails_of(level)
    posterior = estimator.posterior_
    factor = np.tile(_factors(estimator, increment), estimator._n_outputs)
    table = posterior.summary(level)[: len(factor)]
    logs = np.array([table[name] for name in ("median", "lower", "upper")])
    above = np.array(table["probability_positive"])
    return _table(kind, factor * logs, above, posterior.names[: len(factor)])


def contrast_table(estimator, reference, level, increment):
    """Odds ratios of all other classes against one, by draws of the posterior."""
    tails, classes = tails_of(level), estimator.classes_
    if reference is None:
        reference = classes[0]
    if reference not in classes:
        raise ValueError(
            f"reference must be one of the classes {classes.tolist()}; got "
            f"{reference!r}."
        )
    names, factor = estimator._feature_names(), _factors(estimator, increment)
    n = int(np.clip(_MOST_NUMBERS // estimator.posterior_.dim, 256, _N_DRAWS))
    draws = np.dstack([*map(np.atleast_3d, estimator.sample_posterior(n, 0))])
    draws = draws[..., : len(factor)]
    other = classes != reference
    contrasts = (draws[:, other] - draws[:, ~other]).reshape(n, -1)
    logs = np.quantile(contrasts, [0.5, *tails], axis=0)
    names = [
        f"{label} vs {reference}: {name}"
        for label in classes[other]
        for name in [*names, "intercept"][: len(factor)]
    ]
    factor = np.tile(factor, other.sum())
    return _table("odds_ratio", factor * logs, (contrasts > 0).mean(axis=0), names)


def _factors(estimator, increment):
    """What the coefficients of an output are multiplied with, 1 for the intercept."""
    features = estimator._coefficient_names()
    try:
        values = increment
        if isinstance(increment, dict):
            values = dict.fromkeys(features, 1.0) | increment
            values = list(values.values())
        values = np.broadcast_to(np.asarray(values, dtype=float), (len(features),))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if not (np.isfinite(values).all() and (values > 0.0).all()):
        raise ValueError(
            "increment must be a positive number, one for each of the "
            f"{len(features)} features, or a dict by the names of some of them; got "
            f"{increment!r}."
        )
    return np.append(values, [1.0] * estimator._has_intercept)


def _table(kind, logs, above, names):
    ratio, lower, upper = np.exp(logs)
    columns = {kind: ratio, "lower": lower, "upper": upper}
    return summary_table(columns | {"probability_above_1": above}, names)
