"""The engine: ``init`` and ``step`` of boosting variational inference."""

from skboost._settings import Settings
from skboost.boosting._engine import Boosting
from skboost.boosting._root_combination import RootCombination
from skboost.boosting._simplex import Combination, Simplex, SimplexIterate
from skboost.boosting._state import TOL, Info, Move, State, enough_for
from skboost.boosting._surrogate import SurrogateBoosting

# How components are combined, by the name that an objective gives.
COMBINATIONS = {"simplex": Simplex, "roots": RootCombination}
