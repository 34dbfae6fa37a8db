"""Corrections by name: one affine map, heavy tails; how one is chosen and tried."""

from dataclasses import replace

import numpy as np

from skboost._math import mean_and_se
from skboost.approximation import (
    FreshDraws,
    Mixture,
    effective_sample_size,
    elbo_gain,
    psis,
    remaining_kl,
)
from skboost.calibration._chains import Chains, Scatter
from skboost.calibration._heavy_tailed import heavy_tails
from skboost.calibration._problem import (
    Calibration,
    Declined,
    Problem,
    allowed_loss,
    first_failure,
    refusal,
)


def affine_map(problem, kl):
    """A shift and a scale for every coordinate, the same for all components.

    Draws of the mixture become draws nearer to the target in two trajectories of
    Hamiltonian Monte Carlo. Stein's identity ``E[S g] = 0``, g the score of the target
    and S the scatter of the mixture, takes most of the noise from their moments:

        mean = avg(x + S g),  cov = S + sym avg[(x - mean + S g)(x - mean)^T]

    are exact for a Gaussian target of covariance S wherever the chains are. The logs of
    the scales are shrunk to their mean, and the shifts, in coordinates in which the
    mixture has unit scatter, to zero, by as much as they are noise (empirical Bayes).
    Where the problem is guarded, shorter steps are tried as well, the longest first,
    and the ELBO may fall by less than ``E_p[ln q]`` gains. `kl` is what remains, nats.

    Mira, Solgi & Imparato 2013, Zero variance Markov chain Monte Carlo for Bayesian
    estimators, Statistics and Computing 23.
    """
    scatter = Scatter(problem.mixture)
    shift, log_scale = stein_map(_chains(problem, scatter, 512, 1), scatter)
    judges = _chains(problem, scatter, 256, 2).theta
    before = _fresh(problem, problem.mixture)
    # Shares of the whole map that are tried.
    steps = tuple(k / 10 for k in range(10, 0, -1)) if problem.guarded else (1.0,)
    for step in steps:
        mixture = mapped(problem.mixture, scatter, step * shift, step * log_scale)
        record = _judged(problem, step, mixture, judges, before)
        allowed = allowed_loss(record, problem.guarded, kl, mixture.dim)
        reason = refusal(record, allowed)
        if not reason:
            return mixture, record
    raise Declined(replace(record, step=0.0, reason=reason))


def _chains(problem, scatter, n, key):
    """Chains from draws of the mixture, a few trajectories later."""
    rng, target = problem.rng(key), problem.target
    theta = problem.mixture.sample(n, rng)
    log_joint, score = target.value_and_score(theta)
    inside = log_joint > -np.inf
    if inside.sum() < n // 2:
        reason = (
            "the density is zero or failed, it or its gradient, at "
            f"{n - inside.sum()} of {n} draws."
        )
        raise Declined(Calibration("affine", reason=reason + first_failure(target)))
    # Trajectories are a quarter of a turn on average, after which a normal target is
    # forgotten.
    chains = Chains(theta[inside], log_joint[inside], score[inside], step=0.45)
    for _ in range(2):
        chains = chains.moved(target, scatter.whitening, rng)
    return chains


def _fresh(problem, mixture):
    # Corrected mixtures may have other families.
    exact = problem.exact and mixture.gaussian
    return FreshDraws.of(problem.target, mixture, 1024, problem.rng(3), exact)


def _judged(problem, step, mixture, theta, before):
    """What fresh draws, and draws nearer to the target, say of a map."""
    change = elbo_gain(before, _fresh(problem, mixture))
    gain = mixture.log_density(theta) - problem.mixture.log_density(theta)
    return Calibration("affine", step, *change, *mean_and_se(gain))


def stein_map(chains, scatter):
    """Shift (dim,) and logs of scales (dim,) towards the moments that chains see."""
    whitening = scatter.whitening
    newton = whitening.lift(whitening.pull(chains.score))
    target_mean = chains.theta + newton
    mean = target_mean.mean(axis=0)
    apart = chains.theta - mean
    terms = 1.0 + (apart + newton) * apart / scatter.variance
    variance = np.maximum(terms.mean(axis=0), 0.1)
    noise = 0.5 * standard_error(terms) / variance
    log_scale = shrunk(0.5 * np.log(variance), noise)
    # Coordinates of unit scatter: what is noise in them is noise in nats.
    z = whitening.whiten(target_mean - scatter.location)
    shift = shrunk(z.mean(axis=0), standard_error(z), centre=0.0)
    return whitening.lift(shift), log_scale


def standard_error(terms):
    """Of the mean of rows (n, dim), shape (dim,)."""
    return terms.std(axis=0, ddof=1) / np.sqrt(len(terms))


def shrunk(values, noise, centre=None):
    """Values pulled to their mean, or to `centre`, by their share of noise."""
    centre = values.mean() if centre is None else centre
    spread = max(np.mean((values - centre) ** 2 - noise**2), 0.0)
    share = spread / np.maximum(spread + noise**2, np.finfo(float).tiny)
    return centre + share * (values - centre)


def mapped(mixture, scatter, shift, log_scale):
    """The mixture of ``location + shift + scale * (theta - location)``."""
    scale, centre = np.exp(log_scale), scatter.location
    components = []
    for component in mixture.components:
        place = centre + shift + scale * (component.location() - centre)
        components.append(component.widen(scale).recentre(place))
    return Mixture(tuple(components), mixture.weights)


# By the names that users give: guarded, and as strong as it comes.
CALIBRATIONS = ("auto", "moments")


def calibrate(
    target,
    mixture,
    method,
    seed,
    *,
    exact=False,
    tol=1e-2,
    max_components=None,
):
    """A mixture with better moments and tails, or the same one.

    The method is one of `CALIBRATIONS`. Below `tol` nats nothing is corrected.
    """
    guarded = method == "auto"
    problem = Problem(target, mixture, exact, seed, max_components, guarded)
    try:
        theta = mixture.sample(1024, problem.rng(0))
        log_ratio = target.log_density(theta) - mixture.log_density(theta)
        remaining = remaining_kl(log_ratio)
        if not np.isfinite(remaining.value):
            reason = "the density is zero or failed at every draw."
            return mixture, Calibration(reason=reason + first_failure(target))
        if remaining.spread < tol:
            reason = f"draws see less than {tol:g} nats that are left to correct."
            return mixture, Calibration(reason=reason)
        # Few effective draws for each dimension are no guide, and in many dimensions
        # scale matrices of weighted draws cost too much.
        n_effective = effective_sample_size(psis(log_ratio).log_weights)
        by_chains = n_effective < 5 * mixture.dim or mixture.dim > 20
        correct = affine_map if by_chains else heavy_tails
        return correct(problem, max(remaining.value, 0.0))
    except Declined as declined:
        return mixture, declined.calibration
    except (ValueError, FloatingPointError) as error:
        # Singular matrices, and moments that no member of a family has.
        return mixture, Calibration(reason=f"its numbers failed ({error}).")
