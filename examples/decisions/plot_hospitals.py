"""
Which hospitals to inspect?
===========================

Forty hospitals report complications after an operation, some of ten operations, some of
three hundred. An inspector can visit five. Raw rates put small hospitals at both ends
of the list, by chance; draws of the posterior say how probable it is that a rate is too
high.
"""

# %%
# Operations
# ----------
# Generated data: logits of the rates differ between hospitals with a standard deviation
# of 0.5, and grow with the age of the patient.

import matplotlib.pyplot as plt
import numpy as np

from skboost import BoostedHierarchicalLogisticRegression

plt.style.use("skboost.inspection.figures")

rng = np.random.default_rng(0)
sizes = np.geomspace(10, 300, 40).astype(int)
hospital = np.repeat(np.arange(40), sizes)
age = rng.normal(size=len(hospital))
truth = -2.2 + 0.5 * rng.standard_normal(40)
logit = truth[hospital] + 0.4 * age
complication = rng.random(len(logit)) < 1.0 / (1.0 + np.exp(-logit))

X = np.column_stack([age, hospital])
model = BoostedHierarchicalLogisticRegression(groups=[1], random_state=0)
model.fit(X, complication)
print(model.variance_components_)

# %%
# A probability for every hospital
# --------------------------------
# A patient of average age has a rate of ten per cent in an average hospital. Fifteen
# per cent are too many. Draws of coefficients and effects give the probability that a
# hospital is above that.

_, intercept, _, effects = model.sample_posterior(1000, random_state=0)
logits = intercept[:, None] + effects["x1"][:, :, 0]
rates = 1.0 / (1.0 + np.exp(-logits))
too_high = (rates > 0.15).mean(axis=0)
raw = np.bincount(hospital, complication) / sizes

fig, ax = plt.subplots(figsize=(7, 4))
low, high = np.quantile(rates, [0.05, 0.95], axis=0)
ax.vlines(sizes, low, high, color="C0", linewidth=1.0)
ax.plot(sizes, rates.mean(axis=0), "o", color="C0", label="posterior, 90 % interval")
ax.plot(sizes, raw, "x", color="0.5", label="raw rate")
ax.axhline(0.15, color="k", linestyle=":", label="too high")
ax.set(xlabel="operations", ylabel="rate of complications", xscale="log")
ax.set_xticks([10, 30, 100, 300], [10, 30, 100, 300])
ax.minorticks_off()
fig.legend(loc="outside upper center", ncols=3)

# %%
# Five visits
# -----------

true_rates = 1.0 / (1.0 + np.exp(-truth))
visits = np.argsort(-too_high)[:5]
print("hospital  operations  too high with probability")
for j in visits:
    print(f"{j:8d}  {sizes[j]:10d}  {too_high[j]:.2f}")


def error(estimate):
    return 100.0 * np.sqrt(np.mean((estimate - true_rates) ** 2))


print(f"raw rates:       {error(raw):.1f} points off")
print(f"posterior means: {error(rates.mean(axis=0)):.1f} points off")

# %%
# The probabilities say more than a ranking does: where the fifth is far from certain,
# the inspector knows that a visit there may be in vain, and what each costs decides.
