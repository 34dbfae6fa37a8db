"""Formulas with terms of groups: what columns and parameters they stand for."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from ..kinds import GroupedLinear

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FAST = {"max_iter": 1, "random_state": 0}
Linear = GroupedLinear


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


def test_a_formula_is_what_its_parameters_are(sleep):
    plain = Linear(groups=["Subject"], slopes={"Subject": ["Days"]}, **FAST)
    plain.fit(sleep[["Days", "Subject"]], sleep["Reaction"])
    said = Linear.from_formula("Reaction ~ Days + (Days | Subject)", sleep, **FAST)
    assert said.elbo_ == pytest.approx(plain.elbo_, abs=1e-9)
    assert_allclose(said.predict(sleep), plain.predict(sleep[["Days", "Subject"]]))
    assert list(said.variance_components_.index) == list(
        plain.variance_components_.index
    )
    # The left side is what is passed as y, too.
    given = clone(said).fit(sleep.drop(columns="Reaction"), sleep["Reaction"])
    assert given.elbo_ == pytest.approx(said.elbo_, abs=1e-9)


@pytest.mark.parametrize(
    ("formula", "parameters"),
    [
        ("Days + (Days || Subject)", {"correlated": False}),
        ("Days + (1 | Subject) + (0 + Days | Subject)", {"correlated": False}),
        ("Days + (0 + Days | Subject)", {"group_intercepts": {"Subject": False}}),
        ("1 + (Days || Subject)", {"correlated": False, "fixed": []}),
        ("0 + Days + (1 | Subject)", {"slopes": {}, "fit_intercept": False}),
    ],
)
def test_other_terms_are_what_their_parameters_are(sleep, formula, parameters):
    settings = {"groups": ["Subject"], "slopes": {"Subject": ["Days"]}} | parameters
    plain = Linear(**settings, **FAST)
    plain.fit(sleep[["Days", "Subject"]], sleep["Reaction"])
    said = Linear.from_formula(f"Reaction ~ {formula}", sleep, **FAST)
    assert said.elbo_ == pytest.approx(plain.elbo_, abs=1e-9)


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
    model = Linear(formula="y ~ 1 + (d | g)")
    with pytest.raises(ValueError, match="Slopes of 'g' must leave fewer .* n_rows=60"):
        model.fit(data)
