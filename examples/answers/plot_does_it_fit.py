"""
Does the model make such data?
==============================

A fit always ends with numbers. Draws of new responses show whether the model could have
made the data: here counts of bicycles on a bridge, which vary more than Poisson counts.
The data are generated.
"""

# %%
# Bicycles
# --------

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skboost import BoostedBayesianPoissonRegression
from skboost.exceptions import OverdispersionWarning
from skboost.inspection import (
    PredictiveCheckDisplay,
    ResidualDisplay,
    leave_one_out,
    sample_predictive,
)

plt.style.use("skboost.inspection.figures")
# The Poisson fit says by itself that the counts vary more.
warnings.simplefilter("ignore", OverdispersionWarning)

rng = np.random.default_rng(0)
days = pd.DataFrame({"warmth": rng.normal(size=250), "rain": rng.integers(0, 2, 250)})
mean = np.exp(1.2 + 0.5 * days["warmth"] - 0.7 * days["rain"])
bicycles = rng.poisson(mean * rng.gamma(2.0, 0.5, 250))

fits = {}
for likelihood in ("poisson", "negative_binomial"):
    model = BoostedBayesianPoissonRegression(likelihood=likelihood, random_state=0)
    fits[likelihood] = model.fit(days, bicycles)

# %%
# Rootograms
# ----------
# Grey bars are the data. Poisson counts have too few days without bicycles, and too few
# with many.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
for ax, (name, model) in zip(axes, fits.items(), strict=True):
    PredictiveCheckDisplay.from_estimator(model, days, bicycles, ax=ax)
    ax.set_title(name.replace("_", " "))

# %%
# Residuals
# ---------
# Quantile residuals are standard normal where the model holds, whatever the likelihood.

ResidualDisplay.from_estimator(fits["poisson"], days, bicycles)

# %%

ResidualDisplay.from_estimator(fits["negative_binomial"], days, bicycles)

# %%
# How much better, and a sum of days
# ----------------------------------
# ``leave_one_out`` estimates in nats how well each day is predicted by the others. The
# bicycles of a week are a sum of draws: days of one draw share its parameters.

loo = {name: leave_one_out(m, days, bicycles) for name, m in fits.items()}
gain = loo["negative_binomial"].pointwise - loo["poisson"].pointwise
se = gain.std() * np.sqrt(len(gain))
print(f"negative binomial better by {gain.sum():.0f} nats, standard error {se:.0f}")
for name, model in fits.items():
    week = sample_predictive(model, days[:7], 4000, random_state=0).sum(axis=1)
    low, high = np.quantile(week, [0.05, 0.95])
    print(f"{name}: {low:.0f} to {high:.0f} bicycles in a week")
plt.show()
