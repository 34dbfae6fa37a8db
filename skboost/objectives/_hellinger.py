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
from skboost.objectives._base import Candidate, Objective, OneComponent
from skboost.objectives._joint import LOGIT_RANGE

# Half of the draws of every component are this much wider: ``f sqrt(s) / s`` has a
# heavy tail where the component is narrower than the target.
_WIDER = np.sqrt(2.0)
# Below this squared sine of the angle between two roots, rounding decides.
_SMALLEST_SINE = 1e-8


def defensive_draws(family, n, dim, rng):
    """Base draws of a quadrature rule for ``<f, sqrt(s)>``, shape (n, base_dim).

    The second half is widened; `log_defensive_density` is the density of both.
    """
    near = family.matched_draws(n - n // 2, dim, rng)
    return np.concatenate([near, _WIDER * family.matched_draws(n // 2, dim, rng)])


def log_defensive_density(family, distance, dim):
    """``ln r - peak`` with r the density of `defensive_draws`, and its slope.

    Parameters
    ----------
    family : VariationalFamily
    distance : ndarray
        ``peak - ln s`` at the draws.
    dim : int
    """
    faster = _WIDER**-family.tail_power
    near, far = -distance, -dim * np.log(_WIDER) - distance * faster
    total = np.logaddexp(near, far)
    share = np.exp(near - total)
    return total - np.log(2.0), -share - faster * (1.0 - share)


@dataclass(frozen=True)
class RootControl:
    """The combination of roots so far, and the scale on which it overlaps by one.

    Parameters
    ----------
    roots : Roots
    log_overlap : float
        ``ln <sqrt(p), roots>`` with p unnormalised, nats.
    """

    roots: object
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


def root_overlap(family, params, eps, theta, residual, through):
    """``<f - control, sqrt(s)>`` on fixed base draws, and its gradient in `params`.

    Parameters
    ----------
    family : VariationalFamily
    params : ndarray of shape (n_params,)
        Of s.
    eps : ndarray of shape (n, base_dim)
        From `defensive_draws`.
    theta : ndarray of shape (n, dim)
        The same, transported.
    residual, through : ndarray of shape (n,) and (n, dim)
        ``f - control`` there, and its gradient in theta.
    """
    dim = theta.shape[1]
    weight, evaluation, slope = defensive_weights(family, params, theta)
    mass = weight * residual
    value, steady = lower_confidence_sum(mass, dim)
    mass = mass * steady
    through = (weight * steady)[:, None] * through
    d_entropy = family.entropy_gradient(params)
    gradient = 0.5 * mass.sum() * d_entropy
    if family.base_dim(dim) != dim:
        # Where draws have latent parts their distance depends on the parameters.
        pull = mass * (0.5 + slope)
        gradient = gradient + pull.sum() * d_entropy + evaluation.pull(pull)
        through = through + pull[:, None] * evaluation.score()
    return value, gradient + family.pull_transport(params, eps, through)


class RootGain(Objective):
    """Overlap of square roots (``"hellinger"``): Campbell and Li 2019."""

    combination = "roots"
    uses_expectations = False
    # Squared overlaps are no nats: what is left is often below any `tol`.
    short_tolerance = SMALLEST_TOL

    def component_family(self, family):
        """The family with one rank for all roots; see `Objective`."""
        if not family.root_products:
            raise ValueError(
                "objective='hellinger' needs a family whose square roots have products "
                f"in closed form: 'gaussian' or 'laplace'; got family={family!r}."
            )
        return family.with_rank()

    def tolerance(self, settings):
        """Gain of a quasi-Newton step below which a search ends."""
        return SMALLEST_TOL

    def base_draws(self, family, n, dim, rng):
        """Defensive draws; see `defensive_draws`."""
        return defensive_draws(family, n, dim, rng)

    def rank_starts(self, context, family, starts, base_draws, rng, settings):
        """The objective at every start; see `Objective.rank_starts`."""
        few = defensive_draws(family, 128, context.target.dim, rng)
        problems = (self.problem(context, (family, p), np.nan, few) for p in starts)
        with np.errstate(over="ignore", invalid="ignore"):
            values = [p.value_and_gradient(p.start)[0] for p in problems]
        values = np.where(np.isfinite(values), values, -np.inf)
        return values, np.full(len(starts), np.nan)

    def problem(self, context, component, weight, base_draws):
        """The problem that the solver sees, in which the weight is worked out."""
        return ResidualRoot(context.target, context.fixed, *component, base_draws)

    def candidate(self, problem, x, value):
        """The component at the solver's last point."""
        return Candidate(problem.family, problem.unpack(x), np.nan)


class ResidualRoot(OneComponent):
    """What UBVI's next root maximises, as a function of how its density moves.

    ``(<f,h> - <f,g><g,h>) / sqrt(1 - <g,h>^2)`` with g the control, whose overlap
    with f is one. Its square is what the best combination of g and h gains in squared
    overlap: it is the joint problem with the weight worked out.

    Parameters
    ----------
    target : Target
    control : RootControl
    family : VariationalFamily
    base_draws : ndarray of shape (n, base_dim)
        From `defensive_draws`.
    params : ndarray of shape (n_params,)
        Where the search starts.

    References
    ----------
    Campbell and Li 2019, Algorithm 1, equation 3.
    """

    def __init__(self, target, control, family, params, base_draws):
        super().__init__(target, family, params, base_draws)
        self.control = control

    def value_and_gradient(self, x):
        """The objective and its gradient in `x`."""
        params = self.unpack(x)
        theta = self.family.transport(params, self.base_draws)
        found = self.control.residual_and_slope(self.target, theta)
        residual, d_residual = root_overlap(
            self.family, params, self.base_draws, theta, *found
        )
        between, d_between = between_roots(
            self.family, params[None], self.control.roots
        )
        cosine = between[0]
        sine2 = max(1.0 - cosine**2, _SMALLEST_SINE)
        value = residual / np.sqrt(sine2)
        gradient = d_residual / np.sqrt(sine2)
        if sine2 > _SMALLEST_SINE:
            gradient = gradient + value * cosine / sine2 * d_between[0]
        return float(value), self.family.pull_move(self.params, x, gradient)


def between_roots(family, params, roots):
    """``<roots, sqrt(s)>`` for components `params` (K, n_params).

    Returns
    -------
    value : ndarray of shape (K,)
    gradient : ndarray of shape (K, n_params)
        Of each value in the parameters of its component.
    """
    n, m = len(params), roots.n_components
    first, second = np.repeat(params, m, axis=0), np.tile(roots.params, (n, 1))
    log_affinity, slope, _ = family.log_affinity(first, second)
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
    of_low_dim = {1: 1.0, 2: 1.5}
    most_caution = 2.0
    caution = of_low_dim.get(dim, most_caution)
    return float(total - caution * se), 1.0 - caution * spread / se


def defensive_weights(family, params, theta):
    """Weights of transported `defensive_draws` that integrate ``f sqrt(s)``.

    Returns
    -------
    weight : ndarray of shape (n,)
    evaluation : Evaluation
        Of the component at the draws.
    slope : ndarray of shape (n,)
        Of ``ln r`` in the distance from the peak; see `log_defensive_density`.
    """
    evaluation = family.at(params, theta)
    peak = family.log_peak(params)
    distance = peak - evaluation.log_density
    log_r, slope = log_defensive_density(family, distance, theta.shape[1])
    return np.exp(-0.5 * (peak + distance) - log_r) / len(theta), evaluation, slope


class JointRoots:
    """Overlap of a combination of roots, all of them moving: refinement.

    ``ln <f, sum_k lambda_k h_k> - ln |sum_k lambda_k h_k|`` as a function of the
    moves of all components and the logarithms of the lambda.

    Parameters
    ----------
    target : Target
    control : RootControl
    roots : Roots
        Where the search starts; all coefficients positive.
    base_draws : list of ndarray
        From `defensive_draws`, for every component.
    """

    def __init__(self, target, control, roots, base_draws):
        self.target, self.roots = target, roots
        self.control = control
        self.base_draws = base_draws
        self._cuts = np.cumsum([len(p) for p in roots.params])
        self._logs = np.log(roots.coefficients)

    @property
    def start(self):
        """The starting point, all components where they are."""
        return np.zeros(self._cuts[-1] + len(self.roots.params))

    @property
    def limits(self):
        """Largest absolute value of every coordinate."""
        limits = [self.roots.family.limits(p) for p in self.roots.params]
        return np.concatenate([*limits, np.full(len(limits), LOGIT_RANGE)])

    def unpack(self, x):
        """All roots where they have moved to, in the combination that is meant."""
        *coordinates, logs = np.split(x, self._cuts)
        starts, family = self.roots.params, self.roots.family
        params = [family.move(p, z) for p, z in zip(starts, coordinates, strict=True)]
        return Roots.of(family, np.array(params), np.exp(self._logs + logs))

    def value_and_gradient(self, x):
        """Log overlap and its gradient in `x`."""
        moved = self.unpack(x)
        family, coefficients = moved.family, moved.coefficients
        d, d_params = self._overlaps(moved.params)
        total = coefficients @ d
        if not total > 0:
            return -np.inf, np.zeros_like(x)
        # The slope of the norm, which is one: what roots have in common with all.
        products, slopes = between_roots(family, moved.params, moved)
        d_params = coefficients[:, None] * (d_params / total - slopes)
        d_logs = coefficients * (d / total - products)
        *coordinates, _ = np.split(x, self._cuts)
        pulled = [
            family.pull_move(start, z, g)
            for start, z, g in zip(
                self.roots.params, coordinates, d_params, strict=True
            )
        ]
        return float(np.log(total)), np.concatenate([*pulled, d_logs])

    def _overlaps(self, params):
        """``<f, h_k>`` (K,) and the gradients in each component's parameters."""
        family = self.roots.family
        theta = [
            family.transport(p, eps)
            for p, eps in zip(params, self.base_draws, strict=True)
        ]
        cuts = np.cumsum([len(t) for t in theta])[:-1]
        found = self.control.residual_and_slope(self.target, np.concatenate(theta))
        residual, through = (np.split(part, cuts) for part in found)
        d, d_params = between_roots(family, params, self.control.roots)
        for k, eps in enumerate(self.base_draws):
            value, gradient = root_overlap(
                family, params[k], eps, theta[k], residual[k], through[k]
            )
            d[k] += value
            d_params[k] += gradient
        return d, d_params
