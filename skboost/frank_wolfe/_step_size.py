"""Moves inside the simplex: directions, and how far to go along one."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy.optimize import brentq
from sklearn.base import BaseEstimator

from skboost.frank_wolfe._objective import NodeObjective


@dataclass(frozen=True, eq=False)
class Direction:
    """A move ``weights + gamma * d`` inside the simplex, 0 <= gamma <= gamma_max.

    `gap` is ``-slope . d``, nats per unit of gamma; `toward` and `away` gain and lose
    weight, or are None; `new` is the component just appended.
    """

    d: np.ndarray
    gap: float
    gamma_max: float
    kind: str
    toward: int | None
    away: int | None
    new: int


def frank_wolfe_direction(slope, weights, new):
    """From the mixture to the new component (Locatello et al. 2018, Algorithm 1)."""
    d = -np.asarray(weights, dtype=float)
    d[new] += 1.0
    return Direction(d, -float(slope @ d), 1.0, "frank-wolfe", new, None, new)


def away_direction(slope, weights, new):
    """Toward the new component or away from the worst one, whichever promises more.

    Dresdner et al. 2021, appendix A, with the sign of their equation 15 put right: the
    worst component is the one with the largest slope, dropped at the largest step.
    """
    toward = frank_wolfe_direction(slope, weights, new)
    worst = _worst_component(slope, weights)
    d = np.array(weights, dtype=float)
    d[worst] -= 1.0
    gap = -float(slope @ d)
    if toward.gap >= gap or np.count_nonzero(weights) < 2:
        return toward
    gamma_max = float(weights[worst] / (1.0 - weights[worst]))
    return Direction(d, gap, gamma_max, "away", None, worst, new)


def pairwise_direction(slope, weights, new):
    """From the worst component to the new one (Dresdner et al. 2021, appendix A)."""
    d = np.zeros(len(weights))
    d[new] = 1.0
    others = np.where(d > 0, 0.0, weights)
    if not others.any():
        return frank_wolfe_direction(slope, weights, new)
    worst = _worst_component(slope, others)
    d[worst] = -1.0
    gap = float(slope[worst] - slope[new])
    return Direction(d, gap, float(weights[worst]), "pairwise", new, worst, new)


def _worst_component(slope, weights):
    """Index of the component in use with the largest slope."""
    return int(np.argmax(np.where(np.asarray(weights) > 0, slope, -np.inf)))


def apply(weights, direction, gamma):
    """Weights after a step, with an exact zero for a component that was dropped."""
    if not 0 <= gamma <= direction.gamma_max:
        raise ValueError(
            f"gamma must be in [0, gamma_max] = [0, {direction.gamma_max}] for this "
            f"{direction.kind} step; got {gamma}. Clip it to gamma_max."
        )
    whole = gamma == direction.gamma_max
    # Rounding would leave 1e-17 where a whole step means nothing.
    if whole and direction.kind == "frank-wolfe":
        moved = np.zeros(len(weights))
        moved[direction.toward] = 1.0
        return moved
    moved = np.maximum(weights + gamma * direction.d, 0.0)
    if whole:
        moved[direction.away] = 0.0
    return moved / moved.sum()


@dataclass(frozen=True, eq=False)
class Step:
    """The step that a rule chose.

    Attributes
    ----------
    gamma : float
        Step length along ``direction``; 0 means that nothing is gained.
    direction : Direction
        The direction to apply: the one that was asked about, except that a
        fallback may lead from the mixture to the new component instead.
    memory : float or None
        What the rule wants back at the next iteration.
    branch : str
        "predefined", "line-search", "constant", "adaptive", "fallback" or "zero".
    curvature : float or None
        Curvature whose step the adaptive rule took; None after a fallback.
    """

    gamma: float
    direction: Direction
    memory: float | None
    branch: str
    curvature: float | None = None


class StepSize(BaseEstimator):
    """Base class of step-size rules: a pure function of named inputs.

    A rule of your own is a subclass with `choose`; its parameters are arguments of
    ``__init__`` that are stored under the same names, as in scikit-learn, so that
    ``step_size__name`` can be searched.

    Attributes
    ----------
    monotone : bool
        Whether the rule never takes a step that it expects to lose by. Where it is
        False a run keeps the best mixture that it met.

    Examples
    --------
    Half of the way to the minimiser, by bisection of the slope along the direction:

    >>> from skboost import boost_posterior
    >>> from skboost.strategies import Step, StepSize
    >>> class Careful(StepSize):
    ...     def __init__(self, share=0.5):
    ...         self.share = share
    ...     def choose(self, objective, weights, direction, memory=None, iteration=1):
    ...         low, high = 0.0, direction.gamma_max
    ...         for _ in range(30):
    ...             middle = 0.5 * (low + high)
    ...             slope = objective.slope(weights + middle * direction.d)
    ...             falls = slope @ direction.d < 0
    ...             low, high = (middle, high) if falls else (low, middle)
    ...         return Step(self.share * low, direction, memory, "careful")
    >>> import autograd.numpy as np
    >>> def log_density(theta):
    ...     return np.logaddexp(-2 * (theta[:, 0] + 2) ** 2, -((theta[:, 0] - 2) ** 2))
    >>> result = boost_posterior(
    ...     log_density, 1, step_size=Careful(0.9), corrective="none", tol=0.0,
    ...     max_iter=2, random_state=0,
    ... )
    >>> result.history[1]["branch"]
    'careful'
    """

    monotone = False

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length along a direction.

        Parameters
        ----------
        objective : WeightObjective
            The divergence from the target as a convex function of the weights, in nats
            up to a constant, estimated on draws that are held fixed. Arrays of weights
            have shape (n_components,). It has ``value(weights)``, a float;
            ``slope(weights)``, its gradient of shape (n_components,);
            ``hessian(weights)`` of shape (n_components, n_components);
            ``difference(new, old)``, the change in value with its standard error; and
            ``divergence(i, weights)``, the divergence of component i from the mixture.
        weights : ndarray of shape (n_components,)
            Current point of the simplex. The component just appended is the last, of
            weight 0.
        direction : Direction
            The move ``weights + gamma * direction.d``: ``d`` of shape (n_components,)
            sums to zero; ``gap`` is the decrease per unit of gamma at gamma = 0, in
            nats; ``gamma_max`` the largest step that stays in the simplex; ``kind``
            "frank-wolfe", "away" or "pairwise"; ``toward`` and ``away`` the components
            that gain and lose weight, None where there is none; ``new`` the component
            just appended. It must not be changed.
        memory : float or None, default=None
            ``Step.memory`` of the previous iteration.
        iteration : int, default=1
            t, counted from 1: the first boosting step is step 1, and the first
            component is what stood before it.

        Returns
        -------
        step : Step
            ``Step(gamma, direction, memory, branch)`` with gamma in
            ``[0, direction.gamma_max]`` and `branch` a word for ``history``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define choose(objective, weights, "
            "direction, memory, iteration) and return a Step."
        )


class Predefined(StepSize):
    """gamma = 2 / (t + 2), cut at the largest step (Dresdner et al. 2021, eq. 5).

    t counts from 1. From 0, as the paper has it, the first step would be 1 and throw
    the first component away.

    Examples
    --------
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.strategies import Predefined
    >>> model = BoostedBayesianLogisticRegression(step_size=Predefined(), tol=0)
    """

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length; parameters as in `StepSize.choose`."""
        return Step(predefined(direction, iteration), direction, memory, "predefined")


def predefined(direction, iteration):
    """2 / (t + 2), cut at the largest step."""
    return min(2.0 / (iteration + 2.0), direction.gamma_max)


class Constant(StepSize):
    """The same gamma at every iteration, cut at the largest step.

    Parameters
    ----------
    value : float, default=0.1
        In (0, 1].

    Examples
    --------
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.strategies import Constant
    >>> model = BoostedBayesianLogisticRegression(step_size=Constant(0.3), tol=0)
    """

    def __init__(self, value=0.1):
        self.value = value

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length; parameters as in `StepSize.choose`."""
        valid = is_real(self.value) and 0 < self.value <= 1
        require(valid, "value", "a number in (0, 1]", self.value)
        gamma = min(float(self.value), direction.gamma_max)
        return Step(gamma, direction, memory, "constant")


class LineSearch(StepSize):
    """The minimiser along the direction (Dresdner et al. 2021, section 6.1).

    The objective is convex, so the minimiser is the largest step where the
    derivative is still not positive there, and otherwise the derivative's root.

    Examples
    --------
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.strategies import LineSearch
    >>> model = BoostedBayesianLogisticRegression(step_size=LineSearch())
    """

    monotone = True

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length; parameters as in `StepSize.choose`."""
        end = apply(weights, direction, direction.gamma_max)
        gamma = exact_step(objective, weights, end) * direction.gamma_max
        branch = "line-search" if gamma > 0 else "zero"
        return Step(gamma, direction, memory, branch)


def exact_step(objective, weights, end):
    """Minimiser t in [0, 1] of a convex objective at (1 - t) weights + t end."""
    # A far component may be worth a weight of 1e-100: that gains nothing but rounding.
    least = 1e-14
    if isinstance(objective, NodeObjective):
        known = objective.best_step(weights, end)
        if known is not None:
            return known if known > least else 0.0
    derivative = objective.along(weights, end)
    if derivative(least) >= 0:
        return 0.0
    # A bounded minimiser never returns the end point: drop steps need this test.
    if derivative(1.0) <= 0:
        return 1.0
    return float(brentq(derivative, least, 1.0, xtol=1e-14, rtol=1e-12))


class StochasticLineSearch(StepSize):
    """Projected stochastic gradient steps along the direction, for comparison.

    The line search of Dresdner et al. 2021 as their code has it: from the predefined
    step, each on a few draws, with steps ``rate / (i + 1)``. It ends where it reaches 0
    or the largest step, which the paper does not mention. `LineSearch` is exact on all
    cached draws, and takes less time.

    Parameters
    ----------
    n_steps, rate : int, default=25, and float, default=0.1
        Gradient steps at most, and the rate of the first.
    n_draws, seed : int, default=100, and int, default=0
        Draws per gradient, of those that are cached, and the seed of their choice.

    Examples
    --------
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.strategies import StochasticLineSearch
    >>> model = BoostedBayesianLogisticRegression(step_size=StochasticLineSearch())
    """

    def __init__(self, n_steps=25, rate=0.1, n_draws=100, seed=0):
        self.n_steps = n_steps
        self.rate = rate
        self.n_draws = n_draws
        self.seed = seed

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length; parameters as in `StepSize.choose`."""
        for name in ("n_steps", "n_draws"):
            value = getattr(self, name)
            valid = isinstance(value, Integral) and value > 0
            require(valid, name, "a whole number above 0", value)
        require(is_real(self.rate) and self.rate > 0, "rate", "above 0", self.rate)
        rng = np.random.default_rng((self.seed, iteration))
        gamma = predefined(direction, iteration)
        for i in range(self.n_steps):
            draws = rng.integers(len(objective.ratio), size=self.n_draws)
            slope = objective.at(draws).slope(weights + gamma * direction.d)
            step = self.rate / (i + 1.0) * (slope @ direction.d)
            gamma = float(np.clip(gamma - step, 0.0, direction.gamma_max))
            if gamma in (0.0, direction.gamma_max):
                break
        branch = "stochastic" if gamma > 0 else "zero"
        return Step(gamma, direction, memory, branch)


def is_real(value):
    return isinstance(value, Real) and not isinstance(value, bool)


def require(condition, name, required, came):
    if not condition:
        raise ValueError(
            f"{name} must be {required}; got {came!r}. Change {name} of the step size."
        )
