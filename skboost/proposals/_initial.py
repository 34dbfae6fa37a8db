"""The mixture that a run begins with: a component at every mode of the starts.

Modes far apart are so many separate problems of ordinary variational inference, each
with its own evidence; the weights follow from those. Modes that overlap are fitted
together.
"""

from functools import partial

import numpy as np
from scipy.sparse.csgraph import connected_components

from skboost._parallel import chunked_map
from skboost._random import BASE, generator
from skboost._solver import SMALLEST_TOL, ascend
from skboost.approximation import Mixture
from skboost.families import Gaussian
from skboost.objectives import JointELBO
from skboost.proposals._first import enough_draws, first_component
from skboost.proposals._low_rank import fit_low_rank
from skboost.proposals._support import shrink_to_support


def initial_mixture(search, modes, family, settings):
    """One component at every mode, with weights by their evidence.

    Parameters
    ----------
    search : ModeSearch
    modes : Modes
        Those of the starts.
    family : VariationalFamily
    settings : Settings

    Returns
    -------
    Mixture
    """
    located, target = search.family, search.target
    most = settings.max_candidates
    kept = modes.heaviest(min(most, settings.max_components or most))
    if len(kept) < 2:
        starts = [located.location(p) for p in kept] + list(search.starts)
        return Mixture.single(
            *first_component(target, family, np.array(starts), settings)
        )
    groups = list(enumerate(_groups(located, kept, settings.overlap)))
    fit = partial(_fitted, target, family, settings)
    components, logs = [], []
    for members, shares, value in chunked_map(fit, groups, settings.n_jobs, "shared"):
        components += members
        # Each group's ELBO is its log evidence, up to what its fit misses.
        logs.append(value + np.log(shares))
    logs = np.concatenate(logs)
    weights = np.exp(logs - logs.max())
    return Mixture(tuple(components), weights / weights.sum())


def _groups(family, params, overlap):
    """Components that overlap, together."""
    centres = np.array([family.location(p) for p in params])
    away = [family.whitening(p).whiten(centres - family.location(p)) for p in params]
    far = np.array([(z**2).sum(axis=1) for z in away])
    near = np.minimum(far, far.T) < overlap**2
    n, labels = connected_components(near, directed=False)
    return [
        [p for p, k in zip(params, labels, strict=True) if k == j] for j in range(n)
    ]


def _fitted(target, family, settings, item):
    """Components, shares and ELBO of the best variant for one group."""
    k, group = item
    if family.low_rank and len(group) < 2:
        return _fitted_low_rank(target, family, settings, group[0])
    tol = max(1e-3 * settings.tol, SMALLEST_TOL)
    best = (-np.inf,)
    for variant in family.variants():
        problem = _problem(target, variant.with_rank(), group, settings, k)
        x, value = ascend(
            problem, max_iter=settings.joint_max_iter, tol=tol, budget=settings.budget
        )
        if value > best[0] or len(best) == 1:
            best = value, variant.with_rank(), *problem.unpack(x)
    value, family, params, shares = best
    return [(family, p) for p in params], shares, value


def _fitted_low_rank(target, family, settings, params):
    """One mode under a low-rank Gaussian; as `_fitted`."""
    diagonal = Gaussian("diag")
    rng = generator(settings.seed, 0, BASE)
    base = diagonal.matched_draws(settings.n_draws, target.dim, rng)
    # The factor on top of it grows anew.
    start = shrink_to_support(target, diagonal, params[: 2 * target.dim], base)
    value, *component = fit_low_rank(target, start, family.rank, settings)
    return [tuple(component)], np.ones(1), value


def _problem(target, family, group, settings, k):
    """Ordinary variational inference on one mode, or on several that overlap."""
    n = enough_draws(family, target.dim, settings)
    base = [
        family.matched_draws(n, target.dim, generator(settings.seed, 0, BASE, 2, k, j))
        for j in range(len(group))
    ]
    components = [
        (family, shrink_to_support(target, family, p, eps))
        for p, eps in zip(group, base, strict=True)
    ]
    shares = np.full(len(group), 1.0 / len(group))
    return JointELBO(target, components, base, shares, None, settings.exact)
