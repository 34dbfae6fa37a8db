"""Formulas with terms of groups: what columns and parameters they stand for."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from skboost import (
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalPoissonRegression,
)

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FAST = {"max_iter": 1, "random_state": 0}
Linear = BoostedHierarchicalLinearRegression


@pytest.fixture(scope="module")
def sleep():
    """Reactions of twelve subjects on eight days, each with its own slope."""
    rng = np.random.default_rng(0)
    subject, days = np.repeat(np.arange(12), 8), np.tile(np.arange(8.0), 12)
    slope, level = rng.normal(1, 0.5, 12)[subject], rng.normal(0, 1, 12)[subject]
    reaction = 25 + level + slope * days + rng.normal(0, 0.8, 96)
    return pd.DataFrame(
        {
            "Reaction": reaction,
            "Days": days,
            "Subject": [f"s{k}" for k in subject],
            "site": np.array(["north", "south", "west"])[subject % 3],
            "slept": rng.random(96) > 0.5,
        }
    )


def same(one, other):
    """Whether two fits are of the same model and rows."""
    return one.elbo_ == pytest.approx(other.elbo_, abs=1e-9)


def test_a_formula_is_what_its_parameters_are(sleep):
    plain = Linear(groups=["Subject"], slopes={"Subject": ["Days"]}, **FAST)
    plain.fit(sleep[["Days", "Subject"]], sleep["Reaction"])
    said = Linear.from_formula("Reaction ~ Days + (Days | Subject)", sleep, **FAST)
    assert same(said, plain)
    assert_allclose(said.predict(sleep), plain.predict(sleep[["Days", "Subject"]]))
    assert list(said.variance_components_.index) == list(
        plain.variance_components_.index
    )
    # The left side is what is passed as y, too.
    given = clone(said).fit(sleep.drop(columns="Reaction"), sleep["Reaction"])
    assert same(given, said)


@pytest.mark.parametrize(
    ("formula", "parameters"),
    [
        ("Reaction ~ Days + (Days || Subject)", {"correlated": False}),
        (
            "Reaction ~ Days + (1 | Subject) + (0 + Days | Subject)",
            {"correlated": False},
        ),
        (
            "Reaction ~ Days + (0 + Days | Subject)",
            {"group_intercepts": {"Subject": False}},
        ),
        ("Reaction ~ 1 + (Days || Subject)", {"correlated": False, "fixed": []}),
        ("Reaction ~ 0 + Days + (1 | Subject)", {"slopes": {}, "fit_intercept": False}),
    ],
)
def test_other_terms_are_what_their_parameters_are(sleep, formula, parameters):
    settings = {"groups": ["Subject"], "slopes": {"Subject": ["Days"]}} | parameters
    plain = Linear(**settings, **FAST)
    plain.fit(sleep[["Days", "Subject"]], sleep["Reaction"])
    assert same(Linear.from_formula(formula, sleep, **FAST), plain)


def test_categories_splines_and_nested_groups(sleep):
    formula = "np.log(Reaction) ~ bs(Days, df=4) + C(site) + slept + (1 | site/Subject)"
    model = Linear.from_formula(formula, sleep, **FAST)
    assert list(model.group_levels_) == ["site", "site:Subject"]
    assert "north:s0" in model.group_levels_["site:Subject"]
    names = list(model.feature_names_in_)
    assert "C(site)[T.south]" in names and "bs(Days, df=4)[4]" in names
    new = sleep.iloc[[3, 50]].drop(columns="Reaction")
    expected = model.predict(sleep)[[3, 50]]
    # Knots and categories are those of the fit, also after a pickle.
    assert_allclose(model.predict(new), expected)
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(new), expected)
    without = new.drop(columns=["Subject"])
    assert model.predict(without, population=True).shape == (2,)


def test_it_is_a_parameter_that_searches_keep(sleep):
    model = Linear(formula="Reaction ~ Days + (1 | Subject)", **FAST)
    scores = cross_val_score(model, sleep, sleep["Reaction"], cv=3)
    assert scores.shape == (3,) and np.isfinite(scores).all()


def test_classes_and_counts_take_formulas(sleep):
    late = sleep.assign(late=np.where(sleep["Reaction"] > 28, "yes", "no"))
    classifier = BoostedHierarchicalLogisticRegression.from_formula(
        "late ~ Days + (1 | Subject)", late, **FAST
    )
    assert classifier.classes_.tolist() == ["no", "yes"]
    assert classifier.score(late, late["late"]) > 0.7
    counted = sleep.assign(lapses=(sleep["Days"] * 2).astype(int))
    counts = BoostedHierarchicalPoissonRegression.from_formula(
        "lapses ~ Days + (1 | Subject)", counted, **FAST
    )
    assert counts.coef_[0] > 0


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("Reaction ~ Days", "it has no term of groups"),
        ("Reaction ~ Days + (1 | Subject", "parentheses do not match"),
        ("Reaction ~ Days +* site + (1 | Subject)", "'\\*' stands where"),
        ("Reaction ~ dose + (1 | Subject)", "must have the column 'dose'"),
        ("Reaction ~ Days + (1 | ward)", "must have the column 'ward'"),
        ("Reaction ~ Days + (1 | log(Days))", "must be a column"),
        ("Reaction ~ Days + (Days | Subject) + (1 | Subject)", "repeat an effect"),
        ("Days + (1 | Subject)", "y must be passed"),
    ],
)
def test_what_means_nothing_is_named(sleep, formula, message):
    with pytest.raises(ValueError, match=message):
        Linear.from_formula(formula, sleep)


def test_new_rows_that_the_fit_has_not_seen(sleep):
    model = Linear.from_formula("Reaction ~ site + (1 | Subject)", sleep, **FAST)
    with pytest.raises(ValueError, match="categories that fit has seen.*'east'"):
        model.predict(sleep.assign(site="east"))
    with pytest.raises(ValueError, match="must have the column 'site'"):
        model.predict(sleep[["Subject"]])
    with pytest.raises(ValueError, match="must be a pandas or polars DataFrame"):
        model.predict(sleep[["site", "Subject"]].to_numpy())
    with pytest.raises(ValueError, match="groups must be left out where formula"):
        Linear(formula="Reaction ~ (1 | Subject)", groups=["Subject"]).fit(sleep)
    # An unknown group is of the population, as without a formula.
    assert np.isfinite(model.predict(sleep.assign(Subject="new"))).all()


def test_more_correlations_of_slopes_than_rows_are_refused():
    data = pd.DataFrame({"y": np.arange(60.0) % 7, "g": np.arange(60) % 6})
    data["d"] = [f"v{i}" for i in range(60)]
    model = BoostedHierarchicalLinearRegression(formula="y ~ 1 + (d | g)")
    with pytest.raises(ValueError, match="Slopes of 'g' must leave fewer .* 60 rows"):
        model.fit(data)
