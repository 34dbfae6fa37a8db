"""A mixture posterior as a figure."""

import numpy as np

from skboost.inspection._axes import (
    check_result,
    check_shows,
    color,
    look,
    note,
    one_or_all,
    panels,
    pyplot,
    tidy,
)
from skboost.inspection._clusters import ClusterDrawing
from skboost.inspection._pair import highest_density_levels, joint_density

KINDS = ("density", "interval", "pair")
_MAX_DENSITIES, _MAX_INTERVALS = 6, 25


class PosteriorDisplay:
    """Marginal densities, intervals or a pair of coordinates of a posterior.

    Make one with `from_estimator`, `from_result` or `from_posterior`. The posterior of
    a Gaussian mixture is drawn by cluster: features are those of the data, and what is
    shown are the clusters' means, and their weights beside densities.

    Parameters
    ----------
    posterior : MixturePosterior or ConjugateMixturePosterior
    features : sequence of int or str, default=None
        Coordinates to show, by index or name. None shows the first six
        (``"density"``), the first two (``"pair"``), or the 25 whose means are the
        most standard deviations from zero (``"interval"``); of a Gaussian mixture the
        first five features, or two.
    names : sequence of str, default=None
        Names of all coordinates; None takes those of the posterior.
    level : float, default=0.9
        Probability of the shaded or drawn interval.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes or ndarray of Axes

    See Also
    --------
    ConvergenceDisplay : How the fit converged.
    """

    def __init__(self, posterior, features=None, *, names=None, level=0.9):
        self.posterior = posterior
        self.features = features
        self.names = names
        self.level = level

    @classmethod
    def from_estimator(
        cls, estimator, features=None, *, kind="density", level=0.9, ax=None
    ):
        """Display of a fitted estimator's ``posterior_``.

        Parameters
        ----------
        estimator : fitted estimator
        features : sequence of int or str, default=None
            As in the class.
        kind : {"density", "interval", "pair"}, default="density"
        level : float, default=0.9
        ax : Axes or array-like of Axes, default=None
            As in `plot`.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            If it is no estimator, or its posterior of another kind.
        """
        instead = "Use from_result for a BoostingResult."
        check_shows(estimator, "posterior_", instead)
        posterior = _drawable(estimator.posterior_)
        names, size = getattr(posterior, "names", None), posterior.dim
        if _by_cluster(posterior):
            size = posterior.model.dim
        if names is None:
            seen = getattr(estimator, "feature_names_in_", ())
            names = tuple(seen) if len(seen) == size else None
        display = cls(posterior, features, names=names, level=level)
        return display.plot(ax=ax, kind=kind)

    @classmethod
    def from_result(cls, result, features=None, *, kind="density", level=0.9, ax=None):
        """Display of what `boost_posterior` returned; as in `from_estimator`."""
        instead = "Use from_estimator for a fitted estimator, else from_posterior."
        check_result(result, "posterior", instead)
        return cls(result.posterior, features, level=level).plot(ax=ax, kind=kind)

    @classmethod
    def from_posterior(
        cls, posterior, features=None, *, kind="density", level=0.9, ax=None
    ):
        """Display of a posterior; parameters as in `from_estimator`."""
        posterior = _drawable(posterior)
        return cls(posterior, features, level=level).plot(ax=ax, kind=kind)

    def plot(self, ax=None, *, kind="density"):
        """Draw.

        Parameters
        ----------
        ax : Axes or array-like of Axes, default=None
            One per coordinate for ``"density"``, else one. None makes a figure.
        kind : {"density", "interval", "pair"}, default="density"
            Marginal densities with the components dashed and the interval shaded;
            medians with the 50 % interval thick and the `level` interval thin,
            coloured where it excludes zero; or contours of the joint density of
            two coordinates that hold 25 %, 50 % and `level` of the probability (50 %
            and `level` for each cluster).

        Returns
        -------
        PosteriorDisplay

        Raises
        ------
        ValueError
            If `kind` is none of these, or ``"pair"`` gets other than two
            coordinates or a family whose pairs have no known density.
        """
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {list(KINDS)}; got {kind!r}.")
        with look():
            if not _by_cluster(self.posterior):
                return getattr(self, f"_plot_{kind}")(ax)
            given = self.posterior, self.features, self.names, self.level
            self.figure_, self.ax_ = getattr(ClusterDrawing(*given), kind)(ax)
            return self

    def _note_hidden(self, shown):
        if self.features is None and shown < self.posterior.dim:
            note(self.figure_, f"{shown} of {self.posterior.dim} coordinates shown")

    def _labels(self):
        names = self.names or self.posterior.names
        return names or [f"theta[{i}]" for i in range(self.posterior.dim)]

    def _indices(self, default):
        if self.features is None:
            return list(default)
        given = self.features
        given = [given] if isinstance(given, str | int | np.integer) else list(given)
        if not given:
            raise ValueError(
                "features must hold at least one coordinate; got none. Leave "
                "features=None for a choice of them."
            )
        labels = list(self._labels())
        return [
            labels.index(f) if f in labels else self.posterior.index_of(f)
            for f in given
        ]

    def _plot_density(self, ax):
        indices = self._indices(range(min(self.posterior.dim, _MAX_DENSITIES)))
        self.figure_, axes = panels(ax, len(indices), 3, (3.4, 2.5))
        for index, axis in zip(indices, axes, strict=True):
            self._draw_density(axis, index)
        if ax is None:
            handles = axes[0].get_legend_handles_labels()
            self.figure_.legend(*handles, loc="outside upper center", ncols=3)
            self.figure_.supylabel("density", fontsize="medium")
            self._note_hidden(len(indices))
        else:
            axes[0].legend()
        self.ax_ = one_or_all(axes)
        return self

    def _draw_density(self, ax, index):
        marginal = self.posterior.marginal(index)
        low, high = marginal.quantile(np.array([1e-3, 1.0 - 1e-3]))
        margin = 0.06 * (high - low)
        lower, upper = marginal.interval(self.level)
        # The components' peaks are on the grid, however narrow they are.
        peaks = marginal.component_locations()
        grid = np.linspace(low - margin, high + margin, 800)
        peaks = peaks[(peaks > grid[0]) & (peaks < grid[-1])]
        grid = np.unique(np.concatenate([grid, peaks, [lower, upper]]))
        density = marginal.pdf(grid)
        inside = (grid >= lower) & (grid <= upper)
        ax.fill_between(
            grid[inside],
            density[inside],
            color=color(0),
            alpha=0.18,
            linewidth=0,
            label=f"{100 * self.level:g} % interval",
        )
        parts = np.exp(marginal.component_log_pdf(grid)) * self.posterior.weights
        label = "components, weighted"
        for part in parts.T if self.posterior.n_components > 1 else ():
            ax.plot(grid, part, "--", color="0.45", linewidth=0.9, label=label)
            label = None
        ax.plot(grid, density, color=color(0), linewidth=1.8, label="posterior")
        ax.set(xlabel=self._labels()[index], yticks=[], xlim=(grid[0], grid[-1]))
        ax.set_ylim(0.0, 1.08 * density.max())
        ax.spines["left"].set_visible(False)
        tidy(ax)

    def _plot_interval(self, ax):
        posterior = self.posterior
        # Moments on a constrained scale may be infinite.
        with np.errstate(invalid="ignore"):
            distance = np.abs(posterior.mean()) / posterior.std()
        far = np.argsort(-distance, kind="stable")[:_MAX_INTERVALS]
        indices = self._indices(np.sort(far))
        height = 0.9 + 0.27 * len(indices)
        self.figure_, axes = panels(ax, 1, 1, (5.2, max(height, 1.8)))
        self._draw_intervals(axes[0], indices)
        if ax is None:
            self._note_hidden(len(indices))
        self.ax_ = axes[0]
        return self

    def _draw_intervals(self, ax, indices):
        outer = self.posterior.interval(self.level)[indices]
        inner = self.posterior.interval(0.5)[indices]
        median = np.asarray(self.posterior.summary()["median"])[indices]
        excludes_zero = (outer[:, 0] > 0) | (outer[:, 1] < 0)
        hues = np.where(excludes_zero, color(0), "0.55")
        rows = np.arange(len(indices))
        ax.axvline(0.0, color="0.3", linestyle="--", linewidth=0.9, zorder=0)
        ax.hlines(rows, *outer.T, color=hues, linewidth=1.3)
        ax.hlines(rows, *inner.T, color=hues, linewidth=3.6)
        ax.scatter(
            median, rows, s=26, c="white", edgecolors=hues, linewidths=1.4, zorder=3
        )
        labels = self._labels()
        ax.set_yticks(rows, [labels[i] for i in indices])
        ax.set_ylim(len(indices) - 0.5, -0.5)
        ax.set_xlabel(f"median, 50 % and {100 * self.level:g} % interval")
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
        tidy(ax)

    def _plot_pair(self, ax):
        indices = self._indices(range(min(self.posterior.dim, 2)))
        if len(indices) != 2 or indices[0] == indices[1]:
            raise ValueError(
                "kind='pair' needs two different coordinates in features; got "
                f"{self.features!r}."
            )
        self.figure_, axes = panels(ax, 1, 1, (4.6, 4.0))
        self._draw_pair(axes[0], indices)
        if ax is None:
            self.figure_.legend(loc="outside upper center")
            self._note_hidden(2)
        else:
            axes[0].legend()
        self.ax_ = axes[0]
        return self

    def _draw_pair(self, ax, indices):
        x, y = (self._grid(i) for i in indices)
        density = joint_density(self.posterior, indices, x, y)
        masses = sorted({0.25, 0.5, float(self.level)}, reverse=True)
        levels, first = np.unique(
            highest_density_levels(density, masses), return_index=True
        )
        masses = np.array(masses)[first]
        shades = pyplot().get_cmap("Blues")(np.linspace(0.18, 0.5, len(levels)))
        edges = [*levels, 1.001 * density.max()]
        ax.contourf(x, y, density, edges, colors=shades)
        lines = ax.contour(x, y, density, levels, colors=color(0), linewidths=1.1)
        shown = dict(zip(lines.levels, masses, strict=True))
        ax.clabel(lines, fmt=lambda v: f"{100 * shown[v]:g} %", fontsize=8)
        means = [self.posterior.marginal(i).component_locations() for i in indices]
        sizes = 8.0 + 60.0 * self.posterior.weights
        ax.scatter(
            *means, s=sizes, c="white", edgecolors="0.25", label="component means"
        )
        labels = self._labels()
        ax.set(xlabel=labels[indices[0]], ylabel=labels[indices[1]])
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        tidy(ax)

    def _grid(self, index):
        tails = np.array([2e-3, 1.0 - 2e-3])
        low, high = self.posterior.marginal(index).quantile(tails)
        margin = 0.08 * (high - low)
        return np.linspace(low - margin, high + margin, 240)


def _by_cluster(posterior):
    return hasattr(posterior, "assignment")


def _drawable(posterior):
    """The posterior, if its coordinates have numbers or belong to clusters."""
    if not (hasattr(posterior, "names") or _by_cluster(posterior)):
        inside = hasattr(posterior, "posterior")
        advice = "its posterior" if inside else "its marginals, or its draws"
        raise TypeError(
            "posterior must be a MixturePosterior, whose draws are vectors, or that of "
            f"a Gaussian mixture; got {type(posterior).__name__}. Plot {advice}."
        )
    return posterior
