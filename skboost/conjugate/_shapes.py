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

from skboost._math import LOG_2PI
from skboost.conjugate._natural import Cone
from skboost.conjugate._wishart import Wishart


class Covariance:
    """One shape of precisions; stateless."""

    name: str
    handles_missing = False
    # Missing entries make every coordinate count for itself.
    counts_entries = False

    def degrees(self, value, dim):
        """A dof or rate of one coordinate, for all that share a precision."""
        return value

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


def wishart_moments(covariance, wishart):
    """Means and variances of precisions and of their inverses, native arrays."""
    moments = {
        "precisions": (wishart.mean, wishart.variance),
        "covariances": (wishart.inverse_mean, wishart.inverse_variance),
    }
    return {
        name: tuple(covariance.native(matrices) for matrices in pair)
        for name, pair in moments.items()
    }
