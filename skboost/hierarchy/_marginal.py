"""Log likelihoods of grouped rows: what is known of each, and what rows share."""

import numpy as np

from skboost._parallel import row_blocks


class Marginal:
    """A log likelihood of which group effects are integrated out; this is its kind."""

    # Whether values are exact, but for rounding or what quadrature leaves.
    exact = True
    # Whether it is one of scales alone; `weighted_effects` then draws coefficients, and
    # where it `weighs_scales` its weights make draws of scales exact, too.
    integrates_coefficients = weighs_scales = False
    # What a value costs: "free", less than one of a surrogate that would stand for it;
    # "little", less than fits of surrogates and searches on these; or "much".
    cost = "much"
    # Whether coefficients given scales take the algebra of small matrices alone.
    quick = True
    # Coordinates of a density up to which a lattice is cheaper than draws: one of two
    # has 90 to 230 nodes, fewer than the draws that boosting would be judged by.
    lattice_dim = 2
    # What all rows share beside coefficients: a log noise scale of normal ones.
    n_further = 1
    # How effects are integrated out, as a log has it.
    way = "by quadrature"

    def value(self, beta, levels, *further):
        """Log likelihood alone."""
        return self.value_and_score(beta, levels, *further)[0]


class LikelihoodMarginal(Marginal):
    """Log likelihood of a generalised linear model with groups.

    Subclasses give ``_integrated(beta, levels, further)``, value and gradient but
    for what the rows have in common.
    """

    def __init__(self, rows, likelihood, merge=True):
        rows, self.constant = rows.merged(likelihood) if merge else (rows, 0.0)
        self.rows = rows.sorted()
        self.likelihood, self.n_further = likelihood, likelihood.n_further
        self.linear = likelihood.linear(self.rows.y)
        self._own = self.rows.y, self.rows.weight

    def value_and_score(self, beta, levels, *further):
        """Log likelihood of each draw of coefficients, log scales of effects and what
        all rows share, one argument for each, such as a log dispersion; its gradient.
        """
        value, score = self._integrated(beta, levels, further)
        more, slope = self._shared(*further)
        if self.n_further:
            score[:, -1] += slope
        return value + more + self.constant, score

    def _shared(self, *further):
        """What effects do not enter, and its slope in the last parameter."""
        if not self.n_further:
            return 0.0, 0.0
        return self.likelihood.own_terms(*self._own, *further)

    def _without_effects(self, beta):
        """Linear predictors where all group effects are zero, (n_rows, n_draws)."""
        eta = self.rows.X @ beta.T
        return eta if self.rows.offset is None else eta + self.rows.offset[:, None]

    def _value_and_slopes(self, eta, likelihood, shared=True):
        """Weighted log likelihood of rows, and its slopes in eta and, where these are
        asked for, in what rows share, (n_further, n_rows, n_draws).
        """
        weight, linear = self.rows.weight[:, None], self.linear[:, None]
        y = self.rows.y[:, None]
        value, slope = likelihood.value_and_slope(eta.copy(), y)
        further = ()
        if self.n_further and shared:
            further = weight * likelihood.by_level(eta, value, slope, y)
        # Within the arrays that there are: of a hundred nodes new ones cost as much.
        value += linear * eta
        value *= weight
        slope += linear
        slope *= weight
        return value, slope, further


class UngroupedMarginal(LikelihoodMarginal):
    """Log likelihood of a generalised linear model without groups."""

    cost = "free"

    def _integrated(self, beta, levels, further):
        value = np.empty(len(beta))
        score = np.empty((len(beta), beta.shape[1] + self.n_further))
        for some in row_blocks(len(beta), len(self.rows.y)):
            given = self.likelihood.given(*(level[some] for level in further))
            parts = self._value_and_slopes(self._without_effects(beta[some]), given)
            value[some] = parts[0].sum(axis=0)
            by_further = [part.sum(axis=0) for part in parts[2]]
            score[some] = np.column_stack([parts[1].T @ self.rows.X, *by_further])
        return value, score

    def effects(self, normals, beta, levels, *further):
        """None: there are no groups."""
        return ()
