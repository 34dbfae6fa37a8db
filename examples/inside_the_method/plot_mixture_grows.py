r"""
How a mixture grows
===================

Boosting builds a posterior component by component. The first one is ordinary
variational inference. Further ones go where the mixture falls short (two at once where
much is left), all weights are chosen anew, and old components move to make room.

Here is one run on a banana, seen after 1, 2, 3 and 6 iterations.
"""

# %%
# A density with a known divergence
# ---------------------------------
# Here :math:`x \sim N(0, 2^2)`, and :math:`y` is a parabola of :math:`x` plus normal
# noise of standard deviation one half. The density integrates to one, so that the
# Kullback-Leibler divergence from it can be integrated, in the coordinates that
# straighten it.

# sphinx_gallery_thumbnail_number = 2

import autograd.numpy as np
import matplotlib.pyplot as plt
from matplotlib.patches import Ellipse

from skboost import boost_posterior

plt.style.use("skboost.inspection.figures")


def log_density(theta):
    """Log density at points of shape (n, 2); returns shape (n,)."""
    x, y = theta[:, 0], theta[:, 1]
    return -(x**2) / 8 - 2 * (y - x**2 / 4) ** 2 - np.log(2 * np.pi)


u, v = np.meshgrid(np.linspace(-16, 16, 401), np.linspace(-15, 15, 751), indexing="ij")
straight = np.column_stack([u.ravel(), v.ravel() + u.ravel() ** 2 / 4])
cell = (u[1, 0] - u[0, 0]) * (v[0, 1] - v[0, 0])


def divergence(posterior):
    """KL(q || p) in nats, by integration."""
    log_q = posterior.log_density(straight)
    return np.sum(np.exp(log_q) * (log_q - log_density(straight))) * cell


result = boost_posterior(
    log_density, dim=2, max_iter=8, tol=1e-3, orbit=None, random_state=0
)
kl = [divergence(stage) for stage in result.stages]
for stage, left in zip(result.stages, kl, strict=True):
    print(f"{stage.n_components} components: KL(q || p) {left:.4f} nats")

# %%
# Four frames
# -----------
# The filled contours are the exact density, the lines the mixture, and every cross is
# the mean of a component, the larger the more it weighs.

x, y = np.linspace(-6.5, 6.5, 261), np.linspace(-2.5, 10.0, 251)
points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
exact = np.exp(log_density(points)).reshape(len(y), len(x))
# Lines enclose the points whose density is above these shares of the highest one.
shares = np.array([0.01, 0.1, 0.3, 0.6])


def frame(ax, posterior):
    """The exact density, and a mixture on it."""
    fitted = np.exp(posterior.log_density(points)).reshape(exact.shape)
    ax.contourf(x, y, exact, [*(shares * exact.max()), exact.max()], cmap="Blues")
    ax.contour(x, y, fitted, shares * fitted.max(), colors="C1", linewidths=1.1)
    means = [posterior.marginal(i).component_locations() for i in range(2)]
    ax.scatter(*means, s=20 + 120 * posterior.weights, marker="+", c="k")


figure, axes = plt.subplots(2, 2, figsize=(7, 6), sharex=True, sharey=True)
for ax, iteration in zip(axes.flat, (1, 2, 3, 6), strict=True):
    place = min(iteration, len(kl)) - 1
    frame(ax, result.stages[place])
    n = result.stages[place].n_components
    many = "1 component" if n == 1 else f"{n} components"
    ax.set(title=f"{many}: KL {kl[place]:.3f} nats")
for ax in axes[1]:
    ax.set_xlabel("x")
for ax in axes[:, 0]:
    ax.set_ylabel("y")

# %%
# The components themselves
# -------------------------
# An ellipse of two standard deviations for each component of the last mixture, the
# darker the more it weighs. Where the banana bends, the components turn with it.

figure, ax = plt.subplots(figsize=(5.5, 4.2))
ax.contourf(x, y, exact, [*(shares * exact.max()), exact.max()], cmap="Blues")
for component, weight in zip(
    result.posterior.mixture.components, result.posterior.weights, strict=True
):
    mean, covariance = component.moments()
    values, vectors = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    width, height = 4.0 * np.sqrt(values[::-1])
    look = {"fill": False, "color": "C1", "lw": 1.6, "alpha": 0.35 + 0.65 * weight}
    ax.add_patch(Ellipse(mean, width, height, angle=angle, **look))
ax.set(xlabel="x", ylabel="y")

# %%
# The divergence that is left, by the number of components:

figure, ax = plt.subplots(figsize=(5.5, 3.4))
ax.plot([stage.n_components for stage in result.stages], kl, "o-")
ax.set(xlabel="components", ylabel="KL(q ‖ p) (nats)", yscale="log")
plt.show()
