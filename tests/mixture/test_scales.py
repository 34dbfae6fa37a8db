"""Data and priors of odd scales, and priors that change later: refused or survived."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skboost.mixture import BoostedGaussianMixture, SVIGaussianMixture

MODELS = [
    SVIGaussianMixture(2, random_state=0),
    BoostedGaussianMixture(2, max_iter=1, n_draws=16, n_restarts=1, random_state=0),
]


def rows(n=60):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) + 5.0 * (np.arange(n) % 2)[:, None]


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("constant", [3.0, 123456789.123])
def test_a_constant_column_has_no_scale_wherever_it_lies(constant, covariance_type):
    # Its mean is off by rounding, which is no spread.
    def bound(value):
        X = np.column_stack([rows(), np.full(60, value)])
        model = SVIGaussianMixture(2, covariance_type=covariance_type, random_state=0)
        return model.fit(X).elbo_

    assert_allclose(bound(constant), bound(0.0), rtol=1e-6)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("model", MODELS)
def test_squares_that_overflow_are_refused(model, covariance_type):
    with pytest.raises(ValueError, match="X must have a variance that is a finite"):
        clone(model).set_params(covariance_type=covariance_type).fit(1e160 * rows())


@pytest.mark.parametrize("model", MODELS)
def test_priors_of_another_scale_are_refused_in_plain_words(model):
    far = clone(model).set_params(mean_prior=[1e8, 1e8])
    with pytest.raises(ValueError, match="X and the priors are of such different"):
        far.fit(rows())


@pytest.mark.parametrize("name", ["mean_prior", "covariance_prior"])
@pytest.mark.parametrize("model", MODELS)
def test_a_fit_keeps_its_priors_to_itself(model, name):
    given = {"mean_prior": np.zeros(2), "covariance_prior": np.eye(2)}[name]
    fitted = clone(model).set_params(**{name: given})
    fitted.fit(rows())
    before = fitted.score(rows())
    given += 100.0
    assert fitted.score(rows()) == before
    if hasattr(fitted, "posterior_"):
        kept = fitted.posterior_.settings
        assert not np.shares_memory(kept["center"], given)
        assert not np.shares_memory(kept["rate"], given)


@pytest.mark.parametrize("model", MODELS)
def test_missing_values_that_cannot_be_integrated_out_are_named(model):
    X = rows()
    X[3, 1] = np.nan
    for kind in ("tied", "spherical"):
        with pytest.raises(ValueError, match=f"NaN.*covariance_type='{kind}'"):
            clone(model).set_params(covariance_type=kind).fit(X)
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"columns \[1\] are NaN throughout"):
        clone(model).fit(X)
