"""Mixtures of densities: the numerical core of every posterior here."""

from skboost.mixtures._diagnostics import (
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
from skboost.mixtures._hellinger import hellinger_gain, squared_hellinger
from skboost.mixtures._mixture import Mixture, kept_components
from skboost.mixtures._pooled_draws import (
    PooledDraws,
    finite,
    finite_value_and_score,
)
from skboost.mixtures._psis import (
    SmoothedWeights,
    effective_sample_size,
    log_mean_weight,
    psis,
)
from skboost.mixtures._root_draws import RootDraws
from skboost.mixtures._roots import Roots

__all__ = [
    "DualityGap",
    "Estimate",
    "FreshDraws",
    "Mixture",
    "PooledDraws",
    "RemainingKL",
    "RootDraws",
    "Roots",
    "SmoothedWeights",
    "candidate_gap",
    "component_gaps",
    "duality_gap",
    "effective_sample_size",
    "elbo_gain",
    "finite",
    "finite_value_and_score",
    "hellinger_gain",
    "kept_components",
    "log_mean_weight",
    "psis",
    "remaining_kl",
    "squared_hellinger",
]
