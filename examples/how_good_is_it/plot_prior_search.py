"""
Searching a prior by successive halving
=======================================

Estimators of skboost are searched like any in scikit-learn: in a pipeline, by names
with double underscores. Two things are worth knowing: score by ``neg_log_loss``,
because accuracy does not reward honest probabilities, and use ``max_iter`` as the
resource of successive halving, because every iteration costs time and buys quality.
"""

# %%
# Eight priors for 100 tumours with five measurements each are tried with one component,
# the better half with two, and so on.

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
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
