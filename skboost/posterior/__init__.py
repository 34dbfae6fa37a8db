"""Posteriors as users meet them: summaries, marginals, plots, files."""

from skboost.mixtures import Mixture
from skboost.posterior._distances import ErrorEstimates, HellingerEstimate
from skboost.posterior._importance import (
    Evidence,
    ImportanceSample,
    ImportanceWarning,
)
from skboost.posterior._marginal import Marginal
from skboost.posterior._modes import Mode
from skboost.posterior._posterior import (
    MixturePosterior,
    TransformedPosterior,
    as_posterior,
)
from skboost.posterior._storage import read_archive, write_archive
from skboost.posterior._tables import summary_table
from skboost.posterior._transformed_marginal import (
    SampledMarginal,
    TransformedMarginal,
)

__all__ = [
    "ErrorEstimates",
    "Evidence",
    "HellingerEstimate",
    "ImportanceSample",
    "ImportanceWarning",
    "Marginal",
    "Mixture",
    "MixturePosterior",
    "Mode",
    "SampledMarginal",
    "TransformedMarginal",
    "TransformedPosterior",
    "as_posterior",
    "read_archive",
    "summary_table",
    "write_archive",
]
