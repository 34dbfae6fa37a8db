"""
Bananas, funnels and eight schools
==================================

A mixture of Gaussians describes two modes with two components, and a banana with
dozens. ``boost_posterior(..., warp="auto")`` fits a map first, one that bends, scales
and skews a Gaussian, and boosts behind it. Here are three posteriors that are hard for
mixtures and easier for a map, and one that is the other way round.
"""

# %%
# Three densities whose normaliser is known
# -----------------------------------------
# Three bananas side by side, in six dimensions. In Neal's funnel the first coordinate
# is the logarithm of the variance of all others, as the scale of a hierarchical model
# is: narrow where it is small, wide where it is large. The third is such a model with
# data: coaching in eight schools (Rubin 1981), whose effects are normal with a mean and
# a standard deviation that are to be inferred.

# sphinx_gallery_thumbnail_number = 2

import warnings

import autograd.numpy as np
import matplotlib.pyplot as plt
from autograd.scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from skboost import boost_posterior

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


effect = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
MU_SCALE, TAU_SCALE = 5.0, 5.0


def log_prior_tau(log_tau):
    """Half-Cauchy, as a density of the logarithm."""
    tau = np.exp(log_tau)
    return (
        np.log(2.0 / (np.pi * TAU_SCALE)) - np.log1p((tau / TAU_SCALE) ** 2) + log_tau
    )


def eight_schools(theta):
    """Logarithm of tau, mu, and the eight effects themselves ("centred")."""
    log_tau, mu, effects = theta[:, :1], theta[:, 1:2], theta[:, 2:]
    groups = norm.logpdf(effects, mu, np.exp(log_tau)) + norm.logpdf(
        effect, effects, error
    )
    prior = log_prior_tau(log_tau) + norm.logpdf(mu, 0.0, MU_SCALE)
    return prior[:, 0] + np.sum(groups, axis=1)


def fits(log_density, dim):
    """One Gaussian, ten Gaussians, and boosting behind a warp."""
    call = {"dim": dim, "random_state": 0}
    return {
        "one Gaussian": boost_posterior(log_density, max_iter=1, orbit=None, **call),
        "ten Gaussians": boost_posterior(log_density, tol=1e-3, orbit=None, **call),
        "warped": boost_posterior(log_density, warp="auto", **call),
    }


# %%
# The first two densities are normalised, so that minus the ELBO on new draws is the
# divergence :math:`\mathrm{KL}(q \,\|\, p)` itself. Of eight schools everything is
# normal once :math:`\tau` is given, so that the normaliser is an integral over one
# coordinate. Nothing of that is known to the fits.

log_tau = np.linspace(-12.0, 6.0, 721)
total = np.diag(error**2) + np.exp(2.0 * log_tau)[:, None, None] * np.eye(8)
total = total + MU_SCALE**2
solved = np.linalg.solve(total, np.broadcast_to(effect[:, None], (721, 8, 1)))[..., 0]
log_joint = -0.5 * (
    8 * np.log(2.0 * np.pi) + np.linalg.slogdet(total)[1] + solved @ effect
)
log_joint = log_joint + log_prior_tau(log_tau)
step = log_tau[1] - log_tau[0]
log_evidence = log_joint.max() + np.log(
    np.exp(log_joint - log_joint.max()).sum() * step
)

densities = {
    "banana": (banana, DIM, 0.0),
    "funnel": (funnel, DIM, 0.0),
    "eight schools": (eight_schools, 10, log_evidence),
}


def divergence(log_density, posterior, log_z=0.0):
    """KL(q || p) in nats, on 20,000 new draws."""
    theta = posterior.sample(20_000, random_state=1)
    return log_z + np.mean(posterior.log_density(theta) - log_density(theta))


found = {name: fits(f, dim) for name, (f, dim, _) in densities.items()}
for name, (log_density, _, log_z) in densities.items():
    print(name)
    for label, result in found[name].items():
        kl = divergence(log_density, result.posterior, log_z)
        n = result.posterior.n_components
        print(f"  {label:14s} components {n:2d}   KL(q || p) {kl:.3f} nats")
    print(f"  {found[name]['warped'].warp.reason}")

# %%
# One Gaussian behind the map does better on the first two than ten without; on eight
# schools some are needed behind it too. The report says how many pairs of coordinates
# it found: in ``n_curves`` those of which one bends the mean of the other, in
# ``n_scales`` those of which one changes the scale of the other.

for name in found:
    report = found[name]["warped"].warp
    print(f"{name}: bends {report.n_curves}, scales {report.n_scales}, {report.axes}")

# %%
# Pictures
# --------
# Two coordinates of each: the lines are the exact density of the pair, the points are
# draws of the posterior. One Gaussian describes the middle. Ten leave out the ends of
# the banana, for there are three of them, and a mixture has to cover every combination.
# The warped Gaussian reaches them all. Of eight schools the picture has the logarithm
# of :math:`\tau` and the effect of school A, in points of the test: to the left the
# schools agree, and the neck of the funnel is narrower than any fit here follows to
# its end.

frames = {
    "banana": (np.linspace(-7.0, 7.0, 281), np.linspace(-2.0, 12.0, 281)),
    "funnel": (np.linspace(-6.0, 6.0, 281), np.linspace(-8.0, 8.0, 281)),
    "eight schools": (log_tau[280:641], np.linspace(-20.0, 40.0, 281)),
}
pairs = {"banana": (0, 1), "funnel": (0, 1), "eight schools": (0, 2)}
labels = {"eight schools": (r"log $\tau$", "effect of school A")}


def exact_pair(name, x, y):
    """Log density of two coordinates, shape (len(y), len(x))."""
    if name == "banana":
        return norm.logpdf(x, 0.0, 2.0) + norm.logpdf(y[:, None], 0.25 * x**2, 0.5)
    if name == "funnel":
        return norm.logpdf(x, 0.0, 2.0) + norm.logpdf(y[:, None], 0.0, np.exp(0.5 * x))
    # Given tau, the effect of a school and all data are normal together.
    share = MU_SCALE**2 + np.exp(2.0 * log_tau)[:, None] * np.eye(8)[0]
    mean = np.sum(share * solved, axis=1)
    part = np.linalg.solve(total, share[..., None])[..., 0]
    variance = MU_SCALE**2 + np.exp(2.0 * log_tau) - np.sum(share * part, axis=1)
    rows = slice(280, 641)
    given = norm.logpdf(y[:, None], mean[rows], np.sqrt(variance[rows]))
    return log_joint[rows] - log_evidence + given


fig, axes = plt.subplots(3, 3, figsize=(9.5, 9.2), layout="constrained")
for row, (name, (x, y)) in zip(axes, frames.items(), strict=True):
    height = exact_pair(name, x, y)
    first, second = pairs[name]
    xlabel, ylabel = labels.get(name, (r"$\theta_1$", r"$\theta_2$"))
    for ax, (label, result) in zip(row, found[name].items(), strict=True):
        draws = result.posterior.sample(3000, random_state=2)
        ax.plot(draws[:, first], draws[:, second], ".", ms=1.5, alpha=0.4, color="C0")
        levels = height.max() - np.array([6.0, 4.0, 2.0, 0.7])
        ax.contour(x, y, height, levels, colors="black", linewidths=0.7)
        ax.set(xlim=x[[0, -1]], ylim=y[[0, -1]], title=f"{name}: {label}")
        ax.set(xlabel=xlabel, ylabel=ylabel)

# %%
# A warped posterior is a posterior like any other
# ------------------------------------------------
# Draws, densities, marginals, intervals and files are on your scale.

posterior = found["banana"]["warped"].posterior
print(posterior.interval(0.9).round(2))
print(posterior.modes()[0].location.round(2))

draws = posterior.sample(2000, random_state=0)
fig, ax = plt.subplots(figsize=(4.6, 3.4))
ax.plot(draws[:, 0], draws[:, 1], ".", markersize=2)
ax.set(xlabel="first coordinate", ylabel="second coordinate")

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
