"""Priors of Gaussian mixtures: as given, or from the data where left open."""

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from skboost._sklearn import Interval, StrOptions
from skboost.conjugate import COVARIANCES, INITS
from skboost.mixture._shared import with_floor

# Below this share of a feature's variance the default prior's is singular in effect.
_RIDGE = 1e-6

# Factors of the weights by the kind of their prior.
WEIGHTS = {
    "dirichlet_distribution": "dirichlet",
    "finite_dirichlet_process": "dirichlet",
    "dirichlet_process": "stick-breaking",
}

_POSITIVE = Interval(Real, 0, None, closed="neither")

# Of what all mixtures have in common.
MIXTURE_CONSTRAINTS = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "covariance_type": [StrOptions(set(COVARIANCES))],
    "mean_prior_type": [StrOptions({"normal-wishart", "independent"})],
    "weight_concentration_prior_type": [StrOptions(set(WEIGHTS))],
    "weight_concentration_prior": [_POSITIVE, None],
    "mean_prior": ["array-like", None],
    "mean_precision_prior": [_POSITIVE, None],
    "degrees_of_freedom_prior": [_POSITIVE, None],
    "covariance_prior": ["array-like", _POSITIVE, StrOptions({"shared"}), None],
    "known_covariances": ["array-like", _POSITIVE, None],
    "reg_covar": [Interval(Real, 0, None, closed="left")],
    "temperature": [Interval(Real, 0, 1, closed="right")],
    "init_params": [StrOptions(set(INITS))],
    "weights_init": ["array-like", None],
    "means_init": ["array-like", None],
    "precisions_init": ["array-like", None],
    "verbose": ["verbose"],
}


def mixture_settings(estimator, moments):
    """Arguments of `GaussianMixtureModel`, with moments of the rows where priors are
    open."""
    mean, covariance = moments
    if estimator.mean_prior is not None:
        mean = given(estimator, "mean_prior", mean.shape)
    kind = estimator.weight_concentration_prior_type
    n_components = estimator.n_components
    # Of the whole process, or of each cluster.
    finite = kind == "finite_dirichlet_process"
    alpha = estimator.weight_concentration_prior
    if alpha is None and kind == "dirichlet_distribution" and shares(estimator):
        alpha = 3.0
    elif alpha is None:
        alpha = 1.0 if finite else 1.0 / n_components
    if finite:
        alpha = alpha / n_components
    clusters, prior = _clusters(estimator, covariance)
    settings = {
        "clusters": clusters,
        "covariance_type": estimator.covariance_type,
        "alpha": np.full(n_components, float(alpha)),
        "center": mean,
        "temperature": float(estimator.temperature),
        "weights": WEIGHTS[kind],
        # Boosted mixtures have priors alone.
        "reg_covar": float(getattr(estimator, "reg_covar", 0.0)),
        **prior,
    }
    return with_floor(settings, covariance) if shares(estimator) else settings


def shares(estimator):
    """Whether clusters share a covariance scale that is learned."""
    prior = estimator.covariance_prior
    shared = isinstance(prior, str) and prior == "shared"
    return shared and estimator.known_covariances is None


def check_same_settings(before, now):
    """Refuse to go on from a fit of another model."""
    # Parameters of the estimators behind the settings of a model.
    parameters = {
        "clusters": "mean_prior_type",
        "alpha": "weight_concentration_prior",
        "weights": "weight_concentration_prior_type",
        "center": "mean_prior",
        "mean_precision": "mean_precision_prior",
        "mean_variance": "mean_precision_prior",
        "dof": "degrees_of_freedom_prior",
        "rate": "covariance_prior",
        "known": "known_covariances",
    }
    changed = [
        parameters.get(name, name)
        for name in before | now
        if not np.array_equal(before.get(name), now.get(name))
    ]
    if changed:
        raise ValueError(
            "warm_start=True goes on with the same model of the same data; got other "
            f"data, n_components or {changed}. Set warm_start=False."
        )


def _clusters(estimator, covariance):
    """Name and prior parameters of the distribution of the clusters."""
    dim = len(covariance)
    shape = COVARIANCES[estimator.covariance_type]
    precision = estimator.mean_precision_prior
    variance = 10.0 * np.trace(covariance) / dim if precision is None else 1 / precision
    if estimator.known_covariances is not None:
        each = shape.cover(np.ones(shape.one(dim)), estimator.n_components, dim)
        known = given(estimator, "known_covariances", shape.one(dim), each.shape)
        check_definite("known_covariances", shape, known)
        return "known", {"mean_variance": variance, "known": known}
    rate = shape.of_matrix(covariance)
    shared = shares(estimator)
    if not shared and estimator.covariance_prior is not None:
        rate = given(estimator, "covariance_prior", shape.one(dim))
        check_definite("covariance_prior", shape, rate)
    dof = estimator.degrees_of_freedom_prior
    if dof is None:
        dof = shape.least_dof(dim) + 10.0 if shared else dim
    if dof <= shape.least_dof(dim):
        # Begins as scikit-learn's message does.
        raise ValueError(
            "The parameter 'degrees_of_freedom_prior' should be greater than "
            f"{shape.least_dof(dim):g}, but got {dof:.3f}. That is for covariance_type="
            f"{estimator.covariance_type!r} and n_features={dim}. Leave it None, which "
            "is the number of features."
        )
    if shared:
        # Clusters are smaller than all rows, the more so the more there are.
        rate = dof * estimator.n_components ** (-2.0 / dim) * rate
    prior = {"dof": dof, "rate": rate}
    if estimator.mean_prior_type == "independent":
        return "independent", prior | {"mean_variance": variance}
    tie = 1.0 if precision is None else precision
    return "normal-wishart", prior | {"mean_precision": tie}


def moments(X, weight):
    """Weighted mean and a positive definite covariance of what is observed."""
    # As scikit-learn's defaults (division by the sum of weights less one), except that
    # constant features get the average variance of the others, or 1, and collinear ones
    # a millionth of their variance more.
    observed = ColumnSums.of(X, weight)
    mean = observed.mean
    return mean, covariance_of(observed, scatter(X, weight, mean))


class ColumnSums(NamedTuple):
    """Sums, least and largest values of what is observed in rows of positive weight."""

    total: float
    share: np.ndarray
    first: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, X, weight):
        """Of an array in which NaN is missing."""
        seen = ~np.isnan(X) * (weight > 0)[:, None]
        return cls(
            weight.sum(),
            weight @ seen,
            weight @ np.where(seen, X, 0.0),
            np.where(seen, X, np.inf).min(axis=0),
            np.where(seen, X, -np.inf).max(axis=0),
        )

    def with_others(self, other):
        """Of the rows of both."""
        return ColumnSums(
            self.total + other.total,
            self.share + other.share,
            self.first + other.first,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def mean(self):
        """Of every feature; a ValueError where one is never observed."""
        if not self.share.all():
            columns = np.flatnonzero(self.share == 0).tolist()
            raise ValueError(
                "X must have an observed value in every column; columns "
                f"{columns} are NaN throughout. Remove them."
            )
        return self.first / self.share


def scatter(X, weight, mean):
    """Weighted sums of products of what is observed, about a mean."""
    away = np.where(~np.isnan(X) * (weight > 0)[:, None], X - mean, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return (away * weight[:, None]).T @ away


def covariance_of(observed, sums):
    """Positive definite covariance of rows with these sums; see `moments`."""
    total = observed.total
    root = np.sqrt(total / observed.share)
    # A feature that is constant but for rounding has no scale of its own; others have,
    # however narrow they are beside the rest.
    ends = np.maximum(np.abs(observed.low), np.abs(observed.high))
    root[observed.high - observed.low <= 1e-14 * ends] = 0.0
    divisor = total - 1.0 if total > 1.5 else total
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = sums * root * root[:, None] / divisor
    if not np.isfinite(covariance).all():
        raise ValueError(
            "X must have a variance that is a finite number; its squares, or those of "
            "sample_weight times it, overflow. Standardise X."
        )
    return _definite(covariance)


def _definite(covariance):
    variance = np.diag(covariance).copy()
    constant = variance < 1e-250
    others = variance[~constant]
    covariance = covariance.copy()
    covariance[np.diag_indices_from(covariance)] = np.where(
        constant, others.mean() if len(others) else 1.0, variance
    )
    scale = np.sqrt(np.diag(covariance))
    lowest = np.linalg.eigvalsh(covariance / np.outer(scale, scale))[0]
    return covariance + (lowest < _RIDGE) * _RIDGE * np.diag(scale**2)


def given(estimator, name, *shapes):
    """A parameter as an array of finite numbers, of one of the shapes."""
    value = vars(estimator)[name]
    try:
        # A copy: what is done to the caller's array later is not done to the fit.
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers; got {value!r}. None is the default."
        ) from error
    finite = np.isfinite(array).all()
    if array.shape not in shapes or not finite:
        wanted = " or ".join(map(str, dict.fromkeys(shapes)))
        raise ValueError(
            f"{name} must be finite and of shape {wanted} for n_components="
            f"{estimator.n_components} and covariance_type="
            f"{estimator.covariance_type!r}; got shape {array.shape}"
            f"{'' if finite else ' with entries that are not finite'}."
        )
    return array


def check_definite(name, shape, value):
    """Refuse covariances or precisions that are not proper."""
    matrices = shape.matrices(value)
    # In units of the matrices: those of small data are small.
    close = 1e-8 * np.abs(matrices).max()
    symmetric = np.allclose(matrices, np.swapaxes(matrices, -1, -2), atol=close)
    if not (symmetric and np.linalg.eigvalsh(matrices).min() > 0):
        raise ValueError(
            f"{name} must be symmetric and positive definite; got {value!r}."
        )
