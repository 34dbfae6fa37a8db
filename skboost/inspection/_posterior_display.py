"""A mixture posterior as a figure."""

from skboost.inspection._axes import look, shown
from skboost.inspection._drawings import drawing_of


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
        posterior = shown(estimator, "posterior_", instead)
        n_features = drawing_of(posterior).n_features(posterior)
        names, seen = posterior.names, getattr(estimator, "feature_names_in_", ())
        if names is None and len(seen) == n_features:
            names = tuple(seen)
        display = cls(posterior, features, names=names, level=level)
        return display.plot(ax=ax, kind=kind)

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
        drawing = drawing_of(self.posterior)
        with look():
            given = self.posterior, self.names, self.features, self.level
            self.figure_, self.ax_ = drawing(*given).draw(kind, ax)
        return self
