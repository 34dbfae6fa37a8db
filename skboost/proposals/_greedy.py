"""The density problem: one more component for what the mixture lacks."""

from functools import partial

import numpy as np

from skboost._math import log_sum_exp
from skboost._parallel import chunked_map
from skboost._random import SEARCH, generator
from skboost._solver import ascend
from skboost.approximation import Mixture, without_noise
from skboost.objectives import joint_gains

# --- where a component is most skewed: starts beside it, and halves of it


# Keeps a direction without strength from dividing by zero.
_TINY = 1e-300


def skew_direction(target, mixture, k, rng, n_draws=512, n_starts=8, n_steps=15):
    """Direction, one standard deviation long, in which a component is most skewed.

    Under a whitened Gaussian the third cumulant of the target along v is the slope
    of ``ln p - ln q`` against ``(v z)^2 - 1``: a power iteration on that tensor needs
    one score per draw, and finds in a hundred dimensions what random starts miss.
    """
    component = mixture.components[k]
    scale = component.whitening()
    theta = component.sample(n_draws, rng)
    _, score = target.value_and_score(theta)
    residual = score - mixture.score_and_log_density(theta)[0]
    z = scale.whiten(theta - component.location())
    slope = scale.pull(residual)
    directions = rng.standard_normal((mixture.dim, n_starts))
    for _ in range(n_steps):
        directions /= np.maximum(np.linalg.norm(directions, axis=0), _TINY)
        directions = slope.T @ ((z @ directions) ** 2 - 1.0)
    strength = np.linalg.norm(directions, axis=0)
    best = directions[:, strength.argmax()]
    return scale.lift(best / max(np.linalg.norm(best), _TINY))


def split_component(target, mixture, k, rng):
    """The mixture with a component split where it is most skewed.

    A start for a joint search of what no single component finds from weight zero. One
    half is in the component's place, the other one last.
    """
    component = mixture.components[k]
    shift = skew_direction(target, mixture, k, rng)
    # Half a standard deviation along the most skewed direction.
    here, there = (
        component.recentre(component.location() + s * shift) for s in (-0.5, 0.5)
    )
    weights = np.append(mixture.weights, 0.5 * mixture.weights[k])
    weights[k] *= 0.5
    halves = mixture.replace(k, here).append(there)
    return halves.with_weights(weights)


# --- where to look


def widened_mixture(mixture):
    """The mixture with every component at several widths, which reach tails and
    modes."""
    widths, shares = (1.0, 1.5, 3.0, 10.0, 40.0), (0.35, 0.25, 0.2, 0.1, 0.1)
    components = [
        component.widen(width) for component in mixture.components for width in widths
    ]
    weights = np.outer(mixture.weights, shares).ravel()
    return Mixture(tuple(components), weights)


def residual_points(context, n, rng, n_probes=256):
    """Points drawn where the target has more mass than the mixture.

    Importance weights of the positive part of ``p - q`` under a wide proposal: a
    point far out with a high ratio but no mass is not worth a component.
    """
    proposal = widened_mixture(context.fixed.components)
    theta = proposal.sample(n_probes, rng)
    log_proposal = proposal.log_density(theta)
    known = context.target, theta, context.target.log_density(theta), log_proposal
    log_joint = without_noise(*known, context.mixture.heaviest)
    log_ratio = log_joint - log_proposal
    log_z = log_sum_exp(log_ratio[None])[0] - np.log(len(theta))
    if not np.isfinite(log_z):
        return theta[:0]
    q_ratio = np.exp(context.mixture.log_density(theta) - log_proposal)
    missing = np.maximum(np.exp(log_ratio - log_z) - q_ratio, 0.0)
    if not missing.sum() > 0:
        return theta[:0]
    chosen = rng.choice(len(theta), size=n, p=missing / missing.sum())
    return theta[np.unique(chosen)]


def starting_components(context, family, rng):
    """Starts in a family: rescaled copies of heavy components, and at residual
    points."""
    owners = context.fixed.components
    starts = []
    for k in np.argsort(-owners.weights, kind="stable")[:2]:
        heavy = owners.components[k].in_family(family)
        # Widths of the copies of heavy components.
        starts += [heavy.widen(width) for width in (0.6, 1.7)]
    points = residual_points(context, 4, rng)
    if not len(points):
        return starts
    nearest = owners.responsibilities(points).argmax(axis=1)
    for point, k in zip(points, nearest, strict=True):
        starts += _starts_at(owners.components[k].in_family(family), point)
    return starts


def _starts_at(nearest, point):
    """Starts that a residual point suggests, made of the component nearest to it."""
    centre = nearest.location()
    reach = np.abs(point - centre) / nearest.scale()
    return [
        nearest.widen(0.5).recentre(point),
        nearest.recentre(point),
        # In many dimensions every draw is far out; its direction is what counts.
        nearest.recentre(centre + (point - centre) / np.sqrt(len(point))),
        # A tail wants a wide component where the owner is, not one beside it.
        nearest.widen(max(1.0, reach.max() / 1.5)),
    ]


# --- early stopping of the residual ELBO (Locatello et al. 2018, section 4)


# Quasi-Newton iterations after which the path is looked at. Every one of the first 16,
# or 64 in all, found nothing better on six densities, four of them not tuned on.
STOPS = (0, 1, 2, 4, 8, 20)
# Weights at which a component is tried. The gain is flat around its best weight, which
# is chosen exactly, by the step size, once the component is part of the mixture.
_WEIGHTS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)


def points_at_stops(problem):
    """Where the solver is after each number in `STOPS`, or fewer if it converges
    before."""
    path = [problem.start]
    ascend(problem, max_iter=STOPS[-1], listener=path.append)
    return [path[k] for k in STOPS if k < len(path)]


def best_stop(context, objective, problems, draws, settings):
    """The component on the solver's paths by which the mixture gains most.

    ``draws(family)`` are base draws common to all members of a family. The gain at the
    best weight is by construction never below that of a start.
    """
    paths = chunked_map(points_at_stops, problems, settings.n_jobs, "shared")
    found = []
    for problem, path in zip(problems, paths, strict=True):
        members = [problem.unpack(x) for x in path]
        base = draws(problem.component.family)
        values = joint_gains(context, members, base, _WEIGHTS)
        stop, k = np.unravel_index(values.argmax(), values.shape)
        found.append((float(values[stop, k]), problem, path[stop], _WEIGHTS[k]))
    value, problem, x, weight = max(found, key=lambda one: one[0])
    return objective.candidate(problem, x, value)._replace(weight=weight)


# --- the search


def best_candidate(context, objective, family, settings):
    """The best component found for what the mixture misses.

    Every start is valued on common draws. The best one of every variant of the family
    is searched a few steps, and the winner to convergence; or each is searched, and
    stopped early, where the objective asks for that.
    """
    problems = [
        _from_best_start(context, objective, variant, settings)
        for variant in family.variants()
    ]
    if objective.early_stopping:
        draws = partial(_unseen_draws, context, settings)
        return best_stop(context, objective, problems, draws, settings)
    x, problem = None, problems[0]
    if len(problems) > 1:
        # After six steps the order hardly changed.
        short = partial(ascend, max_iter=6, tol=objective.short_tolerance)
        searched = chunked_map(short, problems, settings.n_jobs, "shared")
        winner = int(np.argmax([value for _, value in searched]))
        x, problem = searched[winner][0], problems[winner]
    x, value = ascend(
        problem,
        x,
        tol=objective.tolerance(settings),
        # Components move once more after a search, where they are refined.
        share=0.05 if settings.refine else 0.0,
    )
    return objective.candidate(problem, x, value)


def _unseen_draws(context, settings, family):
    """Base draws that no search has seen, the same for all components."""
    rng = generator(settings.seed, context.iteration, SEARCH, 3)
    return family.matched_draws(settings.n_draws, context.target.dim, rng)


def _from_best_start(context, objective, family, settings):
    """The problem of the start that promises most."""
    dim = context.target.dim
    rng = generator(settings.seed, context.iteration, SEARCH)
    base = objective.base_draws(family, settings.n_draws, dim, rng)
    starts = starting_components(context, family, rng)
    starts += [mode.in_family(family) for mode in context.mode_candidates]
    values, weights = objective.rank_starts(context, starts, base, rng, settings)
    best = np.argsort(-values, kind="stable")[0]
    return objective.problem(context, starts[best], weights[best], base)
