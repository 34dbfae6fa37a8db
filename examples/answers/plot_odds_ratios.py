"""
Effects for a report: which prior do I take?
============================================

The default learns the scale of its prior from the rows and shrinks all effects. That
predicts better, and is not what tables of effects in papers usually mean. Here are
both, with an interaction, as of those who survived a shipwreck. The data are generated.
"""

# %%
# Survivors
# ---------
# Women survive more often, in the third class less so.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skboost import BoostedBayesianLogisticRegression
from skboost.inspection import ComparisonDisplay, compare

rng = np.random.default_rng(0)
ship = pd.DataFrame(
    {
        "sex": rng.choice(["man", "woman"], 700, p=[0.65, 0.35]),
        "cabin": rng.choice(["first", "second", "third"], 700, p=[0.25, 0.2, 0.55]),
        "age": rng.gamma(6.0, 5.0, 700),
    }
)
woman, third = ship["sex"] == "woman", ship["cabin"] == "third"
eta = -0.4 + 3.2 * woman - 0.8 * third - 2.0 * (woman & third) - 0.03 * ship["age"]
ship["survived"] = rng.random(700) < 1.0 / (1.0 + np.exp(-eta))

# %%
# Two priors
# ----------
# Tables say under which prior they stand: the name above the first column, and a
# sentence in ``attrs``. A scale of ten is next to no prior.

fits = {}
for name, scale in {"learned": "auto", "wide": 10.0}.items():
    model = BoostedBayesianLogisticRegression(
        formula="survived ~ sex * cabin + age", prior_scale=scale, random_state=0
    )
    fits[name] = model.fit(ship)
    table = fits[name].odds_ratios()
    print(table.round(3), "\n")
print(fits["learned"].odds_ratios().attrs["prior"])

# %%
# The learned prior draws ratios towards 1, most where rows say least: that of women in
# the third class. Where classes are separated or rows are few, a wide prior has ratios
# in the thousands, as maximum likelihood does, and the learned one is nearer to the
# truth. Report which one it was.
#
# What readers want to know
# -------------------------
# With an interaction no odds ratio is the effect of being a woman. ``compare`` averages
# probabilities with everyone a man and with everyone a woman; here by cabin.

model = fits["wide"]
table = compare(model, ship, {"sex": ["man", "woman"]}, by="cabin")
print(table[["cabin", "difference", "lower", "upper"]].round(2).to_string(index=False))
ComparisonDisplay.from_estimator(model, ship, {"sex": ["man", "woman"]}, by="cabin")
plt.show()
