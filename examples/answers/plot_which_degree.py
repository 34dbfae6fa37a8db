"""
Which degree? Evidence and leave-one-out
========================================

Polynomials of a few degrees are fitted to eighty points of a cubic. Two numbers compare
them: a bound of the log evidence, which asks for the probability of the data before
they came, and leave-one-out, which asks how well each point is predicted by the others.
"""

# %%
# Six degrees
# -----------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skboost import BoostedBayesianLinearRegression
from skboost.inspection import PredictionDisplay, leave_one_out

plt.style.use("skboost.inspection.figures")

rng = np.random.default_rng(0)
x = rng.uniform(-1.0, 1.0, (80, 1))
y = 2.0 * x[:, 0] ** 3 - x[:, 0] + 0.3 * rng.normal(size=80)

fits, loo = {}, {}
for degree in range(1, 7):
    steps = PolynomialFeatures(degree, include_bias=False), StandardScaler()
    pipe = make_pipeline(*steps, BoostedBayesianLinearRegression(random_state=0))
    fits[degree] = pipe.fit(x, y)
    loo[degree] = leave_one_out(pipe, x, y)

# %%
# Through the pipeline, whose rows come as they are. Differences of leave-one-out have a
# standard error of their own, from differences of points.

best = max(loo, key=lambda degree: loo[degree].elpd)
print("degree     elbo     loo   behind the best (se)")
for degree, found in loo.items():
    behind = loo[best].pointwise - found.pointwise
    se = behind.std() * np.sqrt(len(behind))
    elbo = fits[degree][-1].elbo_
    print(f"{degree:6d} {elbo:8.1f} {found.elpd:7.1f} {behind.sum():9.1f} ({se:.1f})")

# %%
# The picture of the best: the curve with its interval, and that of new points.

PredictionDisplay.from_estimator(fits[best], x, 0, y=y)
plt.show()
