"""Prior distributions of regression coefficients."""

from .targets._priors import (
    PRIORS,
    LaplacePrior,
    NormalPrior,
    Prior,
    StudentTPrior,
    as_prior,
)

__all__ = [
    "PRIORS",
    "LaplacePrior",
    "NormalPrior",
    "Prior",
    "StudentTPrior",
    "as_prior",
]
