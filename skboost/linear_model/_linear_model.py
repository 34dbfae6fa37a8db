"""What the boosted linear models share: priors in the units of the data, updates."""

from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.base import clone

from skboost._base import BOOSTING_CONSTRAINTS, BoostedEstimator
from skboost._parallel import row_blocks
from skboost._sklearn import InstanceOf, Interval, StrOptions
from skboost._solver import climb
from skboost.linear_model._labels import distinct
from skboost.linear_model._names import NamedFeatures
from skboost.targets import (
    PRIORS,
    FlatPrior,
    LogJoint,
    Prior,
    as_prior,
    updated_target,
    validate_scale,
)

LINEAR_MODEL_CONSTRAINTS = {
    **BOOSTING_CONSTRAINTS,
    "prior": [StrOptions(set(PRIORS)), InstanceOf(Prior, "skboost.priors")],
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
# A column whose deviation is at most so much of its mean counts as constant (beyond,
# moments of sparse columns cancel), and one up to which only rounding makes it differ.
_CONSTANT, _ROUNDING = 1e-7, 1e-12


class BoostedLinearModel(NamedFeatures, BoostedEstimator):
    """A boosted posterior over coefficients, and an intercept where there is one.

    Subclasses give ``_joint_of(*data, prior=None, temperature=None)``, a function that
    makes a target of rows, responses and weights: the model, with scales from these
    data, the estimator's own prior where none is given, and no data in it. ``_joint``
    is that of the fit.
    """

    def _learn(self, data, given, *, update=False):
        """Boost the posterior of rows, from the prior or from the posterior so far."""
        if update and hasattr(self, "posterior_"):
            joint, (target, starts) = self._joint, self._updated(data)
        else:
            self._forget_names()
            self._check_spread(data)
            joint = self._joint_of(*data)
            target, starts = self._first(_on(joint, data), *data)
        return self._boost(
            target,
            given,
            starts=starts,
            names=self._names(),
            from_scratch=update,
            also={"_joint": joint},
        )

    def _check_spread(self, data):
        """Refuse columns whose values differ by little more than rounding errors."""
        X, _, weight = data
        if sparse.issparse(X):
            # Zeros are what is not stored: centred columns would not be sparse.
            return
        mean, std = _moments(X, weight)
        size = np.abs(mean)
        lost = np.flatnonzero((std > _ROUNDING * size) & (std <= _CONSTANT * size))
        if lost.size:
            raise ValueError(
                "X must have columns whose spread is above 1e-7 of their distance from "
                f"zero, or constant ones; got {self._feature_names()[lost[0]]!r} with "
                f"mean {mean[lost[0]]:.3g} and standard deviation {std[lost[0]]:.3g}"
                f"{f', and {lost.size - 1} others' if lost.size > 1 else ''}. Centre "
                "them, for example with sklearn.preprocessing.StandardScaler."
            )

    def _first(self, target, X, y, weight):
        """The target of the first data, and where the search starts."""
        return target, None

    def _log_joint(self, data):
        """The fitted model's log joint on rows in canonical form."""
        target = _on(self._joint, data, n_jobs=self.n_jobs)
        return LogJoint(target, self.posterior_.names)

    def _settings(self, X, weight, prior, temperature, **of_response):
        """Keyword arguments of a `GLMTarget`, all but the data."""
        # A clone: what was fitted does not change with the parameters.
        prior = clone(as_prior(self.prior)) if prior is None else prior
        return {
            "prior": prior,
            "scale": self._scales(X, weight, prior, **of_response),
            "temperature": self.temperature if temperature is None else temperature,
            "fit_intercept": self.fit_intercept,
            "n_jobs": self.n_jobs,
        }

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
        return distinct([*self._feature_names(), *intercept, *further])

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
        joint = self._joint_of(*data, prior=FlatPrior(), temperature=1.0)
        likelihood = _on(joint, data)
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


def _on(joint, data, **more):
    """The target of a model on rows, responses and weights."""
    X, y, weight = data
    return joint(X, y, sample_weight=weight, **more)


def column_moments(X, weight, rounding=_CONSTANT):
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
    mean, std = _moments(X, weight)
    constant = std <= rounding * np.abs(mean)
    std[constant] = np.abs(mean[constant])
    std[std == 0.0] = 1.0
    return mean, std


def _moments(X, weight):
    """Weighted means of the columns and their standard deviations."""
    share = weight / weight.sum()
    mean = X.T @ share
    if sparse.issparse(X):
        squares = sparse.csr_matrix((X.data**2, X.indices, X.indptr), shape=X.shape)
        variance = squares.T @ share - mean**2
    else:
        variance = sum(
            ((X[rows] - mean) ** 2).T @ share[rows] for rows in row_blocks(*X.shape)
        )
    return mean, np.sqrt(np.maximum(variance, 0.0))


def level_and_spread(y, weight):
    """Weighted mean of a response and its standard deviation, never zero."""
    # Responses may lie far from zero: moments of dense columns cancel nothing.
    mean, std = column_moments(y[:, None], weight, rounding=_ROUNDING)
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
