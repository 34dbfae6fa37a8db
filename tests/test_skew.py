"""``skew="auto"`` and ``tol="auto"`` in fits: what they gain, and where they stop."""

import pickle

import autograd.numpy as anp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
    BoostingResult,
    boost_posterior,
)

AUTO = {"skew": "auto", "tol": "auto", "random_state": 0}
X, Y = load_breast_cancer(return_X_y=True)
X = scale(X)


@pytest.fixture(scope="module")
def fitted():
    return BoostedBayesianLogisticRegression(**AUTO).fit(X, Y)


def test_one_skewed_gaussian_is_enough(fitted):
    plain = BoostedBayesianLogisticRegression(random_state=0, max_iter=1).fit(X, Y)
    assert fitted.n_iter_ == 1 and fitted.converged_
    assert fitted.skewing_.applied
    assert fitted.elbo_ - plain.elbo_ == pytest.approx(fitted.skewing_.gain)
    assert "1,000 exact draws" in fitted.message_
    assert "Skewing the components gained" in fitted.message_
    lower, upper = fitted.remaining_kl_interval_
    assert lower <= fitted.remaining_kl_ <= upper


def test_the_elbo_is_that_of_its_draws(fitted):
    log_joint = fitted.make_log_joint(X, Y)
    theta = fitted.posterior_.sample(4000, random_state=1)
    ratio = log_joint.log_density(theta) - fitted.posterior_.log_density(theta)
    error = np.hypot(ratio.std() / np.sqrt(len(theta)), fitted.elbo_se_)
    assert abs(ratio.mean() - fitted.elbo_) < 4.0 * error


def test_moments_move_and_predictions_do_not(fitted):
    plain = BoostedBayesianLogisticRegression(random_state=0, max_iter=1).fit(X, Y)
    assert np.abs(fitted.coef_ - plain.coef_).max() > 0.0
    np.testing.assert_array_equal(fitted.predict_proba(X), plain.predict_proba(X))
    stages = list(fitted.staged_predict_proba(X))
    np.testing.assert_array_equal(stages[-1], fitted.predict_proba(X))


def test_pickles_hold_no_rows(fitted):
    data = pickle.dumps(fitted)
    assert X[:, 0].tobytes() not in data and X[7].tobytes() not in data
    copy = pickle.loads(data)
    np.testing.assert_array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    coef, _ = copy.sample_posterior(500, random_state=0)
    assert coef.shape == (500, 30)
    with pytest.raises(ValueError, match="make_log_joint"):
        copy.posterior_.log_density(np.zeros((1, 31)))


def test_going_on_skews_again(fitted):
    model = BoostedBayesianLogisticRegression(**AUTO | {"tol": 1e-3}, max_iter=1)
    first = model.fit(X, Y).elbo_
    model.set_params(warm_start=True, max_iter=2).fit(X, Y)
    assert model.n_iter_ == 2 and model.skewing_.applied
    assert model.elbo_ > first - 3.0 * model.elbo_se_


def test_more_rows_have_the_mixture_as_their_prior(fitted):
    model = BoostedBayesianLogisticRegression(**AUTO)
    model.partial_fit(X[:300], Y[:300]).partial_fit(X[300:], Y[300:])
    assert (
        np.abs(model.coef_ - fitted.coef_) < 0.7 * fitted.posterior_.std()[:30]
    ).all()
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("cls", ["linear", "poisson"])
def test_other_likelihoods(cls):
    model = {
        "linear": BoostedBayesianLinearRegression,
        "poisson": BoostedBayesianPoissonRegression,
    }[cls](**AUTO)
    y = np.random.default_rng(0).poisson(np.exp(0.5 * X[:30, 0]))
    model.fit(X[:30, :2], y)
    assert model.skewing_ is not None and np.isfinite(model.elbo_)
    assert np.isfinite(model.predict(X[:5, :2])).all()


def test_several_outputs_have_a_list_of_reports():
    y = np.random.default_rng(1).normal(size=(30, 2)) + X[:30, :2]
    model = BoostedBayesianLinearRegression(**AUTO).fit(X[:30, :2], y)
    assert model.skewing_ == [e.skewing_ for e in model.estimators_]


def banana(theta):
    return -0.125 * theta[:, 0] ** 2 - 2.0 * (theta[:, 1] - theta[:, 0] ** 2 / 4.0) ** 2


def bumps(theta):
    left, right = -2.0 * (theta[:, 0] + 2.0) ** 2, -0.5 - (theta[:, 0] - 2.0) ** 2
    return anp.logaddexp(left, right)


def wide_bumps(theta):
    """Two modes in 40 dimensions, seven standard deviations apart."""
    rest = -0.5 * anp.sum(theta[:, 1:] ** 2, axis=1)
    x = theta[:, 0]
    return rest + anp.logaddexp(-0.5 * (x - 3.5) ** 2, -0.5 * (x + 3.5) ** 2)


def wide_banana(theta):
    """A banana in the first two of 40 dimensions."""
    rest = -0.5 * anp.sum(theta[:, 2:] ** 2, axis=1)
    return rest + banana(theta[:, :2])


@pytest.mark.parametrize(
    ("log_density", "dim"), [(banana, 2), (bumps, 1), (wide_bumps, 40)]
)
def test_boosting_goes_on_where_it_must(log_density, dim):
    result = boost_posterior(log_density, dim, max_iter=4, **AUTO)
    assert result.posterior.n_components > 1


@pytest.mark.slow
def test_a_banana_in_many_dimensions_goes_on():
    result = boost_posterior(wide_banana, 40, max_iter=3, **AUTO)
    assert result.n_iter > 1


def test_results_keep_it(tmp_path):
    def skewed(theta):
        return (2.5 * theta - anp.exp(theta)).sum(axis=1)

    result = boost_posterior(
        skewed, 2, max_iter=1, tol=1e-3, skew="auto", random_state=0
    )
    assert result.skewing.applied
    result.save(tmp_path / "result.npz")
    read = BoostingResult.load(tmp_path / "result.npz")
    assert read.skewing == result.skewing
    np.testing.assert_allclose(read.posterior.mean(), result.posterior.mean(), 1e-6)
