"""The approximate posterior as users meet it."""

import numpy as np

from skboost._random import generator, root_seed
from skboost.mixtures import Mixture
from skboost.posterior._distance import hellinger_distance
from skboost.posterior._errors import estimate_errors
from skboost.posterior._evidence import estimate_evidence
from skboost.posterior._importance import (
    importance_sample,
    resample,
    warn_heavy_tail,
)
from skboost.posterior._marginal import Marginal, check_level
from skboost.posterior._modes import find_modes
from skboost.posterior._storage import load_mixture, save_mixture
from skboost.posterior._tables import (
    arviz_data,
    check_names,
    quantile_table,
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
    constraints : Constraints or None
        None: the parameter may lie anywhere. See `TransformedPosterior`.

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

    constraints = None

    def __init__(self, mixture, names=None):
        self._mixture = mixture.drop_zero_weights()
        self._names = check_names(names, self.dim)

    def __repr__(self):
        return f"MixturePosterior(dim={self.dim}, n_components={self.n_components})"

    @property
    def mixture(self):
        return self._mixture

    @property
    def names(self):
        return self._names

    def _with_mixture(self, mixture):
        """The same posterior of another mixture."""
        return type(self)(mixture, self._names)

    def _draw(self, n, rng):
        """Draws and their log densities."""
        theta = self._mixture.sample(n, rng)
        return theta, self._mixture.log_density(theta)

    def _quantiles(self, levels):
        """Quantiles at probabilities `levels`, shape (dim, len)."""
        return quantile_table(self._mixture, levels)

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

    def _marginals(self):
        """Marginals of all coordinates."""
        return [self.marginal(i) for i in range(self.dim)]

    def index_of(self, i):
        """Index of a coordinate given by index or name."""
        if isinstance(i, str):
            if self._names is None or i not in self._names:
                known = "it has none" if self._names is None else list(self._names)
                raise ValueError(
                    f"i must be one of the posterior's names ({known}); got {i!r}."
                )
            return self._names.index(i)
        if not isinstance(i, int | np.integer) or not -self.dim <= i < self.dim:
            raise ValueError(
                f"i must be an index below dim={self.dim} or a name; got {i!r}."
            )
        return int(i) % self.dim

    def interval(self, level=0.9):
        """Central equal-tailed interval of every coordinate, shape (dim, 2).

        Parameters
        ----------
        level : float, default=0.9
            Probability inside, strictly between 0 and 1.
        """
        tail = 0.5 * (1.0 - check_level(level))
        return self._quantiles([tail, 1.0 - tail])

    def modes(self):
        """Local maxima, highest first: list of `Mode`.

        Each has ``location``, ``log_density`` (nats), the total ``weight`` and the
        indices (``components``) of the components whose means climb to it, and its
        ``distance`` from the highest mode in standard deviations.
        """
        return find_modes(self._mixture)

    def summary(self, level=0.9):
        """Table with one row per coordinate.

        Columns: mean, std, lower and upper end of the central interval that holds
        `level`, median, and the probability of a positive value.

        Parameters
        ----------
        level : float, default=0.9
            Probability inside, strictly between 0 and 1.

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
        """
        tail = 0.5 * (1.0 - check_level(level))
        lower, median, upper = self._quantiles([tail, 0.5, 1.0 - tail]).T
        below = [marginal.cdf(0.0) for marginal in self._marginals()]
        columns = {
            "mean": self.mean(),
            "std": self.std(),
            "lower": lower,
            "median": median,
            "upper": upper,
            "probability_positive": 1.0 - np.array(below),
        }
        return summary_table(columns, self._names)

    def truncate(self, k):
        """The `k` heaviest components, weights divided by their sum."""
        k = _check_size("k", k)
        keep = np.zeros(self.n_components, dtype=bool)
        keep[np.argsort(-self.weights, kind="stable")[:k]] = True
        return self._with_mixture(self._mixture.keep(keep))

    def hellinger(self, other, n=10_000, random_state=None):
        """Hellinger distance to another posterior: `HellingerEstimate`.

        Parameters
        ----------
        other : MixturePosterior or Mixture
        n : int, default=10_000
            Draws, half from each.
        random_state : int, RandomState instance or None, default=None
        """
        if other.dim != self.dim:
            raise ValueError(
                f"other must have dimension {self.dim}; got dimension {other.dim}."
            )
        if getattr(other, "constraints", None) != self.constraints:
            raise ValueError(
                "other must have the same constraints; got "
                f"{getattr(other, 'constraints', None)} beside {self.constraints}."
            )
        other = getattr(other, "mixture", other)
        n = max(_check_size("n", n), 2)
        return hellinger_distance(self._mixture, other, n, _rng(random_state))

    def importance_weights(self, log_joint, n=4000, random_state=None):
        """Draws weighted towards the exact posterior: `ImportanceSample`.

        Pareto-smoothed importance sampling (Vehtari et al. 2024), with k-hat,
        effective sample size and the log evidence. A k-hat above 0.7 says that the
        weights are not reliable. A small one is no proof that they are: it sees the
        target only where the mixture has draws, and misses a mode that it never
        reaches (Campbell & Li 2019, section 2).

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

        Warns
        -----
        ImportanceWarning
            If k-hat is above 0.7.
        """
        drawn = self._draw(_check_size("n", n), _rng(random_state))
        weighted = importance_sample(*drawn, log_joint)
        warn_heavy_tail(weighted.khat, stacklevel=2)
        return weighted

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

        Warns
        -----
        ImportanceWarning
            If k-hat is above 0.7; a small one is no proof, see `importance_weights`.
        """
        n, rng = _check_size("n", n), _rng(random_state)
        if n_proposals is None:
            n_proposals = max(4 * n, 4000)
        n_proposals = _check_size("n_proposals", n_proposals)
        weighted = importance_sample(*self._draw(n_proposals, rng), log_joint)
        warn_heavy_tail(weighted.khat, stacklevel=2)
        return resample(weighted, n, rng)

    def evidence(self, log_joint, n=4000, level=0.95, random_state=None):
        """Log evidence from fresh draws: `Evidence`, a bound and an estimate.

        Parameters
        ----------
        log_joint : callable (n, dim) -> (n,), or object with ``log_density``
            Nats; -inf is legal.
        n : int, default=4000
        level : float, default=0.95
            Confidence of either end of ``interval`` against Monte Carlo error.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        Evidence
            ``elbo`` estimates a lower bound of ln Z; ``log_evidence`` estimates ln Z
            by importance sampling and bounds nothing; each with a standard error.

        Warns
        -----
        ImportanceWarning
            If k-hat is above 0.7.
        """
        level = check_level(level)
        drawn = self._draw(_check_size("n", n), _rng(random_state))
        evidence = estimate_evidence(*drawn, log_joint, level)
        warn_heavy_tail(evidence.khat, stacklevel=2)
        return evidence

    def error_estimates(self, log_joint, n=4000, random_state=None):
        """Distances to the exact posterior and what follows: `ErrorEstimates`.

        Hellinger distance, bounds of total variation, Wasserstein distance and
        moments, and of the error of importance sampling (Campbell & Li 2019,
        Propositions 4 to 8). All are estimates from this posterior's own draws and
        blind to what it never reaches.

        Parameters
        ----------
        log_joint : callable (n, dim) -> (n,), or object with ``log_density``
            Nats; -inf is legal.
        n : int, default=4000
        random_state : int, RandomState instance or None, default=None

        Warns
        -----
        ImportanceWarning
            If k-hat is above 0.7.
        """
        drawn = self._draw(_check_size("n", n), _rng(random_state))
        errors = estimate_errors(*drawn, log_joint)
        warn_heavy_tail(errors.khat, stacklevel=2)
        return errors

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
        save_mixture(path, self._mixture, self._names, self.constraints)

    @staticmethod
    def load(path):
        """Posterior that `save` wrote; refuses other files with a ValueError.

        Returns
        -------
        MixturePosterior or TransformedPosterior
            Whichever was saved.
        """
        return as_posterior(*load_mixture(path))

    @classmethod
    def from_components(cls, components, weights, names=None):
        """Posterior from (family, params) pairs and their weights."""
        return cls(Mixture(tuple(components), weights), names)


def as_posterior(mixture, names=None, constraints=None):
    """The posterior of a mixture: `TransformedPosterior` where it has constraints."""
    if constraints is None:
        return MixturePosterior(mixture, names)
    # The one is made of the other, so this import cannot stand at the top.
    from skboost.posterior._transformed import TransformedPosterior

    return TransformedPosterior(mixture, constraints, names)
