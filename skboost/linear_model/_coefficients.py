"""What every linear model with a posterior knows of its coefficients."""

from numbers import Real

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data


def check_level(level):
    """A probability strictly between 0 and 1."""
    if not (isinstance(level, Real) and 0.0 < level < 1.0):
        raise ValueError(
            f"level must be a probability strictly between 0 and 1; got {level!r}."
        )
    return level


class CoefficientPosterior:
    """Draws and intervals of coefficients, and the rows that predictions start from.

    For estimators with ``posterior_`` over (coefficients, intercept) of every output,
    further parameters last, and with ``n_features_in_``.
    """

    # Linear predictors of a row, and parameters with no part in them.
    _n_outputs = 1
    _n_further = 0

    @property
    def _has_intercept(self):
        """Whether the fit has an intercept, whatever the parameter says by now."""
        dim = self.posterior_.dim - self._n_further
        return dim > self._n_outputs * self.n_features_in_

    def _checked(self, X):
        check_is_fitted(self)
        return validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=np.float64
        )

    def _by_output(self, parameters):
        """Coefficients (..., n_outputs, n_features) and intercepts (..., n_outputs)."""
        *outer, dim = parameters.shape
        linear = parameters[..., : dim - self._n_further]
        linear = linear.reshape(*outer, self._n_outputs, -1)
        coef = linear[..., : self.n_features_in_]
        if linear.shape[-1] > self.n_features_in_:
            return coef, linear[..., -1]
        return coef, np.zeros(coef.shape[:-1])

    def _draws(self, n, random_state):
        """Draws of coefficients, intercepts and further parameters."""
        check_is_fitted(self)
        draws = self.posterior_.sample(n, random_state)
        return *self._by_output(draws), draws[:, draws.shape[1] - self._n_further :]

    def _coef_ends(self, level):
        """Ends of the coefficients' intervals, (n_outputs, n_features, 2)."""
        check_is_fitted(self)
        ends = self.posterior_.interval(level).T
        return np.moveaxis(self._by_output(ends)[0], 0, -1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
