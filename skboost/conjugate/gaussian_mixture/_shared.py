"""Hyperparameters that the clusters of a mixture share, learned from the clusters.

The precisions are ``P_k ~ Wishart(dof, rate B)``, the means ``mu_k ~ N(m, inverse(tau
P_k))``, and over them stand ``B ~ Wishart`` and ``tau ~ Gamma``. Their factors of the
posterior are in closed form, and take turns with those of the clusters.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, multigammaln, psi

from skboost._math import LOG_2PI, log_sum_exp
from skboost.conjugate._natural import Cone
from skboost.conjugate.gaussian_mixture._model import GaussianMixtureModel
from skboost.conjugate.gaussian_mixture._wishart import Wishart, log_det


@dataclass(frozen=True)
class Gamma:
    """Gamma distributions of shapes and rates."""

    shape: np.ndarray
    rate: np.ndarray

    @property
    def mean(self):
        """The expected values."""
        return self.shape / self.rate

    @property
    def expected_log(self):
        """The expected logarithms."""
        return psi(self.shape) - np.log(self.rate)

    @property
    def log_normaliser(self):
        """Logarithms of the normalisers of the densities."""
        return gammaln(self.shape) - self.shape * np.log(self.rate)

    def kl(self, other):
        """KL divergences from others, nats."""
        change = (self.shape - other.shape) * self.expected_log
        change -= (self.rate - other.rate) * self.mean
        return other.log_normaliser - self.log_normaliser + change


class Drawn(NamedTuple):
    """Hyperparameters that are known, in place of their distribution."""

    mean: np.ndarray


# A spread of the centres of about three standard deviations of a cluster.
_TIE = Gamma(0.5, 5.0)
# What a precision has in degrees of freedom beyond the least for which its inverse has
# a mean, from free to nearly equal covariances, and which of them is the usual one.
_SPARE = np.array([1.0, 8.0, 30.0, 200.0])
USUAL = 1


@dataclass(frozen=True)
class SharedPrior:
    """The prior of clusters, with q(B) and q(tau) of each run, the leading axis.

    `scale` is None where the rate is fixed, `tie` where `mean_precision` is, or where
    means are independent of precisions.
    """

    settings: dict
    dof: np.ndarray
    scale_prior: Wishart | None = None
    scale: Wishart | None = None
    tie: Gamma | None = None

    @classmethod
    def of(cls, settings, learn_tie, dof=None):
        """Before rows are seen: one run for each of the degrees of freedom that are
        possible."""
        clusters = GaussianMixtureModel(**settings).clusters
        covariance, (_, dim) = clusters.covariance, clusters.shape
        least = covariance.least_dof(dim)
        usual = settings["dof"]
        tied = covariance.name == "tied"
        # One precision for all has nothing to be compared with.
        dof = least + 2.0 + _SPARE if dof is None and not tied else np.array([usual])
        rate = covariance.prior_rate(settings["rate"], *clusters.shape)
        mean = covariance.matrices(rate if tied else rate[0])
        mean = mean * (dof / usual).reshape(-1, *(1,) * mean.ndim)
        own = np.full(mean.shape[:-2], covariance.degrees(least + 1.0, dim))
        scale = Wishart(own, own[..., None, None] * np.linalg.inv(mean))
        tie = None
        if learn_tie:
            tie = Gamma(*(np.full(len(dof), end) for end in (_TIE.shape, _TIE.rate)))
        return cls(settings, dof, scale, scale, tie)

    @classmethod
    def fixed(cls, settings):
        """Nothing to learn: the prior of a model."""
        return cls(settings, np.array([settings.get("dof", 0.0)]))

    @property
    def n_runs(self):
        """Number of runs."""
        return len(self.dof)

    @property
    def stacks(self):
        """Whether several runs can go as one, with the clusters of all."""
        names = ("clusters", "covariance_type", "weights")
        clusters, shape, weights = (self.settings.get(name) for name in names)
        alone = shape == "tied" or weights == "stick-breaking"
        return clusters == "normal-wishart" and not alone

    @cached_property
    def _clusters(self):
        return GaussianMixtureModel(**self.settings).clusters

    def take(self, runs):
        """The prior of these runs, some perhaps more than once."""
        taken = {"dof": self.dof[runs]}
        if self.scale is not None:
            for name in ("scale_prior", "scale"):
                own = vars(self)[name]
                taken[name] = Wishart(own.dof[runs], own.rate[runs])
        if self.tie is not None:
            taken["tie"] = Gamma(self.tie.shape[runs], self.tie.rate[runs])
        return replace(self, **taken)

    def model(self):
        """The model at the expected hyperparameters, with the clusters of all runs."""
        # The updates of the clusters and the rows' part of the bound need no more.
        changed, settings, clusters = {}, self.settings, self._clusters
        covariance, (n_components, dim) = clusters.covariance, clusters.shape
        if self.scale is not None:
            rate = covariance.native(self.scale.mean) / covariance.degrees(1.0, dim)
            changed |= {"dof": self.dof, "rate": rate}
        if self.tie is not None:
            changed["mean_precision"] = self.tie.mean
        if self.n_runs == 1:
            changed = {name: values[0] for name, values in changed.items()}
        else:
            changed = {k: np.repeat(v, n_components, 0) for k, v in changed.items()}
            changed["alpha"] = np.tile(settings["alpha"], self.n_runs)
        model = GaussianMixtureModel(**settings | changed)
        model.n_runs = self.n_runs
        return model

    def updated(self, natural):
        """q(B) and q(tau) at their optimum, given the clusters of all runs."""
        if self.scale is None:
            return self
        clusters, prior = self._clusters, self.scale_prior
        wishart = clusters.wishart(natural)
        precisions = wishart.mean
        each = precisions.reshape(self.n_runs, -1, *prior.rate.shape[1:])
        new = replace(self, scale=self._after(each))
        if self.tie is None:
            return new
        precisions = clusters.covariance.native(precisions)
        squares = clusters.covariance.quadratic(precisions, clusters.means(natural))
        # Of the means, whose variance is in units of their cluster's.
        spread = clusters.spread_of_means(natural, wishart)
        rate = sum(
            part.reshape(self.n_runs, -1).sum(axis=1) for part in (squares, spread)
        )
        shape = np.full(self.n_runs, _TIE.shape + np.prod(clusters.shape) / 2.0)
        return replace(new, tie=Gamma(shape, _TIE.rate + rate / 2.0))

    def elbo(self, model, natural, evidence):
        """Evidence lower bound of the whole model of one run, nats, every constant."""
        bound = model.elbo(natural, evidence)
        if self.scale is not None:
            n_each = model.clusters.wishart(natural).dof.size // self.scale.dof.size
            # The bound at expected values has logarithms of expected values.
            logs = self.scale.expected_log_det - log_det(self.scale.mean)
            bound -= self.scale.kl(self.scale_prior)
            bound += 0.5 * n_each * np.sum(self._dof_of_one * logs)
        if self.tie is not None:
            log = self.tie.expected_log - np.log(self.tie.mean)
            bound += 0.5 * np.prod(model.clusters.shape) * log[0] - self.tie.kl(_TIE)[0]
        return float(bound)

    @property
    def _dof_of_one(self):
        """Degrees of freedom of the prior of a precision, shaped as those of B."""
        dof = self._clusters.covariance.degrees(self.dof, self._clusters.shape[1])
        return dof.reshape(-1, *(1,) * (self.scale_prior.dof.ndim - 1))

    def drawn(self, draws, rng):
        """Hyperparameters of chains, given draws of means, about the prior's, and
        precisions."""
        means, precisions = draws["means"], draws["precisions"]
        n_chains, covariance = len(means), self._clusters.covariance
        if self.scale is None:
            return self.take(np.zeros(n_chains, dtype=int))
        logs = self._log_scales_of_runs(precisions)
        new = self.take(np.argmax(logs + rng.gumbel(size=logs.shape), axis=0))
        each = covariance.matrices(precisions)
        scale = new._after(each.reshape(n_chains, -1, *new.scale.rate.shape[1:]))
        new = replace(new, scale=Drawn(scale.sample(1, rng)[0]))
        if self.tie is None:
            return new
        tie = self._tie_after(precisions, means)
        return replace(new, tie=Drawn(rng.gamma(tie.shape, 1.0 / tie.rate)))

    # --- B and tau integrated out

    def log_density(self, draws):
        """Log prior density of means and precisions, averaged over runs; B and tau
        integrated out."""
        precisions = draws["precisions"]
        logs = log_sum_exp(self._log_scales_of_runs(precisions).T)
        return logs - np.log(self.n_runs) + self._log_means(draws["means"], precisions)

    def _log_scales_of_runs(self, precisions):
        runs = range(self.n_runs)
        return np.array([self.take([run])._log_scales(precisions) for run in runs])

    def _after(self, each):
        """q(B) given precisions with axes of runs, or draws, and of all in a run."""
        prior = self.scale_prior
        dof = prior.dof + each.shape[1] * self._dof_of_one
        return Wishart(dof, prior.rate + each.sum(axis=1))

    def _tie_after(self, precisions, means):
        """q(tau) given means and precisions, with an axis of draws."""
        squares = self._clusters.covariance.quadratic(precisions, means).sum(axis=-1)
        shape = _TIE.shape + 0.5 * np.prod(self._clusters.shape)
        return Gamma(shape, _TIE.rate + 0.5 * squares)

    def _log_scales(self, precisions):
        prior, dof = self.scale_prior, self._dof_of_one[0]
        matrices = self._clusters.covariance.matrices(precisions)
        n, size = len(matrices), prior.dim
        each = matrices.reshape(n, -1, *prior.rate.shape[1:])
        log_dets = log_det(each).sum(axis=1)
        after = self._after(each)
        own = 0.5 * dof * size * np.log(2.0) + multigammaln(0.5 * dof, size)
        logs = 0.5 * (dof - size - 1.0) * log_dets - each.shape[1] * own
        logs = logs + after.log_normaliser - prior.log_normaliser
        return logs.reshape(n, -1).sum(axis=1)

    def _log_means(self, means, precisions):
        clusters, covariance = self._clusters, self._clusters.covariance
        size = np.prod(clusters.shape)
        if self.settings["clusters"] == "independent":
            return clusters.factors[0].log_density(
                clusters.factors[0].prior, {"means": means}
            )
        parts = covariance.total(covariance.log_det(precisions, clusters.shape[1]))
        log_det_sum = np.broadcast_to(parts, means.shape[:-1]).sum(axis=-1)
        logs = 0.5 * (log_det_sum - size * LOG_2PI)
        squares = covariance.quadratic(precisions, means).sum(axis=-1)
        if self.tie is None:
            tie = self.settings["mean_precision"]
            return logs + 0.5 * (size * np.log(tie) - tie * squares)
        after = self._tie_after(precisions, means)
        return logs + after.log_normaliser - _TIE.log_normaliser


# --- hyperparameters as factors of a model


class SharedMixtureModel(GaussianMixtureModel):
    """A mixture in which q(B), ``scale``, and q(tau), ``tie``, are factors as
    clusters are."""

    def __init__(self, shared, reg_covar):
        super().__init__(**shared.model().settings)
        # What users give lacks the floor under which B could collapse.
        self.settings = self.settings | {"reg_covar": reg_covar}
        self._shared = shared
        given = (_Given(self, factor) for factor in self.clusters.factors)
        names = [name for name in ("scale", "tie") if vars(shared)[name] is not None]
        self.factors = (self.weights, *given, *(_Hyper(shared, name) for name in names))
        self.prior = {factor.name: factor.prior for factor in self.factors}

    def with_hyperparameters(self, natural, shared):
        """A natural parameter of weights and clusters, q(B) and q(tau) beside it."""
        names = self.prior.keys() - natural.keys()
        return natural | {name: _leaves(vars(shared)[name]) for name in names}

    def given(self, natural):
        return self._at(natural).model()

    def elbo(self, natural, evidence):
        shared = self._at(natural)
        return shared.elbo(shared.model(), natural, evidence)

    def _at(self, natural):
        kinds = {"scale": Wishart, "tie": Gamma}
        own = {k: kind(**natural[k]) for k, kind in kinds.items() if k in natural}
        return replace(self._shared, **own)


class _Given:
    """A factor of the clusters, whose prior is that of the expected hyperparameters."""

    def __init__(self, model, factor):
        self.name, self.prior, self.cone = factor.name, factor.prior, factor.cone
        self._model = model

    def prior_given(self, natural):
        """The prior, given the other factors."""
        return self._now(natural).prior

    def target(self, natural, statistics):
        """Natural parameter of the optimal factor, given summed statistics."""
        return self._now(natural).target(natural, statistics)

    def _now(self, natural):
        every = self._model.given(natural).clusters.factors
        return next(factor for factor in every if factor.name == self.name)


class _Hyper:
    """q(B) or q(tau), of which rows say what they say of the clusters."""

    def __init__(self, shared, name):
        self.name, self._shared = name, shared
        self.prior = _leaves(vars(shared)[name])

    def prior_given(self, natural):
        """Itself: it does not count rows, and more rows of a kind leave it."""
        return natural[self.name]

    def target(self, natural, statistics):
        """The optimum, given the clusters."""
        return _leaves(vars(self._shared.updated(natural))[self.name])

    def cone(self, own):
        """The domain; steps without noise never leave it."""
        first, *_ = own.values()
        return Cone((first,))


def _leaves(distribution):
    return {one.name: getattr(distribution, one.name) for one in fields(distribution)}
