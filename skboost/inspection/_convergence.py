"""Evidence bounds as figures: how a fit rose to its own, and those of a search."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._parameters import keeps_parameters
from skboost.boosting import TOL
from skboost.fitting import with_search
from skboost.inspection._asked import last_step
from skboost.inspection._axes import (
    bars,
    color,
    finish,
    look,
    one_or_all,
    panels,
    shown,
)


def _column(history, key):
    """Values of all iterations; NaN where there is none that an axis could show."""
    values = [entry.get(key) for entry in history]
    column = np.array([np.nan if v is None else v for v in values], dtype=float)
    return np.where(np.isfinite(column), column, np.nan)


def _judgements(source, history, suffix=""):
    """What was judged of a fit of one iteration, as (label, low, middle, high)."""
    if len(history) > 1 or getattr(source, f"remaining_kl{suffix}", None) is None:
        return []
    first = history[0]
    names = "remaining_kl", "remaining_kl_se", "remaining_kl_interval"
    value, se, ends = (getattr(source, name + suffix, None) for name in names)
    rows = []
    before = first.get("remaining_kl"), first.get("remaining_kl_se")
    if None not in before and before[0] != value:
        rows.append(("before corrections,\nby fresh draws", *_around(*before)))
    rows.append(("of the posterior,\nby fresh draws", *_around(value, se or 0.0)))
    if ends is not None:
        rows.append(("of the posterior,\nby short chains", ends[0], np.nan, ends[1]))
    return [row for row in rows if np.isfinite([row[1], row[3]]).all()]


def _around(value, se):
    """Ends of two standard errors, not below zero, and the value between them."""
    return max(value - 2.0 * se, min(value, 0.0)), value, value + 2.0 * se


class ConvergenceDisplay:
    """ELBO, gain and remaining KL of every boosting iteration, or of every epoch.

    A fit that needed one iteration has one panel in their place: how much KL was judged
    to remain, and how that is known.

    Make one with `from_estimator`, `from_result` or `from_history`. All values except
    the gain under ``objective="hellinger"`` are in nats. Bars are two standard errors
    of fresh draws, where there are any. What was not recorded has no panel.

    Parameters
    ----------
    history : list of dict
        One entry per iteration, with any of the keys iteration, elbo, elbo_se,
        gain, gain_se, gap, gap_se, remaining_kl, remaining_kl_se.
    tol : float or "auto", default=None
        Tolerance of the stopping rule.
    stopping : {"gain", "gap"}, default="gain"
        Which of the two the tolerance is compared with.
    judged : list of tuple, default=()
        What is shown of a single iteration: label, lower end, estimate and upper end of
        the remaining KL. `from_estimator` and `from_result` find it. Without it, and
        where `plot` is given several axes, there is a point in each panel.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, matplotlib Axes or ndarray of Axes


    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.inspection import ConvergenceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BoostedBayesianLogisticRegression(max_iter=2).fit(X[50:], y[50:])
    >>> display = ConvergenceDisplay.from_estimator(model)
    """

    def __init__(self, history, *, tol=None, stopping="gain", judged=()):
        if not history:
            raise ValueError(
                "history must hold at least one iteration; got none. Fit with "
                "max_iter >= 1."
            )
        if stopping not in ("gain", "gap"):
            raise ValueError(f"stopping must be 'gain' or 'gap'; got {stopping!r}.")
        self.history = history
        self.tol = TOL if tol == "auto" else tol
        self.stopping = stopping
        self.judged = judged

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Display of a fitted estimator with ``history_``, or of a pipeline or a search
        that ends with one; parameters as in `plot`."""
        instead = "Use from_result for a BoostingResult."
        estimator, _ = last_step(estimator)
        history = shown(estimator, "history_", instead)
        # Not every estimator has both.
        params = with_search(vars(estimator))
        given = {name: params[name] for name in ("tol", "stopping") if name in params}
        judged = _judgements(estimator, history, "_")
        return cls(history, **given, judged=judged).plot(ax=ax)

    @classmethod
    def from_result(cls, result, *, tol=None, stopping="gain", ax=None):
        """Display of what `boost_posterior` returned.

        Parameters
        ----------
        result : BoostingResult
        tol : float or "auto", default=None
            Tolerance of the run, in nats; a result does not record it. None draws no
            line.
        stopping, ax
            As in the class, and in `plot`.
        """
        instead = "Use from_estimator for a fitted estimator."
        history = shown(result, "history", instead, "from_result")
        judged = _judgements(result, history)
        return cls(history, tol=tol, stopping=stopping, judged=judged).plot(ax=ax)

    @classmethod
    def from_history(cls, history, *, tol=None, stopping="gain", ax=None):
        """Display of a list of iterations, such as ``history_``; else `from_result`."""
        return cls(history, tol=tol, stopping=stopping).plot(ax=ax)

    def plot(self, ax=None):
        """Draw the panels.

        Parameters
        ----------
        ax : Axes or array-like of Axes, default=None
            One for each of ELBO, gain (or gap) and remaining KL that was recorded.
            None makes a figure; a single Axes gets the ELBO only, or what was judged of
            a single iteration.
        """
        if len(self.history) == 1 and self.judged and (ax is None or np.size(ax) == 1):
            return self._plot_alone(ax)
        draw = [self._plot_elbo]
        # Passes over data are of some steps each.
        epochs = "n_steps" in self.history[0]
        if self._recorded(self.stopping):
            draw.append(self._plot_criterion)
        if self._recorded("remaining_kl"):
            draw.append(self._plot_remaining)
        if ax is not None and np.size(ax) == 1:
            draw = draw[:1]
        with look():
            self.figure_, axes = panels(ax, len(draw), 3, (3.1, 3.1))
            for panel, axis in zip(draw, axes, strict=True):
                panel(axis)
                axis.set_xlabel("epoch" if epochs else "boosting iteration")
                axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
                axis.set_xlim(self._iteration[0] - 0.4, self._iteration[-1] + 0.4)
            finish(axes, ax)
            self.ax_ = one_or_all(axes)
        return self

    def _plot_alone(self, ax):
        """One panel with the remaining KL of one iteration, as it was judged."""
        labels, low, middle, high = zip(*self.judged, strict=True)
        rows = np.arange(len(labels))
        with look():
            self.figure_, axes = panels(ax, 1, 1, (5.4, 0.9 + 0.6 * len(labels)))
            axis = self.ax_ = axes[0]
            axis.hlines(rows, low, high, color=color(2), linewidth=3.2)
            axis.plot(middle, rows, "o", color=color(2))
            axis.set_yticks(rows, labels)
            axis.set_ylim(len(rows) - 0.5, -0.5)
            axis.set_xlim(left=min(0.0, *low))
            axis.set_xlabel("remaining KL after one iteration (nats)")
            finish(axes, ax)
        return self

    @property
    def _iteration(self):
        numbers = _column(self.history, "iteration")
        return np.where(np.isnan(numbers), np.arange(numbers.size), numbers)

    def _recorded(self, key):
        values = [entry.get(key) for entry in self.history]
        return any(value is not None and not np.isnan(value) for value in values)

    def _plot_elbo(self, ax):
        elbo, se = _column(self.history, "elbo"), _column(self.history, "elbo_se")
        estimated = bool(np.isfinite(se).any())
        error = 2.0 * np.nan_to_num(se) if estimated else None
        bars(ax, self._iteration, elbo, error, color(0))
        # Numbers on the axis are the ELBO, not what it is above another number.
        ax.yaxis.get_major_formatter().set_useOffset(False)
        ax.set_ylabel("ELBO ± 2 se (nats)" if estimated else "ELBO (nats)")

    def _plot_criterion(self, ax):
        self._plot_small(ax, self.stopping, color(1))
        if self.tol:
            ax.axhline(self.tol, color="0.3", linestyle="--", linewidth=1.2)
            ax.annotate(
                f"tol = {self.tol:g}",
                (0.02, self.tol),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                fontsize="small",
                color="0.3",
            )
        label = "gain in ELBO (nats)"
        if self.stopping == "gap":
            label = "duality gap (nats)"
        elif any(entry.get("branch") == "geodesic" for entry in self.history):
            label = "fall in squared Hellinger distance"
        ax.set_ylabel(label)

    def _plot_remaining(self, ax):
        self._plot_small(ax, "remaining_kl", color(2))
        ax.set_ylabel("remaining KL (nats)")

    def _plot_small(self, ax, key, hue):
        """Values of many sizes, on a logarithmic axis that is linear around zero."""
        value = _column(self.history, key)
        error = 2.0 * np.nan_to_num(_column(self.history, f"{key}_se"))
        least = np.min(np.abs(value), initial=1.0, where=value > 0.0)
        ax.set_yscale("symlog", linthresh=self.tol or least)
        bars(ax, self._iteration, value, error, hue)


# --- how the evidence of models depends on a parameter, as a figure


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

    @keeps_parameters
    def __init__(self, results, *, param=None, best_index=None):
        pass

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
