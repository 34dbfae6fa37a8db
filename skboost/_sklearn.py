"""scikit-learn names that are private or experimental, in one place.

Everybody uses them and nobody promises them: when they move, only this file does.
"""

from sklearn.base import _fit_context as fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.model_selection._search import (
    _search_estimator_has as search_estimator_has,
)
from sklearn.model_selection._search import (
    _yield_masked_array_for_each_param as param_columns,
)
from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_params,
)
from sklearn.utils.validation import _check_sample_weight
from sklearn.utils.validation import _num_samples as num_samples

from skboost._columns import refuse_dates


def check_sample_weight(sample_weight, X, **settings):
    """scikit-learn's check, to which dates would be numbers."""
    refuse_dates(sample_weight, "sample_weight")
    return _check_sample_weight(sample_weight, X, **settings)


def registered_callbacks(estimator):
    """The callbacks of ``set_callbacks``."""
    return getattr(estimator, "_skl_callbacks", [])


class InstanceOf(HasMethods):
    """Constraint of instances of a class, by the name that users import it by.

    scikit-learn's own names the private module where a class is written.

    Parameters
    ----------
    kind : type
    home : str
        The public module.
    """

    def __init__(self, kind, home):
        super().__init__([])
        self.kind, self.home = kind, home

    def is_satisfied_by(self, val):
        """Whether a value is one."""
        return isinstance(val, self.kind)

    def __str__(self):
        return f"an instance of '{self.home}.{self.kind.__name__}'"
