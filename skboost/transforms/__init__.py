"""Constrained parameters: maps between a user's scale and all of R^n."""

from skboost.transforms._base import Elementwise, Transform
from skboost.transforms._blocks import Correlation, Ordered, Simplex
from skboost.transforms._constraints import Constraints, Part
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
