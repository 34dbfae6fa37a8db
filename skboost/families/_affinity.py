"""Square roots of two densities of a family: their inner product and their product.

Campbell and Li 2019, section 4; the Gaussian formulas are the Bhattacharyya ones. All
pairs go through at once: a mixture of thirty roots has 435.
"""

import numpy as np
from scipy.linalg import solve_triangular


class DiagonalAffinity:
    """Independent Gaussian coordinates, params = (m, log sigma)."""

    def log_affinity(self, family, a, b):
        dim = a.shape[1] // 2
        gap = a[:, :dim] - b[:, :dim]
        log_ratio = a[:, dim:] - b[:, dim:]
        variance_a, variance_b = np.exp(2.0 * a[:, dim:]), np.exp(2.0 * b[:, dim:])
        total = variance_a + variance_b
        quarter = 0.25 * gap / total
        # ln(2 sa sb / (va + vb)) without its cancellation at sa = sb.
        value = -0.5 * _log_cosh(log_ratio) - quarter * gap
        d_mean = -2.0 * quarter
        grown = 2.0 * quarter * gap / total
        d_a = 0.5 - variance_a / total + variance_a * grown
        d_b = 0.5 - variance_b / total + variance_b * grown
        return (
            value.sum(axis=1),
            np.hstack([d_mean, d_a]),
            np.hstack([-d_mean, d_b]),
        )

    def root_product(self, family, a, b):
        (mean_a, variance_a, _), (mean_b, variance_b, _) = (
            family.structure(p) for p in (a, b)
        )
        precision = 0.5 * (1.0 / variance_a + 1.0 / variance_b)
        mean = 0.5 * (mean_a / variance_a + mean_b / variance_b) / precision
        return family, np.concatenate([mean, -0.5 * np.log(precision)])


class FullAffinity:
    """Gaussians with a Cholesky factor."""

    def log_affinity(self, family, a, b):
        mean_a, factor_a = _stacked(family, a)
        mean_b, factor_b = _stacked(family, b)
        gap = mean_a - mean_b
        middle = 0.5 * (_outer(factor_a) + _outer(factor_b))
        root = np.linalg.cholesky(middle)
        inverse = np.linalg.inv(middle)
        u = (inverse @ gap[:, :, None])[:, :, 0]
        dim = gap.shape[1]
        logs = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        logs_a, logs_b = (
            np.log(np.diagonal(f, axis1=1, axis2=2)).sum(axis=1)
            for f in (factor_a, factor_b)
        )
        value = 0.5 * (logs_a + logs_b) - logs - 0.125 * (gap * u).sum(axis=1)
        slope = -0.5 * inverse + 0.125 * u[:, :, None] * u[:, None, :]
        rows, columns = np.tril_indices(dim)
        on_diagonal = rows == columns
        gradients = []
        for factor, sign in ((factor_a, -0.25), (factor_b, 0.25)):
            packed = (slope @ factor)[:, rows, columns]
            scale = factor[:, np.arange(dim), np.arange(dim)]
            packed[:, on_diagonal] = packed[:, on_diagonal] * scale + 0.5
            gradients.append(np.hstack([sign * u, packed]))
        return value, *gradients

    def root_product(self, family, a, b):
        (mean_a, _, factor_a), (mean_b, _, factor_b) = (
            family.structure(p) for p in (a, b)
        )
        eye = np.eye(len(mean_a))
        inverse_a, inverse_b = (
            solve_triangular(f, eye, lower=True) for f in (factor_a, factor_b)
        )
        precision_a, precision_b = inverse_a.T @ inverse_a, inverse_b.T @ inverse_b
        covariance = np.linalg.inv(0.5 * (precision_a + precision_b))
        covariance = 0.5 * (covariance + covariance.T)
        mean = covariance @ (0.5 * (precision_a @ mean_a + precision_b @ mean_b))
        return family, family.from_moments(mean, covariance)


class LowRankAffinity:
    """Diagonal plus low rank, by Woodbury: the cost is linear in the dimension."""

    def log_affinity(self, family, a, b):
        triples = [_low_rank_stack(family, p) for p in (a, b)]
        (mean_a, variance_a, factor_a), (mean_b, variance_b, factor_b) = triples
        gap = mean_a - mean_b
        noise = 0.5 * (variance_a + variance_b)
        factor = np.sqrt(0.5) * np.concatenate([factor_a, factor_b], axis=2)
        scaled = factor / noise[:, :, None]
        inner = np.eye(factor.shape[2]) + np.swapaxes(factor, 1, 2) @ scaled
        inverse = np.linalg.inv(inner)
        half = scaled @ inverse
        log_det = np.log(noise).sum(axis=1) + np.linalg.slogdet(inner)[1]
        latent = (np.swapaxes(factor, 1, 2) @ (gap / noise)[:, :, None])[:, :, 0]
        u = gap / noise - (half @ latent[:, :, None])[:, :, 0]
        entropies = [[family.entropy(p) for p in side] for side in (a, b)]
        dim = gap.shape[1]
        value = 0.5 * np.sum(entropies, axis=0) - 0.5 * dim * (1 + np.log(2 * np.pi))
        value = value - 0.5 * log_det - 0.125 * (gap * u).sum(axis=1)
        diagonal = 1.0 / noise - np.einsum("nij,nij->ni", half, scaled)
        gradients = []
        for side, (_, own_variance, own_factor), sign in zip(
            (a, b), triples, (-0.25, 0.25), strict=True
        ):
            solved = own_factor / noise[:, :, None]
            solved = solved - half @ (np.swapaxes(scaled, 1, 2) @ own_factor)
            along = np.einsum("ni,nij->nj", u, own_factor)
            d_factor = -0.5 * solved + 0.125 * u[:, :, None] * along[:, None, :]
            d_log = own_variance * (-0.5 * diagonal + 0.125 * u**2)
            own = np.array([family.entropy_gradient(p) for p in side])
            parts = [sign * u, d_log, d_factor.reshape(len(side), -1)]
            gradients.append(np.hstack(parts) + 0.5 * own)
        return value, *gradients

    def root_product(self, family, a, b):
        precisions, shifts, directions = [], [], []
        for params in (a, b):
            mean, variance, factor = family.structure(params)
            inner = np.eye(factor.shape[1]) + factor.T @ (factor / variance[:, None])
            lower = np.linalg.cholesky(inner)
            scaled = factor / variance[:, None]
            direction = solve_triangular(lower, scaled.T, lower=True).T
            precisions.append(1.0 / variance)
            shifts.append(mean / variance - direction @ (direction.T @ mean))
            directions.append(direction)
        noise = 2.0 / np.sum(precisions, axis=0)
        joint = np.sqrt(0.5) * np.hstack(directions)
        left = noise[:, None] * joint
        inner = np.eye(joint.shape[1]) - joint.T @ left
        lower = np.linalg.cholesky(0.5 * (inner + inner.T))
        factor = solve_triangular(lower, left.T, lower=True).T
        half = 0.5 * np.sum(shifts, axis=0)
        mean = noise * half + factor @ (factor.T @ half)
        if factor.shape[1] > len(mean):
            vectors, values, _ = np.linalg.svd(factor, full_matrices=False)
            factor = vectors * values
        wide = type(family)(covariance="low_rank", rank=factor.shape[1])
        return wide, np.concatenate([mean, 0.5 * np.log(noise), factor.ravel()])


AFFINITIES = {
    "diag": DiagonalAffinity,
    "full": FullAffinity,
    "low_rank": LowRankAffinity,
}


def _log_cosh(x):
    """``ln cosh x``, exact to rounding at zero and linear far out."""
    size = np.abs(x)
    return np.where(
        size < 1e-3, 0.5 * x**2, size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)
    )


def _stacked(family, params):
    """Means (n, dim) and Cholesky factors (n, dim, dim)."""
    dim = family.dim_of(params[0])
    rows, columns = np.tril_indices(dim)
    factor = np.zeros((len(params), dim, dim))
    factor[:, rows, columns] = params[:, dim:]
    diagonal = np.arange(dim)
    factor[:, diagonal, diagonal] = np.exp(factor[:, diagonal, diagonal])
    return params[:, :dim], factor


def _low_rank_stack(family, params):
    """Means, variances (n, dim) and factors (n, dim, rank)."""
    dim = family.dim_of(params[0])
    factor = params[:, 2 * dim :].reshape(len(params), dim, -1)
    return params[:, :dim], np.exp(2.0 * params[:, dim : 2 * dim]), factor


def _outer(factor):
    return factor @ np.swapaxes(factor, 1, 2)
