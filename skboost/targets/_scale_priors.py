"""Prior distributions of scales, as densities of their logarithms."""

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from skboost._math import bounded_exp


class ScalePrior(BaseEstimator):
    """Prior of a positive scale sigma.

    A subclass gives ``_log_density(z)``: the log density of ``z = sigma / scale`` on
    the positive half-line and its derivative in ``ln z``.

    Parameters
    ----------
    scale : float, default=1.0
        In the unit of sigma.
    """

    def __init__(self, scale=1.0):
        self.scale = scale

    def checked(self):
        """This prior; a ValueError where its parameters mean nothing."""
        for name, value in self.get_params(deep=False).items():
            if not (np.isreal(value) and 0.0 < value < np.inf):
                raise ValueError(
                    f"{name} of {type(self).__name__} must be a positive finite "
                    f"number; got {value!r}."
                )
        return self

    def value_and_score(self, level):
        """Log density of ``level = ln sigma`` and its derivative, arrays like it.

        Parameters
        ----------
        level : ndarray

        Returns
        -------
        value : ndarray, in nats
            The Jacobian of the logarithm is in it.
        score : ndarray
        """
        value, slope = self._log_density(bounded_exp(level - np.log(self.scale)))
        return value - np.log(self.scale) + level, slope + 1.0

    def _log_density(self, z):
        raise NotImplementedError(
            f"{type(self).__name__} must define _log_density(z): the log density of a "
            "scale in units of its prior's scale, and its derivative in ln z."
        )


class HalfNormalPrior(ScalePrior):
    """The absolute value of a Normal(0, scale^2) variable.

    Parameters
    ----------
    scale : float, default=1.0
        In the unit of the scale that has the prior. 95 per cent lie below twice it.

    References
    ----------
    Gelman: Prior distributions for variance parameters in hierarchical models, Bayesian
    Analysis 1, 2006.
    """

    def _log_density(self, z):
        return 0.5 * np.log(2.0 / np.pi) - 0.5 * z**2, -(z**2)


class HalfTPrior(ScalePrior):
    """The absolute value of a Student-t variable.

    Parameters
    ----------
    df : float, default=3.0
        Degrees of freedom, positive; 1 is the half-Cauchy distribution.
    scale : float, default=1.0
        In the unit of the scale that has the prior. With three degrees of freedom half
        of the prior lies below .76 times it, and 95 per cent below 3.2 times it.

    References
    ----------
    Gelman: Prior distributions for variance parameters in hierarchical models, Bayesian
    Analysis 1, 2006.
    """

    def __init__(self, df=3.0, scale=1.0):
        self.df = df
        self.scale = scale

    def _log_density(self, z):
        df = self.df
        constant = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df)
        constant += np.log(2.0) - 0.5 * np.log(df * np.pi)
        value = constant - 0.5 * (df + 1.0) * np.log1p(z**2 / df)
        return value, -(df + 1.0) * z**2 / (df + z**2)
