"""scikit-learn names that are private or experimental, in one place.

Everybody uses them and nobody promises them: when they move, only this file does.
"""

from sklearn.base import _fit_context as fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
    validate_params,
)
from sklearn.utils.validation import _check_sample_weight as check_sample_weight


def registered_callbacks(estimator):
    """The callbacks of ``set_callbacks``."""
    return getattr(estimator, "_skl_callbacks", [])


__all__ = [
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "registered_callbacks",
    "validate_params",
]
