"""
A study with thirty patients
============================

Thirty patients, ten measurements each, and a doctor who wants to know how ill the next
one will be in a year. With so few rows the size of the coefficients is itself unknown,
and intervals that take it for known are too short. The data are the 442 diabetes
patients that come with scikit-learn; those that are not in the study say who was right.
"""

# %%
# One study
# ---------
# ``prior_scale="learn"``, the default, averages over the size of the coefficients in
# place of choosing one. The rivals are those of scikit-learn.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.linear_model import ARDRegression, BayesianRidge
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLinearRegression

plt.style.use("skboost.inspection.figures")

X, y = load_diabetes(return_X_y=True)
names = np.array(load_diabetes().feature_names)


def study(n, seed):
    """Patients of a study, standardised by it, and all others."""
    order = np.random.default_rng(seed).permutation(len(y))
    scaler = StandardScaler().fit(X[order[:n]])
    Z = scaler.transform(X[order])
    return Z[:n], y[order[:n]], Z[n:], y[order[n:]]


Z, progression, Z_new, progression_new = study(30, 0)
model = BoostedBayesianLinearRegression(prior_scale="learn", random_state=0)
model.fit(Z, progression)
low, high = model.coef_interval(0.9).T
low_size, high_size = model.prior_scale_interval(0.9)
print(f"coefficients of size {low_size:.2f} to {high_size:.2f} (response: 1)")

figure, ax = plt.subplots(figsize=(6.5, 3.4))
everybody = BayesianRidge().fit(StandardScaler().fit_transform(X), y).coef_
ax.hlines(names, low, high, color="C0", linewidth=2.5, label="90 % interval")
ax.plot(model.coef_, names, "o", color="C0", label="mean")
ax.plot(everybody, names, "kx", label="all 442 patients")
ax.axvline(0.0, color="0.7", linewidth=0.8)
ax.invert_yaxis()
ax.set_xlabel("progression for one standard deviation of the measurement")
figure.legend(loc="outside upper center", ncols=3)

# %%
# Thirty patients show that blood pressure (``bp``) matters, and overrate it; of the
# other measurements they leave even the sign open. Every interval holds what all
# patients say.
#
# Twenty studies
# --------------
# One study may be luck. Twenty of each size, with other patients: how many of the
# others lie in their 90 % intervals, and what probability density did they get?

models = {
    "skboost": BoostedBayesianLinearRegression(prior_scale="learn", random_state=0),
    "BayesianRidge": BayesianRidge(),
    "ARDRegression": ARDRegression(),
}
sizes = [15, 30, 60]
covered = {name: np.empty((len(sizes), 20)) for name in models}
density = {name: np.empty((len(sizes), 20)) for name in models}
for i, n in enumerate(sizes):
    for seed in range(20):
        Z, progression, Z_new, progression_new = study(n, seed)
        for name, model in models.items():
            model.fit(Z, progression)
            if name == "skboost":
                low, high = model.predict_interval(Z_new, 0.9).T
                log_density = model.log_predictive_density(Z_new, progression_new)
            else:
                mean, std = model.predict(Z_new, return_std=True)
                low, high = mean - 1.645 * std, mean + 1.645 * std
                log_density = norm.logpdf(progression_new, mean, std)
            inside = (low <= progression_new) & (progression_new <= high)
            covered[name][i, seed] = inside.mean()
            density[name][i, seed] = log_density.mean()

for name in models:
    print(f"{name:15s}", "covered", covered[name].mean(axis=1).round(3),
          "log density", density[name].mean(axis=1).round(2))  # fmt: skip

figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4))
for k, name in enumerate(models):
    for ax, values in zip(axes, (covered, density), strict=True):
        error = 2.0 * values[name].std(axis=1, ddof=1) / np.sqrt(20)
        ax.errorbar(np.array(sizes) * 1.05 ** (k - 1), values[name].mean(axis=1), error,
                    fmt="o-", color=f"C{k}", label=name)  # fmt: skip
        ax.set(xscale="log", xlabel="patients in the study")
        ax.set_xticks(sizes, sizes)
        ax.minorticks_off()
axes[0].axhline(0.9, color="k", linestyle=":")
axes[0].set(ylabel="share in the 90 % interval")
axes[1].set(ylabel="log density of a patient (nats)")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
plt.show()

# %%
# Bars are two standard errors. From sixty patients on it hardly matters what one takes.
# With fifteen all intervals are too short, those of a learned scale the least: fifteen
# patients say little about the noise as well, and progression is not normal.
