"""A clear error that names what is wrong, or a right answer; never a NaN."""

import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skboost.priors import HalfTPrior, StudentTPrior
from skboost.strategies import GreedySearch, ResidualGain

from ..kinds import GroupedLinear, Linear, Logistic, Poisson

FAST = {"max_iter": 2, "search": GreedySearch(64), "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = (X[:, 0] + RNG.standard_normal(30) > 0).astype(int)


@pytest.mark.parametrize(
    ("kind", "params", "y", "words"),
    [
        *(
            (kind, params, np.full(30, -1e300), "y must hold numbers of 1e100 at most")
            for kind, params in (
                (Linear, {"prior_scale": 1.0}),
                (Linear, {"noise": "student_t"}),
                (GroupedLinear, {"groups": [2]}),
            )
        ),
        (Poisson, {}, Y - 1, "counts .finite, not negative"),
        (Logistic, {}, np.zeros(30), "y must have at least two classes"),
        (Logistic, {}, np.full(30, "yes"), "'yes'"),
        (Logistic, {}, np.array(["a", 1] * 15, object), "y must hold labels of one ty"),
        (Logistic, {}, np.array([True, 3] * 15, object), "y must hold labels of one t"),
        (Logistic, {"prior": StudentTPrior(df=-1.0)}, Y, "df must be"),
        (Logistic, {"prior_scale": "learned"}, Y, "prior_scale"),
        (Logistic, {"prior_scale": HalfTPrior(df=-1)}, Y, "df of HalfTPrior must be a"),
        (Logistic, {"class_weight": {0: -1.0, 1: 1.0}}, Y, "class_weight must be fini"),
        (Logistic, {"class_weight": {0: np.nan, 1: 1.0}}, Y, "class_weight must be fi"),
        (Logistic, {"class_weight": {0: 0.0, 1: 0.0}}, Y, "class_weight.*positive wei"),
        (Logistic, {"objective": ResidualGain(-1.0)}, Y, "entropy_weight must be a fi"),
    ],
)
def test_what_means_nothing_is_named(kind, params, y, words):
    with pytest.raises(ValueError, match=words):
        kind(**params).fit(np.round(X), y)


def moved(column, by, scale=1.0):
    rows = X.copy()
    rows[:, column] = scale * rows[:, column] + by
    return rows


NOISE = 8 / np.sqrt(64)
NULL = moved(1, 0.0, 0.0)
FIXED = {"prior_scale": 1.0}
ONES = np.ones(30)


def nothing_is_learned(fitted):
    """About the second coefficient: the prior is what remains."""
    assert_allclose(fitted.posterior_.std()[1], 1.0, atol=NOISE)
    assert abs(fitted.coef_[0, 1]) < NOISE


def as_in_its_own_unit(fitted):
    """There the prior is flat: the column is as good as any other."""
    own = clone(fitted).set_params(prior_scale=[1e8, 1.0, 1.0]).fit(X, Y)
    assert_allclose(fitted.coef_[0, 0] * 1e8, own.coef_[0, 0], rtol=0.1)
    assert np.mean(fitted.predict(moved(0, 0.0, 1e8)) == own.predict(X)) > 0.9


def near_the_share(fitted):
    found = fitted.predict_proba(np.zeros((1, 3)))[:, 1]
    assert_allclose(found, Y.mean(), atol=0.15)


def one_class(fitted):
    assert fitted.classes_.tolist() == [0, 1] and (fitted.predict(X) == 1).all()


# Rows, labels, weights, settings, what else is to hold, and whether searches of other
# families meet another difficulty in them than closed forms do.
CLASSES = {
    "a column of zeros": (NULL, Y, ONES, FIXED, nothing_is_learned, True),
    "a constant column": (moved(1, -1e8, 0.0), Y, ONES, {}, None, False),
    "12 columns": (RNG.normal(size=(4, 12)), np.arange(4) % 2, ONES[:4], {}, None, 0),
    "two rows": (X[:2], [0, 1], ONES[:2], {}, None, False),
    "three classes": (moved(0, 0.0, 1e8), np.arange(30) % 3, ONES, {}, None, False),
    "a row of each class": (X[:3], np.arange(3), ONES[:3], {}, None, False),
    "a wide column": (moved(0, 0.0, 1e8), Y, ONES, FIXED, as_in_its_own_unit, True),
    "a wide column, learned": (moved(0, 0.0, 1e8), Y, ONES, {}, None, False),
    "a narrow column": (
        moved(0, 0.0, 1e-8), Y, ONES, FIXED | {"prior": "cauchy"}, None, True,
    ),
    "weights next to zero": (
        X, Y, np.full(30, 1e-300), FIXED,
        lambda f: assert_allclose(f.posterior_.std(), [1, 1, 1, 10], rtol=NOISE), True,
    ),
    "large weights": (
        X, Y, np.full(30, 1e8), {}, lambda f: f.posterior_.std().max() < 1e-2, False
    ),
    "one class weighs": (X, Y, (Y == 1) * 1.0, {}, one_class, False),
    "all rows alike": (np.ones((30, 3)), Y, ONES, {}, near_the_share, False),
    "sparse zeros": (sparse.csr_matrix((30, 3)), Y, ONES, {}, near_the_share, False),
    "narrow prior": (
        X, Y, ONES, {"prior_scale": 1e-6}, lambda f: np.abs(f.coef_).max() < 1e-5, True
    ),
}  # fmt: skip
# Rows that are few, wide or alike in ways that another of these has.
LIKE_OTHERS = (
    "two rows", "a row of each class", "a wide column, learned", "all rows alike",
    "a constant column", "12 columns",
)  # fmt: skip
LIKE_ZEROS = "a column of zeros", "a narrow column"


@pytest.mark.parametrize(
    ("name", "family"),
    [
        pytest.param(name, family, marks=[pytest.mark.slow] * (name in slow))
        for family, slow in (("gaussian", LIKE_OTHERS), ("laplace", LIKE_ZEROS))
        for name, case in CLASSES.items()
        if family == "gaussian" or case[-1]
    ],
)
def test_hard_classes_get_a_sound_answer(name, family):
    """Finite everywhere, with spread in every direction."""
    rows, y, weight, settings, more, _ = CLASSES[name]
    own = FIXED if family == "laplace" else {}
    fitted = Logistic(**FAST | {"family": family} | own | settings)
    posterior = fitted.fit(rows, y, weight).posterior_
    numbers = [fitted.elbo_, fitted.elbo_se_, fitted.remaining_kl_]
    p = fitted.predict_proba(rows)
    assert_allclose(p.sum(axis=1), 1.0)
    assert (posterior.std() > 0).all()
    for part in (
        posterior.mean(), posterior.covariance(), posterior.weights, numbers,
        *fitted.predict_latent(rows), *fitted.predict_uncertainty(rows),
        fitted.predict_proba_interval(rows),
    ):  # fmt: skip
        assert np.isfinite(part).all()
    if more is not None:
        assert more(fitted) in (None, True)


@pytest.mark.parametrize("n_draws", [2, 5])
def test_very_few_draws(n_draws):
    model = Logistic(**FAST | FIXED | {"search": GreedySearch(n_draws)})
    assert np.isfinite(model.fit(X, Y).posterior_.mean()).all()


def test_a_prior_that_is_too_weak_for_separable_rows_is_named():
    rows = np.random.default_rng(0).normal(size=(40, 2))
    y = (rows[:, 0] > 0).astype(int)
    model = Logistic(prior_scale=1e9, **FAST | {"max_iter": 3})
    with pytest.warns(ConvergenceWarning, match="smaller prior_scale") as caught:
        model.fit(rows, y)
    words = str(caught[0].message)
    assert "improper" not in words and "sign" not in words
    assert np.isfinite(model.predict_proba(rows)).all()


def test_what_remains_of_separable_rows_of_many_columns_is_said():
    """Third derivatives at the mean see less than a nat of it: predictors are wide."""
    rows = np.random.default_rng(1).normal(size=(150, 50))
    with pytest.warns(ConvergenceWarning, match="nats of KL remain"):
        model = Logistic(prior="normal", orbit=None, random_state=0)
        model.fit(rows, rows[:, 0] > 0)
    assert model.remaining_kl_ > 0.5


REAL = X @ [1.0, 0.0, -1.0] + 0.7 + 0.5 * RNG.standard_normal(30)
COUNTS = RNG.poisson(np.exp(0.6 * X[:, 0] + 0.3))
REGRESSIONS = {
    "normal": Linear(**FAST),
    "student_t": Linear(noise="student_t", **FAST),
    "poisson": Poisson(**FAST),
    "negative binomial": Poisson(
        likelihood="negative_binomial", **FAST | {"search": GreedySearch(32)}
    ),
}
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


# Of those that another has in common with these, the slow tests fit the rest.
AT_ONCE = {
    "normal": (
        "constant column", "perfect fit", "constant response", "collinear",
        "far from the origin", "far", "fewer rows than columns",
    ),
    "poisson": (
        "one row", "constant response", "fewer rows than columns", "large responses",
    ),
    "negative binomial": ("far",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(
            kind, name, marks=[pytest.mark.slow] * (name not in AT_ONCE.get(kind, ()))
        )
        for kind, name in product(REGRESSIONS, HARD)
        if kind in ("normal", "student_t") or HARD[name][2] is not None
    ],
)
def test_hard_data_get_a_sound_answer(kind, name):
    rows, real, counts = HARD[name]
    y, fitted = real if kind in ("normal", "student_t") else counts, REGRESSIONS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        ends = fitted.fit(rows, y).predict_interval(rows)
        density, mean = fitted.log_predictive_density(rows, y), fitted.predict(rows)
    assert np.isfinite(fitted.posterior_.covariance()).all()
    assert (fitted.posterior_.std() > 0).all()
    assert all(np.isfinite(found).all() for found in (ends, density, mean))
    if y is counts:
        assert (density <= 1e-9).all()
        assert kind == "poisson" or 0.0 < fitted.dispersion_ < np.inf
    else:
        assert (ends[:, 0] < ends[:, 1]).all()
        # The prior bounds the noise from below.
        assert fitted.noise_scale_ > 1e-4 * max(np.std(y), 1e-2)
