"""How far to go along a direction."""

from dataclasses import dataclass
from numbers import Integral, Real

from scipy.optimize import brentq
from sklearn.base import BaseEstimator

from skboost.frank_wolfe._directions import Direction, apply, frank_wolfe_direction
from skboost.frank_wolfe._objective import slope_between

# Two standard errors, the allowance for noise used everywhere in the package.
N_ERRORS = 2.0


@dataclass(frozen=True, eq=False)
class Step:
    """The step that a rule chose.

    Attributes
    ----------
    gamma : float
        Step length along ``direction``; 0 means that nothing is gained.
    direction : Direction
        The direction to apply: the one that was asked about, except on the
        fallback branch, where it leads from the mixture to the new component.
    memory : float or None
        What the rule wants back at the next iteration.
    branch : str
        "predefined", "line-search", "constant", "adaptive", "fallback" or "zero".
    curvature : float or None
        Curvature estimate that was accepted by the adaptive rule.
    """

    gamma: float
    direction: Direction
    memory: float | None
    branch: str
    curvature: float | None = None


class StepSize(BaseEstimator):
    """Base class of step-size rules: a pure function of named inputs.

    Attributes
    ----------
    monotone : bool
        Whether the rule never takes a step that it expects to lose by.
    """

    monotone = False

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length along a direction.

        Parameters
        ----------
        objective : WeightObjective or like it
            Convex function of the weights.
        weights : ndarray of shape (n_components,)
            Current point of the simplex.
        direction : Direction
        memory : float or None, default=None
            ``Step.memory`` of the previous iteration.
        iteration : int, default=1
            Counted from 0; the first component is iteration 0, so the first
            boosting step is iteration 1.

        Returns
        -------
        step : Step
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define choose(objective, weights, "
            "direction, memory, iteration) and return a Step."
        )


class Predefined(StepSize):
    """gamma = 2 / (t + 2), cut at the largest step (Dresdner et al. 2021, eq. 5)."""

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length; parameters as in `StepSize.choose`."""
        gamma = min(2.0 / (iteration + 2.0), direction.gamma_max)
        return Step(gamma, direction, memory, "predefined")


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
        _require(
            _is_real(self.value) and 0 < self.value <= 1,
            "value",
            "a number in (0, 1]",
            self.value,
        )
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
    derivative = slope_between(objective, weights, end)
    if derivative(0.0) >= 0:
        return 0.0
    # A bounded minimiser never returns the end point: drop steps need this test.
    if derivative(1.0) <= 0:
        return 1.0
    return float(brentq(derivative, 0.0, 1.0, xtol=1e-14, rtol=1e-12))


# Increases of the curvature that later iterations hear of: beyond, it is that of a
# component worth nearly nothing, and would leave no step to the next.
_REMEMBERED = 10


class AdaptiveBacktracking(StepSize):
    """Approximate backtracking on a local curvature estimate, aware of its noise.

    Dresdner et al. 2021, Algorithm 2. Four things differ from the paper, because a
    gap that is only noise would otherwise drive the curvature up for good: a gap not
    positive beyond two standard errors gives a zero step and leaves the memory as
    it was; the memory rises by at most ten increases an iteration; a search that
    failed leaves no memory; and the fallback step leads to the new component
    whatever the direction was.

    Parameters
    ----------
    decrease : float, default=0.5
        Factor in (0, 1] on the remembered curvature before each search (1/eta of
        the paper).
    increase : float, default=2.0
        Factor above 1 on the curvature after each rejected trial.
    max_increases : int, default=64
        Rejected trials before the fallback step 2 / (t + 2). The paper has 10, which
        a component that is worth nearly nothing uses up: the fallback then gives it
        a large weight. Trials cost arithmetic on cached draws only.
    form : {"curvature", "lipschitz"}, default="curvature"
        Quadratic model C gamma^2 / 2 (equation 8), or C n gamma^2 / 2 with n the
        divergence of the moving component from the mixture (appendix C.1).
    slack : "noise" or float, default="noise"
        What the objective may exceed the model by, in nats: two standard errors of
        the difference on the common draws, or 2 slack / t^2 (equation 11).
    initial : float, default=1.0
        Curvature before the first search.
    """

    monotone = True

    def __init__(
        self,
        decrease=0.5,
        increase=2.0,
        max_increases=64,
        form="curvature",
        slack="noise",
        initial=1.0,
    ):
        self.decrease = decrease
        self.increase = increase
        self.max_increases = max_increases
        self.form = form
        self.slack = slack
        self.initial = initial

    def choose(self, objective, weights, direction, memory=None, iteration=1):
        """Step length; parameters as in `StepSize.choose`."""
        self._check()
        if direction.gap <= N_ERRORS * _gap_noise(objective, weights, direction):
            return Step(0.0, direction, memory, "zero")
        size = self._size(objective, weights, direction)
        curvature = self.decrease * (self.initial if memory is None else memory)
        most = curvature * self.increase**_REMEMBERED
        for _ in range(self.max_increases + 1):
            gamma = min(direction.gap / (curvature * size), direction.gamma_max)
            model = -gamma * direction.gap + 0.5 * curvature * size * gamma**2
            moved = weights + gamma * direction.d
            change, slack = self._change(objective, moved, weights, iteration)
            if change <= model + slack:
                # At gamma_max every smaller curvature gives the same step; keeping
                # the largest of them stops the memory from sinking out of reach.
                kept = max(curvature, direction.gap / (direction.gamma_max * size))
                return Step(gamma, direction, min(kept, most), "adaptive", kept)
            curvature *= self.increase
        slope = objective.slope(weights)
        toward = frank_wolfe_direction(slope, weights, direction.new)
        return Step(2.0 / (iteration + 2.0), toward, memory, "fallback")

    def _size(self, objective, weights, direction):
        if self.form == "curvature" or direction.kind == "pairwise":
            return 1.0
        moving = direction.away if direction.kind == "away" else direction.toward
        # A component equal to the mixture has divergence 0; the ratio gap / size
        # then says nothing, and the largest step is tried first.
        return max(objective.divergence(moving, weights), 1e-12)

    def _change(self, objective, moved, weights, iteration):
        if hasattr(objective, "difference"):
            change, error = objective.difference(moved, weights)
        else:
            change, error = objective.value(moved) - objective.value(weights), 0.0
        if self.slack == "noise":
            return change, N_ERRORS * error
        return change, 2.0 * self.slack / max(iteration, 1) ** 2

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


def _gap_noise(objective, weights, direction):
    if hasattr(objective, "slope_noise"):
        return objective.slope_noise(weights, direction.d)
    return 0.0


def _is_real(value):
    return isinstance(value, Real) and not isinstance(value, bool)


def _require(condition, name, required, came):
    if not condition:
        raise ValueError(
            f"{name} must be {required}; got {came!r}. Change {name} of the step size."
        )
