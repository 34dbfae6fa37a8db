"""Small problems on the simplex whose solutions are known."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from skboost.frank_wolfe import WeightObjective, apply


class Quadratic:
    """(w - center)' H (w - center) / 2, a stand-in without any noise."""

    def __init__(self, hessian, center):
        self.H, self.center = np.asarray(hessian), np.asarray(center)

    def value(self, weights):
        return float(0.5 * (weights - self.center) @ self.slope(weights))

    def slope(self, weights):
        return self.H @ (weights - self.center)

    def value_and_slope(self, weights):
        return self.value(weights), self.slope(weights)

    def difference(self, weights, other):
        return self.value(weights) - self.value(other), 0.0

    def along(self, weights, end):
        d = end - weights
        return lambda t: float(self.slope((1.0 - t) * weights + t * end) @ d)

    def hessian(self, weights, columns=None):
        return self.H if columns is None else self.H[np.ix_(columns, columns)]


def log_weights(ratio):
    """Logarithms, where zeros are legal."""
    with np.errstate(divide="ignore"):
        return np.log(ratio)


def gaussian_table(means, sds, log_joint, n_draws=400, seed=0):
    """Weight objective of one-dimensional Gaussian components, equal pools."""
    rng = np.random.default_rng(seed)
    means, sds = np.asarray(means, float), np.asarray(sds, float)
    z = (means[:, None] + sds[:, None] * rng.normal(size=(len(means), n_draws))).ravel()
    log_s = norm.logpdf(z[:, None], means, sds)
    log_r = np.logaddexp.reduce(log_s, axis=1) - np.log(len(means))
    log_ratio = log_s - log_r[:, None]
    offset = np.exp(log_ratio) * (log_r - log_joint(z))[:, None]
    return WeightObjective(log_ratio, offset, log_r)


def two_modes(z):
    return np.logaddexp(
        np.log(0.3) + norm.logpdf(z, -40, 1), np.log(0.7) + norm.logpdf(z, 40, 1)
    )


def _problems():
    hessian = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]])
    inside = np.array([0.5, 0.2, 0.3])
    # center - H^-1 shift makes the multiplier of the third weight positive.
    face = np.array([0.4, 0.6, 0.0])
    center = face - np.linalg.solve(hessian, [0.0, 0.0, 0.5])
    return {
        "quadratic, optimum inside": (Quadratic(hessian, inside), inside),
        "quadratic, optimum on a face": (Quadratic(hessian, center), face),
        # Draws never cross over, so these weights are exact whatever the draws.
        "two far modes": (
            gaussian_table([-40, 40, 0], [1, 1, 1], two_modes, n_draws=100),
            np.array([0.3, 0.7, 0.0]),
        ),
    }


PROBLEMS = _problems()


@pytest.fixture(params=list(PROBLEMS))
def problem(request):
    objective, optimum = PROBLEMS[request.param]
    return SimpleNamespace(objective=objective, optimum=optimum)


@pytest.fixture
def quadratic():
    return Quadratic


@pytest.fixture
def table():
    return gaussian_table


@pytest.fixture
def descend():
    """Frank-Wolfe loop in which the best vertex plays the new component."""

    def run(objective, strategy, rule, n_iter, start):
        weights, memory, steps = np.array(start, float), None, []
        for iteration in range(1, n_iter + 1):
            slope = objective.slope(weights)
            direction = strategy(slope, weights, int(np.argmin(slope)))
            step = rule.choose(objective, weights, direction, memory, iteration)
            weights = apply(weights, step.direction, step.gamma)
            memory = step.memory
            steps.append(step)
        return weights, steps

    return run
