"""Quasi-Newton ascent on problems with fixed draws."""

import numpy as np
from scipy.optimize import minimize

# Below this many nats an iteration's gain is rounding.
SMALLEST_TOL = 1e-9


def ascend(problem, x=None, max_iter=60, tol=1e-5):
    """Maximise a problem from its start by limited-memory BFGS.

    Limited coordinates go through ``limit * tanh(z / limit)``: SciPy's solver spends
    more time on bound constraints than the problem on its densities.

    Parameters
    ----------
    problem : object
        With ``start``, ``limits`` (coordinates stay within plus or minus these, inf
        for free ones) and ``value_and_gradient(x)``.
    x : ndarray, default=None
        Where to start, if not at ``problem.start``.
    max_iter : int, default=60
        Quasi-Newton iterations.
    tol : float, default=1e-5
        Stop when an iteration gains less than this many nats: far below the Monte
        Carlo error of the draws, so that more would fit noise.

    Returns
    -------
    x : ndarray
        The best point that was evaluated.
    value : float
        The objective there, nats.
    """
    limits = problem.limits
    limited = np.isfinite(limits)
    bound = limits[limited]
    best = [-np.inf, problem.start if x is None else x]

    def squashed(z):
        x = z.copy()
        x[limited] = bound * np.tanh(z[limited] / bound)
        return x

    def negative(z):
        x = squashed(z)
        # A trial step may leave the range of floating point; it is refused below.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value, gradient = problem.value_and_gradient(x)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            # The line search backs off from a wall, and never learns its slope.
            return 1e300, np.zeros_like(z)
        if value > best[0]:
            best[:] = value, x
        gradient[limited] *= 1.0 - (x[limited] / bound) ** 2
        return -value, -gradient

    z = best[1].copy()
    z[limited] = bound * np.arctanh(np.clip(z[limited] / bound, -0.999, 0.999))
    scale = max(1.0, abs(negative(z)[0]))
    minimize(
        negative,
        z,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "ftol": tol / scale, "gtol": 1e-7},
    )
    return best[1], best[0]
