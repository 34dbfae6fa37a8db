"""Missing entries are filled in with their expected values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer

from skboost.mixture import BoostedGaussianMixture, SVIGaussianMixture

X = load_iris().data[::3, 1:]
GAPS = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
COV = np.cov(X.T)
TINY = {"max_iter": 2}


def models():
    for covariance in ("full", "diag"):
        settings = {"covariance_type": covariance, "random_state": 0}
        yield SVIGaussianMixture(3, max_iter=30, covariance_prior=None, **settings)
        yield BoostedGaussianMixture(2, **TINY, **settings)
    for prior in ({"mean_prior_type": "independent"}, {"known_covariances": COV}):
        prior |= {"covariance_prior": None, "random_state": 0}
        yield SVIGaussianMixture(2, max_iter=30, **prior)


@pytest.mark.parametrize("model", list(models()))
def test_expected_values_are_those_of_the_predictive_density(model):
    gaps = GAPS
    found = model.fit(gaps).impute(gaps)
    seen = ~np.isnan(gaps)
    assert np.array_equal(found[seen], gaps[seen])
    # One missing entry: the mean of the density along a line.
    row = np.flatnonzero((~seen).sum(axis=1) == 1)[0]
    column = np.flatnonzero(~seen[row])[0]
    away = 8.0 * np.sinh(np.linspace(-7.0, 7.0, 501))
    line = np.tile(gaps[row], (len(away), 1))
    line[:, column] = found[row, column] + away
    step = np.gradient(away)
    density = np.exp(model.score_samples(line)) * step
    assert_allclose(density @ away / density.sum(), 0.0, atol=2e-3)


def test_nearer_than_the_means_of_columns():
    model = SVIGaussianMixture(3, max_iter=30, random_state=0).fit(GAPS)
    gone = np.isnan(GAPS)
    error = (model.impute(GAPS) - X)[gone].std()
    assert error < 0.5 * (SimpleImputer().fit_transform(GAPS) - X)[gone].std()
    blank = np.full((1, 3), np.nan)
    assert_allclose(model.impute(blank)[0], model.weights_ @ model.means_)
    assert np.array_equal(model.impute(X), X)


def test_covariances_that_take_no_gaps_say_so():
    model = SVIGaussianMixture(2, covariance_type="tied", random_state=0).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        model.impute(GAPS)
