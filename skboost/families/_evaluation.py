"""One component evaluated at many points."""

import numpy as np


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
