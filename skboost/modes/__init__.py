"""Modes of a log density: climbs from many points, told apart and counted."""

from skboost.modes._climb import Evaluations, climb_all, find_mode, laplace
from skboost.modes._curvature import (
    MAX_HESSIAN_DIM,
    add_columns,
    diagonal_curvature,
    inverse_curvature,
    wide_directions,
)
from skboost.modes._missed import missed_modes, weighed
from skboost.modes._modes import Box, Modes, ModeSearch, add_ends
