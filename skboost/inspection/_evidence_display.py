"""How the evidence of models depends on a parameter, as a figure."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.inspection._axes import bars, color, finish, look, panels, tidy


class EvidenceDisplay:
    """ELBO of the candidates of an evidence search against a parameter.

    Make one with `from_estimator`. Bars are two standard errors, the star is the chosen
    candidate.

    Parameters
    ----------
    results : dict
        The table of an `EvidenceSearch`, its ``cv_results_``.
    param : str, default=None
        Parameter on the horizontal axis, such as ``"n_components"``; may be left out
        where only one has several values. The others make one line for each
        combination.
    best_index : int, default=None
        Row of the chosen candidate; None is the one that ranks first.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, matplotlib Axes


    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from skboost import BoostedBayesianLogisticRegression, EvidenceSearch
    >>> from skboost.inspection import EvidenceDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = EvidenceSearch(
    ...     BoostedBayesianLogisticRegression(max_iter=1, random_state=0),
    ...     {"prior_scale": [0.1, 1.0, 10.0]},
    ... )
    >>> display = EvidenceDisplay.from_estimator(search.fit(scale(X[:, :4]), y))
    """

    def __init__(self, results, *, param=None, best_index=None):
        self.results = results
        self.param = param
        self.best_index = best_index

    @classmethod
    def from_estimator(cls, estimator, *, param=None, ax=None):
        """Display of a fitted `EvidenceSearch`.

        Parameters
        ----------
        estimator : EvidenceSearch
        param : str, default=None
            As for the class.
        ax : matplotlib Axes, default=None
            None makes a figure.
        """
        check_is_fitted(estimator, "cv_results_")
        best = estimator.best_index_
        return cls(estimator.cv_results_, param=param, best_index=best).plot(ax=ax)

    def plot(self, ax=None):
        """Draw ELBO against the parameter on `ax` (matplotlib Axes; None makes a
        figure); returns the display."""
        param, params = self._chosen_param(), self.results["params"]
        given = [own[param] for own in params if param in own]
        places, ticks = _places(given)
        with look():
            self.figure_, axes = panels(ax, 1, 1, (5.6, 3.8))
            self.ax_ = axes[0]
            for number, (label, rows) in enumerate(self._lines(param).items()):
                x = [places(params[row][param]) for row in rows]
                self._plot_line(np.array(x), np.array(rows), color(number), label)
            best = self.best_index
            best = np.argmin(self.results["rank_elbo"]) if best is None else best
            if param in params[best]:
                value, elbo = params[best][param], self._finite("elbo")[best]
                style = {"color": "0.15", "markersize": 11, "zorder": 5}
                label = f"chosen: {_text(value)}"
                self.ax_.plot(places(value), elbo, "*", label=label, **style)
            if ticks is not None:
                self.ax_.set_xticks(range(len(ticks)), ticks)
            elif all(float(value).is_integer() for value in given):
                self.ax_.xaxis.get_major_locator().set_params(integer=True)
            self.ax_.set(xlabel=param, ylabel="ELBO ± 2 se (nats)")
            tidy(self.ax_)
            finish(axes, ax)
        return self

    def _chosen_param(self):
        names = dict.fromkeys(name for own in self.results["params"] for name in own)
        varying = [name for name in names if len(self._values(name)) > 1]
        param = self.param or (varying[0] if len(varying) == 1 else None)
        if param not in names:
            raise ValueError(
                "param must name the parameter on the horizontal axis, one of "
                f"{varying or list(names)}; got {self.param!r}."
            )
        return param

    def _values(self, name):
        """Distinct values as text: anything can be a parameter."""
        return {_text(params.get(name)) for params in self.results["params"]}

    def _lines(self, param):
        """Rows that share all other parameters, by what they are called."""
        lines = {}
        for row, params in enumerate(self.results["params"]):
            if param in params:
                lines.setdefault(self._label(params, param), []).append(row)
        return lines

    def _label(self, params, param):
        others = [
            f"{name}={_text(value)}"
            for name, value in params.items()
            if name != param and len(self._values(name)) > 1
        ]
        return ", ".join(others) or "ELBO"

    def _plot_line(self, x, rows, hue, label):
        order = np.argsort(x, kind="stable")
        x, rows = x[order], rows[order]
        error = 2.0 * np.nan_to_num(self.results["elbo_se"])[rows]
        bars(self.ax_, x, self._finite("elbo")[rows], error, hue, label)

    def _finite(self, name):
        """A column with gaps where there is nothing to draw."""
        values = np.asarray(self.results[name], dtype=float)
        return np.where(np.isfinite(values), values, np.nan)


def _places(values):
    """Where values go on the axis, and texts of ticks where they are no numbers."""
    kinds = {type(value) for value in values}
    if bool not in kinds and all(issubclass(k, int | float | np.number) for k in kinds):
        return float, None
    ticks = list(dict.fromkeys(map(_text, values)))
    return lambda value: ticks.index(_text(value)), ticks


def _text(value):
    return f"{value:g}" if isinstance(value, float) else str(value)
