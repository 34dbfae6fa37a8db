"""What the displays share: matplotlib on demand, one look, and axes to draw on."""

import numpy as np
from sklearn.utils.validation import check_is_fitted


def shown(source, attribute, instead, method="from_estimator"):
    """The attribute of an estimator or a result that is drawn."""
    value = getattr(source, attribute, None)
    if value is not None:
        return value
    kind = type(source).__name__
    wanted = "a fitted estimator"
    if method == "from_result":
        wanted = "what boost_posterior returned"
    if method == "from_result" or not hasattr(source, "fit"):
        raise TypeError(
            f"{method} needs {wanted}; got an object of type {kind}. {instead}"
        )
    check_is_fitted(source)
    raise TypeError(
        f"from_estimator needs an estimator with {attribute}, as those of skboost "
        f"have; got {kind}, which is fitted and has none."
    )


def pyplot():
    """The module ``matplotlib.pyplot``, imported only when something is drawn."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays need matplotlib, which is not installed. Install it with "
            "`pip install matplotlib`."
        ) from error
    return plt


def look():
    """Context in which all figures look alike; the caller's settings return after."""
    # The file ``figures.mplstyle`` beside this one, as matplotlib names it.
    return pyplot().style.context("skboost.inspection.figures")


def color(number):
    """A colour of the style, as a value that later settings do not change."""
    cycle = pyplot().rcParams["axes.prop_cycle"].by_key()["color"]
    return cycle[number % len(cycle)]


def panels(ax, n, n_columns, size, heights=None):
    """Figure and a flat array of `n` axes; new ones have a size in inches."""
    if ax is None:
        n_columns = min(n, n_columns)
        n_rows = -(-n // n_columns)
        figure, grid = pyplot().subplots(
            n_rows,
            n_columns,
            figsize=(size[0] * n_columns, size[1] * n_rows),
            height_ratios=heights,
            squeeze=False,
        )
        for spare in grid.ravel()[n:]:
            spare.remove()
        return figure, grid.ravel()[:n]
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if axes.size != n:
        raise ValueError(
            f"ax must be None or hold {n} axes, one per panel; got {axes.size}."
        )
    return axes[0].figure, axes


def finish(axes, ax, n_columns=3):
    """A legend of what has a label: of the figure, or of the caller's first axes."""
    handles = axes[0].get_legend_handles_labels()
    if handles[0] and ax is not None:
        axes[0].legend()
    elif handles[0]:
        axes[0].figure.legend(*handles, loc="outside upper center", ncols=n_columns)


def bars(ax, x, y, error, hue, label=None):
    """Points, joined by a line, with error bars."""
    style = {"fmt": "o-", "elinewidth": 1.0}
    ax.errorbar(x, y, error, color=hue, label=label, **style)


def intervals(ax, centers, outer, inner, labels, none=0.0):
    """Rows of thin and thick intervals, in colour where thin ones exclude `none`."""
    rows = np.arange(len(centers))
    hues = np.where((outer[:, 0] > none) | (outer[:, 1] < none), color(0), "0.55")
    ax.axvline(none, color="0.3", linestyle="--", linewidth=0.9, zorder=0)
    ax.hlines(rows, *outer.T, color=hues, linewidth=1.3)
    if inner is not None:
        ax.hlines(rows, *inner.T, color=hues, linewidth=3.2)
    style = {"c": "white", "edgecolors": hues, "linewidths": 1.4, "zorder": 3}
    ax.scatter(centers, rows, s=22, **style)
    ax.set_yticks(rows if labels else [], labels)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    tidy(ax)


def tidy(ax):
    """Take away the frame's upper and right side."""
    ax.spines[["top", "right"]].set_visible(False)


def one_or_all(axes):
    """A single axes itself, several as an array."""
    return axes[0] if len(axes) == 1 else axes
