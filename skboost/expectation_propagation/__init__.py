"""Expectation propagation for logistic regressions, in closed form over many priors."""

from skboost.expectation_propagation._contrasts import ClassRows
from skboost.expectation_propagation._fits import Sites, propagated, variational
from skboost.expectation_propagation._mixture_priors import (
    MixedRows,
    horseshoe_mixture,
    laplace_mixture,
    student_t_mixture,
)
from skboost.expectation_propagation._predictors import linear_predictors
from skboost.expectation_propagation._scales import (
    CountRows,
    Gaussians,
    ScaleNodes,
    SignedRows,
    WideRows,
    scale_nodes,
)

__all__ = [
    "ClassRows",
    "CountRows",
    "Gaussians",
    "MixedRows",
    "ScaleNodes",
    "SignedRows",
    "Sites",
    "WideRows",
    "horseshoe_mixture",
    "laplace_mixture",
    "linear_predictors",
    "propagated",
    "scale_nodes",
    "student_t_mixture",
    "variational",
]
