"""Hierarchical regressions as users meet them: columns, groups, predictions."""

import pickle
import warnings
from copy import copy

import numpy as np
import pandas as pd
import pytest

from skboost.inspection import GroupEffectsDisplay
from skboost.priors import HalfNormalPrior

from ..cases import fitted as cached
from ..kinds import GroupedLinear, GroupedLogistic, GroupedPoisson
from .conftest import response, written

EVERY = [GroupedLinear, GroupedLogistic, GroupedPoisson]


def schools(n=160, n_groups=12, seed=0, spread=1.0):
    """A frame with a school for every row, and the linear predictor."""
    rng = np.random.default_rng(seed)
    school = np.append(np.arange(n_groups), rng.integers(0, n_groups, n - n_groups))
    hours = rng.normal(size=n)
    effects = spread * rng.normal(size=n_groups)
    X = pd.DataFrame({"hours": hours, "school": [f"s{j:02d}" for j in school]})
    return X, 0.5 * hours + effects[school], effects


@pytest.fixture(scope="module", params=EVERY, ids=lambda e: e.__name__)
def fitted(request):
    X, eta, effects = schools()
    y = response(request.param, eta)
    model = request.param(groups=["school"], random_state=0).fit(X, y)
    return model, X, y, effects


def test_what_is_fitted_recovers_groups_and_scales(fitted):
    model, X, _, effects = fitted
    found = model.group_effects_["school"]
    assert list(model.group_levels_["school"]) == sorted(set(X["school"]))
    assert found.shape == (12, 1)
    assert np.corrcoef(found[:, 0], effects)[0, 1] > 0.8
    table = model.variance_components_
    # The effects that there are, not those that there might have been.
    low, high = table.loc["sd(school)", ["5%", "95%"]]
    assert low < effects.std(ddof=1) < high
    assert 0.0 < model.icc_["school"] < 1.0
    low, high = model.coef_interval(0.95)[0]
    assert low < 0.5 < high
    ends = model.group_effects_interval(0.9)["school"]
    assert ends.shape == (12, 1, 2)
    inside = (ends[:, 0, 0] < found[:, 0]) & (found[:, 0] < ends[:, 0, 1])
    assert inside.all()
    assert model.remaining_kl_ < 0.1
    names = ["hours", "intercept", "sd(school)"]
    assert list(model.posterior_.names)[:3] == names
    _, _, scales, drawn = model.sample_posterior(500, random_state=0)
    # Four standard errors of 500 draws.
    error = 4.0 * drawn["school"].std(axis=0) / np.sqrt(500)
    assert (np.abs(drawn["school"].mean(axis=0) - found) < error).all()
    assert (scales["sd(school)"] > 0).all()


def test_unknown_groups_have_the_spread_of_the_population(fitted):
    model, X, _, _ = fitted
    new = X.head(3).assign(school="s99")
    if hasattr(model, "predict_proba"):
        known, unknown = model.predict_proba(X.head(3)), model.predict_proba(new)
        population = model.predict_proba(X.head(3), population=True)
        ends = [model.predict_proba_interval(rows) for rows in (X.head(3), new)]
    else:
        (known, narrow), (unknown, wide) = (
            model.predict(rows, return_std=True) for rows in (X.head(3), new)
        )
        assert (wide > narrow).all() or "Poisson" in type(model).__name__
        population = model.predict(X.head(3), population=True)
        ends = [model.predict_interval(rows) for rows in (X.head(3), new)]
    np.testing.assert_array_equal(unknown, population)
    assert np.abs(known - unknown).max() > 0.01
    narrow, wide = (np.diff(e, axis=1) for e in ends)
    assert (wide >= narrow).all()
    with pytest.warns(UserWarning, match="groups in 'school' that fit has not seen"):
        model.predict(new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy(model).set_params(handle_unknown="population").predict(new)
        model.predict(new, population=True)
    strict = copy(model).set_params(handle_unknown="error")
    with pytest.raises(ValueError, match=r"groups that fit has seen in 'school'.*s99"):
        strict.predict(new)
    for name in {"predict", "predict_proba"} & set(dir(model)):
        with pytest.raises(ValueError, match="True or False; got 'population'"):
            getattr(model, name)(X, population="population")


@pytest.mark.slow
def test_crossed_factors_have_effects_each_and_weights_that_are_reliable():
    rng = np.random.default_rng(5)
    X, eta, effects = schools(n=150)
    X["year"] = rng.integers(0, 5, 150)
    years = rng.normal(size=5)
    y = response(GroupedPoisson, eta + years[X["year"]])
    model = GroupedPoisson(groups=["school", "year"], max_iter=1, random_state=0).fit(
        X, y
    )
    for name, truth in (("school", effects), ("year", years)):
        found = model.group_effects_[name][:, 0]
        assert np.corrcoef(found, truth)[0, 1] > 0.9
    assert model.effects_pareto_k_ < 0.7
    assert set(model.icc_) == {"school", "year"}


def test_classes_in_schools_are_groups_of_their_own():
    rng = np.random.default_rng(5)
    X, eta, _ = schools(n=300)
    X["class"] = rng.choice(["a", "b"], 300)
    y = response(GroupedLinear, eta)
    model = GroupedLinear(nested=[("school", "class")], max_iter=1, random_state=0).fit(
        X, y
    )
    assert model.group_effects_["school"].shape == (12, 1)
    assert model.group_levels_["school:class"].shape == (24, 2)
    new = X.head(1).assign(**{"class": "c"})
    _, known = model.predict(X.head(1), return_std=True)
    _, unknown = model.predict(new, return_std=True)
    _, population = model.predict(new, population=True, return_std=True)
    assert known < unknown < population


def test_a_model_without_groups_is_the_plain_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + rng.normal(size=80)
    model = GroupedLinear(random_state=0).fit(X, y)
    assert model.group_effects_ == {}
    assert list(model.variance_components_.index) == ["noise_scale"]
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(X, y)[0], atol=0.05)


def test_densities_of_responses_integrate_to_one(fitted):
    model, X, _, _ = fitted
    row = X.head(1)
    if hasattr(model, "classes_"):
        grid, step = model.classes_, 1.0
    elif "Poisson" in type(model).__name__:
        grid, step = np.arange(1000), 1.0
    else:
        grid = np.linspace(-12.0, 12.0, 1201)
        step = grid[1] - grid[0]
    rows = row.loc[row.index.repeat(len(grid))]
    for population in (False, True):
        total = np.exp(model.log_predictive_density(rows, grid, population=population))
        assert total.sum() * step == pytest.approx(1.0, abs=2e-3)


def test_files_and_frames_of_polars_know_groups_that_are_new(fitted, tmp_path):
    model, X, _, _ = fitted
    name = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    rows = X.head(5).copy()
    rows.loc[rows.index[0], "school"] = "new"
    expected = getattr(model, name)(rows)
    model.export(tmp_path / "exported.py")
    module = written(tmp_path / "exported.py")
    np.testing.assert_array_equal(getattr(module, name)(rows.to_numpy()), expected)
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({column: rows[column].tolist() for column in rows})
    np.testing.assert_array_equal(getattr(model, name)(frame), expected)


@pytest.mark.parametrize(
    ("params", "school", "message"),
    [
        ({"groups": ["teacher"]}, "", "groups must name columns of X; got 'teacher'"),
        ({"groups": ["school", "school"]}, "", "groups must name every column once"),
        ({"groups": [7]}, "", "groups must name columns .*; got 7. X has the columns"),
        ({"groups": []}, "", "groups must name columns of X; got .., which names none"),
        ({}, None, "a label in every row .* 'school'"),
        ({}, np.nan, "a label in every row .* 'school'; got nan in row 0"),
        ({}, "one", "two groups or more; got one group"),
        ({"groups": None}, "one", "two labels or more in column 'school'"),
        ({"groups": None, "slopes": {"school": ["hours"]}}, "", "slopes must have key"),
        ({"slopes": {"school": ["school"]}}, "", "slopes must name columns .*'school'"),
        ({"nested": ["school"]}, "", "nested must hold tuples of two columns or more"),
        ({"scale_prior": HalfNormalPrior(-1.0)}, "", "scale of HalfNormalPrior .*-1.0"),
        ({"prior_scale": "learn"}, "", "prior_scale"),
    ],
)
def test_what_means_nothing_is_refused_by_name(params, school, message):
    X, eta, _ = schools()
    X["school"] = X["school"] if school == "" else school
    with pytest.raises(ValueError, match=message):
        GroupedLinear(**{"groups": ["school"]} | params).fit(X, eta)


@pytest.mark.parametrize(
    ("kind", "n_groups", "message"),
    [
        (
            GroupedLinear,
            40,
            "Every group of 'x1' has one row, .* from noise: the prior",
        ),
        (EVERY[1], 40, "Every group of 'x1' .* the randomness of single answers"),
        (GroupedPoisson, 40, "Every group of 'x1' has one row, and a fraction"),
        (GroupedLinear, 5, "A slope of 'x1' has the same value in all rows"),
    ],
)
def test_what_data_cannot_tell_apart_is_warned_of(kind, n_groups, message):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40) if n_groups == 40 else np.ones(40)
    X = np.column_stack([x, np.arange(40) % n_groups / 8])
    slopes = None if n_groups == 40 else {1: [0]}
    model = kind(groups=[1], slopes=slopes, max_iter=1, random_state=0)
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(X, rng.integers(0, 2, 40))
    assert caught[0].filename == __file__
    assert np.isfinite(model.elbo_)


@pytest.mark.parametrize("kind", EVERY)
def test_columns_of_the_same_groups_are_warned_of(kind):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 5, 60)
    X = pd.DataFrame({"x": rng.normal(size=60), "g": group, "h": group.astype(str)})
    y = rng.integers(0, 2, 60)
    with pytest.warns(UserWarning, match="'g' and 'h' have the same groups"):
        kind(groups=["g", "h"], max_iter=1, random_state=0).fit(X, y)
    # Intercepts and slopes are told apart.
    settings = {"slopes": {"h": ["x"]}, "group_intercepts": {"h": False}}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*the same groups")
        kind(groups=["g", "h"], max_iter=1, random_state=0, **settings).fit(X, y)


def test_groups_that_are_separated_have_finite_results():
    g = np.arange(40)[:, None] % 5
    model = EVERY[1](groups=[0], max_iter=1, random_state=0).fit(g, g[:, 0] > 2)
    assert np.isfinite(model.elbo_)
    found = model.predict_proba([[0], [4]])[:, 1]
    assert found[0] < 0.3 and found[1] > 0.7


def test_pictures_of_effects_say_their_scale_order_and_intervals(fitted):
    pytest.importorskip("matplotlib")
    model = fitted[0]
    words = {"Linear": "units of the response", "Poisson": "log rate"}
    display = GroupEffectsDisplay.from_estimator(model, level=0.8)
    said = " ".join(display.ax_.get_xlabel().split())
    kind = type(model).__name__.split("Hierarchical")[1].removesuffix("Regression")
    scale = words.get(kind, "log odds")
    assert said == f"effect of school, {scale}: mean, 50 % and 80 % interval"
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    order = np.argsort(model.group_effects_["school"][:, 0])
    assert labels == list(model.group_levels_["school"][order])
    np.testing.assert_array_equal(
        display.intervals, model.group_effects_interval(0.8)["school"][:, 0]
    )
    with pytest.raises(ValueError, match="factor must be one of"):
        GroupEffectsDisplay.from_estimator(model, "class")
    with pytest.raises(ValueError, match="effect must be one of .*; got 1"):
        GroupEffectsDisplay.from_estimator(model, effect=1)
    # Labels that are whole numbers have no decimal point.
    numbered = GroupEffectsDisplay.from_estimator(cached("groups, normal"))
    assert sorted(numbered.labels) == [str(j) for j in range(6)]


def test_integrated_coefficients_are_refused_by_files(tmp_path):
    posterior = cached("groups, normal").posterior_
    with pytest.raises(ValueError, match="integrated out given scales. Pickle the"):
        posterior.save(tmp_path / "posterior.npz")
    assert not any(tmp_path.iterdir())
    draws = posterior.sample(50, random_state=0)
    again = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(
        again.log_density(draws), posterior.log_density(draws)
    )
