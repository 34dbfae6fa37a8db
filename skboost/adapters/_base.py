"""What an adapter returns, and what adapters share."""

from dataclasses import dataclass, field
from importlib import import_module

import numpy as np


@dataclass(frozen=True, eq=False)
class ExternalDensity:
    """A log density from another library, on coordinates without constraints.

    Attributes
    ----------
    log_density : callable
        Of one point (dim,) or of rows (n, dim), in nats, with the log-Jacobian of the
        library's own transforms. Its method ``value_and_gradient`` gives both for the
        price of the gradient.
    dim : int
        Number of unconstrained coordinates.
    gradient : callable
        Gradient of `log_density`: of rows if `vectorized`, else of one point.
    vectorized : bool
        Whether the library evaluates many points at once.
    names : tuple of str or None
        Of the coordinates.
    x0 : ndarray of shape (dim,) or None
        Where the library would start; None is the origin.

    Examples
    --------
    >>> from skboost import boost_posterior
    >>> from skboost.adapters import from_pymc
    >>> density = from_pymc(model)  # doctest: +SKIP
    >>> result = boost_posterior(**density.arguments(tol=1e-3))  # doctest: +SKIP
    >>> draws = density.constrain(result.posterior.sample(1000))  # doctest: +SKIP
    """

    log_density: object
    dim: int
    gradient: object
    vectorized: bool
    names: tuple | None = None
    x0: np.ndarray | None = None
    _constrain: object = field(default=None, repr=False)

    def arguments(self, **settings):
        """Keyword arguments of `boost_posterior`, as a dict.

        Parameters
        ----------
        **settings
            Others to go with them, or in place of them, such as another `x0`.
        """
        found = {
            "log_density": self.log_density,
            "dim": self.dim,
            "gradient": self.gradient,
            "vectorized": self.vectorized,
            "names": self.names,
            "x0": self.x0,
        }
        return found | settings

    def constrain(self, draws):
        """Draws of the unconstrained coordinates, on the model's own scale.

        Parameters
        ----------
        draws : array-like of shape (n, dim)
            As from ``result.posterior.sample(n)``.

        Returns
        -------
        dict of str to ndarray of shape (n, ...)
            By the names of the model's variables, deterministic ones included; for a
            JAX function, which has no variables, the array of draws itself.

        Raises
        ------
        ValueError
            For draws of another shape.
        """
        draws = np.asarray(draws, dtype=float)
        if draws.ndim != 2 or draws.shape[1] != self.dim:
            raise ValueError(
                f"draws must be of shape (n, {self.dim}); got {draws.shape}. Pass "
                "result.posterior.sample(n)."
            )
        return draws if self._constrain is None else self._constrain(draws)


class Density:
    """A log density whose value and gradient come from one call.

    Subclasses have ``values(theta)``, (n, dim) -> (n,), and ``value_and_gradient``.
    """

    def __call__(self, theta):
        theta = np.asarray(theta, dtype=float)
        return self.values(theta) if theta.ndim == 2 else self.values(theta[None])[0]

    def gradient(self, theta):
        """The gradient alone."""
        return self.value_and_gradient(theta)[1]


def imported(name):
    """The module of an extra, or how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"from_{name} needs {name}. Install it with: pip install {name}"
        ) from error
