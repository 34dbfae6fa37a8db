"""One Gaussian through a map that bends, scales and skews it, fitted by its ELBO."""

from skboost.warps._fit import (
    WarpedELBO,
    WarpReport,
    elbo_gain,
    find_warp,
    given_up,
    not_tried,
    tail_gain,
)
from skboost.warps._map import Warp, WarpedConstraints
from skboost.warps._structure import (
    Edges,
    ScoredDraws,
    candidate_axes,
    drivers_first,
    find_edges,
)
