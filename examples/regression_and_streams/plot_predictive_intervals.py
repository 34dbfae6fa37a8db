"""
Predictive intervals through a pipeline
=======================================

A prediction without its uncertainty is half an answer. Here a curve is fitted as a
linear model on a basis of splines, in an ordinary scikit-learn pipeline, and the last
step answers with intervals and quantiles. Counts get the same treatment: whole numbers,
wider where the exposure is longer.
"""

# %%
# A curve
# -------
# ``pipeline.predict(X, return_std=True)`` passes the argument on to the last step. The
# other answers are asked of the last step itself, with rows that the steps before it
# have transformed.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skboost import BoostedBayesianLinearRegression, BoostedBayesianPoissonRegression

plt.style.use("skboost.inspection.figures")

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(0.0, 0.55, 60), rng.uniform(0.8, 1.0, 20)])
y = np.sin(8.0 * x) + 0.2 * rng.standard_normal(80)

pipeline = make_pipeline(
    SplineTransformer(n_knots=9, include_bias=False),
    BoostedBayesianLinearRegression(prior_scale=1.0, random_state=0),
).fit(x[:, None], y)

grid = np.linspace(0.0, 1.0, 300)
mean, std = pipeline.predict(grid[:, None], return_std=True)
basis, model = pipeline[:-1].transform(grid[:, None]), pipeline[-1]
low, high = model.predict_interval(basis, level=0.9).T
_, latent = model.predict_latent(basis)

fig, ax = plt.subplots(figsize=(7, 4))
ax.fill_between(grid, low, high, color="C0", alpha=0.2, label="90 % of new responses")
ax.fill_between(
    grid,
    mean - 1.64 * latent,
    mean + 1.64 * latent,
    color="C0",
    alpha=0.4,
    label="90 % of curves",
)
ax.plot(grid, mean, "C0", label="predictive mean")
ax.plot(grid, np.sin(8.0 * grid), "k:", label="truth")
ax.scatter(x, y, s=10, color="k")
ax.set(xlabel="x", ylabel="y")
fig.legend(loc="outside upper center", ncols=4)

# %%
# Where there are no data the curve itself is uncertain; elsewhere nearly all of the
# interval is noise, which more data would not remove. In the gap the truth runs along
# the lower end of the curves' interval and leaves it near 0.6, where nothing tells the
# spline to turn so late. ``prior_scale=1.0`` says of what
# size the coefficients of the basis are; the default learns their size in units of the
# spread of each column, and is wide for columns that few rows inform.
#
# Counts with an exposure
# -----------------------
# Machines have run for different numbers of hours; the counts of their failures are
# Poisson with a rate in proportion. The hours are the ``exposure``.

hours = rng.uniform(10.0, 1000.0, 60)
age = rng.uniform(0.0, 10.0, 60)
failures = rng.poisson(hours * np.exp(0.2 * age - 5.5))
counts = BoostedBayesianPoissonRegression(random_state=0)
counts.fit(age[:, None], failures, exposure=hours)

ages = np.linspace(0.0, 10.0, 100)
fig, ax = plt.subplots(figsize=(7, 3.6))
for run, color in ((100.0, "C0"), (1000.0, "C1")):
    exposure = np.full(100, run)
    low, high = counts.predict_interval(ages[:, None], 0.9, exposure=exposure).T
    ax.fill_between(ages, low, high, step="mid", alpha=0.25, color=color)
    expected = counts.predict(ages[:, None], exposure=exposure)
    ax.plot(ages, expected, color=color, label=f"{run:.0f} hours")
ax.set(xlabel="age (years)", ylabel="failures")
fig.legend(loc="outside upper center", ncols=2, title="mean and 90 % interval")

# %%
# The ends of the intervals are counts. At least nine tenths of the predictive
# distribution lie between them; being whole, they hold somewhat more where counts are
# small.

new = np.array([[2.0], [9.0]])
exposure = [100.0, 1000.0]
print("mean     ", counts.predict(new, exposure=exposure).round(2))
print("quantiles", counts.predict_quantiles(new, exposure=exposure))
plt.show()
