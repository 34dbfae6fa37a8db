"""Mixture posteriors: the numerical core, and what users meet."""

from skboost.posterior._diagnostics import (
    DualityGap,
    Estimate,
    FreshDraws,
    RemainingKL,
    candidate_gap,
    component_gaps,
    duality_gap,
    elbo_gain,
    remaining_kl,
)
from skboost.posterior._distance import HellingerEstimate
from skboost.posterior._draws import PooledDraws, finite
from skboost.posterior._errors import ErrorEstimates
from skboost.posterior._evidence import Evidence
from skboost.posterior._importance import ImportanceSample, ImportanceWarning
from skboost.posterior._marginal import Marginal
from skboost.posterior._mixture import Mixture
from skboost.posterior._modes import Mode
from skboost.posterior._posterior import MixturePosterior, as_posterior
from skboost.posterior._psis import SmoothedWeights, psis
from skboost.posterior._root_draws import (
    RootDraws,
    hellinger_gain,
    squared_hellinger,
)
from skboost.posterior._roots import Roots
from skboost.posterior._storage import read_archive, write_archive
from skboost.posterior._tables import summary_table
from skboost.posterior._transformed import TransformedPosterior
from skboost.posterior._transformed_marginal import (
    SampledMarginal,
    TransformedMarginal,
)

__all__ = [
    "DualityGap",
    "ErrorEstimates",
    "Estimate",
    "Evidence",
    "FreshDraws",
    "HellingerEstimate",
    "ImportanceSample",
    "ImportanceWarning",
    "Marginal",
    "Mixture",
    "MixturePosterior",
    "Mode",
    "PooledDraws",
    "RemainingKL",
    "RootDraws",
    "Roots",
    "SampledMarginal",
    "SmoothedWeights",
    "TransformedMarginal",
    "TransformedPosterior",
    "as_posterior",
    "candidate_gap",
    "component_gaps",
    "duality_gap",
    "elbo_gain",
    "finite",
    "hellinger_gain",
    "psis",
    "remaining_kl",
    "read_archive",
    "squared_hellinger",
    "summary_table",
    "write_archive",
]
