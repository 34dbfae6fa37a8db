"""What a round of boosting on surrogates knows of a target, and how it learns more.

A judgement comes from importance weights of all that was drawn. The ELBO of a mixture
comes from draws that nothing was fitted to. The evidence does not depend on the
mixture, so that every draw since the run began counts: with r the mixture of all
densities that were drawn from, by their numbers of draws, and any constant c,

    Z = c + E_r[(p - c q) / r],

whose noise is that of the differences between p and q; and wide densities among those
in r see mass that q does not reach.
"""

from typing import NamedTuple

import numpy as np

from skboost._math import N_ERRORS, log_sum_exp, mean_and_se
from skboost._random import FRESH, SEARCH, generator
from skboost.approximation import FreshDraws, Mixture, RemainingKL, psis
from skboost.modes import Evaluations, laplace
from skboost.proposals import usable_starts
from skboost.targets import LogDensityError

# Widths of wider draws that the first surrogate also knows, in units of the first
# Gaussian.
_WIDTHS = 1.5, 2.5
# Coordinates beyond which there are no more draws, of those that judge or wider ones.
_COUNTED = 6
# The smallest number of draws that are worth a judgement.
FEWEST = 32
# Modes that are looked for, and nats by which a density is above what a mixture
# explains where a climb looks for one more.
_MAX_MODES, _LEAST_SURPRISE = 4, 3.0
# Standard deviations of either between Gaussians near different modes.
_APART = 3.0


class Round(NamedTuple):
    """What a round leaves: a mixture, and all that is known of the target.

    Evaluations were made on the way to the mode, and at draws, of `pairs` of a mixture
    and how often it was drawn from. `modes` are Gaussians near the modes that are
    known.
    """

    components: Mixture
    searched: Evaluations
    drawn: Evaluations
    pairs: tuple
    modes: Mixture

    @property
    def scored(self):
        """Whether the target gives gradients."""
        return bool(np.isfinite(self.searched.scores).any())

    @property
    def evaluations(self):
        """All of them."""
        return self.searched.and_more(self.drawn)

    def with_search(self, evaluations):
        """The same with further points of a search."""
        return self._replace(searched=self.searched.and_more(evaluations))

    def with_draws(self, evaluations, pairs):
        """The same with further draws."""
        return self._replace(
            drawn=self.drawn.and_more(evaluations), pairs=(*self.pairs, *pairs)
        )


def n_judging(target):
    """Fresh draws that judge a round: so many, and for every coordinate."""
    return 60 + 25 * min(target.dim, _COUNTED)


def _n_left(target):
    """Evaluations that the limits leave; none once the seconds are spent."""
    budget = target.ledger.budget
    return 0 if budget.cuts() else budget.n_left


def n_to_spare(target):
    """Those that are left beside a judgement."""
    return _n_left(target) - n_judging(target)


def first_round(target, starts):
    """A Gaussian near the mode that the best start leads to, and no draws yet."""
    values = target.log_density(starts)
    if not np.isfinite(values).any():
        # Says why.
        usable_starts(target, starts)
    start = starts[int(values.argmax())]
    scored = has_gradient(target, start)
    near = laplace(target, start, scored, target.unit)
    mixture, none = Mixture.single(near.component), np.empty((0, target.dim))
    drawn = Evaluations(none, np.empty(0), none)
    return Round(mixture, near.evaluations, drawn, (), mixture)


def has_gradient(target, point):
    """Whether a target that is positive at a point gives its gradient there."""
    try:
        value, score = target.value_and_score(point[None], strict=True)
    except LogDensityError:
        return False
    return bool(np.isfinite(value).all() and np.isfinite(score).all())


def with_wide_draws(target, known, seed):
    """With draws of wider copies, where a judgement can be paid for after them."""
    # So many, and for every coordinate.
    wanted = 32 + 16 * min(target.dim, _COUNTED)
    each = int(np.clip(n_to_spare(target), 0, wanted)) // len(_WIDTHS)
    if not each:
        return known
    rng = generator(seed, SEARCH, 0)
    pairs = [(known.modes.widen(width), each) for width in _WIDTHS]
    points = np.concatenate([wide.sample(n, rng) for wide, n in pairs])
    found = Evaluations.at(target, points, known.scored and target.scores_draws)
    return known.with_draws(found, pairs)


def with_other_modes(target, known, seed):
    """With Gaussians at modes that draws hint at, and draws of these.

    Where the density is far above what is explained, the highest point is climbed from.
    """
    rng, n = generator(seed, SEARCH, 1), n_judging(target) // 2
    while known.modes.n_components < _MAX_MODES and n_to_spare(target) > 0:
        evaluations = known.evaluations
        excess = evaluations.values - known.modes.log_density(evaluations.points)
        # At the highest point by definition, as by Laplace's method.
        log_evidence = excess[evaluations.values.argmax()]
        at_draws = excess[len(known.searched.values) :]
        surprise = at_draws - log_evidence > _LEAST_SURPRISE
        if not surprise.any():
            break
        values = np.where(surprise, known.drawn.values, -np.inf)
        start = known.drawn.points[values.argmax()]
        try:
            near = laplace(target, start, known.scored, known.modes.std())
        except LogDensityError:
            # A hint that leads nowhere: what is known stays.
            break
        known = known.with_search(near.evaluations)
        # A climb that a limit cut short has led to no mode.
        if target.ledger.budget.cuts() or not _is_new(near, known.modes):
            break
        modes = _with_mode(known.modes, near, log_evidence)
        wide = Mixture(modes.components[-1:], np.ones(1)).widen(_WIDTHS[0])
        drawn = Evaluations.at(target, wide.sample(n, rng), known.scored)
        known = known._replace(modes=modes).with_draws(drawn, [(wide, n)])
    return known


def _is_new(near, modes):
    """Whether a Gaussian is far from all others, in units of either."""
    by_others = [each.distance(near.mean[None]) for each in modes.components]
    by_itself = near.component.distance(modes.component_means())
    return min(np.min(by_others), by_itself.min()) > _APART


def _with_mode(modes, near, log_evidence):
    """One more Gaussian, weighted by its mass beside that of the others."""
    component = near.component
    height = near.evaluations.values.max() - component.log_peak()
    mass = np.exp(min(height - log_evidence, 300.0))
    weights = np.append(modes.weights, mass) / (1.0 + mass)
    return Mixture((*modes.components, component), weights)


def judge_round(target, mixture, known, t, seed):
    """Draws that nothing was fitted to, and what is known with them."""
    n = int(np.clip(_n_left(target), FEWEST, n_judging(target)))
    rng = generator(seed, FRESH, t)
    scored = known.scored and target.scores_draws
    fresh, *more = judged_draws(target, mixture, n, scored, rng)
    return fresh, known.with_draws(*more)


def log_proposal(pairs, theta):
    """Log density of a draw of any of some mixtures, nats."""
    mixtures, counts = zip(*pairs, strict=True)
    table = np.column_stack([mixture.log_density(theta) for mixture in mixtures])
    return log_sum_exp(table, np.log(np.array(counts) / sum(counts)))


def judged_draws(target, mixture, n, scored, rng):
    """Draws of a mixture and of a wider copy, weighted as draws of the mixture.

    Returns them, their `Evaluations`, and pairs of a mixture and how many are its own.
    """
    # Share of the draws of a judgement that come from a wider copy, and its width.
    wide_share, width = 0.25, 2.0
    wide = mixture.widen(width)
    n_wide = max(int(wide_share * n), 1)
    parts = [mixture.sample(n - n_wide, rng), wide.sample(n_wide, rng)]
    found = Evaluations.at(target, np.concatenate(parts), scored, strict=True)
    pairs = [(mixture, n - n_wide), (wide, n_wide)]
    log_r = log_proposal(pairs, found.points)
    weights = np.exp(mixture.log_density(found.points) - log_r)
    source = np.zeros(n, dtype=int)
    fresh = FreshDraws(
        mixture, found.points, weights / weights.sum(), source, found.values, None
    )
    return fresh, found, pairs


def remaining_of(fresh, drawn, pairs):
    """What is left between the ELBO of a mixture and the evidence."""
    if fresh.outside == 1.0:
        return RemainingKL(np.nan, np.nan, np.inf, np.inf, 1.0)
    log_r = log_proposal(pairs, drawn.points)
    log_w = drawn.values - log_r
    top = log_w.max()
    ratio = np.exp(fresh.mixture.log_density(drawn.points) - log_r)
    weight = np.exp(log_w - top)
    constant = weight.mean() / ratio.mean()
    excess, se = mean_and_se(weight - constant * ratio)
    # Never less than half of what the weights say alone.
    z = max(constant + excess, 0.5 * weight.mean())
    elbo = fresh.elbo()
    inside = np.isfinite(fresh.log_joint)
    shares = fresh.row_weights[inside] / fresh.row_weights[inside].sum()
    off = fresh.log_ratio[inside]
    half, se_half = mean_and_se(0.5 * (off - shares @ off) ** 2, shares)
    return RemainingKL(
        float(top + np.log(z) - elbo.value),
        float(np.hypot(se / z, elbo.se)),
        psis(log_w).khat,
        half + N_ERRORS * se_half,
        fresh.outside,
    )
