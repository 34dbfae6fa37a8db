"""Callbacks for `set_callbacks` of the boosted and SVI estimators."""

from skboost.fitting import Checkpoint, ELBOMonitor

__all__ = ["Checkpoint", "ELBOMonitor"]
