"""One component evaluated at many points, and the coordinates of a search for it."""

from dataclasses import dataclass

import numpy as np

# A scale may leave its start by this factor (in logarithms) within one search.
LOG_SCALE_RANGE = 7.0


class Evaluation:
    """Log density of one component at fixed points, with what its slopes need.

    Returned by `VariationalFamily.at`. The whitened residual is computed once
    and shared by the density, the score and the pull.

    Attributes
    ----------
    log_density : ndarray of shape (n,)
        ``ln s(theta_n)``, in nats.
    """

    log_density: np.ndarray

    def score(self, rows=slice(None)):
        """Gradient of the log density in the point.

        Parameters
        ----------
        rows : slice, default=all
            The points at which it is wanted.

        Returns
        -------
        ndarray of shape (n, dim)
        """
        raise NotImplementedError

    def pull(self, cotangent):
        """Vector-Jacobian product of the log densities in the parameters.

        Parameters
        ----------
        cotangent : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n_params,)
            ``sum_n cotangent_n * d ln s(theta_n) / d params``.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Chart:
    """All parameters of a component, scaled to unit Fisher information.

    The coordinates in which a search moves it, zero where it starts.

    Parameters
    ----------
    family : VariationalFamily
    params : ndarray of shape (n_params,)
        Where the search starts.
    """

    family: object
    params: np.ndarray

    @property
    def size(self):
        """Number of coordinates."""
        return len(self.params)

    @property
    def scale_mask(self):
        """Which coordinates are log scales."""
        return self.family.scale_mask(self.family.dim_of(self.params))

    @property
    def limits(self):
        """Largest absolute value of every coordinate, inf for free ones."""
        return np.where(self.scale_mask, LOG_SCALE_RANGE, np.inf)

    def move(self, x):
        """Parameters at coordinates `x`."""
        return self.family.move(self.params, x)

    def pull(self, x, gradient):
        """Gradient in `x` from the gradient in the parameters."""
        return self.family.pull_move(self.params, x, gradient)
