"""The posterior of a Gaussian mixture as a figure: its clusters' means, by cluster."""

import numpy as np
from scipy.ndimage import gaussian_filter1d

from skboost.inspection._axes import color, note, one_or_all, panels, tidy
from skboost.inspection._pair import highest_density_levels, kernel_density
from skboost.posterior import check_level

_MAX_FEATURES = 5
# Lighter clusters have a posterior as wide as the prior, which would be all one sees.
_LEAST_WEIGHT = 0.01
_N_DRAWS = 20_000
_N_CELLS = 400


class ClusterDrawing:
    """Densities, intervals or pairs of the means of a mixture's clusters.

    Parameters
    ----------
    posterior : ConjugateMixturePosterior
    features : sequence of int or str or None
        Features to show; None shows the first five, or two as a pair.
    names : sequence of str or None
        Of all features.
    level : float
        Probability of intervals.
    """

    def __init__(self, posterior, features, names, level):
        n_features = posterior.model.dim
        self.features, self.level = features, check_level(level)
        self.names = list(names or (f"feature {j}" for j in range(n_features)))
        self.weights = posterior.assignment()
        self.draws = posterior.sample(_N_DRAWS, random_state=0)
        self.shown = np.flatnonzero(self.weights >= _LEAST_WEIGHT)

    def density(self, ax):
        """The weights of several clusters, and the means: figure and axes."""
        indices = self._indices(_MAX_FEATURES)
        means = self.draws["means"]
        shown = [(means[:, :, j], f"mean of {self.names[j]}") for j in indices]
        if len(self.weights) > 1:
            shown = [(self.draws["weights"], "weight"), *shown]
        figure, axes = panels(ax, len(shown), 3, (3.4, 2.5))
        for (values, label), axis in zip(shown, axes, strict=True):
            self._draw_densities(axis, values, label)
        if ax is None:
            handles = axes[0].get_legend_handles_labels()
            place = {"loc": "outside upper center", "ncols": 4}
            figure.legend(*handles, **place)
            figure.supylabel("density", fontsize="medium")
            note(figure, self._hidden(indices))
        else:
            axes[0].legend()
        return figure, one_or_all(axes)

    def interval(self, ax):
        """Medians with a 50 % and a wide interval, feature by feature."""
        indices = self._indices(_MAX_FEATURES)
        n_rows = len(indices) * len(self.shown)
        figure, axes = panels(ax, 1, 1, (5.2, max(1.2 + 0.24 * n_rows, 2.2)))
        axis, height = axes[0], len(self.shown) + 0.8
        for place, k in enumerate(self.shown):
            label = self._label(k)
            for i, j in enumerate(indices):
                row, own = i * height + place, color(k)
                values = self.draws["means"][:, k, j]
                axis.hlines(row, *_interval(values, self.level), own, linewidth=1.3)
                axis.hlines(row, *_interval(values, 0.5), own, linewidth=3.6)
                axis.plot(
                    np.median(values),
                    row,
                    "o",
                    color=own,
                    mfc="white",
                    ms=3.5,
                    label=label,
                )
                label = None
        middle = 0.5 * (len(self.shown) - 1)
        rows = [i * height + middle for i in range(len(indices))]
        axis.set_yticks(rows, [self.names[j] for j in indices])
        axis.set_ylim(len(indices) * height - 0.5, -0.8)
        axis.set_xlabel(
            f"mean of a cluster: median, 50 % and {100 * self.level:g} % interval"
        )
        axis.tick_params(axis="y", length=0)
        tidy(axis)
        self._finish(figure, axis, ax, indices)
        return figure, axis

    def pair(self, ax):
        """Contours of the means in two features."""
        indices = self._indices(2)
        if len(indices) != 2 or indices[0] == indices[1]:
            raise ValueError(
                "kind='pair' needs two different features; got "
                f"features={self.features!r}."
            )
        figure, axes = panels(ax, 1, 1, (5.0, 4.2))
        axis = axes[0]
        for k in self.shown:
            self._draw_contours(axis, self.draws["means"][:, k][:, indices], k)
        axis.set(xlabel=self.names[indices[0]], ylabel=self.names[indices[1]])
        tidy(axis)
        self._finish(figure, axis, ax, indices)
        return figure, axis

    def _indices(self, most):
        if self.features is None:
            return list(range(min(len(self.names), most)))
        given = self.features
        given = [given] if isinstance(given, str | int | np.integer) else list(given)
        known = set(self.names) | set(range(len(self.names)))
        if not given or not set(given) <= known:
            raise ValueError(
                f"features must be names or indices of these: {self.names}; got "
                f"{self.features!r}."
            )
        return [self.names.index(f) if isinstance(f, str) else int(f) for f in given]

    def _draw_densities(self, ax, values, label):
        """Densities of the columns of draws (n, n_clusters)."""
        bulk = np.array([_bulk(values[:, k]) for k in self.shown])
        edges = np.linspace(bulk.min(), bulk.max(), _N_CELLS + 1)
        middle, step = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
        for k in self.shown:
            own = values[:, k]
            density = np.histogram(own, edges)[0] / (len(own) * step)
            # Not below what an eye can tell apart: some weights pile up at zero.
            width = max(_width(own), 2.0 * step)
            density = gaussian_filter1d(density, width / step, mode="constant")
            low, high = _interval(own, self.level)
            inside = (middle >= low) & (middle <= high)
            ax.plot(middle, density, color=color(k), label=self._label(k))
            ax.fill_between(
                middle, density, where=inside, color=color(k), alpha=0.18, linewidth=0
            )
        ax.set(xlabel=label, yticks=[], xlim=(edges[0], edges[-1]))
        ax.set_ylim(bottom=0.0)
        ax.spines["left"].set_visible(False)
        tidy(ax)

    def _draw_contours(self, ax, draws, k):
        grids = [np.linspace(*_bulk(column), 160) for column in draws.T]
        density = kernel_density(draws, *grids)
        cell = np.prod([grid[1] - grid[0] for grid in grids])
        # Of all the probability; what lies outside the grid has no contour.
        total = density.sum() * cell
        masses = {0.5, float(self.level)}
        masses = sorted((m / total for m in masses if m < total), reverse=True)
        levels = np.unique(highest_density_levels(density, masses))
        ax.contour(*grids, density, levels, colors=color(k), linewidths=1.2)
        ax.plot([], [], color=color(k), label=self._label(k))

    def _finish(self, figure, axis, ax, indices):
        """Legend, and what is not shown."""
        if ax is None:
            place = {"loc": "outside upper center", "ncols": 3}
            figure.legend(**place)
            note(figure, self._hidden(indices))
        else:
            axis.legend()

    def _hidden(self, indices):
        """What the figure leaves out, in words; empty if nothing."""
        parts = []
        if self.features is None and len(indices) < len(self.names):
            parts.append(f"{len(indices)} of {len(self.names)} features shown")
        empty = len(self.weights) - len(self.shown)
        if empty:
            parts.append(f"without {empty} of weights below {100 * _LEAST_WEIGHT:g} %")
        return ", ".join(parts)

    def _label(self, k):
        return f"cluster {k} ({100 * self.weights[k]:.0f} %)"


def _interval(values, level):
    """Central interval of draws."""
    tail = 0.5 * (1.0 - level)
    return np.quantile(values, [tail, 1.0 - tail])


def _bulk(values):
    """Where a density is worth drawing: far tails would leave no room for it."""
    (low, high), ends = _interval(values, 0.5), _interval(values, 0.998)
    reach = 3.0 * (high - low)
    return max(low - reach, ends[0]), min(high + reach, ends[1])


def _width(values):
    """Bandwidth by Silverman's rule."""
    low, high = _interval(values, 0.5)
    return 0.9 * min(values.std(), (high - low) / 1.34) * len(values) ** -0.2
