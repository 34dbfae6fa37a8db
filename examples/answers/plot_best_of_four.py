"""
The best of four pages
======================

Four versions of a page are shown at random, and each visitor buys or does not. Which is
best, and how sure is that? The rates are known here, since the data are generated.
"""

# %%
# Visitors
# --------
# Equal visitors are one row: how many came, and how many of them bought.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skboost import BoostedBayesianLogisticRegression
from skboost.inspection import ComparisonDisplay, compare, rank

rng = np.random.default_rng(0)
rows = pd.DataFrame(
    [(page, device) for page in "abcd" for device in ("desk", "phone")],
    columns=["page", "device"],
)
truth = {"a": 0.100, "b": 0.104, "c": 0.118, "d": 0.122}
rate = rows["page"].map(truth) * np.where(rows["device"] == "phone", 0.6, 1.0)
rows["visitors"] = rng.integers(2500, 3500, 8)
rows["bought"] = rng.binomial(rows["visitors"], rate)

model = BoostedBayesianLogisticRegression.from_formula(
    "bought ~ page + device", rows, trials="visitors", random_state=0
)

# %%
# Who is best?
# ------------
# ``rank`` sets the page in all rows, averages the probability of a purchase, and orders
# the pages under every draw of the posterior.

table, pairwise = rank(model, "page", rows)
print(table.round(3).to_string(index=False))
print(f"\nthe first is better than the second with probability {pairwise[0, 1]:.2f}")

# %%
# What is it worth?
# -----------------
# Differences from the page of now, in purchases by visitor and as ratios. The devices
# count as often as visitors have them.

wanted = {"page": ["a", "b", "c", "d"]}
settings = {"sample_weight": rows["visitors"]}
print(compare(model, rows, wanted, **settings).round(4).T.to_string(header=False))
ComparisonDisplay.from_estimator(model, rows, wanted, ratio=True, **settings)
plt.show()
