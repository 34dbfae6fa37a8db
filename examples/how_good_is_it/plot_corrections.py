"""
Moments and tails after boosting
================================

What boosting minimises forgives light tails and standard deviations that are too small.
A correction afterwards spends a little of the ELBO to put them right, and is declined
where fresh draws see nothing to gain.

Here are two posteriors: one with heavy tails, in three dimensions, and a skewed one in
sixty. When to use which correction is in the user guide
(:ref:`corrections`).
"""

# %%
# Heavy tails in few dimensions
# -----------------------------
#
# A Student-t density with three degrees of freedom, whose quantiles are known.
# Student-t components are fitted to weighted draws. ``"auto"`` puts them beside the
# Gaussians of the fit, ``"moments"`` in their place.

# sphinx_gallery_thumbnail_number = 1

import warnings

import autograd.numpy as anp
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import t as student_t
from sklearn.exceptions import ConvergenceWarning

from skboost import BoostedBayesianLogisticRegression, boost_posterior

plt.style.use("skboost.inspection.figures")

warnings.simplefilter("ignore", ConvergenceWarning)


def log_density(theta, df=3.0):
    squared = anp.sum(theta**2, axis=-1)
    return -0.5 * (df + theta.shape[-1]) * anp.log1p(squared / df)


results = {
    str(method): boost_posterior(
        log_density, 3, calibrate=method, max_iter=2, orbit=None, random_state=0
    )
    for method in (None, "auto", "moments")
}
print(f"{'calibrate':>10s}{'ELBO':>9s}{'std':>7s}{'90 % interval':>18s}")
for name, result in results.items():
    lower, upper = result.posterior.interval(0.9)[0]
    print(f"{name:>10s}{result.elbo:9.3f}{result.posterior.std()[0]:7.2f}", end="")
    print(f"{lower:9.2f} to {upper:.2f}")
truth = student_t(3.0)
print(f"{'truth':>10s}{'':9s}{truth.std():7.2f}{truth.ppf(0.05):9.2f}", end="")
print(f" to {truth.ppf(0.95):.2f}")
print(f"\n{results['moments'].message}")

# %%
# What became of the correction is in ``calibration``.

print(results["auto"].calibration)

# %%
# In the picture the tails: on a log scale Gaussians fall like parabolas.

x = np.linspace(-15, 15, 301)
fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(x, truth.logpdf(x), color="0.75", lw=5, label="truth")
styles = {"None": "C1-", "auto": "C0-", "moments": "C2--"}
for name, result in results.items():
    log_q = np.log(result.posterior.marginal(0).pdf(x))
    ax.plot(x, log_q, styles[name], label=f"calibrate={name}")
ax.set(ylim=(-16, 0), xlabel="a coefficient", ylabel="log density (nats)")
fig.legend(loc="outside right upper")

# %%
# Many coefficients
# -----------------
#
# A logistic regression with 60 coefficients and 80 rows: the posterior is skewed in
# every direction, and one Gaussian of largest ELBO is too narrow. Gradient chains, too
# short to be draws of the posterior, still tell its moments; the Gaussian is shifted
# and stretched to them. Importance weights would be no guide here.

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 60))
y = rng.random(80) < 1 / (1 + np.exp(-X @ rng.standard_normal(60)))
fits = {
    name: BoostedBayesianLogisticRegression(
        fit_intercept=False, max_iter=1, calibrate=name, orbit=None, random_state=0
    ).fit(X, y)
    for name in (None, "moments")
}
before, after = (fit.posterior_.std() for fit in fits.values())
print(fits["moments"].calibration_)
print(f"\nstandard deviations grew by {100 * np.mean(after / before - 1):.1f} %")

fig, ax = plt.subplots(figsize=(4.6, 4.2))
ax.plot(before, after, ".")
ends = [before.min(), after.max()]
ax.plot(ends, ends, "k", lw=1)
ax.set(xlabel="standard deviation before (log odds)", ylabel="after the correction")

# %%
# The truth is not known here: a long run of a sampler would tell it.

plt.show()
