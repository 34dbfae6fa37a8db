"""Conjugate exponential-family models: natural parameters in and out."""

from skboost.conjugate._ascent import (
    INITS,
    aligned,
    annealed,
    coordinate_ascent,
    responsibilities_of,
    split_and_merge,
    start,
    with_louis_widths,
)
from skboost.conjugate._covariances import COVARIANCES
from skboost.conjugate._family import ConjugateFamily, ConjugateTarget, DrawStream
from skboost.conjugate._gaussian_mixture import (
    CLUSTER_DISTRIBUTIONS,
    GaussianMixtureModel,
)
from skboost.conjugate._natural import (
    combine,
    inside,
    largest_step,
    natural_step,
    scaled,
)

__all__ = [
    "COVARIANCES",
    "INITS",
    "CLUSTER_DISTRIBUTIONS",
    "ConjugateFamily",
    "ConjugateTarget",
    "DrawStream",
    "GaussianMixtureModel",
    "aligned",
    "annealed",
    "combine",
    "coordinate_ascent",
    "inside",
    "largest_step",
    "natural_step",
    "responsibilities_of",
    "scaled",
    "split_and_merge",
    "start",
    "with_louis_widths",
]
