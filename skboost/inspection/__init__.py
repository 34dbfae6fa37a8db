"""Figures of posteriors and of how they were found; methods behind a pipeline."""

from skboost.inspection._convergence import ConvergenceDisplay
from skboost.inspection._evidence_display import EvidenceDisplay
from skboost.inspection._group_effects import GroupEffectsDisplay
from skboost.inspection._mixture_display import MixtureDisplay
from skboost.inspection._pipelines import pipeline_method
from skboost.inspection._posterior_display import PosteriorDisplay

__all__ = [
    "ConvergenceDisplay",
    "EvidenceDisplay",
    "GroupEffectsDisplay",
    "MixtureDisplay",
    "PosteriorDisplay",
    "pipeline_method",
]
