"""Comparisons and ranks are averages over draws that one could write by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skboost.inspection import compare, rank
from tests.cases import HIERARCHICAL, LINEAR, OTHERS, fitted

from ..kinds import Linear, Logistic, Poisson, over

ROWS, N = LINEAR | {"ordered classes": OTHERS["ordered classes"]}, 8000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "diet": rng.choice(["fish", "meat", "rice"], 120),
            "age": rng.normal(50.0, 10.0, 120),
            "sex": rng.choice(["f", "m"], 120),
        }
    )
    eta = 1.5 * (data["diet"] == "meat") + 0.05 * (data["age"] - 50)
    return data.assign(sick=rng.random(120) < expit(eta - 0.5))


@pytest.fixture(scope="module")
def pipe(table):
    steps = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(drop="first"), ["diet", "sex"])
    )
    model = Logistic(random_state=0)
    return make_pipeline(steps, model).fit(table, table["sick"])


@pytest.mark.parametrize("wanted", [2.0, [0.0, 2.0], "slope"])
def test_comparisons_of_a_linear_model_are_its_coefficients(wanted):
    model, case = fitted("normal"), ROWS["normal"]
    found = compare(model, case.X, {1: wanted}, n=20_000, level=0.8)
    (row,) = found.to_dict("records")
    by = 1.0 if wanted == "slope" else 2.0
    low, high = by * model.coef_interval(0.8)[1]
    width = high - low
    assert row["difference"] == pytest.approx(by * model.coef_[1], abs=0.01 * width)
    assert [row["lower"], row["upper"]] == pytest.approx([low, high], abs=0.03 * width)


def test_comparisons_through_a_pipeline_are_averages_over_draws(table, pipe):
    found = compare(pipe, table, {"diet": ["fish", "meat", "rice"]}, n=N)
    assert found["contrast"].tolist() == ["meat vs fish", "rice vs fish"]
    coef, intercept = pipe[-1].sample_posterior(N, random_state=1)
    average = {
        diet: expit(
            pipe[:-1].transform(table.assign(diet=diet)) @ coef.T + intercept
        ).mean(axis=0)
        for diet in ("fish", "meat", "rice")
    }
    for row, diet in zip(found.to_dict("records"), ("meat", "rice"), strict=True):
        by_hand = average[diet] - average["fish"]
        ratio = average[diet] / average["fish"]
        ends = np.quantile(by_hand, [0.05, 0.95])
        se = 5 * by_hand.std() / np.sqrt(N)
        assert row["difference"] == pytest.approx(by_hand.mean(), abs=2 * se)
        assert [row["lower"], row["upper"]] == pytest.approx(ends, abs=4 * se)
        assert row["probability_positive"] == pytest.approx(
            np.mean(by_hand > 0), abs=0.02
        )
        assert row["ratio"] == pytest.approx(np.median(ratio), rel=0.02)
        ends = np.quantile(ratio, [0.05, 0.95])
        assert [row["ratio_lower"], row["ratio_upper"]] == pytest.approx(ends, rel=0.04)


def test_slopes_are_averages_of_derivatives(table, pipe):
    (row,) = compare(pipe, table, {"age": "slope"}, n=4000).to_dict("records")
    eta = pipe[-1].sample_posterior(4000, random_state=1)
    eta = pipe[:-1].transform(table) @ eta[0].T + eta[1]
    coef, _ = pipe[-1].sample_posterior(4000, random_state=1)
    by_hand = (expit(eta) * expit(-eta)).mean(axis=0) * coef[:, 0]
    by_hand /= pipe[0].transformers_[0][1].scale_[0]
    se = by_hand.std() / np.sqrt(4000)
    assert row["difference"] == pytest.approx(by_hand.mean(), abs=8 * se)
    assert np.isnan(row["ratio"])


def test_groups_of_rows_values_of_other_columns_and_weights(table, pipe):
    wanted = {"diet": ["fish", "meat"]}
    by = compare(pipe, table, wanted, by="sex")
    assert by["sex"].tolist() == ["f", "m"]
    men = table[table["sex"] == "m"]
    alone = compare(pipe, men, wanted)
    weighted = compare(pipe, table, wanted, sample_weight=1.0 * (table["sex"] == "m"))
    fixed = compare(pipe, table, wanted, at={"age": 30.0, "sex": "m"})
    by_hand = compare(pipe, table.assign(age=30.0, sex="m"), wanted)
    key = ["difference", "lower", "upper", "ratio"]
    np.testing.assert_allclose(by[key].iloc[1], alone[key].iloc[0], rtol=1e-9)
    np.testing.assert_allclose(weighted[key], alone[key], rtol=1e-9)
    np.testing.assert_allclose(fixed[key], by_hand[key], rtol=1e-9)
    array = compare(pipe, table, wanted, by=np.arange(120) % 2)
    assert array["by"].tolist() == [0, 1]


# Their answers are made as those of another likelihood of the same class.
@over(
    "name", ROWS, slow=["student_t", "negative binomial", "groups, negative binomial"]
)
def test_every_regression_and_classifier_is_compared_and_its_groups_ranked(name):
    model, case = fitted(name), ROWS[name]
    found = compare(model, case.X, {0: [-1.0, 1.0]}, n=200, **case.offset)
    several = len(getattr(model, "classes_", [0])) > 2
    assert len(found) == (3 if several else 1)
    if several:
        assert found["class"].tolist() == list(model.classes_)
        assert found["difference"].sum() == pytest.approx(0.0, abs=1e-6)
    assert (found["lower"] <= found["difference"]).all()
    assert (found["difference"] <= found["upper"]).all()
    if name in HIERARCHICAL:
        best = rank(model, "x2").table["probability_best"]
        assert best.sum() == pytest.approx(1)


@pytest.mark.filterwarnings("ignore:y varies more")
def test_formulas_are_compared_by_their_columns(table):
    pytest.importorskip("formulaic")
    data = table.assign(visits=np.arange(120) % 5, days=np.linspace(1, 9, 120))
    model = Poisson(random_state=0)
    model = model.from_formula(
        "visits ~ diet + age", data, exposure="days", random_state=0
    )
    (row,) = compare(model, data, {"diet": ["fish", "meat"]}, n=8000).to_dict("records")
    # Rates are a product: their ratio is the same in every row.
    expected = model.rate_ratios().loc["diet[T.meat]"]
    assert row["ratio"] == pytest.approx(expected["rate_ratio"], rel=0.02)
    assert row["ratio_lower"] == pytest.approx(expected["lower"], rel=0.03)


def test_polars_and_categories(table, pipe):
    pl = pytest.importorskip("polars")
    pytest.importorskip("formulaic")
    frame = table.assign(diet=table["diet"].astype("category"))
    linear = Linear
    model = linear.from_formula("age ~ diet", frame, random_state=0)
    wanted = {"diet": ["fish", "rice"]}
    plain = pl.DataFrame(table[["age", "diet"]].to_dict("list"))
    one, other = (
        compare(model, rows, wanted)["difference"].to_list() for rows in (frame, plain)
    )
    assert one == pytest.approx(other, rel=1e-9)
    with pytest.raises(ValueError, match="got \\['soup'\\]"):
        compare(model, frame, {"diet": ["fish", "soup"]})


def test_groups_are_ranked_by_draws_of_their_effects():
    model = fitted("groups, normal")
    found, pairwise = rank(model, "x2", n=1024, random_state=0)
    effects = model.sample_posterior(1024, random_state=0)[3]["x2"][:, :, 0]
    levels = model.group_levels_["x2"]
    by_hand = np.bincount(effects.argmax(axis=1), minlength=len(levels)) / 1024
    of = dict(zip(levels, by_hand, strict=True))
    assert found["probability_best"].tolist() == [of[item] for item in found["item"]]
    assert found["mean"].is_monotonic_decreasing and len(found) == 6
    first, second = (list(levels).index(item) for item in found["item"][:2])
    expected = np.mean(effects[:, first] > effects[:, second])
    assert pairwise[0, 1] == pytest.approx(expected)
    np.testing.assert_allclose(pairwise + pairwise.T, 1.0)
    assert found["rank"].sum() == pytest.approx(21.0)
    assert (found["rank_lower"] <= found["rank_upper"]).all()
    least = rank(model, "x2", n=1024, random_state=0, largest=False).table
    assert least["item"].tolist() == found["item"].tolist()[::-1]
    assert least["mean"].tolist() == pytest.approx(found["mean"].tolist()[::-1])


def test_values_of_a_column_and_rows_are_ranked(table, pipe):
    diets = rank(pipe, "diet", table).table
    assert diets["item"][0] == "meat" and diets["probability_best"][0] > 0.9
    difference = compare(pipe, table, {"diet": ["rice", "meat"]}, n=4000)["difference"]
    means = diets.set_index("item")["mean"]
    assert means["meat"] - means["rice"] == pytest.approx(difference[0], abs=1e-9)
    rows = table.iloc[[0, 1, 1]]
    found, pairwise = rank(pipe, X=rows)
    assert sorted(found["item"]) == [0, 1, 2] and len(pairwise) == 3
    twins = found.set_index("item")["probability_best"]
    assert twins[1] == twins[2]
    three = fitted("three classes")
    assert len(rank(three, X=ROWS["three classes"].X, label=2).table) == 48
    with pytest.raises(ValueError, match="label must be one of the classes"):
        rank(three, X=ROWS["three classes"].X)


def test_factors_and_columns_that_are_not_there_are_refused_by_name(table, pipe):
    grouped = fitted("groups, normal")
    for given, more, message in (
        ((grouped, "x3"), {}, r"\['x2'\], where X is None; got 'x3'"),
        ((pipe, "diet"), {}, r"\[\], where X is None"),
        ((grouped, "x2"), {"effect": "age"}, "effect must be one of"),
        ((pipe, "x", table), {}, "factor must name columns of X; got 'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            rank(*given, **more)
    rows = sparse.csr_array(ROWS["normal"].X)
    with pytest.raises(ValueError, match="got csr_array. Pass X.toarray()"):
        compare(fitted("normal"), rows, {0: 1.0})


@pytest.mark.parametrize(
    ("variables", "more", "message"),
    [
        ({"dite": ["fish", "meat"]}, {}, "variables must name columns of X; got"),
        ({"diet": ["fish", "soup"]}, {}, r"levels in X, \['fish', 'meat', 'rice'\]"),
        ({"diet": ["fish"]}, {}, "two values or more"),
        ({"diet": "slope"}, {}, "must be a list of its levels"),
        ({"age": "steps"}, {}, "a number to add or 'slope'"),
        ({"age": None}, {}, "a number to add or 'slope'"),
        (["diet"], {}, "variables must be a dict"),
        ({}, {}, "variables must be a dict"),
        ({"age": 1.0}, {"at": {"dite": "fish"}}, "at must name columns"),
        ({"age": 1.0}, {"at": {"diet": "soup"}}, r"got \['soup'\]"),
        ({"age": 1.0}, {"by": "county"}, "by must name columns of X"),
        ({"age": 1.0}, {"by": [1, 2]}, "one label for each row"),
        (
            {"age": 1.0},
            {"sample_weight": [1.0]},
            r"sample_weight must hold.*shape \(1,\)",
        ),
        ({"age": 1.0}, {"sample_weight": -np.ones(120)}, "must hold.*-1.0 in row 0"),
        ({"age": 1.0}, {"level": 2.0}, "level"),
        ({"age": 1.0}, {"exposure": 1.0}, "exposure is no keyword"),
    ],
)
def test_what_is_not_there_is_refused_by_name(table, pipe, variables, more, message):
    with pytest.raises(ValueError, match=message):
        compare(pipe, table, variables, **more)


def test_the_best_of_a_search_is_asked(table, pipe):
    grid = {"boostedbayesianlogisticregression__prior_scale": [1.0]}
    search = GridSearchCV(pipe, grid, cv=2).fit(table, table["sick"])
    wanted = {"diet": ["fish", "meat"]}
    one, best = (compare(m, table, wanted) for m in (search, search.best_estimator_))
    assert one.equals(best)
    shuffled = table.sample(frac=1.0, random_state=0)
    other = compare(search, pd.concat([shuffled, shuffled]), wanted)
    numbers = ["difference", "lower", "upper"]
    np.testing.assert_allclose(one[numbers], other[numbers], rtol=1e-9)
