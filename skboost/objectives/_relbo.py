"""Residual ELBO: the greedy objective of Locatello et al. 2018, equation 9."""

import numpy as np

from skboost.objectives._joint import finite_value_and_score

# Where the objective has no maximum the search ends at this limit: far enough to tell,
# near enough that the component and its draws are still of use.
_LOG_SCALE_RANGE, _SHIFT_RANGE = 2.0, 20.0


class ResidualELBO:
    """``E_s[log joint] + lam H(s) - E_s[ln q]`` as a function of the chart of s.

    Parameters
    ----------
    target : Target
    mixture : Mixture
        The current approximation q.
    family, params
        The component and where its search starts.
    base_draws : ndarray
        Fixed base draws.
    entropy_weight : float
        lam, the price of entropy.
    exact : bool
        Whether ``E_s[log joint]`` comes from the target in closed form.
    """

    def __init__(
        self, target, mixture, family, params, base_draws, entropy_weight, exact
    ):
        self.target, self.mixture = target, mixture
        self.family, self.params = family, params
        self.base_draws = base_draws
        self.chart = family.chart(params, len(base_draws))
        self.entropy_weight = entropy_weight
        self.exact = exact

    @property
    def start(self):
        """The starting point, the chart at zero."""
        return np.zeros(self.chart.size)

    @property
    def limits(self):
        """Largest absolute value of every coordinate: none is free."""
        return np.where(self.chart.scale_mask, _LOG_SCALE_RANGE, _SHIFT_RANGE)

    def unpack(self, x):
        """Parameters of the component."""
        return self.chart.move(x)

    def value_and_gradient(self, x):
        """RELBO in nats and its gradient in `x`."""
        family, params = self.family, self.unpack(x)
        theta = family.transport(params, self.base_draws)
        score, log_q = self.mixture.score_and_log_density(theta)
        value = self.entropy_weight * family.entropy(params) - log_q.mean()
        gradient = self.entropy_weight * family.entropy_gradient(params)
        through = -score
        if self.exact:
            expected, *slopes = self.target.expected_log_density(
                *family.structure(params)
            )
            value += expected
            gradient = gradient + family.pull_structure(params, *slopes)
        else:
            log_joint, score_joint = finite_value_and_score(self.target, theta)
            value += log_joint.mean()
            through = through + score_joint
        gradient = gradient + family.pull_transport(
            params, self.base_draws, through / len(theta)
        )
        return float(value), self.chart.pull(x, gradient)
