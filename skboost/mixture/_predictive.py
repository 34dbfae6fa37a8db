"""What a posterior over clusters says of rows, its parameters integrated out."""

from dataclasses import dataclass, replace

import numpy as np

from skboost._math import log_sum_exp, log_weights, responsibilities
from skboost._parallel import row_blocks
from skboost._random import generator, root_seed
from skboost.conjugate import GaussianMixtureModel
from skboost.serving import MixtureClusters


@dataclass(frozen=True)
class ClusterPredictive:
    """Rows under a mixture of conjugate distributions; clusters are Student-t."""

    model: GaussianMixtureModel
    # Natural parameters of the distributions, and their log weights.
    components: tuple
    log_alpha: np.ndarray

    def plain(self):
        """The same as arrays."""
        model = self.model
        parts = tuple(map(model.predictive, self.components))
        gaps = model.clusters.covariance.handles_missing
        return MixtureClusters(model.dim, model.center, gaps, parts, self.log_alpha)

    def joint(self, X):
        """``ln p(x_n, z_n = k | data)``, nats (n_rows, n_components)."""
        return self.plain().joint(self.model.rows(X))

    def log_density(self, X):
        """Log predictive densities of rows, nats."""
        return log_sum_exp(self.joint(X))

    def proba(self, X):
        """Probabilities of the clusters, (n_rows, n_components)."""
        return self.plain().proba(self.model.rows(X))

    def labels(self, X):
        """The most probable cluster of each row, by the heaviest distributions."""
        return self.plain().labels(self.model.rows(X))

    def expected_rows(self, X):
        """Rows with expected values where they are missing."""
        model, rows = self.model, self.model.rows(X)
        expected = np.empty(X.shape)
        width = model.n_components * len(self.components) * model.dim
        for block in row_blocks(len(rows), width):
            some, mixed = rows[block], self.components
            parts = [model.predictive(one).log_density(some) for one in mixed]
            weighted = zip(parts, self.log_alpha, strict=True)
            shares = responsibilities(np.hstack([p + w for p, w in weighted]))[0]
            filled = [model.clusters.predictive(one).filled(some) for one in mixed]
            filled = np.concatenate(filled, axis=1)
            expected[block] = np.einsum("nk,nkd->nd", shares, filled)
        return expected + model.center

    @property
    def n_parameters(self):
        """Free parameters: weights, means, and covariances that are not known."""
        model = self.model
        k, dim = model.n_components, model.dim
        pairs = dim * (dim + 1) // 2
        shapes = {"full": k * pairs, "tied": pairs, "diag": k * dim, "spherical": k}
        known = model.settings["clusters"] == "known"
        return k - 1 + k * dim + (0 if known else shapes[model.covariance_type])


@dataclass(frozen=True)
class SinglePredictive(ClusterPredictive):
    """Of one conjugate distribution, with the optimal assignments of rows."""

    @classmethod
    def of(cls, model, natural):
        return cls(model, (natural,), np.zeros(1))

    @property
    def natural(self):
        """Natural parameters of the distribution."""
        return self.components[0]

    def plain(self):
        """The same as arrays, with the optimal q(z)."""
        return replace(super().plain(), assigned=self.model.assignment(self.natural))

    def draw_rows(self, n, seed):
        """Rows and their clusters."""
        rng = generator(seed)
        counts = rng.multinomial(n, self.model.mean_weights(self.natural))
        return self.model.sample_rows(self.natural, counts, rng)

    def draw(self, n, random_state):
        """Draws of the parameters, by name."""
        draws = self.model.sample(self.natural, n, generator(root_seed(random_state)))
        shape = self.model.clusters.covariance
        inverses = np.linalg.inv(shape.matrices(draws["precisions"]))
        return draws | {"covariances": shape.native(inverses)}


@dataclass(frozen=True)
class MixedPredictive(ClusterPredictive):
    """Of a `ConjugateMixturePosterior`, every parameter weighted by its density."""

    posterior: object

    @classmethod
    def of(cls, posterior):
        weights = log_weights(posterior.weights)
        return cls(posterior.model, posterior.components, weights, posterior)

    def draw_rows(self, n, seed):
        """Rows and their clusters, each from a draw of the parameters."""
        rng, model = generator(seed, 1), self.model
        draws = self.posterior.sample(n, seed)
        labels = _labels(self.posterior, draws, rng)
        normal = rng.standard_normal((n, model.n_components, model.dim))
        noise = model.clusters.covariance.noise(draws["precisions"], normal)
        each = np.arange(n)
        return draws["means"][each, labels] + noise[each, labels], labels

    def draw(self, n, random_state):
        """Draws of the parameters, by name."""
        return self.posterior.sample(n, random_state)


def _labels(posterior, draws, rng):
    """A cluster for each draw; draws of clusters beyond the last are replaced."""
    labels, n_clusters = _clusters(draws, rng), posterior.model.n_components
    # What a thousand rounds leave outside has all but no chance to be inside.
    for _ in range(1000 if "leftover" in draws else 0):
        outside = np.flatnonzero(labels == n_clusters)
        if not outside.size:
            break
        again = posterior.sample(outside.size, int(rng.integers(2**31)))
        labels[outside] = _clusters(again, rng)
        for name, values in draws.items():
            values[outside] = again[name]
    # A sum of weights may be below one by rounding.
    return np.minimum(labels, n_clusters - 1)


def _clusters(draws, rng):
    """A cluster for each draw, by its weights; one beyond the last for the rest."""
    cumulative = np.cumsum(draws["weights"], axis=1)
    return (rng.random((len(cumulative), 1)) > cumulative).sum(axis=1)
