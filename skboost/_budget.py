"""What a run may spend: seconds, and evaluations of the target."""

from contextlib import contextmanager
from copy import copy
from time import perf_counter
from typing import NamedTuple


class End(NamedTuple):
    """What ended a run.

    Attributes
    ----------
    by : str
        The parameter whose limit was reached ("max_iter", "max_time" or
        "max_evaluations"), "tol", "auto" (that is ``tol="auto"``), "improper", "stuck",
        "orbits" (more images gain more than components), "callback" or "interruption".
    message : str
        The same as a sentence for the user.
    """

    by: str
    message: str
    # Whether the run would have to end without having converged, too.
    final: bool = False

    @property
    def converged(self):
        """Whether the stopping rule ended it."""
        return self.by in ("tol", "auto")


class BudgetSpent(Exception):
    """A limit of the run was reached within an iteration; its argument is the `End`."""


class Budget:
    """Seconds and evaluations that are left to a run.

    Parameters
    ----------
    max_time : float, default=None
        Seconds from now; None sets no limit.
    max_evaluations : float, default=inf
        Of the target, where it counts them.
    ledger : Ledger, default=None
        Whose evaluations are counted, those before this run included.
    clock : callable, default=time.perf_counter
        Seconds; a test may pass its own.
    began : float, default=None
        By the clock, where the seconds count from earlier than now.

    Attributes
    ----------
    whole : Budget
        The budget of the run, of which this one may be a share.
    has_cut : bool
        Whether work ended early, or was not begun, because of this budget or a share
        of it.
    """

    def __init__(
        self,
        max_time=None,
        max_evaluations=float("inf"),
        ledger=None,
        clock=perf_counter,
        began=None,
    ):
        self.max_time, self.max_evaluations = max_time, max_evaluations
        self._ledger, self._clock = ledger, clock
        self._began = clock() if began is None else began
        # Seconds, where the clock stands still.
        self._spent = None
        self.whole = self
        self.has_cut = False

    def pause(self):
        """Stop its clock: work that is put off has what was left then."""
        self._spent = self._clock() - self._began

    @contextmanager
    def running(self):
        """Inside, the clock of a budget that was paused goes on."""
        paused = self._spent is not None
        if paused:
            self._began, self._spent = self._clock() - self._spent, None
        try:
            yield self
        finally:
            if paused:
                self.pause()

    def part(self, share):
        """The same budget with a share of its seconds, from when it began."""
        part = copy(self)
        if self.max_time is not None:
            part.max_time = share * self.max_time
        return part

    def uncounted(self):
        """Its seconds alone, for work on another target."""
        seconds = copy(self)
        seconds.max_evaluations, seconds._ledger = float("inf"), None
        return seconds

    @property
    def _done(self):
        """Evaluations so far, where they are limited."""
        limited = self._ledger is not None and self.max_evaluations < float("inf")
        return self._ledger.n_evaluations if limited else 0

    @property
    def spent(self):
        """The `End` of the run where nothing is left; None while something is."""
        if self.max_time is not None and self._clock() - self._began >= self.max_time:
            return self._too_late
        if self._done >= self.max_evaluations:
            return self._too_many
        return None

    @property
    def used(self):
        """The share of its seconds or of its evaluations that is used: the larger."""
        seconds = 0.0
        if self.max_time is not None:
            seconds = (self._clock() - self._began) / self.max_time
        return max(seconds, self._done / self.max_evaluations)

    @property
    def n_left(self):
        """Evaluations that are left, inf without a limit."""
        return max(self.max_evaluations - self._done, 0)

    @property
    def _too_late(self):
        return End("max_time", f"Stopped at max_time={self.whole.max_time} seconds.")

    @property
    def _too_many(self):
        most = self.whole.max_evaluations
        message = f"Stopped at max_evaluations={most}; {self._done} were made."
        return End("max_evaluations", message)

    def share(self, share):
        """A budget from now on with that share of what is left of this one."""
        seconds = None
        if self.max_time is not None:
            spent = self._clock() - self._began
            seconds = share * max(self.max_time - spent, 0.0)
        done = self._done
        most = done + share * self.n_left
        budget = Budget(seconds, most, self._ledger, self._clock)
        budget.whole = self.whole
        return budget

    @property
    def room(self):
        """Evaluations that still fit in, at the best pace that the target has shown."""
        left = self.n_left
        if self.max_time is not None and self._ledger is not None:
            seconds = self.max_time - (self._clock() - self._began)
            pace = self._ledger.pace
            left = min(left, max(seconds, 0.0) / pace) if pace > 0.0 else left
        return left

    def cuts(self):
        """Whether nothing is left, so that work in hand ends where it is."""
        cut = self.spent is not None
        self.whole.has_cut |= cut
        return cut

    def affords(self, n, share):
        """So many of `n` draws as fit into a share of what is left."""
        most = share * self.room
        self.whole.has_cut |= n > most
        return int(min(n, most))

    def check(self, n=1):
        """Raise `BudgetSpent` where `n` evaluations no longer fit in."""
        end = self.spent
        if end is None and n <= self.room:
            return
        self.whole.has_cut = True
        raise BudgetSpent(
            end or (self._too_many if n > self.n_left else self._too_late)
        )
