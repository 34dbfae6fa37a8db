"""Predictions and comparisons of predictions as figures, with intervals."""

import numpy as np

from skboost._parameters import keeps_parameters
from skboost._sklearn import num_samples, rows_of
from skboost.inspection._asked import Asked, levels_of, values_of, with_values
from skboost.inspection._axes import color, finish, intervals, look, panels
from skboost.inspection._comparisons import check_levels, checked_mapping, compare
from skboost.posterior import check_level

# Rows over which predictions at a value of a column are averaged, and such values.
_MOST_ROWS, _N_VALUES = 100, 41


class PredictionDisplay:
    """Expected responses with intervals, against one column or by rows in order.

    Make one with `from_estimator`.

    Parameters
    ----------
    values : ndarray of shape (n_points,)
        Numbers or labels of the horizontal axis.
    mean, ends : ndarray of shape (n_points, n_lines) and (n_points, n_lines, 2)
        Expected responses, a line for each class of several, and central intervals.
    lines, name : list of str, str
        What each line is, and what is on the horizontal axis.
    new : ndarray of shape (n_points, 2), default=None
        Ends of central intervals of new responses.
    data : tuple of ndarray, default=None
        Places and responses of rows that are drawn as points.
    wrong : ndarray of bool of shape (n_points,), default=None
        Rows whose most probable class is not their own.
    level : float, default=0.9
        Probability of the intervals.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.inspection import PredictionDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> display = PredictionDisplay.from_estimator(model, X, "bmi", y=y)
    """

    @keeps_parameters
    def __init__(
        self, values, mean, ends, lines, name, *, new=None, data=None, wrong=None,
        level=0.9,
    ):  # fmt: skip
        pass

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        column=None,
        *,
        y=None,
        at=None,
        level=0.9,
        n=1000,
        random_state=0,
        ax=None,
        **keywords,
    ):
        """Display of predictions for rows.

        Parameters
        ----------
        estimator : estimator
            A fitted regression or classifier, or a pipeline that ends with one.
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            Rows as `predict` takes them.
        column : str or int, default=None
            The column on the horizontal axis: predictions at its values are averages
            over rows (a hundred, evenly spaced, of many) whose other columns stay as
            they are. None has a place for every row, in the order of the predictions.
        y : array-like of shape (n_samples,), default=None
            Responses, drawn as points. Where rows are in order, those of classes mark
            rows whose most probable class is another one.
        at : dict, default=None
            Values of other columns, set in all rows.
        level : float, default=0.9
            Probability of the intervals: of expected responses, and of new responses
            where these are numbers or counts.
        n : int, default=1000
            Draws of the posterior.
        random_state : int, RandomState instance or None, default=0
        ax : Axes, default=None
            None makes a figure.
        **keywords
            As in `sample_predictive`.
        """
        tail = 0.5 * (1.0 - check_level(level))
        at = checked_mapping("at", at or {})
        for name, value in at.items():
            check_levels(X, name, [value], "at")
        levels = None if column is None else levels_of(X, column, "column")
        asked = Asked(estimator, n, random_state, keywords)
        codes = None if y is None else asked.coded(X, y)
        for name, value in at.items():
            X = with_values(X, name, value)
        if column is None:
            found = _by_rows(asked, X, tail, codes)
        else:
            found = _by_values(asked, X, column, levels, tail)
            place = np.asarray(values_of(X, column, "column"))
            found["data"] = None if y is None else (place, codes)
        found["lines"] = _lines(asked, found["mean"].shape[1], asked.kind(X))
        return cls(**found, level=level).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on `ax` (Axes; None makes a figure); returns the display."""
        labelled = self.values.dtype.kind in "OUS"
        x = np.arange(len(self.values)) if labelled else self.values
        with look():
            self.figure_, (self.ax_,) = panels(ax, 1, 1, (5.2, 3.6))
            self._points(labelled)
            mass = f"{100 * self.level:g} %"
            if self.new is not None:
                self._band(x, self.new, 0, 0.15, f"{mass} of new responses", labelled)
            several = len(self.lines) > 1
            for k, line in enumerate(self.lines):
                named = line if several else "mean"
                style = "o" if labelled else "-"
                self.ax_.plot(x, self.mean[:, k], style, color=color(k), label=named)
                named = None if several else f"{mass} interval of the mean"
                self._band(x, self.ends[:, k], k, 0.35, named, labelled)
            if self.wrong is not None and self.wrong.any():
                style = {"color": color(1), "zorder": 3, "label": "another class"}
                self.ax_.plot(x[self.wrong], self.mean[self.wrong, 0], "o", **style)
            if labelled:
                self.ax_.set_xticks(x, self.values)
                self.ax_.margins(x=0.5 / len(x))
            side = f"probability, {mass} interval" if several else self.lines[0]
            self.ax_.set(xlabel=self.name, ylabel=side)
            finish([self.ax_], ax, 2 if self.new is not None else 3)
        return self

    def _band(self, x, ends, k, alpha, label, labelled):
        style = {"color": color(k), "alpha": alpha, "label": label}
        if labelled:
            width = 6.0 if alpha < 0.3 else 2.5
            style["alpha"] = min(1.0, 2 * alpha)
            self.ax_.vlines(x, *ends.T, linewidth=width, zorder=1, **style)
        else:
            self.ax_.fill_between(x, *ends.T, linewidth=0, **style)

    def _points(self, labelled):
        if self.data is None:
            return
        x, y = self.data
        if labelled:
            places = {value: k for k, value in enumerate(self.values)}
            jitter = np.random.default_rng(0).uniform(-0.25, 0.25, len(x))
            x = np.array([places[value] for value in x]) + jitter
        style = {"s": 7, "color": "0.45", "alpha": 0.5, "linewidth": 0}
        self.ax_.scatter(x, y, label="data", zorder=1, **style)


def _lines(asked, n, kind):
    """What each of n lines is."""
    if asked.classes is None:
        return [f"expected {kind}"]
    classes = asked.classes if n > 1 else asked.classes[-1:]
    return [f"probability of {one}" for one in classes]


def _moments(draws, tail):
    """Means and ends of draws (n_points, n_draws[, n_classes]), by line."""
    draws = draws if draws.ndim == 3 else draws[..., None]
    ends = np.quantile(draws, [tail, 1.0 - tail], axis=1)
    return {"mean": draws.mean(axis=1), "ends": np.moveaxis(ends, 0, -1)}


def _by_rows(asked, X, tail, codes):
    """Predictions of rows in their order: by the last class, where there are some."""
    means, new = [], []
    for _, responses in asked.responses(X):
        means.append(_moments(responses.mean(), tail))
        if asked.classes is None:
            drawn = responses.sample(asked.rng)
            new.append(np.quantile(drawn, [tail, 1.0 - tail], axis=1).T)
    found = {k: np.concatenate([one[k] for one in means]) for k in ("mean", "ends")}
    wrong = None
    if codes is not None and asked.classes is not None:
        rows, keywords = asked.rows(X)
        wrong = asked.last._coded(rows, asked.last.predict(rows, **keywords)) != codes
    order = np.argsort(found["mean"][:, -1], kind="stable")
    found = {name: values[order] for name, values in found.items()}
    place = np.arange(1, len(order) + 1)
    data = None
    if codes is not None and asked.classes is None:
        data = place, codes[order]
    return found | {
        "values": place,
        "name": f"{len(order)} rows, in order",
        "new": np.concatenate(new)[order] if new else None,
        "wrong": None if wrong is None else wrong[order],
        "data": data,
    }


def _by_values(asked, X, column, levels, tail):
    """Averages over some rows at every value of a column."""
    n = num_samples(X)
    some = np.unique(np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(int))
    column_values = np.asarray(values_of(X, column, "column"))
    X, asked = rows_of(X, some), asked.of_rows(some)
    values = np.array(levels) if levels else np.unique(column_values.astype(float))
    if levels is None and len(values) > _N_VALUES:
        values = np.linspace(values[0], values[-1], _N_VALUES)
    shares, means, new = np.full((1, len(some)), 1.0 / len(some)), [], []
    for value in values:
        rows = with_values(X, column, value)
        means.append(asked.averages(rows, shares)[0])
        if asked.classes is None:
            drawn = [one.sample(asked.rng).ravel() for _, one in asked.responses(rows)]
            drawn = np.concatenate(drawn)
            new.append(np.quantile(drawn, [tail, 1.0 - tail]))
    return _moments(np.stack(means), tail) | {
        "values": values,
        "name": str(column) if isinstance(column, str) else f"column {column}",
        "new": np.stack(new) if new else None,
    }


class ComparisonDisplay:
    """Differences or ratios of average predictions, with intervals.

    Make one with `from_estimator`.

    Parameters
    ----------
    table : table
        What `compare` returned.
    ratio : bool, default=False
        Whether ratios are drawn.
    level : float, default=0.9
        Probability of the intervals.
    kind : str, default="response"
        What is compared.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.inspection import ComparisonDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> wanted = {"bmi": 0.05, "bp": 0.05}
    >>> display = ComparisonDisplay.from_estimator(model, X, wanted)
    """

    @keeps_parameters
    def __init__(self, table, *, ratio=False, level=0.9, kind="response"):
        pass

    @classmethod
    def from_estimator(
        cls, estimator, X, variables, *, ratio=False, level=0.9, ax=None, **keywords
    ):
        """Display of comparisons.

        Parameters
        ----------
        estimator, X, variables
            As in `compare`, the first its `model`.
        ratio : bool, default=False
            Draw ratios of averages in place of differences.
        level : float, default=0.9
        ax : Axes, default=None
            None makes a figure.
        **keywords
            Further arguments of `compare`.
        """
        table = compare(estimator, X, variables, level=level, **keywords)
        if ratio and not np.isfinite(np.asarray(table["ratio"], dtype=float)).all():
            raise ValueError(
                "ratio must be False where averages are not all positive, and for "
                "slopes; got ratio=True."
            )
        asked = Asked(estimator, 1, 0, {})
        kind = "response"
        if asked.classes is not None:
            two = len(asked.classes) == 2
            kind = f"probability of {asked.classes[1]}" if two else "probability"
        return cls(table, ratio=ratio, level=level, kind=kind).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on `ax` (Axes; None makes a figure); returns the display."""
        names = getattr(self.table, "columns", None)
        names = list(self.table.dtype.names if names is None else names)
        told = names[2 : names.index("difference")]
        columns = [[str(one) for one in self.table[name]] for name in names[:2] + told]
        labels = [
            f"{column}: {contrast}" + "".join(f", {one}" for one in more)
            for column, contrast, *more in zip(*columns, strict=True)
        ]
        middle = ("ratio", "ratio_lower", "ratio_upper")
        middle = middle if self.ratio else ("difference", "lower", "upper")
        centre, low, high = (np.asarray(self.table[name], float) for name in middle)
        with look():
            size = (5.2, 1.2 + 0.28 * len(labels))
            self.figure_, (self.ax_,) = panels(ax, 1, 1, size)
            ends = np.column_stack([low, high])
            intervals(self.ax_, centre, ends, None, labels, float(self.ratio))
            what = "ratio" if self.ratio else "difference"
            mass = f"{100 * self.level:g} %"
            self.ax_.set_xlabel(f"{what} of the average {self.kind},\n{mass} interval")
            finish([self.ax_], ax)
        return self
