"""Callbacks for `set_callbacks` of the boosted and SVI estimators."""

from skboost._callbacks import ELBOMonitor
from skboost._checkpoint import Checkpoint

__all__ = ["Checkpoint", "ELBOMonitor"]
