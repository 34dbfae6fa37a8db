"""Gaussian posteriors of linear predictors that learn from one row after another."""

from skboost.online._conjugate import ConjugateStream
from skboost.online._losses import GaussianLoss, LogisticLoss
from skboost.online._methods import (
    DEFAULT_BETA,
    EWA,
    NGVI,
    ONLINE_METHODS,
    SVA,
    SVB,
    Method,
)
from skboost.online._rates import PowerRate
from skboost.online._streams import (
    DiagonalStream,
    DivergedError,
    FullStream,
    Rule,
)

__all__ = [
    "DEFAULT_BETA",
    "EWA",
    "NGVI",
    "ONLINE_METHODS",
    "SVA",
    "SVB",
    "ConjugateStream",
    "DiagonalStream",
    "DivergedError",
    "FullStream",
    "GaussianLoss",
    "LogisticLoss",
    "Method",
    "PowerRate",
    "Rule",
]
