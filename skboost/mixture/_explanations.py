"""Explanations of the rows over numbers of clusters, weighed by their evidence."""

from copy import copy
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skboost._budget import Budget
from skboost._math import log_sum_exp, responsibilities
from skboost._random import REPORT, generator, root_seed
from skboost.approximation import log_mean_weight, psis
from skboost.conjugate import (
    ConjugateTarget,
    GaussianMixtureModel,
    Optimum,
    SharedPrior,
    explanations,
    with_louis_widths,
)
from skboost.families import Component
from skboost.mixture._predictive import SinglePredictive
from skboost.mixture._priors import mixture_settings, moments, shares
from skboost.mixture._shared import learns_tie
from skboost.mixture._starts import any_given

# Numbers of clusters that are tried at most, those in a row, each worse than the best,
# after which no more are, and the share of a limited time for all.
_MOST, _FALLS, _SEARCH_SHARE = 50, 2, 0.5
# Nats below the best bound, over labellings, at which a number of clusters is left out.
_HOPELESS = 15.0
# Draws behind an evidence; clusters up to which all labellings count, and beyond which
# those with two labels exchanged.
_N_DRAWS, _FEW = 200, 4


class Explanation(NamedTuple):
    """One way to see groups in the rows: a distinct optimum of coordinate ascent.

    Attributes
    ----------
    n_components : int
        Number of clusters.
    weights, means : ndarray
        Their expected weights (n_components,) and means (n_components, n_features).
    share : float
        Posterior probability among all explanations, by evidence.
    """

    n_components: int
    weights: np.ndarray
    means: np.ndarray
    share: float


@dataclass(frozen=True)
class Explained:
    """A target with its optima, `naturals` as wide as Louis' formula says, and the log
    evidence of each, nats, all labellings included.
    """

    target: object
    modes: tuple
    naturals: tuple
    log_evidence: np.ndarray

    @classmethod
    def of(cls, target, modes, seed, weigh=True):
        """Weighed by their evidence, or by bounds where there is nothing to compare."""
        naturals = tuple(
            with_louis_widths(target, mode.natural, 1.0, mode.prior) for mode in modes
        )
        logs = np.array([mode.bound for mode in modes])
        if weigh:
            logs = [_log_evidence(target, own, seed) for own in naturals]
        return cls(target, tuple(modes), naturals, np.array(logs))

    @classmethod
    def of_fit(cls, target, fit):
        """The optima that a fit began with."""
        modes = fit.run.state.modes
        pairs = zip(modes.components, modes.mass, strict=True)
        natural = target.family.natural
        modes = [Optimum(natural(mode.params), bound) for mode, bound in pairs]
        return cls.of(target, modes, fit.seed, weigh=len(modes) > 1)

    @property
    def total(self):
        """Log evidence of this number of clusters, nats."""
        return float(log_sum_exp(self.log_evidence[None])[0])


def begun(estimator, n_components, X, weight):
    """The target of rows, explanations of it that are known, and all as `Explained`,
    where the number of clusters is searched.
    """
    if n_components != "auto":
        return target_of(estimator, n_components, X, weight), (), []
    explained = over_numbers(estimator, X, weight)
    best = max(explained, key=lambda own: own.total)
    return best.target, best.modes, explained


def over_numbers(estimator, X, weight):
    """Explanations with ever more clusters, until the bound falls, as `Explained`."""
    if any_given(estimator):
        raise ValueError(
            "weights_init, means_init and precisions_init need a number of clusters; "
            "got n_components='auto'. Give the number."
        )
    found, bounds, seed = [], [], root_seed(estimator.random_state)
    budget = Budget(estimator.max_time).part(_SEARCH_SHARE)
    for n_components in range(1, min(len(X), _MOST) + 1):
        target = target_of(estimator, n_components, X, weight)
        n_starts = estimator.n_restarts * (2 + n_components)
        modes = explanations(
            target, estimator.init_params, seed, n_starts, None, budget
        )
        found.append((target, modes))
        # All orders of the labels count, where they mean nothing.
        exchanged = gammaln(n_components + 1) * target.model.weights.exchangeable
        bounds.append(modes[0].bound + exchanged)
        if len(bounds) - 1 - np.argmax(bounds) >= _FALLS or budget.cuts():
            break
    near = max(bounds) - _HOPELESS
    pairs = [pair for pair, bound in zip(found, bounds, strict=True) if bound > near]
    return [Explained.of(target, modes, seed) for target, modes in pairs]


def target_of(estimator, n_components, X, weight):
    """The target of rows under the priors of that many clusters."""
    one = copy(estimator).set_params(n_components=n_components)
    model = GaussianMixtureModel(**mixture_settings(one, moments(X, weight)))
    return target_under(one, model, X, weight)


def target_under(estimator, model, X, weight):
    """The target of rows under a model, what its clusters share integrated out."""
    shared = None
    if shares(estimator):
        tie = learns_tie(estimator, model.settings)
        shared = SharedPrior.of(model.settings, tie, estimator.degrees_of_freedom_prior)
    return ConjugateTarget(model, model.rows(X), weight, estimator.n_jobs, shared)


def shares_of(explained):
    """Posterior probability of every explanation, one array for each `Explained`."""
    logs = [own.log_evidence for own in explained]
    total = log_sum_exp(np.concatenate(logs)[None])
    return [np.exp(own - total) for own in logs]


def explanation_attributes(explained):
    """Fitted attributes, and what predicts by each explanation."""
    listed, predictives, numbers = [], [], {}
    for own, parts in zip(explained, shares_of(explained), strict=True):
        model = own.target.model
        numbers[model.n_components] = float(parts.sum())
        for natural, share in zip(own.naturals, parts, strict=True):
            mean = model.mean_weights(natural), model.means(natural)
            listed.append(Explanation(model.n_components, *mean, float(share)))
            predictives.append((float(share), SinglePredictive.of(model, natural)))
    return {
        "explanations_": sorted(listed, key=lambda one: -one.share),
        "n_components_proba_": numbers,
        "_explanations": predictives,
    }


def co_clustering(predictives, X, pairs):
    """Probability that rows belong to one cluster, averaged over explanations."""
    together = 0.0
    for share, predictive in predictives:
        proba = responsibilities(predictive.joint(X))[0]
        if pairs is None:
            together = together + share * (proba @ proba.T)
        else:
            first, second = np.asarray(pairs).T
            together = together + share * np.sum(proba[first] * proba[second], axis=1)
    if pairs is None:
        np.fill_diagonal(together, 1.0)
    return together


def _log_evidence(target, natural, seed):
    """Log evidence of one explanation, by importance sampling over labellings."""
    model, family = target.model, target.family
    rng, n = generator(seed, REPORT, model.n_components), model.n_components
    one = Component(family, family.params(natural))
    theta = one.sample(_N_DRAWS, rng)
    orders, n_labels = [np.arange(n)], 0.0
    if model.weights.exchangeable:
        n_labels, orders = gammaln(n + 1), list(_orders(n))
    logs = np.array(
        [
            family.log_density(theta, family.params(model.permuted(natural, order)))
            for order in orders
        ]
    )
    log_ratio = target.log_density(theta) - log_sum_exp(logs.T)
    return log_mean_weight(psis(log_ratio)[0])[0] + n_labels


def _orders(n):
    """Orders of labels that overlap may mix: all of few, exchanges of two of many."""
    if n <= _FEW:
        yield from (np.array(order) for order in permutations(range(n)))
        return
    yield np.arange(n)
    for i, j in combinations(range(n), 2):
        order = np.arange(n)
        order[[i, j]] = j, i
        yield order
