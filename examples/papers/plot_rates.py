"""
What the theorems promise, and what is seen
===========================================

Boosting variational inference is a Frank-Wolfe method, and Frank-Wolfe methods have
rates. Locatello et al. (2018) give one in the curvature of the divergence, Dresdner et
al. (2021) one in the mean of the local curvatures that their adaptive steps measure.
This example puts the numbers of a run into both, beside the error that is known.
"""

# %%
# The density
# -----------
# Two normal densities with known masses: the integral is 1, and so what the evidence
# lower bound lacks of 0 is the KL divergence, which is 0 for the best mixture.

# sphinx_gallery_thumbnail_number = 1

import warnings

import autograd.numpy as np
import matplotlib.pyplot as plt
from autograd.scipy.stats import norm

from skboost import boost_posterior
from skboost.strategies import GreedySearch

plt.style.use("skboost.inspection.figures")


def log_density(theta):
    """Log density of the mixture, (n, 1) -> (n,)."""
    x = theta[:, 0]
    left = norm.logpdf(x, -1.0, 0.5) + np.log(0.4)
    return np.logaddexp(left, norm.logpdf(x, 1.0, 0.5) + np.log(0.6))


# %%
# One run by adaptive steps
# -------------------------
# Components are not refined and weights not corrected, as the theorems have it.

with warnings.catch_warnings():
    # The run ends after its iterations, and says so.
    warnings.simplefilter("ignore")
    result = boost_posterior(
        log_density,
        1,
        step_size="adaptive",
        corrective="none",
        search=GreedySearch(refine=False),
        orbit=None,
        tol=0.0,
        max_iter=12,
        random_state=0,
    )

measured = -np.array([record["elbo"] for record in result.history])
error = np.array([record["elbo_se"] for record in result.history])
rate = result.rate_bound()
adaptive = result.adaptive_rate_bound()

# %%
# Measured against bound
# ----------------------
# The first rate falls with the inverse of the number of steps, the second too but for
# the mean of the curvatures, which moves. It is the lower of the two: a single curved
# step raises the other for good. What is measured lies far below either, since a bound
# allows for the worst direction in every step, and a search for components finds good
# ones. The rates say that the error
# vanishes, and not how large it is.

t = np.arange(len(measured))
_, ax = plt.subplots()
ax.plot(t, rate, "--", label="Locatello et al. 2018, largest curvature")
ax.plot(t[1:], adaptive, ":", label="Dresdner et al. 2021, mean curvature")
ax.errorbar(t, measured, 2.0 * error, fmt="o-", ms=4, label="measured (2 s.e.)")
ax.set(yscale="log", ylim=(1e-3, None), xlabel="step t", ylabel="KL divergence, nats")
ax.legend()
plt.show()

# %%
# Both are *estimates* of bounds: curvatures and the error of the first component come
# from draws, and ``result.rate_bound`` takes the curvature as an
# argument where it is known.
