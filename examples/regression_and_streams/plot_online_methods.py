"""
Four ways to learn from a stream
================================

The same stream of binary outcomes, seen by natural-gradient inference (NGVI) with a
full and a diagonal covariance, streaming variational Bayes (SVB) and sequential
variational approximation (SVA), each with its defaults, and by stochastic gradient
descent at three rates. Every row is predicted before it is learned from.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skboost import OnlineBayesianLogisticRegression

plt.style.use("skboost.inspection.figures")

# %%
# Ten correlated features, as measurements of one thing are.

rng = np.random.default_rng(1)
n_rows, dim = 4000, 10
shared = rng.standard_normal((n_rows, 1))
X = 0.7 * shared + 0.7 * rng.standard_normal((n_rows, dim))
coef = rng.standard_normal(dim)
y = (X @ coef + rng.logistic(size=n_rows) > 0).astype(int)

# %%
# Loss so far, at some numbers of rows.

points = np.unique(np.geomspace(5, n_rows, 50).astype(int))
models = {
    "NGVI, full": OnlineBayesianLogisticRegression(covariance="full"),
    "NGVI, diagonal": OnlineBayesianLogisticRegression(covariance="diag"),
    "SVB": OnlineBayesianLogisticRegression(method="svb"),
    "SVA": OnlineBayesianLogisticRegression(method="sva"),
}
curves = {}
for name, model in models.items():
    curves[name] = []
    for begin, end in zip([0, *points[:-1]], points, strict=True):
        model.partial_fit(X[begin:end], y[begin:end], classes=[0, 1])
        curves[name].append(model.cumulative_loss_)


def gradient_descent(rate):
    """Cumulative loss of online gradient descent."""
    theta, losses = np.zeros(dim + 1), np.empty(n_rows)
    for t, (x, label) in enumerate(zip(np.c_[X, np.ones(n_rows)], y, strict=True)):
        eta = x @ theta
        losses[t] = np.logaddexp(0.0, eta) - label * eta
        theta -= rate / np.sqrt(t + 1.0) * (1.0 / (1.0 + np.exp(-eta)) - label) * x
    return np.cumsum(losses)[points - 1]


for rate in (0.1, 0.5, 2.5):
    curves[f"SGD, rate {rate}"] = gradient_descent(rate)

# %%
# What the best fixed coefficients would have cost, in hindsight: the difference is the
# regret.

best = LogisticRegression(C=np.inf).fit(X, y)
eta = best.decision_function(X)
least = np.sum(np.logaddexp(0.0, eta) - y * eta)
for name, curve in curves.items():
    average = curve[-1] / n_rows
    print(f"{name:15s} {average:.4f} nats per row, regret {curve[-1] - least:6.1f}")

# %%
# The average loss so far. Gradient descent depends on its rate; the Bayesian methods
# run with one setting for all streams. The curve of SVB hides that of NGVI with a
# diagonal covariance, and losses of the first rows are above the frame.

figure, ax = plt.subplots(figsize=(7.5, 4))
greys = iter(["0.3", "0.5", "0.7"])
for name, curve in curves.items():
    style = {"color": next(greys), "ls": "--"} if "SGD" in name else {}
    ax.plot(points, np.array(curve) / points, label=name, **style)
ax.axhline(least / n_rows, color="k", linestyle=":", label="best fixed coefficients")
ax.set(xscale="log", xlabel="rows so far", ylabel="average loss (nats)")
ax.set_ylim(0.3, 0.75)
figure.legend(loc="outside right upper")

# %%
# The posterior of NGVI beside the true coefficients. The diagonal one, whose default
# weighs each row less, is wider and predicts a little worse.

figure, ax = plt.subplots(figsize=(7.5, 3.8))
for shift, name in ((-0.15, "NGVI, full"), (0.15, "NGVI, diagonal")):
    model = models[name]
    ax.errorbar(
        np.arange(dim) + shift,
        model.coef_[0],
        2 * model.coef_std_[0],
        fmt="o",
        label=name,
    )
ax.plot(coef, "k_", markersize=18, label="truth")
ax.set(xlabel="number of the coefficient", ylabel="mean ± 2 sd", xticks=range(dim))
figure.legend(loc="outside upper center", ncols=3)
plt.show()
