"""What the boosted linear models share: priors in the units of the data, updates."""

from numbers import Real

import numpy as np

from skboost._base import BOOSTING_CONSTRAINTS, BoostedEstimator
from skboost._row_blocks import as_blocks
from skboost._sklearn import Interval, StrOptions
from skboost._solver import climb
from skboost.linear_model._labels import distinct
from skboost.linear_model._sources import far_rows
from skboost.linear_model._summary import column_moments
from skboost.targets import PRIORS, FlatPrior, Prior, updated_target, validate_scale

LINEAR_MODEL_CONSTRAINTS = {
    **BOOSTING_CONSTRAINTS,
    "prior": [StrOptions(set(PRIORS)), Prior],
    "prior_scale": ["array-like", Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "intercept_scale": [Interval(Real, 0, None, closed="neither")],
}
# Those of models whose scales follow the data by default.
SCALED_CONSTRAINTS = {
    **LINEAR_MODEL_CONSTRAINTS,
    **{
        name: [StrOptions({"auto"}), *LINEAR_MODEL_CONSTRAINTS[name]]
        for name in ("prior_scale", "intercept_scale")
    },
}
# What "auto" takes for the scale of the intercept of centred data; a coefficient has
# one unit of the response for one of the feature. The classifier's defaults, 1 and 10,
# are the same on scaled features.
_INTERCEPT_UNITS = 10.0


class BoostedLinearModel(BoostedEstimator):
    """A boosted posterior over coefficients, and an intercept where there is one.

    Subclasses give ``_target(rows, prior=None, temperature=None)``: the log joint
    density of their parameters, with the estimator's own prior where none is given;
    ``rows`` is any `RowSource`. ``_kind_of_y()`` says which responses there may be.
    """

    def _feature_names(self):
        """Names of the coefficients and the intercept."""
        features = getattr(
            self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)]
        )
        return [*features, "intercept"] if self.fit_intercept else list(features)

    def _names(self):
        """Names of the coordinates of the posterior."""
        return distinct(self._feature_names())

    def _far_rows(self, X, y, sample_weight=None, offset=None):
        """A `RowSource` of rows that are not held in memory; None for all others."""
        blocks = as_blocks(X, y, sample_weight, offset)
        # Several responses are several fits, of rows in memory.
        if blocks is None or np.ndim(y) > 1:
            return None
        return far_rows(self, self._kind_of_y(), blocks, (X, y, sample_weight, offset))

    def _updated(self, rows):
        """More data with the posterior so far as their prior, and where to start."""
        posterior, names = self.posterior_, self._names()
        if posterior.names is not None and list(posterior.names) != list(names):
            raise ValueError(
                f"partial_fit goes on with the same parameters; got {names} after "
                f"{list(posterior.names)}. Set what was changed back, or fit a clone."
            )
        if self.max_components is not None:
            posterior = posterior.truncate(self.max_components)
        likelihood = self._target(rows, prior=FlatPrior(), temperature=1.0)
        target = updated_target(likelihood, posterior.mixture, self.temperature)
        return target, posterior.mean()[None]

    def _scales(self, rows, prior, unit=1.0, level=0.0):
        """Prior scales of coefficients and intercept, those of "auto" from the data.

        `unit` is the size of what the linear predictor has to explain, `level` where
        it lies.
        """
        chosen = self.prior_scale
        if isinstance(chosen, str):
            chosen = unit / column_moments(rows)[1]
        # A prior object's own scale counts: the default of 1 leaves it as it is.
        scale = validate_scale(chosen, rows.n_features)
        scale = scale * prior.resolve_scale(rows.n_features)
        if not self.fit_intercept:
            return scale
        intercept = self.intercept_scale
        if isinstance(intercept, str):
            # Features that are not centred move the intercept.
            mean, _ = column_moments(rows)
            parts = [_INTERCEPT_UNITS * unit, level, *(scale * mean)]
            intercept = np.linalg.norm(parts)
        return np.append(scale, intercept)


def highest_point(target, centre, unit, max_iter=500):
    """Where quasi-Newton ascent from `centre`, in coordinates of size `unit`, ends."""

    def value_and_gradient(z):
        value, score = target.value_and_score((centre + unit * z)[None])
        return value[0], unit * score[0]

    z, _ = climb(value_and_gradient, np.zeros(len(centre)), {"maxiter": max_iter})
    return centre + unit * z
