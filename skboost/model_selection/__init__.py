"""Choice among models by their evidence."""

from skboost.model_selection._evidence import EvidenceSearch

__all__ = ["EvidenceSearch"]
