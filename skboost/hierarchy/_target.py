"""Log posterior density of coefficients and scales, group effects integrated out."""

from skboost.targets import Target


class HierarchicalTarget(Target):
    """Log joint density of (beta, ln sigma..., ln sigma_y).

    Parameters
    ----------
    marginal : object
        With ``value_and_score(beta, levels[, noise_level])``, see `NormalMarginal`.
    prior : Prior
        Of the coefficients and the intercept.
    scale : ndarray of shape (n_columns,)
        Scales of that prior.
    scale_priors : sequence of ScalePrior
        Of the scales of group effects.
    noise_prior : object, default=None
        Of the noise scale, where there is one; with ``value_and_score(level)``.
    """

    # Predictions may be exponentials of scales.
    light_tails = True

    def __init__(self, marginal, prior, scale, scale_priors, noise_prior=None):
        self.marginal, self.prior, self.scale = marginal, prior, scale
        self.level_priors = [*scale_priors]
        if noise_prior is not None:
            self.level_priors.append(noise_prior)
        self.n_columns, self.n_scales = len(scale), len(scale_priors)
        self.dim = self.n_columns + len(self.level_priors)

    def split(self, theta):
        """What the marginal takes: coefficients, log scales, log noise scales."""
        levels = theta[:, self.n_columns :]
        parts = theta[:, : self.n_columns], levels[:, : self.n_scales]
        return (*parts, levels[:, -1]) if self.marginal.has_noise else parts

    def value_and_score(self, theta):
        value, score = self.marginal.value_and_score(*self.split(theta))
        beta = theta[:, : self.n_columns]
        more, slope = self.prior.value_and_score(beta, self.scale)
        value += more
        score[:, : self.n_columns] += slope
        for k, prior in enumerate(self.level_priors, start=self.n_columns):
            more, slope = prior.value_and_score(theta[:, k])
            value += more
            score[:, k] += slope
        return value, score
