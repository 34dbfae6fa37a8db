"""
How many clusters?
==================

The evidence lower bound of a mixture charges for superfluous clusters by itself.
`EvidenceSearch` fits every candidate to all of the data, here from five starts, and
compares the bounds. No data are held out and no penalty is chosen.
"""

# %%
# Number and shape at once
# ------------------------
# Three elongated clusters, one of them rare. Candidates differ in the number of
# clusters and in the shape of their covariances.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV

from skboost import EvidenceSearch
from skboost.inspection import EvidenceDisplay
from skboost.mixture import SVIGaussianMixture

plt.style.use("skboost.inspection.figures")

rng = np.random.default_rng(0)
labels = rng.choice(3, size=300, p=[0.5, 0.4, 0.1])
means = np.array([[0.0, 0.0], [3.0, 2.0], [-3.0, 3.5]])
roots = np.array(
    [[[1.5, 0], [0.6, 0.4]], [[0.5, 0], [-0.6, 1.2]], [[0.5, 0], [0, 0.5]]]
)
X = means[labels] + np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(300, 2)))

search = EvidenceSearch(
    SVIGaussianMixture(n_init=5, random_state=0),
    {
        "covariance_type": ["full", "tied", "diag", "spherical"],
        "n_components": [1, 2, 3, 4, 5, 6, 7],
    },
).fit(X)

results = search.cv_results_
print("covariance_type   K        ELBO   error")
for row in np.argsort(results["rank_elbo"], kind="stable")[:6]:
    params = results["params"][row]
    print(
        f"{params['covariance_type']:15s} {params['n_components']:3d} "
        f"{results['elbo'][row]:11.2f} {results['elbo_se'][row]:7.2f}"
    )

bic = {
    (kind, k): GaussianMixture(k, covariance_type=kind, n_init=5, random_state=0)
    .fit(X)
    .bic(X)
    for kind in ("full", "tied", "diag", "spherical")
    for k in range(1, 8)
}
print("by ELBO:", search.best_params_)
print("by BIC: ", min(bic, key=bic.get))

# %%
# The error is that of the starts: zero where all of them end in the same optimum, and
# large where only one of them got as far as the bound that counts. Differences are log
# Bayes factors as far as bounds are tight; those of a nat or two decide little.

best = search.best_estimator_
figure, ax = plt.subplots(figsize=(6, 4))
for k, label in enumerate(np.unique(best.predict(X))):
    ax.plot(*X[best.predict(X) == label].T, ".", color=f"C{k}", ms=4)
for mean, covariance in zip(best.means_, best.covariances_, strict=True):
    values, vectors = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(*vectors[::-1, 1]))
    width, height = 4.0 * np.sqrt(values[::-1])
    ax.add_patch(Ellipse(mean, width, height, angle=angle, fill=False, lw=1.5))
ax.set(xlabel="first feature", ylabel="second feature", aspect="equal")

# %%
# These are the rows by cluster, and the chosen mixture's ellipses of two standard
# deviations. Below are the bounds of all candidates, with bars of two standard errors:
# they are long where few of the five starts got as far as the best.

EvidenceDisplay.from_estimator(search, param="n_components")
plt.show()

# %%
# What is not compared
# --------------------
# A lower temperature raises the likelihood to a smaller power. That alone changes the
# ELBO, so the search refuses.

temperatures = {"temperature": [0.25, 0.5, 1.0]}
try:
    EvidenceSearch(best, temperatures).fit(X)
except ValueError as error:
    print(error)

# %%
# Held-out rows can be compared: the score of a mixture is its mean log density.

held_out = GridSearchCV(best, temperatures, cv=5).fit(X)
for temperature, mean, std in zip(
    temperatures["temperature"],
    held_out.cv_results_["mean_test_score"],
    held_out.cv_results_["std_test_score"],
    strict=True,
):
    print(
        f"temperature {temperature:4.2f}: log density {mean:.4f} ± {std / 5**0.5:.4f}"
    )
