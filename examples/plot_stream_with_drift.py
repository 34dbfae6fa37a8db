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
# On the left one coefficient with two posterior standard deviations. Without forgetting
# the posterior is narrow and wrong; with too much of it, wide and restless. On the
# right the loss over the last 500 rows: before the jump forgetting costs a little,
# after it gains much.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(t, truth[:, 2], "k", label="truth")
for f in models:
    mean, std = np.transpose(coefs[f])
    (line,) = left.plot(ends, mean, label=f"forgetting={f}")
    left.fill_between(
        ends, mean - 2 * std, mean + 2 * std, alpha=0.2, color=line.get_color()
    )
    recent = (np.array(losses[f])[10:] - np.array(losses[f])[:-10]) / 500
    right.plot(ends[10:], recent)
left.set(xlabel="rows so far", ylabel="third coefficient")
left.legend(fontsize="small")
right.set(xlabel="rows so far", ylabel="loss over the last 500 rows (nats)")
plt.show()
