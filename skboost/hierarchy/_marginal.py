"""What Laplace's method and quadrature share: rows, their likelihood, its parameter."""


class LikelihoodMarginal:
    """Log likelihood of a generalised linear model with groups.

    Subclasses give ``_integrated(beta, levels, noise_level)``, value and gradient but
    for what the rows have in common.
    """

    cheap = integrates_coefficients = False

    def __init__(self, rows, likelihood):
        rows, self.constant = rows.merged(likelihood)
        self.rows = rows.sorted()
        self.likelihood, self.has_noise = likelihood, likelihood.has_level
        self.linear = likelihood.linear(self.rows.y)

    def value_and_score(self, beta, levels, noise_level=None):
        """Log likelihood of each draw of coefficients, log scales of effects and, where
        there is one, log dispersion; and its gradient.
        """
        value, score = self._integrated(beta, levels, noise_level)
        if self.has_noise:
            rows = self.rows
            more, slope = self.likelihood.own_terms(rows.y, rows.weight, noise_level)
            value += more
            score[:, -1] += slope
        return value + self.constant, score

    def _without_effects(self, beta):
        """Linear predictors where all group effects are zero, (n_rows, n_draws)."""
        eta = self.rows.X @ beta.T
        return eta if self.rows.offset is None else eta + self.rows.offset[:, None]

    def _value_and_slopes(self, eta, likelihood):
        """Weighted log likelihood of rows, and its slopes in eta and log dispersion."""
        weight, linear = self.rows.weight[:, None], self.linear[:, None]
        y = self.rows.y[:, None]
        value, slope = likelihood.value_and_slope(eta.copy(), y)
        by_level = None
        if self.has_noise:
            by_level = weight * likelihood.by_level(value, slope, y)
        return weight * (value + linear * eta), weight * (slope + linear), by_level
