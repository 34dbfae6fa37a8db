"""What models with groups and streams still inherit; see `_methods` for the others."""

from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost.linear_model._methods import export, to_onnx
from skboost.linear_model._predictive import plain_rows


class _Plain(NamedTuple):
    model: object


class Served:
    """Estimators that give ``_served()``, the plain model that they predict with."""

    def _predictive(self):
        return _Plain(self._served())

    export, to_onnx = export, to_onnx

    def _checked(self, X):
        check_is_fitted(self)
        kind = {"accept_sparse": "csr", "dtype": np.float64}
        return self._plain_rows(validate_data(self, X, reset=False, **kind))

    def _plain_rows(self, X):
        return plain_rows(X, self._has_intercept)
