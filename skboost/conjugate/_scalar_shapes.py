"""Scalar precisions: for each coordinate of each cluster, or for each cluster."""

import numpy as np

from skboost.conjugate._gaussians import DiagonalGaussians
from skboost.conjugate._shapes import Covariance
from skboost.conjugate._student import JointStudentTs, SeparateStudentTs


class Diag(Covariance):
    """A precision for each cluster and coordinate."""

    name = "diag"
    handles_missing = True
    counts_entries = True

    def one(self, dim):
        """Shape of one covariance."""
        return (dim,)

    def of_matrix(self, matrix):
        """One covariance of this shape from a matrix."""
        return np.diag(matrix).copy()

    def group(self, n_components, dim):
        return (n_components, dim)

    def cover(self, covariance, n_components, dim):
        return np.broadcast_to(covariance, (n_components, dim)).astype(float)

    def mean_group(self, n_components, dim):
        return (n_components, dim)

    def _gaussians(self, means, roots, offset):
        return DiagonalGaussians(means, roots[..., 0, 0] ** 2, offset)

    def student(self, means, dof, scales):
        return SeparateStudentTs(means, dof, scales)

    def per_cluster(self, native, factor):
        return factor * native

    def gain(self, statistics):
        return statistics["seen"]

    def second(self, values, resp):
        return resp.T @ (values * values)

    def outer(self, a, b):
        return a * b

    def absorb(self, statistics, variance):
        return statistics["seen"] * variance

    def mean_precision(self, scalar, n_components, dim):
        return np.full((n_components, dim), float(scalar))

    def mean_matrices(self, precision, dim):
        return precision[..., None] * np.eye(dim)

    def repeated(self, statistics, precisions):
        return statistics["seen"] * precisions

    def trace(self, precisions, variance, dim):
        return precisions * variance

    def quadratic(self, precisions, vectors):
        return (precisions * vectors**2).sum(-1)

    def times(self, precisions, vectors):
        return precisions * vectors

    def log_det(self, precisions, dim):
        return np.log(precisions)

    def expected_log_det(self, wishart, dim):
        return wishart.expected_log_det

    def parts(self, scalars, dim):
        return scalars

    def total(self, parts):
        return parts.sum(-1)

    def noise(self, precisions, normal):
        return normal / np.sqrt(precisions)

    def covariances(self, precisions, n_components, dim):
        return (1.0 / precisions)[..., None] * np.eye(dim)

    def spread(self, per_cluster):
        return per_cluster

    def cone_matrix(self, mean_precision, first, second):
        rows = [[second, first], [first, mean_precision]]
        return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


class Spherical(Covariance):
    """One precision for each cluster; every coordinate of a row counts for it."""

    name = "spherical"

    def one(self, dim):
        return ()

    def of_matrix(self, matrix):
        return np.diag(matrix).mean()

    def group(self, n_components, dim):
        return (n_components,)

    def degrees(self, value, dim):
        return value * dim

    def cover(self, covariance, n_components, dim):
        return np.broadcast_to(covariance, n_components).astype(float)

    def _gaussians(self, means, roots, offset):
        shape, one = means.shape, np.ones(means.shape[1])
        precisions = roots[..., 0, 0, None] ** 2 * one
        return DiagonalGaussians(means, precisions, offset[:, None] * one / shape[1])

    def student(self, means, dof, scales):
        return JointStudentTs(
            means, dof, scales[:, None, None] * np.eye(means.shape[1])
        )

    def per_cluster(self, native, factor):
        return factor * native

    def gain(self, statistics):
        return statistics["count"] * statistics["first"].shape[1]

    def second(self, values, resp):
        return resp.T @ np.einsum("nd,nd->n", values, values)

    def outer(self, a, b):
        return (a * b).sum(-1)

    def absorb(self, statistics, variance):
        return self.gain(statistics) * variance

    def mean_precision(self, scalar, n_components, dim):
        return np.full(n_components, float(scalar))

    def mean_matrices(self, precision, dim):
        return precision[:, None, None] * np.eye(dim)

    def repeated(self, statistics, precisions):
        return statistics["count"] * precisions

    def trace(self, precisions, variance, dim):
        return dim * precisions * variance

    def quadratic(self, precisions, vectors):
        return precisions * (vectors**2).sum(-1)

    def times(self, precisions, vectors):
        return precisions[..., None] * vectors

    def log_det(self, precisions, dim):
        return dim * np.log(precisions)

    def expected_log_det(self, wishart, dim):
        return dim * wishart.expected_log_det

    def noise(self, precisions, normal):
        return normal / np.sqrt(precisions)[..., None]

    def covariances(self, precisions, n_components, dim):
        return (1.0 / precisions)[..., None, None] * np.eye(dim)

    def cone_matrix(self, mean_precision, first, second):
        dim = first.shape[1]
        corner = mean_precision[:, None, None] * np.eye(dim)
        top = np.concatenate([corner, first[:, :, None]], axis=2)
        bottom = np.concatenate([first[:, None, :], second[:, None, None]], axis=2)
        return np.concatenate([top, bottom], axis=1)
