"""Prior distributions of regression coefficients, and of scales."""

from .targets._negative_binomial import DispersionPrior
from .targets._noisy_glm import NoiseScalePrior
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
    "DispersionPrior",
    "HalfNormalPrior",
    "HalfTPrior",
    "LaplacePrior",
    "NoiseScalePrior",
    "NormalPrior",
    "Prior",
    "ScalePrior",
    "StudentTPrior",
    "as_prior",
]
