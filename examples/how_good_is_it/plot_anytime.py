"""
Prediction at any time
======================

After its first component, which is ordinary variational inference, a boosted fit has
a valid posterior at every moment, and a further component is kept only if it makes it
better. So the time that a fit may take can be decided beforehand, afterwards, or not at
all.

The posterior here is one that is worth some time: 80 rows, and a Cauchy prior, under
which coefficients may be small or very large. It is skewed and has heavy tails.
"""

# %%
# One long run, looked at after every iteration
# ---------------------------------------------

# sphinx_gallery_thumbnail_number = 1

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLogisticRegression

plt.style.use("skboost.inspection.figures")

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X[:, :10], y, train_size=80, stratify=y, random_state=0
)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

# A run that is cut short may say that much is left. Here we know.
warnings.simplefilter("ignore", ConvergenceWarning)

settings = {"prior": "cauchy", "max_iter": 10, "tol": 0.01, "random_state": 0}
long_run = BoostedBayesianLogisticRegression(**settings).fit(X_train, y_train)
print(long_run.message_)

stages = [p[:, 1] for p in long_run.staged_predict_proba(X_test)]
losses = [log_loss(y_test, p) for p in stages]
clock = np.cumsum([row["seconds"] for row in long_run.history_])
print(f"\n{'iteration':>9s}{'seconds':>9s}{'ELBO':>17s}{'test log-loss':>15s}", end="")
print(f"{'largest change to the end':>27s}")
for row, second, p, loss in zip(long_run.history_, clock, stages, losses, strict=True):
    print(f"{row['iteration']:9d}{second:9.2f}", end="")
    print(f"{row['elbo']:9.3f} ± {row['elbo_se']:.3f}{loss:15.4f}", end="")
    print(f"{np.abs(p - stages[-1]).max():27.3f}")

# %%
# Most of what there is to gain comes early: later iterations still raise the ELBO,
# but change predictions less and less. Which of the two should end a run depends on
# what the posterior is for.
#
# A budget of time, and going on
# ------------------------------
# ``max_time`` is in seconds: when they are over, the iteration under way is given up.
# With ``warm_start=True`` the next ``fit`` on the same data goes on where the last one
# stopped, and the result is, to the last bit, that of one long run.

short_run = BoostedBayesianLogisticRegression(
    **settings, max_time=round(0.4 * clock[-1], 1), warm_start=True
).fit(X_train, y_train)
n_iter_short = short_run.n_iter_
print(f"{short_run.message_} {n_iter_short} iterations.")
p = short_run.predict_proba(X_test)[:, 1]
print(f"test log-loss {log_loss(y_test, p):.4f}")

short_run.set_params(max_time=None).fit(X_train, y_train)
same = np.array_equal(short_run.predict_proba(X_test)[:, 1], stages[-1])
print(f"After going on: {short_run.n_iter_} iterations, same predictions: {same}")

# %%
# The ELBO over the seconds. The dashed line is where ``max_time`` ended the short run,
# and where the warm start went on.

figure, ax = plt.subplots(figsize=(5.5, 3.6))
elbo_se = np.array([row["elbo_se"] for row in long_run.history_])
ax.errorbar(clock, long_run.elbo_path_, 2 * elbo_se, fmt="o-")
ax.axvline(clock[n_iter_short - 1], color="0.4", ls="--", lw=1)
ax.set(xlabel="seconds", ylabel="ELBO ± 2 se (nats)", xlim=(0, None))

# %%
# What predictions make of it: the log-loss of the test rows, and the twelve
# probabilities that changed most, one line each.

figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8))
iterations = range(1, len(stages) + 1)
axes[0].plot(iterations, losses, "o-")
axes[0].set(xlabel="iteration", ylabel="test log-loss (nats)")
moved = np.argsort(-np.abs(stages[0] - stages[-1]))[:12]
axes[1].plot(iterations, [p[moved] for p in stages], ".-", color="C0", lw=1.2)
axes[1].set(xlabel="iteration", ylabel="probability of benign", ylim=(0, 1))
for ax in axes:
    ax.set_xticks(iterations)
plt.show()
