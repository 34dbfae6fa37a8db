"""A mixture behind a warp, in the coordinates on either side of it."""

import numpy as np


class BehindWarp:
    """A mixture in the coordinates before a warp, with the density of those after it.

    It has the maxima of the mapped mixture's density, at the points that the map takes
    to them.

    Parameters
    ----------
    mixture : Mixture
    warp : Warp
    """

    def __init__(self, mixture, warp):
        self._mixture, self._warp = mixture, warp

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._mixture, name)

    def log_density(self, z):
        """Log density at the images of z (n, dim), nats."""
        return self._mixture.log_density(z) - self._warp.log_jacobian(z)

    def score_and_log_density(self, z):
        """Its gradient in z, and `log_density`."""
        score, log_q = self._mixture.score_and_log_density(z)
        log_q = log_q - self._warp.log_jacobian(z)
        return score - self._warp.log_jacobian_gradient(z), log_q


class BeyondWarp:
    """The mapped mixture itself: a density of the coordinates after the warp.

    Parameters
    ----------
    mixture : Mixture
    warp : Warp
    """

    def __init__(self, mixture, warp):
        self._mixture, self._warp = mixture, warp

    def stratified_draws(self, n, rng):
        """Draws, their weights and their components, as of a mixture."""
        z, row_weights, source = self._mixture.stratified_draws(n, rng)
        return self._warp.forward(z), row_weights, source

    def log_density(self, y):
        """Log density at y (n, dim), nats."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = self._warp.inverse(y)
            value = self._mixture.log_density(z) - self._warp.log_jacobian(z)
        # Where z overflows there is no mass.
        return np.fmax(value, -np.inf)


def unwarped(posterior):
    """A posterior's density of unconstrained coordinates, and its constraints.

    Parameters
    ----------
    posterior : MixturePosterior or Mixture

    Returns
    -------
    density : Mixture or BeyondWarp
    constraints : Constraints or None
        Without a warp; None where nothing is constrained.
    """
    mixture = getattr(posterior, "_mixture", posterior)
    constraints = getattr(posterior, "constraints", None)
    if constraints is None or constraints.warp is None:
        return mixture, constraints
    base = constraints.base
    return BeyondWarp(mixture, constraints.warp), None if base.trivial else base
