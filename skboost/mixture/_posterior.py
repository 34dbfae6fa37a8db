"""The posterior over the parameters of a Gaussian mixture, as users meet it."""

import numpy as np

from skboost._math import weighted_quantiles
from skboost._random import generator
from skboost.approximation import Mixture
from skboost.conjugate import ConjugateFamily, GaussianMixtureModel
from skboost.families import Component
from skboost.posterior import (
    ModelPosterior,
    SampledMarginal,
    as_generator,
    check_level,
    reading_archive,
    resampled,
    summary_table,
    write_archive,
)
from skboost.transforms import Interval, LowerBound, Real

FORMAT, FORMAT_VERSION = "skboost-conjugate-mixture-posterior", 1
# Draws behind marginals, intervals and summaries; they are cheap.
_N_DRAWS = 8192


class ConjugateMixturePosterior(ModelPosterior):
    """A mixture of conjugate distributions of the weights, means and precisions.

    Labels are those of one labelling of the clusters: the exact posterior has
    ``n_clusters!`` copies of everything here.

    A draw has ``weights`` (n_clusters,), ``means`` (n_clusters, n_features),
    ``precisions``, and their inverses ``covariances``, which `log_density` does not
    look at, in the shape of the covariance type. Under the Dirichlet process it has
    ``leftover``, too: what the weights leave for clusters beyond the last.

    Parameters
    ----------
    mixture : Mixture
        Of `ConjugateFamily` components; those of weight zero are dropped.
    settings : dict
        Arguments of `GaussianMixtureModel` that made the model.

    Attributes
    ----------
    mixture : Mixture
        The numerical core.
    settings : dict

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import BoostedGaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (40, 2)), rng.normal(3, 1, (60, 2))])
    >>> posterior = BoostedGaussianMixture(2, random_state=0).fit(X).posterior_
    >>> posterior.sample(100, random_state=0)["means"].shape
    (100, 2, 2)
    >>> low, high = posterior.interval(0.9)["weights"].T
    >>> bool(np.all(low < high))
    True
    """

    __slots__ = ()

    def __repr__(self):
        return (
            f"ConjugateMixturePosterior(n_clusters={self.model.n_components}, "
            f"n_features={self.model.dim}, n_components={self.n_components})"
        )

    @property
    def _family(self):
        return self._mixture.components[0].family

    @property
    def model(self):
        """The conjugate model."""
        return self._family.model

    @property
    def components(self):
        """Natural parameters of the boosting components, a list of dicts."""
        return [self._family.natural(each.params) for each in self._mixture.components]

    # --- draws and densities

    def _dict(self, theta):
        """Rows of draws as users meet them."""
        tree = self._family.draws_layout.tree(theta)
        draws = {name: tree[name] for name in self._family.parameters}
        return draws | {"covariances": self._inverse(draws["precisions"])}

    def _inverse(self, native):
        covariance = self.model.clusters.covariance
        return covariance.native(np.linalg.inv(covariance.matrices(native)))

    @property
    def _shapes(self):
        shapes = self._family.draws_layout.shapes
        return {name: shapes[name] for name in self._family.parameters}

    def _rows(self, draws):
        return self._family.rows(draws)

    # --- summaries

    def mean(self):
        """Posterior means, a dict: ``weights``, ``means``, ``precisions``,
        ``covariances``.

        The last are inverses of the expected precisions, as scikit-learn's
        ``covariances_``; under the Dirichlet process ``leftover`` is there, too.
        """
        model, components = self.model, self.components
        precisions = self._average(
            [self._inverse(model.covariances(own)) for own in components]
        )
        names = model.weights.shapes
        moments = [model.weights.moments(own["weights"]) for own in components]
        return {
            **{
                name: self._average([own[name][0] for own in moments]) for name in names
            },
            "means": self._average([model.means(own) for own in components]),
            "precisions": precisions,
            "covariances": self._inverse(precisions),
        }

    def assignment(self):
        """Probability (n_clusters,) of each cluster, given that a new row belongs to
        one."""
        return self._average([self.model.mean_weights(own) for own in self.components])

    def std(self):
        """Posterior standard deviations, a dict as of `sample` without the axis of
        draws.

        They are in closed form, and inf or NaN where there are none, as of empty
        clusters.
        """
        std = {}
        for name, (mean, spread) in self._moments().items():
            if np.ndim(spread) > np.ndim(mean):
                size = np.size(mean)
                spread = np.diagonal(spread.reshape(size, size)).reshape(mean.shape)
            std[name] = np.sqrt(spread)
        return std

    def covariance(self):
        """Posterior covariances, a dict, in closed form; inf or NaN where there are
        none.

        ``weights`` is (n_clusters, n_clusters), ``means`` (n_clusters, n_features,
        n_clusters, n_features).
        """
        moments = self._moments()
        return {name: moments[name][1] for name in ("weights", "means")}

    def _moments(self):
        """Means and variances by the names of draws; inf or NaN where there are
        none."""
        moments = [self.model.moments(natural) for natural in self.components]
        combined = {}
        for name in moments[0]:
            pairs = [parts[name] for parts in moments]
            means, spreads = (np.array(values) for values in zip(*pairs, strict=True))
            if name == "means":
                spreads = np.array([_blocks(own) for own in spreads])
            combined[name] = _mixed(means, spreads, self.weights)
        return combined

    def _average(self, parts):
        return np.tensordot(self.weights, np.array(parts), 1)

    def marginal(self, name):
        """Marginal of one number, from draws: pdf, cdf and quantile.

        Parameters
        ----------
        name : str
            Such as ``"weights[0]"``, ``"means[1, 0]"`` or ``"covariances[0, 1, 1]"``.

        Returns
        -------
        SampledMarginal
        """
        draws, row_weights, source = self._stratified()
        shapes = {key: values.shape[1:] for key, values in draws.items()}
        places = {
            _label(key, index): (key, index)
            for key, shape in shapes.items()
            for index in np.ndindex(shape)
        }
        # With or without spaces.
        wanted = "".join(str(name).split()).replace(",", ", ")
        if wanted not in places:
            raise ValueError(
                f"name must be an entry of arrays of the shapes {shapes}, such as "
                f"'weights[0]'; got {name!r}."
            )
        key, index = places[wanted]
        values = draws[key][(slice(None), *index)]
        return SampledMarginal(
            values, row_weights, source, self.weights, self._range(key, index)
        )

    def _range(self, key, index):
        """Where a number of that place can lie, as a transform."""
        if key in self.model.weights.shapes:
            return Interval(0.0, 1.0)
        matrix = self.model.covariance_type in ("full", "tied")
        if key == "means" or (matrix and index[-1] != index[-2]):
            return Real()
        return LowerBound(0.0)

    def _stratified(self):
        # One stream for all: a marginal is a function of the posterior alone.
        drawn = self._mixture.stratified_draws(_N_DRAWS, generator(0))
        return self._dict(drawn[0]), drawn[1], drawn[2]

    def interval(self, level=0.9):
        """Central equal-tailed intervals, from draws: a dict as of `mean`, with a last
        axis of ends.

        Parameters
        ----------
        level : float, default=0.9
            Probability inside, strictly between 0 and 1.
        """
        tail = 0.5 * (1.0 - check_level(level))
        draws, row_weights, _ = self._stratified()
        return {
            key: weighted_quantiles(values, row_weights, [tail, 1.0 - tail])
            for key, values in draws.items()
        }

    def summary(self):
        """Table of weights and means: exact mean and standard deviation, 5, 50 and 95
        %.

        A DataFrame, or a structured array without pandas; quantiles come from draws.
        """
        draws, row_weights, _ = self._stratified()
        exact, std = self._moments(), self.std()
        names, columns = [], []
        for key in (*self.model.weights.shapes, "means"):
            values = draws[key].reshape(len(row_weights), -1)
            quantiles = weighted_quantiles(values, row_weights, [0.05, 0.5, 0.95])
            both = np.ravel(exact[key][0]), np.ravel(std[key])
            columns.append(np.column_stack([*both, quantiles]))
            places = np.ndindex(draws[key].shape[1:])
            names += [_label(key, index) for index in places]
        table = np.concatenate(columns)
        labels = ("mean", "std", "5%", "50%", "95%")
        return summary_table(dict(zip(labels, table.T, strict=True)), names)

    # --- other posteriors, other packages

    def resample(self, log_joint, n=1000, random_state=None, n_proposals=None):
        """`n` equally weighted draws of the importance-corrected posterior.

        Parameters
        ----------
        log_joint : callable
            Takes a dict as `sample` returns and gives (n,) nats, such as
            `BoostedGaussianMixture.make_log_joint` does; -inf is legal.
        n : int, default=1000
        random_state : int, RandomState instance or None, default=None
        n_proposals : int, default=None
            Draws that are weighted; None means ``max(4 n, 4000)``.

        Returns
        -------
        dict
            Arrays as of `sample`; heavy draws come more than once.

        Raises
        ------
        ValueError
            If the log joint is NaN or +inf at a draw, or -inf at all.

        Warns
        -----
        ImportanceWarning
            If k-hat is above 0.7.
        """

        def of_rows(theta):
            return log_joint(self._dict(theta))

        rng = as_generator(random_state)
        return self._dict(resampled(self._draw, of_rows, n, n_proposals, rng).draws)

    # --- disk

    def save(self, path):
        """Write to `path` (str or path-like): an npz archive without pickled
        objects."""
        own = self._settings
        arrays = {f"model_{k}": v for k, v in own.items() if np.ndim(v)}
        header = {"model": {k: v for k, v in own.items() if not np.ndim(v)}}
        params = np.array([each.params for each in self._mixture.components])
        arrays |= {"weights": self.weights, "params": params}
        write_archive(path, FORMAT, FORMAT_VERSION, header, arrays)

    @classmethod
    def load(cls, path):
        """Posterior that `save` wrote at `path`; a ValueError refuses other files."""
        writer = "ConjugateMixturePosterior.save"
        archive = reading_archive(path, FORMAT, FORMAT_VERSION, writer)
        with archive as (header, arrays):
            own = {k[6:]: v for k, v in arrays.items() if k.startswith("model_")}
            settings = header["model"] | own
            if "law" in settings:
                # As archives of skboost 0.1.0 name it.
                settings["clusters"] = settings.pop("law")
            family = ConjugateFamily(GaussianMixtureModel(**settings))
            components = tuple(Component(family, p) for p in arrays["params"])
            return cls(Mixture(components, arrays["weights"]), settings)


def _label(key, index):
    """What an entry of an array is called, such as ``means[1, 0]``."""
    return f"{key}{list(index) or ''}"


def _mixed(means, spreads, weights):
    """Mean and variance, or covariance, of a mixture."""
    with np.errstate(invalid="ignore"):
        mean = np.tensordot(weights, means, 1)
        away = means - mean
        if spreads.ndim > means.ndim:
            ones = (1,) * (means.ndim - 1)
            left = away.reshape(*away.shape, *ones)
            away = left * away.reshape(len(away), *ones, *means.shape[1:])
        else:
            away = away**2
        return mean, np.tensordot(weights, spreads + away, 1)


def _blocks(covariances):
    """Covariances of independent clusters (k, d, d) as one array (k, d, k, d)."""
    k, dim = covariances.shape[:2]
    whole = np.zeros((k, dim, k, dim))
    whole[np.arange(k), :, np.arange(k), :] = covariances
    return whole
