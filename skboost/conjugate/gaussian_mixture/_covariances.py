"""Shapes of the clusters' precisions: full, tied, diagonal, spherical.

A `Covariance` knows the arrays of one shape and nothing of priors. Per-cluster
arrays of precisions, second moments and rates ("native" arrays) are

========== =========================== ==========================================
shape      native array                one Wishart for
========== =========================== ==========================================
full       (n_components, dim, dim)    each cluster
tied       (dim, dim)                  all clusters
diag       (n_components, dim)         each cluster and coordinate (one-dimensional)
spherical  (n_components,)             each cluster (one-dimensional, dim times)
========== =========================== ==========================================

Native arrays may carry a leading axis of draws. A scalar for each cluster, such as a
log determinant, comes in *parts*: for each coordinate where the shape is diagonal, else
one for each cluster.
"""

import numpy as np

from skboost._math import LOG_2PI
from skboost.conjugate._natural import Cone
from skboost.conjugate.gaussian_mixture._densities import (
    DiagonalGaussians,
    JointStudentTs,
    MatrixGaussians,
    SeparateStudentTs,
)
from skboost.conjugate.gaussian_mixture._wishart import Wishart, log_det_of_root


class Covariance:
    """One shape of precisions; stateless."""

    name: str
    handles_missing = False
    # Missing entries make every coordinate count for itself.
    counts_entries = False

    def degrees(self, value, dim):
        """A dof or rate of one coordinate, for all that share a precision."""
        return value

    def group(self, n_components, dim):
        """Shape of the stack of Wisharts."""
        return (n_components,)

    def per_cluster(self, native, factor):
        """Native arrays times scalars, one array for each cluster."""
        return factor * native

    def expected_log_det(self, wishart, dim):
        """Parts of E[ln |P|] for every cluster."""
        return wishart.expected_log_det

    def mean_group(self, n_components, dim):
        """Shape of the counts that belong to means."""
        return (n_components,)

    def rate(self, covariance, n_components, dim):
        """Native rate of the prior."""
        return self.degrees(self.cover(covariance, n_components, dim), dim)

    def least_dof(self, dim):
        """Degrees of freedom must be above this."""
        return 0.0

    def wishart(self, dof, rate):
        """Stack of Wisharts of native parameters."""
        return Wishart(dof, rate[..., None, None])

    def native(self, matrices):
        """Native array of a stack of matrices."""
        return matrices[..., 0, 0]

    def matrices(self, native):
        """Stack of matrices of a native array."""
        return native[..., None, None]

    def mean_cone(self, precision):
        """Where precisions of means are proper."""
        return Cone((precision,))

    def mean_variance(self, precision):
        """Inverses of precisions of means."""
        return 1.0 / precision

    def divided(self, native, scalars):
        """A native array divided by one scalar for each Wishart."""
        return native / scalars.reshape(
            scalars.shape + (1,) * (native.ndim - scalars.ndim)
        )

    def spread(self, per_cluster):
        """Per-cluster scalars, shaped to multiply per-cluster vectors."""
        return per_cluster[..., None]

    def parts(self, scalars, dim):
        """Scalars times the coordinates that each stands for."""
        return dim * scalars

    def total(self, parts):
        """Per-cluster sums of parts."""
        return parts

    def gaussians(self, means, roots, log_det, spread):
        """Gaussians for log densities of rows.

        Parameters
        ----------
        means : ndarray of shape (n_components, dim)
        roots : ndarray of shape (\\*group, p, p)
            Triangular square roots of the (expected) precisions.
        log_det, spread : ndarray
            Parts of the (expected) log determinants, and of the expected squared
            error of the means in units of the rows' own noise.
        """
        constant = self.parts(LOG_2PI, means.shape[1])
        offset = (log_det - spread - constant) / 2.0
        return self._gaussians(means, roots, offset)


class Full(Covariance):
    """A precision matrix for each cluster."""

    name = "full"
    handles_missing = True

    def cover(self, covariance, n_components, dim):
        """A covariance for one or all as a native array."""
        return np.broadcast_to(covariance, (n_components, dim, dim)).astype(float)

    def one(self, dim):
        """Shape of one covariance."""
        return (dim, dim)

    def of_matrix(self, matrix):
        """One covariance of this shape from a matrix."""
        return matrix

    def least_dof(self, dim):
        return dim - 1.0

    def wishart(self, dof, rate):
        return Wishart(dof, rate)

    def native(self, matrices):
        return matrices

    def matrices(self, native):
        return native

    def _gaussians(self, means, roots, offset):
        return MatrixGaussians(means, roots, np.broadcast_to(offset, len(means)))

    def student(self, means, dof, scales):
        """Student-t distributions of rows, with scales of `per_cluster`."""
        return JointStudentTs(means, np.broadcast_to(dof, len(means)), scales)

    def per_cluster(self, native, factor):
        return factor[:, None, None] * native

    def gain(self, statistics):
        """What the rows add to the degrees of freedom."""
        return statistics["count"]

    def second(self, values, resp):
        """Sums of squares and products of the rows, weighted."""
        return np.stack([(values * r[:, None]).T @ values for r in resp.T])

    def outer(self, a, b):
        """Sums of products of per-cluster vectors (n_components, dim)."""
        return a[:, :, None] * b[:, None, :]

    def absorb(self, statistics, variance):
        """Variances of the means times the number of rows."""
        return statistics["count"][:, None, None] * variance

    def mean_precision(self, scalar, n_components, dim):
        """Precisions of independent means: a multiple of the identity."""
        return np.tile(scalar * np.eye(dim), (n_components, 1, 1))

    def mean_matrices(self, precision, dim):
        """The same as matrices (n_components, dim, dim)."""
        return precision

    def mean_cone(self, precision):
        """Where precisions of means are proper."""
        return Cone((np.ones(len(precision)),), precision)

    def mean_variance(self, precision):
        """Inverses of precisions of means."""
        return np.linalg.inv(precision)

    def repeated(self, statistics, precisions):
        """Precisions times the number of rows, for each cluster."""
        return statistics["count"][:, None, None] * precisions

    def trace(self, precisions, variance, dim):
        """Parts of tr(P V), V the variances of means."""
        return np.einsum("...de,...ed->...", precisions, variance)

    def quadratic(self, precisions, vectors):
        """v' P v for every cluster."""
        return np.einsum("...kde,...kd,...ke->...k", precisions, vectors, vectors)

    def times(self, precisions, vectors):
        """P v for every cluster."""
        return np.einsum("kde,ke->kd", precisions, vectors)

    def log_det(self, precisions, dim):
        """Parts of ln |P| for every cluster."""
        return log_det_of_root(np.linalg.cholesky(precisions))

    def noise(self, precisions, normal):
        """Normal vectors with the inverse of P as covariance."""
        root = np.linalg.cholesky(precisions)
        return np.linalg.solve(np.swapaxes(root, -1, -2), normal[..., None])[..., 0]

    def covariances(self, precisions, n_components, dim):
        """Matrices (n_components, dim, dim) of inverse precisions."""
        return np.broadcast_to(
            np.linalg.inv(precisions), (n_components, dim, dim)
        ).copy()

    def cone_matrix(self, mean_precision, first, second):
        """Positive definite exactly where the rate of a Normal-Wishart is.

        The rate, ``second - first first' / mean_precision``, is its Schur complement,
        and it is linear in the natural parameters, which the rate is not.
        """
        corner = mean_precision[:, None, None]
        top = np.concatenate([second, first[:, :, None]], axis=2)
        return np.concatenate(
            [top, np.concatenate([first[:, None, :], corner], axis=2)], axis=1
        )


class Tied(Full):
    """One precision matrix for all clusters."""

    name = "tied"
    handles_missing = False

    def group(self, n_components, dim):
        return ()

    def cover(self, covariance, n_components, dim):
        return np.array(covariance, dtype=float)

    def gain(self, statistics):
        return statistics["count"].sum()

    def second(self, values, resp):
        return (values * resp.sum(axis=1, keepdims=True)).T @ values

    def outer(self, a, b):
        return a.T @ b

    def absorb(self, statistics, variance):
        return np.tensordot(statistics["count"], variance, 1)

    def quadratic(self, precisions, vectors):
        return super().quadratic(
            np.broadcast_to(
                precisions[..., None, :, :], vectors.shape + (vectors.shape[-1],)
            ),
            vectors,
        )

    def times(self, precisions, vectors):
        return vectors @ precisions

    def log_det(self, precisions, dim):
        return super().log_det(precisions, dim)[..., None]

    def expected_log_det(self, wishart, dim):
        return wishart.expected_log_det[..., None]

    def noise(self, precisions, normal):
        return super().noise(precisions[..., None, :, :], normal)

    def cone_matrix(self, mean_precision, first, second):
        return np.block([[second, first.T], [first, np.diag(mean_precision)]])


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


COVARIANCES = {shape.name: shape for shape in (Full(), Tied(), Diag(), Spherical())}
