"""Rows that lack a value are refused or left out, in arrays, frames and formulas."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skboost import RowBlocks
from skboost.strategies import GreedySearch

from ..kinds import FLAT, GROUPED, over

Linear, Logistic, Ordinal, Poisson = FLAT
GroupedLinear, GroupedLogistic, GroupedOrdinal, GroupedPoisson = GROUPED
EVERY, NAMES = FLAT + GROUPED, [one.__name__[7:-10] for one in FLAT + GROUPED]


FAST = {"max_iter": 1, "random_state": 0, "prior_scale": "auto"}
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(RNG.normal(size=(40, 2)), columns=["x", "z"])
ROWS["g"] = np.array(["a", "b", "c", "d"])[np.arange(40) % 4]
EXTRA = np.round(RNG.uniform(1.0, 3.0, 40), 2)
NUMBERS = ROWS["x"].to_numpy() + RNG.normal(size=40)
RESPONSES = {
    "Linear": NUMBERS,
    "Logistic": np.where(NUMBERS > 0, "yes", "no").astype(object),
    "Ordinal": np.digitize(NUMBERS, [-0.5, 0.5]).astype(float),
    "Poisson": RNG.poisson(2.0, 40).astype(float),
}


def case(cls):
    """Rows and responses with gaps in rows 3, 5 and 9, and keywords with one in 12."""
    name = next(kind for kind in RESPONSES if kind in cls.__name__)
    grouped = "Hierarchical" in cls.__name__
    X, y = (
        ROWS[["x", "z", "g"] if grouped else ["x", "z"]].copy(),
        RESPONSES[name].copy(),
    )
    X.loc[3, "x"] = np.nan
    if grouped:
        X.loc[5, "g"] = None
    else:
        X.loc[5, "z"] = np.nan
    y[9] = None if y.dtype == object else np.nan
    words = {"sample_weight": EXTRA.copy()}
    words["sample_weight"][12] = np.nan
    if cls is not Ordinal:
        words["offset"] = 0.1 * EXTRA
    if name == "Poisson":
        words["exposure"] = EXTRA
    light = {"search": GreedySearch(32, refine=False), "family": "gaussian-diag"}
    return X, y, words, {"groups": ["g"]} if grouped else light


# All models leave rows out in one place.
@over("cls", EVERY, slow=(Ordinal, *GROUPED[1:]), ids=NAMES)
def test_rows_are_left_out_with_all_that_belongs_to_them(cls):
    X, y, words, settings = case(cls)
    kept = np.setdiff1d(np.arange(40), [3, 5, 9, 12])
    whole = X.iloc[kept], y[kept], {name: one[kept] for name, one in words.items()}
    # Rows of each kind of gap: every error says what leaves them out.
    for row in (3, 5, 9, 12):
        rows = [row, *kept]
        some = {name: one[rows] for name, one in words.items()}
        with pytest.raises(ValueError, match="\nmissing='drop' leaves out rows that"):
            cls(**settings, **FAST).fit(X.iloc[rows], y[rows], **some)
    model = cls(missing="drop", **settings, **FAST).fit(X, y, **words)
    whole = cls(**settings, **FAST).fit(*whole[:2], **whole[2])
    assert (model.n_dropped_, whole.n_dropped_) == (4, 0)
    assert model.elbo_ == whole.elbo_
    assert_allclose(model.coef_, whole.coef_)
    # Predictions are of all rows or of none.
    with pytest.raises(ValueError, match="NaN|label in every row") as refused:
        model.predict(X)
    assert "missing=" not in str(refused.value)


@over("cls", EVERY, ids=NAMES)
def test_of_formulas_the_columns_count_that_they_name(cls):
    pytest.importorskip("formulaic")
    X, y, words, settings = case(cls)
    data = X.assign(y=y, w=words["sample_weight"], unused=np.nan)
    formula = "y ~ x" + (" + z + (1 | g)" if "groups" in settings else " + log(w)")
    match = r"every row of the column 'x'; got 1 m[\s\S]*\nmissing='drop' leaves out"
    with pytest.raises(ValueError, match=match):
        cls.from_formula(formula, data, **FAST)
    model, whole = (cls(formula=formula, missing="drop", **FAST) for _ in range(2))
    lost = [3, 5, 9] if "groups" in settings else [3, 9, 12]
    some = data.drop(index=lost)
    for found, expected in zip(
        model._read(data, None), whole._read(some, None), strict=True
    ):
        assert_array_equal(found, expected)
    assert (model.n_dropped_, whole.n_dropped_) == (3, 0)
    # With responses apart the left side is not looked at.
    model._read(data, RESPONSES["Poisson"] % 2)
    assert model.n_dropped_ == 2
    if "Linear" in cls.__name__:
        with pytest.raises(ValueError, match="column 'x'; got 1 missing, .* in row 3"):
            model.fit(data).predict(data)


def test_lists_and_trials():
    X = [[1.0, 2.0], [2.0, None], [0.0, 1.0], [3.0, 1.0], [1.0, 0.0]]
    model = Logistic(missing="drop", orbit=None, **FAST)
    model.fit(X, [1, 1, 2, 0, 1], trials=[3, 3, 3, float("nan"), 4])
    whole = Logistic(orbit=None, **FAST)
    whole.fit([X[0], X[2], X[4]], [1, 2, 1], trials=[3, 3, 4])
    assert (model.n_dropped_, model.elbo_) == (2, whole.elbo_)


def test_what_cannot_be_dropped_is_refused():
    model = Linear(missing="drop", **FAST)
    X = ROWS[["x", "z"]].to_numpy()
    model.fit(X, NUMBERS)
    before = model.coef_
    for rows in (sparse.csr_matrix(X), RowBlocks(lambda: iter([(X, NUMBERS)]))):
        with pytest.raises(ValueError, match="missing must be 'raise' where X is no"):
            model.fit(rows, NUMBERS)
    with pytest.raises(
        ValueError, match="must leave rows; got a missing value in every row"
    ):
        model.fit(np.where(X > 0, np.nan, np.nan), NUMBERS)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, NUMBERS[1:])
    model.missing = "raise"
    for wrong in (np.inf, np.nan):
        rows = np.where(X == X[0, 0], wrong, X)
        with pytest.raises(ValueError, match="infinity|NaN") as refused:
            model.fit(rows, NUMBERS)
        assert ("missing='drop'" in str(refused.value)) == np.isnan(wrong)
    with pytest.raises(ValueError, match="NaN") as refused:
        model.fit(sparse.csr_matrix(rows), NUMBERS)
    assert "missing='drop'" not in str(refused.value)
    assert model.coef_ is before and model.n_dropped_ == 0
