"""The boosted mixture in the company of scikit-learn's tools, and bad input."""

from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import BoostedGaussianMixture

from .conftest import each_odd

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def same_fit(a, b):
    assert a.elbo_ == b.elbo_
    assert np.array_equal(a.elbo_path_, b.elbo_path_)
    for (_, p), (_, q) in zip(
        a.posterior_.mixture.components, b.posterior_.mixture.components, strict=True
    ):
        assert np.array_equal(p, q)


def test_a_warm_start_is_one_long_fit(groups, model):
    X, _ = groups
    long = model(max_iter=3, tol=0.0).fit(X)
    warm = model(max_iter=1, tol=0.0, warm_start=True).fit(X)
    for max_iter in (2, 3):
        warm.set_params(max_iter=max_iter).fit(X)
    same_fit(warm, long)


@pytest.mark.parametrize(
    ("params", "scale", "message"),
    [
        ({"n_components": 3}, 1.0, "weight_concentration_prior"),
        ({"covariance_prior": np.eye(2)}, 1.0, "covariance_prior"),
        ({"temperature": 0.5}, 1.0, "temperature"),
        ({"mean_prior_type": "independent"}, 1.0, "mean_prior_type"),
        ({}, 2.0, "mean_prior"),
    ],
)
def test_a_warm_start_needs_the_same_model(params, scale, message, groups, model):
    # Draws carry the log prior of the model that they were drawn from.
    X, _ = groups
    warm = model(max_iter=1, warm_start=True).fit(X)
    with pytest.raises(ValueError, match=f"warm_start=True goes on.*{message}"):
        warm.set_params(max_iter=2, **params).fit(scale * X)


def test_weights_are_repetition(groups, model):
    X, _ = groups
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    order = np.random.default_rng(1).permutation(weight.sum())
    repeated = np.repeat(X, weight, axis=0)[order]
    same_fit(model().fit(X, sample_weight=weight), model().fit(repeated))


# --- bad input and faults


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mean_prior": [0.0]}, "mean_prior"),
        ({"covariance_prior": [[1.0, 2.0], [2.0, 1.0]]}, "covariance_prior"),
        ({"covariance_prior": 1.0}, "covariance_prior"),
        ({"degrees_of_freedom_prior": 1.0}, "degrees_of_freedom_prior"),
    ],
)
def test_improper_priors_are_refused(params, message, groups, fitted):
    # A fit that fails leaves the one before.
    before = fitted.score_samples(groups[0])
    other = copy(fitted).set_params(**params)
    with pytest.raises(ValueError, match=message):
        other.fit(groups[0])
    assert np.array_equal(other.score_samples(groups[0]), before)


@pytest.mark.slow
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_missing_values_are_integrated_out(covariance_type, groups, model):
    X = groups[0].copy()
    X[::5, 1] = X[2::7, 0] = np.nan
    X[11] = np.nan
    fit = model(covariance_type=covariance_type).fit(X)
    complete = model(covariance_type=covariance_type).fit(groups[0])
    order = np.argsort(fit.means_[:, 0]), np.argsort(complete.means_[:, 0])
    assert_allclose(fit.means_[order[0]], complete.means_[order[1]], atol=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@each_odd
def test_odd_data_fit(X, covariance_type, model):
    fit = model(n_components=5, covariance_type=covariance_type)
    if len(X) == 1:
        with pytest.raises(ValueError, match="a minimum of 2 is required"):
            fit.fit(X)
        return
    fit.fit(X)
    assert np.isfinite([fit.elbo_, fit.score(X)]).all()
    assert np.isfinite(fit.means_).all()
    assert_allclose(fit.weights_.sum(), 1.0)
    assert_allclose(fit.predict_proba(X).sum(axis=1), 1.0)


def test_the_unit_of_the_data_only_shifts_the_elbo(groups, model):
    """Default priors follow the data: rows in other units are the same rows."""
    X, _ = groups
    one, other = model().fit(X), model().fit(1000.0 * X + 5.0)
    shift = X.size * np.log(1000.0)
    assert_allclose(other.elbo_ + shift, one.elbo_, atol=0.2)


def test_missing_values_are_allowed_where_they_can_be_integrated_out():
    allowed = {
        name: BoostedGaussianMixture(covariance_type=name)
        .__sklearn_tags__()
        .input_tags.allow_nan
        for name in ("full", "tied", "diag", "spherical")
    }
    assert allowed == {"full": True, "tied": False, "diag": True, "spherical": False}
