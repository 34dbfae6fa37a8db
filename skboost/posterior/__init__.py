"""Posteriors as users meet them: summaries, marginals, plots, files."""

from skboost.approximation import Mixture
from skboost.posterior._backed import (
    ModelPosterior,
    as_generator,
    check_size,
    resampled,
)
from skboost.posterior._distances import ErrorEstimates, HellingerEstimate
from skboost.posterior._importance import (
    CalibrationWarning,
    Evidence,
    ImportanceSample,
    ImportanceWarning,
)
from skboost.posterior._marginal import Marginal, check_level
from skboost.posterior._modes import Mode
from skboost.posterior._posterior import (
    MixturePosterior,
    TransformedPosterior,
    as_posterior,
)
from skboost.posterior._storage import reading_archive, write_archive
from skboost.posterior._tables import summary_table
from skboost.posterior._transformed import SampledMarginal, TransformedMarginal

__all__ = [
    "CalibrationWarning",
    "ErrorEstimates",
    "Evidence",
    "HellingerEstimate",
    "ImportanceSample",
    "ImportanceWarning",
    "Marginal",
    "Mixture",
    "MixturePosterior",
    "Mode",
    "ModelPosterior",
    "SampledMarginal",
    "TransformedMarginal",
    "TransformedPosterior",
    "as_generator",
    "as_posterior",
    "check_level",
    "check_size",
    "reading_archive",
    "resampled",
    "summary_table",
    "write_archive",
]
