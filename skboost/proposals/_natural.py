"""One full Gaussian by damped natural gradients, for targets that know curvature."""

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular


def natural_gaussian(curvature, dim, budget, tol=1e-10, start=None):
    """Mean and covariance of the best Gaussian, by damped natural-gradient ascent.

    ``precision <- (1 - rho) precision + rho H`` and ``m <- m + rho Sigma g`` with H
    and g the expected negative Hessian and gradient: the undamped rule can diverge,
    so rho is halved until the ELBO rises.

    Parameters
    ----------
    curvature : callable
        ``(mean (dim,), factor (dim, dim)) -> value, gradient, H``: the expected log
        joint in nats, its gradient in the mean and the expected negative Hessian.
    dim : int
    budget : Budget
        Once nothing is left of it, the ascent ends where it is.
    tol : float, default=1e-10
        Stop when a full step promises less than this many nats, relative to the
        ELBO: convergence to rounding, so that the order of rows does not show.
    start : tuple of arrays (dim,), or (dim,) and (dim, dim), default=None
        Mean and standard deviations to begin at, or a root of the covariance; None is
        zero, and 0.1.

    Returns
    -------
    mean : ndarray of shape (dim,)
    covariance : ndarray of shape (dim, dim)
    """
    # A narrow start: wide ones flatten the likelihood and ask for a wild first step.
    mean, width = (np.zeros(dim), np.full(dim, 0.1)) if start is None else start
    root = np.diag(width) if width.ndim == 1 else width
    _, _, precision = curvature(mean, root)
    precision, factor = _proper(precision, np.sqrt((root**2).sum(axis=1)))
    value, gradient, target_precision = curvature(mean, factor)
    elbo = value + _log_volume(factor)
    rho = 1.0
    for _ in range(100):
        accepted, tried = False, rho
        while rho >= 1e-4 and not accepted:
            new_precision = (1.0 - rho) * precision + rho * target_precision
            try:
                new_factor = inverse_factor(new_precision)
            except LinAlgError:
                # A heavy-tailed prior's expected curvature can be negative.
                rho *= 0.5
                continue
            step = rho * (new_factor @ (new_factor.T @ gradient))
            found = curvature(mean + step, new_factor)
            new_elbo = found[0] + _log_volume(new_factor)
            # A fall of rounding size is no fall: the optimum is flat.
            accepted = new_elbo > elbo - 1e-13 * max(1.0, abs(elbo))
            # Correlations that rounding makes one have no root, and end the ascent.
            accepted = accepted and has_root(new_factor @ new_factor.T)
            if not accepted:
                rho *= 0.5
        if not accepted:
            break
        change = new_elbo - elbo
        mean, precision, factor = mean + step, new_precision, new_factor
        (_, gradient, target_precision), elbo = found, new_elbo
        if change <= tol * max(1.0, abs(elbo)) * rho or budget.cuts():
            break
        if rho == tried:
            # Doubling had every other step refused where classes are all but apart.
            rho = min(1.0, 1.2 * rho)
    return mean, factor @ factor.T


def _proper(precision, width):
    """A precision near the one given that is positive definite, and its factor."""
    try:
        return precision, inverse_factor(precision)
    except LinAlgError:
        # A likelihood that is not log-concave can bend upwards: as steeply is as good
        # a guess, in coordinates of one size.
        size, axes = np.linalg.eigh(width[:, None] * precision * width)
        size = np.maximum(np.abs(size), 1e-8 * np.abs(size).max())
        precision = (axes * size) @ axes.T / np.outer(width, width)
        return precision, inverse_factor(precision)


def inverse_factor(precision):
    """A factor F with ``F F^T = precision^-1``."""
    dim = len(precision)
    root = cholesky(precision, lower=True)
    return solve_triangular(root, np.eye(dim), lower=True).T


def has_root(covariance):
    """Whether a covariance is positive definite in floating point."""
    try:
        cholesky(covariance, lower=True)
    except LinAlgError:
        return False
    return True


def _log_volume(factor):
    # The factor is triangular, so its diagonal carries the determinant.
    return float(np.log(np.diagonal(factor)).sum())
