"""Formulas as R users write them, with groups and without, and that none runs code."""

import os
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from skboost.strategies import GreedySearch

from ..kinds import FLAT, GroupedLinear, GroupedLogistic, GroupedPoisson

Linear, Logistic, Ordinal, Poisson = FLAT
pytest.importorskip("formulaic")

# Scales that follow the data know of products, which arrays do not say.
ONE = {"max_iter": 1, "random_state": 0}
FAST = ONE | {"prior_scale": 2.0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    names = ["x", "w.a", "my col", "log"]
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=names)
    frame["class"] = np.array(["a", "b", "c"])[rng.integers(0, 3, 60)]
    frame["a ward"], frame["k"] = np.arange(60) % 6, np.arange(60) % 2
    frame["years"] = rng.uniform(1.0, 5.0, 60)
    frame["y"] = frame["x"] + (frame["class"] == "b") + rng.normal(size=60)
    frame["resp.1"] = frame["y"]
    frame["n"] = rng.poisson(frame["years"])
    frame["s"] = rng.binomial(4, 0.4, 60)
    frame["f"] = 4 - frame["s"]
    frame["grade"] = pd.Categorical(
        np.array(["low", "mid", "high"])[np.digitize(frame["y"], [-0.5, 1.0])],
        ["low", "mid", "high"],
        ordered=True,
    )
    return frame


def fitted(formula, data, cls=Linear, **settings):
    plain = {"orbit": None} if cls in FLAT else {}
    return cls.from_formula(formula, data, **FAST | plain | settings)


def same(one, other):
    assert one.elbo_ == pytest.approx(other.elbo_, abs=1e-6)


@pytest.mark.parametrize(
    ("terms", "columns"),
    [
        ("I(x^2)", lambda d: {"I(x^2)": d["x"] ** 2}),
        ("I(x**2 / 2 - 1)", lambda d: {"I(x^2 / 2 - 1)": d["x"] ** 2 / 2 - 1}),
        ("I(-2 * (x + log)^2)", lambda d: {
            "I(-2 * (x + log)^2)": -2 * (d["x"] + d["log"]) ** 2
        }),
        ("(x + `w.a`)^2", lambda d: {
            "x": d["x"], "w.a": d["w.a"], "x:w.a": d["x"] * d["w.a"]
        }),
        ("log + (x - log)", lambda d: {"log": d["log"], "x": d["x"]}),
        ("x * log - log", lambda d: {"x": d["x"], "x:log": d["x"] * d["log"]}),
        ("log(years) + log", lambda d: {
            "log(years)": np.log(d["years"]), "log": d["log"]
        }),
        ("np.sqrt(years)", lambda d: {"sqrt(years)": np.sqrt(d["years"])}),
        ("w.a + `my col`", lambda d: {"w.a": d["w.a"], "my col": d["my col"]}),
        ("Q('my col'):x", lambda d: {"my col:x": d["my col"] * d["x"]}),
        ("class", lambda d: {
            "class[T.b]": d["class"] == "b", "class[T.c]": d["class"] == "c"
        }),
        ("factor(k)", lambda d: {"factor(k)[T.1]": d["k"]}),
        ("C(class, contr.treatment('b'))", lambda d: {
            "C(class, contr.treatment('b'))[T.a]": d["class"] == "a",
            "C(class, contr.treatment('b'))[T.c]": d["class"] == "c",
        }),
        ("scale(x)", lambda d: {"scale(x)": (d["x"] - d["x"].mean()) / d["x"].std()}),
        ("poly(x, 2, raw=TRUE)", lambda d: {
            "poly(x, 2, raw=TRUE)[0]": d["x"], "poly(x, 2, raw=TRUE)[1]": d["x"] ** 2
        }),
    ],
)  # fmt: skip
def test_terms_are_the_columns_of_r(data, terms, columns):
    """With groups and without; that fits are of these columns is tested below."""
    expected = pd.DataFrame(columns(data)).astype(float)
    for model in (
        Linear(formula=f"y ~ {terms}"),
        GroupedLinear(formula=f"y ~ 1 + ({terms} || `a ward`)"),
    ):
        made, y = model._read(data, None)
        others = ["a ward"] * isinstance(model, GroupedLinear)
        assert list(made.columns) == [*expected.columns, *others]
        assert_allclose(made[list(expected.columns)].astype(float), expected)
        assert_array_equal(y, data["y"])


def test_names_of_any_kind_stand_in_every_place(data):
    plain = data.rename(columns={"a ward": "ward", "my col": "mine", "class": "kind"})
    expected, y = GroupedLinear(formula="y ~ mine + kind + (1 | ward)")._read(
        plain, None
    )
    for formula in (
        "resp.1 ~ `my col` + class + (1 | `a ward`)",
        "`resp.1` ~ Q('my col') + Q(\"class\") + (1 | Q('a ward'))",
    ):
        made, response = GroupedLinear(formula=formula)._read(data, None)
        assert_array_equal(made, expected)
        assert_array_equal(response, y)
    model = GroupedLinear(formula="`resp.1` ~ log + (w.a | `a ward`/k) + (1 | k:class)")
    made, y = model._read(data, None)
    factors = ["a ward", "a ward:k", "k:class"]
    assert list(made.columns) == ["log", "w.a", *factors]
    assert model._said.slopes == dict(zip(factors, [["w.a"]] * 2 + [[]], strict=True))
    assert made["k:class"][0] == f"0:{data['class'][0]}" and y is not None


def test_knots_and_scales_are_those_of_the_fit(data):
    model = fitted("y ~ scale(x) + poly(years, 2) + bs(log, df=4) + center(k)", data)
    expected = model.predict(data)
    assert_allclose(model.predict(data[:3]), expected[:3])
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(data[3:5]), expected[3:5])


def test_all_other_columns(data):
    some = data[["y", "x", "class", "years", "k"]]
    model = fitted("y ~ . - k + offset(years)", some)
    assert list(model.feature_names_in_) == ["x", "class[T.b]", "class[T.c]"]
    counts = fitted("y ~ . + (1 | class)", some, GroupedLinear, sample_weight="years")
    assert list(counts.feature_names_in_) == ["x", "k", "class"]


@pytest.mark.parametrize("grouped", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_offsets_of_formulas_are_those_of_keywords(data, grouped):
    term, words = " + (1 | k)" * grouped, {"exposure": data["years"]}
    cls = (Poisson, GroupedPoisson)[grouped]
    said = fitted(f"n ~ x + offset(log(years)){term}", data, cls)
    named = fitted(f"n ~ x{term}", data, cls, exposure="years")
    given = clone(said).set_params(formula=f"n ~ x{term}").fit(data, **words)
    for model in (said, named):
        same(model, given)
        assert_allclose(model.predict(data[5:9]), given.predict(data, **words)[5:9])
        score = given.score(data, data["n"], **words)
        assert model.score(data, data["n"]) == pytest.approx(score)
        density = given.log_predictive_density(data, data["n"], **words)
        assert_allclose(model.log_predictive_density(data, data["n"]), density)
    with pytest.warns(UserWarning, match="told the exposure of its counts"):
        named.predict(data.drop(columns="years"))
    with pytest.raises(ValueError, match="must have the column 'years'"):
        said.predict(data.drop(columns="years"))
    # Those of a formula and of a keyword add up.
    both = fitted(f"n ~ x + offset(log(years)){term}", data, cls, offset=np.ones(60))
    doubled = both.predict(data, offset=np.full(60, np.log(2.0)))
    assert_allclose(doubled, 2.0 * both.predict(data, offset=np.zeros(60)), rtol=1e-9)


def test_successes_and_failures(data):
    for cls, term in ((Logistic, ""), (GroupedLogistic, " + (1 | `a ward`)")):
        said = fitted(f"cbind(s, f) ~ x{term}", data, cls)
        same(said, fitted(f"s ~ x{term}", data.assign(t=4), cls, trials="t"))
        assert said.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"cbind\(successes, failures\) is for logist"):
        fitted("cbind(n, n) ~ x", data, Poisson)


def test_regressions_without_groups(data):
    X = pd.get_dummies(data[["x", "class"]]).astype(float).drop(columns="class_a")
    light = {"search": GreedySearch(32, refine=False)}
    for cls, name in ((Linear, "y"), (Logistic, "k"), (Ordinal, "grade")):
        model = fitted(f"{name} ~ x + class", data, cls, **light)
        plain = cls(orbit=None, **FAST, **light).fit(X, data[name])
        same(model, plain)
        assert_array_equal(model.predict(data[:4]), plain.predict(X[:4]))
    theta = plain.posterior_.sample(2, 0)
    joint = plain.make_log_joint(X, data[name])(theta)
    assert_allclose(model.make_log_joint(data, data[name])(theta), joint)
    assert model.categories_.tolist() == ["low", "mid", "high"]
    without = fitted("y ~ 0 + class", data)
    assert without.intercept_ == 0.0 and len(without.coef_) == 3


def test_formulas_are_cloned_and_go_on(data):
    model = Linear(formula="y ~ scale(x)", orbit=None, **FAST)
    scores = cross_val_score(clone(model), data, data["y"], cv=3)
    assert np.isfinite(scores).all()
    model.partial_fit(data[:30], data["y"][:30])
    state = model._design
    model.partial_fit(data[30:], data["y"][30:])
    assert model._design is state
    # A fit that fails leaves the formula of the one before.
    with pytest.raises(ValueError, match="must have the column 'nothing'"):
        model.set_params(formula="y ~ nothing").fit(data)
    assert np.isfinite(model.predict(data)).all()


def test_frames_of_polars(data):
    pl = pytest.importorskip("polars")
    kinds = ["low", "mid", "high"]
    frame = pl.DataFrame({name: data[name].to_list() for name in data.columns})
    frame = frame.with_columns(pl.col("grade").cast(pl.Enum(kinds)))
    formula = "y ~ x + class + offset(years) + (1 | `a ward`)"
    model, expected = (fitted(formula, one, GroupedLinear) for one in (frame, data))
    same(model, expected)
    assert_allclose(model.predict(frame), expected.predict(data))
    grades = fitted("grade ~ x", frame, Ordinal)
    assert grades.categories_.tolist() == kinds
    gaps = frame.with_columns(pl.when(pl.col("k") > 0).then(pl.col("x")).alias("x"))
    assert fitted("y ~ x", gaps, missing="drop").n_dropped_ == 30


@pytest.mark.parametrize(
    ("formula", "match"),
    [
        ("y ~ x^2", r"x\^2 is x alone in a formula. I\(x\^2\) is the power"),
        ("y ~ (x + log)^x", "must be a number from 2 to 9"),
        ("y ~ 2 * x", "2 is no term"),
        ("y ~ x + y", "'y' is on the left side"),
        ("log(years) ~ years", "'years' is on the left side"),
        ("cbind(s, f) ~ s", "'s' is on the left side"),
        ("y ~ offset(y) + x", "'y' is on the left side"),
        ("y ~ x + (1 | k)", "is a term of groups, which the hierarchical"),
        ("y ~ 1", "right side has no column"),
        ("y ~ log(x, 2)", "log must have one column or calculation first"),
        ("y ~ log(2)", r"log\(2\) must have a column"),
        ("y ~ lag(x)", "lag is none of its functions: I, C"),
        ("y ~ cbind(s, f)", "on the left side alone"),
        ("y ~ I(class * x)", r"Unable to evaluate factor `I\(class \* x\)`"),
        ("y ~ C(class) ~ x", "'~' stands where it means nothing"),
        ("y ~ x - offset(k)", "cannot be taken away"),
        ("y ~ bs(x, df=k)", "k is no argument"),
        ("y ~ bs(x, dg=2)", "no argument is 'dg'"),
        ("y ~ I(x > 0)", "'>' means nothing here"),
        ("", "something is missing"),
    ],
)
def test_what_means_nothing_is_named(data, formula, match):
    with pytest.raises(ValueError, match=match):
        fitted(formula, data)


def test_a_column_is_a_number_or_says_groups(data):
    for formula in ("y ~ y + (1 | k)", "y ~ (1 | y)", "y ~ (y | k)", "y ~ (1 | k:y)"):
        with pytest.raises(ValueError, match="'y' is on the left side, the response"):
            fitted(formula, data, GroupedLinear)
    # A change is another number than where it began.
    assert fitted("y - x ~ x", data).coef_[0] < 0.5
    with pytest.raises(ValueError, match="'k' is a term and says groups"):
        fitted("y ~ k + (1 | k)", data, GroupedLinear)
    when = data.assign(day=pd.date_range("2020-01-01", periods=60))
    with pytest.raises(ValueError, match="numbers in column 'day'; got dates"):
        fitted("y ~ day", when)


def test_long_formulas_end_soon(data):
    for formula in (
        "y ~ I(x * 9^9^9^9)",
        "y ~ (x + log + k + years + n + s + f)^9",
        "y ~ poly(x, 1000000000)",
        "y ~ " + "(" * 1000 + "x" + ")" * 1000,
        "y ~ " + "-" * 1000 + "x^" + "-" * 1000 + "2",
        "y ~ I(" + "x + " * 1000 + "x)",
        "y ~ " + "x:" * 1000 + "z",
    ):
        with pytest.raises(ValueError, match=r"formula=?.* (must be|names)"):
            fitted(formula, data)
    wide = pd.DataFrame(np.zeros((4, 300))).add_prefix("x")
    model = Linear(formula=" + ".join(wide.columns))
    assert model._read(wide, np.zeros(4))[0].shape == (4, 300)


CODE = [
    "{{np.f2py.os.system('touch {path}') + x}}",
    "np.f2py.os.system('touch {path}') + x",
    "I(np.savetxt('{path}', x) or x)",
    "I(open('{path}', 'w').write('a') + x)",
    "__import__('os').system('touch {path}')",
    "log(__import__('os').system('touch {path}'))",
    "I(__import__('pathlib').Path('{path}').touch())",
    "x.to_csv('{path}')",
    "I(x.to_csv('{path}'))",
    "I(x.__class__.__base__.__subclasses__())",
    "I((lambda: open('{path}', 'w'))())",
    "I([open('{path}', 'w') for _ in [0]])",
    "I(f\"{{open('{path}', 'w')}}\")",
    "I((z := open('{path}', 'w')))",
    "`open('{path}', 'w')`",
    "I(`open('{path}', 'w')`)",
    "`x` or open('{path}', 'w')",
    "I(x)`;open('{path}', 'w');`",
    "Q(open('{path}', 'w'))",
    'Q(\'open("{path}", "w")\')',
    "C(x, Treatment(open('{path}', 'w')))",
    "C(x, Treatment(`open('{path}', 'w')`=1))",
    "bs(x, df=open('{path}', 'w'))",
    "bs(x, `df, _state=open('{path}', 'w')`=3)",
    "poly(x, degree=2, _state=x)",
    "C(x, levels=[open('{path}', 'w')])",
    "x if open('{path}', 'w') else x",
    'eval(\'open("{path}", "w")\')',
    "exec(\"open('{path}', 'w')\")",
    "x[open('{path}', 'w')]",
    "x @ open('{path}', 'w')",
    "x; open('{path}', 'w')",
    "x\\\n, open('{path}', 'w')",
]


def test_no_formula_runs_code(data, tmp_path):
    path = tmp_path / "written"
    for text in (code.format(path=path) for code in CODE):
        for cls, formula in (
            (Linear, f"y ~ {text}"),
            (Linear, f"y ~ x + offset({text})"),
            (Linear, f"{text} ~ x"),
            (Logistic, f"cbind(s, {text}) ~ x"),
            (GroupedLinear, f"y ~ {text} + (1 | k)"),
            (GroupedLinear, f"y ~ x + ({text} | k)"),
            (GroupedLinear, f"y ~ x + (1 | {text})"),
            (GroupedLinear, f"y ~ x + (1 | k/{text})"),
        ):
            with pytest.raises(ValueError, match="must be such as|have the column"):
                fitted(formula, data, cls)
            assert not os.listdir(tmp_path), formula
    # Names of columns run none either.
    name = f"__import__('os').system('touch {path}')"
    hostile = data.rename(columns={"x": name, "k": f"{name}:"})
    formula = f"y ~ `{name}` + I(`{name}`^2) + offset(`{name}`) + (1 | `{name}:`)"
    model = fitted(formula, hostile, GroupedLinear)
    expected = fitted("y ~ x + I(x^2) + offset(x) + (1 | k)", data, GroupedLinear)
    assert_allclose(model.predict(hostile), expected.predict(data))
    assert not os.listdir(tmp_path)


# --- terms of groups


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


@pytest.mark.parametrize(
    ("formula", "parameters"),
    [
        ("Days + (Days | Subject)", {}),
        ("Days + (Days || Subject)", {"correlated": False}),
        ("Days + (1 | Subject) + (0 + Days | Subject)", {"correlated": False}),
        ("Days + (0 + Days | Subject)", {"group_intercepts": {"Subject": False}}),
        ("1 + (Days || Subject)", {"correlated": False, "fixed": []}),
        ("0 + Days + (1 | Subject)", {"slopes": {}, "fit_intercept": False}),
    ],
)
def test_a_formula_is_what_its_parameters_are(sleep, formula, parameters):
    settings = {"groups": ["Subject"], "slopes": {"Subject": ["Days"]}} | parameters
    plain = GroupedLinear(**settings, **ONE)
    plain.fit(sleep[["Days", "Subject"]], sleep["Reaction"])
    said = GroupedLinear.from_formula(f"Reaction ~ {formula}", sleep, **ONE)
    assert said.elbo_ == pytest.approx(plain.elbo_, abs=1e-9)
    assert_allclose(said.predict(sleep), plain.predict(sleep[["Days", "Subject"]]))
    names = (list(one.variance_components_.index) for one in (said, plain))
    assert next(names) == next(names)
    # The left side is what is passed as y, too.
    rest, y = said._read(sleep.drop(columns="Reaction"), sleep["Reaction"])
    assert_array_equal(rest, said._read(sleep, None)[0])
    assert_array_equal(y, sleep["Reaction"])


def test_categories_splines_and_nested_groups(sleep):
    formula = "np.log(Reaction) ~ bs(Days, df=4) + C(site) + slept + (1 | site/Subject)"
    model = GroupedLinear.from_formula(formula, sleep, **ONE)
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
def test_terms_of_groups_that_mean_nothing_are_named(sleep, formula, message):
    with pytest.raises(ValueError, match=message):
        GroupedLinear.from_formula(formula, sleep)


def test_new_rows_that_the_fit_has_not_seen(sleep):
    model = GroupedLinear.from_formula("Reaction ~ site + (1 | Subject)", sleep, **ONE)
    with pytest.raises(ValueError, match=r"that fit has seen.*got \{'east'\}\.$"):
        model.predict(sleep.assign(site="east"))
    with pytest.raises(ValueError, match="must have the column 'site'"):
        model.predict(sleep[["Subject"]])
    with pytest.raises(ValueError, match="must be a pandas or polars DataFrame"):
        model.predict(sleep[["site", "Subject"]].to_numpy())
    with pytest.raises(ValueError, match="groups must be left out where formula"):
        GroupedLinear(formula="Reaction ~ (1 | Subject)", groups=["Subject"]).fit(sleep)
    # An unknown group is of the population, as without a formula.
    assert np.isfinite(model.predict(sleep.assign(Subject="new"))).all()


def test_more_correlations_of_slopes_than_rows_are_refused():
    data = pd.DataFrame({"y": np.arange(60.0) % 7, "g": np.arange(60) % 6})
    data["d"] = [f"v{i}" for i in range(60)]
    model = GroupedLinear(formula="y ~ 1 + (d | g)")
    with pytest.raises(ValueError, match="Slopes of 'g' must leave fewer .* n_rows=60"):
        model.fit(data)
