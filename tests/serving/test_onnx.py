"""ONNX graphs give what the estimators give, run by onnxruntime."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
    OnlineBayesianLinearRegression,
    OnlineBayesianLogisticRegression,
)
from skboost.families import Gaussian
from skboost.serving import BinaryClassifier, GaussianPart, onnx_model
from skboost.targets import sigmoid_expectation

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(1)
X = RNG.normal(size=(50, 3)) * [1.0, 3.0, 0.2]
ETA = X @ [1.0, -0.5, 2.0]
TWO = np.array(["no", "yes"])[(ETA + RNG.logistic(size=50) > 0).astype(int)]
REAL = ETA + RNG.normal(size=50)
NEW = np.concatenate([RNG.normal(size=(40, 3)), 1e3 * RNG.normal(size=(40, 3))])
TINY = {"n_draws": 32, "max_iter": 2, "tol": 0.0, "prior_scale": 1.0, "random_state": 0}


def outputs(model, X):
    """What onnxruntime makes of a graph, by name."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def classifiers():
    learned = TINY | {"prior_scale": "learn"}
    yield "full", BoostedBayesianLogisticRegression(**learned), TWO
    diag = {"family": "gaussian-diag", "fit_intercept": False}
    yield "diag", BoostedBayesianLogisticRegression(**TINY, **diag), TWO
    low_rank = {"family": Gaussian("low_rank", rank=1)}
    yield "low rank", BoostedBayesianLogisticRegression(**TINY, **low_rank), TWO
    yield "integers", BoostedBayesianLogisticRegression(**TINY), 3 * (TWO == "no")
    yield "boolean, online", OnlineBayesianLogisticRegression(), TWO == "no"
    yield "reals, online", OnlineBayesianLogisticRegression(), 3.0 * (TWO == "no")


@pytest.mark.parametrize(
    ("model", "y"), [c[1:] for c in classifiers()], ids=[c[0] for c in classifiers()]
)
def test_binary_classifiers(model, y):
    model.fit(X, y)
    found = outputs(model.to_onnx(), NEW)
    expected = model.predict_proba(NEW)
    assert_allclose(found["probabilities"], expected, rtol=0.0, atol=1e-9)
    assert np.array_equal(found["label"], model.predict(NEW))


def test_input_in_single_precision():
    model = BoostedBayesianLogisticRegression(**TINY).fit(X, TWO)
    rows = NEW.astype(np.float32)
    found = outputs(model.to_onnx(dtype="float32"), rows)
    assert_allclose(found["probabilities"], model.predict_proba(rows), atol=1e-9)
    with pytest.raises(ValueError, match="dtype must be"):
        model.to_onnx(dtype="int8")


@pytest.mark.parametrize("std", [0.0, 1e-3, 0.5, 2.99, 3.01, 4.5, 10.0, 1e3, 1e6])
def test_every_width_of_the_linear_predictor(std):
    # One feature moves the mean; its variance is that of the intercept alone.
    mean = np.concatenate([np.linspace(-40.0, 40.0, 81), [-1e6, -300.0, 300.0, 1e6]])
    part = GaussianPart(np.array([1.0, 0.0]), np.array([0.0, std**2]))
    model = BinaryClassifier(1, True, np.array([0, 1]), np.ones(1), (part,))
    found = outputs(onnx_model(model), mean[:, None])["probabilities"][:, 1]
    assert_allclose(found, sigmoid_expectation(mean, std), rtol=0.0, atol=1e-9)


def regressions():
    yield "inferred noise", BoostedBayesianLinearRegression(**TINY)
    yield "known noise", BoostedBayesianLinearRegression(**TINY, noise_scale=0.7)
    noise = {"noise": "student_t", "noise_df": 2.0, "fit_intercept": False}
    yield "no variance", BoostedBayesianLinearRegression(**TINY, **noise)
    yield "online", OnlineBayesianLinearRegression()
    yield (
        "online, diag",
        OnlineBayesianLinearRegression(
            method="ngvi", covariance="diag", noise_scale=1.0
        ),
    )


@pytest.mark.parametrize(
    "model", [r[1] for r in regressions()], ids=[r[0] for r in regressions()]
)
def test_linear_regressions(model):
    model.fit(X, REAL)
    found = outputs(model.to_onnx(), NEW)
    mean, std = model.predict(NEW, return_std=True)
    assert_allclose(found["mean"], mean, rtol=1e-9, atol=1e-9)
    assert_allclose(found["std"], std, rtol=1e-9)


def several():
    three = np.digitize(ETA + RNG.logistic(size=50), [-1.0, 1.0])
    five = np.digitize(ETA, [-2.0, -0.5, 0.5, 2.0])
    diag = {"family": "gaussian-diag", "fit_intercept": False}
    low_rank = {"family": Gaussian("low_rank", rank=1)}
    for name, options in {"": {}, ", diag": diag, ", low rank": low_rank}.items():
        model = BoostedBayesianLogisticRegression(**TINY, **options)
        yield f"three{name}", model, three, 1e-9
    yield "five", BoostedBayesianLogisticRegression(**TINY), five, 1e-9
    laplace = BoostedBayesianLogisticRegression(**TINY, family="laplace")
    yield "by draws", laplace, three, 1e-12
    yield "online", OnlineBayesianLogisticRegression(), three, 1e-9
    sharp = BoostedBayesianLogisticRegression(**TINY, sharpen=True)
    yield "sharpened", sharp, three, 1e-9
    yield "two, sharpened", sharp, (ETA > 0).astype(int), 1e-9


@pytest.mark.parametrize(
    ("model", "y", "tolerance"),
    [c[1:] for c in several()],
    ids=[c[0] for c in several()],
)
def test_several_classes(model, y, tolerance):
    labels = np.array(list("abcde"))[y]
    near = NEW[:40]
    found = outputs(model.fit(X, labels).to_onnx(), near)
    expected = model.predict_proba(near)
    assert_allclose(found["probabilities"], expected, rtol=0.0, atol=tolerance)
    assert_allclose(found["probabilities"].sum(axis=1), 1.0)
    assert np.array_equal(found["label"], model.predict(near))


@pytest.mark.slow
def test_several_classes_far_out():
    y = np.digitize(ETA, [-2.0, 0.0, 1.0])
    model = BoostedBayesianLogisticRegression(**TINY).fit(X, y)
    rows = np.random.default_rng(2).normal(size=(100, 3))
    for size in (30.0, 1e3, 1e6):
        found = outputs(model.to_onnx(), size * rows)["probabilities"]
        expected = model.predict_proba(size * rows)
        assert_allclose(found, expected, rtol=0.0, atol=1e-8)


def others():
    three = np.arange(50) % 3
    yield BoostedBayesianLogisticRegression(**TINY, family="laplace").fit(X, TWO)
    yield BoostedBayesianPoissonRegression(**TINY).fit(X, three)


def test_other_models_say_what_to_use_instead():
    for model in others():
        with pytest.raises(NotImplementedError, match=r"Use export\(path\)"):
            model.to_onnx()


def test_without_onnx_the_error_names_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    model = OnlineBayesianLogisticRegression().fit(X, TWO)
    with pytest.raises(ImportError, match="pip install onnx"):
        model.to_onnx()
