"""Bayesian Gaussian mixtures as a conjugate exponential-family model.

One model serves coordinate ascent, stochastic variational inference, and the boosted
mixture: all they need are expected statistics, updates that are linear in them, and
densities.
"""

import numpy as np

from skboost._math import responsibilities
from skboost._parallel import row_blocks
from skboost.conjugate._natural import Expectation, combine, natural_step, scaled
from skboost.conjugate.gaussian_mixture._covariances import COVARIANCES
from skboost.conjugate.gaussian_mixture._densities import Rows
from skboost.conjugate.gaussian_mixture._independent import (
    Independent,
    KnownCovariances,
)
from skboost.conjugate.gaussian_mixture._weights import (
    DirichletWeights,
    StickBreakingWeights,
)
from skboost.conjugate.gaussian_mixture._wishart import NormalWishart

CLUSTER_DISTRIBUTIONS = {
    "normal-wishart": NormalWishart,
    "independent": Independent,
    "known": KnownCovariances,
}

WEIGHT_DISTRIBUTIONS = {
    "dirichlet": DirichletWeights,
    "stick-breaking": StickBreakingWeights,
}


class GaussianMixtureModel:
    """A conjugate Bayesian Gaussian mixture (Paisley et al., section IV-C).

    Natural parameters are dicts of dicts of arrays, one for each factor ("weights",
    then "clusters" or "means" and "precisions"): linear combinations of them are
    `combine(a, x, b, y)`. Nothing here is stateful.

    Parameters
    ----------
    clusters : {"normal-wishart", "independent", "known"}
        Distribution of the clusters.
    covariance_type : {"full", "tied", "diag", "spherical"}
    alpha : ndarray of shape (n_components,)
        Of the Dirichlet prior, or the concentration for each stick.
    center : ndarray of shape (dim,)
        Prior mean of the clusters' means.
    temperature : float, default=1.0
        Power a of the likelihood in (0, 1] (Alquier, Algorithm 1): statistics, and
        the bound's sum over rows with the entropy of the assignments, count a times.
    weights : {"dirichlet", "stick-breaking"}, default="dirichlet"
    reg_covar : float, default=0.0
        Every row stands for a cloud of this variance around it: it adds this much to
        the scatter of its cluster and takes half of this times the trace of the
        precision from the log likelihood, which stays below what it is without.
    **prior
        ``mean_precision``, ``dof`` and ``rate`` for "normal-wishart";
        ``mean_variance``, ``dof`` and ``rate`` for "independent"; ``mean_variance``
        and ``known`` (covariances) for "known". Rates and covariances have
        scikit-learn's shape for the type, or one for all.

    Attributes
    ----------
    weights : DirichletWeights or StickBreakingWeights
        Factor of the mixture weights, with its prior.
    clusters : Clusters
        Distribution of the clusters, with its prior.
    factors : tuple
        The factors in the order in which coordinate ascent updates them.
    prior : dict
        Natural parameters of the prior.
    """

    def __init__(
        self,
        clusters,
        covariance_type,
        alpha,
        center,
        temperature=1.0,
        weights="dirichlet",
        reg_covar=0.0,
        **prior,
    ):
        self.center = np.asarray(center, dtype=float)
        self.temperature, self.reg_covar = temperature, reg_covar
        self.weights = WEIGHT_DISTRIBUTIONS[weights](alpha)
        self.clusters = CLUSTER_DISTRIBUTIONS[clusters](
            COVARIANCES[covariance_type], len(alpha), len(center), **prior
        )
        self.factors = (self.weights, *self.clusters.factors)
        self.prior = {factor.name: factor.prior for factor in self.factors}

    @property
    def n_components(self):
        """Number of clusters."""
        return self.clusters.shape[0]

    @property
    def dim(self):
        """Number of features."""
        return self.clusters.shape[1]

    @property
    def covariance_type(self):
        """Name of the shape of the clusters' covariances."""
        return self.clusters.covariance.name

    def rows(self, X):
        """Data in the form that the methods below take.

        Parameters
        ----------
        X : ndarray of shape (n_rows, dim)
            NaN is missing.

        Returns
        -------
        Rows

        Raises
        ------
        ValueError
            For missing values under a covariance that cannot integrate them out.
        """
        rows = Rows.of(X, self.center)
        if rows.patterns is not None and not self.clusters.covariance.handles_missing:
            able = [name for name, c in COVARIANCES.items() if c.handles_missing]
            raise ValueError(
                f"X contains NaN, which needs covariance_type to be one of {able}; "
                f"got covariance_type={self.covariance_type!r}."
            )
        return rows

    # --- expectations over the rows

    def joint(self, natural, rows, gaussians=None):
        """E[ln pi_k] + E[ln N(x_n | k)], missing entries integrated out.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
        """
        gaussians = self._gaussians(natural) if gaussians is None else gaussians
        found = gaussians.log_density(rows)
        found += self.weights.expected_log(natural["weights"])
        return found

    def responsibilities(self, natural, rows):
        """Optimal q(z_n = k), shape (n_rows, n_components); rows sum to one."""
        found = np.empty((len(rows), self.n_components))
        gaussians = self._gaussians(natural)
        for block in self._blocks(rows):
            joint = self.joint(natural, rows[block], gaussians)
            found[block], _ = responsibilities(joint)
        return found

    def expect(self, natural, rows, *weightings):
        """Expected statistics and evidence under the optimal assignments.

        Parameters
        ----------
        natural : dict
        rows : Rows
        *weightings : ndarray of shape (n_rows,)
            Weights of rows, of any sign; the statistics are linear in them. The first
            weighs the evidence. None weighs all alike.

        Returns
        -------
        Expectation
        """
        gaussians, totals, evidence = self._gaussians(natural), None, 0.0
        for block in self._blocks(rows):
            part = rows[block]
            resp, log_norm = responsibilities(self.joint(natural, part, gaussians))
            weights = [w if w is None else w[block] for w in weightings]
            first = weights[0]
            evidence += log_norm.sum() if first is None else first @ log_norm
            found = {
                i: self.statistics(
                    part, resp if w is None else resp * w[:, None], gaussians
                )
                for i, w in enumerate(weights)
            }
            totals = found if totals is None else combine(1.0, totals, 1.0, found)
        return Expectation(tuple(totals.values()), float(evidence))

    def statistics(self, rows, resp, gaussians):
        """Sums of sufficient statistics for given (weighted) responsibilities.

        Parameters
        ----------
        rows : Rows
        resp : ndarray of shape (n_rows, n_components)
        gaussians : MatrixGaussians or DiagonalGaussians
            Those of matrix precisions fill missing entries in.

        Returns
        -------
        dict
            ``count``, ``first``, ``second``, and ``seen`` (counts of observed
            entries) for diagonal covariances.
        """
        covariance, found = self.clusters.covariance, {"count": resp.sum(axis=0)}
        if rows.patterns is not None and not covariance.counts_entries:
            found["first"], found["second"] = gaussians.completed(rows, resp)
        else:
            found["first"] = resp.T @ rows.values
            found["second"] = covariance.second(rows.values, resp)
        if covariance.counts_entries:
            found["seen"] = (
                np.repeat(found["count"][:, None], self.dim, axis=1)
                if rows.seen is None
                else resp.T @ rows.seen
            )
        if self.reg_covar:
            spread = covariance.absorb(found, self._row_variance)
            found["second"] = found["second"] + spread
        return found

    def _gaussians(self, natural):
        if not self.reg_covar:
            return self.clusters.gaussians(natural)
        precisions = self.clusters.precisions(natural)
        covariance = self.clusters.covariance
        spread = covariance.trace(precisions, self._row_variance, self.dim)
        return self.clusters.gaussians(natural, spread)

    @property
    def _row_variance(self):
        """Covariance of the cloud that a row stands for, as variances of means are."""
        covariance = self.clusters.covariance
        return covariance.mean_variance(
            covariance.mean_precision(1.0 / self.reg_covar, *self.clusters.shape)
        )

    def _blocks(self, rows):
        return row_blocks(len(rows), self.n_components + 2 * self.dim)

    # --- updates

    def updated(self, natural, statistics):
        """Every factor in turn at its optimum: a round of coordinate ascent.

        Parameters
        ----------
        natural : dict
        statistics : dict
            Sums over all rows.

        Returns
        -------
        dict
        """
        statistics = scaled(self.temperature, statistics)
        return natural_step(self.factors, natural, statistics, 1.0).natural

    def start(self, rows, resp):
        """Natural parameters of the optimal factors for given responsibilities.

        Parameters
        ----------
        rows : Rows
        resp : ndarray of shape (n_rows, n_components)
            Times the rows' weights.

        Returns
        -------
        dict
        """
        gaussians = self.clusters.gaussians(self.prior)
        return self.updated(self.prior, self.statistics(rows, resp, gaussians))

    def kl(self, natural):
        """KL of q from the prior, nats."""
        clusters = sum(f.kl(natural[f.name]) for f in self.clusters.factors)
        return self.weights.kl(natural["weights"]) + clusters

    def elbo(self, natural, evidence):
        """The evidence lower bound, nats, with every constant.

        Parameters
        ----------
        natural : dict
        evidence : float
            Of `expect` at the same natural parameters.
        """
        return float(self.temperature * evidence - self.kl(natural))

    # --- the distribution of the parameters

    def entropy(self, natural):
        """Differential entropy of q over all parameters, nats.

        Densities are with respect to the first n_components - 1 weights, the means, and
        the distinct entries of the precisions.
        """
        clusters = sum(f.entropy(natural[f.name]) for f in self.clusters.factors)
        return float(self.weights.entropy(natural["weights"]) + clusters)

    def log_density(self, natural, draws):
        """ln q of draws, shape (n_draws,), nats."""
        centred, own = self._centred(draws), self.clusters.factors
        clusters = sum(f.log_density(natural[f.name], centred) for f in own)
        return self.weights.log_density(natural["weights"], draws) + clusters

    def log_prior(self, draws):
        """Log prior density of draws, shape (n_draws,), nats."""
        return self.log_density(self.prior, draws)

    def sufficient(self, draws):
        """Sufficient statistics of draws, in the form of natural parameters.

        Parameters
        ----------
        draws : dict
            As `sample` returns, with a leading axis of draws.

        Returns
        -------
        dict
            Of dicts of arrays with a leading axis of draws.
        """
        centred = self._centred(draws)
        return {factor.name: factor.statistics(centred) for factor in self.factors}

    def sample(self, natural, n, rng):
        """Draws of the parameters from q.

        Parameters
        ----------
        natural : dict
        n : int
        rng : numpy.random.Generator

        Returns
        -------
        dict
            ``weights`` (n, n_components), under stick-breaking ``leftover`` (n,),
            ``means`` (n, n_components, dim), and ``precisions`` (n, native shape of
            the covariance type).
        """
        draws = {}
        for factor in self.factors:
            draws |= factor.sample(natural[factor.name], n, rng)
        draws["means"] = draws["means"] + self.center
        if "precisions" not in draws:
            # They are known.
            known = self.clusters.precisions(natural)
            draws["precisions"] = np.broadcast_to(known, (n, *known.shape))
        return draws

    def _centred(self, draws):
        return draws | {"means": draws["means"] - self.center}

    # --- summaries

    def mean_weights(self, natural):
        """E[pi], shape (n_components,); over its sum under stick-breaking."""
        return self.weights.mean(natural["weights"])

    def means(self, natural):
        """E[mu], shape (n_components, dim)."""
        return self.clusters.means(natural) + self.center

    def covariances(self, natural):
        """Inverses of the expected precisions, as scikit-learn's `covariances_`."""
        return self.clusters.covariances(natural)

    def moments(self, natural):
        """Of the weights, and `Clusters.moments` with the means moved."""
        found = self.clusters.moments(natural)
        means, spread = found["means"]
        moved = {"means": (means + self.center, spread)}
        return self.weights.moments(natural["weights"]) | found | moved

    def predictive_parts(self, natural, rows):
        """ln E[pi_k] + ln p(x_n | cluster k), parameters integrated out.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
        """
        predictive = self.clusters.predictive(natural)
        return predictive.log_density(rows) + np.log(self.mean_weights(natural))

    def sample_rows(self, natural, counts, rng):
        """Rows from the posterior predictive, given how many of each cluster.

        Returns
        -------
        X : ndarray of shape (n_rows, dim)
        y : ndarray of int of shape (n_rows,)
        """
        y = np.repeat(np.arange(self.n_components), counts)
        return self.clusters.predictive(natural).sample(y, rng) + self.center, y

    def permuted(self, natural, order):
        """The same q with its clusters in another order.

        Under stick-breaking the sticks are those of the same counts in that order.

        Parameters
        ----------
        natural : dict
        order : ndarray of shape (n_components,)
            Position k of the result is cluster ``order[k]``.
        """
        found = {"weights": self.weights.permuted(natural["weights"], order)}
        tied = not self.clusters.covariance.group(*self.clusters.shape)
        # What tied clusters share has no order.
        shared = ("dof", "second", "rate") if tied else ()
        for factor in self.clusters.factors:
            found[factor.name] = {
                key: value if key in shared else np.take(value, order, 0)
                for key, value in natural[factor.name].items()
            }
        return found
