"""
Tempering where the rows are not independent
============================================

A mixture takes its rows for independent. Where they are not, as here, where every
subject is measured eight times, the posterior is surer than the data allow. A
*tempered* posterior counts every row less than once.
"""

import matplotlib.pyplot as plt
import numpy as np

from skboost import SVIGaussianMixture

plt.style.use("skboost.inspection.figures")

CENTERS = np.array([[0.0, 0, 0, 0], [4.0, 4, 0, 0], [-4.0, 0, 4, 0]])


def subjects(rng, n, times):
    """Rows of `n` subjects, measured `times` times each."""
    position = CENTERS[rng.integers(3, size=n)] + rng.standard_t(4, size=(n, 4))
    return np.repeat(position, times, axis=0) + 0.3 * rng.normal(size=(n * times, 4))


# %%
# Twenty data sets of 24 subjects, and new subjects to predict. Temperatures are
# compared by held-out density. Their bounds cannot be compared: where log densities are
# negative, as here, the ELBO of the lowest temperature is the largest, since it counts
# each row the least.

temperatures = np.array([1.0, 0.5, 0.25, 0.125, 0.0625])
scores = np.empty((20, len(temperatures)))
bounds = np.empty_like(scores)
for seed in range(20):
    rng = np.random.default_rng(seed)
    X, new = subjects(rng, 24, 8), subjects(rng, 500, 1)
    for i, temperature in enumerate(temperatures):
        model = SVIGaussianMixture(
            6, temperature=temperature, covariance_prior=None, n_init=3, random_state=0
        ).fit(X)
        scores[seed, i], bounds[seed, i] = model.score(new), model.elbo_
gain = scores - scores[:, :1]
error = 2 * gain.std(axis=0, ddof=1) / np.sqrt(20)
for temperature, bound, mean, wide in zip(
    temperatures, bounds.mean(axis=0), gain.mean(axis=0), error, strict=True
):
    print(
        f"temperature {temperature:6.4f}: ELBO {bound:8.1f}, held-out density "
        f"{mean:+.3f} ± {wide:.3f} nats per row against temperature 1"
    )

# %%
# Eight measurements of a subject say little more than one, so the best temperature is
# far below 1.

figure, axes = plt.subplots(figsize=(5.5, 3.6))
axes.axhline(0.0, color="0.8")
axes.errorbar(temperatures, gain.mean(axis=0), error, fmt="o-")
axes.set(xscale="log", xlabel="temperature", ylabel="gain per new row (nats) ± 2 se")
axes.set_xticks(temperatures, ["1", "1/2", "1/4", "1/8", "1/16"])
axes.minorticks_off()
plt.show()
