"""A posterior from its two halves: tempered, or with a mixture as prior."""

from copy import copy

import numpy as np

from skboost.targets._base import Target


class ComposedTarget(Target):
    """``temperature * log likelihood + log prior``.

    Parameters
    ----------
    likelihood : Target
    prior : object
        With ``score_and_log_density(theta)``, as a mixture has, or a `Target`.
    temperature : float, default=1.0
        Power of the likelihood (Alquier: tempered posteriors).
    """

    def __init__(self, likelihood, prior, temperature=1.0):
        self.likelihood, self.prior = likelihood, prior
        self.temperature = temperature
        self.dim = likelihood.dim

    @property
    def light_tails(self):
        """That of the likelihood."""
        return self.likelihood.light_tails

    @property
    def _targets(self):
        """The halves that can fail: a mixture as prior cannot."""
        halves = (self.likelihood, self.prior)
        return [half for half in halves if isinstance(half, Target)]

    @property
    def ledgers(self):
        """What counts evaluations of either; see `CallableTarget.ledgers`."""
        return sum((target.ledgers for target in self._targets), ())

    @property
    def n_evaluations(self):
        """Evaluations of the likelihood, where it counts them."""
        return self.likelihood.n_evaluations

    @property
    def n_failures(self):
        """Points at which likelihood or prior failed, where they count them."""
        return sum(target.n_failures for target in self._targets)

    @property
    def first_failure(self):
        """What happened at the first of these; None without failures."""
        found = (target.first_failure for target in self._targets)
        return next((message for message in found if message is not None), None)

    def tolerant(self):
        """This target as searches see it; see `CallableTarget.tolerant`."""
        prior = self.prior.tolerant() if isinstance(self.prior, Target) else self.prior
        return ComposedTarget(self.likelihood.tolerant(), prior, self.temperature)

    def log_density(self, theta):
        """Log joint at each draw; see `Target`."""
        value = self.prior.log_density(theta)
        inside = value > -np.inf
        # Outside the prior's support the likelihood may well be no number.
        if inside.any():
            likelihood = self.likelihood.log_density(theta[inside])
            value[inside] += self.temperature * likelihood
        return value

    def value_and_score(self, theta):
        """Log joint and its gradient at each draw; see `Target`."""
        if isinstance(self.prior, Target):
            value, score = self.prior.value_and_score(theta)
        else:
            score, value = self.prior.score_and_log_density(theta)
        inside = value > -np.inf
        if inside.any():
            likelihood, slope = self.likelihood.value_and_score(theta[inside])
            value[inside] += self.temperature * likelihood
            score[inside] += self.temperature * slope
        score[np.isneginf(value)] = 0.0
        return value, score


class GaussianPriorTarget(ComposedTarget):
    """The same with one Gaussian as prior: exact where the likelihood is.

    Parameters
    ----------
    likelihood : Target
        With ``expected_log_density`` and ``expected_curvature``.
    prior : Mixture
        Of one Gaussian component.
    temperature : float, default=1.0
    """

    exact_gaussian = knows_curvature = True

    def __init__(self, likelihood, prior, temperature=1.0):
        super().__init__(likelihood, prior, temperature)
        ((family, params),) = prior.components
        self._mean, covariance = family.moments(params)
        self._precision = np.linalg.inv(covariance)
        # E ln N is the density at the mean, less half of what a Gaussian spreads.
        self._peak = family.log_density(self._mean[None], params)[0]
        std = np.sqrt(np.diagonal(covariance))
        self.first_guess = self._mean, 0.1 * std

    def tolerant(self):
        """This target with the likelihood's coarser expectations."""
        view = copy(self)
        view.likelihood = self.likelihood.tolerant()
        return view

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

    def expected_values(self, structures):
        """As `GLMTarget.expected_values`."""
        values = self.temperature * self.likelihood.expected_values(structures)
        return values + np.array([self._expected_prior(*s) for s in structures])

    def _expected_prior(self, mean, variance=None, factor=None):
        value = self._prior_at(mean)[0]
        if variance is not None:
            value -= 0.5 * np.diagonal(self._precision) @ variance
        if factor is not None:
            value -= 0.5 * np.sum(factor * (self._precision @ factor))
        return value

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
    """A likelihood with a mixture as prior, with exact expectations where it can.

    Parameters
    ----------
    likelihood : Target
    prior : Mixture
    temperature : float, default=1.0

    Returns
    -------
    ComposedTarget
    """
    one = prior.n_components == 1 and prior.gaussian
    if one and likelihood.exact_gaussian:
        return GaussianPriorTarget(likelihood, prior, temperature)
    return ComposedTarget(likelihood, prior, temperature)
