"""
How good is each school?
========================

Thirty schools have between 3 and 60 pupils each, and are to be compared. The average of
a school with three pupils says little; the average of all schools says nothing about
any of them. A hierarchical model learns how much schools differ, and takes from each as
much as its number of pupils supports. That is called partial pooling.
"""

# %%
# Pupils
# ------
# The data are generated, so that the truth is known: schools differ with a standard
# deviation of 5 points, pupils within a school with one of 15.

import matplotlib.pyplot as plt
import numpy as np

from skboost import BoostedHierarchicalLinearRegression
from skboost.inspection import GroupEffectsDisplay

plt.style.use("skboost.inspection.figures")

rng = np.random.default_rng(1)
sizes = np.geomspace(3, 60, 30).astype(int)
school = np.repeat(np.arange(30), sizes)
truth = 5.0 * rng.standard_normal(30)
hours = rng.gamma(4.0, 1.0, len(school))
score = 60.0 + 2.0 * hours + truth[school] + 15.0 * rng.standard_normal(len(school))

# %%
# ``groups`` names the columns that say groups; here it is the second one. Labels
# may be names or numbers.

names = np.array([f"{k:02d}" for k in range(30)])
X = np.column_stack([hours.astype(object), names[school]])
model = BoostedHierarchicalLinearRegression(groups=[1], random_state=0).fit(X, score)
print(model.variance_components_)
print(f"share of the variance between schools: {model.icc_['x1']:.2f}")

# %%
# The table has the standard deviation between schools and that within them, with
# intervals. Both intervals hold the truth, 5 and 15.
#
# Three estimates
# ---------------
# The average of a school's own pupils (after hours of study), the average of everybody
# (zero), and the effect that the model finds.

effect = model.group_effects_["x1"][:, 0]
residual = score - model.intercept_ - model.coef_[0] * hours
alone = np.bincount(school, residual) / sizes

fig, ax = plt.subplots(figsize=(7, 4))
ax.axhline(0.0, color="0.6", linewidth=0.8)
ax.plot(sizes, alone, "o", color="0.6", label="its own pupils")
ax.plot(sizes, effect, "o", color="C0", label="partial pooling")
ax.plot(sizes, truth, "k_", markersize=10, label="truth")
ax.set(xlabel="pupils", ylabel="points above the average", xscale="log")
ax.set_xticks([3, 10, 30, 60], [3, 10, 30, 60])
ax.minorticks_off()
fig.legend(loc="outside upper center", ncols=3)


def error(estimate):
    return np.sqrt(np.mean((estimate - truth) ** 2))


print(
    f"own pupils: {error(alone):.1f} points off, partial pooling: {error(effect):.1f}"
)

# %%
# Small schools are pulled towards the average, large ones hardly move. The averages of
# small schools scatter widely: whoever ranks schools by them finds the smallest schools
# at both ends of the list.
#
# A ranking with its uncertainty
# ------------------------------

display = GroupEffectsDisplay.from_estimator(model)
display.ax_.set(xlabel="points above the average", ylabel="school")

# %%
# Few intervals exclude zero: these data rank few schools. A school that is not in the
# data is predicted from the population, with a wider interval.

rows = np.array([[4.0, "29"], [4.0, "99"]], dtype=object)
print(model.predict_interval(rows, level=0.9).round(1))
