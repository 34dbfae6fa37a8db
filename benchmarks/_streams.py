"""Streams of rows in random orders, and rivals that learn from them one row at a time.

The rivals here are vectorised over orders and rates: row t of every order is taken at
the same time, so that a whole grid of rates costs little more than one.
"""

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

from skboost.targets import logistic_gaussian_expectations


def generated(n_rows=5000, dim=10, seed=0):
    """Rows of a logistic model whose coefficients are standard normal."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim))
    eta = X @ rng.standard_normal(dim)
    return X, (rng.uniform(size=n_rows) < 1.0 / (1.0 + np.exp(-eta))).astype(float)


def generated_linear(n_rows=2000, dim=10, seed=0):
    """Rows of a linear model with noise of standard deviation 1/2, standardised."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim))
    y = X @ rng.standard_normal(dim) / 2 + 0.5 * rng.standard_normal(n_rows)
    return X, scale(y)


def streams(shared):
    """Name -> (X standardised, y, kind, whether rates were tuned on it)."""
    X, y = load_breast_cancer(return_X_y=True)
    found = {
        "generated": (*generated(), "logistic", True),
        "breast cancer": (scale(X), y.astype(float), "logistic", True),
    }
    X, y = load_diabetes(return_X_y=True)
    linear = {
        "generated, linear": (*generated_linear(), "linear", True),
        "diabetes": (scale(X), scale(y), "linear", True),
    }
    if shared is not None:
        pima, forest, boston = map(shared.load, ("pima", "covtype_20k", "boston"))
        X = forest["X"].astype(float)
        X = X[:, X.std(axis=0) > 0]
        found["pima"] = (scale(pima["X"].astype(float)), pima["y"] * 1.0)
        found["forest cover"] = (scale(X), (forest["y"] == 2).astype(float))
        for name in ("pima", "forest cover"):
            found[name] = (*found[name], "logistic", False)
        X, y = boston["X"].astype(float), boston["y"].astype(float)
        linear["boston"] = (scale(X), scale(y), "linear", False)
    return found | linear


def orders(n_rows, n_orders):
    """Permutations of the rows, (n_orders, n_rows)."""
    return np.stack(
        [np.random.default_rng(i).permutation(n_rows) for i in range(n_orders)]
    )


class Logistic:
    """Loss of the logistic model, and of its expectation over a Gaussian."""

    @staticmethod
    def loss(eta, y):
        return np.logaddexp(0.0, eta) - y * eta

    @staticmethod
    def slope(eta, y):
        return 1.0 / (1.0 + np.exp(-np.clip(eta, -500, 500))) - y

    @staticmethod
    def expected(mean, sd, y):
        _, sigmoid, bend = logistic_gaussian_expectations(mean, sd)
        return sigmoid - y, bend


class Normal:
    """Loss of the linear model with known noise."""

    def __init__(self, noise_scale):
        self.precision = noise_scale**-2.0

    def loss(self, eta, y):
        return 0.5 * self.precision * (y - eta) ** 2 - 0.5 * np.log(
            self.precision / (2 * np.pi)
        )

    def slope(self, eta, y):
        return self.precision * (eta - y)

    def expected(self, mean, sd, y):
        return self.slope(mean, y), np.full_like(mean, self.precision)


def gradient_descent(X, y, rows, rates, power, loss, averaged=False):
    """Online gradient descent; rates times ``t ** power``.

    Returns
    -------
    ndarray of shape (n_rates, n_orders, n_rows)
        Loss of every row before its update, at the last or at the averaged iterate.
    """
    out = np.empty((len(rates), *rows.shape))
    theta = np.zeros((len(rates), len(rows), X.shape[1]))
    total = np.zeros_like(theta)
    for t in range(rows.shape[1]):
        x, target = X[rows[:, t]], y[rows[:, t]]
        eta = np.einsum("rod,od->ro", theta, x)
        if averaged:
            total += theta
            at = np.einsum("rod,od->ro", total, x) / (t + 1)
        else:
            at = eta
        out[:, :, t] = loss.loss(at, target)
        size = rates[:, None] * (t + 1.0) ** power * loss.slope(eta, target)
        theta -= size[:, :, None] * x
    return out


def gradient_descent_expected(X, y, rows, rates, power, loss):
    """The same on the expected loss, in means and in deviations that begin at 1."""
    out = np.empty((len(rates), *rows.shape))
    mean = np.zeros((len(rates), len(rows), X.shape[1]))
    sd = np.ones_like(mean)
    for t in range(rows.shape[1]):
        x, target = X[rows[:, t]], y[rows[:, t]]
        eta = np.einsum("rod,od->ro", mean, x)
        spread = np.sqrt(np.einsum("rod,od->ro", sd**2, x**2))
        out[:, :, t] = loss.loss(eta, target)
        with np.errstate(over="ignore", invalid="ignore"):
            slope, bend = loss.expected(eta, spread, np.broadcast_to(target, eta.shape))
        size = rates[:, None] * (t + 1.0) ** power
        mean -= (size * slope)[:, :, None] * x
        sd -= (size * bend)[:, :, None] * x**2 * sd
        # Beyond zero is nowhere to go: the density needs a positive scale.
        np.maximum(sd, 1e-3, out=sd)
    return out


def best_parameter(X, y, loss):
    """The parameter with the least mean loss on all rows."""

    def objective(theta):
        eta = X @ theta
        return loss.loss(eta, y).mean(), X.T @ loss.slope(eta, y) / len(y)

    return minimize(objective, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B",
                    options={"maxiter": 500}).x  # fmt: skip


def best_fixed(X, y, loss):
    """Least total loss of one parameter on all rows, nats."""
    return loss.loss(X @ best_parameter(X, y, loss), y).sum()
