"""What evaluations of a target are counted in, and what stops them."""

from contextlib import contextmanager

import numpy as np

from skboost._budget import Budget


class Ledger:
    """Evaluations and failures of a target and of its views, and what they may cost.

    Lists, because appending is atomic: searches in threads share the ledger. A budget
    is set by the thread that starts them.
    """

    def __init__(self, counts=False):
        # Only functions of users are counted.
        self.counts = counts
        # The one that binds now.
        self.budget, self._raises = Budget(), False
        self._evaluated, self._failed, self._seconds = [], [], []
        self._asked = set()
        # Seconds of one evaluation in the request where that was least.
        self.pace = 0.0
        # Called with the ledger and a number of draws before these are evaluated.
        self.before = None
        # Of functions that are evaluated with this one, as a prior's.
        self.others = []

    @contextmanager
    def within(self, budget, raises=True):
        """Inside, `budget` binds; work may look at it alone where it never raises."""
        outside = self.budget, self._raises
        self.budget, self._raises = budget, raises
        try:
            yield budget
        finally:
            self.budget, self._raises = outside

    def check(self, n=1):
        """Raise `BudgetSpent` where `n` evaluations do not fit in."""
        if self._raises:
            self.budget.check(n)

    def spend(self, n=1):
        """Count `n` draws that are about to be evaluated, or raise `BudgetSpent`."""
        self.check(n)
        if self.counts:
            if self.before is not None:
                self.before(self, n)
            self._evaluated.append(n)

    def finish(self, n, failures, seconds):
        """What a request of `n` draws took, and failures as pairs (n, message)."""
        self._failed.extend(failures)
        self._seconds.append(seconds)
        self.pace = min(self.pace or np.inf, seconds / max(n, 1))

    def record(self):
        """Evaluations, failures and the message of the first."""
        return [self.n_evaluations, self.n_failures, self.first_failure]

    def restore(self, n_evaluations, n_failures, first_failure):
        """Go on from the `record` of another process."""
        for other in self.others:
            other.restore(0, 0, None)
        self._evaluated[:] = [int(n_evaluations)]
        self._failed[:] = [(int(n_failures), first_failure)] if n_failures else []

    def first_of(self, kind):
        """Whether no request of a kind came before."""
        first = kind not in self._asked
        self._asked.add(kind)
        return first

    @property
    def whole_pace(self):
        """Seconds of one evaluation, at best, of all functions together."""
        return self.pace + sum(other.pace for other in self.others)

    @property
    def seconds(self):
        """That evaluations took, without those before the first request."""
        return sum(self._seconds)

    @property
    def n_requests(self):
        """How often draws were asked for, many at a time."""
        return len(self._seconds)

    @property
    def n_evaluations(self):
        """Draws at which the log density was evaluated, with or without gradient."""
        return sum(self._evaluated)

    @property
    def n_failures(self):
        """Draws at which a function failed."""
        others = sum(other.n_failures for other in self.others)
        return sum(n for n, _ in self._failed) + others

    @property
    def first_failure(self):
        """Message of the first failure, with the point; None without failures."""
        if self._failed:
            return self._failed[0][1]
        messages = (other.first_failure for other in self.others)
        return next((message for message in messages if message is not None), None)
