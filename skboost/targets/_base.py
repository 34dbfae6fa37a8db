"""What every target offers and counts.

A temperature in Kelvin, a year or a Julian day has its zero far from all rows, where
nothing is known of a response. What is known of it before the data is about the centre
m of the columns, so the prior of an intercept is that of ``intercept + m . coef``, and
the same wherever the columns have their zeros. The coordinates stay those of the
columns as they are.
"""

import logging
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from skboost._budget import Budget


class Centre(NamedTuple):
    """The linear map between parameters and those that have independent priors.

    `columns` (n_features,) are the means, None without an intercept, which is last of
    each linear predictor's parameters.
    """

    columns: np.ndarray | None = None
    n_outputs: int = 1

    def about(self, theta):
        """Parameters (..., dim) with intercepts at the centre in place of at zero."""
        return self._intercepts(theta, 1.0)

    def back(self, theta):
        """The other way."""
        return self._intercepts(theta, -1.0)

    def pulled(self, score):
        """Slopes (..., dim) in parameters, from those in the ones about the centre."""
        return self._slopes(score, 1.0)

    def pushed(self, score):
        """The other way."""
        return self._slopes(score, -1.0)

    def variances(self, variances):
        """Marginal ones (..., dim) about the centre, of independent parameters."""
        return self._squared()._intercepts(variances, 1.0)

    def pulled_variances(self, slopes):
        """Slopes in variances of parameters, from those in the ones of `variances`."""
        return self._squared()._slopes(slopes, 1.0)

    def curvature(self, diagonal):
        """A diagonal curvature (dim,) about the centre, as a matrix of parameters."""
        return self.pulled(self.pulled(np.diag(diagonal)).T)

    def gaussians_back(self, means, covariances):
        """Means (n, dim) and covariances, or variances (n, dim), of parameters."""
        if np.ndim(covariances) < 3:
            return self.back(means), self.variances(covariances)
        return self.back(means), self.covariances_back(covariances)

    def covariances_back(self, covariances):
        """Covariances (..., dim, dim) of parameters."""
        return self.back(np.swapaxes(self.back(covariances), -1, -2))

    def _squared(self):
        squares = None if self.columns is None else self.columns**2
        return self._replace(columns=squares)

    def _intercepts(self, theta, sign):
        if self.columns is None:
            return theta
        theta, n = np.array(theta, dtype=float), len(self.columns)
        for last in self._places():
            theta[..., last] += sign * (theta[..., last - n : last] @ self.columns)
        return theta

    def _slopes(self, score, sign):
        if self.columns is None:
            return score
        score, n = np.array(score, dtype=float), len(self.columns)
        for last in self._places():
            score[..., last - n : last] += sign * score[..., last, None] * self.columns
        return score

    def _places(self):
        """Of the intercepts."""
        width = len(self.columns) + 1
        return range(width - 1, width * self.n_outputs, width)


_LOGGER = logging.getLogger("skboost")
# Seconds of evaluations after which a run says that it goes on.
_SILENCE = 10.0


class Ledger:
    """Evaluations and failures of a target, and what they may cost; threads share
    lists."""

    def __init__(self, counts=False):
        # Only functions of users are counted.
        self.counts = counts
        # The one that binds now.
        self.budget, self._raises = Budget(), False
        self._evaluated, self._failed, self._seconds = [], [], []
        self._asked = set()
        # Seconds of one evaluation in the request where that was least.
        self.pace = 0.0
        self._silent = 0.0
        # Called with the ledger and a number of draws before these are evaluated.
        self.before = None

    @contextmanager
    def within(self, budget, raises=True):
        """Inside, `budget` binds; work may look at it alone where it never raises."""
        outside = self.budget, self._raises
        self.budget, self._raises = budget, raises
        try:
            yield budget
        finally:
            self.budget, self._raises = outside

    def check(self, n=1):
        """Raise `BudgetSpent` where `n` evaluations do not fit in."""
        if self._raises:
            self.budget.check(n)

    def spend(self, n=1):
        """Count `n` draws that are about to be evaluated, or raise `BudgetSpent`."""
        self.check(n)
        if self.counts:
            if self.before is not None:
                self.before(self, n)
            self._evaluated.append(n)

    def finish(self, n, failures, seconds):
        """What a request of `n` draws took, and failures as pairs (n, message)."""
        self._failed.extend(failures)
        self._seconds.append(seconds)
        self.pace = min(self.pace or np.inf, seconds / max(n, 1))
        self._silent += seconds
        if self._silent > _SILENCE:
            self._silent = 0.0
            _LOGGER.info("%d evaluations so far.", self.n_evaluations)

    def record(self):
        """Evaluations, failures and the message of the first."""
        return [self.n_evaluations, self.n_failures, self.first_failure]

    def restore(self, n_evaluations, n_failures, first_failure):
        """Go on from the `record` of another process."""
        self._evaluated[:] = [int(n_evaluations)]
        self._failed[:] = [(int(n_failures), first_failure)] if n_failures else []

    def first_of(self, kind):
        """Whether no request of a kind came before."""
        first = kind not in self._asked
        self._asked.add(kind)
        return first

    @property
    def seconds(self):
        """That evaluations took, without those before the first request."""
        return sum(self._seconds)

    @property
    def n_requests(self):
        """How often draws were asked for, many at a time."""
        return len(self._seconds)

    @property
    def n_evaluations(self):
        """Draws at which the log density was evaluated, with or without gradient."""
        return sum(self._evaluated)

    @property
    def n_failures(self):
        """Draws at which a function failed."""
        return sum(n for n, _ in self._failed)

    @property
    def first_failure(self):
        """Message of the first failure, with the point; None without failures."""
        return self._failed[0][1] if self._failed else None


class Target:
    """Unnormalised log posterior density on R^dim."""

    # Whether ``expected_log_density(mean, variance, factor)`` gives the exact
    # expectation under a Gaussian.
    exact_gaussian = False
    # Whether the density is known to be log-concave.
    log_concave = False
    # Whether the search for a first component finds all modes, so that none can hide.
    modes_known = False
    # Where intercepts have their prior, and searches their coordinates.
    centring = Centre()
    # Mean and standard deviations, about the centre, of a narrow Gaussian near the
    # mode, from which ascent by natural gradients begins; None is zero, and 0.1. In
    # place of deviations there may be a root of the covariance.
    first_guess = None
    # Whether it is known that it can be normalised: what has no end then is a prior
    # that is too weak.
    proper = False
    # Whether draws that judge a surrogate are worth gradients, beside values.
    scores_draws = True
    # Whether there is ``expected_curvature(mean, factor)``, as regressions have it.
    knows_curvature = False
    # What a log says of it beside how a run begins.
    way = ""
    # `CommonScale` of coefficients whose scale is learned; there is
    # ``at_common_scale(s)`` then.
    scale_prior = None
    # Of a mixture of Gaussians as prior under a likelihood with exact expectations, the
    # weight of each component and the target that has this alone as its prior.
    prior_components = None
    # `Constraints` that map its coordinates to the scale of the user, where that is
    # another.
    constraints = None
    # Of what size moves of coordinates matter, a number or an array (dim,): a climb
    # begins with steps as long.
    unit = 1.0
    # How far out coordinates may lie, a number or an array (dim,).
    largest_coordinate = np.inf
    # Whether a pickle may carry it: it holds none of the data.
    portable = False
    dim: int

    @cached_property
    def ledger(self):
        """What its evaluations are counted in, and what stops them."""
        return Ledger()

    # Draws at which it was evaluated, where these are counted.
    n_evaluations = property(attrgetter("ledger.n_evaluations"))

    # Draws at which that failed.
    n_failures = property(attrgetter("ledger.n_failures"))

    # What happened at the first of these; None without failures.
    first_failure = property(attrgetter("ledger.first_failure"))

    # Whose expectations may be finer, where there are any.
    likelihood = None

    def finer(self):
        """The target whose expectations judge what a search by this one has found."""
        if self.likelihood is None or not self.exact_gaussian:
            return self
        view = copy(self)
        view.likelihood = self.likelihood.finer()
        return view

    def log_density(self, theta, strict=False):
        """Log joint density (n_draws,) of draws (n_draws, dim), nats; -inf is outside
        the support.

        Where a user's function fails it is -inf, or an error of a `strict` request.
        """
        return self.value_and_score(theta)[0]

    def value_and_score(self, theta, strict=False):
        """Log joint density (n_draws,) and its gradient (n_draws, dim)."""
        raise NotImplementedError(
            f"{type(self).__name__} must define value_and_score(theta)."
        )
