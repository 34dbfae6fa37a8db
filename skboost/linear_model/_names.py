"""Names of coefficients: those of the data, or those that a pipeline knows."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.linear_model._layout import distinct  # noqa: F401


class NamedFeatures:
    """Estimators whose posterior has the names of the features.

    Subclasses may give ``_renamed()``, which is called after the names were set.
    """

    def set_feature_names(self, names):
        """Name the coefficients of the posterior, until the next `fit`.

        For data without names of their own, such as those that a pipeline hands on:
        ``pipe[-1].set_feature_names(pipe[:-1].get_feature_names_out())``. Those of a
        DataFrame are known without.

        Parameters
        ----------
        names : array-like of str of shape (n_features,)

        Returns
        -------
        self
            `posterior_`, its tables and its pictures have the names.

        Raises
        ------
        ValueError
            If there is not one name for each feature.
        """
        check_is_fitted(self)
        values = np.asarray(names)
        if values.shape != (self.n_features_in_,):
            raise ValueError(
                "names must hold one name for each of the "
                f"{self.n_features_in_} features; got shape {values.shape}. Pass the "
                "names of the columns of X, without the intercept."
            )
        self._set_names = tuple(map(str, values))
        self._renamed()
        return self

    def _renamed(self):
        """Nothing holds the names."""

    def _coefficient_names(self):
        """Names of the features that have a coefficient."""
        return self._feature_names()

    def _forget_names(self):
        """Those that were set are of the data before."""
        vars(self).pop("_set_names", None)

    def _feature_names(self):
        """Those that were set, those of the data, or x0, x1, ..., a list."""
        default = [f"x{i}" for i in range(self.n_features_in_)]
        seen = vars(self).get("feature_names_in_", default)
        return list(vars(self).get("_set_names", seen))
