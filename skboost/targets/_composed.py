"""Targets made of others: tempered, with a mixture as prior, in other coordinates."""

from functools import cached_property

import numpy as np

from skboost.targets._base import Target
from skboost.transforms import Ordered, Real


class ComposedTarget(Target):
    """``temperature * log likelihood + log prior``, the prior a mixture."""

    def __init__(self, likelihood, prior, temperature=1.0):
        self.likelihood, self.prior = likelihood, prior
        self.temperature = temperature
        self.dim = likelihood.dim
        self.ledger = likelihood.ledger

    @property
    def modes_known(self):
        """With one Gaussian each under a log-concave likelihood there is a mode at most
        for every component of the prior."""
        return self.likelihood.log_concave and self.prior_components is not None

    @cached_property
    def prior_components(self):
        """See `Target`."""
        one = not self.prior.gaussian or self.prior.n_components == 1
        if one or not self.likelihood.exact_gaussian:
            return None
        one, prior = np.eye(self.prior.n_components, dtype=bool), self.prior
        given = [
            GaussianPriorTarget(self.likelihood, prior.keep(mask), self.temperature)
            for mask in one
        ]
        return list(zip(prior.weights, given, strict=True))

    def log_density(self, theta, strict=False):
        """Log joint at each draw; see `Target`."""
        self.ledger.check(len(theta))
        value = self.prior.log_density(theta)
        inside = value > -np.inf
        # Outside the prior's support the likelihood may well be no number.
        if inside.any():
            likelihood = self.likelihood.log_density(theta[inside], strict)
            value[inside] += self.temperature * likelihood
        return value

    def value_and_score(self, theta, strict=False):
        """Log joint and its gradient at each draw; see `Target`."""
        self.ledger.check(len(theta))
        score, value = self.prior.score_and_log_density(theta)
        inside = value > -np.inf
        if inside.any():
            some = theta[inside]
            likelihood, slope = self.likelihood.value_and_score(some, strict)
            value[inside] += self.temperature * likelihood
            score[inside] += self.temperature * slope
        score[np.isneginf(value)] = 0.0
        return value, score


class GaussianPriorTarget(ComposedTarget):
    """The same with one Gaussian as prior: exact where the likelihood is."""

    exact_gaussian = knows_curvature = True

    def __init__(self, likelihood, prior, temperature=1.0):
        super().__init__(likelihood, prior, temperature)
        (component,) = prior.components
        self._mean, covariance = component.moments()
        self._precision = np.linalg.inv(covariance)
        # E ln N is the density at the mean, less half of what a Gaussian spreads.
        self._peak = component.log_density(self._mean[None])[0]
        std = np.sqrt(np.diagonal(covariance))
        self.first_guess = self._mean, 0.1 * std

    def expected_log_density(self, mean, variance=None, factor=None):
        """As `GLMTarget.expected_log_density`."""
        value, *slopes = self.likelihood.expected_log_density(mean, variance, factor)
        g_mean, g_variance, g_factor = (
            None if slope is None else self.temperature * slope for slope in slopes
        )
        log_prior, pull = self._prior_at(mean)
        value = self.temperature * value + log_prior
        if variance is not None:
            spread = np.diagonal(self._precision)
            value -= 0.5 * spread @ variance
            g_variance = g_variance - 0.5 * spread
        if factor is not None:
            spread = self._precision @ factor
            value -= 0.5 * np.sum(factor * spread)
            g_factor = g_factor - spread
        return value, g_mean + pull, g_variance, g_factor

    def expected_curvature(self, mean, factor):
        """As `GLMTarget.expected_curvature`."""
        value, g_mean, curvature = self.likelihood.expected_curvature(mean, factor)
        log_prior, pull = self._prior_at(mean)
        log_prior -= 0.5 * np.sum(factor * (self._precision @ factor))
        return (
            self.temperature * value + log_prior,
            self.temperature * g_mean + pull,
            self.temperature * curvature + self._precision,
        )

    def _prior_at(self, mean):
        """Log prior density and its gradient."""
        pull = self._precision @ (self._mean - mean)
        return self._peak - 0.5 * (self._mean - mean) @ pull, pull


def updated_target(likelihood, prior, temperature=1.0):
    """A likelihood with a mixture as prior, with exact expectations where it can."""
    one = prior.n_components == 1 and prior.gaussian
    if one and likelihood.exact_gaussian:
        return GaussianPriorTarget(likelihood, prior, temperature)
    return ComposedTarget(likelihood, prior, temperature)


class CentredTarget(Target):
    """A target in parameters about its `Centre`."""

    def __init__(self, target):
        self.target, self.dim, self.ledger = target, target.dim, target.ledger
        for name in ("exact_gaussian", "knows_curvature", "log_concave"):
            setattr(self, name, getattr(target, name))
        if target.first_guess is not None:
            mean, width = target.first_guess
            width = width if width.ndim == 1 else target.centring.about(width.T).T
            self.first_guess = target.centring.about(mean), width

    def log_density(self, theta, strict=False):
        """Log joint at each draw; see `Target`."""
        return self.target.log_density(self.target.centring.back(theta), strict)

    def value_and_score(self, theta, strict=False):
        """Log joint and its gradient at each draw; see `Target`."""
        place, push = self.target.centring.back(theta), self.target.centring.pushed
        value, score = self.target.value_and_score(place, strict)
        return value, push(score)

    def expected_log_density(self, mean, variance=None, factor=None):
        """As `GLMTarget.expected_log_density`; there is a factor, and no variance."""
        back, push = self.target.centring.back, self.target.centring.pushed
        place = back(mean), variance, back(factor.T).T
        value, mean, _, factor = self.target.expected_log_density(*place)
        return value, push(mean), None, push(factor.T).T

    def expected_curvature(self, mean, factor):
        """As `GLMTarget.expected_curvature`."""
        back, push = self.target.centring.back, self.target.centring.pushed
        place = back(mean), back(factor.T).T
        value, slope, bend = self.target.expected_curvature(*place)
        return value, push(slope), push(push(bend).T)


# Half of the way to where transforms stop to change, and more than any scale needs.
_LARGEST = 300.0


class TransformedTarget(Target):
    """``ln p(forward(z)) + ln |d forward / d z|`` for a density p on a user's scale.

    On a simplex p is a density of all coordinates but the last, as in Stan.
    """

    def __init__(self, target, constraints):
        self.target, self.constraints = target, constraints
        self.dim = constraints.n_free
        self.ledger = target.ledger

    @property
    def largest_coordinate(self):
        """How far out coordinates may lie, shape (dim,): e^300 is no scale."""
        largest = np.full(self.dim, np.inf)
        for transform, _, free in self.constraints.parts:
            if isinstance(transform, Ordered):
                free = free[1:]
            if not isinstance(transform, Real):
                largest[free] = _LARGEST
        return largest

    def log_density(self, theta, strict=False):
        """Log joint at unconstrained draws; see `Target`."""
        z = np.atleast_2d(theta)
        value = self.target.log_density(self.constraints.forward(z), strict)
        return value + self.constraints.log_jacobian(z)

    def value_and_score(self, theta, strict=False):
        """Log joint at unconstrained draws and its gradient; see `Target`."""
        points, log_jacobian, pull = self.constraints.mapped(np.atleast_2d(theta))
        value, score = self.target.value_and_score(points, strict)
        with np.errstate(over="ignore", invalid="ignore"):
            pulled = pull(score)
        # Steeper slopes say nothing that a search could use, and their squares
        # overflow.
        steepest = 1e150
        pulled = np.clip(np.nan_to_num(pulled), -steepest, steepest)
        # Where the density is zero its score is undefined.
        pulled[np.isneginf(value)] = 0.0
        return value + log_jacobian, pulled


class LogJoint(Target):
    """The log joint density of a fitted model and some rows, as a function.

    Posteriors take it where they ask for a ``log_joint``, and `boost_posterior` as its
    `log_density`, with ``gradient``. It holds the rows that it was made of.

    Parameters
    ----------
    target : Target
    names : sequence of str, default=None
        Of the parameters, in their order.

    Attributes
    ----------
    dim : int
        Number of parameters.
    names : tuple of str or None
    """

    def __init__(self, target, names=None):
        self._target = target
        self.dim = target.dim
        self.names = None if names is None else tuple(names)

    def __repr__(self):
        return f"LogJoint(dim={self.dim})"

    def __call__(self, theta):
        """Log joint density in nats, (n,), of `theta` (n, dim), or a float of one
        point (dim,)."""
        theta = np.asarray(theta, dtype=float)
        value = self._target.log_density(np.atleast_2d(theta))
        return value if theta.ndim > 1 else float(value[0])

    def gradient(self, theta):
        """Gradient of the log joint density, of the shape of `theta`."""
        return self.value_and_gradient(theta)[1]

    def value_and_gradient(self, theta):
        """Both for the price of the gradient."""
        theta = np.asarray(theta, dtype=float)
        value, score = self._target.value_and_score(np.atleast_2d(theta))
        return (value, score) if theta.ndim > 1 else (float(value[0]), score[0])

    def value_and_score(self, theta, strict=False):
        """Log joint density (n,) and its gradient (n, dim); see `Target`."""
        return self._target.value_and_score(theta, strict)

    def log_density(self, theta, strict=False):
        """Log joint density (n,); see `Target`."""
        return self._target.log_density(theta, strict)
