"""What users are told: the cause first, in names that they know."""

import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import make_constraint

import skboost
from skboost import BoostedBayesianLogisticRegression, _posterior_api, boost_posterior
from skboost.strategies import ResidualGain

X = np.random.default_rng(0).normal(size=(30, 2))
LABELS = (X[:, 0] > 0).astype(int)
FAST = {"max_iter": 1, "n_draws": 64, "random_state": 0}


def normal(theta):
    return -0.5 * anp.sum(theta**2, axis=1)


# --- any log density


def test_a_wrong_sign_gives_one_warning_that_says_so():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        boost_posterior(lambda theta: -normal(theta), 2, random_state=0)
    (warning,) = caught
    assert warning.category is ConvergenceWarning
    assert "Check the sign of the log density" in str(warning.message)


def test_a_density_of_one_point_is_told_what_a_batch_would_gain(monkeypatch):
    monkeypatch.setattr(_posterior_api, "_LONG", 0.0)

    def point(theta):
        return -0.5 * anp.sum(theta**2)

    with pytest.warns(UserWarning, match=r"about \d+ times faster") as caught:
        boost_posterior(point, 2, **FAST)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        boost_posterior(point, 2, vectorized=False, **FAST)
        boost_posterior(normal, 2, **FAST)


@pytest.mark.parametrize("schedule", [lambda: 1.0, lambda t: 1.0 / (t - 1)])
def test_an_entropy_weight_that_is_no_function_of_the_step(schedule):
    settings = {"objective": "relbo", "entropy_weight": schedule} | FAST
    with pytest.raises(ValueError, match="function of the step t = 1, 2, .* at t = 1"):
        boost_posterior(normal, 2, **settings)
    with pytest.raises(ValueError, match="function of the step"):
        ResidualGain(schedule).weight_at(1)


def test_evaluations_are_a_whole_number():
    with pytest.raises(ValueError, match="'max_evaluations' .* must be an int"):
        boost_posterior(normal, 2, max_evaluations=10.5)


# --- names that users can import

ESTIMATORS = [
    getattr(skboost, name)
    for name in skboost.__all__
    if hasattr(getattr(skboost, name), "_parameter_constraints")
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_constraints_of_parameters_name_no_private_module(estimator):
    for name, constraints in estimator._parameter_constraints.items():
        if not isinstance(constraints, str):
            shown = [str(make_constraint(one)) for one in constraints]
            assert not any("._" in text for text in shown), (name, shown)


@pytest.mark.parametrize(
    ("parameter", "home"),
    [
        ("family", "skboost.families.VariationalFamily"),
        ("objective", "skboost.strategies.Objective"),
        ("step_size", "skboost.strategies.StepSize"),
        ("prior", "skboost.priors.Prior"),
    ],
)
def test_errors_name_the_public_home_of_a_class(parameter, home):
    module, name = home.rsplit(".", 1)
    assert hasattr(__import__(module, fromlist=[name]), name)
    with pytest.raises(ValueError, match=f"an instance of '{home}'"):
        BoostedBayesianLogisticRegression(**{parameter: "other"}).fit(X, LABELS)
