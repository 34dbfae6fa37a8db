"""What users are told: the cause first, in names that they know."""

import inspect
import warnings
from functools import partial
from math import fsum
from time import sleep

import autograd.numpy as anp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils._param_validation import InvalidParameterError, make_constraint

import skboost
from skboost import (
    BoostedGaussianMixture,
    BoostedMatrixFactorization,
    EvidenceSearch,
    SVIGaussianMixture,
    SVILatentDirichletAllocation,
    SVIMatrixFactorization,
    boost_posterior,
)
from skboost.decomposition import RatingRegressor
from skboost.inspection import ConvergenceDisplay, PosteriorDisplay
from skboost.strategies import GreedySearch, ResidualGain

from .kinds import (
    GroupedLinear,
    Linear,
    Logistic,
    OnlineLinear,
    OnlineLogistic,
    Poisson,
)

X = np.random.default_rng(0).normal(size=(30, 2))
LABELS = (X[:, 0] > 0).astype(int)
FAST = {"max_iter": 1, "search": GreedySearch(64), "random_state": 0}


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
    monkeypatch.setattr("skboost._posterior_api._LONG", 0.0)

    def point(theta):
        return -0.5 * anp.sum(theta**2)

    with pytest.warns(UserWarning, match="times faster") as caught:
        boost_posterior(point, 2, **FAST)
    assert len(caught) == 1 and caught[0].filename == __file__
    few = FAST | {"init": "single", "orbit": None}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        boost_posterior(point, 2, vectorized=False, **few)
        boost_posterior(normal, 2, **few)


def test_a_slow_density_says_before_its_first_iteration_what_one_takes(monkeypatch):
    monkeypatch.setattr("skboost._posterior_api._LONG", 0.1)
    points = []

    def slow(theta):
        points.append(theta)
        sleep(3.5e-3)
        return -0.5 * anp.sum(theta**2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=r"at least \d+ points"):
            boost_posterior(slow, 2, **FAST)
    # The long request that was coming had not begun.
    assert len(points) < 100


def message_of(density, **settings):
    """The only message of a run on a density that is not one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="log_density") as caught:
            boost_posterior(density, 2, **FAST | settings)
    return str(caught.value)


@pytest.mark.parametrize("by_rows", [False, True])
def test_a_density_that_autograd_can_not_read_is_asked_for_a_gradient(by_rows):
    def row(theta):
        return -fsum(float(x) ** 2 for x in theta)

    density = (lambda theta: np.array([row(r) for r in theta])) if by_rows else row
    said = message_of(density)
    assert "gradient=" in said and "Pass as x0" not in said


@pytest.mark.parametrize("settings", [{}, {"x0": [[1.0, 1.0], [2.0, 1.0]]}])
def test_a_density_outside_its_support_is_told_of_constraints(settings):
    said = message_of(lambda t: anp.sum(anp.log(t) - t, axis=1), **settings)
    assert "failures='zero'" in said and "constraints=" in said
    everywhere = message_of(lambda t: anp.nan * t[:, 0], **settings)
    assert ("all 2 starting points" in everywhere) == ("x0" in settings)


@pytest.mark.parametrize("schedule", [lambda: 1.0, lambda t: 1.0 / (t - 1)])
def test_an_entropy_weight_that_is_no_function_of_the_step(schedule):
    with pytest.raises(ValueError, match="function of the step t = 1, 2, .* at t = 1"):
        boost_posterior(normal, 2, objective=ResidualGain(schedule), **FAST)
    with pytest.raises(ValueError, match="function of the step"):
        ResidualGain(schedule).weight_at(1)


@pytest.mark.parametrize(
    ("call", "name", "advice"),
    [
        (Logistic, "C", "prior_scale"),
        (Logistic, "penalty", "prior:"),
        (Logistic, "alpha", "scale"),
        # What was probably meant.
        (Logistic, "prior_sale", "mean 'prior_scale'?"),
        (SVIGaussianMixture, "n_component", "mean 'n_components'?"),
        (OnlineLinear, "forgeting", "mean 'forgetting'?"),
        (partial(boost_posterior, normal, 2), "constraint", "mean 'constraints'?"),
        (partial(boost_posterior, normal, 2), "xyz", "no parameter 'xyz'."),
    ],
)
def test_a_parameter_that_is_not_there_names_ours(call, name, advice):
    with pytest.raises(TypeError, match=f"no parameter '{name}'") as caught:
        call(**{name: 1.0})
    assert advice in str(caught.value)


# --- names that users can import

ESTIMATORS = [
    getattr(skboost, name)
    for name in skboost.__all__
    if hasattr(getattr(skboost, name), "_parameter_constraints")
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_parameter_has_constraints_that_name_no_private_module(estimator):
    known = set(inspect.signature(estimator).parameters)
    assert known <= set(estimator._parameter_constraints)
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
        Logistic(**{parameter: "other"}).fit(X, LABELS)


# --- estimators

# Values of parameters that mean nothing, of every estimator in turn.
MEANINGLESS = {
    SVIGaussianMixture(): {
        "covariance_type": "ful", "effective_batch_size": 0, "temperature": 1.5,
        "learning_rate": 2.0,
    },
    BoostedGaussianMixture(): {
        "covariance_type": "round", "n_components": 0, "mean_prior_type": "tied",
        "weight_concentration_prior": 0.0, "init_params": "kmean", "temperature": 0.0,
        "corrective": "all",
    },
    SVIMatrixFactorization(): {
        "noise_scale": ("inferr", -1.0), "prior_scale": 0.0, "n_components": 0,
        "dtype": "float16", "learning_rate": 1.5, "biases": "yes",
    },
    BoostedMatrixFactorization(): {
        "proposal": "gradients", "noise_scale": "auto", "n_draws": 1,
    },
    SVILatentDirichletAllocation(): {
        "n_components": 0, "init_params": "k-means", "learning_rate": ("fast", 1.5),
        "doc_topic_prior": 0.0, "tol": -1.0, "total_samples": -3,
        "effective_batch_size": 0,
    },
    EvidenceSearch(Logistic(), {"prior_scale": [1.0]}): {
        "refit": "elbo", "error_score": "ignore", "n_jobs": 1.5,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (model, name, value)
        for model, values in MEANINGLESS.items()
        for name, given in values.items()
        for value in (given if isinstance(given, tuple) else (given,))
    ],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_a_value_that_means_nothing_names_its_parameter(model, name, value):
    with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter of"):
        clone(model).set_params(**{name: value}).fit(np.abs(X), LABELS)


def test_a_stream_that_begins_with_few_rows_is_told_so():
    model, y = OnlineLinear(), X[:, 0]
    with pytest.warns(UserWarning, match="than coefficients .2 for 3.") as caught:
        model.partial_fit(X[:2], y[:2])
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X[2:3], y[2:3])
        OnlineLinear().partial_fit(X[:3], y[:3])
        OnlineLinear(noise_scale=1.0).partial_fit(X[:1], y[:1])


def goes_on_with_other_entries():
    table = X @ X.T
    model = SVIMatrixFactorization(2, warm_start=True, max_iter=5, random_state=0)
    model.fit(table).fit(table.copy())
    other = table.copy()
    other[0, [0, 1]] = other[0, [1, 0]]
    return model, other, None


FEW = np.random.default_rng(0).normal(size=(12, 10))
FAR_OFF = {"family": "gaussian-diag", "prior_scale": 1.0, "tol": 0.01, **FAST}
SIX_ROWS = np.repeat(X[:3], 2, axis=0)
WARNINGS = {
    "goes on with other entries": goes_on_with_other_entries,
    "above the number of distinct rows, 3": lambda: (
        SVIGaussianMixture(4, max_iter=1), SIX_ROWS, None
    ),
    "most clusters stay empty": lambda: (
        BoostedGaussianMixture(4, max_iter=1), SIX_ROWS, None
    ),
    "raise max_iter": lambda: (
        Logistic(**FAR_OFF), FEW @ FEW.T, np.arange(12) % 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", WARNINGS)
def test_warnings_name_the_line_that_called(words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, rows, y = WARNINGS[words]()
    with pytest.warns(UserWarning, match=words) as caught:
        model.fit(rows, y)
    assert caught[0].filename == __file__


def test_a_warm_start_says_which_number_of_parameters_is_which():
    model = Logistic(warm_start=True, **FAST)
    model.fit(X[:, :1], LABELS)
    with pytest.raises(ValueError, match="was 2 in the last fit, and is 3 now"):
        model.fit(X, LABELS)


def test_tables_of_positions_are_refused():
    model = SVIMatrixFactorization(2, max_iter=2, random_state=0).fit(X @ X.T)
    rows, columns = np.array([[0, 1], [2, 3]]), np.array([[4, 5], [6, 7]])
    with pytest.raises(ValueError, match=r"rows must be one position or a list .*2, 2"):
        model.predict_entries(rows, columns)
    found = model.predict_entries(rows.ravel(), columns.ravel())
    assert found.shape == (4,) and model.predict_entries(0, 4).shape == (1,)


FAR = X + [0.0, 1e8]
WIDE = np.column_stack([X[:, 0] * 1e200, LABELS])
GAP, INFINITE = (
    np.column_stack([LABELS, np.where(np.arange(30) == 4, value, X[:, 0])])
    for value in (np.nan, np.inf)
)
MODELS = {
    Logistic(**FAST): LABELS,
    Linear(**FAST): X[:, 0],
    Poisson(**FAST): LABELS,
    GroupedLinear(groups=[1]): X[:, 0],
    OnlineLogistic(): LABELS,
    OnlineLinear(): X[:, 0],
}
HIERARCHICAL = GroupedLinear
FIRST, TOPICS = HIERARCHICAL(groups=[0]), SVILatentDirichletAllocation(2)
RATINGS = np.array([["ann", "jaws", 5], ["bob", "jaws", 2]], dtype=object)
# Data that mean nothing to a model, and what it says of them.
BAD_DATA = [
    *((m, FAR, y, "'x1' .*Centre") for m, y in [*MODELS.items()][:3]),
    *((m, WIDE, y, "'x0' overflow") for m, y in MODELS.items()),
    (TOPICS, np.abs(X) * 1e200, None, "at most 1e100"),
    (TOPICS, [["a b"], ["c"]], None, "CountVectorizer"),
    (FIRST, GAP, X[:, 1], "NaN in column 'x1', row 4"),
    (FIRST, INFINITE, X[:, 1], "infinity in column 'x1', row 4"),
    (SVIMatrixFactorization(2), RATINGS, None, "RatingRegressor"),
]


@pytest.mark.parametrize(("model", "table", "y", "words"), BAD_DATA)
def test_data_that_mean_nothing_are_told_why(model, table, y, words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=words):
            model.fit(table, y)


def test_a_column_that_is_constant_far_from_zero_is_no_error():
    constant = np.column_stack([X[:, 0], np.full(len(X), 1e8)])
    for model in list(MODELS)[:3]:
        model.fit(constant, MODELS[model])


def test_pairs_whose_columns_changed_places_are_refused():
    pairs = pd.DataFrame({"user": ["a", "a", "b"], "item": ["x", "y", "x"]})
    model = RatingRegressor(SVIMatrixFactorization(1, max_iter=2, random_state=0))
    model.fit(pairs, [5.0, 4.0, 2.0]).predict(pairs)
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(pairs[["item", "user"]])


# --- displays


@pytest.mark.parametrize("display", [ConvergenceDisplay, PosteriorDisplay])
def test_displays_tell_what_they_need(display):
    foreign = LogisticRegression()
    with pytest.raises(NotFittedError):
        display.from_estimator(foreign)
    with pytest.raises(TypeError, match="LogisticRegression"):
        display.from_estimator(foreign.fit(X, LABELS))
    result = boost_posterior(normal, 2, **FAST)
    with pytest.raises(TypeError, match="from_result"):
        display.from_estimator(result)
