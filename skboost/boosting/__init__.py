"""The engine: a greedy search for components, and the loop's single step."""

from skboost.boosting._conjugate import ConjugateBoosting
from skboost.boosting._conjugate_ascent import INITS
from skboost.boosting._conjugate_family import ConjugateFamily, ConjugateTarget
from skboost.boosting._engine import Boosting
from skboost.boosting._first import find_mode
from skboost.boosting._modes import Box
from skboost.boosting._state import Info, State
from skboost.boosting._universal import UniversalBoosting

__all__ = [
    "INITS",
    "Boosting",
    "Box",
    "ConjugateBoosting",
    "ConjugateFamily",
    "ConjugateTarget",
    "Info",
    "State",
    "UniversalBoosting",
    "find_mode",
]
