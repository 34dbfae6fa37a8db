"""
One Gaussian, orbits, boosted
=============================

Three approximations of the same posteriors, each with its Kullback-Leibler divergence
from the truth, which is known here by quadrature. One posterior is merely skewed, as
those of regressions are; the other is bent.
"""

# %%
# Two posteriors
# --------------
# Five rows of a logistic regression with two coefficients, and a density whose second
# coordinate follows the square of the first.

import autograd.numpy as np
import matplotlib.pyplot as plt

from skboost import boost_posterior

plt.style.use("skboost.inspection.figures")

X = np.array([[1.0, 0.5], [2.0, -0.5], [0.5, 1.5], [1.5, 1.0], [-0.5, 0.5]])
signs = np.array([1.0, 1.0, 1.0, 1.0, -1.0])


def few_rows(theta):
    logits = signs * np.dot(theta, X.T)
    return np.sum(-np.logaddexp(0.0, -logits), axis=1) - np.sum(theta**2, axis=1) / 18.0


def bent(theta):
    x, y = theta[:, 0], theta[:, 1]
    return -(x**2) / 8.0 - 2.0 * (y - x**2 / 4.0) ** 2


# %%
# Three ways
# ----------
# The first is ordinary variational inference. The second reweights the same Gaussian,
# by moving draws to the more probable of some images (``orbit="auto"``). The third,
# the default, adds components while they are worth it, and reweights them at the end.

ways = {
    "one Gaussian": {"max_iter": 1, "orbit": None},
    "with orbits": {"max_iter": 1},
    "boosted, with orbits": {},
}
places = {
    "few rows": (few_rows, np.linspace(-4, 12, 161), np.linspace(-6, 10, 161)),
    "bent": (bent, np.linspace(-7, 7, 161), np.linspace(-3, 11, 161)),
}


def on_grid(log_density, points, cell):
    """A density on a grid, normalised there."""
    value = np.exp(log_density - np.max(log_density))
    return value / (np.sum(value) * cell)


fig, axes = plt.subplots(2, 3, figsize=(9, 6), sharey="row")
for row, (name, (log_density, x, y)) in zip(axes, places.items(), strict=True):
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    cell = (x[1] - x[0]) * (y[1] - y[0])
    truth = on_grid(log_density(points), points, cell)
    for ax, (way, options) in zip(row, ways.items(), strict=True):
        result = boost_posterior(log_density, dim=2, random_state=0, **options)
        log_q = result.posterior.log_density(points)
        q = np.exp(log_q)
        inside = q > 0
        ratio = log_q[inside] - np.log(truth[inside])
        kl = np.sum(q[inside] * ratio) * cell
        heights = np.max(truth) * np.array([0.03, 0.2, 0.6])
        shape = (len(y), len(x))
        ax.contourf(x, y, truth.reshape(shape), [*heights, np.max(truth)], cmap="Greys")
        ax.contour(x, y, q.reshape(shape), heights, colors="C0", linewidths=1.2)
        n = result.posterior.n_components
        parts = "1 component" if n == 1 else f"{n} components"
        ax.set_title(f"{way}\n{parts}, KL {kl:.3f}", fontsize="medium")
    row[0].set_ylabel(name)

# %%
# Grey is the truth, lines are the approximation. On the skewed posterior orbits
# find most of what one Gaussian lacks, for some thousand evaluations and no further
# component. On the bent one orbits alone help little, and components are needed.
# Boosting ends when no more remains than a Gaussian fitted to 1,000 exact draws would
# leave: sooner on the first than on the second.
