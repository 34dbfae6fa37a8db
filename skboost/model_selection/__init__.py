"""Choice among models by their evidence, and by held-out entries of matrices."""

from skboost.model_selection._entries import (
    EntryKFold,
    cross_val_score_entries,
    train_test_split_entries,
)
from skboost.model_selection._evidence import EvidenceSearch

__all__ = [
    "EntryKFold",
    "EvidenceSearch",
    "cross_val_score_entries",
    "train_test_split_entries",
]
