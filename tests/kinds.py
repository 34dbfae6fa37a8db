"""Estimators of linear predictors by short names: flat, with groups, and streams."""

import pytest

from skboost import BoostedBayesianLinearRegression as Linear
from skboost import BoostedBayesianLogisticRegression as Logistic
from skboost import BoostedBayesianOrdinalRegression as Ordinal
from skboost import BoostedBayesianPoissonRegression as Poisson
from skboost import BoostedHierarchicalLinearRegression as GroupedLinear
from skboost import BoostedHierarchicalLogisticRegression as GroupedLogistic
from skboost import BoostedHierarchicalOrdinalRegression as GroupedOrdinal
from skboost import BoostedHierarchicalPoissonRegression as GroupedPoisson
from skboost import OnlineBayesianLinearRegression as OnlineLinear
from skboost import OnlineBayesianLogisticRegression as OnlineLogistic

FLAT = Linear, Logistic, Ordinal, Poisson
GROUPED = GroupedLinear, GroupedLogistic, GroupedOrdinal, GroupedPoisson
ONLINE = OnlineLinear, OnlineLogistic


def over(name, values, slow=(), **options):
    """A test of every value, some of them in the slow tests alone."""
    marked = [pytest.param(v, marks=[pytest.mark.slow] * (v in slow)) for v in values]
    return pytest.mark.parametrize(name, marked, **options)
