"""
A mixture from a stream
=======================

``partial_fit`` keeps no rows. Here 200 batches of 100 rows come from three clusters,
with a tenth of the values missing.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np

from skboost import SVIGaussianMixture

plt.style.use("skboost.inspection.figures")

MEANS = np.array([[-3.0, 0.0], [2.0, 2.0], [1.0, -3.0]])


def batch(rng, size=100):
    labels = rng.choice(3, size=size, p=[0.5, 0.3, 0.2])
    X = MEANS[labels] + rng.normal(size=(size, 2)) * [1.2, 0.7]
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


# %%
# The uncertainty of the means, by draws from the posterior, falls as the rows add up.

rng = np.random.default_rng(0)
test = batch(np.random.default_rng(1), 2000)
model = SVIGaussianMixture(3, random_state=0)
rows, error, spread, score = [], [], [], []
for i in range(1, 201):
    model.partial_fit(batch(rng))
    if i in (1, 2, 5, 10, 20, 50, 100, 200):
        nearest = np.linalg.norm(model.means_[:, None] - MEANS, axis=2).argmin(axis=1)
        draws = model.sample_posterior(500, random_state=0)["means"]
        rows.append(100 * i)
        error.append(np.abs(model.means_ - MEANS[nearest]).mean())
        spread.append(draws.std(axis=0).mean())
        score.append(model.score(test))
        print(f"{rows[-1]:6d} rows: {score[-1]:.4f} nats per new row")

figure, ax = plt.subplots(figsize=(5.5, 3.6))
ax.loglog(rows, error, "o-", label="error of the means")
ax.loglog(rows, spread, "s--", label="posterior standard deviation")
ax.set(xlabel="rows so far", ylabel="in units of the data")
figure.legend(loc="outside upper center", ncols=2)

# %%
# Up to 10,000 rows the error is larger than the standard deviation, up to three times
# as large: the rows of early batches were assigned to clusters that were not where
# they are now, and the posterior takes them for assigned well.
#
# New rows by cluster, and the means that were learned from the stream:

figure, ax = plt.subplots(figsize=(5.5, 4))
complete = test[~np.isnan(test).any(axis=1)]
cluster = model.predict(complete)
for k in range(3):
    ax.plot(*complete[cluster == k].T, ".", ms=3, alpha=0.6)
ax.plot(*model.means_.T, "k+", markersize=14, markeredgewidth=2)
ax.set(xlabel="first feature", ylabel="second feature")
plt.show()
