"""What models with groups still inherit; see `_model` for the others."""

from skboost._base import BoostedEstimator
from skboost.linear_model._layout import Layout
from skboost.linear_model._model import MOVED_OF_LINEAR_MODELS, prior_and_scale
from skboost.linear_model._names import NamedFeatures, distinct


class BoostedLinearModel(NamedFeatures, BoostedEstimator):
    """A boosted posterior over coefficients, and an intercept where there is one."""

    _moved = MOVED_OF_LINEAR_MODELS

    def _renamed(self):
        further = self.posterior_.names[self.posterior_.dim - self._n_further :]
        names = self._labelled(self._has_intercept, further)
        self.posterior_ = self.posterior_.renamed(names)

    def _names(self):
        """Names of the coordinates of a posterior that is to be fitted."""
        return self._labelled(self.fit_intercept, self._further_names())

    def _further_names(self):
        """Of parameters with no part in the linear predictor."""
        return ()

    def _labelled(self, has_intercept, further):
        """Names of coordinates, all different."""
        intercept = ["intercept"] if has_intercept else []
        return distinct([*self._coefficient_names(), *intercept, *further])

    def _scales(self, rows, prior, unit=1.0, level=0.0):
        """Prior scales of coefficients and intercept, those of "auto" from the data."""
        layout = Layout(tuple(self._coefficient_names()), self.fit_intercept)
        return prior_and_scale(self, rows, layout, unit=unit, level=level)[1]
