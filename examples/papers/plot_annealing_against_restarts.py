"""
Annealing against restarts
==========================

The bound of a topic model has many local optima. Two remedies cost the same: several
short runs of which the best is kept, or one long run whose first steps are noisy. Here
each gets 60 passes over the same documents, six times over.
"""

# %%
# Documents of ten topics that share many words, and random first topics, so that there
# is something to get wrong.

import matplotlib.pyplot as plt
import numpy as np

from skboost import SVILatentDirichletAllocation

plt.style.use("skboost.inspection.figures")

rng = np.random.default_rng(0)
topics = rng.dirichlet(np.full(60, 0.3), 10)
shares = rng.dirichlet(np.full(10, 0.2), 300)
X = np.array([rng.multinomial(40, share @ topics) for share in shares])

# %%
# Annealed coordinate ascent is SVI+ with all documents as the batch: a step of rate 1
# carries the noise of a batch of M documents, and M grows with the step until it has
# reached all of them; from there on there is no noise. Batches of 100 documents anneal
# by themselves, and at the end their rates are small.

PASSES = 60
remedies = {
    "one run": {"max_iter": PASSES},
    "best of 3\nrestarts": {"n_init": 3, "max_iter": PASSES // 3},
    "annealed,\nM = 30 + 8t": {
        "max_iter": PASSES,
        "effective_batch_size": lambda t: 30.0 + 8.0 * t,
    },
    "annealed,\nM = 200 + 5t": {
        "max_iter": PASSES,
        "effective_batch_size": lambda t: 200.0 + 5.0 * t,
    },
    "batches\nof 100": {"max_iter": PASSES, "batch_size": 100},
}
bounds = {
    name: [
        SVILatentDirichletAllocation(
            10, init_params="random", tol=0.0, random_state=seed, **settings
        )
        .fit(X)
        .score(X)
        for seed in range(6)
    ]
    for name, settings in remedies.items()
}

# %%
# Differences to a single run are paired by seed: the same random topics begin the run.

for name, found in bounds.items():
    gain = np.array(found) - bounds["one run"]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    label = name.replace("\n", " ")
    mean = np.mean(found)
    print(f"{label:24s} {mean:8.0f} nats, gain {gain.mean():5.0f} ± {error:.0f}")

figure, ax = plt.subplots(figsize=(7, 3.8))
for k, found in enumerate(bounds.values()):
    ax.plot(np.full(6, k), found, "o", mfc="none", color=f"C{k}")
    ax.hlines(np.mean(found), k - 0.25, k + 0.25, color=f"C{k}")
ax.set_xticks(range(len(bounds)), list(bounds), fontsize="small")
ax.set_ylabel("ELBO after 60 passes (nats)")
plt.show()

# %%
# Circles are the six seeds, lines their means. On documents like these neither remedy
# is worth its passes: three short runs are no better than one long run, little noise
# changes little, and much noise leaves topics that later passes do not repair. Look at
# such a picture of your own data before you choose. Where the first topics need not be
# random, the default start (``init_params="kmeans"``) does more than either:

start = SVILatentDirichletAllocation(10, tol=0.0, max_iter=PASSES, random_state=0)
print(f"from clusters of documents: {start.fit(X).elbo_:.0f} nats")
