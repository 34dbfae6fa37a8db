"""Hyperparameters that the clusters of a mixture share, learned from the clusters.

The precisions are ``P_k ~ Wishart(dof, rate B)``, the means ``mu_k ~ N(m, inverse(tau
P_k))``, and over them stand ``B ~ Wishart`` and ``tau ~ Gamma``. Their factors of the
posterior are in closed form, and take turns with those of the clusters.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, psi

from skboost.conjugate.gaussian_mixture._covariances import COVARIANCES
from skboost.conjugate.gaussian_mixture._model import GaussianMixtureModel
from skboost.conjugate.gaussian_mixture._wishart import Wishart, log_det


@dataclass(frozen=True)
class Gamma:
    """A Gamma distribution of a shape and a rate."""

    shape: float
    rate: float

    @property
    def mean(self):
        """The expected value."""
        return self.shape / self.rate

    @property
    def expected_log(self):
        """The expected logarithm."""
        return psi(self.shape) - np.log(self.rate)

    def kl(self, other):
        """KL divergence from another, nats."""
        ends = [s.shape * np.log(s.rate) - gammaln(s.shape) for s in (self, other)]
        change = (self.shape - other.shape) * self.expected_log
        return ends[0] - ends[1] + change - (self.rate - other.rate) * self.mean


# A spread of the centres of about three standard deviations of a cluster.
_TIE = Gamma(0.5, 5.0)


@dataclass(frozen=True)
class SharedPrior:
    """q(B) and q(tau); tau is None where centres are not tied to precisions, or by a
    number that is given.
    """

    settings: dict
    scale_prior: Wishart
    scale: Wishart
    tie: Gamma | None

    @classmethod
    def of(cls, settings, learn_tie):
        """Before the rows are seen: settings of a model, whose rate is expected."""
        clusters = GaussianMixtureModel(**settings).clusters
        covariance, (_, dim) = clusters.covariance, clusters.shape
        dof = covariance.degrees(covariance.least_dof(dim) + 1.0, dim)
        mean = covariance.matrices(_of_one(covariance, _rate(clusters, settings)))
        dofs = np.full(mean.shape[:-2], dof)
        scale = Wishart(dofs, dof * np.linalg.inv(mean))
        return cls(settings, scale, scale, _TIE if learn_tie else None)

    def expected(self):
        """Settings of the model at the expected hyperparameters."""
        # The updates of the clusters and the rows' part of the bound need no more.
        clusters = self.settings["covariance_type"], len(self.settings["center"])
        rate = _given_rate(*clusters, self.scale.mean)
        tied = {} if self.tie is None else {"mean_precision": self.tie.mean}
        return self.settings | {"rate": rate} | tied

    def updated(self, model, natural):
        """q(B) and q(tau) at their optimum, given the clusters."""
        clusters, (n_components, dim) = model.clusters, model.clusters.shape
        prior, wishart = self.scale_prior, clusters.wishart(natural)
        each = wishart.mean.reshape(-1, *prior.rate.shape)
        dof = prior.dof + len(each) * self._dof_of_one(model)
        new = replace(self, scale=Wishart(dof, prior.rate + each.sum(axis=0)))
        if self.tie is None:
            return new
        squares = clusters.covariance.quadratic(
            clusters.precisions(natural), clusters.means(natural)
        ).sum()
        # Of the means, whose variance is in units of their cluster's.
        squares += np.sum(clusters.spread_of_means(natural, wishart))
        shape = _TIE.shape + n_components * dim / 2.0
        return replace(new, tie=Gamma(shape, _TIE.rate + squares / 2.0))

    def elbo(self, model, natural, evidence):
        """Evidence lower bound of the whole model, nats, with every constant."""
        wishart = model.clusters.wishart(natural)
        n_each = wishart.dof.size // max(self.scale.dof.size, 1)
        # The bound at expected values has logarithms of expected values.
        logs = self.scale.expected_log_det - log_det(self.scale.mean)
        bound = model.elbo(natural, evidence) - self.scale.kl(self.scale_prior)
        bound += 0.5 * n_each * np.sum(self._dof_of_one(model) * logs)
        if self.tie is not None:
            n_means = np.prod(model.clusters.shape)
            log = self.tie.expected_log - np.log(self.tie.mean)
            bound += 0.5 * n_means * log - self.tie.kl(_TIE)
        return float(bound)

    def _dof_of_one(self, model):
        """Degrees of freedom of the prior of every precision."""
        return model.clusters.covariance.degrees(self.settings["dof"], model.dim)


def _rate(clusters, settings):
    return clusters.covariance.prior_rate(settings["rate"], *clusters.shape)


def _of_one(covariance, native):
    """What is the same for all clusters, of one."""
    return native if covariance.name == "tied" else native[0]


def _given_rate(covariance_type, dim, matrices):
    """A rate as users give it, of matrices of the stack of Wisharts."""
    shape = COVARIANCES[covariance_type]
    return shape.native(matrices) / shape.degrees(1.0, dim)


def shared_ascent(prior, model, natural, rows, weight, max_iter, tol=1e-2):
    """Coordinate ascent in clusters and shared hyperparameters, until an iteration
    gains less than `tol` nats: (bound, hyperparameters, natural parameters).
    """
    bound = -np.inf
    for _ in range(max_iter):
        prior = prior.updated(model, natural)
        model = GaussianMixtureModel(**prior.expected())
        expected = model.expect(natural, rows, weight)
        before, bound = bound, prior.elbo(model, natural, expected.evidence)
        if bound - before < tol:
            break
        natural = model.updated(natural, expected.statistics[0])
    return bound, prior, natural
