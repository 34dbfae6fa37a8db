"""The engine: a greedy search for components, and the loop's single step."""

from skboost.boosting._certificate import missed
from skboost.boosting._engine import Boosting
from skboost.boosting._first import find_mode
from skboost.boosting._modes import Box
from skboost.boosting._state import Info, State
from skboost.boosting._universal import UniversalBoosting

__all__ = [
    "Boosting",
    "Box",
    "Info",
    "State",
    "UniversalBoosting",
    "find_mode",
    "missed",
]
