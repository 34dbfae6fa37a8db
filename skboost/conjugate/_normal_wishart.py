"""Normal-Wishart clusters: a mean's precision is a multiple of the rows'."""

import numpy as np

from skboost._math import LOG_2PI
from skboost.conjugate._natural import Cone
from skboost.conjugate._shapes import wishart_moments


class NormalWishart:
    """One factor q(mu_k, P_k) for each cluster (Bishop 2006, section 10.2).

    ``P ~ Wishart(dof, rate)`` and ``mu | P ~ N(m, (mean_precision P)^-1)``, in
    scikit-learn's parametrisation of `BayesianGaussianMixture`. Where the precision
    is diagonal or spherical the Wisharts are exact Gammas, one for each coordinate or
    cluster; scikit-learn keeps the digamma terms of the matrix case there.

    Natural parameter: ``dof``, ``mean_precision``, ``first`` (mean_precision times m)
    and ``second`` (rate + mean_precision m m'); means are about the prior mean.

    Parameters
    ----------
    covariance : Covariance
    n_components, dim : int
    mean_precision : float
        Of the prior: how many rows the prior mean is worth.
    dof : float
        Of the prior.
    rate : ndarray
        Prior rate: ``dof`` times a covariance, in scikit-learn `covariance_prior`.
    """

    name = "clusters"

    def __init__(self, covariance, n_components, dim, mean_precision, dof, rate):
        self.covariance = covariance
        self.shape = (n_components, dim)
        group = covariance.group(n_components, dim)
        zero = np.zeros(self.shape)
        per_mean = covariance.mean_group(n_components, dim)
        self.prior = {
            "dof": np.full(group, covariance.degrees(float(dof), dim)),
            "mean_precision": np.full(per_mean, float(mean_precision)),
            "first": zero,
            "second": covariance.rate(rate, n_components, dim),
        }

    @property
    def factors(self):
        """Blocks that are updated one after the other."""
        return (self,)

    # --- updates

    def target(self, natural, statistics):
        """Natural parameter of the optimal factor, given summed statistics."""
        prior, per_mean = self.prior, statistics.get("seen", statistics["count"])
        return {
            "dof": prior["dof"] + self.covariance.gain(statistics),
            "mean_precision": prior["mean_precision"] + per_mean,
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

    # --- the distribution of parameters

    def gaussians(self, natural, spread=0.0):
        """Gaussians whose log densities are the expected ones, less half of parts."""
        own, dim = natural[self.name], self.shape[1]
        wishart = self._wishart(own)
        return self.covariance.gaussians(
            self._means(own),
            wishart.root,
            self.covariance.expected_log_det(wishart, dim),
            self.covariance.parts(1.0 / own["mean_precision"], dim) + spread,
        )

    def kl(self, natural):
        """KL from the prior, nats."""
        own, dim = natural[self.name], self.shape[1]
        wishart, prior = self._wishart(own), self._wishart(self.prior)
        ratio = self.prior["mean_precision"] / own["mean_precision"]
        shrink = self.covariance.parts(ratio - 1.0 - np.log(ratio), dim).sum()
        means = self._means(own)
        precisions = self.covariance.native(wishart.mean)
        weighted = means * np.sqrt(self._spread(self.prior["mean_precision"]))
        away = self.covariance.quadratic(precisions, weighted).sum()
        return wishart.kl(prior) + 0.5 * (shrink + away)

    def entropy(self, natural):
        """Differential entropy, nats."""
        own, dim = natural[self.name], self.shape[1]
        wishart = self._wishart(own)
        log_det = self.covariance.expected_log_det(wishart, dim)
        scale = self.covariance.parts(np.log(own["mean_precision"]) - LOG_2PI - 1, dim)
        return wishart.entropy().sum() - 0.5 * np.sum(scale + log_det)

    def log_density(self, natural, draws):
        """Log densities of draws of means and precisions, shape (n_draws,)."""
        return self.log_density_of(natural[self.name], draws)

    def log_prior(self, draws):
        """Log densities of draws under the prior, shape (n_draws,)."""
        return self.log_density_of(self.prior, draws)

    def log_density_of(self, own, draws):
        """Log densities under a natural parameter of this factor."""
        precisions, dim = draws["precisions"], self.shape[1]
        found = self._wishart(own).log_density(self.covariance.matrices(precisions))
        scale = self.covariance.parts(np.log(own["mean_precision"]) - LOG_2PI, dim)
        parts = scale + self.covariance.log_det(precisions, dim)
        away = (draws["means"] - self._means(own)) * np.sqrt(
            self._spread(own["mean_precision"])
        )
        squares = self.covariance.quadratic(precisions, away).sum(-1)
        total = np.sum(self.covariance.total(parts), axis=-1)
        return found + 0.5 * (total - squares)

    def sample(self, natural, n, rng):
        """Draws ``{"means": (n, n_components, dim), "precisions": (n, ...)}``."""
        own = natural[self.name]
        precisions = self.covariance.native(self._wishart(own).sample(n, rng))
        normal = rng.standard_normal((n, *self.shape))
        noise = self.covariance.noise(precisions, normal)
        noise /= np.sqrt(self._spread(own["mean_precision"]))
        return {"means": self._means(own) + noise, "precisions": precisions}

    # --- summaries

    def means(self, natural):
        """Expected means, shape (n_components, dim)."""
        return self._means(natural[self.name])

    def covariances(self, natural):
        """Inverses of the expected precisions, a native array."""
        own = natural[self.name]
        return self.covariance.divided(self._rate(own), own["dof"])

    def precisions(self, natural):
        """Expected precisions, a native array."""
        return self.covariance.native(self._wishart(natural[self.name]).mean)

    def moments(self, natural):
        """Means and covariances of the means, means and variances of the precisions.

        Returns
        -------
        dict of str to pair of ndarray
            ``means``: (n_components, dim) and (n_components, dim, dim);
            ``precisions`` and ``covariances``: native arrays. NaN or inf where a
            distribution has no such moment.
        """
        own, (_, dim) = natural[self.name], self.shape
        wishart = self._wishart(own)
        inverse = self.covariance.native(wishart.inverse_mean)
        scaled = self.covariance.per_cluster(inverse, 1.0 / own["mean_precision"])
        with np.errstate(invalid="ignore"):
            spread = self.covariance.mean_matrices(scaled, dim)
        # Of a Student-t with as many degrees of freedom as the Wishart has to spare.
        spare = own["dof"] - self.covariance.least_dof(dim)
        spare = spare[..., None] if spare.ndim < 2 else spare
        means = np.where(spare > 1.0, self._means(own), np.nan)
        return {"means": (means, spread), **wishart_moments(self.covariance, wishart)}

    def predictive(self, natural):
        """Student-t distributions of a new row, given its cluster: exact."""
        own, dim = natural[self.name], self.shape[1]
        dof = own["dof"] - self.covariance.least_dof(dim)
        scale = self.covariance.divided(self._rate(own), dof)
        wide = self.covariance.per_cluster(scale, 1.0 + 1.0 / own["mean_precision"])
        return self.covariance.student(self._means(own), dof, wide)

    # --- from natural to ordinary parameters

    def _spread(self, mean_precision):
        return self.covariance.spread(mean_precision)

    def _means(self, own):
        return own["first"] / self._spread(own["mean_precision"])

    def _rate(self, own):
        return own["second"] - self.covariance.outer(own["first"], self._means(own))

    def _wishart(self, own):
        return self.covariance.wishart(own["dof"], self._rate(own))
