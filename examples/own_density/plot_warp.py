"""
Bananas and funnels
===================

A mixture of Gaussians describes two modes with two components, and a banana with
dozens. ``boost_posterior(..., warp="auto")`` fits a map first, one that bends, scales
and skews a Gaussian, and boosts behind it. Here are two posteriors that are hard for
mixtures and easy for a map, and one that is the other way round.
"""

# sphinx_gallery_thumbnail_number = 2

# %%
# Two densities whose normaliser is known
# ---------------------------------------
# Three bananas side by side, in six dimensions. In Neal's funnel the first coordinate
# is the logarithm of the variance of all others, as the scale of a hierarchical model
# is: narrow where it is small, wide where it is large.

import warnings

import autograd.numpy as np
import matplotlib.pyplot as plt
from autograd.scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from skboost import boost_posterior
from skboost.inspection import PosteriorDisplay

plt.style.use("skboost.inspection.figures")

# A single Gaussian is not meant to come close, and says so.
warnings.simplefilter("ignore", ConvergenceWarning)

DIM = 6


def banana(theta):
    """x ~ N(0, 4) and y ~ N(x^2 / 4, 1 / 4), three times."""
    x, y = theta[:, ::2], theta[:, 1::2]
    return np.sum(norm.logpdf(x, 0.0, 2.0) + norm.logpdf(y, 0.25 * x**2, 0.5), axis=1)


def funnel(theta):
    """v ~ N(0, 4), and five coordinates N(0, e^v)."""
    v, rest = theta[:, :1], theta[:, 1:]
    each = norm.logpdf(rest, 0.0, np.exp(0.5 * v))
    return norm.logpdf(v[:, 0], 0.0, 2.0) + np.sum(each, axis=1)


def fits(log_density, dim):
    """One Gaussian, ten Gaussians, and boosting behind a warp."""
    call = {"dim": dim, "random_state": 0}
    return {
        "one Gaussian": boost_posterior(log_density, max_iter=1, **call),
        "ten Gaussians": boost_posterior(log_density, max_iter=10, tol=1e-3, **call),
        "warped": boost_posterior(log_density, warp="auto", **call),
    }


# %%
# Both densities are normalised, so that minus the ELBO on new draws is the divergence
# :math:`\mathrm{KL}(q \,\|\, p)` itself. Nothing of that is known to the fits.


def divergence(log_density, posterior):
    """KL(q || p) in nats, on 20,000 new draws."""
    theta = posterior.sample(20_000, random_state=1)
    return np.mean(posterior.log_density(theta) - log_density(theta))


found = {name: fits(f, DIM) for name, f in [("banana", banana), ("funnel", funnel)]}
for name, log_density in [("banana", banana), ("funnel", funnel)]:
    print(name)
    for label, result in found[name].items():
        kl = divergence(log_density, result.posterior)
        n = result.posterior.n_components
        print(f"  {label:14s} components {n:2d}   KL(q || p) {kl:.3f} nats")
    print(f"  {found[name]['warped'].warp.reason}")

# %%
# One Gaussian behind the map does better than ten without. The report says how many
# pairs of coordinates it found: in ``n_curves`` those of which one bends the mean of
# the other, in ``n_scales`` those of which one changes the scale of the other.

for name in found:
    report = found[name]["warped"].warp
    print(f"{name}: bends {report.n_curves}, scales {report.n_scales}, {report.axes}")

# %%
# Pictures
# --------
# Two coordinates of each: the lines are the exact density of the pair, the points are
# draws of the posterior. One Gaussian describes the middle. Ten leave out the ends of
# the banana, for there are three of them, and a mixture has to cover every combination.
# The warped Gaussian reaches them all.

frames = {
    "banana": (np.linspace(-7.0, 7.0, 281), np.linspace(-2.0, 12.0, 281)),
    "funnel": (np.linspace(-6.0, 6.0, 281), np.linspace(-8.0, 8.0, 281)),
}


def exact_pair(name, x, y):
    """Log density of the first two coordinates, shape (len(y), len(x))."""
    if name == "banana":
        return norm.logpdf(x, 0.0, 2.0) + norm.logpdf(y[:, None], 0.25 * x**2, 0.5)
    return norm.logpdf(x, 0.0, 2.0) + norm.logpdf(y[:, None], 0.0, np.exp(0.5 * x))


fig, axes = plt.subplots(2, 3, figsize=(9.5, 6.4))
for row, (name, (x, y)) in zip(axes, frames.items(), strict=True):
    height = exact_pair(name, x, y)
    for ax, (label, result) in zip(row, found[name].items(), strict=True):
        draws = result.posterior.sample(3000, random_state=2)
        ax.plot(draws[:, 0], draws[:, 1], ".", ms=1.5, alpha=0.4, color="C0")
        levels = height.max() - np.array([6.0, 4.0, 2.0, 0.7])
        ax.contour(x, y, height, levels, colors="black", linewidths=0.7)
        ax.set(xlim=x[[0, -1]], ylim=y[[0, -1]], title=f"{name}: {label}")
        ax.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")

# %%
# A warped posterior is a posterior like any other
# ------------------------------------------------
# Draws, densities, marginals, intervals and files are on your scale.

posterior = found["banana"]["warped"].posterior
print(posterior.interval(0.9).round(2))
print(posterior.modes()[0].location.round(2))

display = PosteriorDisplay.from_result(found["banana"]["warped"], [0, 1], kind="pair")

# %%
# Where a map is no help
# ----------------------
# Two modes are two components, and no smooth map of one Gaussian. The run sees that a
# second component gains more, or that there are several modes, and goes on without.


def two_bumps(theta):
    """An even mixture of two normals."""
    near = np.sum(norm.logpdf(theta, -1.6, 1.0), axis=1)
    far = np.sum(norm.logpdf(theta, 1.6, 1.0), axis=1)
    return np.logaddexp(near, far) - np.log(2.0)


result = boost_posterior(two_bumps, dim=2, warp="auto", random_state=0)
print(result.warp.reason)
print(f"{result.posterior.n_components} components, "
      f"KL(q || p) {divergence(two_bumps, result.posterior):.4f} nats")  # fmt: skip
plt.show()
