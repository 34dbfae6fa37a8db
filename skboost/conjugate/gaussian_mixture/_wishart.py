"""Wishart distributions of precisions, and normal-Wishart distributions of clusters."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import multigammaln, psi

from skboost._math import LOG_2PI
from skboost.conjugate._natural import Cone

_LOG_2 = np.log(2.0)


def log_det_of_root(root):
    """ln |A A'| for triangular A, over a stack."""
    return 2.0 * np.log(np.abs(np.diagonal(root, axis1=-2, axis2=-1))).sum(-1)


def log_det(matrices):
    """ln |P| of positive definite matrices, over a stack."""
    return log_det_of_root(np.linalg.cholesky(matrices))


@dataclass(frozen=True)
class Wishart:
    """Precisions with densities in proportion to ``|P|^((dof - p - 1)/2)
    exp(-tr(rate P)/2)``."""

    dof: np.ndarray
    rate: np.ndarray

    @property
    def dim(self):
        """Size p of the matrices."""
        return self.rate.shape[-1]

    @cached_property
    def inverse_root(self):
        """Upper triangular U with inverse(rate) = U U', shape (\\*group, p, p)."""
        lower = np.linalg.inv(np.linalg.cholesky(self.rate))
        return np.swapaxes(np.tril(lower), -1, -2)

    @cached_property
    def log_det_rate(self):
        """ln |rate|, shape (\\*group)."""
        return -log_det_of_root(self.inverse_root)

    @property
    def root(self):
        """Upper triangular square root of the mean: E[P] = root root'."""
        return np.sqrt(self.dof)[..., None, None] * self.inverse_root

    @property
    def mean(self):
        """E[P], shape (\\*group, p, p)."""
        return self.root @ np.swapaxes(self.root, -1, -2)

    @property
    def variance(self):
        """Variances of the entries of P, shape (\\*group, p, p)."""
        unit = self.mean / self.dof[..., None, None]
        return self.dof[..., None, None] * _squares_and_products(unit, 1.0, 1.0)

    @property
    def inverse_mean(self):
        """E[inverse(P)]; where there is none, inf on the diagonal and NaN beside it."""
        excess = (self.dof - self.dim - 1.0)[..., None, None]
        return self._where(excess > 0, self.rate / np.where(excess > 0, excess, 1.0))

    @property
    def inverse_variance(self):
        """Variances of the entries of inverse(P); as `inverse_mean` where none is."""
        excess = (self.dof - self.dim)[..., None, None]
        known = excess > 3.0
        excess = np.where(known, excess, 4.0)
        products = _squares_and_products(self.rate, excess + 1.0, excess - 1.0)
        variance = products / (excess * (excess - 1.0) ** 2 * (excess - 3.0))
        return self._where(known, variance)

    def _where(self, known, values):
        none = np.where(np.eye(self.dim) > 0, np.inf, np.nan)
        return np.where(known, values, none)

    @cached_property
    def expected_log_det(self):
        """E[ln |P|], shape (\\*group)."""
        halves = (self.dof[..., None] - np.arange(self.dim)) / 2.0
        return psi(halves).sum(-1) + self.dim * _LOG_2 - self.log_det_rate

    @cached_property
    def log_normaliser(self):
        """Logarithm of the normaliser of the density, shape (\\*group)."""
        half = self.dof / 2.0
        gamma = multigammaln(half, self.dim) if self.dof.size else half
        return half * (self.dim * _LOG_2 - self.log_det_rate) + gamma

    def kl(self, other):
        """KL divergence from `other` of the same shape, summed over the stack."""
        # tr(other.rate E[P]) without forming the product twice.
        trace = np.einsum("...ij,...ji->...", other.rate, self.mean)
        gain = (self.dof - other.dof) * self.expected_log_det
        gain = gain - self.dof * self.dim + trace
        return float(np.sum(gain / 2.0 - self.log_normaliser + other.log_normaliser))

    def entropy(self):
        """Differential entropy, nats, shape (\\*group)."""
        excess = (self.dof - self.dim - 1.0) * self.expected_log_det
        return self.log_normaliser - excess / 2.0 + self.dof * self.dim / 2.0

    def log_density(self, precisions):
        """Log densities of stacks (n, \\*group, p, p), summed over each stack."""
        trace = np.einsum("...ij,...ji->...", self.rate, precisions)
        log_density = (self.dof - self.dim - 1.0) * log_det(precisions) - trace
        each = log_density / 2.0 - self.log_normaliser
        return each.reshape(len(precisions), -1).sum(axis=1)

    def sample(self, n, rng):
        """Draws of shape (n, \\*group, p, p), by Bartlett's decomposition."""
        p, shape = self.dim, (n, *self.dof.shape)
        root = np.tril(rng.standard_normal((*shape, p, p)), -1)
        chi2 = rng.chisquare(self.dof[..., None] - np.arange(p), (*shape, p))
        # A draw of exactly zero has no logarithm.
        chi2 = np.maximum(chi2, np.finfo(float).tiny)
        root += np.sqrt(chi2)[..., None] * np.eye(p)
        root = self.inverse_root @ root
        precisions = root @ np.swapaxes(root, -1, -2)
        # Rounding leaves some products without a Cholesky factor; this is above it.
        precisions[..., range(p), range(p)] *= 1.0 + 16.0 * np.finfo(float).eps * p
        return precisions


def _squares_and_products(matrices, a, b):
    """``a M_ij^2 + b M_ii M_jj`` over a stack."""
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    products = diagonal[..., :, None] * diagonal[..., None, :]
    return a * matrices**2 + b * products


class Clusters:
    """Distribution of the clusters, with its prior and its ``factors``."""

    def __init__(self, covariance, n_components, dim):
        self.covariance, self.shape = covariance, (n_components, dim)

    def gaussians(self, natural, spread=0.0):
        """Gaussians whose log densities are the expected ones, less half of parts."""
        wishart = self.wishart(natural)
        return self.covariance.gaussians(
            self.means(natural),
            wishart.root,
            self.covariance.expected_log_det(wishart, self.shape[1]),
            self.spread_of_means(natural, wishart) + spread,
        )

    def covariances(self, natural):
        """Inverses of the expected precisions, a native array."""
        wishart = self.wishart(natural)
        return self.covariance.divided(
            self.covariance.native(wishart.rate), wishart.dof
        )

    def precisions(self, natural):
        """Expected precisions, a native array."""
        return self.covariance.native(self.wishart(natural).mean)

    def moments(self, natural):
        """Means and (co)variances by name; NaN or inf where there are none."""
        wishart, native = self.wishart(natural), self.covariance.native
        return {
            "means": self._mean_moments(natural, wishart),
            "precisions": (native(wishart.mean), native(wishart.variance)),
            "covariances": (
                native(wishart.inverse_mean),
                native(wishart.inverse_variance),
            ),
        }


class NormalWishart(Clusters):
    """One factor q(mu_k, P_k) for each cluster (Bishop 2006, section 10.2).

    ``P ~ Wishart(dof, rate)``, ``mu | P ~ N(m, (mean_precision P)^-1)`` as in
    scikit-learn, but exact Gammas where precisions are diagonal or spherical. Natural
    parameters: ``dof``, ``mean_precision``, ``first`` (mean_precision m) and ``second``
    (rate + mean_precision m m').
    """

    name = "clusters"

    def __init__(self, covariance, n_components, dim, mean_precision, dof, rate):
        super().__init__(covariance, n_components, dim)
        per_mean = covariance.mean_group(n_components, dim)
        self.prior = {
            "dof": covariance.prior_dof(dof, n_components, dim),
            "mean_precision": covariance.for_each(mean_precision, per_mean),
            "first": np.zeros(self.shape),
            "second": covariance.prior_rate(rate, n_components, dim),
        }

    @property
    def factors(self):
        """The one factor: this."""
        return (self,)

    # --- the factor

    def target(self, natural, statistics):
        """Natural parameter of the optimal factor, given summed statistics."""
        prior = self.prior
        return {
            "dof": prior["dof"] + self.covariance.gain(statistics),
            "mean_precision": prior["mean_precision"]
            + self.covariance.counts(statistics),
            "first": prior["first"] + statistics["first"],
            "second": prior["second"] + statistics["second"],
        }

    def cone(self, own):
        """The domain, one group for each Wishart."""
        least = self.covariance.least_dof(self.shape[1])
        matrices = self.covariance.cone_matrix(
            own["mean_precision"], own["first"], own["second"]
        )
        return Cone((own["dof"] - least,), matrices)

    def kl(self, own):
        """KL from the prior, nats."""
        wishart, prior = self._wishart(own), self._wishart(self.prior)
        ratio = self.prior["mean_precision"] / own["mean_precision"]
        shrink = ratio - 1.0 - np.log(ratio)
        shrink = self.covariance.parts(shrink, self.shape[1]).sum()
        precisions = self.covariance.native(wishart.mean)
        weighted = self._means(own) * np.sqrt(self._spread(self.prior))
        away = self.covariance.quadratic(precisions, weighted).sum()
        return wishart.kl(prior) + 0.5 * (shrink + away)

    def entropy(self, own):
        """Differential entropy, nats."""
        wishart, dim = self._wishart(own), self.shape[1]
        log_det = self.covariance.expected_log_det(wishart, dim)
        scale = self.covariance.parts(np.log(own["mean_precision"]) - LOG_2PI - 1, dim)
        return wishart.entropy().sum() - 0.5 * np.sum(scale + log_det)

    def log_density(self, own, draws):
        """Log densities of draws of means and precisions, shape (n_draws,)."""
        precisions, dim = draws["precisions"], self.shape[1]
        logs = self._wishart(own).log_density(self.covariance.matrices(precisions))
        scale = self.covariance.parts(np.log(own["mean_precision"]) - LOG_2PI, dim)
        parts = scale + self.covariance.log_det(precisions, dim)
        away = (draws["means"] - self._means(own)) * np.sqrt(self._spread(own))
        squares = self.covariance.quadratic(precisions, away).sum(-1)
        total = np.sum(self.covariance.total(parts), axis=-1)
        return logs + 0.5 * (total - squares)

    def statistics(self, draws):
        """Sufficient statistics of draws, arrays with a leading axis of draws."""
        precisions = draws["precisions"]
        first = self.covariance.times(precisions, draws["means"])
        squares = first * draws["means"]
        if not self.covariance.counts_entries:
            squares = squares.sum(axis=-1)
        return {
            "dof": 0.5 * log_det(self.covariance.matrices(precisions)),
            "mean_precision": -0.5 * squares,
            "first": first,
            "second": -0.5 * precisions,
        }

    def sample(self, own, n, rng):
        """Draws ``{"means": (n, n_components, dim), "precisions": (n, ...)}``."""
        precisions = self.covariance.native(self._wishart(own).sample(n, rng))
        normal = rng.standard_normal((n, *self.shape))
        noise = self.covariance.noise(precisions, normal)
        noise /= np.sqrt(self._spread(own))
        return {"means": self._means(own) + noise, "precisions": precisions}

    # --- the clusters

    def wishart(self, natural):
        """The stack of Wisharts."""
        return self._wishart(natural[self.name])

    def means(self, natural):
        """Expected means, shape (n_components, dim)."""
        return self._means(natural[self.name])

    def predictive(self, natural):
        """Student-t distributions of a new row, given its cluster: exact."""
        own, dim = natural[self.name], self.shape[1]
        dof = own["dof"] - self.covariance.least_dof(dim)
        scale = self.covariance.divided(self._rate(own), dof)
        wide = self.covariance.per_cluster(scale, 1.0 + 1.0 / own["mean_precision"])
        return self.covariance.student(self._means(own), dof, wide)

    def _mean_moments(self, natural, wishart):
        own, (_, dim) = natural[self.name], self.shape
        inverse = self.covariance.native(wishart.inverse_mean)
        scaled = self.covariance.per_cluster(inverse, 1.0 / own["mean_precision"])
        with np.errstate(invalid="ignore"):
            spread = self.covariance.whole_matrices(scaled, dim)
        # Of a Student-t with as many degrees of freedom as the Wishart has to spare.
        spare = own["dof"] - self.covariance.least_dof(dim)
        spare = spare[..., None] if spare.ndim < 2 else spare
        return np.where(spare > 1.0, self._means(own), np.nan), spread

    def spread_of_means(self, natural, wishart):
        """Parts of tr(E[P] V), V the variances of the means."""
        precision = natural[self.name]["mean_precision"]
        return self.covariance.parts(1.0 / precision, self.shape[1])

    # --- from natural to ordinary parameters

    def _spread(self, own):
        return self.covariance.spread(own["mean_precision"])

    def _means(self, own):
        return own["first"] / self._spread(own)

    def _rate(self, own):
        return own["second"] - self.covariance.outer(own["first"], self._means(own))

    def _wishart(self, own):
        return self.covariance.wishart(own["dof"], self._rate(own))
