"""
Regression that outliers do not move
====================================

Some responses are plainly wrong: a sensor that failed, a comma in the wrong place.
Under normal noise each of them pulls the line with its whole weight. Student-t noise
expects a few residuals far out, and lets them go. Which noise the data prefer is no
matter of taste: the evidence says so, and so do held-out log densities.
"""

# %%
# A line with eight wrong responses
# ---------------------------------

# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt
import numpy as np

from skboost import BoostedBayesianLinearRegression

plt.style.use("skboost.inspection.figures")

rng = np.random.default_rng(0)
x = rng.uniform(-3.0, 3.0, 80)
y = 1.0 + 0.8 * x + 0.4 * rng.standard_normal(80)
wrong = rng.choice(np.flatnonzero(x > 0.5), 8, replace=False)
y[wrong] -= rng.uniform(5.0, 9.0, 8)
X = x[:, None]

fits = {
    noise: BoostedBayesianLinearRegression(noise=noise, random_state=0).fit(X, y)
    for noise in ("normal", "student_t")
}
for noise, model in fits.items():
    low, high = model.coef_interval(0.9)[0]
    print(
        f"{noise:>9}: slope {model.coef_[0]:.2f} (90 %: {low:.2f} to {high:.2f}), "
        f"noise scale {model.noise_scale_:.2f}, ELBO {model.elbo_:.1f} nats"
    )

# %%
# The true slope is 0.8 and the scale of the noise 0.4. The ELBO is a lower bound on the
# log evidence: under the same priors of the coefficients a difference of a few nats is
# decisive.
#
# Lines and predictive intervals
# ------------------------------
# The intervals hold 90 % of the predictive distribution, noise included. Normal noise
# has to widen them everywhere to reach the wrong responses.

grid = np.linspace(-3.2, 3.2, 200)[:, None]
fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(x, y, "k.")
for noise, color in (("normal", "C1"), ("student_t", "C0")):
    model = fits[noise]
    low, high = model.predict_interval(grid, 0.9).T
    ax.fill_between(grid[:, 0], low, high, alpha=0.2, color=color, linewidth=0)
    ax.plot(grid[:, 0], model.predict(grid), color=color, label=f'noise="{noise}"')
ax.plot(grid[:, 0], 1.0 + 0.8 * grid[:, 0], "k:", label="truth")
ax.set(xlabel="x", ylabel="y")
fig.legend(loc="outside upper center", ncols=3)
plt.show()
