"""The engine: a greedy search for components, and the loop's single step."""

from skboost.boosting._engine import Boosting
from skboost.boosting._first import find_mode
from skboost.boosting._state import Info, State

__all__ = ["Boosting", "Info", "State", "find_mode"]
