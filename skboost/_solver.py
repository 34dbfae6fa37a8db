"""Quasi-Newton ascent on problems with fixed draws."""

from contextlib import suppress

import numpy as np
from scipy.optimize import minimize

from skboost._budget import BudgetSpent

# Below this many nats an iteration's gain is rounding.
SMALLEST_TOL = 1e-9
# Iterations in a row that a search is judged by: one short step says little.
WINDOW = 3
# As good as infinite: draws with larger values have no variance.
_WALL = 1e150


def ascend(
    problem, x=None, max_iter=60, tol=1e-5, budget=None, listener=None, share=0.0
):
    """The best point of a problem by limited-memory BFGS, and its value in nats.

    A problem has ``start``, ``limits`` and ``value_and_gradient(x)``, and ``scale``
    where coordinates divided by it are better conditioned. Limited coordinates go
    through ``limit * tanh(z / limit)``: SciPy's solver spends more time on bound
    constraints than the problem on its densities.

    A search ends when an iteration gains less than `tol` nats, far below the Monte
    Carlo error of the draws, so that more would fit noise; when the last `WINDOW`
    gained less than `share` of what the whole search has; and where nothing is left of
    the budget. The listener is called with the point that every iteration ends at.
    """
    limits = problem.limits
    limited = np.isfinite(limits)
    bound = limits[limited]

    scale = getattr(problem, "scale", np.ones(len(limits)))

    def squashed(z):
        x = scale * z
        x[limited] = bound * np.tanh(x[limited] / bound)
        return x

    def value_and_gradient(z):
        x = squashed(z)
        value, gradient = problem.value_and_gradient(x)
        gradient[limited] *= 1.0 - (x[limited] / bound) ** 2
        return value, scale * gradient

    start = problem.start if x is None else x
    z = start.copy()
    z[limited] = bound * np.arctanh(np.clip(z[limited] / bound, -0.999, 0.999))
    options = {"maxiter": max_iter, "gtol": 1e-7}
    heard = None if listener is None else lambda z: listener(squashed(z))
    z, value = climb(
        value_and_gradient,
        z / scale,
        options,
        tol,
        natural=True,
        budget=budget,
        listener=heard,
        share=share,
    )
    return (squashed(z) if np.isfinite(value) else start), value


def climb(
    value_and_gradient,
    z,
    options,
    tol=None,
    natural=False,
    budget=None,
    listener=None,
    share=0.0,
):
    """The best point that limited-memory BFGS evaluates, and its value.

    A trial step may leave the range of floating point or the support of a density: a
    value or slope that is not finite is a wall, from which the search steps back. The
    value is -inf where nothing finite was found. `natural` says that the curvature is
    about one, so that the gradient itself is the first step to try: else its length is
    one, which overshoots where little is left. The rest is as in `ascend`; without
    `tol`, SciPy's own rule ends the search.
    """
    best, unit, known = [-np.inf, z], 1.0, []

    def negative(y):
        if known:
            # SciPy asks for the start first.
            value, slope = known.pop()
            return value, unit * slope
        if budget is not None and np.isfinite(best[0]):
            budget.check()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            z = unit * y
            value, gradient = value_and_gradient(z)
        if not (abs(value) < _WALL and np.isfinite(gradient).all()):
            # The line search backs off from a wall, and never learns its slope.
            return _WALL, np.zeros_like(z)
        if value > best[0]:
            best[:] = value, z.copy()
        return -value, -unit * gradient

    # What was found until the budget is spent is the answer.
    with suppress(BudgetSpent):
        known.append(negative(z))
        value, slope = known[0]
        if tol is not None:
            options = options | {"ftol": tol / max(1.0, abs(value))}
        if natural:
            unit = min(1.0, np.linalg.norm(slope)) or 1.0
            options = options | {"gtol": unit * options["gtol"]}
        minimize(
            negative,
            z / unit,
            jac=True,
            method="L-BFGS-B",
            options=options,
            callback=_after_each(best, unit, share, listener),
        )
    return best[1], best[0]


def _after_each(best, unit, share, listener):
    """Hears where every iteration ends, and ends a search that has become flat."""
    values = [best[0]]

    def ended(y):
        if listener is not None:
            listener(unit * y)
        values.append(best[0])
        least = share * (values[-1] - values[0])
        if len(values) > WINDOW and values[-1] - values[-1 - WINDOW] < least:
            raise StopIteration

    return ended
