"""What the displays share: matplotlib on demand, one look, and axes to draw on."""

import numpy as np
from sklearn.utils.validation import check_is_fitted


def shown(source, attribute, instead, method="from_estimator"):
    """What a display is made of: an attribute of an estimator, or of a result.

    Parameters
    ----------
    source : object
    attribute : str
        That it has to have.
    instead : str
        What makes a display of things of another kind.
    method : {"from_estimator", "from_result"}, default="from_estimator"
        The method that was called.

    Raises
    ------
    NotFittedError
        If it is an estimator that is not fitted.
    TypeError
        If it is something else, or a fitted estimator without such an attribute.
    """
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


def panels(ax, n, n_columns, size):
    """Figure and a flat array of `n` axes.

    Parameters
    ----------
    ax : None, Axes or array-like of Axes
        None makes a new figure.
    n, n_columns : int
        Number of panels, and of columns where a new figure is made.
    size : tuple of float
        Width and height of a panel in inches.
    """
    if ax is None:
        n_columns = min(n, n_columns)
        n_rows = -(-n // n_columns)
        figure, grid = pyplot().subplots(
            n_rows,
            n_columns,
            figsize=(size[0] * n_columns, size[1] * n_rows),
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


def finish(axes, own, hidden=(), n_columns=3):
    """A legend of what has a label, and below the figure what it leaves out.

    Parameters
    ----------
    axes : ndarray of Axes
    own : bool
        Whether they are the user's own: then the first of them gets the legend and
        nothing else is added.
    hidden : sequence of str, default=()
        What is left out.
    n_columns : int, default=3
        Of the legend.
    """
    first = axes[0]
    handles = first.get_legend_handles_labels()
    if own and handles[0]:
        first.legend()
    elif handles[0]:
        place = {"loc": "outside upper center", "ncols": n_columns}
        first.figure.legend(*handles, **place)
    if hidden and not own:
        first.figure.supxlabel(", ".join(hidden), fontsize="small", color="0.4")


def bars(ax, x, y, error, hue, label=None):
    """Points, joined by a line, with error bars."""
    style = {"fmt": "o-", "elinewidth": 1.0}
    ax.errorbar(x, y, error, color=hue, label=label, **style)


def tidy(ax):
    """Take away the frame's upper and right side."""
    ax.spines[["top", "right"]].set_visible(False)


def one_or_all(axes):
    """A single axes itself, several as an array."""
    return axes[0] if len(axes) == 1 else axes
