"""Prior distributions of regression coefficients, and of scales."""

from skboost.targets import (
    PRIORS,
    DispersionPrior,
    HalfNormalPrior,
    HalfTPrior,
    HorseshoePrior,
    LaplacePrior,
    LKJPrior,
    NoiseScalePrior,
    NormalPrior,
    Prior,
    ScalePrior,
    StudentTPrior,
    as_prior,
)

__all__ = [
    "PRIORS",
    "DispersionPrior",
    "HalfNormalPrior",
    "HalfTPrior",
    "HorseshoePrior",
    "LKJPrior",
    "LaplacePrior",
    "NoiseScalePrior",
    "NormalPrior",
    "Prior",
    "ScalePrior",
    "StudentTPrior",
    "as_prior",
]
