"""Gaussian mixtures with a posterior over their parameters."""

from skboost.mixture._boosted import BoostedGaussianMixture
from skboost.mixture._posterior import ConjugateMixturePosterior
from skboost.mixture._svi import SVIGaussianMixture

__all__ = ["BoostedGaussianMixture", "ConjugateMixturePosterior", "SVIGaussianMixture"]
