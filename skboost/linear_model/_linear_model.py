"""What the boosted linear models share: priors in the units of the data, updates."""

from numbers import Real

import numpy as np
from scipy import sparse

from skboost._base import BOOSTING_CONSTRAINTS, BoostedEstimator
from skboost._parallel import row_blocks
from skboost._sklearn import Interval, StrOptions
from skboost._solver import climb
from skboost.linear_model._labels import distinct
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

    Subclasses give ``_target(*data, prior=None, temperature=None)``: the log joint
    density of their parameters, with the estimator's own prior where none is given.
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

    def _updated(self, data):
        """More data with the posterior so far as their prior, and where to start."""
        posterior, names = self.posterior_, self._names()
        if posterior.names is not None and list(posterior.names) != list(names):
            raise ValueError(
                f"partial_fit goes on with the same parameters; got {names} after "
                f"{list(posterior.names)}. Set what was changed back, or fit a clone."
            )
        if self.max_components is not None:
            posterior = posterior.truncate(self.max_components)
        likelihood = self._target(*data, prior=FlatPrior(), temperature=1.0)
        target = updated_target(likelihood, posterior.mixture, self.temperature)
        return target, posterior.mean()[None]

    def _scales(self, X, weight, prior, unit=1.0, level=0.0):
        """Prior scales of coefficients and intercept, those of "auto" from the data.

        `unit` is the size of what the linear predictor has to explain, `level` where
        it lies.
        """
        chosen = self.prior_scale
        if isinstance(chosen, str):
            chosen = unit / column_moments(X, weight)[1]
        # A prior object's own scale counts: the default of 1 leaves it as it is.
        scale = validate_scale(chosen, X.shape[1]) * prior.resolve_scale(X.shape[1])
        if not self.fit_intercept:
            return scale
        intercept = self.intercept_scale
        if isinstance(intercept, str):
            # Features that are not centred move the intercept.
            mean, _ = column_moments(X, weight)
            parts = [_INTERCEPT_UNITS * unit, level, *(scale * mean)]
            intercept = np.linalg.norm(parts)
        return np.append(scale, intercept)


def column_moments(X, weight, rounding=1e-7):
    """Weighted means of the columns and their standard deviations, never zero.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
    rounding : float, default=1e-7
        A column whose deviation is at most so much of its mean is constant.

    Returns
    -------
    mean, std : ndarray of shape (n_features,)
        A constant column has its absolute value as deviation, one of zeros 1.
    """
    share = weight / weight.sum()
    mean = X.T @ share
    if sparse.issparse(X):
        squares = sparse.csr_matrix((X.data**2, X.indices, X.indptr), shape=X.shape)
        variance = squares.T @ share - mean**2
    else:
        variance = sum(
            ((X[rows] - mean) ** 2).T @ share[rows] for rows in row_blocks(*X.shape)
        )
    std = np.sqrt(np.maximum(variance, 0.0))
    constant = std <= rounding * np.abs(mean)
    std[constant] = np.abs(mean[constant])
    std[std == 0.0] = 1.0
    return mean, std


def level_and_spread(y, weight):
    """Weighted mean of a response and its standard deviation, never zero."""
    # Responses may lie far from zero: moments of dense columns cancel nothing.
    mean, std = column_moments(y[:, None], weight, rounding=1e-12)
    return float(mean[0]), float(std[0])


def root_mean_squares(X, weight, fit_intercept):
    """Sizes of the columns, that of the intercept last, none zero."""
    mean, std = column_moments(X, weight)
    size = np.hypot(mean, std)
    return np.append(size, 1.0) if fit_intercept else size


def highest_point(target, centre, unit, max_iter=500):
    """Where quasi-Newton ascent from `centre`, in coordinates of size `unit`, ends."""

    def value_and_gradient(z):
        value, score = target.value_and_score((centre + unit * z)[None])
        return value[0], unit * score[0]

    z, _ = climb(value_and_gradient, np.zeros(len(centre)), {"maxiter": max_iter})
    return centre + unit * z
