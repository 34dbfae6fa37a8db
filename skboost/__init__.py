"""Bayesian inference by boosting variational inference, for scikit-learn users."""

from skboost._posterior_api import BoostingResult, boost_posterior
from skboost._row_blocks import RowBlocks
from skboost._version import __version__ as __version__
from skboost.decomposition import (
    BoostedMatrixFactorization,
    SVILatentDirichletAllocation,
    SVIMatrixFactorization,
)
from skboost.linear_model import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianOrdinalRegression,
    BoostedBayesianPoissonRegression,
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalOrdinalRegression,
    BoostedHierarchicalPoissonRegression,
    OnlineBayesianLinearRegression,
    OnlineBayesianLogisticRegression,
)
from skboost.mixture import BoostedGaussianMixture, SVIGaussianMixture
from skboost.model_selection import EvidenceSearch
from skboost.posterior import MixturePosterior

__all__ = [
    "BoostedBayesianLinearRegression",
    "BoostedBayesianLogisticRegression",
    "BoostedBayesianOrdinalRegression",
    "BoostedBayesianPoissonRegression",
    "BoostedGaussianMixture",
    "BoostedHierarchicalLinearRegression",
    "BoostedHierarchicalLogisticRegression",
    "BoostedHierarchicalOrdinalRegression",
    "BoostedHierarchicalPoissonRegression",
    "BoostedMatrixFactorization",
    "BoostingResult",
    "EvidenceSearch",
    "MixturePosterior",
    "OnlineBayesianLinearRegression",
    "OnlineBayesianLogisticRegression",
    "RowBlocks",
    "SVIGaussianMixture",
    "SVILatentDirichletAllocation",
    "SVIMatrixFactorization",
    "boost_posterior",
]
