"""
Three things to do with skboost
===============================

A classifier whose probabilities have intervals, groups that learn from each other, and
a log density of your own: what the README shows, with the code behind its picture.
"""

# %%
# Probabilities with intervals
# ----------------------------
# Sixty tumours of the breast cancer data that come with scikit-learn are few for 30
# measurements each. `LogisticRegression` returns one probability for each of the other
# tumours; a posterior also says how much the sixty leave open. Which of the two is
# ahead changes with the sixty: losses are means over twenty samples of them.

import time

import autograd.numpy as np
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import (
    BoostedBayesianLogisticRegression,
    BoostedHierarchicalLinearRegression,
    boost_posterior,
)
from skboost.inspection import PredictionDisplay

plt.style.use("skboost.inspection.figures")

X, y = load_breast_cancer(return_X_y=True)
samples = [
    train_test_split(X, y, train_size=60, stratify=y, random_state=seed)
    for seed in range(20)
]
print(f"{'20 samples of 60 tumours':32s}{'log loss':>10s}{'CPU seconds':>13s}")
boosted = BoostedBayesianLogisticRegression(random_state=0)
for classifier in (LogisticRegression(), boosted):
    model = make_pipeline(StandardScaler(), classifier)
    losses, began = [], time.process_time()
    for X_train, X_test, y_train, y_test in samples:
        model.fit(X_train, y_train)
        losses.append(log_loss(y_test, model.predict_proba(X_test)))
    seconds = (time.process_time() - began) / len(samples)
    print(f"{type(classifier).__name__:34s}{np.mean(losses):8.3f}{seconds:13.2f}")

# The first sample from here on.
X_train, X_test, y_train, y_test = samples[0]
model.fit(X_train, y_train)
probability = model.predict_proba(X_test)[:, 1]
low, high = classifier.predict_proba_interval(model[:-1].transform(X_test), 0.9).T
wrong = (probability > 0.5) != y_test
wide = high - low > 0.5
print(f"{wide.sum()} of {len(wide)} intervals are wider than one half;")
print(f"there {100 * wrong[wide].mean():.0f} % of the labels are wrong, ", end="")
print(f"elsewhere {100 * wrong[~wide].mean():.1f} %")

# %%
# Each bar is a 90 % interval: the sixty tumours decide most of the others and leave
# some open. The picture is drawn for the width of a telephone, too.

with plt.rc_context({"font.size": 14}):
    figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    PredictionDisplay.from_estimator(model, X_test, y=y_test, ax=ax)
    ax.set(xlabel="509 tumours, in order", ylabel="probability of benign")
figure.savefig("quickstart.png")

# %%
# Groups that learn from each other
# ---------------------------------
# Thirty generated schools have 3 to 60 pupils each. The average of a few pupils says
# little about a school; partial pooling pulls it towards the average of all schools, as
# far as the schools' own spread, which is learned, demands.

rng = np.random.default_rng(1)
pupils = np.geomspace(3, 60, 30).astype(int)
school = np.repeat(np.arange(30), pupils)
truth = 5.0 * rng.standard_normal(30)
hours = rng.gamma(4.0, 1.0, len(school))
score = 60.0 + 2.0 * hours + truth[school] + 15.0 * rng.standard_normal(len(school))

schools = BoostedHierarchicalLinearRegression(groups=[1], random_state=0)
began = time.process_time()
schools.fit(np.column_stack([hours, school]), score)
seconds = time.process_time() - began
pooled = schools.group_effects_["x1"][:, 0]
interval = schools.group_effects_interval(0.9)["x1"][:, 0]
rest = score - schools.intercept_ - schools.coef_[0] * hours
alone = np.bincount(school, rest) / pupils

print(f"\nthirty schools, fitted in {seconds:.2f} CPU seconds")
for name, estimate in {"averages of pupils": alone, "partial pooling": pooled}.items():
    print(f"{name:20s}{np.sqrt(np.mean((estimate - truth) ** 2)):5.1f} points off")
inside = (interval[:, 0] < truth) & (truth < interval[:, 1])
print(f"{inside.sum()} of 30 intervals of 90 % hold the truth")

# Where the truth lies beyond a bar, it is one of the tenth that should.

figure, ax = plt.subplots(figsize=(6, 4))
rank = np.arange(30)
ax.axhline(0.0, color="0.6", linewidth=0.8)
ax.vlines(rank, *interval.T, color="C0", alpha=0.4)
ax.plot(rank, pooled, "o", color="C0", label="partial pooling")
ax.plot(rank, alone, "x", color="0.5", label="average of pupils")
ax.plot(rank, truth, "k_", markersize=9, label="truth")
ax.set_xticks(rank[::4], pupils[::4])
ax.set(
    title="schools: the fewer pupils, the stronger the pull",
    xlabel="pupils of a school",
    ylabel="points above the average, 90 % interval",
)
# Below all points, whose lowest would look like one of the legend.
ax.set_ylim(bottom=min(alone.min(), interval.min()) - 6.0)
ax.legend(ncols=3, loc="lower right")

# %%
# A log density of your own
# -------------------------
# Here a banana, of which everything is known exactly: :math:`x \sim N(0, 2^2)`, and
# :math:`y` is a parabola of :math:`x` plus normal noise of standard deviation one half.


def log_density(theta):
    """Log density at points of shape (n, 2); returns shape (n,)."""
    x, y = theta[:, 0], theta[:, 1]
    return -(x**2) / 8 - 2 * (y - x**2 / 4) ** 2 - np.log(2 * np.pi)


print(
    f"\n{'banana':16s}{'KL (nats)':>10s}{'sd of x':>9s}{'sd of y':>9s}{'seconds':>9s}"
)
for name, settings in {
    "one Gaussian": {"max_iter": 1, "orbit": None},
    "skboost": {},
}.items():
    began = time.process_time()
    fit = boost_posterior(log_density, dim=2, random_state=0, **settings)
    seconds = time.process_time() - began
    theta = fit.posterior.sample(100_000, random_state=1)
    kl = np.mean(fit.posterior.log_density(theta) - log_density(theta))
    sd = fit.posterior.std()
    print(f"{name:16s}{kl:10.3f}{sd[0]:9.2f}{sd[1]:9.2f}{seconds:9.1f}")
print(f"{'exact':16s}{0.0:10.3f}{2.0:9.2f}{1.5:9.2f}")
print("\nsaved quickstart.png")
