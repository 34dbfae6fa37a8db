"""Poisson regression: posterior, exposure and what is routed to it."""

import warnings
from functools import partial

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .conftest import count_regression, counted

regression = partial(count_regression, "poisson")
X, Y, YEARS = counted(dispersion=0)
OFFSET = np.log(YEARS)


def test_near_the_likeliest_point_where_data_are_many():
    rows, y, years = counted(2000, dispersion=0)
    fitted = regression().fit(rows, y, offset=np.log(years))
    # scikit-learn's regressor has no offset: rates weighted by exposures are the same.
    rival = PoissonRegressor(alpha=0.0, tol=1e-8)
    rival.fit(rows, y / years, sample_weight=years)
    std = fitted.posterior_.std()
    assert_allclose(fitted.coef_ / std[:2], rival.coef_ / std[:2], atol=0.1)
    assert fitted.intercept_ == pytest.approx(rival.intercept_, abs=0.1 * std[2])


def test_an_exposure_moves_the_intercept_and_scores_are_those_of_scikit_learn():
    fitted = regression(intercept_scale=5.0, prior_scale=2.0).fit(X, Y)
    plain, mean = fitted.intercept_, fitted.predict(X)
    weight = np.random.default_rng(1).uniform(size=80)
    exact = d2_tweedie_score(Y, mean, sample_weight=weight, power=1)
    assert fitted.score(X, Y, weight) == pytest.approx(exact)
    moved = fitted.fit(X, Y, offset=np.full(80, np.log(10.0))).intercept_
    assert moved == pytest.approx(plain - np.log(10.0), abs=0.01)
    fitted.fit(X, Y, offset=OFFSET)
    assert fitted.score(X, Y, offset=OFFSET) > 0.4
    # Far from what was fitted the prediction explains nothing; it is no NaN.
    assert fitted.score(X, Y, offset=OFFSET - 800.0) < 0.0


def test_what_is_asked_without_the_exposure_of_the_fit_says_so():
    X = np.random.default_rng(0).normal(size=(30, 1))
    y, exposure = np.arange(30) % 3, np.linspace(1.0, 2.0, 30)
    model = regression(max_iter=1).fit(X, y, exposure=exposure)
    for name in ("predict", "predict_interval", "score", "log_predictive_density"):
        given = (X,) if name.startswith("predict") else (X, y)
        with pytest.warns(UserWarning, match="The fit was told the exposure") as caught:
            getattr(model, name)(*given)
        assert [warning.filename for warning in caught] == [__file__]
    # Pieces without one do not make the others forgotten.
    pieces = regression(max_iter=1).partial_fit(X, y, exposure=exposure)
    with pytest.warns(UserWarning, match="The fit was told the exposure"):
        pieces.partial_fit(X, y).score(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(X, y, exposure=exposure)
        ones = model.predict(X, exposure=np.ones(30))
        assert_allclose(model.predict(X, exposure=exposure), ones * exposure)
        model.fit(X, y).score(X, y)
        model.predict(X)


def test_predictions_of_folds_without_an_exposure_say_so():
    X = np.random.default_rng(0).normal(size=(30, 1))
    y, exposure = np.arange(30) % 3, np.linspace(1.0, 2.0, 30)
    with sklearn.config_context(enable_metadata_routing=True):
        model = regression(max_iter=1).set_fit_request(exposure=True)
        model.set_predict_request(exposure=True)
        with pytest.warns(UserWarning, match="cross_val_predict passes none on"):
            cross_val_predict(model, X, y, cv=3, params={"exposure": exposure})


def test_weights_and_offsets_are_routed():
    weight = np.random.default_rng(0).uniform(size=80)
    words = {"offset": OFFSET, "sample_weight": weight}
    with sklearn.config_context(enable_metadata_routing=True):
        model = regression(max_iter=1).set_predict_request(offset=True)
        model.set_fit_request(offset=True, sample_weight=True)
        model.set_score_request(offset=True, sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X, Y, offset=OFFSET)
        mean = pipeline.predict(X, offset=OFFSET)
        scores = cross_validate(model, X, Y, cv=2, params=words)
    rows = StandardScaler().fit_transform(X)
    alone = clone(model).fit(rows, Y, offset=OFFSET)
    assert_allclose(mean, alone.predict(rows, OFFSET))
    assert np.isfinite(scores["test_score"]).all()
