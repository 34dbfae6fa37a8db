"""Calls into functions of users: how they fail, what is counted, and what is said."""

import sys
import warnings
from contextlib import contextmanager
from time import perf_counter

import numpy as np

from skboost.transforms import Real


class LogDensityError(ValueError):
    """A user's log density returned something that is no log density."""


class OverwrittenArgumentError(LogDensityError):
    """A user's function wrote into the array that it was passed."""


class FailedEvaluationError(LogDensityError):
    """A log density failed at one point; at others it may work.

    Raised for an exception, NaN, +inf and a gradient that is not finite. Searches step
    back from such points, and ``failures="zero"`` takes them for points of zero
    density. A wrong shape is no such failure.
    """


class FailedEvaluationWarning(UserWarning):
    """Points at which the log density failed were taken for points of zero density."""


class SlowPoints:
    """Says once, after `patience` seconds, what a density of one point at a time costs.

    The line that is warned of is `depth` calls above; iterations evaluate `draws` at
    least.
    """

    draws = 0

    def __init__(self, patience, depth):
        self._patience, self._began, self._said = patience, perf_counter(), False
        frame = sys._getframe(depth)
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        # Requests come from any depth and from threads.
        self._place = {
            "filename": frame.f_code.co_filename, "lineno": frame.f_lineno,
            "module": frame.f_globals.get("__name__"), "registry": registry,
        }  # fmt: skip

    def __call__(self, ledger, n):
        """Before `n` draws are evaluated, which at the pace so far may take long."""
        coming = n * ledger.pace
        seconds = ledger.seconds + coming
        if self._said or seconds < self._patience:
            return
        whole = perf_counter() - self._began + coming
        each = seconds / (ledger.n_evaluations + n)
        left = whole - seconds + each * (ledger.n_requests + 1)
        # Runs that would hardly be faster are not worth it.
        if whole < 3.0 * left:
            return
        self._said = True
        iteration = (
            f"; an iteration evaluates at least {self.draws} points, mostly several "
            f"times as many, which is {each * self.draws:.2g} s or more"
        )
        warnings.warn_explicit(
            f"log_density takes one point at a time, {each:.2g} s each"
            f"{iteration if self.draws else ''}. So far the run would be about "
            f"{whole / left:.0f} times faster with a function from (n, dim) to (n,), "
            "if that costs little more than a single point does now. "
            "vectorized=False says that you know.",
            UserWarning,
            **self._place,
        )


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


# --- what functions are passed, return, raise and warn of


def numbers_of(name, value, theta):
    """A user's answer as floats, a copy."""
    got, advice = type(value).__name__, "Return a float, or an array of floats."
    try:
        if value is None:
            got, advice = "None", "Is a `return` missing?"
            raise TypeError(got)
        # A conversion would drop imaginary parts, with a warning at best.
        if np.iscomplexobj(value):
            got = "complex ones"
            raise TypeError(got)
        return np.array(value, dtype=float)
    # Whole numbers of Python may be too large for a float.
    except (TypeError, ValueError, OverflowError) as error:
        raise LogDensityError(
            f"{name} must return numbers; got {got} at "
            f"theta={np.atleast_2d(theta)[0]}. {advice}"
        ) from error


@contextmanager
def user_code(name, theta, advice):
    """Whatever a user's function raises is reported with the point it failed at."""
    with quiet():
        try:
            yield
        except LogDensityError:
            raise
        except Exception as error:
            raise FailedEvaluationError(
                f"{name} failed with {error!r} at theta={np.atleast_2d(theta)[0]}. "
                f"{advice}"
            ) from error


@contextmanager
def lent(name, theta):
    """A private copy of an argument, which has to come back as it was."""
    given = theta.copy()
    try:
        yield given
    finally:
        if not np.array_equal(given, theta, equal_nan=True):
            raise OverwrittenArgumentError(
                f"{name} must leave its argument as it is; it changed theta="
                f"{np.atleast_2d(theta)[0]} into {np.atleast_2d(given)[0]}. Make a new "
                "array, for example 2 * theta in place of theta *= 2, or begin with "
                "theta = theta.copy()."
            )


@contextmanager
def quiet():
    """No warnings about what is legal or reported as an error, such as constants."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Output seems independent", UserWarning)
            yield


def check_shape(name, value, shape, theta):
    if value.shape != shape:
        raise LogDensityError(
            f"{name} must return shape {shape} for theta of shape {theta.shape}; got "
            f"{value.shape} at theta={np.atleast_2d(theta)[0]}. Pass vectorized=False "
            "if it takes one point at a time."
        )
