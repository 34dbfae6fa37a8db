"""Gaussian posteriors of linear predictors that learn from one row after another."""

from skboost.online._conjugate import ConjugateStream
from skboost.online._methods import (
    EWA,
    NGVI,
    ONLINE_METHODS,
    SVA,
    SVB,
    GaussianLoss,
    LogisticLoss,
    PowerRate,
)
from skboost.online._streams import (
    DiagonalStream,
    DivergedError,
    FullStream,
    Rule,
    dense,
    gaussian_of,
)
