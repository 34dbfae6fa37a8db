"""Calls into functions of users: what they are passed, return, raise and warn of."""

import warnings
from contextlib import contextmanager

import numpy as np

from skboost.targets._failures import (
    FailedEvaluationError,
    LogDensityError,
    OverwrittenArgumentError,
)

# What to do about answers that are no numbers.
_ADVICE = {
    "None": "Is a `return` missing?",
    "": "Return a float, or an array of floats.",
}


def numbers_of(name, value, theta):
    """A user's answer as floats, a copy."""
    got = type(value).__name__
    try:
        if value is None:
            got = "None"
            raise TypeError(got)
        # A conversion would drop imaginary parts, with a warning at best.
        if np.iscomplexobj(value):
            got = "complex ones"
            raise TypeError(got)
        return np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise LogDensityError(
            f"{name} must return numbers; got {got} at "
            f"theta={np.atleast_2d(theta)[0]}. {_ADVICE.get(got, _ADVICE[''])}"
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
    """No warnings about what is reported as an error, or is legal.

    Where the density is zero a function may well return a constant, of which
    autograd warns that it is one.
    """
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
