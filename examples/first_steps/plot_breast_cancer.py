"""
A posterior in place of a point
===============================

`BoostedBayesianLogisticRegression` takes the place of `LogisticRegression` in a
pipeline. It predicts about as well, and answers questions that a point estimate cannot
be asked: how far is the fit from the exact posterior, how well is a coefficient known,
and which predictions rest on little.

The data are the 569 breast tumours that come with scikit-learn: 30 measurements each,
benign or malignant.
"""

# %%
# Fit
# ---
# Both models have the same prior: the default L2 penalty of `LogisticRegression` is a
# Normal prior with standard deviation 1, and so is ours.

# sphinx_gallery_thumbnail_number = 3

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLogisticRegression
from skboost.inspection import ConvergenceDisplay, PosteriorDisplay

plt.style.use("skboost.inspection.figures")

data = load_breast_cancer()
diagnosis = data.target_names[data.target]  # "benign" or "malignant"
X_train, X_test, y_train, y_test = train_test_split(
    data.data, diagnosis, random_state=0
)

models = {
    "skboost": BoostedBayesianLogisticRegression(random_state=0),
    "LogisticRegression": LogisticRegression(),
}
for name, classifier in models.items():
    began = time.perf_counter()
    models[name] = make_pipeline(StandardScaler(), classifier).fit(X_train, y_train)
    print(f"{name}: {time.perf_counter() - began:.2f} s to fit")

# %%
# Predictions
# -----------
# Scores of the probability of "malignant" on tumours that neither model has seen. The
# calibration error compares, in ten bins of predicted probability, the mean prediction
# with the frequency.


def expected_calibration_error(truth, probability, n_bins=10):
    """Mean distance of predicted probability and frequency, over bins."""
    bins = np.minimum((probability * n_bins).astype(int), n_bins - 1)
    gap = np.bincount(bins, weights=probability - truth, minlength=n_bins)
    return np.abs(gap).sum() / len(truth)


truth = (y_test == "malignant").astype(int)
columns = {
    "log-loss": log_loss,
    "Brier": brier_score_loss,
    "AUROC": roc_auc_score,
    "calibration": expected_calibration_error,
}
print(f"\n{'test set':20s}" + "".join(f"{column:>15s}" for column in columns))
losses = {}
for name, model in models.items():
    p = model.predict_proba(X_test)[:, 1]
    losses[name] = -np.log(np.where(truth == 1, p, 1.0 - p))
    scores = [score(truth, p) for score in columns.values()]
    print(f"{name:20s}" + "".join(f"{score:15.4f}" for score in scores))

difference = losses["skboost"] - losses["LogisticRegression"]
error = difference.std(ddof=1) / np.sqrt(len(truth))
print(f"difference in log-loss: {difference.mean():.4f} ± {error:.4f}")

# %%
# On these data the two are as good as each other: one cannot tell them apart with
# so few test tumours. What follows is what the posterior adds.
#
# Convergence
# -----------
# The first component is ordinary variational inference. Here it is enough: its draws
# are skewed as the posterior is, and then no more remains than a Gaussian fitted to
# 1,000 exact draws would leave.

model = models["skboost"]
classifier = model[-1]
print(classifier.message_)
print(
    f"At the end: ELBO {classifier.elbo_:.3f} ± {classifier.elbo_se_:.3f}, "
    f"remaining KL {classifier.remaining_kl_:.2f} ± {classifier.remaining_kl_se_:.2f}, "
    f"k-hat {classifier.pareto_k_:.2f}"
)

# %%
# With a number for ``tol`` every further iteration adds a component for as long as that
# gains more; here without orbits, to see what components alone can do. All numbers are
# in nats, from draws that were not used in fitting; the user guide explains them
# (:doc:`/user_guide/quality`).

longer = clone(classifier).set_params(tol=0.01, orbit=None)
longer.fit(model[:-1].transform(X_train), y_train)
print(f"\n{'iteration':>9s}{'components':>12s}{'ELBO':>18s}{'gain':>19s}", end="")
print(f"{'remaining KL':>16s}")
for row in longer.history_:
    gain = "" if np.isnan(row["gain"]) else f"{row['gain']:.4f} ± {row['gain_se']:.4f}"
    print(f"{row['iteration']:9d}{row['n_components']:12d}", end="")
    print(f"{row['elbo']:10.3f} ± {row['elbo_se']:.3f}{gain:>19s}", end="")
    print(f"{row['remaining_kl']:8.2f} ± {row['remaining_kl_se']:.2f}")
seconds = sum(row["seconds"] for row in longer.history_)
test = model[:-1].transform(X_test)
change = np.abs(longer.predict_proba(test) - classifier.predict_proba(test)).max()
print(f"{seconds:.2f} s to fit; predictions differ by at most {change:.4f}")

ConvergenceDisplay.from_estimator(longer)

# %%
# Coefficients
# ------------
# 90 % credible intervals of the coefficients that are furthest from zero, of
# standardised features. The picture has the twelve furthest; those whose interval
# excludes zero are in colour.

mean, interval = classifier.coef_[0], classifier.coef_interval(0.9)[0]
std = classifier.posterior_.std()[:-1]  # the last coordinate is the intercept
furthest = np.argsort(-np.abs(mean) / std)
print(f"\n{'coefficient':26s}{'mean':>8s}{'90 % interval':>20s}")
for j in furthest[:8]:
    low, high = interval[j]
    print(f"{data.feature_names[j]:26s}{mean[j]:8.2f}{low:11.2f} ..{high:6.2f}")

posterior = classifier.posterior_.renamed([*data.feature_names, "intercept"])
PosteriorDisplay.from_posterior(posterior, list(furthest[:12]), kind="interval")

# %%
# Two tumours of which the model is unsure
# ----------------------------------------
# Uncertainty has two parts. The *aleatoric* part is that of a coin whose bias is known.
# The *epistemic* part is about the bias, because coefficients that explain the training
# data equally well disagree about this tumour: more data would remove it. We look at
# the tumour with the largest total, and at the one with the largest epistemic part
# among the others.
#
# Why the model is unsure shows in the contributions, feature times coefficient: they
# pull both ways, and they are uncertain themselves. How unusual a tumour is, is said by
# its mean squared standardised feature, which averages to 1 over the training set.

rows = model[:-1].transform(X_test)
probability = classifier.predict_proba(rows)[:, 1]
bounds = classifier.predict_proba_interval(rows, 0.9)
latent_mean, latent_std = classifier.predict_latent(rows)
total, aleatoric, epistemic = classifier.predict_uncertainty(rows)

first = int(np.argmax(total))
second = int(np.argmax(np.where(np.arange(len(rows)) == first, -1.0, epistemic)))
unsure = [first, second]
why = ["most uncertainty", "most epistemic uncertainty"]
point = models["LogisticRegression"].predict_proba(X_test)[:, 1]
for i, reason in zip(unsure, why, strict=True):
    print(f"\ntest tumour {i}, {reason}; in truth {y_test[i]}")
    print(
        f"  probability of malignant {probability[i]:.2f}, 90 % interval "
        f"{bounds[i, 0]:.2f} .. {bounds[i, 1]:.2f}; "
        f"LogisticRegression says {point[i]:.2f}"
    )
    print(
        f"  uncertainty {total[i]:.2f} nats = {aleatoric[i]:.2f} aleatoric + "
        f"{epistemic[i]:.2f} epistemic"
    )
    print(
        f"  linear predictor {latent_mean[i]:.2f} ± {latent_std[i]:.2f}; mean squared "
        f"feature {np.mean(rows[i] ** 2):.1f}"
    )
    contribution, spread = rows[i] * mean, np.abs(rows[i]) * std
    for j in np.argsort(-np.abs(contribution))[:4]:
        print(
            f"  {data.feature_names[j]:24s}{contribution[j]:6.2f} ± {spread[j]:.2f}"
            f"   towards {classifier.classes_[int(contribution[j] > 0)]}"
        )

# %%
# All predictions with their 90 % intervals, in order of the probability:

figure, ax = plt.subplots(figsize=(7.5, 4))
order = np.argsort(probability)
for label, color in [("benign", "C0"), ("malignant", "C1")]:
    here = np.flatnonzero(y_test[order] == label)
    ax.vlines(here, *bounds[order[here]].T, color=color, alpha=0.45, linewidth=1.6)
    ax.plot(here, probability[order[here]], ".", color=color, label=f"{label} in truth")
for i, offset in zip(unsure, [(-120, 8), (50, -30)], strict=True):
    ax.annotate(
        f"tumour {i}",
        (np.flatnonzero(order == i)[0], probability[i]),
        xytext=offset,
        textcoords="offset points",
        va="center",
        arrowprops={"arrowstyle": "-", "color": "0.3", "shrinkB": 4},
    )
ax.set(xlabel="test tumours, in order", ylabel="probability of malignant")
figure.legend(loc="outside upper center", ncols=2, markerscale=2)

# %%
# The ten largest contributions to the two tumours, with one posterior standard
# deviation. Positive ones speak for malignant, negative ones for benign.

figure, ax = plt.subplots(figsize=(7.5, 4.6))
contribution = rows[unsure] * mean
shown = np.argsort(-np.abs(contribution).max(axis=0))[:10]
for k, i in enumerate(unsure):
    ax.barh(
        np.arange(len(shown)) + (0.2, -0.2)[k],
        contribution[k, shown],
        height=0.38,
        xerr=np.abs(rows[i, shown]) * std[shown],
        color=("C4", "C5")[k],
        error_kw={"ecolor": "0.35", "elinewidth": 1.0},
        label=f"tumour {i}: {why[k]}",
    )
ax.axvline(0.0, color="0.3", linewidth=0.9)
ax.set_yticks(np.arange(len(shown)), data.feature_names[shown])
ax.invert_yaxis()
ax.set_xlabel("← benign     contribution to the log odds ± sd     malignant →")
ax.spines["left"].set_visible(False)
ax.tick_params(axis="y", length=0)
figure.legend(loc="outside upper center", ncols=2)
plt.show()
