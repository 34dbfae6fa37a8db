"""Components of a family of densities on R^dim, by search."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from skboost._budget import BudgetSpent
from skboost._math import mean_and_se
from skboost._random import PROBE, SEARCH, generator
from skboost._settings import MAX_CANDIDATES
from skboost.approximation import Mixture
from skboost.families import Component
from skboost.modes import (
    MAX_HESSIAN_DIM,
    Box,
    Modes,
    ModeSearch,
    climb_all,
    missed_modes,
)
from skboost.proposals._base import Proposer
from skboost.proposals._first import initial_mixture
from skboost.proposals._gaussian import add_columns_to_candidate, widest
from skboost.proposals._greedy import best_candidate
from skboost.targets import (
    LogDensityError,
    coordinate_label,
    shown_point,
    what_came,
)


@dataclass(frozen=True)
class DensityProposer(Proposer):
    """Searches over a family of densities, from starts near and far.

    Each component takes the best variant of the family and maximises the objective. The
    first are looked for from the starts, and from further ones drawn in the box.
    """

    family: object
    objective: object
    starts: np.ndarray
    box: Box | None = None

    def family_of(self, target):
        return self.family

    @property
    def located_family(self):
        """Of Laplace approximations at modes."""
        # Variants share their parameters' layout, and the last has the lightest tail.
        return self.family.variants()[-1].with_rank()

    def mode_search(self, target, settings):
        """Looks for modes, from the starts and around mixtures."""
        where = self.starts, self.box
        return ModeSearch(target, self.located_family, *where, settings)

    def modes_not_searched(self, target):
        return target.dim > MAX_HESSIAN_DIM and not target.knows_curvature

    @property
    def kind(self):
        structure = "full" if self.family.full_covariance else "diagonal"
        structure = "low-rank" if self.family.low_rank else structure
        return f"{structure} {self.family.constructor.__name__}"

    @property
    def correlated(self):
        return self.family.full_covariance

    @property
    def seeks_gain(self):
        return self.objective.seeks_gain

    def initial(self, target, settings):
        """Ordinary variational inference, at every mode that the starts lead to."""
        modes = Modes()
        with suppress(BudgetSpent):
            modes = self.mode_search(target, settings).from_starts()
        return self.at_modes(target, modes, settings), modes

    def at_modes(self, target, modes, settings):
        """Ordinary variational inference at known modes; else from the starts."""
        search = self.mode_search(target, settings)
        try:
            return initial_mixture(search, modes, self.family, settings)
        except BudgetSpent:
            # Not a single evaluation at the starts fitted in.
            family = self.located_family
            params = family.from_moments(self.starts[0], np.ones(target.dim))
            return Mixture.single(Component(family, params))

    def propose(self, target, context, settings):
        """The best component that starts of many kinds lead to."""
        family = self.family
        if family.rank_is_open:
            family = widest(family, context.mixture)
        found = best_candidate(context, self.objective, family, settings)
        if self.family.rank_is_open:
            rng = generator(settings.seed, context.iteration, SEARCH, 1)
            found = add_columns_to_candidate(
                context, self.objective, found, settings, rng
            )
        return found.component

    def find_modes(self, target, fresh, modes, settings, *key):
        return self.mode_search(target, settings).around(fresh, modes, *key)

    def n_moving(self, mixture):
        return len(mixture.components[0].params)

    def missed_modes(self, target, mixture, modes, log_evidence, settings, *key):
        search = self.mode_search(target, settings)
        return missed_modes(search, mixture, modes, log_evidence, *key)

    def located(self, modes):
        family = self.located_family
        return [Component(family, p) for p in modes.heaviest(MAX_CANDIDATES)]

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

    def improper(self, target, mixture, settings, *key):
        rng = generator(settings.seed, PROBE, *key, 1)
        drift = drift_to_infinity(target, mixture, self.starts, rng)
        return drift or collapse_to_pole(target, mixture, rng)


# --- signs that a density can not be normalised


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
    scales = np.array([family.scale(params) for family, params in mixture.components])
    narrow = (scales / np.maximum(1.0, scales.max(axis=0))).min(axis=1)
    k = int(narrow.argmin())
    if not narrow[k] < _NARROW:
        return ""
    family, params = mixture.components[k]
    draws = family.transport(params, family.base_draws(8, mixture.dim, rng))
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
