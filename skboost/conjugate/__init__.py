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
from skboost.conjugate._documents import Documents
from skboost.conjugate._expectation import Expectation
from skboost.conjugate._factor_ascent import (
    annealed_factors,
    balanced,
    factor_ascent,
    factor_round,
    shaken_factors,
    turned_towards,
)
from skboost.conjugate._factor_family import SIDES, FactorFamily
from skboost.conjugate._factor_target import FactorTarget
from skboost.conjugate._family import ConjugateFamily, ConjugateTarget, DrawStream
from skboost.conjugate._gaussian_mixture import (
    CLUSTER_DISTRIBUTIONS,
    WEIGHT_DISTRIBUTIONS,
    GaussianMixtureModel,
)
from skboost.conjugate._likelihood import log_parts
from skboost.conjugate._matrix_factorization import (
    MatrixFactorizationModel,
    predicted_entries,
    predicted_rows,
)
from skboost.conjugate._natural import (
    combine,
    inside,
    largest_step,
    natural_step,
    scaled,
)
from skboost.conjugate._topics import TopicModel
from skboost.conjugate._weighted_entries import Observed

__all__ = [
    "CLUSTER_DISTRIBUTIONS",
    "COVARIANCES",
    "INITS",
    "SIDES",
    "ConjugateFamily",
    "ConjugateTarget",
    "Documents",
    "DrawStream",
    "Expectation",
    "FactorFamily",
    "FactorTarget",
    "GaussianMixtureModel",
    "MatrixFactorizationModel",
    "Observed",
    "TopicModel",
    "WEIGHT_DISTRIBUTIONS",
    "aligned",
    "annealed",
    "annealed_factors",
    "balanced",
    "combine",
    "coordinate_ascent",
    "factor_ascent",
    "factor_round",
    "inside",
    "largest_step",
    "log_parts",
    "natural_step",
    "predicted_entries",
    "predicted_rows",
    "responsibilities_of",
    "scaled",
    "shaken_factors",
    "split_and_merge",
    "start",
    "turned_towards",
    "with_louis_widths",
]
