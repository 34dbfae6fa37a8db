"""Whether responses look like draws of a model: checks and residuals as figures."""

import numpy as np
from scipy.special import betaincinv, ndtri

from skboost._parameters import keeps_parameters
from skboost.inspection._answers import drawn_responses, quantile_residuals
from skboost.inspection._asked import Asked, values_of
from skboost.inspection._axes import color, finish, look, one_or_all, panels, pyplot
from skboost.posterior import check_level

# Levels of the quantiles of numbers, and bars of counts at most.
_N_QUANTILES, _MOST_BARS = 41, 40


class PredictiveCheckDisplay:
    """Responses beside draws of responses of the same rows.

    Of numbers their quantiles, of counts and classes square roots of how often they
    come (a rootogram). Where the model holds, what is drawn of the data lies within the
    intervals of the draws. Make one with `from_estimator`.

    Parameters
    ----------
    observed, middle, ends : ndarray of shape (n_points,), (n_points,), (n_points, 2)
        Quantiles of the data, or numbers of rows; their medians and ends of central
        intervals over draws.
    labels, kind : list of str, default=None, and str, default="response"
        What is counted (None of quantiles), and what the responses are.
    level : float, default=0.9
        Probability of the intervals.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, matplotlib Axes

    References
    ----------
    Kleiber and Zeileis, The American Statistician 70, 2016 (rootograms).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.inspection import PredictiveCheckDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> display = PredictiveCheckDisplay.from_estimator(model, X, y)
    """

    @keeps_parameters
    def __init__(
        self, observed, middle, ends, labels=None, *, kind="response", level=0.9
    ):
        pass

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, level=0.9, n=400, random_state=0, ax=None, **keywords
    ):
        """Display of rows and their responses.

        Parameters
        ----------
        estimator : estimator
            A fitted regression or classifier, or a pipeline that ends with one.
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        level : float, default=0.9
            Probability of the intervals, in (0, 1).
        n : int, default=400
            Draws.
        random_state : int, RandomState instance or None, default=0
        ax : Axes, default=None
            None makes a figure.
        **keywords
            As in `sample_predictive`.
        """
        tail = 0.5 * (1.0 - check_level(level))
        asked = Asked(estimator, n, random_state, keywords, reported=False)
        y, kind, classes = asked.coded(X, y), asked.kind(X), asked.classes
        drawn = drawn_responses(asked, X, n)
        if classes is not None:
            # Ordered classes stand along their scale.
            scale = getattr(asked.last, "categories_", classes)
            ranks = np.argsort(scale)
            y, drawn = ranks[y], ranks[np.searchsorted(classes, drawn)]
            labels, kind = [str(one) for one in scale], "class"
            counted = np.arange(len(classes) + 1) - 0.5
        elif kind == "response":
            p = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
            observed, draws = np.quantile(y, p), np.quantile(drawn, p, axis=1).T
            labels = None
        else:
            kind = "count" if kind == "count" else "number of successes"
            counted, labels = _bars(max(y.max(), np.quantile(drawn, 0.999)))
        if labels is not None:
            observed = np.histogram(y, counted)[0]
            draws = np.stack([np.histogram(one, counted)[0] for one in drawn])
        low, middle, high = np.quantile(draws, [tail, 0.5, 1.0 - tail], axis=0)
        ends = np.column_stack([low, high])
        return cls(observed, middle, ends, labels, kind=kind, level=level).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on `ax` (Axes; None makes a figure); returns the display."""
        mass = f"{100 * self.level:g} % of draws"
        with look():
            self.figure_, (self.ax_,) = panels(ax, 1, 1, (5.2, 3.6))
            if self.labels is None:
                band = {"color": color(0), "alpha": 0.3, "linewidth": 0, "label": mass}
                self.ax_.fill_between(self.middle, *self.ends.T, **band)
                self.ax_.plot(self.middle, self.middle, color=color(0), label="median")
                style = {"s": 12, "color": color(1), "zorder": 3, "label": "data"}
                self.ax_.scatter(self.middle, self.observed, **style)
                self.ax_.set_xlabel(f"quantiles of the {self.kind}, median of draws")
                self.ax_.set_ylabel(f"quantiles of the {self.kind}")
            else:
                self._rootogram(mass)
            finish([self.ax_], ax)
        return self

    def _rootogram(self, mass):
        x = np.arange(len(self.labels))
        bars = {"color": "0.8", "width": 0.8, "label": "data"}
        self.ax_.bar(x, np.sqrt(self.observed), **bars)
        style = {"color": color(0), "label": mass}
        self.ax_.vlines(x, *np.sqrt(self.ends.T), linewidth=2.0, **style)
        style = {"color": color(0), "markersize": 4, "label": "median"}
        self.ax_.plot(x, np.sqrt(self.middle), "o", **style)
        step = -(-len(x) // 12)
        self.ax_.set_xticks(x[::step], self.labels[::step])
        self.ax_.set_xlabel(self.kind)
        # Ticks say numbers of rows, at the places of their roots.
        most = max(self.observed.max(), self.ends.max())
        ticks = pyplot().MaxNLocator(5, integer=True).tick_values(0, most)
        ticks = ticks[ticks <= most]
        self.ax_.set_yticks(np.sqrt(ticks), [f"{tick:g}" for tick in ticks])
        self.ax_.set_ylabel("rows (square root)")


def _bars(most):
    """Edges and labels of bars for counts up to some number; zero has its own."""
    width = max(1, int(np.ceil(most / (_MOST_BARS - 1.0))))
    starts = np.append(0, np.arange(1, most + 1.0, width)).astype(int)
    ends = starts[1:] - 1
    labels = [
        f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts[:-1], ends, strict=True)
    ]
    # The last bar holds all that is above, such as far draws.
    return np.append(starts - 0.5, np.inf), [*labels, f"{starts[-1]}+"]


class ResidualDisplay:
    """Randomised quantile residuals, which are standard normal where the model holds.

    Beside the expected response or a column, and as quantiles. Make one with
    `from_estimator`.

    Parameters
    ----------
    residuals, against : ndarray of shape (n_samples,)
        Standard deviations, and what is on the horizontal axis of the first panel.
    name : str
        What that is called.
    level : float, default=0.9
        Probability of the interval of each quantile.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, ndarray of matplotlib Axes of shape (2,)


    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.inspection import ResidualDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> display = ResidualDisplay.from_estimator(model, X, y)
    """

    @keeps_parameters
    def __init__(self, residuals, against, name, *, level=0.9):
        pass

    @classmethod
    def from_estimator(
        cls, estimator, X, y, column=None, *, level=0.9, n=1000, random_state=0,
        ax=None, **keywords,
    ):  # fmt: skip
        """Display of the residuals of rows.

        Parameters
        ----------
        estimator : estimator
            A fitted regression or classifier, or a pipeline that ends with one.
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        column : str or int, default=None
            A column of X for the horizontal axis; None is the expected response, of
            classes the probability of the last.
        level : float, default=0.9
            Probability of the interval of each quantile, in (0, 1).
        n : int, default=1000
            Draws of the posterior.
        random_state : int, RandomState instance or None, default=0
        ax : array of two Axes, default=None
            None makes a figure.
        **keywords
            As in `sample_predictive`.
        """
        check_level(level)
        asked = Asked(estimator, n, random_state, keywords)
        if column is not None:
            against, name = np.asarray(values_of(X, column, "column")), str(column)
        else:
            means = [one.mean().mean(axis=1) for _, one in asked.responses(X)]
            against = np.concatenate(means)
            against = against[:, -1] if against.ndim > 1 else against
            kind, classes = asked.kind(X), asked.classes
            name = f"expected {kind}" if classes is None else f"{kind} of {classes[-1]}"
        settings = {"n": n, "random_state": random_state}
        residuals = quantile_residuals(estimator, X, y, **settings, **keywords)
        return cls(residuals, against, name, level=level).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on `ax` (array of two Axes; None makes a figure); returns the
        display."""
        n = len(self.residuals)
        rank = np.arange(1, n + 1)
        tails = 0.5 * (1.0 - self.level), 0.5 * (1.0 + self.level)
        low, high = (ndtri(betaincinv(rank, n - rank + 1, p)) for p in tails)
        expected = ndtri((rank - 0.375) / (n + 0.25))
        style = {"s": 8, "color": color(0), "alpha": 0.6, "linewidth": 0}
        with look():
            self.figure_, axes = panels(ax, 2, 2, (3.0, 2.9))
            left, right = axes
            left.scatter(self.against, self.residuals, **style)
            for place in (-2.0, 0.0, 2.0):
                line = {"color": "0.3", "linewidth": 0.9, "zorder": 0}
                left.axhline(place, linestyle="--" if place else "-", **line)
            left.set(xlabel=self.name, ylabel="quantile residual (sd)")
            right.fill_between(expected, low, high, color="0.85", linewidth=0)
            right.plot(expected, expected, color="0.3", linewidth=0.9)
            right.scatter(expected, np.sort(self.residuals), **style)
            mass = f"{100 * self.level:g} %"
            right.set(xlabel=f"normal quantile, {mass} in grey", ylabel="residual (sd)")
            finish(axes, ax)
            self.ax_ = one_or_all(axes)
        return self
