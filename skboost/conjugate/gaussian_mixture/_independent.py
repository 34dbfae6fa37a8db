"""Clusters whose means and precisions are independent a priori, or precisions known."""

import numpy as np

from skboost._math import LOG_2PI
from skboost.conjugate._natural import Cone
from skboost.conjugate.gaussian_mixture._wishart import Clusters, log_det


class NormalMeans:
    """q(mu_k) = N(m_k, V_k) about the prior mean, by ``precision`` and ``first``,
    V^-1 m."""

    name = "means"

    def __init__(self, covariance, n_components, dim, precision, expected_precision):
        self.covariance, self.shape = covariance, (n_components, dim)
        self._expected_precision = expected_precision
        self.prior = {
            "precision": covariance.mean_precision(precision, n_components, dim),
            "first": np.zeros((n_components, dim)),
        }

    def target(self, natural, statistics):
        """Natural parameter of the optimal factor, given summed statistics."""
        precision = self._expected_precision(natural)
        counts = self.covariance.counts(statistics)
        return {
            "precision": self.prior["precision"]
            + self.covariance.per_cluster(precision, counts),
            "first": self.covariance.times(precision, statistics["first"]),
        }

    def cone(self, own):
        """The domain: the precision is positive."""
        return self.covariance.mean_cone(own["precision"])

    def means(self, own):
        """Expected means, shape (n_components, dim)."""
        solved = np.linalg.solve(self._precisions(own), own["first"][..., None])
        return solved[..., 0]

    def variance(self, own):
        """Variances of the means, of the shape of their precision."""
        return self.covariance.mean_variance(own["precision"])

    def kl(self, own):
        """KL from the prior, nats."""
        precisions, prior = self._precisions(own), self._precisions(self.prior)
        trace = np.einsum("kij,kji->", prior, np.linalg.inv(precisions))
        means = self.means(own)
        away = np.einsum("kd,kde,ke->", means, prior, means)
        change = log_det(precisions).sum() - log_det(prior).sum()
        return 0.5 * (trace + away + change - np.prod(self.shape))

    def entropy(self, own):
        """Differential entropy, nats."""
        log_dets = log_det(self._precisions(own)).sum()
        return 0.5 * (np.prod(self.shape) * (LOG_2PI + 1.0) - log_dets)

    def log_density(self, own, draws):
        """Log densities of draws["means"], shape (n_draws,)."""
        precisions = self._precisions(own)
        away = draws["means"] - self.means(own)
        squares = np.einsum("skd,kde,ske->s", away, precisions, away)
        constant = log_det(precisions).sum() - np.prod(self.shape) * LOG_2PI
        return 0.5 * (constant - squares)

    def statistics(self, draws):
        """Sufficient statistics of draws, arrays with a leading axis of draws."""
        means, n_axes = draws["means"], self.prior["precision"].ndim
        if n_axes == 3:
            products = means[..., :, None] * means[..., None, :]
        else:
            products = means**2 if n_axes == 2 else (means**2).sum(axis=-1)
        return {"precision": -0.5 * products, "first": means}

    def sample(self, own, n, rng):
        """``{"means": (n, n_components, dim)}``."""
        normal = rng.standard_normal((n, *self.shape))
        upper = np.swapaxes(np.linalg.cholesky(self._precisions(own)), -1, -2)
        noise = np.linalg.solve(upper, normal[..., None])[..., 0]
        return {"means": self.means(own) + noise}

    def _precisions(self, own):
        """Precisions of the means as matrices (n_components, dim, dim)."""
        return self.covariance.whole_matrices(own["precision"], self.shape[1])


class WishartPrecisions:
    """q(P_k) = Wishart(dof, rate), one each or one for all; the prior's rate is dof
    times S."""

    name = "precisions"

    def __init__(self, covariance, n_components, dim, dof, rate, means):
        self.covariance, self.dim = covariance, dim
        self._means = means
        self.prior = {
            "dof": covariance.prior_dof(dof, n_components, dim),
            "rate": covariance.prior_rate(rate, n_components, dim),
        }

    def target(self, natural, statistics):
        """Natural parameter of the optimal factor, given summed statistics."""
        own, covariance = natural[self._means.name], self.covariance
        means, first = self._means.means(own), statistics["first"]
        outer, counts = covariance.outer, covariance.counts(statistics)
        # E of the sum of squares about the mean, whose own variance counts too.
        squares = statistics["second"] - outer(first, means) - outer(means, first)
        squares = squares + outer(covariance.spread(counts) * means, means)
        squares = squares + covariance.absorb(statistics, self._means.variance(own))
        return {
            "dof": self.prior["dof"] + covariance.gain(statistics),
            "rate": self.prior["rate"] + squares,
        }

    def cone(self, own):
        """The domain, one group for each Wishart."""
        least = self.covariance.least_dof(self.dim)
        return Cone((own["dof"] - least,), self.covariance.matrices(own["rate"]))

    def wishart(self, own):
        """The stack of Wisharts."""
        return self.covariance.wishart(own["dof"], own["rate"])

    def kl(self, own):
        """KL from the prior, nats."""
        return self.wishart(own).kl(self.wishart(self.prior))

    def entropy(self, own):
        """Differential entropy, nats."""
        return self.wishart(own).entropy().sum()

    def log_density(self, own, draws):
        """Log densities of draws["precisions"], shape (n_draws,)."""
        return self.wishart(own).log_density(
            self.covariance.matrices(draws["precisions"])
        )

    def statistics(self, draws):
        """Sufficient statistics of draws, arrays with a leading axis of draws."""
        precisions = draws["precisions"]
        log_dets = log_det(self.covariance.matrices(precisions))
        return {"dof": 0.5 * log_dets, "rate": -0.5 * precisions}

    def sample(self, own, n, rng):
        """``{"precisions": (n, ...)}``, native arrays."""
        return {"precisions": self.covariance.native(self.wishart(own).sample(n, rng))}


class SeparateMeans(Clusters):
    """Clusters whose means are a factor of their own: ``mu ~ N(0, variance I)``."""

    def __init__(self, covariance, n_components, dim, mean_variance):
        super().__init__(covariance, n_components, dim)
        self._means = NormalMeans(
            covariance, n_components, dim, 1.0 / mean_variance, self.precisions
        )

    def means(self, natural):
        """Expected means, shape (n_components, dim)."""
        return self._means.means(natural["means"])

    def _mean_moments(self, natural, wishart):
        variance = self._means.variance(natural["means"])
        matrices = self.covariance.whole_matrices(variance, self.shape[1])
        return self.means(natural), matrices

    def spread_of_means(self, natural, wishart):
        """Parts of tr(E[P] V), V the variances of the means."""
        variance = self._means.variance(natural["means"])
        precisions = self.covariance.native(wishart.mean)
        return self.covariance.trace(precisions, variance, self.shape[1])

    def _for_each(self, native):
        """One native array for each cluster."""
        ones = np.ones(self.covariance.mean_group(*self.shape))
        return self.covariance.per_cluster(native, ones)


class Independent(SeparateMeans):
    """The independent prior of Paisley et al., section IV-C."""

    def __init__(self, covariance, n_components, dim, mean_variance, dof, rate):
        super().__init__(covariance, n_components, dim, mean_variance)
        self._precisions = WishartPrecisions(
            covariance, n_components, dim, dof, rate, self._means
        )
        self.factors = (self._means, self._precisions)

    def wishart(self, natural):
        """The stack of Wisharts."""
        return self._precisions.wishart(natural["precisions"])

    def predictive(self, natural):
        """Student-t of a new row given its cluster, with the mean and covariance of
        the exact one."""
        own = natural["precisions"]
        dof = own["dof"] - self.covariance.least_dof(self.shape[1])
        scale = self._for_each(self.covariance.divided(own["rate"], dof))
        # Nothing is left of the shift where there is no covariance to get right.
        stretch = dof / np.maximum(dof - 2.0, np.finfo(float).tiny)
        shift = self._means.variance(natural["means"])
        widened = scale + self.covariance.divided(shift, stretch)
        return self.covariance.student(self.means(natural), dof, widened)


class KnownCovariances(SeparateMeans):
    """Clusters of known covariance: ``mu ~ N(0, variance I)``."""

    def __init__(self, covariance, n_components, dim, mean_variance, known):
        super().__init__(covariance, n_components, dim, mean_variance)
        self.factors = (self._means,)
        known = covariance.matrices(covariance.cover(known, n_components, dim))
        self._known = FixedPrecisions(known, covariance)

    def wishart(self, natural):
        """The known precisions, in place of Wisharts of them."""
        return self._known

    def predictive(self, natural):
        """Gaussian distributions of a new row, given its cluster: exact."""
        scale = self._for_each(self.covariances(natural))
        shift = self._means.variance(natural["means"])
        dof = np.full(self.covariance.mean_group(*self.shape), np.inf)
        return self.covariance.student(self.means(natural), dof, scale + shift)


class FixedPrecisions:
    """What `Clusters` asks of a `Wishart`, for precisions without uncertainty."""

    def __init__(self, covariances, shape):
        self.rate = self.inverse_mean = covariances
        self.dof = np.ones(())
        self.mean = np.linalg.inv(covariances)
        self.root = np.linalg.cholesky(self.mean)
        self.expected_log_det = shape.each_log_det(shape.native(self.mean))
        self.variance = self.inverse_variance = np.zeros_like(covariances)
