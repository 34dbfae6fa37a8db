"""
An A/B test: which page, and when to stop
=========================================

Two versions of a page are shown to visitors at random, and each visitor buys or does
not. The question is not whether the difference is significant. It is what a wrong
choice would cost, and whether another week of testing is worth it. The data are
generated, so that the answer is known.
"""

# %%
# Two weeks of visitors
# ---------------------
# About 1,500 visitors a day, a third of them on phones, where fewer buy. The new page
# raises the odds of a purchase by 12 %. Equal visitors are one row with a weight: there
# are eight rows a day, whatever the traffic.

import matplotlib.pyplot as plt
import numpy as np

from skboost import BoostedBayesianLogisticRegression

plt.style.use("skboost.inspection.figures")

DAYS, TRUE = 28, np.log(1.12)
rng = np.random.default_rng(0)
rows, bought, visitors, day = [], [], [], []
for d in range(DAYS):
    for new in (0, 1):
        for phone in (0, 1):
            n = rng.poisson(250 if phone else 500)
            rate = 1.0 / (1.0 + np.exp(2.2 - TRUE * new + 0.6 * phone))
            k = rng.binomial(n, rate)
            rows += [[new, phone]] * 2
            bought += [1, 0]
            visitors += [k, n - k]
            day += [d, d]
rows, bought, visitors, day = map(np.array, (rows, bought, visitors, day))

# %%
# One number to decide by
# -----------------------
# A priori pages differ by some tenths in the log odds: ``prior_scale`` is 0.3 for the
# page. Draws of the coefficients become draws of what matters, the purchases of a
# thousand future visitors under either page.


def difference(until):
    """Draws of additional purchases of 1,000 visitors by the new page."""
    seen = day < until
    model = BoostedBayesianLogisticRegression(prior_scale=[0.3, 1.0], random_state=0)
    model.fit(rows[seen], bought[seen], sample_weight=visitors[seen])
    coef, intercept = model.sample_posterior(4000, random_state=0)
    phone = np.average(rows[seen, 1], weights=visitors[seen])
    purchases = []
    for new in (0, 1):
        eta = coef[:, 0] * new + intercept
        on_phone = 1.0 / (1.0 + np.exp(-eta - coef[:, 1]))
        purchases.append(phone * on_phone + (1 - phone) / (1.0 + np.exp(-eta)))
    return 1000.0 * (purchases[1] - purchases[0])


gain = difference(14)
print(f"after 14 days: new page better with probability {np.mean(gain > 0):.2f}")
print(f"expected gain {gain.mean():.1f} purchases of 1,000 visitors")
print(f"expected loss if it is taken  {np.mean(np.maximum(-gain, 0)):.2f}")
print(f"expected loss if it is not    {np.mean(np.maximum(gain, 0)):.2f}")

figure, ax = plt.subplots(figsize=(6.5, 3.2))
bins = np.linspace(gain.min(), gain.max(), 60)
ax.hist(gain[gain > 0], bins, color="C0", alpha=0.6, label="new page better")
ax.hist(gain[gain <= 0], bins, color="C1", alpha=0.8, label="old page better")
ax.set(xlabel="additional purchases of 1,000 visitors", yticks=[])
ax.spines["left"].set_visible(False)
figure.legend(loc="outside upper center", ncols=2)

# %%
# When to stop
# ------------
# The expected loss of the better choice is what a decision today may cost. It falls as
# visitors come, and the test can end when it is below what another day of testing
# costs; here, half a purchase of 1,000 visitors. Looking every day does no harm: the
# expected loss is about these data, not about what a test would do if repeated.

days = np.arange(2, DAYS + 1, 2)
draws = [difference(d) for d in days]
loss = [min(np.mean(np.maximum(g, 0)), np.mean(np.maximum(-g, 0))) for g in draws]
low, high = np.quantile(draws, [0.05, 0.95], axis=1)
base = 1.0 / (1.0 + np.exp(2.2 + np.array([0.0, 0.6])))
odds = base / (1 - base) * np.exp(TRUE)
truth = 1000.0 * ((odds / (1 + odds) - base) @ [2 / 3, 1 / 3])
stop = days[np.array(loss) < 0.5]
if len(stop):
    print(f"expected loss below half a purchase from day {stop[0]} on")

figure, (upper, lower) = plt.subplots(2, 1, figsize=(6.5, 5), sharex=True)
upper.fill_between(days, low, high, color="C0", alpha=0.25, label="90 % interval")
upper.plot(days, np.mean(draws, axis=1), "C0", label="mean")
upper.axhline(truth, color="k", linestyle=":", label="truth")
upper.axhline(0.0, color="0.7", linewidth=0.8)
upper.set_ylabel("gain of the new page")
lower.plot(days, loss, "o-", color="C1")
lower.axhline(0.5, color="k", linestyle="--")
lower.set(xlabel="days", ylabel="expected loss", ylim=(0, None))
figure.legend(*upper.get_legend_handles_labels(), loc="outside upper center", ncols=3)
plt.show()

# %%
# After four days the pages seem alike, and a decision could cost two purchases of a
# thousand visitors. Two days later the loss is below half a purchase. The interval
# holds the truth all the time; nine of ten tests would have one that does on a day.
