"""What posteriors answer on any scale: summaries, distances, importance sampling."""

from copy import copy
from dataclasses import replace
from html import escape

import numpy as np

from skboost.approximation import TAIL_DRAWS, heavy_tailed, log_evidence
from skboost.posterior._backed import (
    MixtureBacked,
    as_generator,
    check_names,
    check_size,
    resampled,
    summary_table,
    warn_of_heavy_tails,
    weighted,
)
from skboost.posterior._importance import (
    Evidence,
    LogJointTarget,
    evaluate_log_joint,
    hellinger_distance,
    unwarped,
)
from skboost.posterior._marginal import check_level
from skboost.posterior._storage import save_mixture
from skboost.targets import TransformedTarget


class BasePosterior(MixtureBacked):
    """A mixture under its coordinates' names, and what follows from a few methods.

    A subclass has ``dim``, ``mean``, ``std`` and ``sample`` on the user's scale,
    ``_quantiles`` and ``_marginals``.
    """

    __slots__ = ("_names",)

    constraints = None

    def __init__(self, mixture, names=None):
        super().__init__(mixture)
        self._names = check_names(names, self.dim)

    @property
    def names(self):
        return self._names

    def index_of(self, i):
        """Index of a coordinate `i` that is given by index or name."""
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

    def renamed(self, names):
        """The same posterior with other `names`, distinct strings; None takes them
        off."""
        other = copy(self)
        other._names = check_names(names, self.dim)
        return other

    def interval(self, level=0.9):
        """Central equal-tailed interval of every coordinate, shape (dim, 2).

        Parameters
        ----------
        level : float, default=0.9
            Probability inside, strictly between 0 and 1.
        """
        tail = 0.5 * (1.0 - check_level(level))
        return self._quantiles([tail, 1.0 - tail])

    def summary(self, level=0.9):
        """Table with one row per coordinate.

        Columns: mean, std, lower and upper end of the central interval that holds
        `level`, median, and the probability of a positive value. With orbits it is that
        of the reweighted posterior; ``coef_`` of an estimator is the mean before them.
        Of periodic coordinates mean and std are circular, and the interval is the arc
        from lower upwards, which may pass the end of the period; a column ``circular``
        says which they are.

        Parameters
        ----------
        level : float, default=0.9

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
        """
        tail = 0.5 * (1.0 - check_level(level))
        lower, median, upper = self._quantiles([tail, 0.5, 1.0 - tail]).T
        below = [marginal.cdf(0.0) for marginal in self._marginals(range(self.dim))]
        columns = {
            "mean": self.mean(),
            "std": self.std(),
            "lower": lower,
            "median": median,
            "upper": upper,
            "probability_positive": 1.0 - np.array(below),
        }
        periodic = {} if self.constraints is None else self.constraints.periodic
        if periodic:
            columns["circular"] = np.isin(np.arange(self.dim), list(periodic))
        return summary_table(columns, self._names)

    def _repr_html_(self):
        """What notebooks show: the summary, of up to a thousand coordinates."""
        table = self.summary() if self.dim <= 1000 else None
        if hasattr(table, "to_html"):
            return table.to_html(max_rows=20, float_format="{:.4g}".format)
        return f"<pre>{escape(repr(self))}</pre>"

    def hellinger(self, other, n=10_000, random_state=None):
        """Hellinger distance to another posterior, with its error: `HellingerEstimate`.

        Parameters
        ----------
        other : MixturePosterior or Mixture
        n : int, default=10_000
            Draws, half from each.
        random_state : int, RandomState instance or None, default=None
        """
        if not isinstance(other, BasePosterior):
            if not hasattr(other, "drop_zero_weights"):
                raise ValueError(
                    "other must be a posterior, such as posterior_ of a regression, or "
                    f"a Mixture; got {type(other).__name__}."
                )
            other = BasePosterior(other)
        if other.dim != self.dim:
            raise ValueError(
                f"other must have dimension {self.dim}; got dimension {other.dim}."
            )
        # Neither constraints nor warps change a distance where both have the same.
        (own, constraints), (its, others) = unwarped(self), unwarped(other)
        if other.constraints == self.constraints:
            own, its = self._mixture.exact, other._mixture.exact
        elif others != constraints:
            raise ValueError(
                "other must have the same constraints; got "
                f"{other.constraints} beside {self.constraints}."
            )
        n = max(check_size("n", n), 2)
        return hellinger_distance(own, its, n, as_generator(random_state))

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
        return self._weighted(log_joint, n, random_state)

    def with_log_joint(self, log_joint):
        """The same posterior, which knows the log joint that reweights it.

        The density of a posterior with orbits (``orbit="auto"``) needs it; pickles and
        files do not have it. Without orbits the posterior is this one.

        Parameters
        ----------
        log_joint : callable (n, dim) -> (n,), or object with ``log_density``
            Nats, the one that the posterior was fitted to.
        """
        if not self._mixture.orbiting:
            return self
        target = LogJointTarget(log_joint, self.dim)
        if self.constraints is not None:
            target = TransformedTarget(target, self.constraints)
        return self._with_mixture(replace(self._mixture, target=target))

    def _weighted(self, log_joint, n, random_state):
        """`ImportanceSample` of `n` fresh draws; warns the caller's caller."""
        n, rng = check_size("n", n), as_generator(random_state)
        return weighted(self.with_log_joint(log_joint)._draw(n, rng), log_joint)

    def resample(self, log_joint, n=1000, random_state=None, n_proposals=None):
        """`n` equally weighted draws of the corrected posterior: `ImportanceSample`.

        Parameters
        ----------
        log_joint : callable (n, dim) -> (n,), or object with ``log_density``
        n : int, default=1000
            Heavy draws come more than once.
        random_state : int, RandomState instance or None, default=None
        n_proposals : int, default=None
            Draws from the mixture that are weighted; None means ``max(4 n, 4000)``.

        Warns
        -----
        ImportanceWarning
            As `importance_weights`.
        """
        rng = as_generator(random_state)
        draw = self.with_log_joint(log_joint)._draw
        return resampled(draw, log_joint, n, n_proposals, rng)

    def evidence(self, log_joint, n=4000, level=0.95, random_state=None):
        """Log evidence from fresh draws: `Evidence`, a bound and an estimate.

        Parameters
        ----------
        log_joint : callable (n, dim) -> (n,), or object with ``log_density``
            Nats; -inf is legal.
        n : int, default=4000
            Draws of the posterior.
        level : float, default=0.95
            Confidence of either end of ``interval`` against Monte Carlo error.
        random_state : int, RandomState instance or None, default=None

        Warns
        -----
        ImportanceWarning
            If k-hat is above 0.7 and a draw carries more than 1 % of all weight. From
            0.5 on the standard error of ``log_evidence`` is infinite in that case.
        """
        level = check_level(level)
        n, rng = check_size("n", n), as_generator(random_state)
        known = self.with_log_joint(log_joint)
        own, tails = known._mixture, heavy_tailed(self.mixture)
        n_tails = max(int(TAIL_DRAWS * n), 2)
        z = np.concatenate([own.exact.sample(n, rng), tails.sample(n_tails, rng)])
        theta, log_q, log_tails = known._placed(z, own, tails)
        values = evaluate_log_joint(log_joint, theta)
        rows = np.full(n, 1.0 / n), np.full(n_tails, 1.0 / n_tails)
        found = log_evidence(values, log_q, log_tails, rows)
        if not found.reliable:
            warn_of_heavy_tails(found.khat, stacklevel=3)
        given = found.value, found.known_se, found.khat
        return Evidence.of(values[:n] - log_q[:n], *given, level)

    def error_estimates(self, log_joint, n=4000, random_state=None):
        """Distances to the exact posterior and what follows: `ErrorEstimates`.

        Hellinger distance, bounds of total variation, Wasserstein distance and
        moments, and of the error of importance sampling (Campbell & Li 2019,
        Propositions 4 to 8). All are estimates from this posterior's own draws and
        blind to what it never reaches.

        Parameters
        ----------
        log_joint, n, random_state
            As in `importance_weights`, with the same warning.
        """
        return self._weighted(log_joint, n, random_state).errors()

    def _named(self, draws):
        if self._names is None:
            return {"theta": draws}
        return dict(zip(self._names, draws.T, strict=True))

    def save(self, path):
        """Write to `path` (str or path-like): an npz archive without pickled
        objects."""
        save_mixture(path, self._mixture, self._names, self.constraints)
