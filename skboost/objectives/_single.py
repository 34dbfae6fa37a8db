"""The ELBO of one component, its entropy in closed form."""

import numpy as np

from skboost.approximation import finite, finite_value_and_score


class SingleELBO:
    """ELBO of one component in all its parameters, on fixed draws.

    Ordinary variational inference: ``E_s[log joint]`` by reparameterised draws, or in
    closed form, and the entropy always in closed form.

    Parameters
    ----------
    target : Target
    family, params
        The component and where the search starts.
    base_draws : ndarray of shape (n, base_dim)
        Fixed base draws; unused where `exact`.
    exact : bool
        Whether ``E_s[log joint]`` comes from the target in closed form.
    """

    def __init__(self, target, family, params, base_draws, exact):
        self.target, self.family, self.params = target, family, params
        self.base_draws = base_draws
        self.exact = exact
        self.chart = family.chart(params)

    @property
    def start(self):
        """The starting point, the chart at zero."""
        return np.zeros(self.chart.size)

    @property
    def limits(self):
        """Largest absolute value of every coordinate."""
        return self.chart.limits

    def unpack(self, x):
        """Parameters of the component."""
        return self.chart.move(x)

    def elbo(self, params):
        """ELBO in nats of a component of the family, on the problem's draws."""
        if self.exact:
            structure = self.family.structure(params)
            expected = self.target.expected_log_density(*structure)[0]
        else:
            theta = self.family.transport(params, self.base_draws)
            expected = finite(self.target.log_density(theta)).mean()
        return float(expected + self.family.entropy(params))

    def value_and_gradient(self, x):
        """ELBO in nats and its gradient in `x`."""
        family, params = self.family, self.unpack(x)
        if self.exact:
            value, *slopes = self.target.expected_log_density(*family.structure(params))
            gradient = family.pull_structure(params, *slopes)
        else:
            theta = family.transport(params, self.base_draws)
            log_joint, score = finite_value_and_score(self.target, theta)
            value = log_joint.mean()
            gradient = family.pull_transport(
                params, self.base_draws, score / len(theta)
            )
        gradient = gradient + family.entropy_gradient(params)
        return float(value + family.entropy(params)), self.chart.pull(x, gradient)
