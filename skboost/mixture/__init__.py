"""Bayesian Gaussian mixtures."""

from skboost.mixture._svi import SVIGaussianMixture

__all__ = ["SVIGaussianMixture"]
