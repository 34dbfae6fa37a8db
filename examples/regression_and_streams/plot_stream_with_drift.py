"""
A stream that drifts
====================

The coefficients behind this stream of binary outcomes jump once and then turn slowly.
A posterior that forgets nothing becomes sure of an average of the past; with
``forgetting`` it keeps up.
"""

import matplotlib.pyplot as plt
import numpy as np

from skboost import OnlineBayesianLogisticRegression

plt.style.use("skboost.inspection.figures")

# %%
# Four coefficients: all jump after a third of the rows, two of them turn afterwards.

rng = np.random.default_rng(0)
n_rows, dim = 6000, 4
t = np.arange(n_rows)
truth = np.where(t[:, None] < n_rows // 3, [2.0, -1.0, 0.5, 0.0], [-1.0, 0.0, 2.0, 1.0])
angle = np.maximum(t - n_rows // 3, 0) / n_rows * 3.0
truth[:, 2] *= np.cos(angle)
truth[:, 3] += 2.0 * np.sin(angle)
X = rng.standard_normal((n_rows, dim))
y = (X * truth).sum(axis=1) + rng.logistic(size=n_rows) > 0

# %%
# Batches of 50 rows arrive; each row is predicted before the model learns from it.

models = {
    f: OnlineBayesianLogisticRegression(forgetting=f, beta=1.0, fit_intercept=False)
    for f in (1.0, 0.995, 0.95)
}
coefs = {f: [] for f in models}
losses = {f: [] for f in models}
ends = np.arange(50, n_rows + 1, 50)
for end in ends:
    batch = slice(end - 50, end)
    for f, model in models.items():
        model.partial_fit(X[batch], y[batch], classes=[False, True])
        coefs[f].append((model.coef_[0, 2], model.coef_std_[0, 2]))
        losses[f].append(model.cumulative_loss_)

for f, model in models.items():
    average = model.cumulative_loss_ / n_rows
    print(f"forgetting={f}: {average:.4f} nats per row before it was learned from")

# %%
# One coefficient with two posterior standard deviations. Without forgetting the
# posterior is narrow and wrong; with too much of it, wide and restless. Bands know of
# no jump: after it the truth lies outside that of 0.995 a fifth of the time, and
# outside that of 1.0 nearly always.

figure, ax = plt.subplots(figsize=(6.5, 3.8))
ax.plot(t, truth[:, 2], "k", label="truth")
for k, f in enumerate(models):
    mean, std = np.transpose(coefs[f])
    ax.plot(ends, mean, color=f"C{k}", label=f"forgetting={f}")
    band = mean - 2 * std, mean + 2 * std
    ax.fill_between(ends, *band, alpha=0.2, color=f"C{k}", linewidth=0)
ax.set(xlabel="rows so far", ylabel="third coefficient (log odds)")
figure.legend(loc="outside upper center", ncols=4)

# %%
# The loss over the last 500 rows. Before the jump forgetting costs a little, after it
# gains much.

figure, ax = plt.subplots(figsize=(6.5, 3.6))
for f in models:
    recent = (np.array(losses[f])[10:] - np.array(losses[f])[:-10]) / 500
    ax.plot(ends[10:], recent, label=f"forgetting={f}")
ax.set(xlabel="rows so far", ylabel="loss per row (nats)")
figure.legend(loc="outside upper center", ncols=3)
plt.show()
