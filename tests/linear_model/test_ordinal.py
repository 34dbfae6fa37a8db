"""Ordered classes: cumulative logits with a posterior over thresholds."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import approx_fprime
from scipy.special import expit

from ..kinds import Ordinal

COEF, THRESHOLDS = np.array([2.0, -1.0, 0.0]), np.array([-1.0, 0.5, 2.0])
GRADES = np.array(["poor", "fair", "good", "best"])
SETTINGS = {
    "prior_scale": 1.0, "intercept_scale": 10.0, "max_iter": 1, "orbit": None,
    "random_state": 0,
}  # fmt: skip


def generated(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.digitize(X @ COEF + rng.logistic(size=n), THRESHOLDS)


@pytest.fixture(scope="module")
def fitted():
    X, rank = generated()
    model = Ordinal(categories=GRADES, **SETTINGS)
    return model.fit(X, GRADES[rank]), X, rank


def test_the_log_joint_is_that_of_the_formula(fitted):
    model, X, rank = fitted
    log_joint = model.make_log_joint(X, GRADES[rank])
    theta = model.posterior_.sample(2, random_state=0)
    coef, intercept, gaps = theta[:, :3], theta[:, 3], theta[:, 4:]
    for k in range(2):
        thresholds = np.cumsum([-intercept[k], *np.exp(gaps[k])])
        below = expit(thresholds - (X @ coef[k])[:, None])
        p = np.diff(below, prepend=0.0, append=1.0, axis=1)
        expected = np.log(p[np.arange(len(X)), rank]).sum()
        expected += stats.norm.logpdf(coef[k]).sum()
        at_centre = intercept[k] + X.mean(axis=0) @ coef[k]
        expected += stats.norm.logpdf(at_centre, scale=10.0)
        expected += stats.norm.logpdf(gaps[k], scale=1.5).sum()
        assert log_joint(theta)[k] == pytest.approx(expected)
        slope = approx_fprime(theta[k], lambda t: log_joint(t[None])[0], 1e-6)
        assert_allclose(log_joint.gradient(theta)[k], slope, rtol=1e-4, atol=1e-3)


def test_parameters_are_found_again(fitted):
    model, _, _ = fitted
    coef, thresholds = model.sample_posterior(2000, random_state=0)
    assert np.all(np.abs(model.coef_ - COEF) < 4 * coef.std(axis=0))
    assert np.all(np.abs(model.thresholds_ - THRESHOLDS) < 4 * thresholds.std(axis=0))
    assert np.all(np.diff(thresholds, axis=1) > 0)


def test_predictions_average_over_the_posterior(fitted):
    model, X, rank = fitted
    coef, thresholds = model.sample_posterior(8000, random_state=1)
    below = expit(thresholds - (coef @ X[:5].T).T[:, :, None])
    ends = np.zeros((5, 8000, 1))
    p = np.diff(below, axis=2, prepend=ends, append=ends + 1)
    columns = np.argsort(GRADES)
    assert_allclose(model.predict_proba(X[:5]), p.mean(axis=1)[:, columns], atol=0.01)
    expected = np.quantile(p, [0.05, 0.95], axis=1).transpose(1, 2, 0)[:, columns]
    assert_allclose(model.predict_proba_interval(X[:5]), expected, atol=0.02)
    logs = model.log_predictive_density(X, GRADES[rank])
    own = model.predict_proba(X)[np.arange(len(X)), np.argsort(columns)[rank]]
    assert_allclose(np.exp(logs), own)
    assert np.all(np.isfinite(model.predict_log_proba(100.0 * X)))


def test_classes_have_the_order_that_is_given(fitted):
    model, X, rank = fitted
    assert model.categories_.tolist() == GRADES.tolist()
    y = pd.Series(pd.Categorical(GRADES[rank], categories=GRADES, ordered=True))
    same = Ordinal(**SETTINGS).fit(X, y)
    assert_allclose(same.coef_, model.coef_)
    assert same.categories_.tolist() == GRADES.tolist()
    with pytest.raises(ValueError, match="labels among the classes.*'poor'.*'worst'"):
        model.fit(X, np.where(rank == 0, "worst", GRADES[rank]))
    with pytest.raises(ValueError, match="categories must be at least two different"):
        Ordinal(categories=["a", "a"]).fit(X, GRADES[rank])
    assert model.categories_.tolist() == GRADES.tolist()


def test_a_class_without_rows_has_what_its_prior_leaves():
    X, rank = generated(100)
    some = rank != 2
    model = Ordinal(categories=range(4), **SETTINGS)
    p = model.fit(X[some], rank[some]).predict_proba(X).mean(axis=0)
    assert 0.0 < p[2] < 0.15 and p.sum() == pytest.approx(1.0)
