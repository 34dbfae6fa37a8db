"""Explanations of the rows over numbers of clusters, weighed by their evidence."""

from dataclasses import dataclass
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skboost._budget import Budget
from skboost._math import log_sum_exp, log_weights, responsibilities
from skboost._random import REPORT, generator, root_seed
from skboost.approximation import Mixture, psis
from skboost.conjugate import Optimum, explanations, gibbs_naturals, with_louis_widths
from skboost.families import Component
from skboost.mixture._engine import target_of
from skboost.mixture._predictive import SinglePredictive
from skboost.mixture._starts import any_given

# Numbers of clusters that are tried at most, those in a row, each worse than the best,
# after which no more are, and the share of a limited time for all.
_MOST, _FALLS, _SEARCH_SHARE = 50, 2, 0.5
# Nats below the best bound, over labellings, at which a number of clusters is left out.
_HOPELESS = 15.0
# Gibbs chains; their sweeps, those before the first that is kept, and each how many
# sweeps one is.
_N_CHAINS, _SWEEPS = 32, (60, 20, 5)
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
    """A target with its optima, `naturals` widened by Louis' formula, and log
    evidences, nats."""

    target: object
    modes: tuple
    naturals: tuple
    log_evidence: np.ndarray

    @classmethod
    def of(cls, target, modes, seed):
        """Optima weighed by their evidence."""
        naturals = tuple(
            with_louis_widths(target, mode.natural, 1.0, mode.prior) for mode in modes
        )
        logs = _log_evidences(target, naturals, seed)
        return cls(target, tuple(modes), naturals, logs)

    @classmethod
    def of_fit(cls, target, fit):
        """The components of a fit that ended with explanations, or the optima,
        weighed anew."""
        if fit.run.has_begun_only:
            mixture = fit.mixture
            naturals = [target.family.natural(one.params) for one in mixture.components]
            return cls(target, (), tuple(naturals), np.log(mixture.weights))
        modes = fit.run.state.modes
        pairs = zip(modes.components, modes.mass, strict=True)
        natural = target.family.natural
        modes = [Optimum(natural(mode.params), bound) for mode, bound in pairs]
        return cls.of(target, modes, fit.seed)

    @property
    def total(self):
        """Log evidence of this number of clusters, nats."""
        return float(log_sum_exp(self.log_evidence[None])[0])


def begin(estimator, n_components, X, weight):
    """The target of rows, known explanations, and all of them as `Explained` where
    searched."""
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
        n_starts = 2 * (2 + n_components)
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


def gibbs_mixture(target, explained, seed):
    """Equal shares of the conditionals along Gibbs chains from explanations."""
    (own,) = [one for one in explained if one.target is target]
    (shares,) = shares_of([own])
    first = np.argsort(-shares, kind="stable")
    places = (np.arange(_N_CHAINS) + 0.5) / _N_CHAINS
    chosen = np.searchsorted(np.cumsum(shares[first]), places).clip(max=len(first) - 1)
    starts = [own.naturals[k] for k in first[chosen]]
    rng = generator(seed, REPORT, 0, 1)
    naturals = gibbs_naturals(target, starts, *_SWEEPS, rng)
    family = target.family
    members = tuple(Component(family, family.params(natural)) for natural in naturals)
    return Mixture(members, np.full(len(members), 1.0 / len(members)))


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


def _log_evidences(target, naturals, seed):
    """Log evidence of every explanation by importance sampling, summed over
    labellings."""
    model, family = target.model, target.family
    rng, n = generator(seed, REPORT, model.n_components), model.n_components
    draws = [
        Component(family, family.params(own)).sample(_N_DRAWS, rng) for own in naturals
    ]
    theta = np.concatenate(draws)
    orders = list(_orders(n)) if model.weights.exchangeable else [np.arange(n)]
    logs = np.empty((len(theta), len(naturals)))
    for k, natural in enumerate(naturals):
        every = [
            family.log_density(theta, family.params(model.permuted(natural, order)))
            for order in orders
        ]
        logs[:, k] = log_sum_exp(np.array(every).T)
    exchanged = gammaln(n + 1) * model.weights.exchangeable
    log_ratio, _ = psis(target.log_density(theta) - log_sum_exp(logs))
    # Where explanations meet, each has its part: their evidences add up.
    parts, _ = responsibilities(logs)
    total = log_ratio[:, None] + log_weights(parts)
    return log_sum_exp(total.T) - np.log(_N_DRAWS) + exchanged


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
