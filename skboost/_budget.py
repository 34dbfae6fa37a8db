"""What a run may spend: seconds, and evaluations of the target."""

from copy import copy
from time import perf_counter


class BudgetSpent(Exception):
    """A limit of the run was reached within an iteration."""


class Budget:
    """Seconds and evaluations that are left to a run.

    Parameters
    ----------
    max_time : float, default=None
        Seconds from now; None sets no limit.
    max_evaluations : float, default=inf
        Of the target, where it counts them.
    target : Target, default=None
        Whose evaluations are counted, those before this run included.
    clock : callable, default=time.perf_counter
        Seconds; a test may pass its own.
    began : float, default=None
        By the clock, where the seconds count from earlier than now.
    """

    def __init__(
        self,
        max_time=None,
        max_evaluations=float("inf"),
        target=None,
        clock=perf_counter,
        began=None,
    ):
        self.max_time, self.max_evaluations = max_time, max_evaluations
        self._target, self._clock = target, clock
        self._began = clock() if began is None else began
        self._asked = max_time

    @property
    def limited(self):
        """Whether there is any limit."""
        return self.max_time is not None or self.max_evaluations < float("inf")

    def part(self, share):
        """The same budget with a share of its seconds, from when it began."""
        part = copy(self)
        if self.max_time is not None:
            part.max_time = share * self.max_time
        return part

    @property
    def _done(self):
        """Evaluations so far."""
        return 0 if self._target is None else self._target.n_evaluations

    @property
    def spent(self):
        """Why nothing is left, as a message of the run; None while something is."""
        if self.max_time is not None and self._clock() - self._began >= self.max_time:
            return f"Stopped at max_time={self._asked} seconds."
        done = self._done
        if done >= self.max_evaluations:
            return (
                f"Stopped at max_evaluations={self.max_evaluations}; {done} were made."
            )
        return None

    @property
    def n_left(self):
        """Evaluations that are left, inf without a limit."""
        return max(self.max_evaluations - self._done, 0)

    def share(self, share):
        """A budget from now on with that share of what is left of this one."""
        seconds = None
        if self.max_time is not None:
            spent = self._clock() - self._began
            seconds = share * max(self.max_time - spent, 0.0)
        done = self._done
        most = done + share * self.n_left
        budget = Budget(seconds, most, self._target, self._clock)
        budget._asked = self._asked
        return budget

    def check(self):
        """Raise `BudgetSpent` where nothing is left."""
        reason = self.spent
        if reason is not None:
            raise BudgetSpent(reason)


class WatchedTarget:
    """A target that can be evaluated only while a budget lasts.

    Every method checks the budget before it computes, so that an iteration that runs
    into a limit ends within one batch of evaluations. Attributes pass through.

    Parameters
    ----------
    target : Target
    budget : Budget
    """

    def __init__(self, target, budget):
        self._target, self._budget = target, budget

    def tolerant(self):
        """The target as searches see it, under the same budget."""
        return WatchedTarget(self._target.tolerant(), self._budget)

    def __getattr__(self, name):
        if name.startswith("_"):
            # Copies and pickles ask for hooks before there is a target.
            raise AttributeError(name)
        found = getattr(self._target, name)
        if not callable(found):
            return found

        def watched(*arguments):
            self._budget.check()
            return found(*arguments)

        return watched
