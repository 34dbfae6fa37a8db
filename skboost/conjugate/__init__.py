"""Conjugate exponential-family models: natural parameters in and out."""

from skboost.conjugate._covariances import COVARIANCES
from skboost.conjugate._gaussian_mixture import LAWS, GaussianMixtureModel
from skboost.conjugate._natural import (
    combine,
    inside,
    largest_step,
    natural_step,
    scaled,
)

__all__ = [
    "COVARIANCES",
    "LAWS",
    "GaussianMixtureModel",
    "combine",
    "inside",
    "largest_step",
    "natural_step",
    "scaled",
]
