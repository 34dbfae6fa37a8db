"""A target as a function that users call."""

import numpy as np

from skboost.targets._base import Target


class LogJoint(Target):
    """The log joint density of a fitted model and some rows, as a function.

    Posteriors take it where they ask for a ``log_joint``, and `boost_posterior` as its
    `log_density`, with ``gradient``. It holds the rows that it was made of.

    Parameters
    ----------
    target : Target
    names : sequence of str, default=None
        Of the parameters, in their order.

    Attributes
    ----------
    dim : int
        Number of parameters.
    names : tuple of str or None
    """

    def __init__(self, target, names=None):
        self._target = target
        self.dim, self.light_tails = target.dim, target.light_tails
        self.names = None if names is None else tuple(names)

    def __repr__(self):
        return f"LogJoint(dim={self.dim})"

    def __call__(self, theta):
        """Log joint density at draws of the parameters.

        Parameters
        ----------
        theta : array-like of shape (n, dim) or (dim,)

        Returns
        -------
        ndarray of shape (n,), or float for one point
            Nats.
        """
        theta = np.asarray(theta, dtype=float)
        value = self._target.log_density(np.atleast_2d(theta))
        return value if theta.ndim > 1 else float(value[0])

    def gradient(self, theta):
        """Gradient of the log joint density, of the shape of `theta`."""
        return self.value_and_gradient(theta)[1]

    def value_and_gradient(self, theta):
        """Both for the price of the gradient."""
        theta = np.asarray(theta, dtype=float)
        value, score = self._target.value_and_score(np.atleast_2d(theta))
        return (value, score) if theta.ndim > 1 else (float(value[0]), score[0])

    def value_and_score(self, theta):
        """Log joint density (n,) and its gradient (n, dim); see `Target`."""
        return self._target.value_and_score(theta)

    def log_density(self, theta):
        """Log joint density (n,); see `Target`."""
        return self._target.log_density(theta)
