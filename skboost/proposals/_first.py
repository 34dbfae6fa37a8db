"""The mixture that a run begins with: ordinary variational inference on the target.

Modes far apart are so many separate problems, each with its own evidence; the weights
follow from those. Modes that overlap are fitted together.
"""

from functools import partial
from operator import itemgetter

import numpy as np
from scipy.sparse.csgraph import connected_components

from skboost._budget import BudgetSpent
from skboost._parallel import chunked_map
from skboost._random import BASE, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.approximation import Mixture
from skboost.families import MAX_FULL_DIM, Component, DiagonalGaussian, FullGaussian
from skboost.modes import find_mode, inverse_curvature
from skboost.objectives import JointELBO, SingleELBO
from skboost.proposals._gaussian import fit_low_rank, natural_gaussian
from skboost.targets import CentredTarget, LogDensityError, shown_point, what_came

# --- where the density is positive


def usable_starts(target, starts):
    """The starts at which the density is positive."""
    value, _ = target.value_and_score(starts)
    usable = np.isfinite(value)
    if usable.any():
        return starts[usable]
    shown, (what, why) = shown_point(target, starts), what_came(target)
    if np.isfinite(target.log_density(starts)).any():
        raise LogDensityError(
            f"log_density is a number at x0={shown}, and has no gradient there.{why}"
        )
    where = f", at all {len(starts)} starting points" if len(starts) > 1 else ""
    raise LogDensityError(
        f"log_density {what} at x0={shown}{where}.{why} Pass as x0 a point where the "
        "density is positive, several points, or a box (low, high)."
    )


def proper_modes(target, starts, modes):
    """Those modes at which a search from its start ended, and did not just go on."""
    path = modes - starts
    length = np.abs(path).max(axis=1)
    # A density that still climbs at this multiple of the starts' size, at half of its
    # average slope, has no mode there to be found.
    far = length > 1e6 * np.maximum(1.0, np.abs(starts).max(axis=1))
    if not far.any():
        return modes
    before = target.log_density(starts)
    after, score = target.value_and_score(modes)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = (score * (path / length[:, None])).sum(axis=1)
        climbing = far & ~(slope * length < 0.5 * (after - before))
    if not climbing.all():
        return modes[~climbing]
    raise LogDensityError(
        f"log_density rises without end: from x0={shown_point(target, starts)} it "
        f"still climbs at theta={shown_point(target, modes[:1])}. Such a density "
        "can not be normalised. Give every parameter a proper prior, or check the "
        "sign of log_density."
    )


def shrink_to_support(target, component, base_draws):
    """A component, narrowed until its draws have positive density.

    A search can not step back from draws of zero density by a slope, so it starts
    where there are none. The component itself where narrowing does not help.
    """
    found = component
    for _ in range(25):
        theta = found.draws(base_draws)
        try:
            inside = np.isfinite(target.log_density(theta)).mean()
        except BudgetSpent:
            return found
        # A few draws outside are no hindrance.
        if inside >= 0.995:
            return found
        found = found.widen(0.6)
    return component


# --- one component


def first_component(target, family, starts, settings, tol=1e-10):
    """The best single member of the family's variants; see `natural_gaussian`."""
    fit = partial(_member, target, starts, settings, tol)
    # Sobol' points are the same for all variants, so their values compare.
    return max(map(fit, family.variants()), key=itemgetter(0))[1]


def _member(target, starts, settings, tol, family):
    """ELBO on its draws, and one variant's best member."""
    if target.centring.columns is not None and family.full_covariance:
        about = CentredTarget(target), target.centring.about(starts)
        value, found = _member(*about, settings, tol, family)
        mean, _, factor = found.structure()
        # Triangular as before: the intercept is the last of its linear predictor.
        factor = target.centring.back(factor.T).T
        params = FullGaussian().from_factor(target.centring.back(mean), factor)
        return value, Component(found.family, params)
    curvature, candidates = _expected_curvature(target, family), None
    if curvature is not None:
        parts = target.dim, target.ledger.budget, tol, target.first_guess
        moments = natural_gaussian(curvature, *parts)
        candidates = [Component(family, projected(family, *moments))]
        if family.exact_expectations and family.full_covariance:
            # The optimum itself: a full Gaussian has no other variants.
            return np.nan, candidates[0]
    # A factor grows on a diagonal Gaussian.
    first = DiagonalGaussian() if family.low_rank else family
    n_draws, seed = enough_draws(family, target.dim, settings), settings.seed
    base = first.matched_draws(n_draws, target.dim, generator(seed, 0, BASE))
    candidates = candidates or _candidates(target, first, starts, base)
    problems = [SingleELBO(target, c, base, settings.exact) for c in candidates]
    budget = target.ledger.budget
    x, problem = _best_of_short_searches(problems, budget, settings)
    if family.low_rank:
        return fit_low_rank(target, problem.unpack(x), family.rank, settings)
    tol = max(1e-4 * settings.tol, SMALLEST_TOL)
    x, value = ascend(problem, x, max_iter=100, tol=tol, budget=budget)
    return value, problem.unpack(x)


def enough_draws(family, dim, settings):
    """Draws for a component of its own.

    With fewer than four for each direction a full covariance stretches between them.
    """
    n = settings.n_draws
    return max(n, 4 * dim) if family.full_covariance else n


def _candidates(target, family, starts, base):
    """Components at modes and at starts."""
    starts = usable_starts(target, starts)
    # Curvature at a point on the way up says more than a mode without a width.
    climbs = target.ledger.budget.share(0.5)
    modes = np.array([find_mode(target, x, budget=climbs) for x in starts])
    modes = proper_modes(target, starts, modes)
    candidates = [_at_mode(target, family, mode) for mode in modes]
    # A density without a proper mode is better met where the user points.
    candidates += [family.from_moments(x, np.ones(target.dim)) for x in starts]
    return [
        shrink_to_support(target, Component(family, params), base)
        for params in candidates
    ]


def _best_of_short_searches(problems, budget, settings):
    """Where a short search of the problem that it likes best ended, and the problem."""
    if len(problems) == 1:
        return problems[0].start, problems[0]
    values = chunked_map(_value_at_start, problems, settings.n_jobs, "shared")
    order = np.argsort(-np.array(values), kind="stable")[:2]
    problems = [problems[k] for k in order]
    ends = map(partial(ascend, max_iter=10, budget=budget), problems)
    (x, _), problem = max(zip(ends, problems, strict=True), key=lambda one: one[0][1])
    return x, problem


def _expected_curvature(target, family):
    """Value, gradient and curvature under a full Gaussian, where affordable."""
    # In more dimensions a target's dense curvature is not asked for.
    largest = 2000 if family.full_covariance else MAX_FULL_DIM
    if family.low_rank or target.dim > largest or not target.knows_curvature:
        return None
    return target.expected_curvature


def _value_at_start(problem):
    # A component of which no draw has positive density is -inf, its slope no number.
    with np.errstate(invalid="ignore"):
        try:
            return problem.value_and_gradient(problem.start)[0]
        except BudgetSpent:
            return -np.inf


def projected(family, mean, covariance):
    """The family's member that mean-field theory suggests beside a full Gaussian."""
    if family.full_covariance or family.low_rank or covariance.ndim == 1:
        return family.from_moments(mean, covariance)
    # The best diagonal Gaussian has the variances of the conditionals, not of the
    # marginals: Bishop 2006, section 10.1.2.
    return family.from_moments(mean, 1.0 / np.diagonal(np.linalg.inv(covariance)))


def _at_mode(target, family, mode):
    """The Laplace approximation at a mode; of unit scale without room for it."""
    try:
        covariance = inverse_curvature(target, mode, family)
    except BudgetSpent:
        covariance = np.ones(target.dim)
    return family.from_moments(mode, covariance)


# --- a component at every mode of the starts


def initial_mixture(search, modes, family, settings):
    """One component at every mode, with weights by their evidence."""
    target = search.target
    kept = modes.heaviest(settings.max_components)
    if len(kept) < 2:
        starts = [mode.location() for mode in kept] + list(search.starts)
        return Mixture.single(
            first_component(target, family, np.array(starts), settings)
        )
    components, logs = zip(*fitted_at(target, family, kept, settings), strict=True)
    logs = np.array(logs)
    if np.isneginf(logs).any():
        # Limits left no room for a fit: Laplace's own masses are what is known.
        known = dict(zip(map(id, modes.components), modes.mass, strict=True))
        logs = np.array([known[id(mode)] for mode in kept])
    weights = np.exp(logs - logs.max())
    return Mixture(components, weights / weights.sum())


def fitted_at(target, family, modes, settings):
    """A component fitted at every mode, and its log mass, nats: a list of pairs."""
    if not modes:
        return []
    groups = _groups(modes)
    fit = partial(_fitted, target, family, settings)
    numbered = list(enumerate(groups))
    fits = {}
    found = chunked_map(fit, numbered, settings.n_jobs, "shared")
    for group, (members, shares, value) in zip(groups, found, strict=True):
        # Each group's ELBO is its log evidence, up to what its fit misses.
        logs = (value + np.log(shares)).tolist()
        fits |= zip(map(id, group), zip(members, logs, strict=True), strict=True)
    return [fits[id(mode)] for mode in modes]


def _groups(components, overlap=6.0):
    """Components closer than `overlap` standard deviations of either, together."""
    centres = np.array([*map(Component.location, components)])
    far = np.array([each.distance(centres) for each in components])
    near = np.minimum(far, far.T) < overlap
    n, labels = connected_components(near, directed=False)
    return [
        [each for each, k in zip(components, labels, strict=True) if k == j]
        for j in range(n)
    ]


def _fitted(target, family, settings, item):
    """Components, shares and ELBO of the best variant for one group."""
    k, group = item
    if family.low_rank and len(group) < 2:
        return _fitted_low_rank(target, family, settings, group[0])
    tol = max(1e-3 * settings.tol, SMALLEST_TOL)
    fits = []
    for variant in family.variants():
        variant = variant.with_rank()
        problem = _problem(target, variant, group, settings, k)
        x, value = ascend(problem, max_iter=50, tol=tol, budget=target.ledger.budget)
        fits.append((*problem.unpack(x), value))
    return max(fits, key=lambda fit: fit[-1])


def _fitted_low_rank(target, family, settings, mode):
    """One mode under a low-rank Gaussian; as `_fitted`."""
    diagonal = DiagonalGaussian()
    rng = generator(settings.seed, 0, BASE)
    base = diagonal.matched_draws(settings.n_draws, target.dim, rng)
    # The factor on top of it grows anew.
    start = Component(diagonal, mode.params[: 2 * target.dim])
    start = shrink_to_support(target, start, base)
    value, component = fit_low_rank(target, start, family.rank, settings)
    return [component], np.ones(1), value


def _problem(target, family, group, settings, k):
    """Ordinary variational inference on one mode, or on several that overlap."""
    n = enough_draws(family, target.dim, settings)
    base = [
        family.matched_draws(n, target.dim, generator(settings.seed, 0, BASE, 2, k, j))
        for j in range(len(group))
    ]
    components = [
        shrink_to_support(target, Component(family, mode.params), eps)
        for mode, eps in zip(group, base, strict=True)
    ]
    shares = np.full(len(group), 1.0 / len(group))
    return JointELBO(target, components, base, shares, None, settings.exact)
