"""Columns that keywords name are no features: of every regression and every method."""

import runpy
from functools import partial
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from skboost.inspection import quantile_residuals, sample_predictive
from skboost.inspection._answers import _without
from skboost.inspection._asked import Asked
from skboost.priors import NormalPrior

from ..cases import FLAT, HIERARCHICAL, OTHERS, each
from ..kinds import GroupedPoisson, Poisson

EVERY = FLAT | HIERARCHICAL | {"ordered classes": OTHERS["ordered classes"]}
RNG = np.random.default_rng(3)
VALUES = {
    "sample_weight": RNG.integers(1, 3, 48).astype(float),
    "trials": RNG.integers(2, 5, 48),
    "offset": 0.2 * RNG.standard_normal(48),
    "exposure": RNG.uniform(0.5, 2.0, 48),
}
# Rows and keywords are read at other places in memory, which may move sums.
close = partial(assert_allclose, rtol=1e-6, atol=1e-9)
# Without names of columns they take what a fit was given by name.
ANSWERS = (
    "predict", "predict_interval", "predict_proba", "predict_log_proba",
    "predict_proba_interval", "decision_function", "predict_uncertainty",
)  # fmt: skip
SCORES = "score", "log_predictive_density"
QUICK = "two classes", "poisson", "groups, normal"


def named_case(name):
    """A model, its features in a frame, its responses, and values by keyword."""
    case = EVERY[name]
    X = pd.DataFrame(case.X, columns=["a", "b", "c"])
    settings = {"groups": ["c"]} if name in HIERARCHICAL else {}
    known = set(signature(type(case.estimator).fit).parameters)
    if name == "three classes":
        known -= {"trials", "offset"}
    words = {key: one for key, one in VALUES.items() if key in known}
    y = case.y
    if "trials" in words:
        y = np.where(y == "yes", VALUES["trials"] - 1, 1)
    return case.new(**settings), X, y, words


def with_columns(X, words):
    """The frame with a column for each keyword, first and last."""
    frame = X.assign(**{f"the {key}": one for key, one in words.items()})
    return frame[[*frame.columns[2:], "a", "b"]]


def of(method, words):
    """The keywords that a method takes, but for weights."""
    known = signature(method).parameters.keys() - {"sample_weight"}
    return {key: one for key, one in words.items() if key in known}


def same_answers(model, frame, plain, X, y, words):
    """Whether a fit by names of columns answers as one by their values does."""
    for name in (*ANSWERS, *SCORES):
        asked = getattr(plain, name, None)
        if asked is not None:
            more = (y,) * (name in SCORES)
            expected = asked(X, *more, **of(asked, words))
            close(getattr(model, name)(frame, *more), expected)
    keywords = of(plain.log_predictive_density, words)
    for ask, n in ((sample_predictive, {"n": 20}), (quantile_residuals, {})):
        more = (y,) * (not n)
        expected = ask(plain, X, *more, **n, random_state=0, **keywords)
        close(ask(model, frame, *more, **n, random_state=0), expected)
    if hasattr(plain, "make_log_joint"):
        theta = plain.posterior_.sample(2, 0)
        expected = plain.make_log_joint(X, y, **words)(theta)
        close(model.make_log_joint(frame, y)(theta), expected)


@each(EVERY, slow={*EVERY} - {*QUICK})
def test_columns_that_keywords_name_are_no_features(name):
    model, X, y, words = named_case(name)
    frame = with_columns(X, words)
    X, by_name = X[["c", "a", "b"]], {key: f"the {key}" for key in words}
    plain = clone(model).fit(X, y, **words)
    model.fit(frame, y, **by_name)
    assert list(model.feature_names_in_) == ["c", "a", "b"]
    assert model.n_features_in_ == 3
    close(model.coef_, plain.coef_)
    same_answers(model, frame, plain, X, y, words)
    # Of values that are passed as well, these count, and no column has to be there.
    asked = plain.predict_proba if hasattr(plain, "classes_") else plain.predict
    given = of(asked, {key: one[::-1] for key, one in words.items()})
    expected = asked(X, **given)
    for rows in (frame, X):
        close(getattr(model, asked.__name__)(rows, **given), expected)
    if not given:
        return
    with pytest.warns(UserWarning, match="The fit was told"):
        without = asked(X)
    with pytest.warns(UserWarning, match="The fit was told"):
        close(getattr(model, asked.__name__)(X), without)


@each(FLAT, "partial_fit", slow={*FLAT} - {"poisson"})
def test_batches_find_columns_that_the_first_one_named(name):
    model, X, y, words = named_case(name)
    frame, by_name = with_columns(X, words), {key: f"the {key}" for key in words}
    X, plain = X[["c", "a", "b"]], clone(model)
    classes = {} if "classes" not in name else {"classes": np.unique(y)}
    if "trials" in words:
        classes = {"classes": [0, 1]}
    for some, names in ((slice(24), by_name), (slice(24, None), {})):
        own = {key: one[some] for key, one in words.items()}
        plain.partial_fit(X[some], y[some], **classes, **own)
        model.partial_fit(frame[some], y[some], **classes, **names)
    assert list(model.feature_names_in_) == ["c", "a", "b"]
    close(model.coef_, plain.coef_)
    stages = next(one for one in dir(model) if one.startswith("staged"))
    found = list(getattr(model, stages)(frame))[-1]
    asked = getattr(plain, stages)
    close(found, list(asked(X, **of(asked, words)))[-1])


# --- counts, as all others are read


MODEL, X, Y, WORDS = named_case("poisson")
YEARS = WORDS["exposure"]
FRAME = X.assign(years=YEARS)[["a", "years", "b", "c"]]


def test_a_column_was_a_feature_before_it_was_named(tmp_path):
    expected = clone(MODEL).fit(X, Y, exposure=YEARS)
    model = clone(MODEL).fit(FRAME, Y)
    assert "years" in model.feature_names_in_
    close(model.fit(FRAME, Y, exposure="years").coef_, expected.coef_)
    # After a fit to values predictions may name a column, too.
    found = expected.predict(FRAME, exposure="years")
    close(found, model.predict(FRAME))
    model.export(tmp_path / "plain.py")
    module = runpy.run_path(str(tmp_path / "plain.py"))
    close(module["predict"](FRAME, offset=np.log(YEARS)), found)
    with pytest.raises(ValueError, match="exposure must be .* got 'y', which is none"):
        model.predict(FRAME, exposure="y")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAME.assign(more=1.0))


def test_fits_without_a_row_take_the_columns_of_the_fit():
    weight = VALUES["sample_weight"]
    frame = FRAME.assign(w=weight)
    model = clone(MODEL).fit(frame, Y, sample_weight="w", exposure="years")
    without = X.iloc[1:], Y[1:], weight[1:]
    plain = clone(MODEL).fit(*without, exposure=YEARS[1:])
    expected = plain.log_predictive_density(X[:1], Y[:1], exposure=YEARS[:1])
    close(_without(Asked(model, 1, 0, {}), frame, Y, 0), expected[0])


def test_cross_validation_finds_them():
    given = {"params": {"exposure": "years"}, "cv": 2}
    found = cross_val_score(clone(MODEL), FRAME, Y, **given)
    for score, half in zip(found, (slice(24), slice(24, None)), strict=True):
        rest = np.setdiff1d(np.arange(48), np.arange(48)[half])
        model = clone(MODEL).fit(X.iloc[rest], Y[rest], exposure=YEARS[rest])
        close(score, model.score(X.iloc[half], Y[half], exposure=YEARS[half]))


def test_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(FRAME.to_dict("list"))
    model = clone(MODEL).fit(frame, Y, exposure="years")
    expected = clone(MODEL).fit(FRAME, Y, exposure="years")
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    close(model.predict(frame), expected.predict(FRAME))


# --- columns that parameters name, too


def test_what_a_parameter_names_stays_a_feature():
    own = {"years": NormalPrior(scale=0.5)}
    model = clone(MODEL).set_params(prior=own).fit(FRAME, Y, exposure="years")
    assert list(model.feature_names_in_) == ["a", "years", "b", "c"]
    close(model.predict(FRAME), model.predict(FRAME, exposure=YEARS))
    for said in ({"slopes": {"c": ["years"]}}, {"fixed": np.array(["a", "years"])}):
        grouped = GroupedPoisson(groups="c", **said)
        assert grouped._read(FRAME, Y, exposure="years")[0] is FRAME
    grouped = GroupedPoisson(groups="c", fixed=["a"])
    assert [*grouped._read(FRAME, Y, exposure="years")[0]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        (GroupedPoisson, {"groups": [2]}),
        (GroupedPoisson, {"groups": ["c"], "slopes": {"c": [-1]}}),
        (GroupedPoisson, {"groups": ["c"], "correlated": {3: False}}),
        (Poisson, {"prior": {0: NormalPrior()}}),
    ],
)
def test_positions_beside_names_are_refused(cls, parameters):
    last = [*parameters][-1]
    match = rf"{last} must have names .* exposure='years' takes .*exposure=X\['years'\]"
    with pytest.raises(ValueError, match=match):
        cls(**parameters).fit(FRAME, Y, exposure="years")
    model = cls(max_iter=1, **parameters)
    assert model._read(FRAME, Y, exposure=YEARS)[0] is FRAME
