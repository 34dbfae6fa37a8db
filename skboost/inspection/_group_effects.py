"""Effects of groups as a figure: one interval for each group, in order."""

from numbers import Integral

import numpy as np

from skboost.inspection._axes import intervals, look, panels, shown


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

    def __init__(self, means, intervals, inner, labels, name, *, level=0.9):
        self.means = means
        self.intervals = intervals
        self.inner = inner
        self.labels = labels
        self.name = name
        self.level = level

    @classmethod
    def from_estimator(cls, estimator, factor=None, *, effect=0, level=0.9, ax=None):
        """Display of the effects of one factor.

        Parameters
        ----------
        estimator : fitted hierarchical regression
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
        return self


def _named(label):
    """A label as text; whole numbers of a column of floats have no decimal point."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)
