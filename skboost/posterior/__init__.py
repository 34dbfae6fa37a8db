"""Mixture posteriors: the numerical core, and what users meet."""

from skboost.posterior._diagnostics import (
    Estimate,
    FreshDraws,
    RemainingKL,
    duality_gap,
    elbo_gain,
    remaining_kl,
)
from skboost.posterior._distance import HellingerEstimate
from skboost.posterior._draws import PooledDraws, finite
from skboost.posterior._importance import ImportanceSample
from skboost.posterior._marginal import Marginal
from skboost.posterior._mixture import Mixture
from skboost.posterior._modes import Mode
from skboost.posterior._posterior import MixturePosterior
from skboost.posterior._psis import SmoothedWeights, psis

__all__ = [
    "Estimate",
    "FreshDraws",
    "HellingerEstimate",
    "ImportanceSample",
    "Marginal",
    "Mixture",
    "MixturePosterior",
    "Mode",
    "PooledDraws",
    "RemainingKL",
    "SmoothedWeights",
    "duality_gap",
    "elbo_gain",
    "finite",
    "psis",
    "remaining_kl",
]
