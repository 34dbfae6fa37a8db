"""Linear regression: posteriors against closed forms, hard data, many outputs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import HuberRegressor, LinearRegression

from skboost import BoostedBayesianLinearRegression

from .conftest import pieces_are_near_the_whole, same_mixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def line(n=40, d=3, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ np.linspace(1.0, -1.0, d) + 0.7 + noise * rng.normal(size=n)


def regression(**settings):
    settings = {"max_iter": 3, "n_draws": 64, "random_state": 0} | settings
    return BoostedBayesianLinearRegression(**settings)


X, Y = line()


# --- exactness


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_known_scale_and_a_normal_prior_give_the_closed_form(
    fit_intercept, temperature
):
    weight = np.random.default_rng(1).uniform(0.1, 2.0, len(Y))
    fitted = regression(
        noise_scale=0.5, prior_scale=[1.0, 2.0, 3.0], intercept_scale=4.0,
        fit_intercept=fit_intercept, temperature=temperature,
    ).fit(X, Y, weight)  # fmt: skip
    A = np.column_stack([X, np.ones(len(Y))]) if fit_intercept else X
    prior = np.diag(1.0 / np.array([1.0, 2.0, 3.0, 4.0])[: A.shape[1]] ** 2)
    scaled = temperature * weight[:, None] * A / 0.25
    covariance = np.linalg.inv(A.T @ scaled + prior)
    assert fitted.posterior_.n_components == 1
    assert_allclose(fitted.posterior_.covariance(), covariance, atol=1e-10, rtol=0)
    assert_allclose(
        fitted.posterior_.mean(), covariance @ scaled.T @ Y, atol=1e-10, rtol=0
    )


def log_evidence(X, y, scale, weight, size):
    """Of a normal prior beside an inverse chi-squared one, by quadrature."""
    A = np.column_stack([X, np.ones(len(y))])
    values, axes = np.linalg.eigh(scale**2 * A @ A.T)
    squares = (axes.T @ y) ** 2
    level = np.linspace(-8.0, 5.0, 10_001)
    total = np.maximum(values, 0.0)[:, None] + np.exp(2.0 * level)
    log = -0.5 * (np.log(2 * np.pi * total) + squares[:, None] / total).sum(axis=0)
    half = 0.5 * weight
    log += np.log(2.0) + half * np.log(half * size**2) - gammaln(half)
    log -= weight * level + half * size**2 * np.exp(-2.0 * level)
    return log.max() + np.log(np.trapezoid(np.exp(log - log.max()), level))


def test_the_elbo_misses_little_of_the_evidence():
    fitted = regression(
        prior_scale=100.0, intercept_scale=100.0, noise_prior_scale=0.1,
        max_iter=10, n_draws=1024, tol=1e-3,
    ).fit(X, Y)  # fmt: skip
    missed = log_evidence(X, Y, 100.0, 1.0, 0.1) - fitted.elbo_
    assert -4.0 * fitted.elbo_se_ < missed < 0.02 + 4.0 * fitted.elbo_se_


def test_the_marginals_are_those_of_the_normal_inverse_gamma_posterior():
    fitted = regression(
        prior_scale=1e3, intercept_scale=1e3, noise_prior_weight=2.0,
        noise_prior_scale=0.3, max_iter=10, n_draws=1024, tol=1e-3,
    ).fit(X, Y)  # fmt: skip
    A = np.column_stack([X, np.ones(len(Y))])
    coef, residual = np.linalg.lstsq(A, Y)[:2]
    df = len(Y) - 4 + 2.0
    size = (residual[0] + 2.0 * 0.3**2) / df
    std = np.sqrt(size * np.diag(np.linalg.inv(A.T @ A)))
    # Between two distributions of KL k probabilities differ by at most sqrt(k / 2).
    tolerance = np.sqrt(0.5 * max(fitted.remaining_kl_ + 0.005, 0.005))
    for j in range(4):
        exact = stats.t(df, coef[j], std[j])
        points = exact.ppf([0.05, 0.5, 0.95])
        found = fitted.posterior_.marginal(j).cdf(points)
        assert_allclose(found, [0.05, 0.5, 0.95], atol=tolerance)
    points = stats.invgamma(df / 2, scale=df * size / 2).ppf([0.05, 0.5, 0.95])
    found = fitted.posterior_.marginal("log_noise_scale").cdf(0.5 * np.log(points))
    assert_allclose(found, [0.05, 0.5, 0.95], atol=tolerance)


def test_default_priors_leave_moderate_data_alone():
    rows, y = line(200, 4)
    rows = 50.0 + 7.0 * rows
    found = regression().fit(rows, y).predict(rows)
    assert_allclose(found, LinearRegression().fit(rows, y).predict(rows), atol=0.01)


# --- noise with heavy tails


@pytest.mark.slow
def test_outliers_pull_less_on_student_t_noise():
    rows, y = line(100, 2, noise=0.3)
    dirty = y.copy()
    dirty[:10] += 30.0
    truth = LinearRegression().fit(rows[10:], y[10:]).coef_
    errors = {
        noise: np.abs(regression(noise=noise).fit(rows, dirty).coef_ - truth).max()
        for noise in ("normal", "student_t")
    }
    huber = np.abs(HuberRegressor().fit(rows, dirty).coef_ - truth).max()
    assert errors["student_t"] < 0.2 * errors["normal"]
    assert errors["student_t"] < 2.0 * huber + 0.05


# --- data in


@pytest.mark.slow
@pytest.mark.parametrize("family", ["laplace", "student_t"])
@pytest.mark.parametrize("noise", ["normal", "student_t"])
def test_other_families_agree(family, noise):
    other = regression(family=family, noise=noise, n_draws=256).fit(X, Y)
    plain = regression(noise=noise, n_draws=256).fit(X, Y)
    std = plain.posterior_.std()
    assert_allclose(
        other.posterior_.mean() / std, plain.posterior_.mean() / std, atol=0.3
    )
    assert_allclose(other.predict_interval(X), plain.predict_interval(X), atol=0.25)


# --- several outputs


@pytest.mark.slow
def test_outputs_are_fits_of_their_own():
    both = np.column_stack([Y, 2.0 - 3.0 * Y + X[:, 0] ** 2])
    fitted = regression(n_jobs=2, calibrate="auto").fit(X, both)
    assert fitted.coef_.shape == (2, 3) and len(fitted.posterior_) == 2
    for k in range(2):
        alone = regression(calibrate="auto").fit(X, both[:, k])
        assert np.array_equal(fitted.predict(X)[:, k], alone.predict(X))
        assert np.array_equal(
            fitted.predict_interval(X)[:, k], alone.predict_interval(X)
        )
        assert np.array_equal(fitted.coef_interval()[k], alone.coef_interval())
        interval = fitted.remaining_kl_interval_[k]
        assert tuple(interval) == alone.remaining_kl_interval_
        assert fitted.calibration_[k] == alone.calibration_
        for name in ("remaining_kl_", "remaining_kl_se_", "pareto_k_", "elbo_se_"):
            assert getattr(fitted, name)[k] == getattr(alone, name)
        density = fitted.log_predictive_density(X, both)[:, k]
        assert np.array_equal(density, alone.log_predictive_density(X, both[:, k]))
    mean, std = fitted.predict(X, return_std=True)
    assert mean.shape == std.shape == both.shape
    *_, last = fitted.staged_predict(X)
    assert np.array_equal(last, fitted.predict(X))
    coef, intercept, scale = fitted.sample_posterior(5, random_state=0)
    assert coef.shape == (5, 2, 3) and intercept.shape == scale.shape == (5, 2)
    assert fitted.score(X, both) > 0.5


def test_a_refit_forgets_what_was_said_of_another_shape():
    fitted = regression(max_iter=1).fit(X, Y[:, None])
    assert fitted.predict(X).shape == (40, 1)
    names = set(vars(fitted))
    fitted.fit(X, Y)
    assert fitted.predict(X).shape == (40,)
    assert not hasattr(fitted, "estimators_")
    assert set(vars(fitted.fit(X, Y[:, None]))) - {"_noise_model"} <= names


def test_more_data_for_several_outputs():
    both = np.column_stack([Y, -Y])
    fitted = regression().partial_fit(X[:20], both[:20])
    width = fitted.posterior_[0].std()
    fitted.partial_fit(X[20:], both[20:])
    assert np.all(fitted.posterior_[0].std()[:3] < width[:3])
    with pytest.raises(ValueError, match="y must have as many columns"):
        fitted.partial_fit(X, Y)


def test_responses_far_from_zero_are_not_constant():
    near, moved = regression().fit(X, Y), regression().fit(X, Y + 2.0**30)
    assert_allclose(moved.coef_, near.coef_, atol=0.02)
    assert moved.noise_scale_ < 1.0


# --- going on


@pytest.mark.parametrize(
    "params", [{"noise_scale": 1.0}, {"noise_scale": 1.0, "fit_intercept": True}]
)
def test_other_parameters_can_not_go_on(params):
    model = regression(fit_intercept=False).fit(X, Y)
    coef = model.coef_
    with pytest.raises(ValueError, match="goes on with the same parameters; got"):
        model.set_params(**params).partial_fit(X, Y)
    assert model.coef_ is coef


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_pieces_with_a_known_scale_are_the_whole(temperature):
    prior = {"noise_scale": 0.5, "prior_scale": 3.0, "intercept_scale": 3.0}
    settings = {"temperature": temperature, **prior}
    whole, pieces = regression(**settings).fit(X, Y), regression(**settings)
    for rows in np.array_split(np.arange(40), 8):
        pieces.partial_fit(X[rows], Y[rows])
    assert whole.posterior_.hellinger(pieces.posterior_).distance < 1e-3
    assert_allclose(pieces.coef_, whole.coef_, atol=1e-4)


@pytest.mark.slow
def test_pieces_with_an_inferred_scale_are_near_the_whole():
    # One Gaussian as prior is exact: what is left is that no posterior is Gaussian.
    settings = {"max_iter": 10, "n_draws": 512, "max_components": 1}
    cuts = [40, *range(44, 400, 4)]
    pieces_are_near_the_whole(regression, *line(400, 3), cuts, **settings)


# --- several outputs, interrupted

OUTPUTS = np.column_stack([Y, -Y, 2.0 * Y])


@pytest.fixture
def interrupt(monkeypatch):
    """``interrupt(n)``: the fit of the n-th output from now on raises."""

    def arm(n):
        left, learn = [n], BoostedBayesianLinearRegression._learn

        def learn_or_raise(self, *args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return learn(self, *args, **kwargs)

        monkeypatch.setattr(BoostedBayesianLinearRegression, "_learn", learn_or_raise)

    return arm


@pytest.mark.slow
def test_outputs_that_were_done_wait_for_a_warm_start(interrupt):
    whole = regression().fit(X, OUTPUTS)
    model = regression(warm_start=True)
    interrupt(3)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(X, OUTPUTS)
    assert type(caught.value) is KeyboardInterrupt
    with pytest.raises(NotFittedError):
        model.predict(X)
    done = model._begun_outputs
    assert done[2] is None
    assert all(same_mixture(done[k], whole.estimators_[k]) for k in range(2))
    model.fit(X, OUTPUTS)
    for one, two in zip(model.estimators_, whole.estimators_, strict=True):
        assert same_mixture(one, two) and one.elbo_ == two.elbo_
    assert "_begun_outputs" not in vars(model)


def test_outputs_are_all_kept_where_all_have_a_posterior(interrupt):
    settings = {"prior_scale": "auto", "warm_start": True, "max_iter": 1}
    model = regression(**settings).fit(X, OUTPUTS)
    before = model.elbo_.copy()
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(max_iter=2, tol=0.0).fit(X, OUTPUTS)
    assert [e.n_iter_ for e in model.estimators_] == [2, 1, 1]
    assert model.elbo_[0] != before[0] and np.array_equal(model.elbo_[1:], before[1:])
    assert model.predict(X).shape == (len(X), 3)


@pytest.mark.slow
def test_an_interrupted_update_of_outputs_leaves_all_as_they_were(interrupt):
    model = regression().fit(X, OUTPUTS)
    before = model.predict(X)
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, OUTPUTS)
    assert np.array_equal(model.predict(X), before)
