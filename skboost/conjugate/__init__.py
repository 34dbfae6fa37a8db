"""Conjugate exponential-family models: natural parameters in and out."""

from skboost.conjugate._covariances import COVARIANCES
from skboost.conjugate._gaussian_mixture import LAWS, GaussianMixtureModel
from skboost.conjugate._natural import combine, largest_step

__all__ = ["COVARIANCES", "LAWS", "GaussianMixtureModel", "combine", "largest_step"]
