"""
Clusters with credible ellipses
===============================

A Gaussian mixture fitted to data is one explanation of them. A posterior over mixtures
says how sure the clusters are, and whether there is another explanation that the data
allow. :class:`~skboost.mixture.BoostedGaussianMixture` grows that posterior as a
mixture of conjugate distributions, one at a time.

The data are made to look like the eruptions of a geyser: how long one lasts, and how
long the next one is waited for.
"""

# %%
# Two clusters, and how sure they are
# -----------------------------------

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

from skboost import BoostedGaussianMixture
from skboost.inspection import MixtureDisplay

plt.style.use("skboost.inspection.figures")

rng = np.random.default_rng(0)
short = rng.multivariate_normal([2.0, 54.0], [[0.07, 0.4], [0.4, 34.0]], 30)
long = rng.multivariate_normal([4.3, 80.0], [[0.17, 0.9], [0.9, 36.0]], 60)
X = np.vstack([short, long])

model = BoostedGaussianMixture(n_components=2, random_state=0).fit(X)
print(model.message_)
print("boosting components:", model.posterior_.n_components)

# %%
# Name, mean, standard deviation and three quantiles of each parameter; a DataFrame
# where pandas is installed, else an array:

print(model.posterior_.summary())

# %%
# Thin ellipses are the clusters themselves, drawn at forty draws of the posterior (one
# standard deviation); thick ones hold 95 % of the posterior of the clusters' means.


def ellipse(center, covariance, radius, **style):
    values, vectors = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    width, height = 2 * radius * np.sqrt(values[::-1])
    return Ellipse(center, width, height, angle=angle, fill=False, **style)


draws = model.posterior_.sample(4000, random_state=0)
fig, ax = plt.subplots(figsize=(6, 4.5))
ax.scatter(*X.T, s=10, c="0.6")
for k, color in enumerate(["C0", "C1"]):
    for i in range(40):
        ax.add_patch(
            ellipse(
                draws["means"][i, k], draws["covariances"][i, k], 1.0,
                color=color, alpha=0.15, lw=0.8,
            )
        )  # fmt: skip
    means = draws["means"][:, k]
    ax.add_patch(ellipse(means.mean(0), np.cov(means.T), 2.45, color=color, lw=2.5))
ax.set(xlabel="eruption (minutes)", ylabel="waiting time (minutes)")

# %%
# Two explanations
# ----------------
# Here two groups are closer than two standard deviations. Are they two clusters, or
# one? Both explain the rows. A single conjugate distribution, which is what coordinate
# ascent fits, has to choose; the boosted mixture holds both, each with its weight. The
# prior here is scikit-learn's, which lets a cluster be empty.

Y = np.vstack([rng.normal(0.0, 1.0, (25, 2)), rng.normal(1.8, 1.0, (25, 2))])
settings = {"n_components": 2, "random_state": 0}
settings["covariance_prior"] = None
one = BoostedGaussianMixture(**settings, max_iter=1).fit(Y)
more = BoostedGaussianMixture(**settings, max_iter=15, tol=0.01).fit(Y)
for name, fit in (("one distribution", one), ("boosted", more)):
    print(
        f"{name:16s} ELBO {fit.elbo_:8.2f} ± {fit.elbo_se_:.2f}, about "
        f"{fit.remaining_kl_:.2f} nats left, {fit.posterior_.n_components} components"
    )

# %%
# What a single distribution estimates to be left is less than what boosting then finds:
# draws of one explanation never see the other.
#
# The weight of the larger cluster, at draws of both posteriors: close to one means that
# one cluster has all rows.

fig, ax = plt.subplots(figsize=(6, 3.2))
for fit, label in ((one, "one distribution"), (more, "boosted")):
    weights = fit.posterior_.sample(4000, random_state=0)["weights"]
    larger = np.sort(weights.max(axis=1))
    ax.plot(larger, np.linspace(0, 1, len(larger)), label=label)
    share = (larger < 0.9).mean()
    print(f"{label}: two clusters of at least a tenth with probability {share:.2f}")
ax.set(xlabel="weight of the larger cluster", ylabel="cumulative probability")
fig.legend(loc="outside upper center", ncols=2)

# %%
# Rows with ellipses of both clusters and of draws of them, how many clusters there are,
# and which rows belong together.

MixtureDisplay.from_estimator(more, Y)

# %%
# ``means_``, ``weights_`` and ``covariances_`` are posterior means under aligned
# labels. No mean makes sense of two explanations: look at draws, as above.

plt.show()
