"""Linear models with a boosted mixture as posterior."""

from skboost.linear_model._logistic import BoostedBayesianLogisticRegression

__all__ = ["BoostedBayesianLogisticRegression"]
