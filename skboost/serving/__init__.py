"""Fitted models without the package: a Python file on NumPy alone, an ONNX graph."""

from skboost.serving._module import write_module
from skboost.serving._onnx import onnx_model
from skboost.serving._parts import part_of
from skboost.serving._plain import (
    BinaryClassifier,
    ContrastsClassifier,
    ContrastsPart,
    CountRegressor,
    DrawsPart,
    GaussianPart,
    LinearRegressor,
    MultipleRegressor,
    OneVsRestClassifier,
    SoftmaxClassifier,
)

__all__ = [
    "BinaryClassifier",
    "ContrastsClassifier",
    "ContrastsPart",
    "CountRegressor",
    "DrawsPart",
    "GaussianPart",
    "LinearRegressor",
    "MultipleRegressor",
    "OneVsRestClassifier",
    "SoftmaxClassifier",
    "onnx_model",
    "part_of",
    "write_module",
]
