"""What components share: evaluations at many points, and structures of covariances."""

import numpy as np

from skboost.families._base import VariationalFamily
from skboost.families._moments import linear_moments


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
        raise NotImplementedError(f"{type(self).__name__} does not define score.")

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
        raise NotImplementedError(f"{type(self).__name__} does not define pull.")


class Structure(VariationalFamily):
    """Gaussians of one structure of the covariance: how `params` hold it.

    What they have in common follows from `structure`, which gives the covariance as
    diag(variance) + factor factor^T.
    """

    def spread(self, params):
        return self.structure(params)

    def std(self, params):
        _, variance, factor = self.structure(params)
        total = 0.0 if variance is None else variance
        if factor is not None:
            total = total + np.einsum("ij,ij->i", factor, factor)
        return np.sqrt(total)

    def moments(self, params):
        mean, variance, factor = self.structure(params)
        if factor is None:
            return mean, np.diag(variance)
        covariance = factor @ factor.T
        if variance is not None:
            covariance[np.diag_indices_from(covariance)] += variance
        return mean, covariance

    def linear_moments(self, params, X):
        return linear_moments(X, *self.structure(params))

    def structure(self, params):
        """Covariance as diag(variance) + factor factor^T.

        Parameters
        ----------
        params : ndarray of shape (n_params,)

        Returns
        -------
        mean : ndarray of shape (dim,)
        variance : ndarray of shape (dim,) or None
            None for a full covariance.
        factor : ndarray of shape (dim, rank) or None
            The Cholesky factor for a full covariance; None for a diagonal one.
        """
        raise self._lacks("structure")

    def pull_structure(self, params, g_mean, g_variance, g_factor):
        """Gradient in `params` from gradients in what `structure` returns.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
        g_mean : ndarray of shape (dim,)
        g_variance : ndarray of shape (dim,) or None
        g_factor : ndarray of shape (dim, rank) or None
            None where `structure` returns None.

        Returns
        -------
        ndarray of shape (n_params,)
        """
        raise self._lacks("pull_structure")


class UnknownStructure(Structure):
    """What a family has whose `covariance` is no known name: it refuses when used."""

    def _refuse(self, *args):
        raise ValueError(
            f"covariance must be one of {list(self.structures)} for a "
            f"{self.constructor.title} family; got {self.covariance!r}."
        )

    n_params = dim_of = scale_mask = base_dim = transport = at = _refuse
    entropy = entropy_gradient = structure = from_moments = widen = move = _refuse
    marginal = pull_transport = pull_structure = pull_move = _refuse


class Structured(VariationalFamily):
    """Families with a class for each structure of the covariance.

    An object takes the class of its structure when `covariance` is set, by the
    constructor or later: ``Gaussian("diag")`` is a `Gaussian` whose parameters are
    laid out by `DiagonalCovariance`. A class that a user derives is treated alike.

    Attributes
    ----------
    structures : dict
        By the names that `covariance` may have, the classes of the structures.
    title : str
        What error messages call the family.
    """

    structures = {}
    title: str
    sign_symmetric = True

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "covariance":
            known = isinstance(value, str) and value in self.structures
            structure = self.structures[value] if known else UnknownStructure
            self.__class__ = _class_of(self.constructor, structure)

    def __reduce__(self):
        return self.constructor, (), self.__getstate__()

    def __setstate__(self, state):
        super().__setstate__(state)
        self.covariance = self.covariance


_CLASSES = {}


def _class_of(family, structure):
    """The one class of a family and a structure, under the name of the family."""
    if (family, structure) not in _CLASSES:
        names = {"__module__": family.__module__, "__doc__": family.__doc__}
        both = type(family.__name__, (family, structure), names)
        both.constructor = family
        # Of two threads that come here together the second takes the first one's.
        _CLASSES.setdefault((family, structure), both)
    return _CLASSES[family, structure]
