"""A prior whose scale is learned: one factor for all coefficients, integrated out.

Notation: theta_j = s scale_j z_j, with z_j from a standard prior and one s for all j.
The density of theta is that of the z_j averaged over s, by a fine grid of ln s.
"""

import numpy as np

from skboost._math import log_sum_exp
from skboost.targets._priors import Prior

# From here to there half-t priors of three degrees of freedom, in units of their scale,
# have all but 2e-4 of their mass; ln.
_LOWEST, _HIGHEST = -9.0, 7.0


class CommonScale(Prior):
    """Coordinates with a common factor s of their scales, which has a prior itself.

    Parameters
    ----------
    coef : Prior
        Of the coefficients given s.
    shared : ndarray of bool of shape (n_coefs,)
        Which coefficients of a linear predictor have the factor: not the intercept.
    n_shared : int
        How many of all linear predictors have it.
    factor : ScalePrior
        Of s.

    Attributes
    ----------
    log_s, log_mass : ndarray of shape (n_nodes,)
        The grid of ln s, so fine that sums over it are integrals, and its log
        probabilities.
    """

    closed = False

    def __init__(self, coef, shared, n_shared, factor):
        self.coef, self.shared = coef, shared
        self.n_shared, self.factor = n_shared, factor
        # As a function of ln s the density of known coefficients has this width, and
        # the sum over a grid of that step an error of 1e-6.
        step = min(0.25, 1.2 / np.sqrt(2.0 * max(n_shared, 1)))
        grid = np.arange(_LOWEST, _HIGHEST + step, step)
        self.log_s = np.log(factor.scale) + grid
        log_mass, _ = factor.value_and_score(self.log_s)
        self.log_mass = log_mass - log_sum_exp(log_mass[None])[0]

    def given(self, scale, s):
        """The prior of the coefficients where s is known, and their scales."""
        return self.coef, scale * np.where(np.resize(self.shared, len(scale)), s, 1.0)

    def log_posterior(self, theta, scale):
        """Log probabilities of the grid where the coefficients are known.

        Parameters
        ----------
        theta : ndarray of shape (n, dim)
        scale : ndarray of shape (dim,)

        Returns
        -------
        ndarray of shape (n, n_nodes)
        """
        table, _ = self._table(theta, scale)
        return table - log_sum_exp(table)[:, None]

    def value_and_score(self, theta, scale):
        """See `Prior`."""
        own = ~np.resize(self.shared, len(scale))
        table, z = self._table(theta, scale)
        value = log_sum_exp(table)
        share = np.exp(table - value[:, None])
        score = np.empty(theta.shape)
        score[:, ~own] = self.coef.score_at_scales(z, np.exp(self.log_s), share)
        score[:, ~own] /= scale[~own]
        more, score[:, own] = self.coef.value_and_score(theta[:, own], scale[own])
        return value + more - np.log(scale[~own]).sum(), score

    def _table(self, theta, scale):
        """Log joint density of the coefficients and the grid, and the coefficients."""
        shared = np.resize(self.shared, len(scale))
        z = theta[:, shared] / scale[shared]
        log_density = self.coef.log_at_scales(z, np.exp(self.log_s))
        return self.log_mass + log_density, z
