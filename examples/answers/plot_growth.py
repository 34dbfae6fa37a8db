"""
Growth of pigs by diet: contrasts of a model with slopes
========================================================

Sixty pigs are weighed every second week. Each grows at its own pace, and three diets
are compared: by how much do they differ at the end, and in kilograms a week? The data
are generated.
"""

# %%
# Pigs
# ----

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skboost import BoostedHierarchicalLinearRegression
from skboost.inspection import PredictionDisplay, compare

rng = np.random.default_rng(0)
pig, week = np.repeat(np.arange(60), 6), np.tile(np.arange(0, 12, 2), 60)
diet = np.array(["control", "copper", "zinc"])[pig % 3]
pace = 6.0 + 0.7 * (diet == "copper") + rng.normal(0.0, 0.5, 60)[pig]
weight = 25.0 + rng.normal(0.0, 2.5, 60)[pig] + pace * week + rng.normal(size=360)
pigs = pd.DataFrame({"weight": weight, "week": week, "diet": diet, "pig": pig})

model = BoostedHierarchicalLinearRegression.from_formula(
    "weight ~ week * diet + (week | pig)", pigs, random_state=0
)

# %%
# Contrasts
# ---------
# In the tenth week, and as a slope; ``groups="none"`` is about the diets and not about
# these pigs.

wanted = {"diet": ["control", "copper", "zinc"]}
last = compare(model, pigs, wanted, at={"week": 10}, groups="none")
paces = compare(model, pigs, {"week": "slope"}, by="diet", groups="none")
columns = ["difference", "lower", "upper"]
print("kilograms more than control in the tenth week")
print(last[["contrast", *columns]].round(2).to_string(index=False))
print("\nkilograms a week")
print(paces[["diet", *columns]].round(2).to_string(index=False))

# %%
# A picture of one diet, with new pigs: ``population=True`` is a pig that nobody has
# weighed yet.

PredictionDisplay.from_estimator(
    model, pigs, "week", at={"diet": "copper"}, population=True
)
plt.show()
