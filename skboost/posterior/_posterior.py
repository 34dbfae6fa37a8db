"""The approximate posterior as users meet it."""

import numpy as np

from skboost._random import generator, root_seed
from skboost.posterior._distance import hellinger_distance
from skboost.posterior._importance import importance_sample, resample
from skboost.posterior._marginal import Marginal, check_level
from skboost.posterior._mixture import Mixture
from skboost.posterior._modes import find_modes
from skboost.posterior._storage import load_mixture, save_mixture
from skboost.posterior._tables import (
    arviz_data,
    check_names,
    coordinate_intervals,
    summary_table,
)


def _rng(random_state):
    return generator(root_seed(random_state))


def _check_size(name, value):
    if not (isinstance(value, int | np.integer) and value >= 1):
        raise ValueError(f"{name} must be a positive integer; got {value!r}.")
    return int(value)


class MixturePosterior:
    """A mixture density as approximate posterior of a parameter vector.

    Immutable: methods that change something return a new posterior.

    Parameters
    ----------
    mixture : Mixture
        Components of weight zero are dropped.
    names : sequence of str of length dim, default=None
        Names of the coordinates, for tables and plots.

    Attributes
    ----------
    mixture : Mixture
        The numerical core: component densities, responsibilities, scores.
    names : tuple of str or None

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.families import Gaussian
    >>> from skboost.posterior import Mixture, MixturePosterior
    >>> family = Gaussian("diag")
    >>> parts = tuple((family, np.array([m, 0.0])) for m in (-1.0, 1.0))
    >>> posterior = MixturePosterior(Mixture(parts, np.array([0.5, 0.5])))
    >>> posterior.std().round(3)
    array([1.414])
    """

    __slots__ = ("_mixture", "_names")

    def __init__(self, mixture, names=None):
        self._mixture = mixture.drop_zero_weights()
        self._names = check_names(names, mixture.dim)

    def __repr__(self):
        return f"MixturePosterior(dim={self.dim}, n_components={self.n_components})"

    @property
    def mixture(self):
        return self._mixture

    @property
    def names(self):
        return self._names

    @property
    def weights(self):
        """Weights of the components, shape (n_components,)."""
        return self._mixture.weights

    @property
    def n_components(self):
        """Number of components."""
        return self._mixture.n_components

    @property
    def dim(self):
        """Dimension of the parameter vector."""
        return self._mixture.dim

    def log_density(self, theta):
        """Log density in nats at `theta` (n, dim), shape (n,)."""
        return self._mixture.log_density(theta)

    def sample(self, n=1, random_state=None):
        """Draws in random order, shape (n, dim).

        Quasi-random within each component: averages over them are at least as
        accurate as over independent draws.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None
        """
        return self._mixture.sample(_check_size("n", n), _rng(random_state))

    def mean(self):
        """Posterior mean, shape (dim,)."""
        return self._mixture.mean()

    def covariance(self):
        """Posterior covariance, shape (dim, dim)."""
        return self._mixture.covariance()

    def std(self):
        """Posterior standard deviations, shape (dim,)."""
        return self._mixture.std()

    def marginal(self, i):
        """Marginal of one coordinate: `Marginal` with pdf, cdf and quantile.

        Parameters
        ----------
        i : int or str
            Index (negative ones count from the end) or name of the coordinate.
        """
        return Marginal(self._mixture, self.index_of(i))

    def index_of(self, i):
        """Index of a coordinate given by index or name."""
        if isinstance(i, str):
            if self._names is None or i not in self._names:
                known = "it has none" if self._names is None else list(self._names)
                raise ValueError(
                    f"i must be one of the posterior's names ({known}); got {i!r}."
                )
            return self._names.index(i)
        if not -self.dim <= i < self.dim:
            raise ValueError(f"i must be an index below dim={self.dim}; got {i}.")
        return int(i) % self.dim

    def interval(self, level=0.9):
        """Central equal-tailed interval of every coordinate, shape (dim, 2).

        Parameters
        ----------
        level : float, default=0.9
            Probability inside, strictly between 0 and 1.
        """
        tail = 0.5 * (1.0 - check_level(level))
        return coordinate_intervals(self._mixture, [tail, 1.0 - tail])

    def modes(self):
        """Local maxima, highest first: list of `Mode`.

        Each has ``location``, ``log_density`` (nats), and the total ``weight`` and
        indices (``components``) of the components whose means climb to it.
        """
        return find_modes(self._mixture)

    def summary(self, level=0.9):
        """Table with one row per coordinate.

        Columns: mean, std, lower and upper end of the central interval that holds
        `level`, median, and the probability of a positive value.

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
        """
        return summary_table(self._mixture, self._names, level)

    def truncate(self, k):
        """The `k` heaviest components, weights divided by their sum."""
        k = _check_size("k", k)
        keep = np.zeros(self.n_components, dtype=bool)
        keep[np.argsort(-self.weights, kind="stable")[:k]] = True
        return MixturePosterior(self._mixture.keep(keep), self._names)

    def hellinger(self, other, n=10_000, random_state=None):
        """Hellinger distance to another posterior: `HellingerEstimate`.

        Parameters
        ----------
        other : MixturePosterior or Mixture
        n : int, default=10_000
            Draws, half from each.
        random_state : int, RandomState instance or None, default=None
        """
        other = getattr(other, "mixture", other)
        if other.dim != self.dim:
            raise ValueError(
                f"other must have dimension {self.dim}; got dimension {other.dim}."
            )
        n = max(_check_size("n", n), 2)
        return hellinger_distance(self._mixture, other, n, _rng(random_state))

    def importance_weights(self, log_joint, n=4000, random_state=None):
        """Draws weighted towards the exact posterior: `ImportanceSample`.

        Pareto-smoothed importance sampling (Vehtari et al. 2024), with k-hat,
        effective sample size and the log evidence.

        Parameters
        ----------
        log_joint : callable (n, dim) -> (n,), or object with ``log_density``
            Nats; -inf is legal.
        n : int, default=4000
        random_state : int, RandomState instance or None, default=None

        Raises
        ------
        ValueError
            If the log joint is NaN or +inf at a draw, or -inf at all.
        """
        n = _check_size("n", n)
        return importance_sample(self._mixture, log_joint, n, _rng(random_state))

    def resample(self, log_joint, n=1000, random_state=None, n_proposals=None):
        """`n` equally weighted draws of the importance-corrected posterior.

        Parameters
        ----------
        log_joint : callable (n, dim) -> (n,), or object with ``log_density``
        n : int, default=1000
        random_state : int, RandomState instance or None, default=None
        n_proposals : int, default=None
            Draws from the mixture that are weighted; None means ``max(4 n, 4000)``.

        Returns
        -------
        ImportanceSample
            `n` draws; heavy ones come more than once.
        """
        n, rng = _check_size("n", n), _rng(random_state)
        if n_proposals is None:
            n_proposals = max(4 * n, 4000)
        n_proposals = _check_size("n_proposals", n_proposals)
        weighted = importance_sample(self._mixture, log_joint, n_proposals, rng)
        return resample(weighted, n, rng)

    def to_arviz(self, n=4000, random_state=None, n_chains=4):
        """ArviZ data object with ``n`` draws as `n_chains` chains (extra ``arviz``).

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        """
        per_chain = -(-_check_size("n", n) // _check_size("n_chains", n_chains))
        draws = self.sample(per_chain * n_chains, random_state)
        return arviz_data(draws, self._names, n_chains)

    def save(self, path):
        """Write to exactly `path`: an npz archive without pickled objects."""
        save_mixture(path, self._mixture, self._names)

    @classmethod
    def load(cls, path):
        """Posterior that `save` wrote; refuses other files with a ValueError."""
        mixture, names = load_mixture(path)
        return cls(mixture, names)

    @classmethod
    def from_components(cls, components, weights, names=None):
        """Posterior from (family, params) pairs and their weights."""
        return cls(Mixture(tuple(components), weights), names)
