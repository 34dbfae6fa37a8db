"""
Searching hyperparameters
=========================

Estimators of skboost are searched like any in scikit-learn: in a pipeline, by names
with double underscores. Two things are worth knowing: score by ``neg_log_loss``,
because accuracy does not reward honest probabilities, and use ``max_iter`` as the
resource of successive halving, because every iteration costs time and buys quality.
"""

# sphinx_gallery_thumbnail_number = 2

# %%
# Step size and corrective variant
# --------------------------------
# The data are 100 tumours with five measurements each. The prior is heavy-tailed, and
# components are poor on purpose (independent coordinates, never refined), so that the
# ways to combine them have something to do.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    StratifiedKFold,
    train_test_split,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLogisticRegression

plt.style.use("skboost.inspection.figures")

X, y = load_breast_cancer(return_X_y=True)
X, _, y, _ = train_test_split(X[:, :5], y, train_size=100, stratify=y, random_state=0)
folds = StratifiedKFold(3, shuffle=True, random_state=0)

# Short runs do not reach the posterior, and are not meant to.
warnings.simplefilter("ignore", ConvergenceWarning)

classifier = BoostedBayesianLogisticRegression(
    prior="cauchy",
    family="gaussian-diag",
    refine=False,
    max_iter=4,
    tol=0.01,
    n_draws=128,
    skew=None,
    random_state=0,
)
pipeline = Pipeline([("scale", StandardScaler()), ("logistic", classifier)])


def elbo(model, X, y):
    """A scorer that looks at the fit and not at the data."""
    return model["logistic"].elbo_


search = GridSearchCV(
    pipeline,
    {
        "logistic__corrective": ["none", "away", "pairwise", "fully-corrective"],
        "logistic__step_size": ["predefined", "line-search", "adaptive"],
    },
    scoring={"log_loss": "neg_log_loss", "elbo": elbo},
    refit="log_loss",
    cv=folds,
).fit(X, y)

results = search.cv_results_
correctives, step_sizes = search.param_grid.values()
tables = {
    "validation log-loss": -results["mean_test_log_loss"].reshape(4, 3),
    "ELBO": results["mean_test_elbo"].reshape(4, 3),
}
for title, table in tables.items():
    print(f"{title:20s}" + "".join(f"{step_size:>13s}" for step_size in step_sizes))
    for corrective, row in zip(correctives, table, strict=True):
        print(f"{corrective:20s}" + "".join(f"{value:13.4f}" for value in row))
print(f"best by log-loss: {search.best_params_}")
spread = results["std_test_log_loss"][search.best_index_]
print(f"standard deviation over folds of the best: {spread:.4f}")

# %%
# In the picture bars are one standard deviation over the folds, for the log-loss. The
# ELBO tells the methods apart. Log-losses differ by much less than from fold to fold,
# because all of these are ways to the same posterior. Search these two to learn about
# the method; to predict better, search what changes the model.

figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
spread = results["std_test_log_loss"].reshape(4, 3)
for k, (step_size, marker) in enumerate(zip(step_sizes, "osD", strict=True)):
    rows = np.arange(4) + 0.2 * (k - 1)
    style = {"color": f"C{k}", "label": step_size, "fmt": marker}
    loss, bound = (table[:, k] for table in tables.values())
    axes[0].errorbar(loss, rows, xerr=spread[:, k], **style)
    axes[1].errorbar(bound, rows, **style)
axes[0].set_yticks(range(4), correctives)
axes[0].invert_yaxis()
axes[0].set(xlabel="validation log-loss (nats)", ylabel="corrective")
axes[1].set_xlabel("ELBO (nats)")
figure.legend(*axes[1].get_legend_handles_labels(), loc="outside upper center", ncols=3)

# %%
# Strategies have parameters as estimators do: with ``step_size=AdaptiveBacktracking()``
# from `skboost.strategies`, ``logistic__step_size__decrease`` can be searched as well.
#
# The prior, by successive halving
# --------------------------------
# Eight priors are tried with one component, the better half with two, and so on.

classifier = BoostedBayesianLogisticRegression(tol=0.01, random_state=0)
pipeline = Pipeline([("scale", StandardScaler()), ("logistic", classifier)])
halving = HalvingGridSearchCV(
    pipeline,
    {
        "logistic__prior": ["normal", "laplace"],
        "logistic__prior_scale": [0.1, 0.5, 2.0, 10.0],
    },
    resource="logistic__max_iter",
    min_resources=1,
    max_resources=4,
    factor=2,
    scoring="neg_log_loss",
    cv=folds,
    random_state=0,
).fit(X, y)

results = halving.cv_results_
for i in range(halving.n_iterations_):
    here = results["iter"] == i
    print(
        f"max_iter={halving.n_resources_[i]}: {halving.n_candidates_[i]} candidates, "
        f"log-loss {-results['mean_test_score'][here].max():.4f} .. "
        f"{-results['mean_test_score'][here].min():.4f}"
    )
print("best:", halving.best_params_)

# %%
# Each line is a prior. Those that end early were dropped.

figure, ax = plt.subplots(figsize=(6.5, 3.8))
colors = {0.1: "C0", 0.5: "C1", 2.0: "C2", 10.0: "C3"}
tried = [
    (params["logistic__prior"], params["logistic__prior_scale"])
    for params in results["params"]
]
for prior, scale in dict.fromkeys(tried):
    here = [k for k, candidate in enumerate(tried) if candidate == (prior, scale)]
    resources = results["n_resources"][here]
    ax.plot(
        resources,
        -results["mean_test_score"][here],
        "o-" if prior == "normal" else "s--",
        color=colors[scale],
        label=f"{prior}, scale {scale:g}",
    )
ax.set_xscale("log", base=2)
ax.set_xticks([1, 2, 4], ["1", "2", "4"])
ax.set(xlabel="max_iter", ylabel="log-loss (nats)")
figure.legend(loc="outside right upper", title="prior")
plt.show()
