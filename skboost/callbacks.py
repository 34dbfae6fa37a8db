"""Callbacks for `set_callbacks` of the boosted estimators."""

from skboost._callbacks import ELBOMonitor

__all__ = ["ELBOMonitor"]
