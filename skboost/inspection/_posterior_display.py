"""A posterior as a figure: its marginals, and the effects of its groups."""

import reprlib
from numbers import Integral

import numpy as np

from skboost._parameters import keeps_parameters
from skboost.inspection._asked import last_step
from skboost.inspection._axes import (
    color,
    finish,
    intervals,
    look,
    one_or_all,
    panels,
    shown,
)
from skboost.posterior import MixturePosterior, check_level


class PosteriorDisplay:
    """Marginal densities or intervals of the coordinates of a posterior.

    Make one with `from_estimator`, `from_result` or `from_posterior`. For pairs of
    coordinates, and for posteriors whose draws are no vectors, such as those of
    mixtures, ``posterior.to_arviz()`` gives draws to ArviZ.

    Parameters
    ----------
    posterior : MixturePosterior
    features : sequence of int or str, default=None
        Coordinates to show, by index or name. None shows the first six
        (``"density"``), or the 25 whose means are the most standard deviations from
        zero (``"interval"``).
    level : float, default=0.9
        Probability of the shaded or drawn interval.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, matplotlib Axes or ndarray of Axes


    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.inspection import PosteriorDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BoostedBayesianLogisticRegression(max_iter=1).fit(X[50:], y[50:])
    >>> display = PosteriorDisplay.from_estimator(model, kind="interval")
    """

    @keeps_parameters
    def __init__(self, posterior, features=None, *, level=0.9):
        pass

    @classmethod
    def from_estimator(
        cls, estimator, features=None, *, kind="density", level=0.9, ax=None
    ):
        """Display of a fitted estimator's ``posterior_``.

        Parameters
        ----------
        estimator : fitted estimator, or a pipeline or a search that ends with one
        features, level, kind, ax
            As in the class, and in `plot`.
        """
        instead = "Use from_result for a BoostingResult."
        estimator, _ = last_step(estimator)
        posterior = shown(estimator, "posterior_", instead)
        return cls(posterior, features, level=level).plot(ax=ax, kind=kind)

    @classmethod
    def from_result(cls, result, features=None, *, kind="density", level=0.9, ax=None):
        """Display of what `boost_posterior` returned; as in `from_estimator`."""
        instead = "Use from_estimator for a fitted estimator, else from_posterior."
        posterior = shown(result, "posterior", instead, "from_result")
        return cls(posterior, features, level=level).plot(ax=ax, kind=kind)

    @classmethod
    def from_posterior(
        cls, posterior, features=None, *, kind="density", level=0.9, ax=None
    ):
        """Display of a posterior; parameters as in `from_estimator`."""
        return cls(posterior, features, level=level).plot(ax=ax, kind=kind)

    def plot(self, ax=None, *, kind="density"):
        """Draw.

        Parameters
        ----------
        ax : Axes or array-like of Axes, default=None
            One per coordinate for ``"density"``, else one. None makes a figure.
            Intervals then have a panel, with a scale of its own, for all coordinates
            that lie within a factor of ten.
        kind : {"density", "interval"}, default="density"
            Marginal densities with the components dashed and the interval shaded, or
            medians with the 50 % interval thick and the `level` interval thin,
            coloured where it excludes zero.
        """
        if not isinstance(self.posterior, MixturePosterior):
            raise TypeError(
                "posterior must be a MixturePosterior, whose draws are vectors; got "
                f"{type(self.posterior).__name__}. Plot its posterior if it has one, "
                "or give its draws to ArviZ: posterior.to_arviz()."
            )
        kinds = {"density": self._densities, "interval": self._intervals}
        if kind not in kinds:
            raise ValueError(
                f"kind must be one of {list(kinds)}; got {kind!r}. "
                "arviz.plot_pair(posterior.to_arviz()) draws pairs."
            )
        check_level(self.level)
        dim = self.posterior.dim
        numbered = [f"theta[{i}]" for i in range(dim)]
        self._labels = list(self.posterior.names or numbered)
        indices = self._indices(kind)
        with look():
            self.figure_, axes = kinds[kind](ax, indices)
            if ax is None and self.features is None and len(indices) < dim:
                hidden = f"{len(indices)} of {dim} coordinates shown"
                self.figure_.supxlabel(hidden, fontsize="small", color="0.4")
            finish(axes, ax)
            self.ax_ = one_or_all(axes)
        return self

    def _indices(self, kind):
        """Coordinates to show, as numbers."""
        if self.features is None:
            return _first(self.posterior, kind)
        given, n = self.features, len(self._labels)
        given = [given] if isinstance(given, str | int | np.integer) else list(given)
        found = [self._labels.index(f) if f in self._labels else f for f in given]
        known = (isinstance(f, int | np.integer) and -n <= f < n for f in found)
        if not found or not all(known):
            raise ValueError(
                f"features must be names or indices of these {n}: "
                f"{reprlib.repr(self._labels)}; got {given}."
            )
        return [int(f) % n for f in found]

    def _densities(self, ax, indices):
        """Marginal densities, a panel each."""
        figure, axes = panels(ax, len(indices), 3, (3.0, 2.4))
        for index, axis in zip(indices, axes, strict=True):
            self._draw_density(index, axis)
            axis.spines["left"].set_visible(False)
        if ax is None:
            figure.supylabel("density", fontsize="medium")
        return figure, axes

    def _draw_density(self, index, ax):
        marginal = self.posterior.marginal(index)
        low, high = marginal.quantile(np.array([1e-3, 1.0 - 1e-3]))
        if high < low:
            # An arc that passes the ends of a period: all of it is shown.
            low, high = np.nextafter(marginal.quantile(np.array([0.0, 1.0])), [1, 0])
        margin = 0.06 * (high - low)
        lower, upper = marginal.interval(self.level)
        # The components' peaks are on the grid, however narrow they are.
        peaks = marginal.component_locations()
        grid = np.linspace(low - margin, high + margin, 800)
        peaks = peaks[(peaks > grid[0]) & (peaks < grid[-1])]
        grid = np.unique(np.concatenate([grid, peaks, [lower, upper]]))
        density = marginal.pdf(grid)
        above, below = grid >= lower, grid <= upper
        inside = above & below if lower <= upper else above | below
        label = f"{100 * self.level:g} % interval"
        style = {"color": color(0), "alpha": 0.18, "linewidth": 0}
        ax.fill_between(grid, density, where=inside, label=label, **style)
        parts = np.exp(marginal.component_log_pdf(grid)) * self.posterior.weights
        label = "components, weighted"
        for part in parts.T if self.posterior.n_components > 1 else ():
            ax.plot(grid, part, "--", color="0.45", linewidth=0.9, label=label)
            label = None
        ax.plot(grid, density, color=color(0), linewidth=1.8, label="posterior")
        ax.set(xlabel=self._labels[index], yticks=[], xlim=(grid[0], grid[-1]))
        ax.set_ylim(0.0, 1.08 * density.max())

    def _intervals(self, ax, indices):
        """Medians with a 50 % and a wide interval, row by row."""
        median = np.asarray(self.posterior.summary()["median"])[indices]
        ends = [self.posterior.interval(p)[indices] for p in (self.level, 0.5)]
        constraints = self.posterior.constraints
        for i, circle in () if constraints is None else constraints.periodic.items():
            # Arcs are drawn to both sides of the median.
            row = np.asarray(indices) == i
            for low, high in (end.T for end in ends):
                low[row & (low > median)] -= circle.period
                high[row & (high < median)] += circle.period
        groups = _alike(ends[0]) if ax is None else [list(range(len(median)))]
        height = max(0.9 + 0.27 * len(indices), 1.8) / len(groups) + 0.3
        ratios = [len(rows) + 1 for rows in groups]
        figure, axes = panels(ax, len(groups), 1, (5.2, height), ratios)
        for rows, axis in zip(groups, axes, strict=True):
            names = [self._labels[indices[row]] for row in rows]
            intervals(axis, median[rows], *(end[rows] for end in ends), names)
        axes[-1].set_xlabel(f"median, 50 % and {100 * self.level:g} % interval")
        return figure, axes


def _first(posterior, kind):
    """The first six; as intervals the 25 farthest from zero in standard deviations."""
    if kind == "density":
        return range(min(posterior.dim, 6))
    # Moments on a constrained scale may be infinite.
    with np.errstate(invalid="ignore"):
        distance = np.abs(posterior.mean()) / posterior.std()
    return np.sort(np.argsort(-distance, kind="stable")[:25])


def _alike(ends):
    """Positions of intervals in groups that one scale can show, in their order."""
    reach, groups = np.abs(ends).max(axis=1), []
    for row in np.argsort(reach, kind="stable"):
        if not groups or not reach[row] <= 10.0 * reach[groups[-1][0]]:
            groups.append([])
        groups[-1].append(int(row))
    return sorted(map(sorted, groups))


# --- effects of groups as a figure: one interval for each group, in order


class GroupEffectsDisplay:
    """Group effects of a hierarchical regression, smallest first, with intervals.

    The figure is also called a caterpillar plot. Make one with `from_estimator`.

    Parameters
    ----------
    means, intervals, inner : ndarray of shape (n_groups,), (n_groups, 2), (n_groups, 2)
        The last are narrower intervals, drawn thick.
    labels : sequence of str of length n_groups
    name : str
        What the effect is called, and its scale, below the horizontal axis:
        `from_estimator` says log odds for classes, log rates for counts, and units of
        the response for numbers.
    level : float, default=0.9
        Probability of `intervals`.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, matplotlib Axes


    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedHierarchicalLinearRegression
    >>> from skboost.inspection import GroupEffectsDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> X["decade"] = X["age"].rank(pct=True).mul(9).astype(int)
    >>> model = BoostedHierarchicalLinearRegression(groups="decade", random_state=0)
    >>> display = GroupEffectsDisplay.from_estimator(model.fit(X, y))
    """

    @keeps_parameters
    def __init__(self, means, intervals, inner, labels, name, *, level=0.9):
        pass

    @classmethod
    def from_estimator(cls, estimator, factor=None, *, effect=0, level=0.9, ax=None):
        """Display of the effects of one factor.

        Parameters
        ----------
        estimator : fitted hierarchical regression, or a search over one
        factor : str, default=None
            A key of ``group_effects_``; None is the first.
        effect : int or str, default=0
            "intercept" or the name of a slope's column; or their position, 0 for the
            intercept where there is one.
        level : float, default=0.9
            Posterior probability of the thin intervals; the thick ones hold half.
        ax : Axes, default=None
            None makes a figure.
        """
        instead = "It shows regressions with groups."
        estimator, _ = last_step(estimator)
        effects = shown(estimator, "group_effects_", instead)
        if factor is None and effects:
            factor = next(iter(effects))
        if factor not in effects:
            raise ValueError(
                f"factor must be one of {list(effects)}; got {factor!r}. A model needs "
                "groups to have any."
            )
        means = effects[factor]
        names = estimator._model_.columns.effects_of(factor)
        effect = names.index(effect) if effect in names else effect
        if not (isinstance(effect, Integral) and 0 <= effect < len(names)):
            raise ValueError(
                f"effect must be one of {names}, or a position below {len(names)}; got "
                f"{effect!r}."
            )
        wide, half = (
            estimator.group_effects_interval(p)[factor][:, effect] for p in (level, 0.5)
        )
        labels = [
            ":".join(map(_named, np.atleast_1d(label)))
            for label in estimator.group_levels_[factor]
        ]
        name = f"effect of {factor}"
        if names[effect] != "intercept":
            name += f" on the slope of {names[effect]}"
        name += f", {estimator._scale_of_effects}"
        display = cls(means[:, effect], wide, half, labels, name, level=level)
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw on `ax` (Axes; None makes a figure); returns the display."""
        order = np.argsort(self.means, kind="stable")
        # More groups than this get no labels of their own.
        labels = [self.labels[j] for j in order] if len(order) <= 40 else []
        height = 1.0 + 0.2 * len(labels) if labels else 5.0
        with look():
            self.figure_, (self.ax_,) = panels(ax, 1, 1, (5.2, height))
            ends = self.intervals[order], self.inner[order]
            intervals(self.ax_, self.means[order], *ends, labels)
            # The smallest is the lowest.
            self.ax_.invert_yaxis()
            mass = f"{100 * self.level:g} %"
            self.ax_.set_xlabel(f"{self.name}: mean, 50 % and {mass} interval")
            if not labels:
                self.ax_.set_ylabel(f"{len(order)} groups")
            finish([self.ax_], ax)
        return self


def _named(label):
    """A label as text; whole numbers of a column of floats have no decimal point."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)
