"""What a hierarchical regression has found, as tables and as a text."""

from dataclasses import dataclass

import numpy as np

from skboost.linear_model._groups import levels_of
from skboost.posterior import summary_table


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
    elbo, remaining_kl : float
        Lower bound of the log evidence, and what it lacks by estimate, nats.
    """

    model: str
    n_rows: float
    n_groups: dict
    coefficients: object
    variance_components: object
    level: float
    elbo: float
    remaining_kl: float

    def __str__(self):
        groups = ", ".join(f"{name} {n}" for name, n in self.n_groups.items())
        mass = f"{100 * self.level:g} %"
        return "\n".join(
            [
                f"{self.model}: {self.n_rows:g} rows; groups: {groups or 'none'}",
                "",
                f"Standard deviations and correlations (mean, std, {mass} interval):",
                *_lines(self.variance_components),
                "",
                f"Coefficients of the population (mean, std, {mass} interval):",
                *_lines(self.coefficients),
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
    columns = [np.asarray(table[key]) for key in ("mean", "std", "lower", "upper")]
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
        elbo=estimator.elbo_,
        remaining_kl=estimator.remaining_kl_,
    )


def _described(draws, level):
    """Mean, standard deviation and ends of the central interval of draws."""
    tails = 0.5 - 0.5 * level, 0.5 + 0.5 * level
    return draws.mean(), draws.std(), *np.quantile(draws, tails)


def table_of_effects(estimator, level):
    """A row for each effect of each group: its mean and interval."""
    intervals = estimator.group_effects_interval(level)
    names, means, ends = [], [], []
    for factor in estimator._model_.factors:
        effects = estimator._model_.columns.effects_of(factor.name)
        for label in levels_of(factor):
            label = ":".join(map(str, np.atleast_1d(label)))
            names += [f"{factor.name}[{label}]: {effect}" for effect in effects]
        means.append(estimator.group_effects_[factor.name].ravel())
        ends.append(intervals[factor.name].reshape(-1, 2))
    lower, upper = np.concatenate(ends).T if ends else np.empty((2, 0))
    mean = np.concatenate(means) if means else np.empty(0)
    return summary_table({"mean": mean, "lower": lower, "upper": upper}, names)
