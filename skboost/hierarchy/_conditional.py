"""Group effects given coefficients and scales."""

from typing import NamedTuple

import numpy as np


class Conditional(NamedTuple):
    """Distributions of the effects of many groups at some draws.

    The last two axes of all arrays are draws and groups, in the order of `mean`.

    Attributes
    ----------
    mean : ndarray of shape (n_effects, ...)
    root : ndarray of shape (n_effects, n_effects, ...)
        Lower triangular factors of the covariances.
    skewness, kurtosis : ndarray of shape (n_effects, ...), or None
        Third and fourth cumulants along the axes of `root`; None where effects are
        Gaussian.
    """

    mean: np.ndarray
    root: np.ndarray
    skewness: np.ndarray | None = None
    kurtosis: np.ndarray | None = None

    def both(self, normal):
        """Effects of standard normal numbers and of their negatives, (2, ...).

        Where effects are not Gaussian, by the expansion of Cornish and Fisher 1938,
        which gets the first four cumulants right to leading order.
        """
        t = np.stack([normal, -normal])
        if self.skewness is not None:
            t = (
                t
                + self.skewness * (t**2 - 1.0) / 6.0
                + self.kurtosis * (t**3 - 3.0 * t) / 24.0
                - self.skewness**2 * (2.0 * t**3 - 5.0 * t) / 36.0
            )
        return self.mean + np.einsum("qr...,ar...->aq...", self.root, t)
