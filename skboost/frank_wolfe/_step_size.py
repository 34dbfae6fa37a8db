"""How far to go along a direction."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy.optimize import brentq
from sklearn.base import BaseEstimator

from skboost.frank_wolfe._directions import Direction, apply
from skboost.frank_wolfe._objective import NodeObjective


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
