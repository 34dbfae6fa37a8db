"""Fitted models without the package: a Python file on NumPy alone, an ONNX graph."""

from skboost.serving._clusters import MixtureClusters
from skboost.serving._grouped import (
    GroupedClassifier,
    GroupedCounts,
    GroupedFactor,
    GroupedOrdinal,
    GroupedRegressor,
)
from skboost.serving._module import standalone, write_module
from skboost.serving._onnx import onnx_model
from skboost.serving._plain import (
    BinaryClassifier,
    ContrastsClassifier,
    ContrastsPart,
    CountRegressor,
    DrawsPart,
    GaussianPart,
    LaplacePart,
    LinearRegressor,
    OneVsRestClassifier,
    OrdinalClassifier,
    SoftmaxClassifier,
    StudentTPart,
    between_thresholds,
    shares,
)
from skboost.serving._steps import (
    Affine,
    Before,
    Category,
    Chain,
    Columns,
    Encoded,
    Imputed,
    Scaled,
    is_na,
)
