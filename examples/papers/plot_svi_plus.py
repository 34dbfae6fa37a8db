"""
Starts, noise and the bound: SVI+
=================================

The bound of a mixture has many local optima, and which one a fit ends in depends on
its start and on the noise of its steps. Stochastic variational inference gets noise
# sphinx_gallery_thumbnail_number = 2

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

plt.style.use("skboost.inspection.figures")

X = PCA(4, whiten=True, random_state=0).fit_transform(scale(load_wine().data))

settings = {
    "n_components": 6,
    "covariance_prior": None,
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

figure, ax = plt.subplots(figsize=(6.5, 3.6))
for name, model in fits.items():
    ax.plot(np.arange(1, model.n_iter_ + 1), model.elbo_path_, label=name)
ax.set(xscale="log", xlabel="epoch", ylabel="ELBO of the best run (nats)")
figure.legend(loc="outside right upper")

figure, ax = plt.subplots(figsize=(5.5, 3.6))
for k, model in enumerate(fits.values()):
    spread = np.linspace(-0.15, 0.15, 12)
    ax.plot(k + spread, np.sort(model.elbo_by_init_), "o", mfc="none", color=f"C{k}")
    ax.hlines(np.median(model.elbo_by_init_), k - 0.3, k + 0.3, color=f"C{k}")
ax.set_xticks(
    range(4), ["coordinate\nascent", "SVI", "SVI+,\nM = 20", "SVI+,\nM grows"]
)
ax.set_ylabel("final ELBO (nats)")
plt.show()

# %%
# Circles are the twelve runs, lines their medians. Look at such a picture before you
# believe in any of them: on data of this size
# coordinate ascent is cheap, and several starts (``n_init``) are the first remedy. The
# noise of a stochastic run costs some of the bound as long as the rate is not small;
# what it may buy is a better optimum from a poor start. Batches pay where the rows are
# many.
