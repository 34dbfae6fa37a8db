"""Ratios of odds and of rates: exponentials of coefficients, with intervals."""

import numpy as np

from skboost._math import weighted_quantiles
from skboost.linear_model._methods import tails_of, weighted_draws
from skboost.linear_model._model import name_of_prior
from skboost.posterior import summary_table

# Draws that contrasts of classes are quantiles of, and how many numbers they may hold.
_N_DRAWS, _MOST_NUMBERS = 1 << 14, 1 << 24


def ratio_table(estimator, kind, level, increment):
    """Exponentials of coefficients and intercepts, a table; `kind` is its column."""
    tails_of(level)
    posterior, layout = estimator.posterior_, estimator._model_.layout
    factor = np.tile(_factors(layout, increment), layout.n_outputs)
    table = posterior.summary(level)[: len(factor)]
    logs = np.array([table[name] for name in ("median", "lower", "upper")])
    above = np.array(table["probability_positive"])
    names = posterior.names[: len(factor)]
    return _table(estimator, kind, factor * logs, above, names)


def contrast_table(estimator, reference, level, increment):
    """Odds ratios of all other classes against one, by draws of the posterior."""
    tails, classes = tails_of(level), estimator.classes_
    posterior, layout = estimator.posterior_, estimator._model_.layout
    if reference is None:
        reference = classes[0]
    if reference not in classes:
        raise ValueError(
            f"reference must be one of the classes {classes.tolist()}; got "
            f"{reference!r}."
        )
    factor = _factors(layout, increment)
    n = int(np.clip(_MOST_NUMBERS // posterior.dim, 256, _N_DRAWS))
    draws, masses = weighted_draws(posterior, n)
    draws = draws.reshape(len(draws), layout.n_outputs, -1)
    other = classes != reference
    contrasts = (draws[:, other] - draws[:, ~other]).reshape(len(draws), -1)
    logs = weighted_quantiles(contrasts, masses, [0.5, *tails]).T
    names = [
        f"{label} vs {reference}: {name}"
        for label in classes[other]
        for name in [*layout.features, "intercept"][: len(factor)]
    ]
    factor = np.tile(factor, other.sum())
    above = masses @ (contrasts > 0)
    return _table(estimator, "odds_ratio", factor * logs, above, names)


def _factors(layout, increment):
    """What the coefficients of an output are multiplied with, 1 for the intercept."""
    features = layout.features
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
            "increment must be a positive number, one for each feature "
            f"({len(features)} in all), or a dict by the names of some of them; got "
            f"{increment!r}."
        )
    return np.append(values, [1.0] * layout.intercept)


def _table(estimator, kind, logs, above, names):
    ratio, lower, upper = np.exp(logs)
    columns = {kind: ratio, "lower": lower, "upper": upper}
    table = summary_table(columns | {"probability_above_1": above}, names)
    if hasattr(table, "attrs"):
        table.columns.name, sentence = prior_in_words(estimator)
        table.attrs["prior"] = f"Shrunk towards 1 by a {sentence}."
    return table


def prior_in_words(estimator):
    """The prior of the coefficients of a fit, in short and as half a sentence."""
    model = estimator._model_
    prior = getattr(getattr(model, "begun", None) or model, "prior", None)
    kind = "normal" if prior is None else name_of_prior(prior)
    # Linear predictors of numbers have a unit of their own.
    size = getattr(getattr(model, "unit", None), "size", 1.0)
    unit = "" if size == 1.0 else "y.std() * "
    wide = f"prior_scale={unit}10 / X.std(axis=0) leaves nearly none"
    if getattr(model, "scale_prior", None) is not None:
        scale = f"whose scale is learned ({estimator.prior_scale_:.2g})"
        return f"{kind} prior, learned", f"{kind} prior {scale}; {wide}"
    given = estimator.prior_scale
    scale = "of a scale for each column" if np.ndim(given) else f"of scale {given!r}"
    return f"{kind} prior", f"{kind} prior {scale}; {wide}"
