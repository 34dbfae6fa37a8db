"""Components of fitted mixtures as the parts that plain predictions are made of."""

import numpy as np

from skboost.families import Gaussian, Laplace, StudentT
from skboost.serving._plain import DrawsPart, GaussianPart, LaplacePart, StudentTPart
from skboost.targets import student_t_radii


def part_of(family, params, n_linear, draws_of=None):
    """A component, without the parameters that have no part in the linear predictor.

    Parameters
    ----------
    family : VariationalFamily
    params : ndarray of shape (n_params,)
    n_linear : int
        Coefficients and intercept come first.
    draws_of : callable, default=None
        ``draws_of(family, params)`` makes the draws of a component whose probability
        has no quadrature.

    Returns
    -------
    GaussianPart, StudentTPart, LaplacePart or DrawsPart
    """
    make = _PARTS.get(type(family))
    if make is not None:
        return make(family, params, n_linear)
    mean, std = family.mean(params)[:n_linear], family.std(params)[:n_linear]
    draws = None if draws_of is None else draws_of(family, params)[:, :n_linear]
    return DrawsPart(draws, mean, std**2)


def _gaussian(family, params, n_linear):
    mean, variance, factor = family.structure(params)
    return GaussianPart(
        mean[:n_linear],
        None if variance is None else variance[:n_linear],
        None if factor is None else np.ascontiguousarray(factor[:n_linear]),
    )


def _student_t(family, params, n_linear):
    # Location and scale are laid out as mean and covariance of a Gaussian.
    kind = Gaussian(family.covariance)
    nodes, shares = student_t_radii(float(family.df))
    gaussian = _gaussian(kind, params, n_linear)
    return StudentTPart(gaussian, float(family.df), nodes, shares)


def _laplace(family, params, n_linear):
    scale = family.std(params) / np.sqrt(2.0)
    return LaplacePart(family.mean(params)[:n_linear], scale[:n_linear])


_PARTS = {Gaussian: _gaussian, StudentT: _student_t, Laplace: _laplace}
