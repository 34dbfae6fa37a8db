"""Constrained parameters: maps between a user's scale and all of R^n."""

from skboost.transforms._base import Elementwise, Transform
from skboost.transforms._blocks import Correlation, Ordered, Simplex
from skboost.transforms._constraints import Constraints
from skboost.transforms._elementwise import (
    Interval,
    LowerBound,
    Periodic,
    Real,
    Scale,
    UpperBound,
    interval,
)
from skboost.transforms._parse import TRANSFORMS, as_transform
from skboost.transforms._warp import Tails, Warp, WarpedConstraints, soft_clip

__all__ = [
    "TRANSFORMS",
    "Constraints",
    "Correlation",
    "Elementwise",
    "Interval",
    "LowerBound",
    "Ordered",
    "Periodic",
    "Real",
    "Scale",
    "Simplex",
    "Tails",
    "Transform",
    "UpperBound",
    "Warp",
    "WarpedConstraints",
    "as_transform",
    "interval",
    "soft_clip",
]
