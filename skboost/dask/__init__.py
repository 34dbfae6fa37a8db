"""Estimators for Dask arrays: the rows stay on the workers (extra ``dask``)."""

from skboost.dask._estimators import (
    DaskBayesianLinearRegression,
    DaskBayesianLogisticRegression,
    DaskBayesianPoissonRegression,
    DaskGaussianMixture,
)

__all__ = [
    "DaskBayesianLinearRegression",
    "DaskBayesianLogisticRegression",
    "DaskBayesianPoissonRegression",
    "DaskGaussianMixture",
]
