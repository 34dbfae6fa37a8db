"""Overlap of square roots with the root of the target: Campbell and Li 2019.

Everything is measured against a *control*, the combination of roots so far: with
``f`` the root of the unnormalised target, scaled so that ``<f, control> = 1``,

    <f, h> = <control, h> + <f - control, h>,

where the first part is closed and only the second needs draws. It shrinks with the
residual, and so does its noise.
"""

from dataclasses import dataclass

import numpy as np

from skboost._solver import SMALLEST_TOL
from skboost.approximation import Roots
from skboost.families import Component
from skboost.objectives._base import Candidate, Objective, OneComponent
from skboost.objectives._joint import LOGIT_RANGE

# Half of the draws of every component are this much wider: ``f sqrt(s) / s`` has a
# heavy tail where the component is narrower than the target.
_WIDER = np.sqrt(2.0)
# Below this squared sine of the angle between two roots, rounding decides.
_SMALLEST_SINE = 1e-8


def defensive_draws(family, n, dim, rng):
    """Base draws of a rule for ``<f, sqrt(s)>``, half widened, of
    `log_defensive_density`."""
    near = family.matched_draws(n - n // 2, dim, rng)
    return np.concatenate([near, _WIDER * family.matched_draws(n // 2, dim, rng)])


def log_defensive_density(family, distance, dim):
    """``ln r - peak`` of `defensive_draws` by `distance`, ``peak - ln s``, and its
    slope."""
    faster = _WIDER**-family.tail_power
    near, far = -distance, -dim * np.log(_WIDER) - distance * faster
    total = np.logaddexp(near, far)
    share = np.exp(near - total)
    return total - np.log(2.0), -share - faster * (1.0 - share)


@dataclass(frozen=True)
class RootControl:
    """The combination of roots so far, and the scale on which it overlaps by one."""

    roots: object
    # ``ln <sqrt(p), roots>`` with p unnormalised, nats.
    log_overlap: float

    @property
    def components(self):
        """The components whose roots these are, which a search starts from."""
        return self.roots.components

    def residual(self, theta, log_joint):
        """``f - control`` at `theta`, shape (n,)."""
        return np.exp(0.5 * log_joint - self.log_overlap) - np.exp(
            self.roots.log_root(theta)
        )

    def residual_and_slope(self, target, theta):
        """``f - control`` (n,) and its gradient in theta (n, dim)."""
        log_joint, score = target.value_and_score(theta)
        f = np.exp(0.5 * log_joint - self.log_overlap)
        own_score, log_root = self.roots.score_and_log_root(theta)
        g = np.exp(log_root)
        return f - g, 0.5 * f[:, None] * score - g[:, None] * own_score


def root_overlap(component, eps, theta, residual, through):
    """``<f - control, sqrt(s)>`` on `defensive_draws`, and its gradient in s's
    parameters."""
    dim = theta.shape[1]
    weight, evaluation, slope = defensive_weights(component, theta)
    mass = weight * residual
    value, steady = lower_confidence_sum(mass, dim)
    mass = mass * steady
    through = (weight * steady)[:, None] * through
    d_entropy = component.entropy_gradient()
    gradient = 0.5 * mass.sum() * d_entropy
    if eps.shape[1] != dim:
        # Where draws have latent parts their distance depends on the parameters.
        pull = mass * (0.5 + slope)
        gradient = gradient + pull.sum() * d_entropy + evaluation.pull(pull)
        through = through + pull[:, None] * evaluation.score()
    return value, gradient + component.pull_draws(eps, through)


class RootGain(Objective):
    """Overlap of square roots (``"hellinger"``): Campbell and Li 2019.

    Examples
    --------
    >>> from skboost import BoostedBayesianPoissonRegression
    >>> from skboost.strategies import RootGain
    >>> model = BoostedBayesianPoissonRegression(objective=RootGain())
    """

    combination = "roots"
    uses_expectations = False
    # Squared overlaps are no nats: what is left is often below any `tol`.
    short_tolerance = SMALLEST_TOL

    def component_family(self, family):
        """The family with one rank for all roots; see `Objective`."""
        if not family.root_products:
            raise ValueError(
                "objective='hellinger' needs a family whose square roots have products "
                f"in closed form, which Gaussian ones have; got family={family!r}."
            )
        return family.with_rank()

    def tolerance(self, settings):
        """Gain of a quasi-Newton step below which a search ends."""
        return SMALLEST_TOL

    def base_draws(self, family, n, dim, rng):
        """Defensive draws; see `defensive_draws`."""
        return defensive_draws(family, n, dim, rng)

    def rank_starts(self, context, starts, base_draws, rng, settings):
        """The objective at every start; see `Objective.rank_starts`."""
        few = defensive_draws(starts[0].family, 128, context.target.dim, rng)
        problems = (self.problem(context, start, np.nan, few) for start in starts)
        with np.errstate(over="ignore", invalid="ignore"):
            values = [p.value_and_gradient(p.start)[0] for p in problems]
        values = np.where(np.isfinite(values), values, -np.inf)
        return values, np.full(len(starts), np.nan)

    def problem(self, context, component, weight, base_draws):
        """The problem that the solver sees, in which the weight is worked out."""
        return ResidualRoot(context.target, context.fixed, component, base_draws)

    def candidate(self, problem, x, value):
        """The component at the solver's last point."""
        return Candidate(problem.unpack(x), None)


class ResidualRoot(OneComponent):
    """What UBVI's next root maximises, as a function of how its density moves.

    ``(<f,h> - <f,g><g,h>) / sqrt(1 - <g,h>^2)``, g the control, whose overlap with f is
    one (Campbell and Li 2019, Algorithm 1, equation 3): the gain in overlap of the best
    weight.
    """

    def __init__(self, target, control, component, base_draws):
        super().__init__(target, component, base_draws)
        self.control = control

    def value_and_gradient(self, x):
        """The objective and its gradient in `x`."""
        moved = self.unpack(x)
        theta = moved.draws(self.base_draws)
        residual, d_residual = root_overlap(
            moved,
            self.base_draws,
            theta,
            *self.control.residual_and_slope(self.target, theta),
        )
        between, d_between = between_roots(moved.params[None], self.control.roots)
        cosine = between[0]
        sine2 = max(1.0 - cosine**2, _SMALLEST_SINE)
        value = residual / np.sqrt(sine2)
        gradient = d_residual / np.sqrt(sine2)
        if sine2 > _SMALLEST_SINE:
            gradient = gradient + value * cosine / sine2 * d_between[0]
        return float(value), self.component.pull_move(x, gradient)


def between_roots(params, roots):
    """``<roots, sqrt(s)>`` (K,) of components, and the gradient (K, n_params) of
    each."""
    n, m = len(params), roots.n_components
    first, second = np.repeat(params, m, axis=0), np.tile(roots.params, (n, 1))
    log_affinity, slope, _ = roots.family.log_affinity(first, second)
    terms = np.exp(log_affinity) * np.tile(roots.coefficients, n)
    gradient = (terms[:, None] * slope).reshape(n, m, -1).sum(axis=1)
    return terms.reshape(n, m).sum(axis=1), gradient


def lower_confidence_sum(terms, dim):
    """A sum less some standard errors, and its slope in every term."""
    total = terms.sum()
    spread = terms - total / len(terms)
    se = np.sqrt(np.sum(spread**2)) + 1e-300
    # Standard errors that are taken off every integral which is searched over: a value
    # that rests on a few draws is none. A wide component in eleven dimensions that puts
    # one of its draws on the mode would win without bound. In one or two dimensions
    # quasi-random draws err less than that.
    caution = min(0.5 + 0.5 * dim, 2.0)
    return float(total - caution * se), 1.0 - caution * spread / se


def defensive_weights(component, theta):
    """Weights that integrate ``f sqrt(s)``, the component's evaluation, and the
    density's slope."""
    evaluation = component.at(theta)
    peak = component.log_peak()
    distance = peak - evaluation.log_density
    log_r, slope = log_defensive_density(component.family, distance, component.dim)
    return np.exp(-0.5 * (peak + distance) - log_r) / len(theta), evaluation, slope


class JointRoots:
    """Overlap of a combination of roots, all of them moving: refinement.

    ``ln <f, sum_k lambda_k h_k> - ln |sum_k lambda_k h_k|`` in the moves of components
    and ln lambda, on `defensive_draws`.
    """

    def __init__(self, target, control, roots, base_draws):
        self.target, self.roots, self.control = target, roots, control
        self.base_draws = base_draws
        self._cuts = np.cumsum([len(p) for p in roots.params])
        self._logs = np.log(roots.coefficients)
        # All components where they are, and how far each coordinate may go.
        self.start = np.zeros(self._cuts[-1] + len(self._logs))
        limits = map(Component.limits, roots.each)
        self.limits = np.append(
            np.concatenate([*limits]), np.full(len(self._logs), LOGIT_RANGE)
        )

    def unpack(self, x):
        """All roots where they have moved to, in the combination that is meant."""
        *coordinates, logs = np.split(x, self._cuts)
        moved = map(Component.move, self.roots.each, coordinates)
        params = np.array([component.params for component in moved])
        return Roots.of(self.roots.family, params, np.exp(self._logs + logs))

    def value_and_gradient(self, x):
        """Log overlap and its gradient in `x`."""
        moved = self.unpack(x)
        coefficients = moved.coefficients
        d, d_params = self._overlaps(moved)
        total = coefficients @ d
        if not total > 0:
            return -np.inf, np.zeros_like(x)
        # The slope of the norm, which is one: what roots have in common with all.
        products, slopes = between_roots(moved.params, moved)
        d_params = coefficients[:, None] * (d_params / total - slopes)
        d_logs = coefficients * (d / total - products)
        *coordinates, _ = np.split(x, self._cuts)
        pulled = map(Component.pull_move, self.roots.each, coordinates, d_params)
        return float(np.log(total)), np.concatenate([*pulled, d_logs])

    def _overlaps(self, roots):
        """``<f, h_k>`` (K,) and the gradients in each component's parameters."""
        theta = [*map(Component.draws, roots.each, self.base_draws)]
        cuts = np.cumsum([len(t) for t in theta])[:-1]
        found = self.control.residual_and_slope(self.target, np.concatenate(theta))
        residual, through = (np.split(part, cuts) for part in found)
        d, d_params = between_roots(roots.params, self.control.roots)
        for k, eps in enumerate(self.base_draws):
            value, gradient = root_overlap(
                roots.each[k], eps, theta[k], residual[k], through[k]
            )
            d[k] += value
            d_params[k] += gradient
        return d, d_params
