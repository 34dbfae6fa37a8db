"""`calibrate` of `boost_posterior`, of estimators and of posteriors."""

import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils._param_validation import InvalidParameterError

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
    MixturePosterior,
    boost_posterior,
)
from skboost.approximation import Mixture
from skboost.calibration import Calibration
from skboost.exceptions import CalibrationWarning
from skboost.families import FullGaussian
from skboost.posterior import TransformedPosterior
from skboost.transforms import Constraints


def student_t(theta, df=4.0):
    return -0.5 * (df + 2) * anp.log1p(anp.sum(theta**2, axis=-1) / df)


def student_t_gradient(theta, df=4.0):
    squared = np.sum(theta**2, axis=-1, keepdims=True)
    return -(df + 2) * theta / (df + squared)


def boost(method, log_density=student_t, dim=2, **settings):
    settings = {
        "random_state": 0,
        "max_iter": 1,
        "n_draws": 128,
        "orbit": None,
    } | settings
    return boost_posterior(log_density, dim, calibrate=method, **settings)


@pytest.fixture(scope="module")
def results():
    """By the value of `calibrate`, what `boost` finds."""
    return {method: boost(method) for method in (None, "auto", "moments")}


def many_rows():
    """Few rows of many columns: a posterior that one Gaussian misses by a nat."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    probability = 1 / (1 + np.exp(-X @ rng.standard_normal(40)))
    return X, (rng.random(60) < probability).astype(int)


# --- boost_posterior


@pytest.mark.parametrize("method", ["auto", "moments"])
def test_tails_are_corrected(method, results):
    plain, result = results[None], results[method]
    assert plain.calibration is None
    assert "correction" not in plain.message
    assert isinstance(result.calibration, Calibration)
    assert result.calibration.applied
    assert "A correction (heavy-tailed, step 1) was applied" in result.message
    truth = np.sqrt(2.0)
    off, now = (np.abs(r.posterior.std() / truth - 1).max() for r in (plain, result))
    assert now < (0.5 * off if method == "moments" else off)
    # All that is reported is that of what is returned.
    theta = result.posterior.sample(50_000, random_state=1)
    elbo = student_t(theta) - result.posterior.log_density(theta)
    error = 4 * np.hypot(result.elbo_se, elbo.std() / np.sqrt(len(elbo)))
    assert abs(result.elbo - elbo.mean()) < error
    z = theta[:5]
    assert_allclose(result.stages[-1].log_density(z), result.posterior.log_density(z))
    assert result.n_evaluations > plain.n_evaluations


def test_constraints_and_names_are_kept():
    def log_normal(theta):
        return -0.5 * anp.sum(anp.log(theta) ** 4 + 2 * anp.log(theta), axis=-1)

    result = boost("moments", log_normal, constraints="positive", names=["a", "b"])
    assert result.posterior.names == ("a", "b")
    assert isinstance(result.posterior, TransformedPosterior)
    assert (result.posterior.sample(100, random_state=0) > 0).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_run_without_time_is_not_corrected():
    result = boost("moments", max_time=1e-9)
    assert not result.calibration.applied
    assert "cut short" in result.calibration.reason
    assert result.remaining_kl_interval[1] == np.inf


def test_the_interval_is_in_the_message():
    result = boost(None, lambda t: -0.5 * anp.sum(t**2, axis=-1), 3)
    lower, upper = result.remaining_kl_interval
    assert lower == 0.0 and upper < 0.02
    assert "nats of KL remain" in result.message


def test_a_typo_is_refused():
    with pytest.raises(InvalidParameterError, match="calibrate"):
        boost("momments")
    with pytest.raises(ValueError, match="method must be one of.*'momments'"):
        gaussian_posterior().calibrate(student_t, method="momments")
    with pytest.raises(InvalidParameterError, match="calibrate"):
        BoostedBayesianLogisticRegression(calibrate="yes").fit([[0.0], [1.0]], [0, 1])


# --- estimators


def test_an_estimator_is_corrected_in_many_dimensions():
    X, y = many_rows()
    settings = {"max_iter": 1, "orbit": None, "random_state": 0, "prior_scale": 1.0}
    # Expectation propagation, which leaves nothing to correct, is for refined fits.
    settings |= {"refine": False}
    plain = BoostedBayesianLogisticRegression(**settings).fit(X, y)
    model = BoostedBayesianLogisticRegression(calibrate="moments", **settings)
    model.fit(X, y)
    assert plain.calibration_ is None
    assert model.calibration_.applied and model.calibration_.method == "affine"
    assert model.elbo_ < plain.elbo_
    # One Gaussian of least KL is too narrow where the posterior is skewed.
    assert model.posterior_.std().mean() > 1.02 * plain.posterior_.std().mean()
    *_, last = model.staged_predict_proba(X)
    assert np.array_equal(last, model.predict_proba(X))
    assert_allclose(model.coef_[0], model.posterior_.mean()[:-1])


@pytest.mark.slow
def test_going_on_is_one_long_run():
    X, y = many_rows()
    settings = {"calibrate": "moments", "random_state": 0, "tol": 0.0, "n_draws": 128}
    long = BoostedBayesianLogisticRegression(max_iter=2, **settings).fit(X, y)
    halves = BoostedBayesianLogisticRegression(max_iter=1, warm_start=True, **settings)
    halves.fit(X, y).set_params(max_iter=2).fit(X, y)
    assert np.array_equal(halves.predict_proba(X), long.predict_proba(X))
    assert halves.calibration_ == long.calibration_


# --- posteriors


def gaussian_posterior(dim=2, names=None):
    family = FullGaussian()
    params = family.from_moments(np.zeros(dim), np.eye(dim))
    return MixturePosterior(Mixture.single((family, params)), names)


def families(posterior):
    return {type(each.family) for each in posterior.mixture.components}


@pytest.mark.parametrize("gradient", [None, student_t_gradient])
def test_a_posterior_is_corrected_by_a_log_joint(gradient):
    posterior = gaussian_posterior(names=["a", "b"])
    options = {"method": "moments", "random_state": 0, "return_calibration": True}
    found, record = posterior.calibrate(student_t, gradient, **options)
    assert record.applied and record.reason == ""
    assert found.names == ("a", "b")
    # Monte Carlo errors of standard deviations with tails of four degrees of freedom.
    assert_allclose(found.std(), np.sqrt(2.0), rtol=0.15)
    assert_allclose(posterior.std(), 1.0)


def test_a_declined_correction_is_said():
    posterior = gaussian_posterior()

    def normal(theta):
        return -0.5 * np.sum(theta**2, axis=1)

    with pytest.warns(CalibrationWarning, match="left to correct") as caught:
        found = posterior.calibrate(normal, random_state=0)
    assert caught[0].filename == __file__
    assert_allclose(found.std(), posterior.std())


def test_a_constrained_posterior_is_corrected_on_its_users_scale():
    """Logs of the parameters are Student-t; the log joint has their Jacobian."""
    posterior = TransformedPosterior(
        gaussian_posterior().mixture, Constraints("positive", dim=2), names=["a", "b"]
    )

    def log_joint(theta):
        return student_t(anp.log(theta)) - anp.sum(anp.log(theta), axis=-1)

    found = posterior.calibrate(log_joint, method="moments", random_state=0)
    assert isinstance(found, TransformedPosterior)
    assert found.names == ("a", "b")
    assert_allclose(found.mixture.std(), np.sqrt(2.0), rtol=0.15)
    # An exponential of a Student-t variable has no mean.
    assert np.isfinite([found.mean(), found.std()]).all()


def test_corrected_moments_exist_on_the_scale_of_the_user():
    """A gamma distribution: the posterior of its logarithm has no Student-t tails."""

    def log_gamma(theta):
        return anp.sum(2.0 * anp.log(theta) - theta, axis=-1)

    # One skewed component is within the default limit and may be left as it is; a
    # tighter one grows the mixture that this test is about.
    result = boost("auto", log_gamma, constraints="positive", max_iter=3, tol=1e-4)
    assert result.n_iter > 1
    assert result.calibration.applied
    assert_allclose(result.posterior.mean(), 3.0, rtol=0.05)
    assert_allclose(result.posterior.std(), np.sqrt(3.0), rtol=0.1)


def test_predictions_of_corrected_regressions_have_deviations():
    """The noise scale is an exponential, and so is the rate of a count."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 1))
    settings = {"calibrate": "moments", "max_iter": 1, "random_state": 0}
    linear = BoostedBayesianLinearRegression(**settings)
    count = BoostedBayesianPoissonRegression(**settings)
    linear.fit(X, X[:, 0] + rng.standard_normal(8))
    count.fit(X, rng.poisson(np.exp(X[:, 0])))
    for model in (linear, count):
        assert model.calibration_.applied
        assert model.calibration_.method == "gaussian"
        assert families(model.posterior_) == {FullGaussian}
        assert np.isfinite(model.predict(X, return_std=True)[1]).all()


@pytest.mark.parametrize("room", [2000, 8000])
def test_a_limit_binds_inside_a_correction(room, results):
    plain = results[None]
    budget = plain.n_evaluations + room
    result = boost("moments", max_evaluations=budget)
    assert result.n_evaluations <= budget
    assert not result.calibration.applied
    assert result.calibration.reason
    assert result.elbo == plain.elbo
    z = np.ones((1, 2))
    assert result.posterior.log_density(z) == plain.posterior.log_density(z)
    # Half of the room is left for new draws and chains.
    assert np.isfinite(result.remaining_kl_interval[1])
    assert "half of what the limits" in result.calibration.reason


def test_errors_of_a_log_joint_are_named():
    """By the parameter of this method, with the first of the errors."""
    posterior = gaussian_posterior()

    def column(theta):
        return student_t(theta)[:, None]

    def misspelt(theta):
        return student_tt(theta)  # noqa: F821

    with pytest.raises(ValueError, match="log_joint must return one number for each"):
        posterior.calibrate(column)
    with pytest.warns(CalibrationWarning, match="First: log_joint.*student_tt"):
        posterior.calibrate(misspelt)
    with pytest.warns(CalibrationWarning) as caught:
        posterior.calibrate(lambda theta: np.full(len(theta), np.nan))
    assert "got nan" in str(caught[0].message)
    assert "failures=" not in str(caught[0].message)


def test_a_gradient_is_used_where_the_log_joint_has_one_too():
    """Of an affine map: twenty-one dimensions."""
    calls = []

    class Target:
        dim = 21

        def log_density(self, theta):
            return student_t(theta)

        def value_and_score(self, theta):
            raise AssertionError("gradient was given")

    def gradient(theta):
        calls.append(len(theta))
        return student_t_gradient(theta)

    posterior = gaussian_posterior(21)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        posterior.calibrate(Target(), gradient=gradient, random_state=0)
    assert calls


def test_a_log_joint_of_a_count_model_asks_for_light_tails():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 1))
    y = rng.poisson(np.exp(X[:, 0]))
    model = BoostedBayesianPoissonRegression(max_iter=1, random_state=0).fit(X, y)
    log_joint = model.make_log_joint(X, y)
    for gradient in (None, log_joint.gradient):
        found = model.posterior_.calibrate(
            log_joint, gradient=gradient, method="auto", random_state=0
        )
        assert families(found) == {FullGaussian}
        assert np.any(found.mixture.std() != model.posterior_.mixture.std())


def test_a_bound_of_roots_is_none_of_components():
    """Two square roots are a mixture of three densities, which the correction keeps."""
    settings = {"objective": "hellinger", "max_components": 2, "max_iter": 3}
    result = boost("auto", **settings, tol=1e-3)
    assert result.calibration.applied
    assert result.posterior.n_components == 3
