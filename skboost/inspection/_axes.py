"""What the displays share: matplotlib on demand, one look, and axes to draw on."""

import numpy as np
from sklearn.utils.validation import check_is_fitted


def check_shows(estimator, attribute, instead):
    """Whether a display can be made of an estimator.

    Parameters
    ----------
    estimator : object
    attribute : str
        That it has to have.
    instead : str
        What makes a display of things that are no estimators.

    Raises
    ------
    NotFittedError
        If it is not fitted.
    TypeError
        If it is fitted and has no such attribute, or is no estimator.
    """
    if hasattr(estimator, attribute):
        return
    kind = type(estimator).__name__
    if not hasattr(estimator, "fit"):
        raise TypeError(
            f"from_estimator needs a fitted estimator; got an object of type {kind}. "
            f"{instead}"
        )
    check_is_fitted(estimator)
    raise TypeError(
        f"from_estimator needs an estimator with {attribute}, as those of skboost "
        f"have; got {kind}, which is fitted and has none."
    )


# The file ``figures.mplstyle`` beside this one, as matplotlib names it.
STYLE = "skboost.inspection.figures"


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


def check_result(result, attribute, instead):
    """Refuse what is no result of `boost_posterior`, and say what draws it."""
    if not hasattr(result, attribute):
        raise TypeError(
            "from_result needs what boost_posterior returned; got an object of type "
            f"{type(result).__name__}. {instead}"
        )


def look():
    """Context in which all figures look alike; the caller's settings return after."""
    return pyplot().style.context(STYLE)


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


def note(figure, text):
    """A line below a figure, such as what it leaves out."""
    if text:
        figure.supxlabel(text, fontsize="small", color="0.4")


def tidy(ax):
    """Take away the frame's upper and right side."""
    ax.spines[["top", "right"]].set_visible(False)


def one_or_all(axes):
    """A single axes itself, several as an array."""
    return axes[0] if len(axes) == 1 else axes
