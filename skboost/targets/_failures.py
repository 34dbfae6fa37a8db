"""When a user's log density fails: the errors, the warning, and what is counted."""

from skboost.transforms import Real


class LogDensityError(ValueError):
    """A user's log density returned something that is no log density."""


class OverwrittenArgumentError(LogDensityError):
    """A user's function wrote into the array that it was passed."""


class FailedEvaluationError(LogDensityError):
    """A log density failed at one point; at others it may work.

    Raised for an exception, NaN, +inf and a gradient that is not finite. Searches
    step back from such points, and ``failures="zero"`` takes them for points of zero
    density. A wrong shape is no such failure.
    """


class FailedEvaluationWarning(UserWarning):
    """Points at which the log density failed were taken for points of zero density."""


class Ledger:
    """Evaluations and failures of a target and of all its views.

    Lists, because appending is atomic: searches in threads share the ledger.
    """

    def __init__(self):
        self._evaluated = []
        self._failed = []
        self._seconds = []
        self._asked = set()

    def add(self, n_evaluated, failures=()):
        """Count draws, and failures as their messages."""
        self._evaluated.append(n_evaluated)
        self._failed.extend(failures)

    def counts(self):
        """Evaluations, failures and the message of the first."""
        return [self.n_evaluations, self.n_failures, self.first_failure]

    def restore(self, n_evaluations, n_failures, first_failure):
        """Go on from `counts` of another process."""
        self._evaluated[:] = [int(n_evaluations)]
        self._failed[:] = [(int(n_failures), first_failure)] if n_failures else []

    def first_of(self, kind):
        """Whether no request of a kind came before."""
        first = kind not in self._asked
        self._asked.add(kind)
        return first

    def add_time(self, seconds):
        """Count the seconds that one request for some draws took."""
        self._seconds.append(seconds)

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
        """Of which the log density failed."""
        return sum(n for n, _ in self._failed)

    @property
    def first_failure(self):
        """Message of the first failure, with the point; None without failures."""
        return self._failed[0][1] if self._failed else None


def what_came(target):
    """What a density does where it is nowhere positive, and the first failure."""
    failure = target.first_failure
    if failure is None:
        return "is -inf (a density of zero)", ""
    return "fails or is -inf", f" First: {failure}"


def coordinate_label(target, i):
    """A coordinate by the number that the user knows it by."""
    if target.constraints is None:
        return f"theta[{i}]"
    part = next(part for part in target.constraints.parts if i in part.free)
    shown = f"theta[{part.columns[list(part.free).index(i)]}]"
    free = isinstance(part.transform, Real)
    return shown if free else f"{shown} on its unconstrained scale"


def shown_point(target, starts):
    """The first start, on the user's scale where that is another."""
    first = starts[0]
    if target.constraints is not None:
        first = target.constraints.forward(starts[:1])[0]
    return first if len(starts) == 1 else f"{first} and others"
