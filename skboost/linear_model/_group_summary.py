"""What a hierarchical regression has found, as tables and as a text."""

from dataclasses import dataclass
from textwrap import wrap

import numpy as np

from skboost.linear_model._groups import levels_of
from skboost.linear_model._ratios import prior_in_words
from skboost.posterior import plain_table, summary_table


@dataclass(frozen=True, eq=False)
class GroupSummary:
    """What ``summary()`` of a hierarchical regression returns; it prints as a text.

    Attributes
    ----------
    model : str
        Kind of regression.
    n_rows : float
        Sum of the weights of the rows.
    n_groups : dict
        From factors to numbers of groups.
    coefficients : DataFrame, or structured array without pandas
        Coefficients and intercept, or thresholds between classes, of the population:
        ``mean``, ``std``, and ``lower`` and ``upper`` end of their central intervals.
    variance_components : of the same kind
        Standard deviations of effects and noise, and correlations.
    level : float
        Posterior probability of the intervals.
    prior : str
        That of the coefficients, and what would shrink them less.
    elbo, remaining_kl : float
        Lower bound of the log evidence, and what it lacks by estimate, nats.
    """

    model: str
    n_rows: float
    n_groups: dict
    coefficients: object
    variance_components: object
    level: float
    prior: str
    elbo: float
    remaining_kl: float

    def __str__(self):
        groups = ", ".join(f"{name} {n}" for name, n in self.n_groups.items())
        mass = f"{100 * self.level:g} %"
        return "\n".join(
            [
                f"{self.model}. Rows: {self.n_rows:g}; groups: {groups or 'none'}",
                "",
                f"Standard deviations and correlations (mean, std, {mass} interval):",
                *_lines(self.variance_components),
                "",
                f"Coefficients of the population (mean, std, {mass} interval):",
                *_lines(self.coefficients),
                *wrap(f"Shrunk towards 0 by a {self.prior}."),
                "",
                f"ELBO {self.elbo:.2f} nats; of KL about "
                f"{max(self.remaining_kl, 0.0):.2g} nats remain.",
            ]
        )

    __repr__ = __str__


def _lines(table):
    """Rows of a table as aligned text."""
    names = table.index if hasattr(table, "index") else table["name"]
    width = max(map(len, names), default=0)
    columns = [np.asarray(table[key]) for key in _NUMBERS]
    return [
        f"  {name:<{width}}" + "".join(f"{value:>11.4g}" for value in row)
        for name, *row in zip(names, *columns, strict=True)
    ]


def summary_of_groups(estimator, level):
    """`GroupSummary` of a fitted estimator."""
    posterior, model = estimator.posterior_, estimator._model_
    low, high = posterior.interval(level).T
    every = np.array([posterior.mean(), posterior.std(), low, high])
    n = posterior.dim - len(model.layout.further)
    # In place of the intercept and of gaps, where there are some.
    thresholds = model.response.thresholds(estimator._draws.model)
    n_coef = n - bool(thresholds and model.layout.intercept)
    added = [_described(draws, level) for draws in thresholds.values()]

    def table(values, names):
        keys = "mean", "std", "lower", "upper"
        return summary_table(dict(zip(keys, values, strict=True)), names)

    return GroupSummary(
        model=type(estimator).__name__,
        n_rows=model.n_rows,
        n_groups={factor.name: len(factor.present) for factor in model.factors},
        coefficients=table(
            np.column_stack([every[:, :n_coef], *added]),
            [*posterior.names[:n_coef], *thresholds],
        ),
        variance_components=table(
            every[:, n : n + len(model.components)], model.components
        ),
        level=level,
        prior=prior_in_words(estimator)[1],
        elbo=estimator.elbo_,
        remaining_kl=estimator.remaining_kl_,
    )


def _described(draws, level):
    """Mean, standard deviation and ends of the central interval of draws."""
    tails = 0.5 - 0.5 * level, 0.5 + 0.5 * level
    return draws.mean(), draws.std(), *np.quantile(draws, tails)


def names_of(factor):
    """Names of the groups of a factor; parts of nested ones have a colon between."""
    return [":".join(map(str, np.atleast_1d(label))) for label in levels_of(factor)]


def table_of_effects(estimator, level):
    """A row for each effect of each group: its mean, deviation and interval."""
    intervals, model = estimator.group_effects_interval(level), estimator._model_
    table = {name: [] for name in ("factor", "level", "effect", *_NUMBERS)}
    for factor in estimator._predictive().model.factors:
        effects, labels = model.columns.effects_of(factor.name), levels_of(factor)
        # Labels as rows have them, so that some can be looked for.
        groups = labels.tolist() if labels.ndim == 1 else names_of(factor)
        table["factor"] += [factor.name] * (len(groups) * len(effects))
        table["level"] += [name for name in groups for _ in effects]
        table["effect"] += effects * len(groups)
        draws, ends = factor.fitted_effects, intervals[factor.name]
        parts = draws.mean(axis=2), draws.std(axis=2), ends[..., 0], ends[..., 1]
        for name, part in zip(_NUMBERS, parts, strict=True):
            table[name] += part.ravel().tolist()
    return plain_table(table)


_NUMBERS = "mean", "std", "lower", "upper"


def drawn_by_name(estimator, picked):
    """Coefficients, scales and effects, and what ArviZ calls their ``dims`` and
    ``coords``.
    """
    model = estimator._model_
    columns, draws = model.columns, estimator._predictive()
    drawn = draws.taken(picked, model.layout, columns.fixed)
    coef, intercept, scales, effects = drawn
    draws = {"coef": coef, "intercept": intercept} | scales
    dims, coords = {"coef": ["feature"]}, {"feature": list(columns.features)}
    for factor in model.factors:
        name, own = factor.name, [factor.name, f"{factor.name}: effect"]
        draws[f"effects({name})"], dims[f"effects({name})"] = effects[name], own
        values = names_of(factor), columns.effects_of(name)
        coords |= dict(zip(own, values, strict=True))
    return draws, {"dims": dims, "coords": coords}
