"""Backtracking on a local estimate of the curvature."""

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import NamedTuple

import numpy as np

from skboost._math import N_ERRORS
from skboost._parameters import keeps_parameters
from skboost.frank_wolfe._directions import Direction, frank_wolfe_direction
from skboost.frank_wolfe._step_size import Step, StepSize, is_real, predefined, require


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


# What of the objective multiplies the curvature in every form of the quadratic model.
_FORMS = {"curvature": None, "lipschitz": "divergence", "distance": "squared_distance"}


class AdaptiveBacktracking(StepSize):
    """Approximate backtracking on a local estimate of the curvature, safeguarded.

    Dresdner et al. 2021, Algorithm 2. The search begins with the curvature C of the
    iteration before times ``decrease``, tries gamma = gap / C, and multiplies C by
    ``increase`` until the change of the objective is at most that of the parabola,
    -gamma gap + C gamma^2 / 2 (equations 8 and 11). With ``safeguard=False`` it is that
    algorithm with its faults: where the mixture misses a component, the curvature of
    the KL divergence at gamma = 0 is infinite, the test passes only for steps that gain
    nothing, and the fallback may raise the objective. By default the rule takes a step
    that gains there, and never raises the objective on the cached draws.

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
    form : {"curvature", "lipschitz", "distance"}, default="curvature"
        Quadratic model C gamma^2 / 2 (equation 8), or C n gamma^2 / 2 with n the
        divergence of the moving component from the mixture (appendix C.1), or their
        squared distance (equation 65).
    slack : "noise" or float, default="noise"
        What the objective may exceed the model by, in nats: two standard errors of
        the difference on the common draws, or 2 slack / t^2 (equation 11).
    initial : float, default=1.0
        Curvature before the first search.
    safeguard : bool, default=True
        False is the published algorithm, for comparison.
    min_gamma : float, default=0.0
        In [0, 1): a shorter step is replaced by the fallback without the safeguard. The
        authors' code has 0.01; their algorithm has no such limit.

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

    Examples
    --------
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.strategies import AdaptiveBacktracking
    >>> rule = AdaptiveBacktracking(safeguard=False)
    >>> model = BoostedBayesianLogisticRegression(step_size=rule, tol=0)
    """

    @keeps_parameters
    def __init__(
        self,
        decrease=0.5,
        increase=2.0,
        max_increases=64,
        form="curvature",
        slack="noise",
        initial=1.0,
        safeguard=True,
        min_gamma=0.0,
    ):
        pass

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
        passed = passed and trials[-1].gamma >= self.min_gamma
        taken = trials[-1] if passed else line.fallback(iteration)
        return taken.step(trials[-1].curvature)

    def _guarded(self, line, memory, iteration):
        direction = line.direction
        if direction.gap <= 0:
            return Step(0.0, direction, memory, "zero")
        steepness = direction.gap / line.size(self.form)
        start = self._start(memory)
        excess = start * predefined(direction, iteration) / steepness
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
        real = is_real(self.decrease) and 0 < self.decrease <= 1
        require(real, "decrease", "a number in (0, 1]", self.decrease)
        real = is_real(self.increase) and self.increase > 1
        require(real, "increase", "a number above 1", self.increase)
        whole = isinstance(self.max_increases, Integral) and self.max_increases >= 0
        require(whole, "max_increases", "an integer >= 0", self.max_increases)
        known = self.form in _FORMS
        require(known, "form", f"one of {list(_FORMS)}", self.form)
        real = self.slack == "noise" or (is_real(self.slack) and self.slack >= 0)
        require(real, "slack", "'noise' or a number >= 0", self.slack)
        real = is_real(self.initial) and self.initial > 0
        require(real, "initial", "a positive number", self.initial)
        yes_or_no = isinstance(self.safeguard, (bool, np.bool_))
        require(yes_or_no, "safeguard", "True or False", self.safeguard)
        real = is_real(self.min_gamma) and 0 <= self.min_gamma < 1
        require(real, "min_gamma", "a number in [0, 1)", self.min_gamma)


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
        if _FORMS[form] is None or direction.kind == "pairwise":
            return 1.0
        moving = direction.away if direction.kind == "away" else direction.toward
        # A component equal to the mixture has divergence 0; the ratio gap / size
        # then says nothing, and the largest step is tried first.
        size = getattr(self.objective, _FORMS[form])
        return max(size(moving, self.weights), 1e-12)

    def toward_new(self):
        """The line from the mixture to the new component."""
        slope, new = self.objective.slope(self.weights), self.direction.new
        return replace(self, direction=frank_wolfe_direction(slope, self.weights, new))

    def fallback(self, iteration):
        """The predefined step along this line."""
        gamma = predefined(self.direction, iteration)
        return _Trial(gamma, self.direction, self.change(gamma)[0], "fallback")
