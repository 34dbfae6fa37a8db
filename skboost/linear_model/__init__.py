"""Linear models with a posterior: a boosted mixture, or one that follows a stream."""

from skboost.linear_model._hierarchical_linear import (
    BoostedHierarchicalLinearRegression,
)
from skboost.linear_model._hierarchical_logistic import (
    BoostedHierarchicalLogisticRegression,
)
from skboost.linear_model._hierarchical_ordinal import (
    BoostedHierarchicalOrdinalRegression,
)
from skboost.linear_model._hierarchical_poisson import (
    BoostedHierarchicalPoissonRegression,
)
from skboost.linear_model._linear import BoostedBayesianLinearRegression
from skboost.linear_model._logistic import BoostedBayesianLogisticRegression
from skboost.linear_model._online_linear import OnlineBayesianLinearRegression
from skboost.linear_model._online_logistic import OnlineBayesianLogisticRegression
from skboost.linear_model._ordinal import BoostedBayesianOrdinalRegression
from skboost.linear_model._poisson import BoostedBayesianPoissonRegression

__all__ = [
    "BoostedBayesianLinearRegression",
    "BoostedBayesianLogisticRegression",
    "BoostedBayesianOrdinalRegression",
    "BoostedBayesianPoissonRegression",
    "BoostedHierarchicalLinearRegression",
    "BoostedHierarchicalLogisticRegression",
    "BoostedHierarchicalOrdinalRegression",
    "BoostedHierarchicalPoissonRegression",
    "OnlineBayesianLinearRegression",
    "OnlineBayesianLogisticRegression",
]
