"""The opening of a run: one component at every mode that the starts led to.

Modes far apart are so many separate problems of ordinary variational inference, each
with its own evidence; the weights follow from those. Modes that overlap are fitted
together.
"""

from functools import partial

import numpy as np
from scipy.sparse.csgraph import connected_components

from skboost._parallel import chunked_map
from skboost._random import BASE, generator
from skboost.boosting._first import first_component
from skboost.boosting._growth import grown
from skboost.boosting._ranks import with_rank
from skboost.boosting._solver import SMALLEST_TOL, ascend
from skboost.boosting._support import narrowed
from skboost.boosting._whitening import whitening_of
from skboost.families import Gaussian
from skboost.objectives import JointELBO
from skboost.posterior import Mixture

# Standard deviations of either within which two modes are fitted together.
_OVERLAP = 6.0
# Components at most; the lightest of more modes stay leads.
_MAX_OPENING = 32
_MAX_ITER = 50


def opening(scout, modes, settings):
    """The mixture that a run begins with.

    Parameters
    ----------
    scout : Scout
    modes : Modes
        Those of the starts.
    settings : Boosting

    Returns
    -------
    Mixture
    """
    family = scout.family
    kept = modes.heaviest(min(_MAX_OPENING, settings.max_components or _MAX_OPENING))
    if len(kept) < 2:
        starts = [family.location(p) for p in kept] + list(scout.starts)
        family, params = first_component(
            scout.target, settings.family, np.array(starts), settings.n_draws,
            settings.n_restarts, settings.tol, settings.seed, settings.exact,
            settings.n_jobs,
        )  # fmt: skip
        return Mixture.single(family, params)
    groups = list(enumerate(_groups(family, kept)))
    fit = partial(_fitted, scout.target, settings)
    components, logs = [], []
    for members, shares, value in chunked_map(fit, groups, settings.n_jobs, "shared"):
        components += members
        # Each group's ELBO is its log evidence, up to what its fit misses.
        logs.append(value + np.log(shares))
    logs = np.concatenate(logs)
    weights = np.exp(logs - logs.max())
    return Mixture(tuple(components), weights / weights.sum())


def _groups(family, params):
    """Components that overlap, together."""
    centres = np.array([family.location(p) for p in params])
    away = [
        whitening_of(family, p).whiten(centres - family.location(p)) for p in params
    ]
    far = np.array([(z**2).sum(axis=1) for z in away])
    near = np.minimum(far, far.T) < _OVERLAP**2
    n, labels = connected_components(near, directed=False)
    return [
        [p for p, k in zip(params, labels, strict=True) if k == j] for j in range(n)
    ]


def _fitted(target, settings, item):
    """Components, shares and ELBO of the best variant for one group."""
    k, group = item
    if getattr(settings.family, "covariance", None) == "low_rank" and len(group) < 2:
        return _grown(target, settings, group[0])
    tol = max(1e-3 * settings.tol, SMALLEST_TOL)
    best = (-np.inf,)
    for family in map(with_rank, settings.family.variants()):
        problem = _problem(target, family, group, settings, k)
        x, value = ascend(problem, max_iter=_MAX_ITER, tol=tol)
        if value > best[0] or len(best) == 1:
            best = value, family, *problem.unpack(x)
    value, family, params, shares = best
    return [(family, p) for p in params], shares, value


def _grown(target, settings, params):
    """One mode under a low-rank Gaussian; as `_fitted`."""
    diagonal, n = Gaussian("diag"), settings.n_draws
    rng = generator(settings.seed, 0, BASE)
    base = diagonal.matched_draws(n, target.dim, rng)
    # The factor on top of it grows anew.
    start = narrowed(target, diagonal, params[: 2 * target.dim], base)
    value, *component = grown(
        target, start, settings.family.rank, n, settings.tol, settings.seed,
        settings.exact,
    )  # fmt: skip
    return [tuple(component)], np.ones(1), value


def _problem(target, family, group, settings, k):
    """Ordinary variational inference on one mode, or on several that overlap."""
    n = settings.n_draws
    if getattr(family, "covariance", None) == "full":
        n = max(n, 4 * target.dim)
    base = [
        family.matched_draws(n, target.dim, generator(settings.seed, 0, BASE, 2, k, j))
        for j in range(len(group))
    ]
    components = [
        (family, narrowed(target, family, p, eps))
        for p, eps in zip(group, base, strict=True)
    ]
    shares = np.full(len(group), 1.0 / len(group))
    return JointELBO(target, components, base, shares, None, settings.exact, whole=True)
