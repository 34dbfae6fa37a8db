"""Estimators for Dask arrays: the rows stay on the workers (extra ``dask``)."""

from skboost.dask._linear import (
    DaskBayesianLinearRegression,
    DaskBayesianLogisticRegression,
    DaskBayesianPoissonRegression,
)
from skboost.dask._mixture import DaskGaussianMixture

__all__ = [
    "DaskBayesianLinearRegression",
    "DaskBayesianLogisticRegression",
    "DaskBayesianPoissonRegression",
    "DaskGaussianMixture",
]
