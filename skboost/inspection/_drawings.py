"""Drawings of posteriors, of vectors and of clusters; joint densities on a grid."""

import reprlib
from functools import partial

import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from skboost._math import log_sum_exp, log_weights, robust_std
from skboost.inspection._axes import color, finish, one_or_all, panels, pyplot, tidy
from skboost.posterior import MixturePosterior, ModelPosterior, check_level


class Drawing:
    """What drawings of all posteriors share: the choice of features, and the frames.

    Subclasses draw into axes: ``_density_panels`` (for each panel a function that draws
    it), ``_draw_intervals`` and ``_draw_pair``. They have `n_features`, `first` (the
    features that a kind of figure shows where the user names none), ``_pair_size`` in
    inches, and ``_noun``, what notes call the features.

    Parameters
    ----------
    posterior : object
    names : sequence of str or None
        Of all features; None takes those of the posterior, or numbers them.
    features : sequence of int or str or None
        Features to show; None leaves the choice to the drawing.
    level : float
        Probability of intervals.
    """

    def __init__(self, posterior, names, features, level):
        n, default = self.n_features(posterior), self._default_label
        self.posterior, self.features = posterior, features
        self.labels = list(names or posterior.names or map(default.format, range(n)))
        self.level = check_level(level)

    def draw(self, kind, ax):
        """Figure and axes of one of the three kinds."""
        kinds = dict(density=self._density, interval=self._interval, pair=self._pair)
        if kind not in kinds:
            raise ValueError(f"kind must be one of {list(kinds)}; got {kind!r}.")
        indices = self._indices(kind)
        figure, axes = kinds[kind](ax, indices)
        for axis in axes:
            tidy(axis)
        n_columns = 4 if kind == "density" else 3
        finish(axes, ax is not None, self._hidden(indices), n_columns)
        return figure, one_or_all(axes)

    def _density(self, ax, indices):
        """Marginal densities, a panel each."""
        draws = self._density_panels(indices)
        figure, axes = panels(ax, len(draws), 3, (3.0, 2.4))
        for draw, axis in zip(draws, axes, strict=True):
            draw(axis)
            axis.spines["left"].set_visible(False)
        if ax is None:
            figure.supylabel("density", fontsize="medium")
        return figure, axes

    def _interval(self, ax, indices):
        """Medians with a 50 % and a wide interval, row by row."""
        figure, axes = panels(ax, 1, 1, (5.2, self._interval_height(indices)))
        self._draw_intervals(axes[0], indices)
        axes[0].tick_params(axis="y", length=0)
        return figure, axes

    def _pair(self, ax, indices):
        """Contours of the joint density of two features."""
        if len(indices) != 2 or indices[0] == indices[1]:
            raise ValueError(
                "kind='pair' needs two different features; got "
                f"features={self.features!r}."
            )
        figure, axes = panels(ax, 1, 1, self._pair_size)
        self._draw_pair(axes[0], indices)
        x, y = indices
        axes[0].set(xlabel=self.labels[x], ylabel=self.labels[y])
        return figure, axes

    def _indices(self, kind):
        """Features to show, as numbers."""
        if self.features is None:
            return list(self.first(kind))
        given, n = self.features, len(self.labels)
        given = [given] if isinstance(given, str | int | np.integer) else list(given)
        found = [self.labels.index(f) if f in self.labels else f for f in given]
        known = (isinstance(f, int | np.integer) and -n <= f < n for f in found)
        if not found or not all(known):
            raise ValueError(
                f"features must be names or indices of these {n}: "
                f"{reprlib.repr(self.labels)}; got {given}."
            )
        return [int(f) % n for f in found]

    def _hidden(self, indices):
        """What the figure leaves out, in words."""
        n = len(self.labels)
        if self.features is None and len(indices) < n:
            return [f"{len(indices)} of {n} {self._noun} shown"]
        return []


class VectorDrawing(Drawing):
    """Drawing of a `MixturePosterior`: its features are the coordinates."""

    _pair_size, _noun, _default_label = (4.6, 4.0), "coordinates", "theta[{}]"

    @staticmethod
    def n_features(posterior):
        """Number of coordinates."""
        return posterior.dim

    def first(self, kind):
        """The first ones; as intervals the 25 farthest from zero in deviations."""
        n = {"density": 6, "interval": 25, "pair": 2}[kind]
        if kind != "interval":
            return range(min(self.posterior.dim, n))
        # Moments on a constrained scale may be infinite.
        with np.errstate(invalid="ignore"):
            distance = np.abs(self.posterior.mean()) / self.posterior.std()
        return np.sort(np.argsort(-distance, kind="stable")[:n])

    def _density_panels(self, indices):
        return [partial(self._draw_density, index) for index in indices]

    def _draw_density(self, index, ax):
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
        label = f"{100 * self.level:g} % interval"
        style = {"color": color(0), "alpha": 0.18, "linewidth": 0}
        ax.fill_between(grid[inside], density[inside], label=label, **style)
        parts = np.exp(marginal.component_log_pdf(grid)) * self.posterior.weights
        label = "components, weighted"
        for part in parts.T if self.posterior.n_components > 1 else ():
            ax.plot(grid, part, "--", color="0.45", linewidth=0.9, label=label)
            label = None
        ax.plot(grid, density, color=color(0), linewidth=1.8, label="posterior")
        ax.set(xlabel=self.labels[index], yticks=[], xlim=(grid[0], grid[-1]))
        ax.set_ylim(0.0, 1.08 * density.max())

    def _interval_height(self, indices):
        return max(0.9 + 0.27 * len(indices), 1.8)

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
        ax.set_yticks(rows, [self.labels[i] for i in indices])
        ax.set_ylim(len(indices) - 0.5, -0.5)
        ax.set_xlabel(f"median, 50 % and {100 * self.level:g} % interval")
        ax.spines["left"].set_visible(False)

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
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))

    def _grid(self, index):
        tails = np.array([2e-3, 1.0 - 2e-3])
        low, high = self.posterior.marginal(index).quantile(tails)
        margin = 0.08 * (high - low)
        return np.linspace(low - margin, high + margin, 240)


class ClusterDrawing(Drawing):
    """Drawing of the means of a mixture's clusters: its features are those of the data.

    Densities show the clusters' weights, too.
    """

    _pair_size, _noun, _default_label = (5.0, 4.2), "features", "feature {}"
    # Lighter clusters have a posterior as wide as the prior, all that one would see.
    _least_weight = 0.01

    def __init__(self, posterior, names, features, level):
        super().__init__(posterior, names, features, level)
        self.weights = posterior.assignment()
        self.draws = posterior.sample(20_000, random_state=0)
        self.shown = np.flatnonzero(self.weights >= self._least_weight)

    @staticmethod
    def n_features(posterior):
        """Number of features of the data."""
        return posterior.model.dim

    def first(self, kind):
        """The first five, or two as a pair."""
        return range(min(len(self.labels), 2 if kind == "pair" else 5))

    def _hidden(self, indices):
        empty = len(self.weights) - len(self.shown)
        parts = super()._hidden(indices)
        if empty:
            least = f"{100 * self._least_weight:g} %"
            parts.append(f"without {empty} of weights below {least}")
        return parts

    def _label(self, k):
        return f"cluster {k} ({100 * self.weights[k]:.0f} %)"

    def _density_panels(self, indices):
        """The weights of several clusters, and their means."""
        means = self.draws["means"]
        shown = [(means[:, :, j], f"mean of {self.labels[j]}") for j in indices]
        if len(self.weights) > 1:
            shown = [(self.draws["weights"], "weight"), *shown]
        return [partial(self._draw_densities, *values) for values in shown]

    def _draw_densities(self, values, label, ax):
        """Densities of the columns of draws (n, n_clusters)."""
        bulk = np.array([_bulk(values[:, k]) for k in self.shown])
        edges = np.linspace(bulk.min(), bulk.max(), 401)
        middle, step = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
        for k in self.shown:
            own = values[:, k]
            density = np.histogram(own, edges)[0] / (len(own) * step)
            # Not below what an eye can tell apart: some weights pile up at zero.
            width = max(0.9 * robust_std(own) * len(own) ** -0.2, 2.0 * step)
            density = gaussian_filter1d(density, width / step, mode="constant")
            low, high = _interval(own, self.level)
            inside = (middle >= low) & (middle <= high)
            ax.plot(middle, density, color=color(k), label=self._label(k))
            style = {"color": color(k), "alpha": 0.18, "linewidth": 0}
            ax.fill_between(middle, density, where=inside, **style)
        ax.set(xlabel=label, yticks=[], xlim=(edges[0], edges[-1]))
        ax.set_ylim(bottom=0.0)

    def _interval_height(self, indices):
        return max(1.2 + 0.24 * len(indices) * len(self.shown), 2.2)

    def _draw_intervals(self, ax, indices):
        """A row for each cluster, feature by feature."""
        height = len(self.shown) + 0.8
        for place, k in enumerate(self.shown):
            own, rows = color(k), np.arange(len(indices)) * height + place
            values = self.draws["means"][:, k][:, indices]
            ax.hlines(rows, *_interval(values, self.level), own, linewidth=1.3)
            ax.hlines(rows, *_interval(values, 0.5), own, linewidth=3.6)
            style = {"color": own, "mfc": "white", "ms": 3.5, "label": self._label(k)}
            ax.plot(np.median(values, axis=0), rows, "o", **style)
        rows = np.arange(len(indices)) * height + 0.5 * (len(self.shown) - 1)
        ax.set_yticks(rows, [self.labels[j] for j in indices])
        ax.set_ylim(len(indices) * height - 0.5, -0.8)
        ax.set_xlabel(
            f"mean of a cluster: median, 50 % and {100 * self.level:g} % interval"
        )

    def _draw_pair(self, ax, indices):
        for k in self.shown:
            draws = self.draws["means"][:, k][:, indices]
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


def drawing_of(posterior):
    """The class of drawings of a posterior with coordinates or with clusters.

    Raises
    ------
    TypeError
        If it has neither.
    """
    if isinstance(posterior, MixturePosterior):
        return VectorDrawing
    if isinstance(posterior, ModelPosterior) and posterior.assignment:
        return ClusterDrawing
    raise TypeError(
        "posterior must be a MixturePosterior, whose draws are vectors, or that of a "
        f"Gaussian mixture; got {type(posterior).__name__}. Plot its posterior if it "
        "has one, else its marginals or its draws."
    )


def _interval(values, level):
    """Central intervals of columns of draws: lower and upper ends."""
    tail = 0.5 * (1.0 - level)
    return np.quantile(values, [tail, 1.0 - tail], axis=0)


def _bulk(values):
    """Where a density is worth drawing: far tails would leave no room for it."""
    (low, high), ends = _interval(values, 0.5), _interval(values, 0.998)
    reach = 3.0 * (high - low)
    return max(low - reach, ends[0]), min(high + reach, ends[1])


def joint_density(posterior, indices, x, y):
    """Density of two coordinates on the user's scale, shape (len(y), len(x)).

    By change of variables where each has a transform of its own, else by kernels
    from draws.

    Parameters
    ----------
    posterior : MixturePosterior
    indices : pair of int
    x, y : ndarray
        Evenly spaced values of the first and of the second coordinate.
    """
    if posterior.constraints is None:
        return pair_density(posterior.mixture, indices, x, y)
    mapped = [posterior.constraints.elementwise(i) for i in indices]
    if None in mapped:
        # Inside a simplex or among ordered coordinates.
        draws = posterior.sample(40_000, random_state=0)
        return kernel_density(draws[:, indices], x, y)
    z, inside, slopes = [], [], []
    for (transform, _), values in zip(mapped, (x, y), strict=True):
        inside.append(transform.inside(values))
        z.append(transform.inverse(values[inside[-1]]))
        slopes.append(transform.derivative(z[-1]))
    core = pair_density(posterior.mixture, [free for _, free in mapped], *z)
    density = np.zeros((len(y), len(x)))
    density[np.ix_(*inside[::-1])] = core / np.outer(*slopes[::-1])
    return density


def kernel_density(draws, x, y):
    """Density of draws (n, 2) on an even grid, shape (len(y), len(x))."""
    steps = np.array([x[1] - x[0], y[1] - y[0]])
    edges = [
        np.append(v, v[-1] + step) - 0.5 * step
        for v, step in zip((x, y), steps, strict=True)
    ]
    counts = np.histogram2d(*draws.T, bins=edges)[0] / (len(draws) * steps.prod())
    width = robust_std(draws) * len(draws) ** (-1 / 6)
    return gaussian_filter(counts.T, (width / steps)[::-1])


def pair_density(mixture, indices, x, y):
    """Density of two coordinates, shape (len(y), len(x)).

    Parameters
    ----------
    mixture : Mixture
    indices : pair of int
    x, y : ndarray
        Values of the first and of the second coordinate.
    """
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    columns = [
        family.log_density(points, family.marginal(params, list(indices)))
        for family, params in mixture.components
    ]
    log_q = log_sum_exp(np.column_stack(columns), log_weights(mixture.weights))
    return np.exp(log_q).reshape(len(y), len(x))


def highest_density_levels(density, masses):
    """Densities above which lie the given shares of the mass on an even grid.

    Parameters
    ----------
    density : ndarray
    masses : sequence of float
        Decreasing, so that the levels increase.
    """
    ordered = np.sort(density.ravel())[::-1]
    cumulative = np.cumsum(ordered)
    cumulative /= cumulative[-1]
    index = np.searchsorted(cumulative, masses)
    return ordered[np.minimum(index, ordered.size - 1)]
