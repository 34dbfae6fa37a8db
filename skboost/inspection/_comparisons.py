"""Comparisons of average predictions under values of a column, and ranks."""

from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from skboost.inspection._asked import (
    Asked,
    groups_of,
    levels_of,
    values_of,
    with_values,
)
from skboost.posterior import check_level, plain_table

# Items up to which all pairs are compared.
_MOST_PAIRS = 500
# Step of a slope, in standard deviations of the column.
_STEP = 1e-4


def compare(
    model,
    X,
    variables,
    *,
    at=None,
    by=None,
    sample_weight=None,
    level=0.9,
    n=1000,
    random_state=0,
    **keywords,
):
    """Average predictions under different values of a column, with intervals.

    For every value the column is set to it in all rows, the expected response of every
    row is averaged, and differences and ratios of these averages are taken draw by
    draw. Of classes the expected response is a probability: of the second of two, or
    of each of more.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : {array-like, DataFrame} of shape (n_samples, n_features)
        Rows over which is averaged, as `predict` takes them.
    variables : dict
        From columns (names, or positions of an array's) to what is compared: a list of
        two or more values, of which each is compared with the first; a number, by which
        the column is raised; or ``"slope"``, the average derivative in the column.
    at : dict, default=None
        Values of other columns, set in all rows.
    by : column or array-like of shape (n_samples,), default=None
        Averages within the rows of each of its values.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of rows in the averages.
    level : float, default=0.9
        Posterior probability of the intervals, in (0, 1).
    n : int, default=1000
        Draws of the posterior.
    random_state : int, RandomState instance or None, default=0
    **keywords
        As in `sample_predictive`.

    Returns
    -------
    pandas.DataFrame, or a structured ndarray where pandas is not installed
        Columns ``column`` and ``contrast``, the name of `by` (``by`` for an array) and
        ``class`` (of more than two) where there are some, ``difference`` (posterior
        mean, in units of the response) with ``lower`` and ``upper`` end of its central
        interval and ``probability_positive``, and ``ratio`` (posterior median) with
        ``ratio_lower`` and ``ratio_upper``, NaN of slopes and where averages are not
        all positive.

    Raises
    ------
    TypeError, ValueError
        As `sample_predictive`, and for columns that X does not have, and for labels
        that its column does not hold.

    References
    ----------
    Gelman and Pardoe, Sociological Methodology 37, 2007 (average predictive
    comparisons). Arel-Bundock, Greifer and Heiss, Journal of Statistical Software 111,
    2024.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.inspection import compare
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> compare(model, X, {"bp": [0.0, 0.1], "bmi": "slope"})["contrast"].tolist()
    ['0.1 vs 0.0', 'slope']
    """
    tail = 0.5 * (1.0 - check_level(level))
    checked = [
        (column, *_contrast(X, column, wanted))
        for column, wanted in checked_mapping("variables", variables).items()
    ]
    labels, shares = groups_of(by, X, sample_weight)
    for column, value in checked_mapping("at", at or {}).items():
        check_levels(X, column, [value], "at")
    asked = Asked(model, n, random_state, keywords)
    for column, value in (at or {}).items():
        X = with_values(X, column, value)
    found = []
    for column, name, values, width in checked:
        first, *others = (
            asked.averages(with_values(X, column, value), shares) for value in values
        )
        for label, other in zip(name, others, strict=True):
            ratio = (
                _ratio(other, first) if width == 1.0 else np.full_like(other, np.nan)
            )
            found.append((column, label, (other - first) / width, ratio))
    return _comparisons(found, labels, by, asked.classes, tail)


def _contrast(X, column, wanted):
    """Names of contrasts, values of the column, and what differences are divided by."""
    if isinstance(wanted, list | tuple | np.ndarray):
        if len(wanted) < 2:
            raise ValueError(
                f"variables[{column!r}] must have two values or more; got {wanted!r}."
            )
        check_levels(X, column, wanted, "variables")
        first, *others = wanted
        return [f"{one} vs {first}" for one in others], list(wanted), 1.0
    if levels_of(X, column, "variables") is not None:
        raise ValueError(
            f"variables[{column!r}] must be a list of its levels; got {wanted!r}."
        )
    values = np.asarray(values_of(X, column, "variables"), dtype=float)
    if isinstance(wanted, str) and wanted == "slope":
        step = _STEP * (values.std() or np.abs(values).max() or 1.0)
        return ["slope"], [values - step, values + step], 2.0 * step
    if not isinstance(wanted, Real) or not np.isfinite(wanted):
        raise ValueError(
            f"variables[{column!r}] must be a list of values, a number to add or "
            f"'slope'; got {wanted!r}."
        )
    return [f"+{wanted:g}"], [values, values + wanted], 1.0


def check_levels(X, column, values, parameter):
    """A ValueError where values are no levels of a column of labels."""
    levels = levels_of(X, column, parameter)
    strange = [one for one in values if levels is not None and one not in levels]
    if strange:
        raise ValueError(
            f"{parameter}[{column!r}] must be among its levels in X, {levels}; got "
            f"{strange}. An ordered or categorical column of pandas may have levels "
            "that no row has."
        )


def checked_mapping(name, values):
    """A dict; a ValueError where it is none."""
    if not isinstance(values, dict) or (name == "variables" and not values):
        raise ValueError(
            f"{name} must be a dict from columns to values; got {values!r}."
        )
    return values


def _ratio(one, other):
    """Ratios of averages, NaN where one is not positive."""
    positive = (one > 0.0) & (other > 0.0)
    return np.divide(one, other, out=np.full_like(one, np.nan), where=positive)


def _comparisons(found, labels, by, classes, tail):
    """The table of draws (n_groups, n_draws[, n_classes]) of contrasts."""
    several = found[0][2].ndim == 3
    names = classes if several else [None]
    # What the column of groups is called.
    group = str(by) if isinstance(by, str | int | np.integer) else "by"
    rows = []
    for column, contrast, difference, ratio in found:
        for g, label in enumerate(labels):
            for k, name in enumerate(names):
                one = (g, slice(None), k) if several else g
                row = {"column": column, "contrast": contrast}
                row |= {} if by is None else {group: label}
                row |= {"class": name} if several else {}
                rows.append(row | _described(difference[one], ratio[one], tail))
    return plain_table({key: [row[key] for row in rows] for key in rows[0]})


def _described(difference, ratio, tail):
    """Posterior summaries of draws of a difference and a ratio."""
    lower, upper = np.quantile(difference, [tail, 1.0 - tail])
    middle, low, high = np.quantile(ratio, [0.5, tail, 1.0 - tail])
    return {
        "difference": difference.mean(), "lower": lower, "upper": upper,
        "probability_positive": np.mean(difference > 0.0),
        "ratio": middle, "ratio_lower": low, "ratio_upper": high,
    }  # fmt: skip


# --- ranks


class Ranking(NamedTuple):
    """What `rank` returns.

    Attributes
    ----------
    table : pandas.DataFrame, or a structured ndarray where pandas is not installed
        A row for each item, best first: ``item``, ``mean`` with ``lower`` and ``upper``
        end of its central interval, ``probability_best``, and ``rank`` (posterior mean,
        1 is best) with ``rank_lower`` and ``rank_upper``.
    pairwise : ndarray of shape (n_items, n_items) or None
        Probabilities that the item of a row is better than that of a column, in the
        order of the table; None of more than 500 items.
    """

    table: object
    pairwise: object


def rank(
    model,
    factor=None,
    X=None,
    *,
    effect=0,
    label=None,
    largest=True,
    level=0.9,
    n=4000,
    random_state=0,
    **keywords,
):
    """Which is best, and how sure that is: ranks under every draw of the posterior.

    Ranked are the effects of the groups of a factor (`factor` alone), average
    predictions with a column set to each of its values in all rows (`factor` and `X`),
    or rows (`X` alone), by their expected responses.

    Parameters
    ----------
    model : estimator
        Fitted; of effects a regression with groups.
    factor : str or int, default=None
        A key of ``group_effects_``, or where X is given one of its columns.
    X : {array-like, DataFrame} of shape (n_samples, n_features), default=None
    effect : int or str, default=0
        Of groups: "intercept" or the column of a slope, or their position.
    label : class, default=None
        Of more than two classes that whose probability is ranked.
    largest : bool, default=True
        Whether the largest is best.
    level : float, default=0.9
        Posterior probability of the intervals, in (0, 1).
    n : int, default=4000
        Draws of the posterior; models with groups have at most 1,024.
    random_state : int, RandomState instance or None, default=0
    **keywords
        As in `sample_predictive`.

    Returns
    -------
    Ranking
        ``table`` and ``pairwise``.

    Raises
    ------
    TypeError, ValueError
        As `sample_predictive`, and for factors, columns and classes that there are not.

    References
    ----------
    Goldstein and Spiegelhalter, Journal of the Royal Statistical Society A 159, 1996
    (ranks with intervals).

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import BoostedHierarchicalLinearRegression
    >>> from skboost.inspection import rank
    >>> rng = np.random.default_rng(0)
    >>> school = np.repeat(np.arange(8), 5)
    >>> X = np.column_stack([rng.normal(size=40), school])
    >>> y = X[:, 0] + 2.0 * (school == 3) + rng.normal(size=40)
    >>> model = BoostedHierarchicalLinearRegression(groups=[1], random_state=0)
    >>> ranking = rank(model.fit(X, y), "x1")
    >>> float(ranking.table["item"][0])
    3.0
    """
    tail = 0.5 * (1.0 - check_level(level))
    asked = Asked(model, n, random_state, keywords)
    if X is None:
        items, values = _effects(asked, factor, effect)
    else:
        items, values = _predictions(asked, factor, X, label)
    return _ranking(items, values if largest else -values, tail, largest)


def _effects(asked, factor, effect):
    """Labels of the groups of a factor, and draws (n_draws, n_groups) of an effect."""
    levels = getattr(asked.last, "group_levels_", {})
    if factor not in levels:
        raise ValueError(
            "factor must be one of the factors of a regression with groups, "
            f"{list(levels)}, where X is None; got {factor!r}. Pass X to rank its rows "
            "or values of its columns."
        )
    names = asked.last._model_.columns.effects_of(factor)
    place = names.index(effect) if effect in names else effect
    if place not in range(len(names)):
        raise ValueError(
            f"effect must be one of {names}, or a position below {len(names)}; got "
            f"{effect!r}."
        )
    draws, _ = asked.last._named(asked.drawn)
    items = levels[factor].tolist()
    return items, draws[f"effects({factor})"][:, :, place]


def _predictions(asked, factor, X, label):
    """Values of a column, or rows, and draws (n_draws, n) of expected responses."""
    if factor is None:
        parts = [responses.mean() for _, responses in asked.responses(X)]
        values = np.swapaxes(np.concatenate(parts), 0, 1)
        items = list(range(values.shape[1]))
    else:
        column = values_of(X, factor, "factor")
        items = levels_of(X, factor, "factor") or np.unique(column).tolist()
        _, shares = groups_of(None, X, None)
        values = [asked.averages(with_values(X, factor, one), shares) for one in items]
        values = np.stack([one[0] for one in values], axis=1)
    if values.ndim == 2:
        return items, values
    classes = asked.classes.tolist()
    if label not in classes:
        raise ValueError(f"label must be one of the classes {classes}; got {label!r}.")
    return items, values[:, :, classes.index(label)]


def _ranking(items, values, tail, largest):
    """`Ranking` of draws (n_draws, n_items), of which the largest are best."""
    order = np.argsort(-values.mean(axis=0), kind="stable")
    values = values[:, order]
    ranks, best = rankdata(-values, axis=1), values == values.max(axis=1, keepdims=True)
    reported = values if largest else -values
    lower, upper = np.quantile(reported, [tail, 1.0 - tail], axis=0)
    low, high = np.quantile(ranks, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
    table = {
        "item": [items[k] for k in order],
        "mean": reported.mean(axis=0), "lower": lower, "upper": upper,
        "probability_best": (best / best.sum(axis=1, keepdims=True)).mean(axis=0),
        "rank": ranks.mean(axis=0), "rank_lower": low, "rank_upper": high,
    }  # fmt: skip
    pairwise = None
    if len(items) <= _MOST_PAIRS:
        signs = [
            np.sign(values[:, [k]] - values).mean(axis=0) for k in range(len(items))
        ]
        pairwise = 0.5 + 0.5 * np.array(signs)
    return Ranking(plain_table(table), pairwise)
