"""
Biopsy or not: a threshold with costs
=====================================

A classifier that says 0.3 has not said what to do. That follows from what mistakes
cost: an unneeded biopsy is a nuisance, a missed cancer is not. And where the
probability itself is uncertain there is a third choice: ask somebody who knows more.
The data are the breast tumours that come with scikit-learn; only eighty are known.
"""

# %%
# Costs and probabilities
# -----------------------
# In units of one biopsy, a missed cancer costs 20. Then a biopsy pays if the
# probability of cancer is above 1 / 21: the expected cost of doing nothing is 20 p,
# that of a biopsy is 1 - p, since a needed one is not a mistake.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLogisticRegression

plt.style.use("skboost.inspection.figures")

MISSED, UNNEEDED, EXPERT = 20.0, 1.0, 0.2
threshold = UNNEEDED / (UNNEEDED + MISSED)

X, benign = load_breast_cancer(return_X_y=True)
cancer = 1 - benign
columns = slice(0, 10)  # the means of ten measurements
X, X_new, cancer, cancer_new = train_test_split(
    X[:, columns], cancer, train_size=80, stratify=cancer, random_state=0
)
model = make_pipeline(
    StandardScaler(),
    BoostedBayesianLogisticRegression(prior_scale="learn", random_state=0),
).fit(X, cancer)
probability = model.predict_proba(X_new)[:, 1]
rows = model[:-1].transform(X_new)
low, high = model[-1].predict_proba_interval(rows, 0.9).T

# %%
# The third choice
# ----------------
# An expert settles the matter for a fifth of a biopsy. Whom to send there? Not those in
# the middle of the scale: at a probability of one half a biopsy is right whatever the
# details. It is those whose interval contains the threshold, for whom more knowledge
# could change the decision. For comparison as many tumours are sent whose probability
# is nearest to one half, and nearest to the threshold in log odds.


def logit(p):
    return np.log(p / (1.0 - p))


def cost(biopsy, expert=False):
    """Mean cost of a patient; the expert makes no mistakes."""
    mistake = np.where(biopsy, UNNEEDED * (1 - cancer_new), MISSED * cancer_new)
    return np.mean(np.where(expert, EXPERT, mistake))


unsure = (low < threshold) & (high > threshold)


def nearest(goal):
    """As many tumours as are unsure, by the log odds of their probability."""
    distance = np.abs(logit(probability) - logit(goal))
    return distance <= np.sort(distance)[unsure.sum() - 1]


policies = {
    "biopsy for all": cost(np.ones(len(rows), bool)),
    "more probable than not": cost(probability > 0.5),
    "threshold from the costs": cost(probability > threshold),
    "... expert near one half": cost(probability > threshold, nearest(0.5)),
    "... expert near the threshold": cost(probability > threshold, nearest(threshold)),
    "... expert where the interval\nholds the threshold": cost(
        probability > threshold, unsure
    ),
}
for name, value in policies.items():
    print(f"{' '.join(name.split()):55s}{value:.3f} biopsies a patient")
print(f"sent to the expert: {unsure.sum()} of {len(rows)}")

# %%
# Costs on the tumours that the model has not seen:

figure, ax = plt.subplots(figsize=(7, 2.8))
ax.barh(
    list(policies),
    list(policies.values()),
    color=["0.7", "0.7", "C0", "0.7", "0.7", "C1"],
)
ax.bar_label(ax.containers[0], fmt="%.2f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="mean cost of a patient, in biopsies")

# %%
# To follow the more probable class is worse than a biopsy for all, since it misses
# cancers. The threshold alone saves a third. The expert is worth most where the
# interval holds the threshold: it is wider for unusual tumours, for whom the
# probability alone does not say how little is known.
#
# What the expert sees
# --------------------
# All tumours in the order of their probability, on the scale of log odds. Those in
# colour are sent to the expert.

figure, ax = plt.subplots(figsize=(7.5, 3.8))
order = np.argsort(probability)
place = np.arange(len(order))
ends = logit(np.clip([low, high], 1e-6, 1 - 1e-6))

for chosen, color, name in ((~unsure, "0.7", "decided"), (unsure, "C1", "expert")):
    here = chosen[order]
    ax.vlines(place[here], *ends[:, order[here]],
              color=color, linewidth=1.0, label=name)  # fmt: skip
ax.plot(place, logit(probability[order]), "k", linewidth=1.0, label="probability")
ax.axhline(logit(threshold), color="C0", linestyle=":", label="threshold")
ticks = np.array([0.001, 0.01, 0.05, 0.5, 0.95, 0.999])
ax.set_yticks(logit(ticks), [f"{tick:g}" for tick in ticks])
ax.set(ylim=logit(np.array([0.0003, 0.9997])), xlabel="tumours, in order",
       ylabel="probability of cancer")  # fmt: skip
figure.legend(loc="outside upper center", ncols=4)
plt.show()

# %%
# A point estimate gives the black line alone. It can be compared with the threshold,
# but it cannot say for whom a second look is worth its price.
