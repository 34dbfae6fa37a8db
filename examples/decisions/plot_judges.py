"""
Severe and lenient judges
=========================

Twelve judges grade wines as poor, fair, good or best. Some give "best" for what others
find fair, and none has tasted all wines. Grades have an order and no distances, and a
grade says as much of the judge as of the wine.
"""

# %%
# Grades
# ------
# Generated data: what a judge thinks of a wine depends on its sugar and acidity and on
# the judge.

import matplotlib.pyplot as plt
import numpy as np

from skboost import (
    BoostedBayesianOrdinalRegression,
    BoostedHierarchicalOrdinalRegression,
)

plt.style.use("skboost.inspection.figures")

rng = np.random.default_rng(0)
judge = rng.integers(0, 12, 300)
wine = rng.normal(size=(300, 2))
leniency = rng.normal(0.0, 1.5, 12)
taste = wine @ [1.0, -0.7] + leniency[judge] + rng.logistic(size=300)
grades = ["poor", "fair", "good", "best"]
y = np.array(grades)[np.digitize(taste, [-2.0, 0.0, 2.0])]

X = np.column_stack([wine, judge])
model = BoostedHierarchicalOrdinalRegression(
    categories=grades, groups=[2], random_state=0
)
model.fit(X[:200], y[:200])
print(model.summary())

# %%
# The judges
# ----------
# Effects are on the scale of logits: a judge whose effect is 1 gives the odds of a
# better grade a factor of 2.7.

effects = model.group_effects_["x2"][:, 0]
low, high = model.group_effects_interval(0.9)["x2"][:, 0].T

fig, ax = plt.subplots(figsize=(7, 3.5))
order = np.argsort(effects)
ax.vlines(np.arange(12), low[order], high[order], color="C0")
ax.plot(effects[order], "o", color="C0", label="posterior, 90 % interval")
ax.plot(leniency[order] - leniency.mean(), "x", color="k", label="truth")
ax.set(xlabel="judges, from the most severe", ylabel="effect on the logit")
fig.legend(loc="outside upper center", ncols=2)

# %%
# Wines that are still to be graded
# ---------------------------------
# Probabilities know who grades. Without judges the model is less sure of the wines,
# too.

plain = BoostedBayesianOrdinalRegression(categories=grades, random_state=0)
plain.fit(X[:200, :2], y[:200])
known = model.log_predictive_density(X[200:], y[200:]).mean()
without = plain.log_predictive_density(X[200:, :2], y[200:]).mean()
print(f"log loss with judges: {-known:.3f}, without: {-without:.3f}")
new = dict(zip(model.classes_, model.predict_proba([[0.5, 0.0, 99]])[0], strict=True))
print("a new judge:", ", ".join(f"{grade} {new[grade]:.2f}" for grade in grades))
