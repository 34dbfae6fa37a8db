"""A target from any Python function, differentiated by autograd or by its author."""

import warnings
from contextlib import contextmanager
from functools import partial

import autograd
import numpy as np

from skboost._parallel import chunked_map
from skboost.targets._base import Target

# Draws per chunk of work: fixed, so that the answer does not depend on n_jobs.
# A trace by autograd costs as much as a thousand simple rows.
_CHUNK = {True: 2048, False: 16}


class LogDensityError(ValueError):
    """A user's log density returned something that is no log density."""


class CallableTarget(Target):
    """Unnormalised log posterior given as a Python function.

    Parameters
    ----------
    log_density : callable
        Takes (n, dim) and returns (n,), or takes (dim,) and returns a number.
        Written with ``autograd.numpy`` unless `gradient` is given.
    dim : int
        Dimension of the parameter.
    gradient : callable, default=None
        Gradient of `log_density`, of the shape of its argument. None asks autograd.
    vectorized : bool, default=None
        Whether `log_density` takes batches. None finds out by comparing a batch
        with its rows.
    n_jobs : int, default=None
        Chunks of draws are evaluated in that many processes.
    probe : ndarray of shape (3, dim), default=None
        Points at which the function is tried out; near the origin by default.

    Raises
    ------
    LogDensityError
        Where the function fails, or returns NaN, +inf or a wrong shape; the message
        shows the point.
    """

    def __init__(
        self,
        log_density,
        dim,
        gradient=None,
        vectorized=None,
        n_jobs=None,
        probe=None,
    ):
        self.function = log_density
        self.dim = dim
        self.gradient = gradient
        self.n_jobs = n_jobs
        self.n_evaluations = 0
        if probe is None:
            # Three to five rows: neither one row nor dim rows, so that a function
            # of one point can not be mistaken for a function of a batch.
            n = next(n for n in (3, 4, 5) if n != dim)
            probe = 0.1 * np.random.default_rng(0).standard_normal((n, dim))
        self.vectorized = (
            _is_vectorized(log_density, probe) if vectorized is None else vectorized
        )
        self._evaluate = partial(_values, log_density, self.vectorized)
        self._differentiate = partial(
            _values_and_scores, log_density, gradient, self.vectorized
        )

    def log_density(self, theta):
        """Log joint at each draw; see `Target`."""
        parts = self._map(self._evaluate, theta)
        return self._checked(np.concatenate(parts), theta)

    def value_and_score(self, theta):
        """Log joint and its gradient at each draw; see `Target`."""
        parts = self._map(self._differentiate, theta)
        value = self._checked(np.concatenate([v for v, _ in parts]), theta)
        score = np.concatenate([s for _, s in parts])
        outside = np.isneginf(value)
        # Where the density is zero its score is undefined, and autograd says NaN.
        score[outside] = 0.0
        bad = ~np.isfinite(score).all(axis=1)
        if bad.any():
            raise LogDensityError(
                f"the gradient of log_density must be finite; got "
                f"{score[bad][0]} at theta={theta[bad][0]}. Check gradient=, or "
                "write the density with functions that have a derivative there."
            )
        return value, score

    def _map(self, func, theta):
        theta = np.atleast_2d(theta)
        self.n_evaluations += len(theta)
        step = _CHUNK[self.vectorized]
        chunks = [theta[a : a + step] for a in range(0, len(theta), step)]
        return chunked_map(func, chunks, self.n_jobs, backend="loky")

    @staticmethod
    def _checked(value, theta):
        bad = np.isnan(value) | np.isposinf(value)
        if bad.any():
            raise LogDensityError(
                f"log_density must be a number below +inf (-inf is legal); got "
                f"{value[bad][0]} at theta={theta[bad][0]}. Return -inf where the "
                "density is zero."
            )
        return value


def _is_vectorized(function, probe):
    """Whether a batch gives the values of its rows."""
    try:
        with _quiet():
            batch = np.asarray(function(probe), dtype=float)
            rows = [np.asarray(function(row[None]), dtype=float) for row in probe]
    except Exception:
        # Whatever is wrong with it, the first evaluation says so, with the point.
        return False
    if batch.shape != (len(probe),) or any(row.shape != (1,) for row in rows):
        return False
    return np.allclose(batch, np.concatenate(rows), rtol=1e-8, equal_nan=True)


def _values(function, vectorized, theta):
    if vectorized:
        value = np.asarray(_call(function, theta), dtype=float)
        _check_shape("log_density", value, (len(theta),), theta)
        return value
    return np.array([_scalar(_call(function, row), row) for row in theta])


def _values_and_scores(function, gradient, vectorized, theta):
    if gradient is not None:
        return _values(function, vectorized, theta), _given(gradient, vectorized, theta)
    if vectorized:
        return _batch_gradient(function, theta)
    pairs = [_row_gradient(function, row) for row in theta]
    return np.array([v for v, _ in pairs]), np.array([s for _, s in pairs])


def _given(gradient, vectorized, theta):
    if vectorized:
        score = np.array(_call(gradient, theta, "gradient"), dtype=float)
    else:
        score = np.array([_call(gradient, row, "gradient") for row in theta], float)
    _check_shape("gradient", score, theta.shape, theta)
    return score


def _batch_gradient(function, theta):
    value, score = _differentiated(function, theta)
    _check_shape("log_density", value, (len(theta),), theta)
    return value, score


def _row_gradient(function, row):
    value, score = _differentiated(function, row)
    return _scalar(value, row), score


def _differentiated(function, theta):
    """Value, and the gradient of its sum: of each row on its own, in a batch."""
    advice = "Write it with autograd.numpy, or pass gradient="
    with _user_code("log_density", theta, advice):
        pull, value = autograd.make_vjp(function)(theta)
        value = np.asarray(value, dtype=float)
        return value, np.array(pull(np.ones(value.shape)), dtype=float)


def _call(function, theta, name="log_density"):
    with _user_code(name, theta, "Return -inf where the density is zero"):
        return function(theta)


@contextmanager
def _user_code(name, theta, advice):
    """Whatever a user's function raises is reported with the point it failed at."""
    with _quiet():
        try:
            yield
        except LogDensityError:
            raise
        except Exception as error:
            raise LogDensityError(
                f"{name} failed with {error!r} at theta={np.atleast_2d(theta)[0]}. "
                f"{advice}."
            ) from error


@contextmanager
def _quiet():
    """No warnings about what is reported as an error, or is legal.

    Where the density is zero a function may well return a constant, of which
    autograd warns that it is one.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Output seems independent", UserWarning)
            yield


def _scalar(value, row):
    value = np.asarray(value, dtype=float)
    if value.size != 1:
        raise LogDensityError(
            f"log_density must return one number for a point of shape {row.shape}; "
            f"got shape {value.shape} at theta={row}."
        )
    return float(value.reshape(()))


def _check_shape(name, value, shape, theta):
    if value.shape != shape:
        raise LogDensityError(
            f"{name} must return shape {shape} for theta of shape {theta.shape}; got "
            f"{value.shape} at theta={theta[0]}. Pass vectorized=False if it takes "
            "one point at a time."
        )
