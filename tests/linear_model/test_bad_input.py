"""A clear error that names what is wrong, or a right answer; never a NaN."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
    BoostedHierarchicalLinearRegression,
)
from skboost.priors import StudentTPrior
from skboost.strategies import ResidualGain

FAST = {"max_iter": 2, "n_draws": 64, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = (X[:, 0] + RNG.standard_normal(30) > 0).astype(int)


def assert_sound(fitted, rows=X):
    """Finite everywhere, with spread in every direction."""
    posterior = fitted.posterior_
    assert np.isfinite(posterior.mean()).all()
    assert np.isfinite(posterior.covariance()).all()
    assert (posterior.std() > 0).all()
    assert np.isfinite(posterior.weights).all()
    assert np.isfinite([fitted.elbo_, fitted.elbo_se_, fitted.remaining_kl_]).all()
    p = fitted.predict_proba(rows)
    assert np.isfinite(p).all()
    assert_allclose(p.sum(axis=1), 1.0)
    for part in (*fitted.predict_latent(rows), *fitted.predict_uncertainty(rows)):
        assert np.isfinite(part).all()
    assert np.isfinite(fitted.predict_proba_interval(rows)).all()


@pytest.mark.parametrize(
    "model",
    [
        BoostedBayesianLinearRegression(prior_scale=1.0),
        BoostedBayesianLinearRegression(noise="student_t"),
        BoostedHierarchicalLinearRegression(groups=[2]),
    ],
)
def test_responses_whose_squares_overflow_are_refused(model):
    with pytest.raises(ValueError, match="y must hold numbers of 1e100 at most"):
        model.fit(np.round(X), np.full(30, -1e300))


# --- what means nothing to a classifier


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": np.zeros(30)}, "y must have at least two classes"),
        ({"y": np.full(30, "yes")}, "'yes'"),
        ({"y": np.column_stack([Y, Y])}, "y should be a 1d array"),
        ({"y": np.array(["a", 1] * 15, object)}, "y must hold labels of one type"),
        ({"y": np.array([True, 3] * 15, object)}, "y must hold labels of one type"),
        ({"prior": StudentTPrior(df=-1.0)}, "df must be"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight must be finite and not"),
        ({"class_weight": {0: np.nan, 1: 1.0}}, "class_weight must be finite"),
        ({"class_weight": {0: 0.0, 1: 0.0}}, "class_weight must .* positive weight"),
        ({"objective": ResidualGain(-1.0)}, "entropy_weight must be a finite number"),
    ],
)
def test_what_means_nothing_is_named(arguments, words):
    settings = {key: value for key, value in arguments.items() if key != "y"}
    with pytest.raises(ValueError, match=words):
        BoostedBayesianLogisticRegression(**settings).fit(X, arguments.get("y", Y))


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="y must hold counts .finite, not negative"):
        BoostedBayesianPoissonRegression().fit(X, Y - 1)


# --- data that are hard, and answered


@pytest.fixture(params=["gaussian", "laplace"])
def fit(request):
    """``fit(X, y, sample_weight=None, **settings)`` for two families."""

    def fitted(rows, y, sample_weight=None, **settings):
        own = {"prior_scale": 1.0} if request.param == "laplace" else {}
        settings = FAST | {"family": request.param} | own | settings
        return BoostedBayesianLogisticRegression(**settings).fit(rows, y, sample_weight)

    return fitted


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("value", [0.0, -1e8])
def test_constant_columns(fit, value):
    rows = X.copy()
    rows[:, 1] = value
    assert_sound(fit(rows, Y), rows)
    if value == 0.0:
        fitted = fit(rows, Y, prior_scale=1.0)
        # Nothing is learned about its coefficient: the prior is what remains.
        noise = 8 / np.sqrt(64)
        assert_allclose(fitted.posterior_.std()[1], 1.0, atol=noise)
        assert abs(fitted.coef_[0, 1]) < noise


@pytest.mark.parametrize(
    ("rows", "y", "settings"),
    [
        (RNG.standard_normal((6, 50))[:, :25], np.arange(6) % 2, {}),
        (X + 1e6, Y, {}),
        (X[:2], [0, 1], {}),
        (X, Y, {"prior_scale": 1e6}),
    ],
    ids=["25 columns", "far from the origin", "two rows", "wide prior"],
)
def test_little_to_learn_from(fit, rows, y, settings):
    assert_sound(fit(rows, y, **settings), rows)


@pytest.mark.parametrize(("rows", "n_classes"), [(X * [1e8, 1.0, 1.0], 3), (X[:12], 6)])
def test_several_classes(rows, n_classes):
    model = BoostedBayesianLogisticRegression(**FAST)
    assert_sound(model.fit(rows, np.arange(len(rows)) % n_classes), rows)


def test_a_prior_that_is_too_weak_for_separable_rows_is_named():
    rows = np.random.default_rng(0).normal(size=(40, 2))
    y = (rows[:, 0] > 0).astype(int)
    model = BoostedBayesianLogisticRegression(prior_scale=1e9, **FAST | {"max_iter": 3})
    with pytest.warns(ConvergenceWarning, match="smaller prior_scale") as caught:
        model.fit(rows, y)
    words = str(caught[0].message)
    assert "improper" not in words and "sign" not in words
    assert np.isfinite(model.predict_proba(rows)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "prior_scale"), [("normal", 1.0), ("laplace", 1e3), ("cauchy", 1.0)]
)
def test_separable_data(fit, prior, prior_scale):
    y = (X[:, 0] > 0).astype(int)
    fitted = fit(X, y, prior=prior, prior_scale=prior_scale)
    assert_sound(fitted)
    assert fitted.score(X, y) > 0.9


@pytest.mark.parametrize(("prior", "scale"), [("normal", 1e8), ("cauchy", 1e-8)])
def test_a_column_of_another_scale(fit, prior, scale):
    rows = X.copy()
    rows[:, 0] *= scale
    assert_sound(fit(rows, Y, prior=prior), rows)
    fitted = fit(rows, Y, prior=prior, prior_scale=1.0)
    assert_sound(fitted, rows)
    if scale > 1:
        # In its own unit the prior is flat: as good as any other column.
        own = fit(X, Y, prior=prior, prior_scale=[1e8, 1.0, 1.0])
        assert_allclose(fitted.coef_[0, 0] * 1e8, own.coef_[0, 0], rtol=0.1)
        assert np.mean(fitted.predict(rows) == own.predict(X)) > 0.9


def test_all_rows_alike(fit):
    fitted = fit(np.ones((10, 2)), np.arange(10) % 2)
    assert_sound(fitted, np.ones((3, 2)))
    assert_allclose(fitted.predict_proba(np.ones((1, 2))), 0.5, atol=0.1)


def test_weights_next_to_zero_leave_the_prior(fit):
    fitted = fit(X, Y, np.full(30, 1e-300), prior_scale=1.0, max_iter=1)
    assert_sound(fitted)
    noise = 8 / np.sqrt(64)
    assert_allclose(fitted.posterior_.std(), [1, 1, 1, 10], rtol=noise)


def test_large_weights_leave_a_point(fit):
    fitted = fit(X, Y, np.full(30, 1e8), max_iter=1)
    assert_sound(fitted)
    assert fitted.posterior_.std().max() < 1e-2


def test_a_class_whose_rows_weigh_nothing(fit):
    fitted = fit(X, Y, (Y == 1).astype(float))
    assert_sound(fitted)
    assert fitted.classes_.tolist() == [0, 1]
    assert (fitted.predict(X) == 1).all()


def test_a_sparse_matrix_of_zeros(fit):
    rows = sparse.csr_matrix((30, 3))
    fitted = fit(rows, Y)
    assert_sound(fitted, rows)
    assert_allclose(fitted.predict_proba(rows)[:, 1], Y.mean(), atol=0.15)


def test_the_narrowest_priors(fit):
    fitted = fit(X, Y, prior_scale=1e-6)
    assert_sound(fitted)
    assert np.abs(fitted.coef_).max() < 1e-5


# --- regressions

REAL = X @ [1.0, 0.0, -1.0] + 0.7 + 0.5 * RNG.standard_normal(30)
COUNTS = RNG.poisson(np.exp(0.6 * X[:, 0] + 0.3))
REGRESSIONS = {
    "normal": BoostedBayesianLinearRegression(**FAST),
    "student_t": BoostedBayesianLinearRegression(noise="student_t", **FAST),
    "poisson": BoostedBayesianPoissonRegression(**FAST),
}
# Rows, real responses and counts.
HARD = {
    "constant column": (np.column_stack([X, np.ones(30)]), REAL, COUNTS),
    "one row": (X[:1], REAL[:1], COUNTS[:1]),
    "perfect fit": (X, X @ [1.0, 2.0, 3.0], np.round(np.exp(X[:, 0]))),
    "constant response": (X, np.full(30, 7.0), np.zeros(30)),
    "zeros": (np.zeros((30, 2)), np.zeros(30), np.zeros(30)),
    "collinear": (np.column_stack([X, X]), REAL, COUNTS),
    "far from the origin": (X + 1e6, REAL, None),
    "far": (X + 1e4, REAL, COUNTS),
    "fewer rows than columns": (RNG.normal(size=(6, 12)), REAL[:6], COUNTS[:6]),
    "large responses": (X, np.where(np.arange(30) == 3, 1e6, REAL), 10**6 * COUNTS),
}


@pytest.mark.parametrize(
    "kind", ["normal", pytest.param("student_t", marks=pytest.mark.slow), "poisson"]
)
@pytest.mark.parametrize("name", HARD)
def test_hard_data_get_a_sound_answer(kind, name):
    rows, real, counts = HARD[name]
    y, fitted = counts if kind == "poisson" else real, REGRESSIONS[kind]
    if y is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        ends = fitted.fit(rows, y).predict_interval(rows)
        density, mean = fitted.log_predictive_density(rows, y), fitted.predict(rows)
    assert np.isfinite(fitted.posterior_.covariance()).all()
    assert (fitted.posterior_.std() > 0).all()
    assert all(np.isfinite(found).all() for found in (ends, density, mean))
    if kind == "poisson":
        assert (density <= 1e-9).all()
    else:
        assert (ends[:, 0] < ends[:, 1]).all()
        # The prior bounds the noise from below.
        assert fitted.noise_scale_ > 1e-4 * max(np.std(y), 1e-2)
