"""
A mixture from a stream
=======================

``partial_fit`` keeps no rows. Here 200 batches of 100 rows come from three clusters,
with a tenth of the values missing.
"""

import matplotlib.pyplot as plt
import numpy as np

from skboost import SVIGaussianMixture

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

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.loglog(rows, error, "o-", label="error of the means")
left.loglog(rows, spread, "s--", label="posterior standard deviation")
left.set(xlabel="rows so far")
left.legend()
complete = test[~np.isnan(test).any(axis=1)]
right.scatter(*complete.T, c=model.predict(complete), s=4)
right.plot(*model.means_.T, "k+", markersize=12)
right.set_title("new rows, by cluster")
plt.show()
