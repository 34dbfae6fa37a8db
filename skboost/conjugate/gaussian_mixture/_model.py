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
from skboost.conjugate.gaussian_mixture._densities import Rows, WeightedDensities
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
    """A conjugate Bayesian Gaussian mixture (Paisley et al., section IV-C)."""

    # Of that many runs at once the clusters may stand side by side: a row belongs to
    # one cluster in each of them.
    n_runs = 1

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
        # The temperature is a power of the likelihood in (0, 1] (Alquier, Algorithm 1).
        # With reg_covar every row stands for a cloud of this variance around it: its
        # cluster's scatter grows, and the log likelihood falls by half of it times the
        # trace of the precision. A variance for each feature is taken, too.
        self.settings = {
            "clusters": clusters, "covariance_type": covariance_type, "alpha": alpha,
            "center": center, "temperature": temperature, "weights": weights,
            "reg_covar": reg_covar, **prior,
        }  # fmt: skip
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
        """`Rows` of an array, or a ValueError where NaN cannot be integrated out."""
        rows = Rows.of(X, self.center)
        if rows.patterns is not None and not self.clusters.covariance.handles_missing:
            able = [name for name, c in COVARIANCES.items() if c.handles_missing]
            raise ValueError(
                f"X contains NaN, which needs covariance_type to be one of {able}; "
                f"got covariance_type={self.covariance_type!r}."
            )
        return rows

    def given(self, natural):
        """The model with the prior of the clusters that other factors of q imply."""
        return self

    # --- expectations over the rows

    def joint(self, natural, rows, gaussians=None):
        """E[ln pi_k] + E[ln N(x_n | k)], shape (n_rows, n_components)."""
        gaussians = self._gaussians(natural) if gaussians is None else gaussians
        joint = gaussians.log_density(rows)
        joint += self.weights.expected_log(natural["weights"])
        return joint

    def responsibilities(self, natural, rows):
        """Optimal q(z_n = k), shape (n_rows, n_components); rows sum to one."""
        resp = np.empty((len(rows), self.n_components))
        gaussians = self._gaussians(natural)
        for block in self._blocks(rows):
            joint = self.joint(natural, rows[block], gaussians)
            resp[block], _ = responsibilities(joint)
        return resp

    def expect(self, natural, rows, *weightings):
        """Expected statistics of each weighting of rows, evidence of the first."""
        gaussians, totals, evidence = self._gaussians(natural), None, 0.0
        for block in self._blocks(rows):
            part = rows[block]
            joint = self.joint(natural, part, gaussians)
            own = joint.reshape(-1, self.n_components // self.n_runs)
            resp, log_norm = responsibilities(own)
            resp = resp.reshape(joint.shape)
            log_norm = log_norm.reshape(len(joint), -1).sum(axis=1)
            weights = [w if w is None else w[block] for w in weightings]
            first = weights[0]
            evidence += log_norm.sum() if first is None else first @ log_norm
            sums = {
                i: self.statistics(
                    part, resp if w is None else resp * w[:, None], gaussians
                )
                for i, w in enumerate(weights)
            }
            totals = sums if totals is None else combine(1.0, totals, 1.0, sums)
        return Expectation(tuple(totals.values()), float(evidence))

    def statistics(self, rows, resp, gaussians):
        """Sums of sufficient statistics for responsibilities times weights."""
        covariance, sums = self.clusters.covariance, {"count": resp.sum(axis=0)}
        if rows.patterns is not None and not covariance.counts_entries:
            sums["first"], sums["second"] = gaussians.completed(rows, resp)
        else:
            sums["first"] = resp.T @ rows.values
            sums["second"] = covariance.second(rows.values, resp)
        if covariance.counts_entries:
            sums["seen"] = (
                np.repeat(sums["count"][:, None], self.dim, axis=1)
                if rows.seen is None
                else resp.T @ rows.seen
            )
        if np.any(self.reg_covar):
            spread = covariance.absorb(sums, self._row_variance)
            sums["second"] = sums["second"] + spread
        return sums

    def _gaussians(self, natural):
        if not np.any(self.reg_covar):
            return self.clusters.gaussians(natural)
        precisions = self.clusters.precisions(natural)
        covariance = self.clusters.covariance
        spread = covariance.trace(precisions, self._row_variance, self.dim)
        return self.clusters.gaussians(natural, spread)

    @property
    def _row_variance(self):
        """Covariance of the cloud that a row stands for, as variances of means are."""
        # Laid out as a precision of means: a number for each feature, or one for all.
        covariance = self.clusters.covariance
        return covariance.mean_precision(self.reg_covar, *self.clusters.shape)

    def _blocks(self, rows):
        return row_blocks(len(rows), self.n_components + 2 * self.dim)

    # --- updates

    def updated(self, natural, statistics):
        """Every factor in turn at its optimum: a round of coordinate ascent."""
        statistics = scaled(self.temperature, statistics)
        return natural_step(self.factors, natural, statistics, 1.0).natural

    def start(self, rows, resp):
        """Optimal factors for given responsibilities times the rows' weights."""
        gaussians = self.clusters.gaussians(self.prior)
        return self.updated(self.prior, self.statistics(rows, resp, gaussians))

    def kl(self, natural):
        """KL of q from the prior, nats."""
        clusters = sum(f.kl(natural[f.name]) for f in self.clusters.factors)
        return self.weights.kl(natural["weights"]) + clusters

    def elbo(self, natural, evidence):
        """The evidence lower bound, nats, with every constant."""
        return float(self.temperature * evidence - self.kl(natural))

    # --- the distribution of the parameters

    def entropy(self, natural):
        """Differential entropy of q over n_components - 1 weights and all else."""
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
        """Sufficient statistics of draws, as natural parameters of each draw."""
        centred = self._centred(draws)
        return {factor.name: factor.statistics(centred) for factor in self.factors}

    def sample(self, natural, n, rng):
        """`n` draws of the parameters from q, a dict of arrays by name."""
        draws = {}
        for factor in (self.weights, *self.clusters.factors):
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
        moments = self.clusters.moments(natural)
        means, spread = moments["means"]
        moved = {"means": (means + self.center, spread)}
        return self.weights.moments(natural["weights"]) | moments | moved

    def predictive(self, natural):
        """ln E[pi_k] and ln p(x_n | cluster k) as `WeightedDensities`."""
        weights = np.log(self.mean_weights(natural))
        return WeightedDensities(self.clusters.predictive(natural), weights)

    def assignment(self, natural):
        """The logarithm of the optimal q(z_n) by the `joint` log density, but for a
        constant."""
        weights = self.weights.expected_log(natural["weights"])
        return WeightedDensities(self._gaussians(natural), weights)

    def sample_rows(self, natural, counts, rng):
        """Rows and labels from the posterior predictive, so many of each cluster."""
        y = np.repeat(np.arange(self.n_components), counts)
        return self.clusters.predictive(natural).sample(y, rng) + self.center, y

    def permuted(self, natural, order):
        """The same q in another order: position k has cluster ``order[k]``."""
        ordered = dict(natural)
        ordered["weights"] = self.weights.permuted(natural["weights"], order)
        tied = not self.clusters.covariance.group(*self.clusters.shape)
        # What tied clusters share has no order.
        shared = ("dof", "second", "rate") if tied else ()
        for factor in self.clusters.factors:
            ordered[factor.name] = {
                key: value if key in shared else np.take(value, order, 0)
                for key, value in natural[factor.name].items()
            }
        return ordered
