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
from skboost.posterior._root_draws import (
    RootDraws,
    hellinger_gain,
    squared_hellinger,
)
from skboost.posterior._roots import Roots

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
    "RootDraws",
    "Roots",
    "SmoothedWeights",
    "duality_gap",
    "elbo_gain",
    "finite",
    "hellinger_gain",
    "psis",
    "remaining_kl",
    "squared_hellinger",
]
