"""Explanations of the rows: the distinct optima that starts lead to."""

from dataclasses import replace

import numpy as np

from skboost._random import SEARCH, generator
from skboost.conjugate.gaussian_mixture._ascent import (
    INITS,
    aligned,
    coordinate_ascent,
    start,
    sweeps,
)

# Rows beyond these say little about which starts are worth to be followed.
_MOST_ROWS = 2048
# Sweeps of a start, and at most of those that are followed and then of these at other
# degrees of freedom, which go on until a sweep moves no more than that share of all
# rows, and of one.
_SHORT, _LONG, _AGAIN, _STILL, _STILL_ROW = 12, 120, 30, 2e-5, 0.02
# Sweeps after which runs that are still leave the others.
_ROUND = 6
# Starts that are followed, and how many nats below the best one is given up, after a
# few sweeps and where it ends.
_FOLLOWED, _TOO_FAR, _FAR = 3, 100.0, 30.0
# Optima are one where that share of the rows is in the same clusters.
_AGREE = 0.97
# Nats below the best bound at which an optimum has no mass that matters.
_HOPELESS = 10.0


def explanations(target, init, seed, n_starts, first=None, budget=None):
    """Distinct optima, the best bound first, with labels aligned to it: a list of
    `Optimum`."""
    some = _sample(target, generator(seed, 0, SEARCH, 1))
    starts = [first] if first is not None else []
    n_starts = n_starts if target.model.n_components > 1 else 1
    while len(starts) < n_starts and not (starts and _cuts(budget)):
        i = len(starts)
        rng, chosen = generator(seed, 0, SEARCH, 0, i), init if i == 0 else INITS[i % 4]
        starts.append(start(some, chosen, rng, scaled=i > 0))
    found = _raced(some, starts, budget)
    every = target.prior
    for n_sweeps in (_LONG, _AGAIN):
        # At the usual degrees of freedom first, then at all that are possible.
        runs = np.tile(np.arange(every.n_runs), len(found))
        starts = [mode.natural for mode in found for _ in range(every.n_runs)]
        prior = every.take(runs)
        ends = _settled(target, prior, starts, n_sweeps, budget)
        found = _distinct(target, prior, ends, _FAR)
        if target.shared is None or every is target.shared or _cuts(budget):
            break
        every = target.all_priors
    best = found[0]
    return [best] + [
        mode._replace(natural=aligned(target, mode.natural, best.natural))
        for mode in found[1:]
        if best.bound - mode.bound < _HOPELESS
    ]


def _raced(target, starts, budget):
    """Optima that the best starts approach; the worse half gives up time after time."""
    while True:
        usual = target.prior.take([0] * len(starts))
        rest = target.rows, target.weight, _SHORT, budget
        ends, _ = sweeps(usual, starts, *rest)
        most = 1 if _cuts(budget) else max(len(starts) // 2, _FOLLOWED)
        found = _distinct(target, usual, ends, np.inf, most)
        if len(found) <= _FOLLOWED:
            near = found[0].bound - _TOO_FAR
            return [mode for mode in found if mode.bound > near]
        starts = [mode.natural for mode in found]


def _cuts(budget):
    return budget is not None and budget.cuts()


def _sample(target, rng):
    """The target of some of the rows, with the weight of all."""
    n = len(target.weight)
    if n <= _MOST_ROWS:
        return target
    some = np.sort(rng.choice(n, _MOST_ROWS, replace=False))
    weight = target.weight[some]
    weight = weight * (target.weight.sum() / weight.sum())
    return replace(target, rows=target.rows[some], weight=weight)


def _settled(target, prior, naturals, n_sweeps, budget):
    """Where runs end; those that are still leave the others."""
    ends, active = list(naturals), np.arange(len(naturals))
    still = _STILL_ROW + _STILL * target.weight.sum()
    for _ in range(n_sweeps // _ROUND):
        own = prior.take(active), [ends[i] for i in active]
        moved_to, moved = sweeps(*own, target.rows, target.weight, _ROUND, budget)
        for i, natural in zip(active, moved_to, strict=True):
            ends[i] = natural
        active = active[moved > still]
        if not active.size or _cuts(budget):
            break
    return ends


def _distinct(target, prior, ends, within, most=None):
    """Optima by falling bound, near the best; those with nearly the same clusters
    once."""
    modes = [
        coordinate_ascent(target, end, 1, 0.0, prior=prior.take([run]))
        for run, end in enumerate(ends)
    ]
    modes = sorted(modes, key=lambda mode: -mode.bound)
    best, found, labels = modes[0], [], []
    for mode in modes:
        if best.bound - mode.bound > within or len(found) == most:
            break
        natural = aligned(target, mode.natural, best.natural)
        own = target.model.responsibilities(natural, target.rows).argmax(axis=1)
        agree = [target.weight @ (own == other) for other in labels]
        if max(agree, default=0.0) <= _AGREE * target.weight.sum():
            found.append(mode)
            labels.append(own)
    return found
