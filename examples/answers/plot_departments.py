"""
Ratings by department: ranks, and a check
=========================================

Employees of nine departments say how content they are, in four ordered answers. Which
department is most content, how sure is its rank, and does the model make such answers?
The data are generated.
"""

# %%
# Answers
# -------

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skboost import BoostedHierarchicalOrdinalRegression
from skboost.inspection import PredictiveCheckDisplay, rank

ANSWERS = ["never", "rarely", "often", "always"]
rng = np.random.default_rng(0)
department = rng.choice(list("ABCDEFGHI"), 360, p=np.arange(9, 0, -1) / 45)
years = rng.gamma(2.0, 3.0, 360)
own = dict(zip("ABCDEFGHI", rng.normal(0.0, 1.0, 9), strict=True))
mood = np.array([own[d] for d in department]) + 0.08 * years + rng.logistic(size=360)
answer = np.array(ANSWERS)[np.digitize(mood, [-1.0, 0.5, 2.0])]

X = pd.DataFrame({"years": years, "department": department})
model = BoostedHierarchicalOrdinalRegression(
    categories=ANSWERS, groups=["department"], random_state=0
)
model.fit(X, answer)

# %%
# Ranks
# -----
# ``item`` is the department, and ``mean`` its effect in log odds. Ranks have wide
# intervals: a list in order alone would hide that.

table = rank(model, "department").table
print(table.round(2).to_string(index=False))
print("best in truth:", max(own, key=own.get))

# %%
# A check
# -------
# Bars are the answers that were given, blue what the model would give, with 90 % of its
# draws.

PredictiveCheckDisplay.from_estimator(model, X, answer)
plt.show()
