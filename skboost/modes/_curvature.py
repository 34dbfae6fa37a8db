"""Curvature of a log density from differences of its score, the columns of a low-rank
Gaussian that it asks for, and Laplace approximations.
"""

import numpy as np
from scipy.linalg import eigh

from skboost.approximation import finite_value_and_score
from skboost.families import Component, DiagonalGaussian, LowRankGaussian

# Steps of differences: a share of a coordinate's size, and of a standard deviation.
_STEP, _SMALL = 1e-4, 1e-2
# Products of curvatures beyond it leave the range of floating point.
_LARGEST = 1e100
# Nats that a density has to fall at one standard deviation of a mode.
_FLAT = 1e-6
# Scales below that share of the largest are rounding, and have no Cholesky factor.
_NARROWEST = 1e-6
# Above this dimension there is no Hessian: scales are not tried out, and the ends of
# climbs cannot be told apart.
MAX_HESSIAN_DIM = 200


def diagonal_curvature(target, x, rng):
    """Diagonal of the negative Hessian of the log density at one point.

    Exact in few dimensions; above, products with random signs estimate it (Bekas,
    Kokiopoulou and Saad 2007), and where the noise of coupled coordinates hides an
    entry, its error stands in. All entries are positive.
    """
    step = _STEP * np.maximum(1.0, np.abs(x))
    n_probes, few = 16, 64
    # The second time the steps are as short as the density is narrow.
    for _ in range(2):
        if x.size <= few:
            product = _differences(target, x[None], np.diag(step))
            found = np.abs(np.diagonal(product)) / step
        else:
            signs = rng.choice([-1.0, 1.0], size=(n_probes, x.size))
            product = _differences(target, x[None], signs * step)
            error = np.sqrt(np.mean(product**2, axis=0) / n_probes)
            found = np.maximum(np.abs(np.mean(signs * product, axis=0)), error) / step
        found = np.where(np.isfinite(found), found, 1.0)
        curvature = np.clip(found, 1e-6, 1e12)
        step = _SMALL / np.sqrt(curvature)
    return curvature


def inverse_curvature(target, mode, family):
    """Covariance, or variances, from the curvature at the mode; positive definite."""
    dim = target.dim
    if target.exact_gaussian:
        # Price's theorem: the slope in the variances is minus half the curvature.
        slope = target.expected_log_density(mode, np.full(dim, 1e-4), None)[2]
        return 1.0 / np.maximum(-2.0 * slope, 1e-6)
    if not family.full_covariance:
        return 1.0 / diagonal_curvature(target, mode, np.random.default_rng(0))
    step = _STEP * np.maximum(1.0, np.abs(mode))
    hessian = -_differences(target, mode[None], np.diag(step)) / step[:, None]
    if not np.isfinite(hessian).all():
        return np.ones(dim)
    values, vectors = eigh(0.5 * (hessian + hessian.T))
    # Directions without curvature get a wide but finite scale.
    values = np.clip(np.abs(values), 1e-6, 1e12)
    # Wider ones than that have no Cholesky factor beside the narrowest.
    values = np.maximum(values, 1e-12 * values.max())
    covariance = (vectors / values) @ vectors.T
    return 0.5 * (covariance + covariance.T)


def wide_directions(target, whitening, points, n, rng):
    """Directions along which the log density is flatter than a whitened Gaussian.

    A block Krylov space of the negative Hessian, averaged over points and whitened,
    and the smallest eigenvalues in it: an eigenvalue below one is a direction in
    which the Gaussian is too narrow. Returns eigenvalues (k,), increasing, for k of at
    most n directions (k, dim), orthonormal in whitened coordinates.
    """
    dim = points.shape[1]
    # The Krylov space has up to six blocks, with spare columns in each.
    width = min(n + 5, dim)
    block = np.linalg.qr(rng.standard_normal((dim, width)))[0].T
    basis, products = np.empty((0, dim)), np.empty((0, dim))
    while True:
        steps = _SMALL * whitening.lift(block)
        # Where scores overflow, curvature is not known: the Gaussian's own.
        with np.errstate(over="ignore", invalid="ignore"):
            product = -whitening.pull(_differences(target, points, steps)) / _SMALL
        lost = ~(np.abs(product).max(axis=1) < _LARGEST)
        product[lost] = block[lost]
        basis, products = np.vstack([basis, block]), np.vstack([products, product])
        if len(basis) >= 6 * width or len(basis) + width > dim:
            break
        block = product
        # Twice is enough.
        for _ in range(2):
            block = block - (block @ basis.T) @ basis
            block = np.linalg.qr(block.T)[0].T
    inner = basis @ products.T
    curvature, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    return curvature[:n], vectors[:, :n].T @ basis


def _differences(target, points, steps):
    """Half the change of the score between ``x - step`` and ``x + step``, averaged
    over x."""
    shifted = [(points[:, None] + sign * steps).reshape(-1, steps.shape[1])
               for sign in (1.0, -1.0)]  # fmt: skip
    _, score = finite_value_and_score(target, np.concatenate(shifted))
    ahead, behind = score.reshape(2, len(points), *steps.shape)
    return 0.5 * np.mean(ahead - behind, axis=0)


# --- columns of a low-rank Gaussian


def add_columns(target, component, rank, tol, rng):
    """A diagonal or low-rank Gaussian with further columns, where there is room and
    need for them, as in `fit_low_rank`: zeros, and those that curvature suggests."""
    mean, variance, factor = component.structure()
    if factor is None:
        factor = np.empty((mean.size, 0))
    now = factor.shape[1]
    n_free = min(128 if rank is None else rank, mean.size) - now
    if n_free == 0:
        return component, component
    if rank is None:
        # The first growth adds up to eight columns; later ones double the rank at most.
        n_free = min(n_free, max(now, 8))
    # Curvature is averaged at a few draws.
    whitening = component.whitening()
    points = component.draws(component.matched_draws(8, rng))
    curvature, directions = wide_directions(target, whitening, points, n_free, rng)
    # One step answers a thousandth at the flattest, and a column has some excess: at
    # zero its own gradient would vanish.
    curvature = np.clip(curvature, 1e-3, 1.0 / (1.0 + 1e-3))
    if rank is None:
        # What a direction of a quadratic gains by the variance that is right for it.
        kept = 0.5 * (curvature - 1.0 - np.log(curvature)) > tol
        # A factor has a column, if only a short one.
        kept[0] |= now == 0
        curvature, directions = curvature[kept], directions[kept]
    columns = np.sqrt(1.0 / curvature - 1.0) * whitening.lift(directions).T
    return tuple(
        LowRankGaussian.from_structure(mean, variance, np.hstack([factor, added]))
        for added in (0.0 * columns, columns)
    )


def with_factor(target, family, mean, variances):
    """Parameters of the low-rank Gaussian of the family that curvature suggests at a
    mode, from one over the diagonal of the curvature."""
    diagonal, rng = DiagonalGaussian(), np.random.default_rng(0)
    start = Component(diagonal, diagonal.from_moments(mean, variances))
    return add_columns(target, start, family.rank, 0.0, rng)[1].params


def laplace_approximation(target, family, mode):
    """Member of the family with the curvature at a mode, and whether it is one.

    Its scales are shrunk where the density falls faster than they say, as at the
    mode of ``-x^4``, whose curvature is zero. On a plateau it does not fall at all.
    """
    covariance = inverse_curvature(target, mode, family)
    if len(mode) > MAX_HESSIAN_DIM:
        return _of_variances(target, family, mode, covariance), True
    one_each = covariance.ndim == 1
    variances, axes = (covariance, np.eye(len(mode))) if one_each else eigh(covariance)
    std = np.sqrt(np.maximum(variances, _NARROWEST**2 * variances.max()))
    top = target.log_density(mode[None])[0]
    for _ in range(12):
        steps = (axes * std).T
        around = target.log_density(np.concatenate([mode + steps, mode - steps]))
        drop = top - around.reshape(2, -1).min(axis=0)
        # A Laplace approximation loses half a nat at one standard deviation; where the
        # density loses more than that many, curvature at the mode says too little.
        steep = drop > 2.0
        if not steep.any():
            break
        std[steep] *= 0.25
    std = np.maximum(std, _NARROWEST * std.max())
    confirmed = bool((drop > _FLAT).all())
    if one_each:
        return _of_variances(target, family, mode, std**2), confirmed
    shrunk = (axes * std**2) @ axes.T
    return family.from_moments(mode, 0.5 * (shrunk + shrunk.T)), confirmed


def _of_variances(target, family, mode, variances):
    if family.low_rank:
        return with_factor(target, family, mode, variances)
    return family.from_moments(mode, variances)
