"""A posterior from its two halves: tempered, or with a mixture as prior."""

import numpy as np

from skboost.targets._base import Target, failure_tolerant


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
    def n_evaluations(self):
        """Evaluations of the likelihood, where it counts them."""
        return getattr(self.likelihood, "n_evaluations", 0)

    @property
    def n_failures(self):
        """Points at which likelihood or prior failed, where they count them."""
        return sum(getattr(t, "n_failures", 0) for t in (self.likelihood, self.prior))

    @property
    def first_failure(self):
        """What happened at the first of these; None without failures."""
        found = (
            getattr(t, "first_failure", None) for t in (self.likelihood, self.prior)
        )
        return next((message for message in found if message is not None), None)

    def tolerant(self):
        """This target as searches see it; see `CallableTarget.tolerant`."""
        return ComposedTarget(
            failure_tolerant(self.likelihood),
            failure_tolerant(self.prior),
            self.temperature,
        )

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
        if hasattr(self.prior, "score_and_log_density"):
            score, value = self.prior.score_and_log_density(theta)
        else:
            value, score = self.prior.value_and_score(theta)
        inside = value > -np.inf
        if inside.any():
            likelihood, slope = self.likelihood.value_and_score(theta[inside])
            value[inside] += self.temperature * likelihood
            score[inside] += self.temperature * slope
        score[np.isneginf(value)] = 0.0
        return value, score
