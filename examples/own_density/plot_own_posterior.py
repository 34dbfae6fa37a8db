"""
A posterior of your own
=======================

`boost_posterior` takes any log density written with ``autograd.numpy``. Here it is a
hierarchical model, the classical "eight schools" (Rubin 1981): a coaching programme was
tried in eight schools, and each reported an estimated effect with a standard error. How
large is the effect on average, and how much do schools differ?

In two dimensions everything can be checked by brute force on a grid, so we can see
which of the numbers that skboost reports deserve trust, and when.
"""

# %%
# The model
# ---------
# School :math:`j` has the true effect :math:`\theta_j \sim N(\mu, \tau^2)` and
# reports :math:`y_j \sim N(\theta_j, \sigma_j^2)` with known :math:`\sigma_j`. The
# effects can be integrated out: :math:`y_j \sim N(\mu, \sigma_j^2 + \tau^2)`. The
# priors are :math:`\mu \sim N(0, 10^2)` and a half-Cauchy of scale 10 for
# :math:`\tau`.
#
# Components live on all of :math:`\mathbb{R}^2` and :math:`\tau` is positive, so the
# second coordinate is :math:`\ln \tau`; the last term below is the Jacobian of that.

# sphinx_gallery_thumbnail_number = 2

import autograd.numpy as np
import matplotlib.pyplot as plt
from autograd.scipy.special import logsumexp
from autograd.scipy.stats import norm

from skboost import boost_posterior

plt.style.use("skboost.inspection.figures")

effect = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def log_density(theta):
    """Log joint density of (mean, log scale), (n, 2) -> (n,)."""
    mean, log_scale = theta[:, 0], theta[:, 1]
    sd = np.sqrt(error**2 + np.exp(2.0 * log_scale[:, None]))
    log_likelihood = np.sum(norm.logpdf(effect, mean[:, None], sd), axis=1)
    scale = np.exp(log_scale)
    log_half_cauchy = np.log(2.0 / (np.pi * 10.0)) - np.log1p((scale / 10.0) ** 2)
    return log_likelihood + norm.logpdf(mean, 0.0, 10.0) + log_half_cauchy + log_scale


# %%
# Fit, and compare with the truth
# -------------------------------
# One component is ordinary variational inference. Then boosting with its defaults.

names = ["mean effect", "log scale"]
plain = boost_posterior(
    log_density, dim=2, names=names, max_iter=1, orbit=None, random_state=0
)
boosted = boost_posterior(log_density, dim=2, names=names, random_state=0)

x, y = np.linspace(-45.0, 55.0, 401), np.linspace(-11.0, 7.0, 401)
points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
cell = (x[1] - x[0]) * (y[1] - y[0])
log_joint = log_density(points)
log_evidence = logsumexp(log_joint) + np.log(cell)
exact = np.exp(log_joint - log_evidence)
exact_grid = exact.reshape(len(y), len(x))


def exact_kl(posterior):
    """KL(q || p) on the grid, in nats."""
    log_q = posterior.log_density(points)
    return np.sum(np.exp(log_q) * (log_q - log_joint + log_evidence)) * cell


print(f"log evidence, by integration on a grid: {log_evidence:.3f}\n")
print(f"{'':28s}{'plain VI':>16s}{'boosted':>18s}")
for label, text in {
    "components": "{0.posterior.n_components}",
    "ELBO": "{0.elbo:.3f} ± {0.elbo_se:.3f}",
    "remaining KL, estimated": "{0.remaining_kl:.3f} ± {0.remaining_kl_se:.3f}",
    "remaining KL, exact": "{1:.3f}",
    "Pareto k-hat": "{0.pareto_k:.2f}",
}.items():
    left, right = (text.format(r, exact_kl(r.posterior)) for r in (plain, boosted))
    print(f"{label:28s}{left:>16s}{right:>18s}")
print(f"\n{boosted.message}")

# %%
# How to read this:
#
# - The *ELBO* alone says which of the two is better, and by how much: the difference is
#   the difference in divergence. It does not say how much is left.
# - The *remaining KL* does. Here it agrees with the exact value.
# - *k-hat* is about the importance weights behind that estimate. It is large where
#   the posterior has a tail that the mixture lacks: here towards small scales, where
#   the posterior falls off like :math:`\tau` itself and no Gaussian follows for long.
#   It may be above 0.7 although next to nothing is missing, so it is a reason to
#   look, not a verdict.


def levels_of(density):
    """Densities above which lie 90, 50 and 25 % of the probability."""
    ordered = np.sort(density, axis=None)[::-1]
    return ordered[np.searchsorted(np.cumsum(ordered) * cell, [0.9, 0.5, 0.25])]


figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.4), sharey=True)
for ax, result, title in [(axes[0], plain, "plain VI"), (axes[1], boosted, "boosted")]:
    density = np.exp(result.posterior.log_density(points)).reshape(len(y), len(x))
    levels = levels_of(density)
    ax.contourf(x, y, density, [*levels, density.max()], cmap="Blues", alpha=0.5)
    ax.contour(x, y, density, levels, colors="C0", linewidths=1.2)
    ax.contour(x, y, exact_grid, levels_of(exact), colors="C1", linestyles="--")
    ax.plot([], [], "C0", label="approximation: 90, 50, 25 %")
    ax.plot([], [], "C1--", label="exact")
    ax.set(title=title, xlim=(-12, 28), ylim=(-5, 4.5), xlabel="mean effect (points)")
axes[0].set_ylabel("log scale")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)

figure, ax = plt.subplots(figsize=(5.5, 3.6))
ax.fill_between(y, exact_grid.sum(axis=1) * (x[1] - x[0]), color="0.88", label="exact")
for result, label, color in [(plain, "plain VI", "C1"), (boosted, "boosted", "C0")]:
    ax.plot(y, result.posterior.marginal("log scale").pdf(y), color=color, label=label)
ax.set(xlabel="log scale: how much schools differ", ylabel="density")
ax.set(xlim=(-5, 5), ylim=(0, None))
figure.legend(loc="outside upper center", ncols=3)
plt.show()

# %%
# What plain variational inference gets wrong matters: the probability that the schools
# differ by little.

for result, label in [(plain, "plain VI"), (boosted, "boosted")]:
    below = result.posterior.marginal("log scale").cdf(np.log(1.0))
    print(f"{label:9s} P(scale < 1) = {below:.3f}")
print(f"{'exact':9s} P(scale < 1) = {exact_grid[y < 0].sum() * cell:.3f}")

# %%
# What none of the numbers sees
# -----------------------------
# All of them come from draws of the mixture. Here is a density with a second mode
# that is too far away for any search to stumble on it, with 30 % of the mass.


def two_far_modes(theta):
    """Modes at 0 and 1000, (n, 1) -> (n,); integrates to one."""
    near = np.log(0.7) + norm.logpdf(theta[:, 0], 0.0, 1.0)
    far = np.log(0.3) + norm.logpdf(theta[:, 0], 1000.0, 1.0)
    return np.logaddexp(near, far)


for starts in [[[0.0]], [[1000.0]], [[0.0], [1000.0]]]:
    result = boost_posterior(two_far_modes, dim=1, x0=starts, random_state=0)
    print(
        f"started at {np.ravel(starts)}: ELBO {result.elbo:.3f}, remaining KL "
        f"{result.remaining_kl:.3f}, k-hat {result.pareto_k:.2f}, "
        f"mean {result.posterior.mean()[0]:.1f}"
    )
print(f"exact KL of the first: {-np.log(0.7):.3f}; of the second: {-np.log(0.3):.3f}")

# %%
# Each of the first two runs finds its own mode perfect. That they disagree, in mean
# and in ELBO, is the only sign. Where several modes are possible, give several starts:
# the third run tries the modes that all of them lead to, and has both.
