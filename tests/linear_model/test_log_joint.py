"""The fitted model's log joint as a function."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.special import log_softmax
from scipy.stats import laplace, norm

from skboost.strategies import GreedySearch

from ..kinds import Linear, Logistic, Poisson

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) + [3.0, 0.0]
WEIGHT = RNG.uniform(0.5, 2.0, 40)
BINARY = (X[:, 0] + RNG.logistic(size=40) > 3.0).astype(int)
CLASSES = np.digitize(X[:, 0] + RNG.normal(size=40), [2.5, 3.5])
REAL = 5.0 + 2.0 * X[:, 0] + RNG.normal(size=40)
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0]))
OFFSET = RNG.normal(scale=0.1, size=40)

FAST = {"max_iter": 2, "search": GreedySearch(64), "random_state": 0}
PLAIN = {"prior_scale": 1.0, **FAST}
CASES = {
    "binary": (
        Logistic(
            prior="laplace", temperature=0.7, class_weight="balanced", orbit=None,
            **FAST,
        ),
        (X, BINARY),
        {"sample_weight": WEIGHT},
    ),
    "classes": (Logistic(**PLAIN), (X, CLASSES), {}),
    "linear": (
        Linear(**FAST), (X, REAL), {"sample_weight": WEIGHT},
    ),
    "known noise": (
        Linear(noise_scale=1.0, **FAST), (X, REAL), {},
    ),
    "poisson": (
        Poisson(**FAST), (X, COUNTS), {"offset": OFFSET},
    ),
    "negative binomial": (
        Poisson(likelihood="negative_binomial", orbit=None, **PLAIN),
        (X, COUNTS),
        {"exposure": np.exp(OFFSET)},
    ),
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::skboost.posterior.ImportanceWarning")


@pytest.fixture(scope="module", params=CASES)
def case(request):
    model, data, more = CASES[request.param]
    fitted = pickle.loads(pickle.dumps(model)).fit(*data, **more)
    return SimpleNamespace(fitted=fitted, data=data, more=more)


def test_its_evidence_has_the_elbo_that_the_fit_reports(case):
    log_joint = case.fitted.make_log_joint(*case.data, **case.more)
    found = case.fitted.posterior_.evidence(log_joint, n=1000, random_state=0)
    error = np.hypot(found.elbo_se, case.fitted.elbo_se_)
    assert_allclose(found.elbo, case.fitted.elbo_, atol=4.0 * error + 1e-3)
    fit, error = case.fitted, np.hypot(error, case.fitted.remaining_kl_se_)
    if fit.prior_scale == 1.0:
        # Of a known scale what remains is what draws by importance say, too.
        missed = found.log_evidence - fit.elbo_ - fit.remaining_kl_
        assert abs(missed) < 4.0 * np.hypot(error, found.log_evidence_se) + 1e-3


@pytest.mark.parametrize("case", ["linear"], indirect=True)
def test_all_else_that_asks_for_a_log_joint_takes_it(case):
    log_joint = case.fitted.make_log_joint(*case.data, **case.more)
    posterior = case.fitted.posterior_
    assert posterior.importance_weights(log_joint, 500, random_state=0).khat < 1.0
    assert posterior.resample(log_joint, 20, random_state=0).draws.shape[0] == 20
    assert posterior.error_estimates(log_joint, 500, random_state=0).hellinger < 0.5


def test_it_is_that_of_the_fit_whatever_the_parameters_say_by_now(case):
    before = case.fitted.make_log_joint(*case.data, **case.more)
    theta = case.fitted.posterior_.sample(3, random_state=0)
    other = pickle.loads(pickle.dumps(case.fitted))
    other.set_params(prior="cauchy", temperature=0.1, prior_scale=7.0)
    other.set_params(intercept_scale=7.0)
    if "fit_intercept" in other.get_params():
        other.set_params(fit_intercept=False)
    after = other.make_log_joint(*case.data, **case.more)
    assert_allclose(after(theta), before(theta), rtol=1e-14)


def test_its_gradient_is_its_slope(case):
    log_joint = case.fitted.make_log_joint(*case.data, **case.more)
    theta = case.fitted.posterior_.sample(2, random_state=0)
    slope = [approx_fprime(row, log_joint, 1e-6) for row in theta]
    assert_allclose(log_joint.gradient(theta), slope, rtol=1e-3, atol=1e-2)
    assert_allclose(log_joint.gradient(theta[0]), log_joint.gradient(theta)[0])
    assert log_joint(theta[0]) == pytest.approx(log_joint(theta)[0], rel=1e-12)


def test_prior_and_likelihood_are_those_of_the_model_by_hand():
    settings = {"prior": "laplace", "prior_scale": [0.5, 2.0], "temperature": 0.5}
    fitted = Logistic(class_weight={0: 1.0, 1: 3.0}, **settings, **FAST).fit(X, BINARY)
    theta = np.array([0.3, -0.2, 0.1])
    sign = 2.0 * BINARY - 1.0
    rows = -np.log1p(np.exp(-sign * (X @ theta[:2] + theta[2])))
    scale = [0.5, 2.0, 10.0]
    # The prior of the intercept is about the centre; rows weigh as their classes do.
    weight = np.where(BINARY, 3.0, 1.0)
    centre = np.average(X, axis=0, weights=weight)
    expected = 0.5 * weight @ rows
    about = theta + [0.0, 0.0, centre @ theta[:2]]
    expected += laplace.logpdf(about, scale=scale).sum()
    assert fitted.make_log_joint(X, BINARY)(theta) == pytest.approx(expected, rel=1e-12)


def test_several_classes_have_a_softmax_and_each_its_priors():
    fitted = Logistic(**PLAIN).fit(X, CLASSES)
    theta = np.random.default_rng(1).normal(size=(3, 3))
    coef, intercept = theta[:, :2], theta[:, 2]
    rows = log_softmax(X @ coef.T + intercept, axis=1)
    at_centre = intercept + coef @ X.mean(axis=0)
    expected = rows[np.arange(40), CLASSES].sum() + norm.logpdf(coef).sum()
    expected += norm.logpdf(at_centre, scale=10.0).sum()
    found = fitted.make_log_joint(X, CLASSES)(theta.ravel())
    assert found == pytest.approx(expected, rel=1e-12)


def test_after_partial_fit_the_prior_is_that_of_the_first_call():
    first, second = slice(0, 20), slice(20, 40)
    fixed = {"noise_scale": 1.0, "prior_scale": "auto"}
    streamed = Linear(**fixed, **FAST)
    streamed.partial_fit(X[first], REAL[first]).partial_fit(X[second], REAL[second])
    scales = REAL[first].std() / X[first].std(axis=0)
    theta = np.array([2.0, 0.1, 4.0])
    eta = X @ theta[:2] + theta[2]
    intercept = np.linalg.norm([10.0 * REAL[first].std(), REAL[first].mean()])
    about = theta + [0.0, 0.0, X[first].mean(axis=0) @ theta[:2]]
    expected = norm.logpdf(REAL, eta, 1.0).sum()
    expected += norm.logpdf(about, scale=[*scales, intercept]).sum()
    found = streamed.make_log_joint(X, REAL)(theta)
    assert found == pytest.approx(expected, rel=1e-10)
