"""Posteriors as users meet them: summaries, marginals, plots, files."""

from skboost.approximation import Mixture
from skboost.posterior._backed import (
    ModelPosterior,
    arviz_groups,
    as_generator,
    check_names,
    check_size,
    plain_table,
    resampled,
    summary_table,
)
from skboost.posterior._importance import (
    ErrorEstimates,
    Evidence,
    HellingerEstimate,
    ImportanceSample,
    ImportanceWarning,
    evaluate_log_joint,
)
from skboost.posterior._marginal import Marginal, check_level
from skboost.posterior._modes import Mode
from skboost.posterior._posterior import (
    MixturePosterior,
    TransformedPosterior,
    as_posterior,
)
from skboost.posterior._storage import (
    constraints_from,
    constraints_record,
    is_public,
    orbit_arrays,
    pack_mixtures,
    reading_archive,
    refusing_damage,
    unpack_mixtures,
    with_orbits,
    write_archive,
    write_atomically,
)
from skboost.posterior._transformed import SampledMarginal, TransformedMarginal

# What users import; the rest is for other rooms.
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
    "ModelPosterior",
    "SampledMarginal",
    "TransformedMarginal",
    "TransformedPosterior",
]
