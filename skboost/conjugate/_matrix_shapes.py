"""Precision matrices: one for each cluster, or one for all."""

import numpy as np

from skboost.conjugate._gaussians import MatrixGaussians
from skboost.conjugate._natural import Cone
from skboost.conjugate._shapes import Covariance
from skboost.conjugate._student import JointStudentTs
from skboost.conjugate._wishart import Wishart, log_det_of_root


class Full(Covariance):
    """A precision matrix for each cluster."""

    name = "full"
    handles_missing = True

    def group(self, n_components, dim):
        """Shape of the stack of Wisharts."""
        return (n_components,)

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
        """Native arrays times scalars, one array for each cluster."""
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

    def expected_log_det(self, wishart, dim):
        """Parts of E[ln |P|] for every cluster."""
        return wishart.expected_log_det

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
