"""Clusters as a figure: rows, ellipses, how many there are, and which rows belong."""

import numpy as np
from sklearn.utils import check_array

from skboost._parameters import keeps_parameters
from skboost.inspection._asked import last_step
from skboost.inspection._axes import color, finish, look, panels, shown

# More rows than this are a cloud, and their co-clustering is no map to be read.
_MOST_ROWS = 400
# A Gaussian in the plane has 90 % of its mass within so many deviations.
_RADIUS = np.sqrt(-2.0 * np.log(0.1))


class MixtureDisplay:
    """Clusters of rows, how well they are known, and which rows belong together.

    Left the rows in the plane of two features or of the first two principal
    components, with ellipses that hold 90 % of each cluster, thin ones of draws of the
    posterior. In the middle the probabilities of every number of clusters, right the
    probability that two rows belong to one cluster, rows in the order of clusters.

    Parameters
    ----------
    points, labels : ndarray of shape (n_rows, 2) and (n_rows,)
        Rows, and their clusters.
    ellipses : list of ndarray of shape (n_components, n_points, 2)
        The first are those of the expected parameters, the others of draws.
    axes : tuple of str
        Names of both coordinates.
    n_components_proba : dict
        From numbers of clusters to probabilities.
    together : ndarray of shape (n_some, n_some)
        Probabilities that two rows belong to one cluster.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of Axes of shape (3,)


    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skboost import BoostedGaussianMixture
    >>> from skboost.inspection import MixtureDisplay
    >>> X = load_iris().data
    >>> mixture = BoostedGaussianMixture(3, random_state=0).fit(X)
    >>> display = MixtureDisplay.from_estimator(mixture, X)
    """

    @keeps_parameters
    def __init__(self, points, labels, ellipses, axes, n_components_proba, together):
        pass

    @classmethod
    def from_estimator(
        cls, estimator, X, *, features=None, n_draws=20, random_state=0, ax=None
    ):
        """Display of a fitted mixture and some rows.

        Parameters
        ----------
        estimator : fitted BoostedGaussianMixture or SVIGaussianMixture
            The latter has one number of clusters. Of a pipeline that ends with one
            rows are drawn as its other steps transform them.
        X : array-like of shape (n_samples, n_features)
            NaN is missing, and drawn where it is expected (``estimator.impute``). The
            map has at most 400 of the rows.
        features : pair of int, default=None
            Columns to be drawn; None is both of two, else the first two principal
            components of `X`.
        n_draws : int, default=20
            Of the posterior, an ellipse each for every cluster.
        random_state : int, RandomState instance or None, default=0
            For the draws.
        ax : array of Axes of shape (3,), default=None
            None makes a figure.
        """
        estimator, X = last_step(estimator, X)
        shown(estimator, "lower_bound_", "It shows mixtures of skboost.")
        if not hasattr(estimator, "sample_posterior"):
            raise TypeError(
                "from_estimator needs a BoostedGaussianMixture or SVIGaussianMixture; "
                f"got {type(estimator).__name__}."
            )
        one = {len(estimator.weights_): 1.0}
        proba = getattr(estimator, "n_components_proba_", one)
        X = check_array(X, ensure_all_finite="allow-nan")
        filled = estimator.impute(X)
        names, plane = _plane(filled, features, estimator)
        labels = estimator.predict(X)
        draws = estimator.sample_posterior(n_draws, random_state)
        expected = estimator.means_[None], estimator.covariances_[None]
        many = draws["means"], draws["covariances"]
        ellipses = [e for pair in (expected, many) for e in _ellipses(*pair, plane)]
        some = np.arange(len(X))
        if len(X) > _MOST_ROWS:
            some = np.sort(np.random.default_rng(0).permutation(some)[:_MOST_ROWS])
        some = some[np.argsort(labels[some], kind="stable")]
        if hasattr(estimator, "co_clustering"):
            together = estimator.co_clustering(X[some])
        else:
            shares = estimator.predict_proba(X[some])
            together = shares @ shares.T
            np.fill_diagonal(together, 1.0)
        points = filled @ plane.T
        return cls(points, labels, ellipses, names, proba, together).plot(ax=ax)

    def plot(self, ax=None):
        """Draw on `ax` (array of Axes of shape (3,); None makes a figure); returns
        the display."""
        with look():
            self.figure_, self.axes_ = panels(ax, 3, 3, (4.0, 3.6))
            rows, numbers, pairs = self.axes_
            for k in range(self.ellipses[0].shape[0]):
                own = self.points[self.labels == k]
                rows.scatter(*own.T, s=9, color=color(k), alpha=0.5, linewidths=0)
                for number, ellipse in enumerate(self.ellipses):
                    style = {"linewidth": 0.4, "alpha": 0.5} if number else {}
                    rows.plot(*ellipse[k].T, color=color(k), **style)
            rows.set_xlabel(self.axes[0])
            rows.set_ylabel(self.axes[1])
            known = {k: p for k, p in self.n_components_proba.items() if p > 1e-3}
            numbers.bar([*known], [*known.values()], width=0.6, color=color(0))
            numbers.set_xticks([*known])
            numbers.set_ylim(0.0, 1.0)
            numbers.set_xlabel("number of clusters")
            numbers.set_ylabel("probability")
            style = {"cmap": "Greys", "vmin": 0.0, "vmax": 1.0}
            pairs.imshow(self.together, **style)
            pairs.set_xlabel("rows in the order of clusters")
            pairs.set_ylabel("darker: sooner in one cluster")
            pairs.set_xticks([])
            pairs.set_yticks([])
            finish(self.axes_, ax)
        return self


def _plane(X, features, estimator):
    """Names of both coordinates, and the matrix (2, n_features) that gives them."""
    n = X.shape[1]
    names = getattr(estimator, "feature_names_in_", [f"x{k}" for k in range(n)])
    if features is None and n > 2:
        _, _, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        return ("principal component 1", "principal component 2"), axes[:2]
    chosen = np.arange(n) if features is None else np.asarray(features)
    valid = chosen.shape == (2,) and chosen.dtype.kind in "iu"
    if not valid or chosen.min() < 0 or chosen.max() >= n:
        raise ValueError(
            f"features must be two positions below the number of columns, {n}; got "
            f"{features!r}. Rows of one feature have no plane."
        )
    return tuple(str(names[k]) for k in chosen), np.eye(n)[chosen]


def _ellipses(means, covariances, plane):
    """Of every draw ellipses (n_components, n_points, 2) that hold 90 % of clusters."""
    n_draws, n_components, n_features = means.shape
    # One number or one for each feature, of one cluster or of all.
    kind = covariances.shape[1:]
    if kind in ((n_components,), (n_components, n_features)):
        spread = covariances.reshape(n_draws, n_components, -1, 1)
        covariances = spread * np.eye(n_features)
    elif kind == (n_features, n_features):
        covariances = covariances[:, None]
    turn = np.linspace(0.0, 2.0 * np.pi, 60)
    circle = _RADIUS * np.array([np.cos(turn), np.sin(turn)])
    root = np.linalg.cholesky(plane @ covariances @ plane.T)
    shape = (n_draws, n_components, len(turn), 2)
    around = np.broadcast_to((root @ circle).swapaxes(-1, -2), shape)
    return (means @ plane.T)[:, :, None] + around
