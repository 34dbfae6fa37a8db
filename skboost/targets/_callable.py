"""A target from any Python function, differentiated by autograd or by its author."""

import pickle
from contextlib import nullcontext
from functools import partial
from time import perf_counter
from typing import NamedTuple

import autograd
import numpy as np
from joblib import effective_n_jobs, wrap_non_picklable_objects

from skboost._parallel import chunked_map
from skboost.targets._base import Ledger, Target
from skboost.targets._failures import (
    FailedEvaluationError,
    LogDensityError,
    OverwrittenArgumentError,
    check_shape,
    lent,
    numbers_of,
    quiet,
    user_code,
)

# Draws per chunk of work: fixed, so that the answer does not depend on n_jobs. Searches
# often ask for 16 points at once, which two workers then share.
# A trace by autograd costs as much as a thousand simple rows.
_CHUNK = {True: 2048, False: 8}


class CallableTarget(Target):
    """Unnormalised log posterior given as a Python function.

    From (n, dim) to (n,), or (dim,) to a number, as `vectorized` says or a trial at the
    rows of `probe` finds out. A point fails where it raises, returns NaN or +inf, or
    has no finite gradient: its density is zero, or `failures` asks for a
    `FailedEvaluationError`.
    """

    def __init__(
        self,
        log_density,
        dim,
        gradient=None,
        vectorized=None,
        n_jobs=None,
        probe=None,
        failures="raise",
        value_and_gradient=None,
    ):
        if gradient is not None and value_and_gradient is not None:
            raise ValueError(
                "gradient and value_and_gradient were both passed; pass the second "
                "alone."
            )
        self.dim = dim
        self.n_jobs = n_jobs
        self.failures = failures
        self.ledger = Ledger(counts=True)
        if probe is None:
            # Three to five rows: neither one row nor dim rows, so that a function
            # of one point can not be mistaken for a function of a batch.
            n = next(n for n in (3, 4, 5) if n != dim)
            probe = 0.1 * np.random.default_rng(0).standard_normal((n, dim))
        owner = getattr(gradient, "__self__", None)
        if owner is log_density:
            # One object may give both at once.
            value_and_gradient = getattr(owner, "value_and_gradient", None)
        functions = log_density, gradient, value_and_gradient
        user = _UserFunction(*functions, bool(vectorized))
        self._user = user.tried_out(probe) if vectorized is None else user
        self.vectorized = self._user.vectorized

    def log_density(self, theta, strict=False):
        """Log joint at each draw; see `Target`."""
        return np.concatenate([c.value for c in self._chunks(theta, False, strict)])

    def value_and_score(self, theta, strict=False):
        """Log joint and its gradient at each draw; `strict` as for `log_density`."""
        chunks = self._chunks(theta, True, strict)
        value = np.concatenate([c.value for c in chunks])
        return value, np.concatenate([c.score for c in chunks])

    def _chunks(self, theta, with_score, strict):
        theta = np.atleast_2d(theta)
        self.ledger.spend(len(theta))
        user, step = self._user, _CHUNK[self.vectorized]
        evaluated = _by_batches if user.vectorized else _by_points
        raises = strict and self.failures == "raise"
        func = partial(evaluated, user, with_score, raises)
        argument = nullcontext(theta)
        if self.ledger.first_of(with_score):
            # Functions that write into their argument are found at the first request.
            name = "log_density" + " or its gradient" * with_score
            argument = lent(name, theta)
        began = perf_counter()
        with argument as given:
            parts = [given[a : a + step] for a in range(0, len(theta), step)]
            if len(parts) == 1:
                chunks = [func(given)]
            else:
                backend = "loky" if self._travels(func, parts[0][:1]) else "threading"
                chunks = chunked_map(func, parts, self.n_jobs, backend)
        failures = [pair for chunk in chunks for pair in chunk.failures]
        self.ledger.finish(len(theta), failures, perf_counter() - began)
        return chunks

    def _travels(self, func, point):
        """Whether a function works as well after a pickle, as in another process.

        A primitive of autograd that a function of a notebook has imported by its own
        name loses its gradient on the way.
        """
        if effective_n_jobs(self.n_jobs) == 1 or func(point).failures:
            return True
        try:
            there = pickle.loads(pickle.dumps(wrap_non_picklable_objects(func)))
        except Exception:
            # What can not be pickled is for the processes to say.
            return True
        return not there(point).failures


class _UserFunction(NamedTuple):
    """What the user gave; travels to worker processes.

    `hint` is of use where the function fails: it says why no batch was passed.
    """

    function: object
    gradient: object
    both: object
    vectorized: bool
    hint: str = ""

    def tried_out(self, probe):
        """With `vectorized` set: whether a batch gives the values of its rows."""
        try:
            with quiet(), lent("log_density", probe) as given:
                batch = numbers_of("log_density", self.function(given), probe)
        except OverwrittenArgumentError:
            raise
        except Exception as error:
            return self._of_points(probe, f"failed with {error!r}")
        if batch.shape != (len(probe),):
            what = f"returned shape {batch.shape}"
            return self._of_points(probe, what, batch.shape == (len(probe), 1))
        if not self._agrees(batch, probe):
            return self._of_points(probe, "gave other values than for its rows alone")
        return self._replace(vectorized=True)

    def _agrees(self, batch, probe):
        """Whether batches of one row give the values of the whole batch."""
        try:
            with quiet(), lent("log_density", probe) as given:
                rows = [
                    numbers_of("log_density", self.function(r[None]), r) for r in given
                ]
        except OverwrittenArgumentError:
            raise
        except Exception:
            return False
        return all(row.shape == (1,) for row in rows) and np.allclose(
            batch, np.concatenate(rows), rtol=1e-8, equal_nan=True
        )

    def _of_points(self, probe, what, column=False):
        """A function of one point; with a hint if it is none of that either.

        A `column` is what a function of batches returns that keeps an axis too many.
        """
        user = self._replace(vectorized=False)
        try:
            with lent("log_density", probe[0]) as given:
                user.point(given, False)
        except OverwrittenArgumentError:
            raise
        except LogDensityError as error:
            if column:
                raise LogDensityError(
                    f"log_density must return one number for each row of theta, shape "
                    f"({len(probe)},) for theta of shape {probe.shape}; got a column, "
                    f"shape ({len(probe)}, 1). Drop its last axis: return value[:, 0], "
                    "or sum over axis 1 without keepdims."
                ) from error
            if what == f"failed with {error.__cause__!r}":
                return user
            hint = (
                f" It was taken for a function of one point, because for theta of "
                f"shape {probe.shape} it {what}."
            )
            return user._replace(hint=hint)
        return user

    def point(self, row, with_score):
        """Value and score (dim,), or None, at one point."""
        value, score = self.at(row, with_score)
        if value.size != 1:
            raise LogDensityError(
                f"log_density must return one number for a point of shape "
                f"{row.shape}; got shape {value.shape} at theta={row}.{self.hint}"
            )
        return float(value.reshape(())), score

    def at(self, theta, with_score):
        """Values and scores, or None, of one call, for a point or for all rows."""
        if with_score and self.gradient is None and self.both is None:
            return self._differentiated(theta)
        advice = _WHERE_IT_FAILS
        if with_score and self.both is not None:
            with user_code("log_density", theta, advice):
                value, score = self.both(theta)
        else:
            with user_code("log_density", theta, advice + self.hint):
                value = self.function(theta)
            if not with_score:
                return numbers_of("log_density", value, theta), None
            form = f"It is passed what log_density is: shape {theta.shape} here. "
            with user_code("gradient", theta, form + advice):
                score = self.gradient(theta)
        score = numbers_of("gradient", score, theta)
        check_shape("gradient", score, theta.shape, theta)
        return numbers_of("log_density", value, theta), score

    def _differentiated(self, theta):
        """Value, and the gradient of its sum: of each row on its own, in a batch."""
        advice = "Write it with autograd.numpy, or pass gradient=."
        with user_code("log_density", theta, advice + self.hint):
            pull, value = autograd.make_vjp(self.function)(theta)
            value = numbers_of("log_density", value, theta)
            return value, np.array(pull(np.ones(value.shape)), dtype=float)


class _Chunk(NamedTuple):
    """Some draws evaluated; `failures` are pairs of a number and the first one's
    error."""

    value: np.ndarray
    score: np.ndarray | None
    failures: tuple = ()


def _by_points(user, with_score, raises, theta):
    """The `_Chunk` of some draws, one by one; a failure `raises` or is noted."""
    value = np.full(len(theta), -np.inf)
    score = np.zeros(theta.shape) if with_score else None
    failures = []
    for i, row in enumerate(theta):
        try:
            value[i], slope = user.point(row, with_score)
        except FailedEvaluationError as error:
            if raises:
                raise
            failures.append((1, str(error)))
            continue
        if with_score:
            score[i] = slope
    found = _checked(value, score, theta, raises)
    return found._replace(failures=(*failures, *found.failures))


def _by_batches(user, with_score, raises, theta):
    """One call; where it raises, halves of it until the rows are found that raise."""
    try:
        value, score = user.at(theta, with_score)
    except FailedEvaluationError as error:
        failed = error
    else:
        check_shape("log_density", value, (len(theta),), theta)
        return _checked(value, score, theta, raises)
    if len(theta) == 1:
        if raises:
            raise failed
        score = np.zeros(theta.shape) if with_score else None
        return _Chunk(np.full(1, -np.inf), score, ((1, str(failed)),))
    halves = [
        _by_batches(user, with_score, raises, half) for half in np.array_split(theta, 2)
    ]
    failures = halves[0].failures + halves[1].failures
    if not failures:
        raise LogDensityError(
            f"log_density failed with {failed.__cause__!r} for a batch of "
            f"{len(theta)} points, and for no smaller part of it. Pass "
            "vectorized=False."
        ) from failed.__cause__
    value = np.concatenate([half.value for half in halves])
    score = np.concatenate([half.score for half in halves]) if with_score else None
    return _Chunk(value, score, failures)


def _checked(value, score, theta, raises):
    """Values and scores that are numbers, or the error that they are not."""
    bad = np.isnan(value) | np.isposinf(value)
    if score is not None:
        # Where the density is zero its score is undefined, and autograd says NaN.
        score[np.isneginf(value)] = 0.0
        bad |= ~np.isfinite(score).all(axis=1)
    if not bad.any():
        return _Chunk(value, score)
    error = _no_number(value, score, theta, int(bad.argmax()))
    if raises:
        raise error
    value[bad] = -np.inf
    if score is not None:
        score[bad] = 0.0
    return _Chunk(value, score, ((int(bad.sum()), str(error)),))


# What to do where a density is no number.
_WHERE_IT_FAILS = (
    "Return -inf where the density is zero, or pass failures='zero'. Where "
    "parameters are not free, such as scales, pass constraints=, such as "
    "'positive' or a dict {coordinate: constraint}."
)


def _no_number(value, score, theta, row):
    """The error for a value or gradient that is not a number."""
    if np.isnan(value[row]) or np.isposinf(value[row]):
        return FailedEvaluationError(
            f"log_density must be a number below +inf (-inf is legal); got "
            f"{value[row]} at theta={theta[row]}. {_WHERE_IT_FAILS}"
        )
    return FailedEvaluationError(
        f"the gradient of log_density must be finite; got {score[row]} at "
        f"theta={theta[row]}. Check gradient=, or write the density with functions "
        "that have a derivative there."
    )
