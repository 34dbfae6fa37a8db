"""How far to go along a direction."""

import math
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from sklearn.base import BaseEstimator

from skboost._math import N_ERRORS
from skboost.frank_wolfe._directions import Direction, apply, frank_wolfe_direction


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
    """

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length; parameters as in `StepSize.choose`."""
        return Step(_predefined(direction, iteration), direction, memory, "predefined")


def _predefined(direction, iteration):
    """2 / (t + 2), cut at the largest step."""
    return min(2.0 / (iteration + 2.0), direction.gamma_max)


class Constant(StepSize):
    """The same gamma at every iteration, cut at the largest step.

    Parameters
    ----------
    value : float, default=0.1
        In (0, 1].
    """

    def __init__(self, value=0.1):
        self.value = value

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length; parameters as in `StepSize.choose`."""
        valid = _is_real(self.value) and 0 < self.value <= 1
        _require(valid, "value", "a number in (0, 1]", self.value)
        gamma = min(float(self.value), direction.gamma_max)
        return Step(gamma, direction, memory, "constant")


class LineSearch(StepSize):
    """The minimiser along the direction (Dresdner et al. 2021, section 6.1).

    The objective is convex, so the minimiser is the largest step where the
    derivative is still not positive there, and otherwise the derivative's root.
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
    derivative = objective.along(weights, end)
    if derivative(0.0) >= 0:
        return 0.0
    # A bounded minimiser never returns the end point: drop steps need this test.
    if derivative(1.0) <= 0:
        return 1.0
    return float(brentq(derivative, 0.0, 1.0, xtol=1e-14, rtol=1e-12))


class _Trial(NamedTuple):
    """A step that was tried, and how the objective changed, in nats."""

    gamma: float
    direction: Direction
    change: float
    branch: str
    curvature: float | None = None

    def step(self, memory):
        branch = self.branch if self.gamma > 0 else "zero"
        return Step(self.gamma, self.direction, memory, branch, self.curvature)


class AdaptiveBacktracking(StepSize):
    """Approximate backtracking on a local estimate of the curvature, safeguarded.

    Dresdner et al. 2021, Algorithm 2. The search begins with the curvature C of the
    iteration before times ``decrease``, tries gamma = gap / C, and multiplies C by
    ``increase`` until the change of the objective is at most that of the parabola,
    -gamma gap + C gamma^2 / 2 (equations 8 and 11). With ``safeguard=False`` it is that
    algorithm with its faults: where the mixture misses a component, the curvature of
    the KL divergence at gamma = 0 is infinite, the test passes only for steps that gain
    nothing, and the fallback may raise the objective. By default the rule never
    freezes there, and never raises the objective on the cached draws.

    Parameters
    ----------
    decrease : float, default=0.5
        Factor in (0, 1] on the remembered curvature before each search (1/eta of
        the paper).
    increase : float, default=2.0
        Factor above 1 on the curvature after each rejected trial (tau of the paper).
    max_increases : int, default=64
        Increases of the curvature before the search ends without a trial that
        passes; imax of the paper, which sets it to 10. Trials cost arithmetic on
        cached draws only.
    form : {"curvature", "lipschitz"}, default="curvature"
        Quadratic model C gamma^2 / 2 (equation 8), or C n gamma^2 / 2 with n the
        divergence of the moving component from the mixture (appendix C.1).
    slack : "noise" or float, default="noise"
        What the objective may exceed the model by, in nats: two standard errors of
        the difference on the common draws, or 2 slack / t^2 (equation 11).
    initial : float, default=1.0
        Curvature before the first search.
    safeguard : bool, default=True
        False is the published algorithm, for comparison.

    Notes
    -----
    This differs from the paper, always:

    - No step leaves [0, gamma_max]: the paper's first trial is cut at 1 and its
      fallback not at all, and weights would become negative.
    - The slack is by default the noise of the very difference that is tested. The
      paper's 2 slack / t^2 stands for it, at a scale that nobody knows; give ``slack``
      a number for it.
    - For the Lipschitz form the paper gives n for a step toward the new component
      only; here it is that of the worst component for an away step and 1 for a
      pairwise one.

    And this with the safeguard alone:

    - The lowest objective wins: of all trials, of the fallback 2 / (t + 2) along the
      direction and toward the new component, each cut at its largest step, and of no
      step. The test of sufficient decrease ends the search but need not choose: it
      asks for a parabola that touches the objective at gamma = 0, which is blind to
      what a longer step gains. The paper takes the fallback unseen.
    - A trial that raises the objective never passes, even within the slack: the search
      goes on to shorter steps.
    - The search starts from a curvature whose step is no shorter than the fallback:
      that of a component worth nearly nothing would leave no step to the next one.
    - The curvature remembered is that of the step taken, and after a fallback the one
      from before; the paper hands on what a failed search has raised.
    - It is never below the one whose step is gamma_max: smaller ones give the same
      step, and the memory would sink out of reach.
    - A gap that is not positive gives no step and leaves the memory as it was.
    - The search ends after ``max_increases`` increases, as the name says. The paper's
      loop ends when their number exceeds imax, one later.
    """

    def __init__(
        self,
        decrease=0.5,
        increase=2.0,
        max_increases=64,
        form="curvature",
        slack="noise",
        initial=1.0,
        safeguard=True,
    ):
        self.decrease = decrease
        self.increase = increase
        self.max_increases = max_increases
        self.form = form
        self.slack = slack
        self.initial = initial
        self.safeguard = safeguard

    @property
    def monotone(self):
        """Whether no step is expected to lose: the published fallback may."""
        return bool(self.safeguard)

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length; parameters as in `StepSize.choose`."""
        self._check()
        line = _Line(objective, weights, direction)
        choose = self._guarded if self.safeguard else self._published
        return choose(line, memory, iteration)

    def _published(self, line, memory, iteration):
        start = self._start(memory)
        trials, passed = self._search(line, start, self.max_increases + 1, iteration)
        taken = trials[-1] if passed else line.fallback(iteration)
        return taken.step(trials[-1].curvature)

    def _guarded(self, line, memory, iteration):
        direction = line.direction
        if direction.gap <= 0:
            return Step(0.0, direction, memory, "zero")
        steepness = direction.gap / line.size(self.form)
        start = self._start(memory)
        excess = start * _predefined(direction, iteration) / steepness
        if excess > 1:
            start /= self.increase ** math.ceil(math.log(excess, self.increase))
        trials, _ = self._search(line, start, self.max_increases, iteration)
        fallbacks = line.fallback(iteration), line.toward_new().fallback(iteration)
        best = min(trials[-1], *trials, *fallbacks, key=lambda trial: trial.change)
        if best.change >= 0:
            return Step(0.0, direction, memory, "zero")
        if best.curvature is None:
            return best.step(memory)
        kept = max(best.curvature, steepness / direction.gamma_max)
        return best._replace(curvature=kept).step(kept)

    def _start(self, memory):
        return self.decrease * (self.initial if memory is None else memory)

    def _search(self, line, curvature, n_increases, iteration):
        """Trials of rising curvature, and whether the last of them passes."""
        gap, size = line.direction.gap, line.size(self.form)
        trials = []
        for _ in range(n_increases + 1):
            step = max(gap, 0.0) / (curvature * size)
            gamma = min(step, line.direction.gamma_max)
            change, error = line.change(gamma)
            noise = N_ERRORS * error
            slack = noise if self.slack == "noise" else 2.0 * self.slack / iteration**2
            bound = -gamma * gap + 0.5 * curvature * size * gamma**2 + slack
            if self.safeguard:
                bound = min(bound, 0.0)
            trial = _Trial(gamma, line.direction, change, "adaptive", curvature)
            trials.append(trial)
            if change <= bound:
                return trials, True
            curvature *= self.increase
        return trials, False

    def _check(self):
        real = _is_real(self.decrease) and 0 < self.decrease <= 1
        _require(real, "decrease", "a number in (0, 1]", self.decrease)
        real = _is_real(self.increase) and self.increase > 1
        _require(real, "increase", "a number above 1", self.increase)
        whole = isinstance(self.max_increases, Integral) and self.max_increases >= 0
        _require(whole, "max_increases", "an integer >= 0", self.max_increases)
        known = self.form in ("curvature", "lipschitz")
        _require(known, "form", "'curvature' or 'lipschitz'", self.form)
        real = self.slack == "noise" or (_is_real(self.slack) and self.slack >= 0)
        _require(real, "slack", "'noise' or a number >= 0", self.slack)
        real = _is_real(self.initial) and self.initial > 0
        _require(real, "initial", "a positive number", self.initial)
        yes_or_no = isinstance(self.safeguard, (bool, np.bool_))
        _require(yes_or_no, "safeguard", "True or False", self.safeguard)


@dataclass(frozen=True, eq=False)
class _Line:
    """The objective along a direction, and what is known of its noise."""

    objective: object
    weights: np.ndarray
    direction: Direction

    def change(self, gamma):
        """Objective after a step minus that before, and its standard error, nats."""
        moved = self.weights + gamma * self.direction.d
        return self.objective.difference(moved, self.weights)

    def size(self, form):
        """What multiplies the curvature in the quadratic model."""
        direction = self.direction
        if form == "curvature" or direction.kind == "pairwise":
            return 1.0
        moving = direction.away if direction.kind == "away" else direction.toward
        # A component equal to the mixture has divergence 0; the ratio gap / size
        # then says nothing, and the largest step is tried first.
        return max(self.objective.divergence(moving, self.weights), 1e-12)

    def toward_new(self):
        """The line from the mixture to the new component."""
        slope, new = self.objective.slope(self.weights), self.direction.new
        return replace(self, direction=frank_wolfe_direction(slope, self.weights, new))

    def fallback(self, iteration):
        """The predefined step along this line."""
        gamma = _predefined(self.direction, iteration)
        return _Trial(gamma, self.direction, self.change(gamma)[0], "fallback")


def _is_real(value):
    return isinstance(value, Real) and not isinstance(value, bool)


def _require(condition, name, required, came):
    if not condition:
        raise ValueError(
            f"{name} must be {required}; got {came!r}. Change {name} of the step size."
        )
