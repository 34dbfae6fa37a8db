"""Components of a family, by search: where the density is, and at further modes.

With signs that a density can not be normalised: mixtures grow, or shrink, for ever.
Where the prior is a mixture itself, an update begins with a component for each of it.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

import numpy as np

from skboost._budget import BudgetSpent
from skboost._math import mean_and_se
from skboost._random import PROBE, SEARCH, generator
from skboost._settings import MAX_CANDIDATES
from skboost._solver import SMALLEST_TOL
from skboost.approximation import Mixture, kept_components, noise_at
from skboost.families import Component
from skboost.modes import (
    MAX_HESSIAN_DIM,
    Box,
    Modes,
    ModeSearch,
    climb_all,
    missed_modes,
    weighed,
)
from skboost.objectives import SingleELBO
from skboost.proposals._base import Proposer
from skboost.proposals._first import fitted_at, initial_mixture
from skboost.proposals._gaussian import (
    add_columns_to_candidate,
    natural_gaussian,
    widest,
)
from skboost.proposals._greedy import best_candidate
from skboost.targets import LogDensityError, coordinate_label, shown_point, what_came

# Nats that remain of a density whose values are noise, at least.
_HARDLY = 10.0
# A component this narrow, in units of one or of the widest, is climbed from.
_NARROW = 1e-4


def drift_to_infinity(target, mixture, starts, rng):
    """What to say of a mixture that grows without end; empty where it does not.

    At the optimum over components that move and scale, and under the posterior
    itself, ``E_q[((theta - c) . v) (v . score)] = -1`` for every direction v and centre
    c: the score of a density that can be normalised holds draws together. Zero is a
    flat direction, more is a density that rises outwards.
    """
    centre = starts.mean(axis=0)
    # Only a posterior larger than this, in units of one or of the starts, is looked at.
    usual = np.full(mixture.dim, 1e6 * max(1.0, np.abs(starts).max()))
    # Where the user's scale is an exponential away, it ends sooner.
    usual = np.minimum(usual, target.largest_coordinate)
    reach = np.hypot(mixture.mean() - centre, mixture.std())
    if not (reach > usual).any():
        return ""
    theta = mixture.sample(64, rng)
    value, score = target.value_and_score(theta)
    away, score = (theta - centre)[value > -np.inf], score[value > -np.inf]
    if len(away) < 2:
        return ""
    away, score = away / usual, score * usual
    # Along the axes, then along the principal directions of the draws.
    _, _, principal = np.linalg.svd(away / np.abs(away).max(), full_matrices=False)
    directions = (*np.eye(mixture.dim), *principal)
    loose = [v for v in directions if _loose(away, score, v)]
    if not loose:
        return ""
    i = int(np.abs(loose[0]).argmax())
    size = f"{usual[i] * np.abs(away @ loose[0]).max():.1g}"
    if target.proper:
        return (
            "Stopped: the prior is too weak for these rows. Coefficients have grown to "
            f"{size} along {coordinate_label(target, i)} of posterior_, and the "
            "likelihood does not hold them: where columns separate the responses, "
            "nothing but the prior bounds their coefficients. Give a smaller "
            'prior_scale and intercept_scale (the defaults, "auto" or 1 on '
            "standardised columns, are meant for this), or leave such columns out."
        )
    return (
        f"Stopped: the posterior seems to be improper. It has grown to {size} along "
        f"{coordinate_label(target, i)}, and the log density does not fall there. "
        "Check the sign of the log density, and give every parameter a proper prior or "
        "bounds; if the parameter is of that size, divide it by a unit that makes it "
        "near one."
    )


def collapse_to_pole(target, mixture, rng):
    """What to say of a component on a pole of the density; empty where there is none.

    Narrow components are legal, and so are poles that have little mass. At a pole
    climbs never end; it is too steep to be integrated where the mass within reach does
    not fall on the way up. In a hierarchical model it falls: the density is unbounded
    where a scale and all effects of that scale are zero together, but they are so in
    ever less volume.
    """
    scales = mixture.component_scales()
    narrow = (scales / np.maximum(1.0, scales.max(axis=0))).min(axis=1)
    k = int(narrow.argmin())
    if not narrow[k] < _NARROW:
        return ""
    draws = mixture.components[k].sample(8, rng)
    ends = climb_all(target, draws, scales[k])
    highest = int(ends.heights.argmax())
    if ends.settled[highest] or not np.isfinite(ends.heights[highest]):
        return ""
    if mixture.dim <= MAX_HESSIAN_DIM:
        points = draws[highest], ends.points[highest]
        before, after = (log_mass_near(target, x, scales[k]) for x in points)
        if after < before - 1.0:
            return ""
    return (
        "Stopped: the posterior seems to be improper. A component has shrunk onto "
        f"theta={shown_point(target, ends.points[highest][None])}, where the log "
        "density rises without end. Give every parameter a proper prior, and scales "
        "one that keeps them from zero."
    )


def log_mass_near(target, x, scale):
    """Log density at a point, and the log volume in which it is of that size, nats.

    The volume is that of Laplace's method without its constant. Directions in which
    the density changes over more than `scale` (dim,) count with that, so that only
    differences of what is returned mean anything.
    """
    step = np.diag(1e-3 * scale)
    value, score = target.value_and_score(np.concatenate([x[None], x + step, x - step]))
    score = scale * score[1:]
    curvature = (score[: x.size] - score[x.size :]) / 2e-3
    if not np.isfinite(curvature).all():
        return np.inf
    curvature = np.linalg.eigvalsh(0.5 * (curvature + curvature.T))
    return value[0] - 0.5 * np.log(np.maximum(np.abs(curvature), 1.0)).sum()


def on_noise(target, fresh):
    """What to say of draws where values contradict slopes; empty elsewhere."""
    # The heaviest.
    found = noise_at(target, fresh.underrated(4), fresh.mixture.heaviest)
    if found is None:
        return ""
    return (
        "Stopped: log_density is not smooth near "
        f"theta={shown_point(target, found.point[None])}. Along a way there on which "
        f"its gradient promises {found.promised:.2g} nats its values change by "
        f"{found.change:.2g}. Where large terms cancel, values are rounding noise: "
        "write differences of logarithms as such (of gammaln as sums of logarithms), "
        "or keep parameters within bounds by constraints=. Else check gradient=."
    )


def _loose(away, score, direction):
    """Whether draws reach far along a direction and nothing holds them together.

    All in units of what is usual.
    """
    along = away @ direction
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.abs(along).max() > 1.0:
            return False
        pull, se = mean_and_se(along * (score @ direction))
    return not np.isfinite(pull) or pull - 4.0 * se > -0.5


# Of the heaviest component's weight, below which one that was there is dropped.
_NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class FamilyProposer(Proposer):
    """Searches over a family, each component the best of its variants.

    They maximise the objective. The first are looked for from the starts, and from
    further ones drawn in the box. Starts (n_starts, dim) may `begin` as a function that
    finds them when they are asked for: fits in closed form have no use for them.
    """

    family: object
    objective: object
    begin: object
    box: Box | None = None

    @cached_property
    def starts(self):
        """Where searches begin, (n_starts, dim)."""
        return self.begin() if callable(self.begin) else self.begin

    def family_of(self, target):
        return self.family

    @property
    def kind(self):
        structure = "full" if self.family.full_covariance else "diagonal"
        structure = "low-rank" if self.family.low_rank else structure
        return f"{structure} {self.family.distribution or type(self.family).__name__}"

    seeks_gain = property(attrgetter("objective.seeks_gain"))

    def propose(self, target, context, settings):
        """The best component that starts of many kinds lead to."""
        family = self.family
        if family.rank_is_open:
            family = widest(family, context.mixture)
        found = best_candidate(context, self.objective, family, settings)
        if self.family.rank_is_open and family.low_rank:
            rng = generator(settings.seed, context.iteration, SEARCH, 1)
            found = add_columns_to_candidate(
                context, self.objective, found, settings, rng
            )
        return found.component

    def check_reached(self, target, fresh):
        if fresh.outside < 1.0:
            return
        what, why = what_came(target)
        raise LogDensityError(
            f"log_density {what} at all {len(fresh.theta)} draws of the first "
            "component, which was looked for from "
            f"x0={shown_point(target, self.starts)}.{why} Pass as x0 a point well "
            "inside the support, and parameters whose scale is near one; or "
            "constraints=."
        )


@dataclass(frozen=True)
class DensityProposer(FamilyProposer):
    """Searches near and far, and knows the modes that climbs lead to."""

    @property
    def _located(self):
        """The family of Laplace approximations at modes."""
        # Variants share their parameters' layout, and the last has the lightest tail.
        return self.family.variants()[-1].with_rank()

    def _mode_search(self, target, settings):
        where = self.starts, self.box
        return ModeSearch(target, self._located, *where, settings)

    def initial(self, target, settings):
        """Ordinary variational inference, at every mode that the starts lead to."""
        modes = Modes()
        with suppress(BudgetSpent):
            modes = self._mode_search(target, settings).from_starts()
        search = self._mode_search(target, settings)
        try:
            return initial_mixture(search, modes, self.family, settings), modes
        except BudgetSpent:
            # Not a single evaluation at the starts fitted in.
            params = self._located.from_moments(self.starts[0], np.ones(target.dim))
            return Mixture.single(Component(self._located, params)), modes

    def modes_not_searched(self, target):
        return target.dim > MAX_HESSIAN_DIM and not target.knows_curvature

    def find_modes(self, target, fresh, modes, settings, *key):
        """With components fitted at modes that the mixture seems to lack: what these
        gain is compared with the ELBO of the mixture."""
        modes = self._mode_search(target, settings).around(fresh, modes, *key)
        if not modes.components:
            return modes
        modes = weighed(target, modes, settings.seed)
        known = modes, fresh.mixture, fresh.elbo().value, settings.tol
        missed = missed_modes(*known, surely=False)
        known = dict(modes.weighed)
        new = [one.index for one in missed if not known[one.index].fitted]
        located = tuple(modes.components[k] for k in new)
        fits = fitted_at(target, self.family, located, settings)
        for k, fitted in zip(new, fits, strict=True):
            known[k] = known[k]._replace(fitted=fitted)
        return replace(modes, weighed=tuple(known.items()))

    def missed_modes(self, mixture, modes, log_evidence, settings):
        return missed_modes(modes, mixture, log_evidence, settings.tol)

    def with_missed(self, mixture, log_evidence, modes, settings):
        missed = self.missed_modes(mixture, modes, log_evidence, settings)
        fitted = [dict(modes.weighed)[one.index].fitted for one in missed]
        fitted = [fit for fit in fitted if fit]
        if not fitted:
            return mixture
        components, logs = zip(*fitted, strict=True)
        weights = np.append(mixture.weights, np.exp(np.array(logs) - log_evidence))
        most = np.max(logs) - log_evidence
        if most > 0.0:
            shares = np.exp(np.array(logs) - log_evidence - most)
            weights = np.append(mixture.weights * np.exp(-most), shares)
        # What has next to no mass would be moved in vain.
        weights[weights < _NEGLIGIBLE * weights.max()] = 0.0
        grown = Mixture((*mixture.components, *components), weights / weights.sum())
        return grown.keep(kept_components(grown.weights, settings.max_components))

    def located(self, modes):
        return modes.heaviest(MAX_CANDIDATES)

    def improper(self, target, state, settings, *key):
        mixture = state.mixture
        rng = generator(settings.seed, PROBE, *key, 1)
        drift = drift_to_infinity(target, mixture, self.starts, rng)
        found = drift or collapse_to_pole(target, mixture, rng)
        if found or not state.remaining.value > _HARDLY:
            return found
        return on_noise(target, state.fresh)


# Of the probability of all components, below which one is left out: rows of the update
# move scales little, and components cost by their number in every later step.
_LIGHTEST = 1e-2


@dataclass(frozen=True)
class UpdateProposer(DensityProposer):
    """Begins with a Gaussian for every component of the prior.

    The posterior under ``sum_k w_k p_k`` is ``sum_k w_k Z_k p(. | k)``: so many
    ordinary problems, and each one's ELBO stands for ``ln Z_k``.
    """

    @staticmethod
    def serves(target, family):
        """Whether each has a Gaussian that needs no draws, under a likelihood with one
        mode: others, such as those of noise, take longer by it and are no better."""
        full = family.exact_expectations and family.full_covariance
        return full and target.modes_known and target.prior_components is not None

    def way(self, target):
        """See `Proposer`."""
        return "a component for every one of the prior"

    def find_modes(self, target, fresh, modes, settings, *key):
        """None further where every one has its component from the beginning."""
        if target.modes_known:
            return modes
        return super().find_modes(target, fresh, modes, settings, *key)

    def initial(self, target, settings):
        """The mixture over components of the prior, by their evidence."""
        components, logs, start = [], [], None
        nats = max(settings.tol, SMALLEST_TOL)
        # The heaviest first, where limits leave no room for all.
        heaviest_first = sorted(target.prior_components, key=lambda part: -part[0])
        for weight, given in heaviest_first:
            if components and target.ledger.budget.cuts():
                break
            # Relative to the ELBO, which is known from the second one on.
            tol = nats / max(1.0, abs(logs[-1])) if logs else 1e-4
            parts = given.dim, target.ledger.budget, tol, start or given.first_guess
            moments = natural_gaussian(given.expected_curvature, *parts)
            params = self.family.from_moments(*moments)
            # The next one is near it more often than it is near its own prior.
            start = moments[0], np.linalg.cholesky(moments[1])
            components.append(Component(self.family, params))
            elbo = SingleELBO(given, components[-1], None, True).elbo(components[-1])
            logs.append(np.log(weight) + elbo)
        weights = np.exp(np.array(logs) - max(logs))
        weights[weights < _LIGHTEST * weights.sum()] = 0.0
        mixture = Mixture(tuple(components), weights / weights.sum())
        kept = kept_components(mixture.weights, settings.max_components)
        return mixture.keep(kept), Modes()
