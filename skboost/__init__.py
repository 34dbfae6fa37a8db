"""Bayesian inference by boosting variational inference, for scikit-learn users."""

from skboost.linear_model import BoostedBayesianLogisticRegression

__version__ = "0.1.0"

__all__ = ["BoostedBayesianLogisticRegression"]
