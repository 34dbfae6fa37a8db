"""
Starts, noise and the bound: SVI+
=================================

The bound of a mixture has many local optima, and which one a fit ends in depends on
its start and on the noise of its steps. Stochastic variational inference gets noise
from its batches; SVI+ sets its amount, by an *effective* batch size, apart from how
many rows a step uses.

The data are the 178 wines, in their first four principal components.
"""

# %%
# What the start decides
# ----------------------
# Coordinate ascent from twelve random starts, every run converged:

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import scale

from skboost import SVIGaussianMixture

X = PCA(4, whiten=True, random_state=0).fit_transform(scale(load_wine().data))

settings = {
    "n_components": 6,
    "init_params": "random_from_data",
    "n_init": 12,
    "random_state": 0,
    "n_jobs": 2,
}
batch = SVIGaussianMixture(**settings, max_iter=1000, tol=1e-6).fit(X)
print("converged:", batch.converged_)
print("bounds, nats:", np.sort(batch.elbo_by_init_).round(1))

# %%
# Noise that shrinks
# ------------------
# SVI uses 60 rows a step; SVI+ adds the noise of batches of 20 rows. With rates that
# decay, both kinds of noise die out. A third variant lets the effective batch size grow
# with the step t = 1, 2, …, so that it starts near 10 and there is no added noise in
# the end.

stochastic = settings | {"batch_size": 60, "max_iter": 150}
fits = {
    "coordinate ascent": batch,
    "SVI": SVIGaussianMixture(**stochastic).fit(X),
    "SVI+, M = 20": SVIGaussianMixture(**stochastic, effective_batch_size=20).fit(X),
    "SVI+, M grows": SVIGaussianMixture(
        **stochastic, effective_batch_size=lambda t: 10 + t / 4
    ).fit(X),
}
for name, model in fits.items():
    bounds = model.elbo_by_init_
    print(
        f"{name:18s} mean {bounds.mean():8.1f}, best {bounds.max():8.1f}, noise shrunk "
        f"in {100 * model.noise_shrunk_:.0f} % of the groups"
    )

# %%
# Noise near the edge of the parameter space, where a cluster would get a negative
# number of rows, is shrunk; the share says how often.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, model in fits.items():
    left.plot(np.arange(1, model.n_iter_ + 1), model.elbo_path_, label=name)
left.set(xscale="log", xlabel="epoch", ylabel="ELBO of all rows, nats")
left.set_title("the best run")
left.legend(fontsize=8)
right.boxplot([m.elbo_by_init_ for m in fits.values()], whis=(0, 100))
right.set_xticks(range(1, 5), ["ascent", "SVI", "SVI+\nM = 20", "SVI+\nM grows"])
right.set_title("final ELBO of twelve runs")
right.tick_params(axis="x", labelsize=8)
plt.show()

# %%
# Look at the right panel before you believe in any of them: on data of this size
# coordinate ascent is cheap, and several starts (``n_init``) are the first remedy. The
# noise of a stochastic run costs some of the bound as long as the rate is not small;
# what it may buy is a better optimum from a poor start. Batches pay where the rows are
# many.
