"""What every generalised linear model promises, with groups, in streams and without.

What it promises as a boosted model is in tests/test_contract.py.
"""

import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.exceptions import NotFittedError

import skboost

from ..cases import FLAT, HIERARCHICAL, LINEAR, ONLINE, X, each, fitted
from .conftest import written

# Second likelihoods of a class, and a second way of a stream.
VARIANTS = (
    "student_t", "negative binomial", "groups, classes", "groups, negative binomial",
    "online, three",
)  # fmt: skip
every = each(LINEAR, slow=VARIANTS)
# Rows and priors are read in one place: these are read as others are.
READ_ALIKE = (*VARIANTS, "three classes", "groups, ordered")
flat = each(FLAT | ONLINE, slow=(*VARIANTS, "three classes"))
each_reader = each(LINEAR, slow=READ_ALIKE)
WITH_INTERCEPTS = (*READ_ALIKE, "groups, poisson")

# What posteriors hold behind coefficients and intercept.
MORE = {
    "normal": ["log_noise_scale"],
    "student_t": ["log_noise_scale"],
    "negative binomial": ["log_dispersion"],
    "groups, normal": ["sd(x2)", "noise_scale"],
    "groups, ordered": ["sd(x2)", "gap_1"],
    "groups, classes": ["sd(x2)"],
    "groups, poisson": ["sd(x2)"],
    "groups, negative binomial": ["sd(x2)", "dispersion"],
}


def features(name):
    return ["x0", "x1"] if name in HIERARCHICAL else ["x0", "x1", "x2"]


def names_of(name, features, intercept=("intercept",)):
    if "three" in name:
        return [f"{k}: {each}" for k in range(3) for each in (*features, *intercept)]
    return [*features, *intercept, *MORE.get(name, [])]


# --- coefficients


@every
def test_coefficients_and_their_posterior(name):
    for fit_intercept in (True,) if name in WITH_INTERCEPTS else (True, False):
        without = {} if fit_intercept else {"fit_intercept": False}
        model = fitted(name, **without, max_iter=1)
        intercept = ["intercept"] if fit_intercept else []
        names = names_of(name, features(name), intercept)
        assert list(model.posterior_.names) == names
        n_classes, shape = 3 if "three" in name else 1, (len(features(name)),)
        by_class = "classes" in name or "three" in name
        rows = (n_classes, *shape) if by_class and name not in HIERARCHICAL else shape
        assert model.coef_.shape == rows
        assert np.shape(model.intercept_) == rows[:-1]
        assert fit_intercept == np.any(model.intercept_)
        assert model.coef_interval(0.8).shape == (*rows, 2)
        if name in HIERARCHICAL:
            continue
        # Without orbits, as predictions are.
        mean = model.posterior_.mixture.mean()[: n_classes * (shape[0] + fit_intercept)]
        mean = mean.reshape(n_classes, -1)
        assert_allclose(mean[:, : shape[0]], np.reshape(model.coef_, (n_classes, -1)))
        if fit_intercept:
            assert_allclose(mean[:, -1], np.ravel(model.intercept_))


def drawn(model, n, seed):
    """Draws of coefficients and intercepts."""
    coef, intercept = model.sample_posterior(n, random_state=seed)[:2]
    if hasattr(model, "thresholds_"):
        intercept = -intercept[:, 0]
    return coef, intercept


@every
def test_draws_have_their_shapes_moments_and_intervals(name):
    model = fitted(name, max_iter=1)
    coef, intercept = drawn(model, 8000, 5)
    shape = (8000, 3) if "three" in name else (8000,)
    assert coef.shape == (*shape, len(features(name))) and intercept.shape == shape
    ends = model.coef_interval(0.8).reshape(*coef.shape[1:], 2)
    inside = (coef > ends[..., 0]) & (coef < ends[..., 1])
    # Those of models with groups are taken from so many pairs.
    n = 512 if name in HIERARCHICAL else 8000
    assert_allclose(inside.mean(axis=0), 0.8, atol=5.0 * 0.4 / np.sqrt(n))
    shift = coef.mean(axis=0) - np.reshape(model.coef_, coef.shape[1:])
    # Orbits move means a little.
    assert (np.abs(shift) < 0.5 * coef.std(axis=0)).all()
    again, _ = drawn(model, 10, 3)
    assert_array_equal(again, drawn(model, 10, 3)[0])
    for n in (0, -1, 2.5):
        with pytest.raises(ValueError, match="n must be a positive integer"):
            model.sample_posterior(n)


@each_reader
def test_levels_are_probabilities(name):
    model, case = fitted(name), LINEAR[name]
    ask = getattr(
        model,
        "predict_proba_interval" if hasattr(model, "classes_") else "predict_interval",
    )
    for interval in (model.coef_interval, lambda level: ask(case.X[:3], level)):
        narrow, wide = interval(0.5), interval(0.9)
        assert (wide[..., 0] <= narrow[..., 0]).all()
        assert (narrow[..., 1] <= wide[..., 1]).all()
        for level in (0.0, 1.0, -0.5, 90, np.nan):
            with pytest.raises(ValueError, match="level"):
                interval(level)


# --- predictions

ANSWERS = (
    "predict", "predict_interval", "predict_quantiles", "predict_latent",
    "predict_proba", "predict_log_proba", "decision_function",
    "predict_proba_interval", "predict_uncertainty",
)  # fmt: skip


@every
def test_answers_agree_with_one_another(name):
    model, case = fitted(name), LINEAR[name]
    answer = case.answer(model)
    if hasattr(model, "classes_"):
        assert_array_equal(model.classes_, np.unique(case.y))
        assert_allclose(answer.sum(axis=1), 1.0, rtol=1e-12)
        labels = model.predict(case.X)
        assert_array_equal(labels, model.classes_[answer.argmax(axis=1)])
        assert model.score(case.X, case.y) == np.mean(labels == case.y)
        density = model.log_predictive_density(case.X, case.y)
        observed = answer[np.arange(48), np.searchsorted(model.classes_, case.y)]
        assert_allclose(density, np.log(observed), rtol=1e-6)
        return
    mean, std = model.predict(case.X, return_std=True, **case.offset)
    assert_array_equal(mean, answer)
    assert (std > 0).all()
    ends = model.predict_interval(case.X, 0.9, **case.offset)
    quantiles = model.predict_quantiles(case.X, [0.05, 0.95], **case.offset)
    assert_allclose(ends, quantiles)
    assert (ends[:, 0] < ends[:, 1]).all()
    density = model.log_predictive_density(case.X, case.y, **case.offset)
    assert density.shape == case.y.shape and np.isfinite(density).all()
    assert model.score(case.X, case.y, **case.offset) > 0.0


@every
def test_unfitted_models_say_so(name):
    model, case = LINEAR[name].new(), LINEAR[name]
    for method in ("sample_posterior", "coef_interval"):
        with pytest.raises(NotFittedError):
            getattr(model, method)()
    for method in ANSWERS:
        if hasattr(model, method):
            with pytest.raises(NotFittedError):
                getattr(model, method)(case.X)


@every
def test_what_was_fitted_answers_whatever_the_parameters_say_by_now(name):
    model, case = pickle.loads(pickle.dumps(fitted(name))), LINEAR[name]
    changed = {
        "likelihood": "poisson", "noise": "normal", "noise_scale": 3.0, "groups": None,
        "fit_intercept": False, "prior": "cauchy", "prior_scale": 9.0,
    }  # fmt: skip
    known = model.get_params()
    model.set_params(**{key: value for key, value in changed.items() if key in known})
    assert_array_equal(case.answer(model), case.answer(fitted(name)))
    assert_allclose(model.coef_interval(), fitted(name).coef_interval())


# --- rows


@flat
def test_sparse_rows_are_dense_rows(name):
    case, dense = LINEAR[name], fitted(name, max_iter=1)
    assert np.mean(X == 0.0) > 0.1
    model = case.new(max_iter=1).fit(**case.data() | {"X": sparse.coo_array(X)})
    shift = np.abs(model.posterior_.mean() - dense.posterior_.mean())
    # Rounding differs, and is amplified by searches.
    assert (shift < 1e-6 * dense.posterior_.std()).all()
    assert_allclose(case.answer(model), case.answer(dense), rtol=1e-6, atol=1e-9)
    model, rows = fitted(name), sparse.csr_matrix(X)
    for method in ANSWERS:
        if hasattr(model, method):
            found, expected = (getattr(model, method)(each) for each in (rows, X))
            if method == "predict" and hasattr(model, "classes_"):
                assert_array_equal(found, expected)
            else:
                assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@each(FLAT | ONLINE, slow=READ_ALIKE)
def test_booleans_and_single_precision_are_numbers(name):
    case, rows = LINEAR[name], (X > 0).astype(float)
    expected = case.new(max_iter=1).fit(**case.data() | {"X": rows})
    for kind in (bool, np.float32):
        model = case.new(max_iter=1).fit(**case.data() | {"X": rows.astype(kind)})
        found = case.answer(model, rows.astype(kind))
        assert_array_equal(found, case.answer(expected, rows))


# --- names


@each_reader
def test_data_frames_give_their_names(name):
    case = LINEAR[name]
    columns = ["age", "dose", "place"]
    frame = pd.DataFrame(case.X, columns=columns)
    model = case.new(max_iter=1)
    if name in HIERARCHICAL:
        model.set_params(groups=["place"])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*feature names")
        model.fit(**case.data() | {"X": frame, "y": pd.Series(case.y)})
        answer = case.answer(model, frame)
    assert model.feature_names_in_.tolist() == columns
    own = columns[: len(features(name))]
    names = [text.replace("x2", "place") for text in names_of(name, own)]
    assert list(model.posterior_.names) == names
    assert model.posterior_.summary().shape[0] == len(names)
    # Where rows lie in memory may change the last bit of a sum.
    expected = case.answer(fitted(name, max_iter=1))
    assert_allclose(answer, expected, rtol=1e-9)
    with pytest.warns(UserWarning, match="feature names"):
        assert_allclose(case.answer(model, case.X), answer, rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["dose", "age", "place"]])


@every
def test_names_that_were_set_last_until_the_next_fit(name):
    case = LINEAR[name]
    model = pickle.loads(pickle.dumps(fitted(name, max_iter=1)))
    with pytest.raises(ValueError, match="each feature, shape .3,.; got shape"):
        model.set_feature_names(["a", "b", "c", "intercept"])
    names = ["a", "b", "c"]
    model.set_feature_names(names)
    own = names[: len(features(name))]
    assert list(model.posterior_.names)[:2] == names_of(name, own)[:2]
    if "partial_fit" in dir(model):
        model.partial_fit(**case.data())
        assert list(model.posterior_.names)[:2] == names_of(name, own)[:2]
    if name in ("two classes", "groups, normal", "online, normal"):
        model.fit(**case.data())
        assert list(model.posterior_.names) == names_of(name, features(name))


# --- files


@every
def test_exported_files_predict_the_same(name, tmp_path):
    model, case = fitted(name), LINEAR[name]
    model.export(tmp_path / "exported.py")
    module = written(tmp_path / "exported.py")
    method = "predict_proba" if hasattr(model, "classes_") else "predict"
    found = getattr(module, method)(case.X)
    assert_array_equal(found, getattr(model, method)(case.X))
    if "offset" in case.offset:
        assert_array_equal(module.predict(case.X, **case.offset), case.answer(model))
        with pytest.raises(ValueError, match="offset"):
            module.predict(case.X, offset=case.offset["offset"][1:])
    if hasattr(model, "classes_"):
        assert_array_equal(module.predict(case.X), model.predict(case.X))
    else:
        expected = model.predict(case.X, return_std=True)
        assert_allclose(module.predict(case.X, return_std=True), expected)


ELSEWHERE = """
import pickle, sys
from pathlib import Path
for path in Path(sys.argv[1]).glob("*.pkl"):
    model, X, offset = pickle.loads(path.read_bytes())
    answer = getattr(model, "predict_proba", model.predict)(X, **offset)
    drawn = model.posterior_.sample(5, random_state=0)
    path.write_bytes(pickle.dumps((answer, drawn)))
"""


@pytest.mark.parametrize(
    "names",
    [
        [name for name in LINEAR if name not in VARIANTS],
        pytest.param([*VARIANTS], marks=pytest.mark.slow),
    ],
    ids=["classes", "variants"],
)
def test_pickles_answer_the_same_in_another_process(names, tmp_path):
    cases = {name: LINEAR[name] for name in names}
    for name, case in cases.items():
        offset = {} if hasattr(fitted(name), "classes_") else case.offset
        held = pickle.dumps((fitted(name), case.X, offset))
        (tmp_path / f"{name}.pkl").write_bytes(held)
    subprocess.run(
        [sys.executable, "-c", ELSEWHERE, tmp_path],
        check=True,
        cwd=Path(skboost.__file__).parents[1],
    )
    for name, case in cases.items():
        answer, sample = pickle.loads((tmp_path / f"{name}.pkl").read_bytes())
        assert_allclose(answer, case.answer(fitted(name)), rtol=1e-12)
        again = pickle.loads(pickle.dumps(fitted(name)))
        assert_allclose(sample, again.posterior_.sample(5, random_state=0), rtol=1e-9)


# --- more data


@flat
def test_a_first_partial_fit_is_a_fit_and_the_next_one_adds_rows(name):
    case, whole = LINEAR[name], fitted(name, max_iter=1)
    model = case.new(max_iter=1).partial_fit(**case.data())
    assert_array_equal(case.answer(model), case.answer(whole))
    weight = (np.arange(48) % 3 > 0).astype(float)
    other = pickle.loads(pickle.dumps(model)).partial_fit(**case.data(weight > 0))
    width = model.posterior_.std()
    model.partial_fit(**case.data(), sample_weight=weight)
    assert_array_equal(case.answer(model), case.answer(other))
    assert np.log(model.posterior_.std() / width).mean() < 0.0
    if name in ("two classes", "online, normal"):  # and a fit begins anew
        assert_array_equal(case.answer(model.fit(**case.data())), case.answer(whole))


# --- bad input


def with_entry(value):
    rows = X.copy()
    rows[4, 1] = value
    return {"X": rows}


BAD_DATA = [
    (with_entry(np.nan), "NaN in column 'x1', row 4 |NaN, first in row 4 of this bat"),
    (with_entry(np.inf), "infinity in column 'x1', row 4 |infinity, first in row 4 of"),
    (
        {"X": np.array([["a", "b", "c"]] * 48)},
        "numbers in all columns|in an array of strings numbers are strings",
    ),
    ({"X": np.full((48, 3), 1j)}, "(?i)complex"),
    ({"y": None}, "requires y"),
    ({"y": [0, 1, 2]}, "inconsistent numbers of samples"),
    ({"y": np.ones((48, 2))}, "MultiOutputRegressor|1d array"),
    (
        {"y": np.where(np.arange(48) == 3, np.nan, 1.0)},
        "y contains NaN|y must be finite|y must have a label",
    ),
    ({"sample_weight": np.zeros(48)}, "[Ss]ample.weight"),
    ({"sample_weight": -np.ones(48)}, "sample_weight"),
    ({"sample_weight": np.full(48, np.nan)}, "sample_weight"),
    ({"sample_weight": np.full(48, np.inf)}, "sample_weight"),
    ({"sample_weight": np.ones(4)}, "sample_weight"),
    ({"sample_weight": np.ones((48, 2))}, "[Ss]ample weights must be 1D"),
]
BAD_OFFSETS = [
    (np.zeros(3), r"must have shape \(48,\)"),
    (np.full(48, -np.inf), "in row 0. (Where it is the logarithm of an exp|Drop rows)"),
    (
        np.where(np.arange(48) == 7, np.nan, 1.0),
        "got nan in row 7. (Fill it in|Drop rows)",
    ),
    (["a"] * 48, "must be an array"),
    (np.full(48, 1.0 + 1j), "must be an array"),
]
BAD_EXPOSURES = [(-np.ones(48), "positive"), (np.zeros(48), "positive .* in row 0")]
BAD_PARAMETERS = {
    "prior": ["flat"],
    "prior_scale": [0, -1.0, np.nan, np.inf, None],
    "intercept_scale": [0.0, np.inf],
    "fit_intercept": [2],
    "class_weight": ["even"],
    "likelihood": ["binomial"],
    "noise": ["cauchy"],
    "noise_scale": ["auto", -1.0],
    "handle_unknown": ["drop"],
    "temperature": [0.0, 1.5, np.nan],
    "max_iter": [0, 2.5],
    "max_time": [0, -1.0],
    "tol": [-1.0, np.nan],
    "family": ["gauss"],
    "objective": ["elbo"],
    "step_size": ["linesearch", 0.0, 1.5],
    "corrective": ["fully"],
    "warm_start": [None],
    "n_jobs": ["all"],
    "method": ["nvgi"],
    "learning_rate": [0.0],
    "forgetting": [0.0],
    "random_state": ["seed"],
}


@every
def test_data_that_mean_nothing_are_named_and_leave_the_old_fit(name):
    case, model = LINEAR[name], LINEAR[name].new(max_iter=1)
    offsets = [
        ({key: value}, words)
        for key in case.offset
        for value, words in BAD_OFFSETS + BAD_EXPOSURES * (key == "exposure")
    ]
    data = BAD_DATA + offsets
    if is_regressor(model):
        strings = {"y": pd.Series(["a0", "a1"] * 24, name="kind")}
        words = "y must be numbers; got strings such as 'a0' in column 'kind'.*classif"
        data.append((strings, words))
        for answer in (fitted(name).log_predictive_density, fitted(name).score):
            with pytest.raises(ValueError, match=words):
                answer(case.X, **strings)
    for bad, words in data:
        with pytest.raises(ValueError, match=words):
            model.fit(**case.data() | bad)
        assert not hasattr(model, "posterior_")
    model = pickle.loads(pickle.dumps(fitted(name, max_iter=1)))
    before = case.answer(model)
    for bad, words in data:
        with pytest.raises(ValueError, match=words):
            model.fit(**case.data() | bad)
    assert_array_equal(case.answer(model), before)
    for bad, words in offsets:
        with pytest.raises(ValueError, match=words):
            model.predict(case.X, **bad)
    for value, what in ((np.nan, "NaN"), (-np.inf, "infinity")):
        words = f"X contains {what} in column 'x1', row 4 .1 such entries in all.. Impu"
        with pytest.raises(ValueError, match=words):
            model.predict(with_entry(value)["X"])


@each_reader
def test_weights_that_add_up_to_one_row_are_warned_of(name, recwarn):
    case, model = LINEAR[name], LINEAR[name].new(max_iter=1)
    model.fit(**case.data(), sample_weight=np.full(48, 2 / 48))
    assert not [one for one in recwarn if "adds up to" in str(one.message)]
    with pytest.warns(UserWarning, match="sample_weight adds up to 1 for n_rows=48"):
        model.fit(**case.data(), sample_weight=np.full(48, 1 / 48))


@every
def test_parameters_that_mean_nothing_are_named(name):
    case = LINEAR[name]
    known = case.new().get_params()
    for parameter, values in BAD_PARAMETERS.items():
        for value in values if parameter in known else ():
            model = case.new(**{parameter: value})
            fits = [model.fit, getattr(model, "partial_fit", model.fit)]
            for fit in fits:
                with pytest.raises(ValueError, match=f"'{parameter}' parameter"):
                    fit(**case.data())


@each_reader
def test_scales_of_the_prior_may_be_given_for_every_feature(name):
    case, n = LINEAR[name], len(features(name))
    for value, words in (
        (np.ones(n + 1), "a scalar or have one"),
        (np.ones((n, n)), "a scalar or have one"),
        ([0.0, *np.ones(n - 1)], "positive"),
        ([np.nan, *np.ones(n - 1)], "positive"),
        (["a"] * n, "a number"),
    ):
        with pytest.raises(ValueError, match=f"prior_scale must be {words}"):
            case.fit(prior_scale=value)
    narrow = case.fit(max_iter=1, prior_scale=[1e-4, *np.ones(n - 1)])
    assert np.abs(np.reshape(narrow.coef_, (-1, n))[:, 0]).max() < 1e-3
    if name == "online, normal":  # in units of the noise
        narrow = case.fit(noise_scale=1.0, prior_scale=narrow.prior_scale)
    assert narrow.posterior_.std()[0] == pytest.approx(1e-4, rel=0.05)
    assert not hasattr(narrow, "prior_scale_")
    if name in HIERARCHICAL | ONLINE:
        return
    with pytest.raises(AttributeError, match="has learned no scale"):
        narrow.prior_scale_interval()
