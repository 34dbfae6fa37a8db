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
    log_densities_at_draws,
)
from skboost.conjugate.gaussian_mixture._wishart import Wishart, log_det


class Covariance:
    """One shape of precisions; stateless. The base knows those that are numbers."""

    name: str
    handles_missing = False
    # Missing entries make every coordinate count for itself.
    counts_entries = False

    # --- shapes

    @staticmethod
    def for_each(values, shape):
        """One value for all, or one for each cluster, as an array of that shape."""
        values = np.asarray(values, dtype=float)
        values = values.reshape(values.shape + (1,) * (len(shape) - values.ndim))
        return np.broadcast_to(values, shape).copy()

    def native_shape(self, n_components, dim):
        """Shape of a native array."""
        return (n_components, *self.one(dim))

    def group(self, n_components, dim):
        """Shape of the stack of Wisharts."""
        return (n_components,)

    def mean_group(self, n_components, dim):
        """Shape of the counts that belong to means."""
        return (n_components,)

    def cover(self, covariance, n_components, dim):
        """A covariance for one or all as a native array."""
        shape = self.native_shape(n_components, dim)
        return np.broadcast_to(covariance, shape).astype(float)

    def degrees(self, value, dim):
        """A dof or rate of one coordinate, for all that share a precision."""
        return value

    def prior_dof(self, dof, n_components, dim):
        """Degrees of freedom of the prior Wisharts, given for all or each cluster."""
        return self.for_each(self.degrees(dof, dim), self.group(n_components, dim))

    def prior_rate(self, covariance, n_components, dim):
        """Native rate of the prior."""
        return self.degrees(self.cover(covariance, n_components, dim), dim)

    def least_dof(self, dim):
        """Degrees of freedom must be above this."""
        return 0.0

    def native(self, matrices):
        """Native array of a stack of matrices, one for each Wishart."""
        return matrices[..., 0, 0]

    def matrices(self, native):
        """Stack of matrices of a native array, one for each Wishart."""
        return native[..., None, None]

    def wishart(self, dof, rate):
        """Stack of Wisharts of native parameters."""
        return Wishart(dof, self.matrices(rate))

    def whole_matrices(self, native, dim):
        """Matrices (..., dim, dim) that a native array stands for."""
        return self.spread(native)[..., None] * np.eye(dim)

    # --- scalars and vectors of clusters

    def per_cluster(self, native, factor):
        """Native arrays times scalars, one array for each cluster."""
        return factor * native

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

    # --- statistics

    def counts(self, statistics):
        """Rows that each mean has seen."""
        return statistics["count"]

    def gain(self, statistics):
        """What the rows add to the degrees of freedom."""
        return self.degrees(self.counts(statistics), statistics["first"].shape[1])

    def absorb(self, statistics, variance):
        """Variances of the means times the number of rows."""
        return self.per_cluster(variance, self.gain(statistics))

    # --- means

    def mean_precision(self, scalar, n_components, dim):
        """Precisions of independent means: a multiple of the identity."""
        return np.full(self.mean_group(n_components, dim), scalar, dtype=float)

    def mean_cone(self, precision):
        """Where precisions of means are proper."""
        return Cone((precision,))

    def mean_variance(self, precision):
        """Inverses of precisions of means."""
        return 1.0 / precision

    # --- products with precisions

    def times(self, precisions, vectors):
        """P v for every cluster."""
        return self.spread(precisions) * vectors

    def trace(self, precisions, variance, dim):
        """Parts of tr(P V), V the variances of means."""
        return self.parts(precisions, dim) * variance

    def whole_trace(self, precisions, dim):
        """tr P for every cluster."""
        return self.total(self.parts(precisions, dim))

    def each_log_det(self, precisions):
        """ln |P| for every Wishart."""
        return np.log(precisions)

    def log_det(self, precisions, dim):
        """Parts of ln |P| for every cluster."""
        return self.parts(self.each_log_det(precisions), dim)

    def expected_log_det(self, wishart, dim):
        """Parts of E[ln |P|] for every cluster."""
        return self.parts(wishart.expected_log_det, dim)

    def noise(self, precisions, normal):
        """Normal vectors with the inverse of P as covariance."""
        return normal / self.spread(np.sqrt(precisions))

    # --- densities of rows

    def gaussians(self, means, roots, log_det, spread):
        """Gaussians for rows; `spread` is the means' expected squared error in units
        of the noise."""
        constant = self.parts(LOG_2PI, means.shape[1])
        offset = (log_det - spread - constant) / 2.0
        return self._gaussians(means, roots, offset)

    def student(self, means, dof, scales):
        """Student-t distributions of rows, with scales of `per_cluster`."""
        scales = self.whole_matrices(scales, means.shape[1])
        return JointStudentTs(means, np.broadcast_to(dof, len(means)), scales)

    def log_density_at(self, means, precisions, rows):
        """Log densities of rows at draws, shape (n_rows, n_draws, n_components)."""
        n_draws, n_components, dim = means.shape
        scales = np.broadcast_to(self.spread(precisions), means.shape).reshape(-1, dim)
        offset = (np.log(scales) - LOG_2PI) / 2.0
        gaussians = DiagonalGaussians(means.reshape(-1, dim), scales, offset)
        return gaussians.log_density(rows).reshape(len(rows), n_draws, n_components)


class Full(Covariance):
    """A precision matrix for each cluster."""

    name = "full"
    handles_missing = True

    def one(self, dim):
        """Shape of one covariance."""
        return (dim, dim)

    def of_matrix(self, matrix):
        """One covariance of this shape from a matrix."""
        return matrix

    def of_each(self, precisions):
        """Precision matrices that broadcast over the clusters."""
        return precisions

    def least_dof(self, dim):
        return dim - 1.0

    def native(self, matrices):
        return matrices

    def matrices(self, native):
        return native

    def whole_matrices(self, native, dim):
        return native

    def per_cluster(self, native, factor):
        return factor[:, None, None] * native

    def second(self, values, resp):
        """Sums of squares and products of the rows, weighted."""
        return np.stack([(values * r[:, None]).T @ values for r in resp.T])

    def outer(self, a, b):
        """Sums of products of per-cluster vectors (n_components, dim)."""
        return a[:, :, None] * b[:, None, :]

    def mean_precision(self, scalar, n_components, dim):
        return np.tile(scalar * np.eye(dim), (n_components, 1, 1))

    def mean_cone(self, precision):
        return Cone((), precision)

    def mean_variance(self, precision):
        return np.linalg.inv(precision)

    def times(self, precisions, vectors):
        return np.einsum("...kde,...ke->...kd", precisions, vectors)

    def trace(self, precisions, variance, dim):
        return np.einsum("...de,...ed->...", precisions, variance)

    def whole_trace(self, precisions, dim):
        return np.einsum("...dd->...", self.of_each(precisions))

    def quadratic(self, precisions, vectors):
        """v' P v for every cluster."""
        each = self.of_each(precisions)
        return np.einsum("...kde,...kd,...ke->...k", each, vectors, vectors)

    def each_log_det(self, precisions):
        return log_det(precisions)

    def log_det(self, precisions, dim):
        return log_det(self.of_each(precisions))

    def expected_log_det(self, wishart, dim):
        return wishart.expected_log_det

    def noise(self, precisions, normal):
        root = np.linalg.cholesky(self.of_each(precisions))
        return np.linalg.solve(np.swapaxes(root, -1, -2), normal[..., None])[..., 0]

    def _gaussians(self, means, roots, offset):
        return MatrixGaussians(means, roots, np.broadcast_to(offset, len(means)))

    def log_density_at(self, means, precisions, rows):
        shape = (*means.shape, means.shape[-1])
        each = np.broadcast_to(self.of_each(precisions), shape)
        return log_densities_at_draws(means, each, rows)

    def cone_matrix(self, mean_precision, first, second):
        """Linear in the natural parameters, and positive definite where the rate is."""
        # The rate, ``second - first first' / mean_precision``, is its Schur complement.
        return _bordered(second, first[:, :, None], mean_precision[:, None, None])


class Tied(Full):
    """One precision matrix for all clusters."""

    name = "tied"
    handles_missing = False

    def native_shape(self, n_components, dim):
        return (dim, dim)

    def group(self, n_components, dim):
        return ()

    def of_each(self, precisions):
        return precisions[..., None, :, :]

    def gain(self, statistics):
        return statistics["count"].sum()

    def second(self, values, resp):
        return (values * resp.sum(axis=1, keepdims=True)).T @ values

    def outer(self, a, b):
        return a.T @ b

    def absorb(self, statistics, variance):
        return np.tensordot(statistics["count"], variance, 1)

    def times(self, precisions, vectors):
        return vectors @ precisions

    def expected_log_det(self, wishart, dim):
        return wishart.expected_log_det[..., None]

    def cone_matrix(self, mean_precision, first, second):
        return _bordered(second, first.T, np.diag(mean_precision))


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

    mean_group = group

    def spread(self, per_cluster):
        return per_cluster

    def parts(self, scalars, dim):
        return scalars

    def total(self, parts):
        return parts.sum(-1)

    def counts(self, statistics):
        return statistics["seen"]

    def second(self, values, resp):
        return resp.T @ (values * values)

    def outer(self, a, b):
        return a * b

    def quadratic(self, precisions, vectors):
        return (precisions * vectors**2).sum(-1)

    def _gaussians(self, means, roots, offset):
        return DiagonalGaussians(means, roots[..., 0, 0] ** 2, offset)

    def student(self, means, dof, scales):
        return SeparateStudentTs(means, dof, scales)

    def cone_matrix(self, mean_precision, first, second):
        parts = (second, first, mean_precision)
        return _bordered(*(part[..., None, None] for part in parts))


class Spherical(Covariance):
    """One precision for each cluster; every coordinate of a row counts for it."""

    name = "spherical"

    def one(self, dim):
        return ()

    def of_matrix(self, matrix):
        return np.diag(matrix).mean()

    def degrees(self, value, dim):
        return value * dim

    def second(self, values, resp):
        return resp.T @ np.einsum("nd,nd->n", values, values)

    def outer(self, a, b):
        return (a * b).sum(-1)

    def quadratic(self, precisions, vectors):
        return precisions * (vectors**2).sum(-1)

    def _gaussians(self, means, roots, offset):
        shape, one = means.shape, np.ones(means.shape[1])
        precisions = roots[..., 0, 0, None] ** 2 * one
        return DiagonalGaussians(means, precisions, offset[:, None] * one / shape[1])

    def cone_matrix(self, mean_precision, first, second):
        corner = self.whole_matrices(mean_precision, first.shape[1])
        return _bordered(corner, first[:, :, None], second[:, None, None])


def _bordered(corner, column, last):
    """Symmetric matrices ``[[corner, column], [column', last]]`` over a stack."""
    top = np.concatenate([corner, column], axis=-1)
    bottom = np.concatenate([np.swapaxes(column, -1, -2), last], axis=-1)
    return np.concatenate([top, bottom], axis=-2)


COVARIANCES = {shape.name: shape for shape in (Full(), Tied(), Diag(), Spherical())}
