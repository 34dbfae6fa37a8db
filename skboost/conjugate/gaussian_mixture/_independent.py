"""Clusters whose means and precisions are independent a priori, or precisions known."""

import numpy as np

from skboost._math import LOG_2PI
from skboost.conjugate._natural import Cone
from skboost.conjugate.gaussian_mixture._wishart import log_det_of_root, wishart_moments


class NormalMeans:
    """Factor q(mu_k) = N(m_k, V_k) for each cluster.

    Natural parameter: ``precision`` (the inverse of V, of the shape that follows from
    the rows' precision) and ``first`` (precision times m); means are about the prior
    mean.

    Parameters
    ----------
    covariance : Covariance
    n_components, dim : int
    precision : float
        Of the prior, for every coordinate.
    """

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
        return {
            "precision": self.prior["precision"]
            + self.covariance.repeated(statistics, precision),
            "first": self.covariance.times(precision, statistics["first"]),
        }

    def cone(self, own):
        """The domain: the precision is positive."""
        return self.covariance.mean_cone(own["precision"])

    def roots(self, own):
        """Square roots of the precisions, as matrices."""
        return np.linalg.cholesky(self._matrices(own["precision"]))

    def means(self, own):
        """Expected means, shape (n_components, dim)."""
        solved = np.linalg.solve(
            self._matrices(own["precision"]), own["first"][..., None]
        )
        return solved[..., 0]

    def variance(self, own):
        """Variances of the means, of the shape of their precision."""
        return self.covariance.mean_variance(own["precision"])

    def kl(self, own):
        """KL from the prior, nats."""
        matrices, dim = self._matrices(own["precision"]), self.shape[1]
        prior = self._matrices(self.prior["precision"])
        trace = np.einsum("kij,kji->", prior, np.linalg.inv(matrices))
        means = self.means(own)
        away = np.einsum("kd,kde,ke->", means, prior, means)
        log_det = _log_det(matrices).sum() - _log_det(prior).sum()
        return 0.5 * (trace + away + log_det - matrices.shape[0] * dim)

    def entropy(self, own):
        """Differential entropy, nats."""
        log_det = _log_det(self._matrices(own["precision"])).sum()
        return 0.5 * (np.prod(self.shape) * (LOG_2PI + 1.0) - log_det)

    def log_density(self, own, draws):
        """Log densities of draws["means"], shape (n_draws,)."""
        matrices = self._matrices(own["precision"])
        away = draws["means"] - self.means(own)
        squares = np.einsum("skd,kde,ske->s", away, matrices, away)
        constant = _log_det(matrices).sum() - np.prod(self.shape) * LOG_2PI
        return 0.5 * (constant - squares)

    def sample(self, own, n, rng):
        """``{"means": (n, n_components, dim)}``."""
        normal = rng.standard_normal((n, *self.shape))
        upper = np.swapaxes(self.roots(own), -1, -2)
        noise = np.linalg.solve(upper, normal[..., None])[..., 0]
        return {"means": self.means(own) + noise}

    def _matrices(self, precision):
        return self.covariance.mean_matrices(precision, self.shape[1])


class WishartPrecisions:
    """Factor q(P_k) = Wishart(dof, rate) for each cluster, or one for all.

    Natural parameter: ``dof`` and ``rate``.

    Parameters
    ----------
    covariance : Covariance
    n_components, dim : int
    dof : float
        Of the prior.
    rate : ndarray
        Of the prior: ``dof`` times a covariance.
    means : NormalMeans
    """

    name = "precisions"

    def __init__(self, covariance, n_components, dim, dof, rate, means):
        self.covariance, self.shape = covariance, (n_components, dim)
        self._means = means
        group = covariance.group(n_components, dim)
        self.prior = {
            "dof": np.full(group, covariance.degrees(float(dof), dim)),
            "rate": covariance.rate(rate, n_components, dim),
        }

    def target(self, natural, statistics):
        """Natural parameter of the optimal factor, given summed statistics."""
        own = natural[self._means.name]
        means, first = self._means.means(own), statistics["first"]
        outer, count = self.covariance.outer, statistics.get("seen")
        if count is None:
            count = statistics["count"][:, None]
        # E of the sum of squares about the mean, whose own variance counts too.
        squares = statistics["second"] - outer(first, means) - outer(means, first)
        squares = squares + outer(count * means, means)
        squares = squares + self.covariance.absorb(
            statistics, self._means.variance(own)
        )
        return {
            "dof": self.prior["dof"] + self.covariance.gain(statistics),
            "rate": self.prior["rate"] + squares,
        }

    def cone(self, own):
        """The domain, one group for each Wishart."""
        least = self.covariance.least_dof(self.shape[1])
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

    def sample(self, own, n, rng):
        """``{"precisions": (n, ...)}``, native arrays."""
        return {"precisions": self.covariance.native(self.wishart(own).sample(n, rng))}


class _ClustersOfFactors:
    """A distribution that is a product of independent factors."""

    def kl(self, natural):
        """KL from the prior, nats."""
        return sum(factor.kl(natural[factor.name]) for factor in self.factors)

    def entropy(self, natural):
        """Differential entropy, nats."""
        return sum(factor.entropy(natural[factor.name]) for factor in self.factors)

    def log_density(self, natural, draws):
        """Log densities of draws of the parameters, shape (n_draws,)."""
        return sum(f.log_density(natural[f.name], draws) for f in self.factors)

    def log_prior(self, draws):
        """Log densities of draws under the prior, shape (n_draws,)."""
        return sum(f.log_density(f.prior, draws) for f in self.factors)

    def sample(self, natural, n, rng):
        """Draws of means and precisions."""
        found = {}
        for factor in self.factors:
            found |= factor.sample(natural[factor.name], n, rng)
        return found

    def means(self, natural):
        """Expected means, shape (n_components, dim)."""
        return self._means.means(natural["means"])

    def _mean_moments(self, natural):
        """Means of the means and their covariances."""
        variance = self._means.variance(natural["means"])
        matrices = self.covariance.mean_matrices(variance, self.shape[1])
        return self.means(natural), matrices

    def _spread(self, natural, precision):
        """Parts of E[(mu - m)' E[P] (mu - m)]."""
        return self.covariance.trace(
            precision, self._means.variance(natural["means"]), self.shape[1]
        )


class Independent(_ClustersOfFactors):
    """``mu ~ N(0, variance I)`` and ``P ~ Wishart(dof, rate)``, independent.

    The prior of Paisley et al., section IV-C. Updates are coordinate-wise: first the
    means, given the expected precisions, then the precisions, given the means.

    Parameters
    ----------
    covariance : Covariance
    n_components, dim : int
    mean_variance : float
        c of the paper.
    dof : float
        a of the paper.
    rate : ndarray
        B of the paper.
    """

    def __init__(self, covariance, n_components, dim, mean_variance, dof, rate):
        self.covariance, self.shape = covariance, (n_components, dim)
        self._means = NormalMeans(
            covariance, n_components, dim, 1.0 / mean_variance, self.precisions
        )
        self._precisions = WishartPrecisions(
            covariance, n_components, dim, dof, rate, self._means
        )
        self.factors = (self._means, self._precisions)

    def gaussians(self, natural, spread=0.0):
        """Gaussians whose log densities are the expected ones, less half of parts."""
        wishart = self._precisions.wishart(natural["precisions"])
        precision = self.covariance.native(wishart.mean)
        return self.covariance.gaussians(
            self.means(natural),
            wishart.root,
            self.covariance.expected_log_det(wishart, self.shape[1]),
            self._spread(natural, precision) + spread,
        )

    def covariances(self, natural):
        """Inverses of the expected precisions, a native array."""
        own = natural["precisions"]
        return self.covariance.divided(own["rate"], own["dof"])

    def moments(self, natural):
        """As `NormalWishart.moments`."""
        wishart = self._precisions.wishart(natural["precisions"])
        return {
            "means": self._mean_moments(natural),
            **wishart_moments(self.covariance, wishart),
        }

    def predictive(self, natural):
        """Student-t distributions of a new row, given its cluster: an approximation.

        The exact distribution, a Student-t with a normal shift, has no closed form.
        This one has its mean, its tails, and its covariance where that exists.
        """
        own, dim = natural["precisions"], self.shape[1]
        dof = own["dof"] - self.covariance.least_dof(dim)
        ones = np.ones(self.covariance.mean_group(*self.shape))
        scale = self.covariance.per_cluster(
            self.covariance.divided(own["rate"], dof), ones
        )
        # Nothing is left of the shift where there is no covariance to get right.
        stretch = dof / np.maximum(dof - 2.0, np.finfo(float).tiny)
        shift = self.covariance.mean_variance(natural["means"]["precision"])
        widened = scale + self.covariance.divided(shift, stretch)
        return self.covariance.student(self.means(natural), dof, widened)

    def precisions(self, natural):
        """Expected precisions, a native array."""
        wishart = self._precisions.wishart(natural["precisions"])
        return self.covariance.native(wishart.mean)


class KnownCovariances(_ClustersOfFactors):
    """Clusters of known covariance: ``mu ~ N(0, variance I)``.

    Parameters
    ----------
    covariance : Covariance
    n_components, dim : int
    mean_variance : float
    known : ndarray
        Native array of covariances.
    """

    def __init__(self, covariance, n_components, dim, mean_variance, known):
        self.covariance, self.shape = covariance, (n_components, dim)
        self._known = covariance.cover(known, n_components, dim)
        self._precision = covariance.native(
            np.linalg.inv(covariance.matrices(self._known))
        )
        self._means = NormalMeans(
            covariance,
            n_components,
            dim,
            1.0 / mean_variance,
            self.precisions,
        )
        self.factors = (self._means,)

    def gaussians(self, natural, spread=0.0):
        """Gaussians whose log densities are the expected ones, less half of parts."""
        return self.covariance.gaussians(
            self.means(natural),
            np.linalg.cholesky(self.covariance.matrices(self._precision)),
            self.covariance.log_det(self._precision, self.shape[1]),
            self._spread(natural, self._precision) + spread,
        )

    def covariances(self, natural):
        """The known covariances, a native array."""
        return self._known.copy()

    def moments(self, natural):
        """As `NormalWishart.moments`; what is known has no variance."""
        none = np.zeros_like(self._known)
        return {
            "means": self._mean_moments(natural),
            "precisions": (self._precision, none),
            "covariances": (self._known, none),
        }

    def predictive(self, natural):
        """Gaussian distributions of a new row, given its cluster: exact."""
        ones = np.ones(self.covariance.mean_group(*self.shape))
        scale = self.covariance.per_cluster(self._known, ones)
        shift = self.covariance.mean_variance(natural["means"]["precision"])
        return self.covariance.student(
            self.means(natural), np.full_like(ones, np.inf), scale + shift
        )

    def precisions(self, natural):
        """The known precisions, a native array."""
        return self._precision

    def sample(self, natural, n, rng):
        """Draws of the means; the precisions are repeated."""
        known = np.broadcast_to(self._precision, (n, *self._precision.shape))
        return super().sample(natural, n, rng) | {"precisions": known}


def _log_det(matrices):
    return log_det_of_root(np.linalg.cholesky(matrices))
