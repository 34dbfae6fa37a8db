"""Priors of Gaussian mixtures: from hyperparameters and data to a conjugate model."""

from dataclasses import dataclass, field

import numpy as np

from skboost.conjugate import GaussianMixtureModel

# Least eigenvalue of a default prior's covariance, relative to the mean variance: a
# constant column has none of its own.
_LEAST = 1e-6
# A default prior for means independent of precisions is that many data variances wide
# (c of Paisley et al., section IV-C, whose data are standardised).
_WIDE = 10.0


@dataclass(frozen=True)
class MixturePrior:
    """All that defines the conjugate model of a Gaussian mixture.

    Parameters
    ----------
    law : {"normal-wishart", "independent"}
    covariance_type : {"full", "tied", "diag", "spherical"}
    alpha : ndarray of shape (n_components,)
        Of the Dirichlet prior.
    mean : ndarray of shape (n_features,)
    mean_precision : float
        "normal-wishart": how many rows the prior mean is worth; "independent": the
        precision of the clusters' means themselves.
    dof : float
    covariance : ndarray
        Rate of the Wishart prior, in the shape of the covariance type.
    temperature : float, default=1.0
    """

    law: str
    covariance_type: str
    alpha: np.ndarray
    mean: np.ndarray
    mean_precision: float
    dof: float
    covariance: np.ndarray
    temperature: float = field(default=1.0)

    def model(self):
        """The `GaussianMixtureModel`."""
        if self.law == "independent":
            scale = {"mean_variance": 1.0 / self.mean_precision}
        else:
            scale = {"mean_precision": self.mean_precision}
        return GaussianMixtureModel.make(
            self.law,
            self.covariance_type,
            self.alpha,
            self.mean,
            self.temperature,
            dof=self.dof,
            rate=self.covariance,
            **scale,
        )


def make_prior(params, X, weight):
    """The prior of a set of hyperparameters, with defaults taken from the data.

    Parameters
    ----------
    params : dict
        ``n_components``, ``covariance_type``, the priors as in scikit-learn's
        `BayesianGaussianMixture`, ``mean_prior_type`` and ``temperature``.
    X : ndarray of shape (n_rows, n_features)
        NaN is missing.
    weight : ndarray of shape (n_rows,)

    Returns
    -------
    MixturePrior

    Raises
    ------
    ValueError
        For a prior of the wrong shape or outside its range.
    """
    n_features, covariance_type = X.shape[1], params["covariance_type"]
    mean, spread = _moments(X, weight)
    law = params["mean_prior_type"]
    covariance = params["covariance_prior"]
    if covariance is None:
        covariance = _as_type(spread, covariance_type)
    mean_precision = params["mean_precision_prior"]
    if mean_precision is None:
        variance = np.trace(spread) / n_features
        mean_precision = 1.0 if law == "normal-wishart" else 1.0 / (_WIDE * variance)
    if params["mean_prior"] is not None:
        mean = _shaped("mean_prior", params["mean_prior"], (n_features,))
    return MixturePrior(
        law,
        covariance_type,
        _alpha(params),
        mean,
        float(mean_precision),
        _dof(params["degrees_of_freedom_prior"], n_features),
        _checked_covariance(covariance, covariance_type, n_features),
        float(params["temperature"]),
    )


def _alpha(params):
    """Dirichlet parameters; 1 / n_components each by default, as in scikit-learn."""
    n_components = params["n_components"]
    alpha = params["weight_concentration_prior"]
    if params["weight_concentration_prior_type"] == "finite_dirichlet_process":
        alpha = (1.0 if alpha is None else alpha) / n_components
    elif alpha is None:
        alpha = 1.0 / n_components
    return np.full(n_components, float(alpha))


def _dof(dof, n_features):
    if dof is None:
        return float(n_features)
    if not dof > n_features - 1:
        raise ValueError(
            "degrees_of_freedom_prior must be greater than n_features - 1 = "
            f"{n_features - 1}; got {dof}. Leave it None for n_features."
        )
    return float(dof)


def _moments(X, weight):
    """Weighted mean and covariance; with missing values only its diagonal."""
    seen = ~np.isnan(X)
    if seen.all():
        mean = np.average(X, axis=0, weights=weight)
        away = X - mean
        spread = (away * weight[:, None]).T @ away / _degrees(weight.sum())
        return mean, _floored(spread)
    count = weight @ seen
    if not count.all():
        empty = np.flatnonzero(count == 0).tolist()
        raise ValueError(
            f"X has no observed value in column(s) {empty}: nothing can be learnt "
            "about them. Leave them out."
        )
    mean = weight @ np.where(seen, X, 0.0) / count
    away = np.where(seen, X - mean, 0.0)
    return mean, _floored(np.diag(weight @ away**2 / _degrees(count)))


def _degrees(total):
    # Weights may be fractions that sum to one or less.
    return np.maximum(total - 1.0, total / 2.0)


def _floored(spread):
    values, vectors = np.linalg.eigh(spread)
    least = _LEAST * (values.mean() if values.mean() > 0 else 1.0)
    if values[0] >= least:
        return spread
    return (vectors * np.maximum(values, least)) @ vectors.T


def _as_type(spread, covariance_type):
    return {
        "full": lambda: spread,
        "tied": lambda: spread,
        "diag": lambda: np.diag(spread).copy(),
        "spherical": lambda: np.diag(spread).mean(),
    }[covariance_type]()


def _shaped(name, value, shape):
    value = np.asarray(value, dtype=float)
    if value.shape != shape or not np.isfinite(value).all():
        raise ValueError(
            f"{name} must be finite and of shape {shape}; got shape {value.shape}."
        )
    return value


def _checked_covariance(covariance, covariance_type, n_features):
    shape = {
        "full": (n_features, n_features),
        "tied": (n_features, n_features),
        "diag": (n_features,),
        "spherical": (),
    }[covariance_type]
    covariance = _shaped("covariance_prior", covariance, shape)
    matrix = covariance if covariance.ndim == 2 else np.diag(np.atleast_1d(covariance))
    symmetric = np.allclose(matrix, matrix.T)
    if not (symmetric and np.linalg.eigvalsh(matrix)[0] > 0):
        raise ValueError(
            "covariance_prior must be positive (definite and symmetric where it is a "
            f"matrix); got {covariance!r}."
        )
    return covariance
