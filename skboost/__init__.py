"""Bayesian inference by boosting variational inference, for scikit-learn users."""

from skboost._posterior_api import BoostingResult, boost_posterior
from skboost.linear_model import BoostedBayesianLogisticRegression
from skboost.mixture import BoostedGaussianMixture, SVIGaussianMixture
from skboost.model_selection import EvidenceSearch
from skboost.posterior import MixturePosterior

__version__ = "0.2.0"

__all__ = [
    "BoostedBayesianLogisticRegression",
    "BoostedGaussianMixture",
    "BoostingResult",
    "EvidenceSearch",
    "MixturePosterior",
    "SVIGaussianMixture",
    "boost_posterior",
]
