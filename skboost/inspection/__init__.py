"""Answers about rows, figures of posteriors, methods behind a pipeline."""

from skboost.inspection._answers import (
    LeaveOneOut,
    leave_one_out,
    quantile_residuals,
    sample_predictive,
    to_arviz,
)
from skboost.inspection._asked import pipeline_method
from skboost.inspection._comparisons import Ranking, compare, rank
from skboost.inspection._convergence import ConvergenceDisplay, EvidenceDisplay
from skboost.inspection._mixture_display import MixtureDisplay
from skboost.inspection._posterior_display import GroupEffectsDisplay, PosteriorDisplay
from skboost.inspection._prediction_display import ComparisonDisplay, PredictionDisplay
from skboost.inspection._response_displays import (
    PredictiveCheckDisplay,
    ResidualDisplay,
)

__all__ = [
    "ComparisonDisplay",
    "ConvergenceDisplay",
    "EvidenceDisplay",
    "GroupEffectsDisplay",
    "LeaveOneOut",
    "MixtureDisplay",
    "PosteriorDisplay",
    "PredictionDisplay",
    "PredictiveCheckDisplay",
    "Ranking",
    "ResidualDisplay",
    "compare",
    "leave_one_out",
    "pipeline_method",
    "quantile_residuals",
    "rank",
    "sample_predictive",
    "to_arviz",
]
