"""Components with the tails of the target, fitted to weighted draws.

In few dimensions; by adaptive importance sampling.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, softmax

from skboost._math import log_sum_exp, log_weights, mean_and_se, responsibilities
from skboost.approximation import (
    FreshDraws,
    Mixture,
    effective_sample_size,
    elbo_gain,
    kept_components,
    psis,
)
from skboost.calibration._chains import Scatter
from skboost.calibration._problem import Calibration, Declined, allowed_loss, refusal
from skboost.families import Component, FullGaussian, StudentT

# Degrees of freedom that a component may have, all with a variance; inf is a Gaussian,
# the one choice where results are exponentials of coordinates.
_DF, _LIGHT_DF = (2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, np.inf), (np.inf,)
# Components lighter than that are dropped.
LEAST_WEIGHT = 0.002


def heavy_tails(problem, kl):
    """Student-t components by adaptive importance sampling; see `student_fit`.

    Where the problem is guarded, the new components stand beside the old ones, under
    the weights that minimise ``KL(q || p) + KL(p || q)`` on the draws of the fit. If
    not, they replace the old ones. `kl` is what remains, nats.
    """
    dim = problem.mixture.dim
    # Draws of every round of the fit, for each dimension, and at most: in eleven
    # dimensions 1,024 left the energy distance at .03, 4,096 at .006, 11,000 at .002.
    per_dim, most = (400, 4096) if problem.guarded else (1000, 12_288)
    n_draws = int(np.clip(per_dim * dim, 1024, most))
    mixture, pool, proposal = student_fit(problem, n_draws, problem.rng(1))
    if problem.guarded:
        both = problem.mixture.components + mixture.components
        mixture = jointly_weighted(both, problem, pool)
        mixture = mixture.keep(kept_components(mixture.weights, problem.max_components))
    record = _judged(problem, mixture, proposal, len(pool.theta))
    reason = refusal(record, allowed_loss(record, problem.guarded, kl, dim))
    if reason:
        raise Declined(replace(record, step=0.0, reason=reason))
    return mixture, record


def _judged(problem, mixture, proposal, n_draws):
    """What as many fresh draws say of the new mixture; raises `Declined`.

    A draw counts for no more than four nats: far out in the tails the gain has no
    bound, and few draws would carry its mean. What is left of it is less.
    """
    method = "gaussian" if problem.target.light_tails else "heavy-tailed"
    each = (problem.mixture, mixture, proposal)
    draws = [
        FreshDraws.of(problem.target, one, n_draws // 3, problem.rng(2, k), False)
        for k, one in enumerate(each)
    ]
    theta = np.concatenate([some.theta for some in draws])
    log_joint = np.concatenate([some.log_joint for some in draws])
    rows = np.concatenate([some.row_weights for some in draws])
    log_old, log_new, log_apart = (one.log_density(theta) for one in each)
    log_r = log_sum_exp(np.stack([log_old, log_new, log_apart]).T)
    smoothed, khat = psis(log_joint - log_r + np.log(rows))
    # The shape alone says little where weights are nearly constant.
    if khat > 0.7 and effective_sample_size(smoothed) < 0.25 * len(theta):
        reason = (
            f"a few of {len(theta)} draws carry the weights that judge it (k-hat "
            f"{khat:.2f})."
        )
        raise Declined(Calibration(method, pareto_k=khat, reason=reason))
    # Self-normalised mean, and its standard error by the delta method.
    w = np.exp(smoothed - smoothed.max())
    gain = mean_and_se(np.minimum(log_new - log_old, 4.0), w / w.sum())
    return Calibration(method, 1.0, *elbo_gain(*draws[:2]), *gain, khat)


def jointly_weighted(components, problem, pool):
    """Old and new components under weights with the least KL in both directions.

    ``KL(q || p) + KL(p || q)`` is convex in the weights; both are averages over the
    draws of the pool, by importance weights towards q and towards p.
    """
    even = np.full(len(components), 1.0 / len(components))
    inside = pool.log_joint > -np.inf
    table = Mixture(components, even).log_components(pool.theta)[inside]
    log_joint, weights = pool.log_joint[inside], pool.weights[inside]
    log_proposal = pool.log_proposal[inside]
    densities = np.exp(table - log_proposal[:, None]) / len(pool.theta)
    centre = weights @ (log_joint - log_proposal)

    def value_and_gradient(logits):
        problem.target.ledger.check()
        alpha = softmax(logits)
        log_q = log_sum_exp(table, log_weights(alpha))
        excess = log_q - log_joint + centre
        value = (densities @ alpha) @ excess - weights @ log_q
        share = np.exp(table - log_q[:, None])
        slope = densities.T @ (excess + 1.0) - weights @ share
        return value, alpha * (slope - alpha @ slope)

    found = minimize(
        value_and_gradient, np.zeros_like(even), jac=True,
        method="BFGS", options={"maxiter": 200},
    )  # fmt: skip
    alpha = softmax(found.x)
    return Mixture(components, alpha).keep(alpha > LEAST_WEIGHT)


# --- the fit


@dataclass(frozen=True)
class Pool:
    """Draws (n, dim) of several proposals, weighted towards the target.

    Log densities of the proposal are those of all together (the balance heuristic);
    the weights are Pareto-smoothed and sum to one.
    """

    theta: np.ndarray
    log_joint: np.ndarray
    log_proposal: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, theta, log_joint, proposals):
        """Weigh draws, as many of each proposal."""
        tables = [proposal.log_density(theta) for proposal in proposals]
        log_proposal = log_sum_exp(np.stack(tables).T) - np.log(len(proposals))
        smoothed = psis(log_joint - log_proposal).log_weights
        weights = np.exp(smoothed - smoothed.max())
        return cls(theta, log_joint, log_proposal, weights / weights.sum())


def student_fit(problem, n_draws, rng):
    """A mixture of Student-t components near a target, and the draws it was fitted to.

    Every round draws from the fit so far, weights all draws of all rounds by the
    balance heuristic, and goes on with EM on them. Components are Gaussian where the
    target asks for light tails. Returns the fit, the `Pool` of all draws, and the fit
    with heavier tails, from which draws see where the fit lacks mass.

    Cornuet, Marin, Mira & Robert 2012, Adaptive multiple importance sampling. Cappé,
    Douc, Guillin, Marin & Robert 2008, Adaptive importance sampling in general mixture
    classes. Peel & McLachlan 2000, Robust mixture modelling using the t distribution.
    """
    target, mixture = problem.target, problem.mixture
    choices = _LIGHT_DF if target.light_tails else _DF
    weights, parts = mixture.weights, _first_parts(mixture, choices)
    theta, log_joint, proposals = [], [], []
    for _ in range(4):
        proposals.append(_proposal(weights, parts, mixture))
        theta.append(proposals[-1].sample(n_draws, rng))
        log_joint.append(target.log_density(theta[-1]))
        pool = Pool.of(np.concatenate(theta), np.concatenate(log_joint), proposals)
        for _ in range(8):
            problem.target.ledger.check()
            weights, parts = _improved(weights, parts, pool, choices)
    return _mixture(weights, parts), pool, _proposal(weights, parts, mixture)


def _first_parts(mixture, choices):
    """Location, scale matrix and degrees of freedom of the components of a mixture."""
    # Of the first proposal, whose components are those of the mixture.
    df = 5.0 if 5.0 in choices else np.inf
    parts = []
    for component in mixture.components:
        alone = Scatter(Mixture.single(component))
        factor = alone.whitening.factor
        parts.append((alone.location, factor @ factor.T, df))
    return parts


def _proposal(weights, parts, mixture):
    """The fit, copies of it with heavier tails, and one wide component.

    Copies and the wide one have 2 degrees of freedom. Half of the draws are in such
    tails: with a quarter few draws carried them.
    """
    heavy = [(location, scatter, min(df, 2.0)) for location, scatter, df in parts]
    wide = Scatter(mixture)
    factor = wide.whitening.factor
    widest = wide.location, 1.5**2 * factor @ factor.T, 2.0
    shares = np.concatenate([0.4 * weights, 0.5 * weights, [0.1]])
    return _mixture(shares, [*parts, *heavy, widest])


def _improved(weights, parts, pool, choices):
    """One step of EM on the weighted draws, and of the degrees of freedom."""
    table = _mixture(weights, parts).log_components(pool.theta) + log_weights(weights)
    share = responsibilities(table)[0] * pool.weights[:, None]
    weights = share.sum(axis=0)
    kept = np.flatnonzero(weights > LEAST_WEIGHT)
    parts = [_likelier(parts[k], share[:, k], pool, choices) for k in kept]
    return weights[kept] / weights[kept].sum(), parts


def _likelier(part, share, pool, choices):
    """One component, from its share of the draws.

    The scale matrix that it had counts as one draw for each dimension: no component
    collapses onto a few heavy draws.
    """
    (location, scatter, df), dim = part, pool.theta.shape[1]
    squared = _squared(pool.theta, location, scatter)
    pulled = share if np.isinf(df) else share * (df + dim) / (df + squared)
    location = pulled @ pool.theta / pulled.sum()
    apart = pool.theta - location
    prior = dim / effective_sample_size(log_weights(pool.weights))
    scatter = (apart * pulled[:, None]).T @ apart + prior * scatter
    scatter /= share.sum() + prior
    squared = _squared(pool.theta, location, scatter)
    return location, scatter, _likeliest_df(choices, share, squared, dim)


def _squared(theta, location, scatter):
    """Squared whitened lengths, shape (n,)."""
    z = np.linalg.solve(np.linalg.cholesky(scatter), (theta - location).T)
    return np.einsum("ij,ij->j", z, z)


def _likeliest_df(choices, share, squared, dim):
    """The degrees of freedom under which weighted draws are likeliest."""
    df = np.array(choices[:-1])
    constant = gammaln(0.5 * (df + dim)) - gammaln(0.5 * df) - 0.5 * dim * np.log(df)
    tails = -0.5 * (df + dim) * np.log1p(squared[:, None] / df)
    values = share @ tails + share.sum() * constant
    normal = -0.5 * share @ squared - 0.5 * dim * np.log(2.0) * share.sum()
    return choices[int(np.argmax(np.append(values, normal)))]


def _mixture(weights, parts):
    """The mixture of Student-t densities, or normal ones, that have these parts."""
    components = []
    for location, scatter, df in parts:
        normal = FullGaussian()
        family = normal if np.isinf(df) else StudentT("full", df)
        components.append(Component(family, normal.from_moments(location, scatter)))
    return Mixture(tuple(components), weights / weights.sum())
