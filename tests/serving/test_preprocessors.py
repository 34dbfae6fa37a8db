"""Steps of a pipeline before the model are written with it."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

from skboost.strategies import GreedySearch

from ..kinds import GroupedLinear, Logistic, OnlineLinear
from ..linear_model.conftest import written

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) * [1.0, 300.0, 0.2, 1.0] + [0.0, 5000.0, -3.0, 1.0]
ETA = (X - X.mean(axis=0)) @ [1.0, -0.005, 2.0, 0.0] + RNG.logistic(size=60)
NEW = X[:20] + RNG.normal(size=(20, 4))
TINY = {"search": GreedySearch(32), "max_iter": 1, "random_state": 0}
STEPS = {
    "scaler": StandardScaler(),
    "function": make_pipeline(FunctionTransformer(np.negative), StandardScaler()),
    "several": make_pipeline(RobustScaler(), PCA(3), MinMaxScaler()),
    "columns": make_column_transformer(
        (StandardScaler(), [1, 0]), ("passthrough", [2])
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_exported_pipelines_predict_the_same(name, tmp_path):
    y = np.digitize(ETA, [-1.0, 1.0] if name == "several" else [0.0])
    last = Logistic(**TINY, prior_scale=1.0)
    pipe = make_pipeline(STEPS[name], last).fit(X, y)
    pipe[-1].export(tmp_path / "model.py", preprocessor=pipe[:-1])
    module = written(tmp_path / "model.py")
    assert_allclose(module.predict_proba(NEW), pipe.predict_proba(NEW), atol=1e-10)
    assert np.array_equal(module.predict(NEW.tolist()), pipe.predict(NEW))


def test_graphs_have_the_scaler_and_columns_may_have_names(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    steps = make_column_transformer((StandardScaler(), ["d", "b"]))
    pipe = make_pipeline(steps, OnlineLinear()).fit(frame, ETA)
    new = frame.iloc[:9] + 1.0
    mean, std = pipe.predict(new, return_std=True)
    pipe[-1].export(tmp_path / "model.py", preprocessor=pipe[:-1])
    found = written(tmp_path / "model.py").predict(new, return_std=True)
    assert_allclose(found, (mean, std), rtol=1e-9)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    graph = pipe[-1].to_onnx(preprocessor=pipe[:-1])
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert_allclose(session.run(None, {"X": new.to_numpy()}), (mean, std), rtol=1e-9)


INSIDE = {
    "KBinsDiscretizer": make_pipeline(SimpleImputer(), KBinsDiscretizer(3)),
    "KNNImputer": KNNImputer(),
}


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("PowerTransformer: it is no", PowerTransformer()),
        ("MinMaxScaler: it is no", MinMaxScaler(clip=True)),
        ("PolynomialFeatures: it is no", PolynomialFeatures(2)),
        *(
            (name, make_column_transformer((StandardScaler(), [2]), (inner, [0])))
            for name, inner in INSIDE.items()
        ),
    ],
)
def test_other_steps_are_refused_by_name(name, steps, tmp_path):
    pipe = make_pipeline(steps, OnlineLinear(learning_rate="auto"))
    pipe = pipe.fit(X / [1.0, 1e3, 1.0, 1.0], ETA)
    with pytest.raises(ValueError, match=f"cannot be exported, {name}"):
        pipe[-1].export(tmp_path / "model.py", preprocessor=pipe[:-1])
    assert not list(tmp_path.iterdir())


def test_columns_far_from_zero_keep_their_digits(tmp_path):
    far = 1e9 + 1e3 * X[:, [0, 2]]
    pipe = make_pipeline(StandardScaler(), OnlineLinear())
    pipe.fit(far, ETA)[-1].export(tmp_path / "model.py", preprocessor=pipe[:-1])
    found = written(tmp_path / "model.py").predict(far)
    assert_allclose(found, pipe.predict(far), atol=1e-8)


def test_steps_of_another_model_are_refused(tmp_path):
    model = OnlineLinear().fit(X[:, [0, 2]], ETA)
    with pytest.raises(ValueError, match="must give the columns of the model; got"):
        model.export(tmp_path / "model.py", preprocessor=StandardScaler().fit(X))
    rows = np.column_stack([X[:, 0], np.arange(60) % 6])
    grouped = GroupedLinear(groups=[1], max_iter=1).fit(rows, ETA)
    with pytest.raises(ValueError, match="None for models with groups"):
        grouped.export(tmp_path / "model.py", preprocessor=StandardScaler().fit(rows))


def people(n, seed=0):
    """A table with numbers, strings and gaps in both."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.uniform(20.0, 80.0, n),
            "city": rng.choice(["Bern", "Oslo", "Rome"], n),
            "rooms": rng.integers(1, 5, n),
            "income": rng.lognormal(10.0, 1.0, n),
            "member": rng.choice([True, False], n),
        }
    )
    table.loc[::7, "age"] = np.nan
    table.loc[3::9, "city"] = np.nan
    table.loc[5::8, "income"] = np.nan
    table["children"] = pd.array(rng.integers(0, 3, n), dtype="Int64")
    table.loc[2::6, "children"] = pd.NA
    return table


def production(sparse_output=True, **encoder):
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    encoder = OneHotEncoder(sparse_output=sparse_output, **encoder)
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), encoder)
    return make_column_transformer((numbers, ["income", "age"]), (texts, ["city"]))


PIPELINES = {
    "production": production(handle_unknown="ignore"),
    "frames": production(False, drop="first").set_output(transform="pandas"),
    "infrequent": make_column_transformer(
        (OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist"), [1, 2]),
        (make_pipeline(StandardScaler(), SimpleImputer(add_indicator=True)), [0, 3]),
        remainder="drop",
    ),
    "ordinal": make_column_transformer(
        (OrdinalEncoder(encoded_missing_value=-2.0), lambda frame: ["city"]),
        (OneHotEncoder(drop="if_binary"), ["member", "rooms"]),
    ),
    "target": make_column_transformer(
        (TargetEncoder(), slice("city", "rooms")),
        (SimpleImputer(strategy="constant", fill_value=-1.0), ["income", "children"]),
        ("passthrough", ["rooms"]),
    ),
}


@pytest.mark.parametrize("steps", PIPELINES.values(), ids=PIPELINES.keys())
def test_gaps_and_categories_are_exported(steps, tmp_path):
    table = people(90)
    y = (table["rooms"] + (table["city"] == "Oslo") > 2).to_numpy()
    last = Logistic(**TINY, prior_scale=1.0)
    pipe = make_pipeline(steps, last)
    pipe.fit(table, y)[-1].export(tmp_path / "model.py", preprocessor=pipe[:-1])
    module, new = written(tmp_path / "model.py"), people(40, seed=1)
    expected = pipe.predict_proba(new)
    assert_allclose(module.predict_proba(new), expected, rtol=0.0, atol=1e-10)
    assert_allclose(module.predict_proba(new.to_numpy().tolist()), expected, atol=1e-10)
    assert np.array_equal(module.predict(new), pipe.predict(new))
    # Columns are found by name.
    turned = new.iloc[:, ::-1].assign(other="x")
    assert_allclose(module.predict_proba(turned), expected, atol=1e-10)


@pytest.mark.parametrize("unknown", ["ignore", "error"])
def test_unseen_categories_are_what_they_are_in_the_pipeline(unknown, tmp_path):
    table = people(60)
    steps = production(handle_unknown=unknown)
    pipe = make_pipeline(steps, OnlineLinear(learning_rate="auto"))
    pipe.fit(table, ETA)[-1].export(tmp_path / "model.py", preprocessor=pipe[:-1])
    module, new = written(tmp_path / "model.py"), table.assign(city="Paris")
    if unknown == "ignore":
        assert_allclose(module.predict(new), pipe.predict(new), rtol=1e-9)
    else:
        with pytest.raises(ValueError, match="category 'Paris', which"):
            module.predict(new)
    with pytest.raises(ValueError, match=r"none named 'rooms' \(4 missing in all"):
        module.predict(new[["age", "city"]])
    with pytest.raises(ValueError, match=r"must have shape \(n_samples, 6\)"):
        module.predict(new[["age", "city"]].to_numpy())
