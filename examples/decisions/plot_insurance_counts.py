"""
Claims of insured fleets: counts with exposures
===============================================

How many claims will each fleet of vehicles report next year, and how many should be
provided for? Counts grow with the exposure, and they vary more than any feature
explains: some fleets drive carefully and nobody wrote it down. A negative binomial
regression learns how much. The data are generated, so that answers can be compared with
the truth.
"""

# %%
# The data
# --------
# Six hundred fleets were insured for between 10 and 400 vehicle-years. Known are the
# share of young drivers, how far a vehicle goes in a year, and whether the fleet drives
# in a city. Unknown is a factor of each fleet whose standard deviation is 60 %.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skboost import BoostedBayesianPoissonRegression
from skboost.exceptions import OverdispersionWarning

plt.style.use("skboost.inspection.figures")

NAMES = ["young drivers", "kilometres", "city"]
EFFECTS, BASE, DISPERSION = np.array([0.3, 0.25, 0.4]), -3.2, 0.36


def fleets(n, rng):
    """Standardised features, vehicle-years and claims."""
    X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, n)])
    years = np.exp(rng.uniform(np.log(10.0), np.log(400.0), n))
    own = rng.gamma(1.0 / DISPERSION, DISPERSION, n)
    return X, years, rng.poisson(years * np.exp(X @ EFFECTS + BASE) * own)


rng = np.random.default_rng(0)
X, years, claims = fleets(600, rng)
later_X, later_years, later_claims = fleets(3000, rng)

# %%
# Two likelihoods
# ---------------
# ``exposure`` is a factor of the rate: twice the vehicle-years, twice the claims. The
# Poisson fit says by itself that it does not suit these counts.

models = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for likelihood in ("poisson", "negative_binomial"):
        model = BoostedBayesianPoissonRegression(likelihood=likelihood, random_state=0)
        models[likelihood] = model.fit(X, claims, exposure=years)
(warning,) = (w for w in caught if w.category is OverdispersionWarning)
print(warning.message)

# %%
# The evidence bound prefers the negative binomial likelihood by a wide margin, and its
# dispersion is the variance of the unknown factor.

for name, model in models.items():
    print(f"{name:18s} elbo {model.elbo_:9.1f}")
model = models["negative_binomial"]
low, high = model.dispersion_interval(0.9)
print(f"dispersion {model.dispersion_:.2f}, 90 % interval {low:.2f} to {high:.2f}")

# %%
# What raises the risk
# --------------------
# ``rate_ratios`` is a table of the factors of the rate. Poisson intervals are too
# short: they take every claim for an independent piece of evidence, although claims of
# one fleet share its unknown factor. That of the city misses the truth.

fig, ax = plt.subplots(figsize=(7, 2.8))
for k, (name, model) in enumerate(models.items()):
    place = np.arange(3) + 0.15 * (2 * k - 1)
    ratios = model.rate_ratios(0.9)[:3]
    ends = ratios["lower"], ratios["upper"]
    ax.hlines(place, *ends, color=f"C{k}", lw=3, label=name.replace("_", " "))
    ax.plot(ratios["rate_ratio"], place, "o", color=f"C{k}")
ax.plot(np.exp(EFFECTS), np.arange(3), "k|", ms=14, label="truth")
ax.set(yticks=range(3), yticklabels=NAMES, xlabel="factor of the rate of claims")
fig.legend(loc="outside upper center", ncols=3, title="median and 90 % interval")

# %%
# How many claims to provide for
# ------------------------------
# Three thousand other fleets report their claims a year later. How many of them lie in
# their 90 % intervals? Small fleets have few claims, for which the Poisson distribution
# is nearly right, and intervals of whole numbers hold somewhat more than nine tenths.
# The larger a fleet is, the more its unknown factor matters, and the less often the
# Poisson interval is right.

edges = np.geomspace(10.0, 400.0, 9)
group = np.digitize(later_years, edges[1:-1])
middle = np.sqrt(edges[1:] * edges[:-1])
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
grid = np.geomspace(10.0, 400.0, 60)
typical = np.zeros((60, 3))
for k, (name, model) in enumerate(models.items()):
    low, high = model.predict_interval(later_X, 0.9, exposure=later_years).T
    inside = (low <= later_claims) & (later_claims <= high)
    covered = [inside[group == g].mean() for g in range(8)]
    left.plot(middle, covered, "o-", color=f"C{k}", label=name.replace("_", " "))
    low, high = model.predict_interval(typical, 0.9, exposure=grid).T
    right.fill_between(grid, low, high, color=f"C{k}", alpha=0.35 - 0.1 * k)
left.axhline(0.9, color="k", ls=":")
ticks = {"xticks": [10, 30, 100, 300], "xticklabels": [10, 30, 100, 300]}
for ax in (left, right):
    ax.set(xscale="log", xlabel="vehicle-years", **ticks)
    ax.minorticks_off()
left.set(ylim=(0.3, 1.02), ylabel="covered")
left.set_title("New fleets inside their 90 % interval")
right.set(ylabel="claims")
right.set_title("Intervals of a typical fleet outside cities")
fig.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2)

# %%
# A provision that is enough with a probability of at least 95 % is a quantile of the
# predictive distribution. For a typical fleet of 200 vehicle-years it is half as large
# again as that of the Poisson likelihood, which is not enough as often as it says.

for name, model in models.items():
    enough = model.predict_quantiles(later_X, 0.95, exposure=later_years)[:, 0]
    one = model.predict_quantiles(typical[:1], 0.95, exposure=[200.0])[0, 0]
    score = model.log_predictive_density(later_X, later_claims, exposure=later_years)
    print(f"{name}: {one:.0f} claims for the typical fleet")
    print(f"    enough for {np.mean(later_claims <= enough):.1%} of all fleets")
    print(f"    mean log probability of a count {score.mean():.2f}")
plt.show()
