"""All weights at once: a convex solver on the simplex with a certificate."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dgesv
from scipy.optimize import nnls

from skboost.frank_wolfe._step_size import exact_step


def minimise_on_simplex(objective, weights0, tol=1e-10, max_iter=100):
    """Weights that minimise a convex function over the simplex, and their gap, a
    certificate.

    Newton's method by an active set, after a few mirror-descent steps, which find
    orders of magnitude where Newton's model of x ln x is poor. A Newton step that does
    not halve the gap is mended by a mirror step, or an exact Frank-Wolfe line search.
    The gap is above `tol` only where rounding or `max_iter` Newton steps ended the
    search.
    """
    weights = np.array(weights0, dtype=float)
    weights /= weights.sum()
    if len(weights) == 1:
        return weights, 0.0
    zeros = weights == 0
    # Share of the start that is spread over the components of zero weight, so that
    # every component is tried.
    spread = 0.1
    if zeros.any():
        weights = np.where(zeros, spread / zeros.sum(), (1.0 - spread) * weights)
    point = _Point(objective, weights)
    n_mirror_steps = 3
    for _ in range(n_mirror_steps):
        mirrored = _mirror_step(point)
        point = mirrored if mirrored.value < point.value else point
    best = point
    for _ in range(max_iter):
        if best.gap <= tol:
            break
        point = _next_point(point)
        if point is None:
            break
        best = point if point.gap < best.gap else best
    return _drop_negligible(best, tol)


class _Point:
    """Weights with what is known about the objective there, each computed once."""

    def __init__(self, objective, weights):
        self.objective = objective
        self.weights = weights / weights.sum()
        self.value, self.slope = objective.value_and_slope(self.weights)
        self.level = float(self.weights @ self.slope)
        self.gap = self.level - float(self.slope.min())

    def at(self, weights):
        return _Point(self.objective, weights)


def _next_point(point):
    """A point with half the gap, else a lower value or gap; None if rounding ends it.

    The gap is asked first: a weight of 1e-10 may be wrong by half and change the value
    by less than its rounding, and the gap by 0.1.
    """
    tried = []
    for candidate in _candidates(point):
        if candidate.gap <= 0.5 * point.gap:
            return candidate
        tried.append(candidate)
    least_fall = 1e-15 * (1.0 + abs(point.value))
    lowest = min(tried, key=lambda candidate: candidate.value)
    falls = lowest.value < point.value - least_fall
    tried.append(_frank_wolfe_step(lowest if falls else point))
    lowest = min(tried, key=lambda candidate: candidate.value)
    if lowest.value < point.value - least_fall:
        return lowest
    tightest = min(tried, key=lambda candidate: candidate.gap)
    return tightest if tightest.gap < 0.99 * point.gap else None


def _candidates(point):
    """Undamped steps, the quickest road to the optimum first, each on demand."""
    weights, slope = point.weights, point.slope
    # Components at zero that the slope does not ask for stay there: their part of
    # the Hessian, the costliest thing here, is never formed.
    active = np.flatnonzero((weights > 0) | (slope < point.level))
    hessian = point.objective.hessian(weights, active)
    target = np.zeros_like(weights)
    target[active] = _minimise_quadratic(hessian, slope[active], weights[active])
    newton = point.at(target)
    yield newton
    yield _mirror_step(newton)
    yield _mirror_step(point)


def _mirror_step(point):
    """Multiplicative step, exact for components that do not overlap; it never raises
    a KL."""
    least = point.slope[point.weights > 0].min()
    factors = np.exp(np.minimum(least - point.slope, 0.0))
    return point.at(point.weights * factors)


def _frank_wolfe_step(point):
    """Exact line search toward the component with the smallest slope."""
    vertex = np.zeros_like(point.weights)
    vertex[np.argmin(point.slope)] = 1.0
    t = exact_step(point.objective, point.weights, vertex)
    return point.at((1.0 - t) * point.weights + t * vertex)


def _minimise_quadratic(hessian, slope, start):
    """Minimiser over the simplex of slope.(y - start) + (y - start)'H(y - start)/2.

    A primal active-set method: a search that is cut short still gives a descent
    direction.
    """
    # The ridge follows the diagonal because components far away have entries of 1e20.
    diagonal = np.diag(hessian)
    positive = diagonal[diagonal > 0]
    least = np.median(positive) if positive.size else 1.0
    # Relative ridge: makes the model strictly convex where components coincide, and is
    # far too small to slow Newton's method down.
    ridge = 1e-12
    hessian = hessian + np.diag(ridge * np.maximum(diagonal, least))
    y, free = start.copy(), start > 0
    for _ in range(4 * len(y) + 10):
        p, level = _equality_step(hessian, slope + hessian @ (y - start), free)
        if p is None:
            break
        ratios = np.full(len(y), np.inf)
        np.divide(-y, p, out=ratios, where=p < 0)
        blocking = int(np.argmin(ratios))
        y = np.maximum(y + min(ratios[blocking], 1.0) * p, 0.0)
        if ratios[blocking] < 1.0:
            y[blocking] = 0.0
            free[blocking] = False
            continue
        excess = np.where(free, 0.0, slope + hessian @ (y - start) - level)
        entering = int(np.argmin(excess))
        if excess[entering] >= -1e-13 * (1.0 + abs(level)):
            break
        free[entering] = True
    return y / y.sum()


def _equality_step(hessian, gradient, free):
    """Newton step of free variables that keeps their sum, by one more row, and its
    multiplier."""
    index = np.flatnonzero(free)
    n = len(index)
    block = hessian[index[:, None], index]
    scale = np.append(1.0 / np.sqrt(np.diag(block)), 1.0)
    scale[n] = 1.0 / np.linalg.norm(scale[:n])
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = block
    system[n, :n] = system[:n, n] = 1.0
    side = np.append(-gradient[index], 0.0)
    *_, solution, info = dgesv(system * scale * scale[:, None], side * scale)
    solution *= scale
    if info != 0 or not np.isfinite(solution).all():
        return None, 0.0
    p = np.zeros(len(free))
    p[index] = solution[:n]
    return p, -solution[n]


def _drop_negligible(point, tol):
    """Zero the weights that all together matter less than ``tol``, and certify it."""
    small = point.weights < 1e-2 * tol / len(point.weights)
    kept = point.at(np.where(small, 0.0, point.weights))
    # The slope may be steep at zero although nothing is gained there, so the gap is
    # carried over from the point before by the difference in value.
    lost = max(kept.value - point.value, 0.0)
    if small.any() and lost <= tol:
        return kept.weights, min(kept.gap, point.gap + lost)
    return point.weights, point.gap


# --- coefficients of square roots (Campbell and Li 2019, Algorithm 1)


def best_coefficients(gram, overlaps):
    """The non-negative unit combination of roots with the largest overlap.

    It maximises ``x @ overlaps`` where ``x @ gram @ x = 1`` as the non-negative least
    squares problem ``|L^T x - L^-1 d|``, ``gram = L L^T``; some overlap is positive.
    """
    # Two nearly equal roots make the Gram matrix singular to rounding: a condition
    # number of 1e12 is where it stops.
    ridged = gram + 1e-12 * np.eye(len(gram))
    lower = cholesky(ridged, lower=True)
    scaled = overlaps / np.abs(overlaps).max()
    x, _ = nnls(lower.T, solve_triangular(lower, scaled, lower=True))
    return x / np.sqrt(x @ gram @ x)
