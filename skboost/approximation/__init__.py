"""Mixtures of densities: the numerical core of every posterior here."""

from skboost.approximation._diagnostics import (
    Estimate,
    FreshDraws,
    RemainingKL,
    candidate_gap,
    component_gaps,
    duality_gap,
    effective_sample_size,
    elbo_gain,
    fit_generalized_pareto,
    log_mean_weight,
    psis,
    remaining_kl,
)
from skboost.approximation._evidence import (
    TAIL_DRAWS,
    LogEvidence,
    evidence_of,
    has_tails,
    heavy_tailed,
    log_evidence,
)
from skboost.approximation._mixture import Mixture, checked_points, kept_components
from skboost.approximation._pooled_draws import (
    PooledDraws,
    expectations,
    finite,
    finite_value_and_score,
)
from skboost.approximation._roots import (
    RootDraws,
    Roots,
    hellinger_gain,
    squared_hellinger,
)
from skboost.approximation._slopes import (
    noise_at,
    warn_of_wrong_gradient,
    without_noise,
)
