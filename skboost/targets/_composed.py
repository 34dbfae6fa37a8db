"""A posterior from its two halves: tempered, or with a mixture as prior."""

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
    def n_evaluations(self):
        """Evaluations of the likelihood, where it counts them."""
        return getattr(self.likelihood, "n_evaluations", 0)

    def log_density(self, theta):
        """Log joint at each draw; see `Target`."""
        likelihood = self.likelihood.log_density(theta)
        return self.temperature * likelihood + self.prior.log_density(theta)

    def value_and_score(self, theta):
        """Log joint and its gradient at each draw; see `Target`."""
        value, score = self.likelihood.value_and_score(theta)
        if hasattr(self.prior, "score_and_log_density"):
            prior_score, prior = self.prior.score_and_log_density(theta)
        else:
            prior, prior_score = self.prior.value_and_score(theta)
        return self.temperature * value + prior, self.temperature * score + prior_score
