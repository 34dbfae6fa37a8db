"""Prior distributions of regression coefficients, and of scales."""

from .targets._priors import (
    PRIORS,
    LaplacePrior,
    NormalPrior,
    Prior,
    StudentTPrior,
    as_prior,
)
from .targets._scale_priors import HalfNormalPrior, HalfTPrior, ScalePrior

__all__ = [
    "PRIORS",
    "HalfNormalPrior",
    "HalfTPrior",
    "LaplacePrior",
    "NormalPrior",
    "Prior",
    "ScalePrior",
    "StudentTPrior",
    "as_prior",
]
