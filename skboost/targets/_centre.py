"""Where the prior of an intercept is: at the means of the columns, not at their zeros.

A temperature in Kelvin, a year or a Julian day has its zero far from all rows, where
nothing is known of a response. What is known of it before the data is about their
centre m, so the prior is that of ``intercept + m . coef``, and the same wherever the
columns have their zeros. The coordinates stay those of the columns as they are.
"""

from typing import NamedTuple

import numpy as np


class Centre(NamedTuple):
    """The linear map between parameters and those that have independent priors.

    `columns` (n_features,) are the means, None without an intercept, which is last of
    each linear predictor's parameters.
    """

    columns: np.ndarray | None = None
    n_outputs: int = 1

    def about(self, theta):
        """Parameters (..., dim) with intercepts at the centre in place of at zero."""
        return self._intercepts(theta, 1.0)

    def back(self, theta):
        """The other way."""
        return self._intercepts(theta, -1.0)

    def pulled(self, score):
        """Slopes (..., dim) in parameters, from those in the ones about the centre."""
        return self._slopes(score, 1.0)

    def pushed(self, score):
        """The other way."""
        return self._slopes(score, -1.0)

    def variances(self, variances):
        """Marginal ones (..., dim) about the centre, of independent parameters."""
        return self._squared()._intercepts(variances, 1.0)

    def pulled_variances(self, slopes):
        """Slopes in variances of parameters, from those in the ones of `variances`."""
        return self._squared()._slopes(slopes, 1.0)

    def curvature(self, diagonal):
        """A diagonal curvature (dim,) about the centre, as a matrix of parameters."""
        return self.pulled(self.pulled(np.diag(diagonal)).T)

    def gaussians_back(self, means, covariances):
        """Means (n, dim) and covariances, or variances (n, dim), of parameters."""
        if np.ndim(covariances) < 3:
            return self.back(means), self.variances(covariances)
        return self.back(means), self.covariances_back(covariances)

    def covariances_back(self, covariances):
        """Covariances (..., dim, dim) of parameters."""
        return self.back(np.swapaxes(self.back(covariances), -1, -2))

    def _squared(self):
        squares = None if self.columns is None else self.columns**2
        return self._replace(columns=squares)

    def _intercepts(self, theta, sign):
        if self.columns is None:
            return theta
        theta, n = np.array(theta, dtype=float), len(self.columns)
        for last in self._places():
            theta[..., last] += sign * (theta[..., last - n : last] @ self.columns)
        return theta

    def _slopes(self, score, sign):
        if self.columns is None:
            return score
        score, n = np.array(score, dtype=float), len(self.columns)
        for last in self._places():
            score[..., last - n : last] += sign * score[..., last, None] * self.columns
        return score

    def _places(self):
        """Of the intercepts."""
        width = len(self.columns) + 1
        return range(width - 1, width * self.n_outputs, width)
