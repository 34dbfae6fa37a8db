"""One Gaussian through a map that bends, scales and skews it, fitted by its ELBO."""

from skboost.warps._fit import WarpReport, find_warp, given_up, not_tried

__all__ = ["WarpReport", "find_warp", "given_up", "not_tried"]
