"""What the displays share: matplotlib on demand, one look, and axes to draw on."""

import textwrap

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._parameters import imported


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
    return imported("matplotlib.pyplot", "A display")


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
    """A legend, of the figure or the caller's first axes, and names in lines that fit.

    A new figure grows with its names; the caller's keeps its size.
    """
    figure, handles = axes[0].figure, axes[0].get_legend_handles_labels()
    place, style, above, tall = axes[0], {}, 0.0, 0.75
    if ax is None:
        place, style = figure, {"loc": "outside upper center", "ncols": n_columns}
    elif layout := figure.get_layout_engine():
        # It decides what room names have.
        layout.execute(figure.canvas.figure)
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        if isinstance(one.xaxis.get_major_locator(), pyplot().FixedLocator):
            _fold_places(one, 4.0 if ax is None else 1.0)
        if ax is None:
            tall = max(tall, _fold_rows(one))
        _fold(one.xaxis.label, max(one.bbox.width, 2.0 * figure.dpi))
        _fold(one.yaxis.label, one.bbox.height)
    if handles[0]:
        legend = place.legend(*handles, **style)
        room = place.bbox.width / style.get("ncols", 1) - 0.6 * figure.dpi
        if legend.get_window_extent().width > place.bbox.width:
            for text in legend.get_texts():
                _fold(text, room)
        above = legend.get_window_extent().height
    if ax is None:
        # Panels keep their width, and of their height what their rows need.
        lost = [one.bbox.size * (0.0, 1.0 - tall) for one in axes]
        whole = [one.get_tightbbox(for_layout_only=True).size for one in axes]
        grid = axes[0].get_subplotspec().get_gridspec()
        size = np.mean(np.subtract(whole, lost), axis=0) * (grid.ncols, grid.nrows)
        size = np.maximum(figure.bbox.size, size + (0.0, above))
        figure.set_size_inches(*size / figure.dpi)
        # Labels of logarithmic ticks take their room in a first pass only.
        figure.draw_without_rendering()


def _fold(text, room):
    """Break a text into lines that fit into some pixels; names break after "_" too."""
    words = text.get_text().replace(" %", "\xa0%").replace("_", "_ ")
    side = "height" if text.get_rotation() else "width"
    width = max(map(len, words.split("\n")))
    while (wide := getattr(text.get_window_extent(), side)) > room and width > 1:
        width = max(1, min(width - 1, int(width * room / wide) + 1))
        lines = textwrap.fill(words, width)
        text.set_text(lines.replace("_ ", "_").replace("\xa0", " "))
    return text.get_text()


def _fold_rows(ax):
    """Names of rows in lines of four inches; the share of its height that they need."""
    lines = [_fold(text, 4.0 * ax.figure.dpi) for text in ax.get_yticklabels()]
    if isinstance(ax.yaxis.get_major_locator(), pyplot().FixedLocator):
        ax.set_yticks(ax.get_yticks(), lines)
    heights = [text.get_window_extent().height for text in ax.get_yticklabels()]
    return 1.15 * len(lines) * max(heights, default=0.0) / ax.bbox.height


def _fold_places(ax, most):
    """Names of places in lines, upright where a word is too wide for its place.

    Then the figure gets wider, `most` times at the most; else some are left out.
    """
    x, texts, figure = ax.get_xticks(), ax.get_xticklabels(), ax.figure
    names, room = [text.get_text() for text in texts], ax.bbox.width / max(len(x), 1)
    lines = [_fold(text, 0.9 * room) for text in texts]
    ax.set_xticks(x, lines)
    words = [[a.replace("_", "_ ").split() for a in some] for some in (names, lines)]
    if words[0] != words[1]:
        ax.set_xticks(x, names)
        lines = [_fold(text, 2.6 * figure.dpi) for text in ax.get_xticklabels()]
        ax.set_xticks(x, lines, rotation=90)
        widest = max(text.get_window_extent().width for text in ax.get_xticklabels())
        wider = np.clip(1.1 * widest / room, 1.0, most)
        step = int(np.ceil(1.1 * widest / room / wider))
        ax.set_xticks(x[::step], lines[::step])
        if wider > 1.0:
            figure.set_size_inches(*figure.get_size_inches() * (wider, 1.0))


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


def one_or_all(axes):
    """A single axes itself, several as an array."""
    return axes[0] if len(axes) == 1 else axes
