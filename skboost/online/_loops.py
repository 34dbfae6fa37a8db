"""Loops over the rows of a batch, one update each, in NumPy that numba can compile.

They write into the arrays that they are given and return -1, or the position of a row
whose linear predictor is out of bounds. ``schedule`` holds the size of every step and
its share of the prior; ``clock`` the logarithm of what is left of the information of
the first step, and the weight of all rows so far.
"""

from functools import cache
from math import inf, log, log1p, sqrt

import numpy as np
from scipy.linalg.blas import dger

# A linear predictor so far beyond its response comes of steps that overshoot, each more
# than the last.
HUGE = 1e12
# Untouched coordinates are brought up to date at the latest after so much decay (log).
_MAX_DECAY = 500.0


def compiler():
    """The decorator that compiles at the first call, or None without the extra."""
    try:
        import numba
    except ImportError:
        return None
    return numba.njit(nogil=True)


def compiled(function):
    """A function compiled where that is possible; the same numbers to rounding."""
    compile_it = compiler()
    return function if compile_it is None else compile_it(function)


@cache
def dense_loop(method, one):
    """The loop over dense rows, with independent coordinates."""
    variance, discount, step, one = map(
        compiled, (method.variance, method.discount, method.step, one)
    )

    def loop(
        X, y, weight, schedule, forgetting, noise, scale, state, total, clock, eta
    ):
        squares = X * X
        for i in range(len(y)):
            x, square, w = X[i], squares[i], weight[i]
            if forgetting < 1.0:
                discount(state, scale, forgetting)
            mean = x @ state[0]
            eta[i] = mean
            spread = variance(state, scale)
            sd = sqrt(square @ spread)
            if not (abs(mean) < HUGE * (1.0 + abs(y[i])) and sd < inf):
                return i
            clock[1] += w
            total += state[0] if w == 1.0 else w * state[0]
            slope, bend = one(mean, sd, y[i], noise)
            w *= schedule[i, 0]
            grad, curv = (w * slope) * x, (w * bend) * square
            step(state, scale, spread, grad, curv, schedule[i, 1])
        return -1

    return compiled(loop)


@cache
def sparse_loop(method, one):
    """The loop over sparse rows: time is that of their non-zeros."""
    variance, discount, step, one = map(
        compiled, (method.variance, method.discount, method.step, one)
    )

    def loop(
        data, indices, indptr, y, weight, schedule, forgetting, noise, scale,
        state, total, mark, since, clock, eta,
    ):  # fmt: skip
        for i in range(len(y)):
            if clock[0] < -_MAX_DECAY:
                discount(state, scale, np.exp(clock[0] - mark))
                mark[:] = 0.0
                clock[0] = 0.0
            own = indices[indptr[i] : indptr[i + 1]]
            x, w = data[indptr[i] : indptr[i + 1]], weight[i]
            clock[0] += log(forgetting)
            part, part_scale = np.empty((len(state), len(own))), scale[own]
            for k in range(len(state)):
                part[k] = state[k][own]
            if clock[0] < 0.0:
                discount(part, part_scale, np.exp(clock[0] - mark[own]))
            mean = x @ part[0]
            eta[i] = mean
            spread = variance(part, part_scale)
            squares = x * x
            sd = sqrt(squares @ spread)
            if not (abs(mean) < HUGE * (1.0 + abs(y[i])) and sd < inf):
                return i
            clock[1] += w
            total[own] += part[0] * (clock[1] - since[own])
            since[own] = clock[1]
            slope, bend = one(mean, sd, y[i], noise)
            w *= schedule[i, 0]
            grad, curv = (w * slope) * x, (w * bend) * squares
            step(part, part_scale, spread, grad, curv, schedule[i, 1])
            clock[0] += log1p(-schedule[i, 1])
            if clock[0] < 0.0:
                mark[own] = clock[0]
            for k in range(len(part)):
                row = state[k]
                row[own] = part[k]
        return -1

    return compiled(loop)


def full_loop(
    one, X, y, weight, schedule, forgetting, noise, prior,
    pull, mean, precision, covariance, total, clock, eta, spread,
):  # fmt: skip
    """The loop over dense rows with a full covariance: natural-gradient steps."""
    for i in range(len(y)):
        x, w = X[i], weight[i]
        if forgetting < 1.0:
            pull *= forgetting
            precision *= forgetting
            precision += (1.0 - forgetting) * prior
            covariance[:] = np.linalg.inv(precision)
            mean[:] = covariance @ pull
        eta[i] = x @ mean
        reach = covariance @ x
        spread[i] = max(x @ reach, 0.0)
        if not (abs(eta[i]) < HUGE * (1.0 + abs(y[i])) and spread[i] < inf):
            return i
        total += w * mean
        slope, bend = one(eta[i], sqrt(spread[i]), y[i], noise)
        size, share = schedule[i]
        gain = size * w * bend
        if share > 0.0:
            pull *= 1.0 - share
            precision += share * (prior - precision)
        pull += (size * w * (bend * eta[i] - slope)) * x
        add_outer(precision, gain, x)
        clock[0] += 1.0
        clock[1] += w
        if share > 0.0 or is_refreshed(int(clock[0])):
            covariance[:] = np.linalg.inv(precision)
            mean[:] = covariance @ pull
        else:
            reach /= 1.0 + gain * spread[i]
            add_outer(covariance, -gain * (1.0 + gain * spread[i]), reach)
            mean -= (size * w * slope) * reach
    return -1


def is_refreshed(step):
    """Whether mean and covariance are computed afresh after a step, counted from 1."""
    return step & (step - 1) == 0 or step % 1000 == 0


def add_outer(matrix, factor, vector):
    """Add ``factor vector vector^T`` to a symmetric matrix, in place."""
    dger(factor, vector, vector, a=matrix.T, overwrite_a=True)
