"""Constrained parameters: maps between a user's scale and all of R^n."""

from skboost.transforms._blocks import Correlation, Ordered, Simplex
from skboost.transforms._constraints import TRANSFORMS, Constraints, Part, as_transform
from skboost.transforms._elementwise import (
    Elementwise,
    Interval,
    LowerBound,
    Periodic,
    Real,
    Scale,
    Transform,
    UpperBound,
    interval,
)

__all__ = [
    "TRANSFORMS",
    "Constraints",
    "Correlation",
    "Elementwise",
    "Interval",
    "LowerBound",
    "Ordered",
    "Part",
    "Periodic",
    "Real",
    "Scale",
    "Simplex",
    "Transform",
    "UpperBound",
    "as_transform",
    "interval",
]
