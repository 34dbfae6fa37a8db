"""ONNX graphs give what the estimators give, run by onnxruntime."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.families import Gaussian
from skboost.serving import BinaryClassifier, GaussianPart, onnx_model
from skboost.strategies import GreedySearch
from skboost.targets import sigmoid_expectation

from ..kinds import Linear, Logistic, OnlineLinear, OnlineLogistic, Poisson, over

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")


RNG = np.random.default_rng(1)
X = RNG.normal(size=(50, 3)) * [1.0, 3.0, 0.2]
ETA = X @ [1.0, -0.5, 2.0]
TWO = np.array(["no", "yes"])[(ETA + RNG.logistic(size=50) > 0).astype(int)]
REAL = ETA + RNG.normal(size=50)
NEW = np.concatenate([RNG.normal(size=(40, 3)), 1e3 * RNG.normal(size=(40, 3))])
TINY = {"search": GreedySearch(32), "max_iter": 2, "tol": 0.0, "prior_scale": 1.0}
TINY["random_state"] = 0


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    """Compiling the loop of a stream takes five seconds."""
    monkeypatch.setattr("skboost.online._loops.compiler", lambda: None)


def outputs(model, X):
    """What onnxruntime makes of a graph, by name."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


LOGISTIC, LINEAR = Logistic, Linear
DIAG = {"family": "gaussian-diag", "fit_intercept": False}
LOW_RANK = {"family": Gaussian("low_rank", rank=1)}
CLASSIFIERS = {
    "full": (LOGISTIC(**TINY | {"prior_scale": "learn"}), TWO),
    "diag": (LOGISTIC(**TINY, **DIAG), TWO),
    "low rank": (LOGISTIC(**TINY, **LOW_RANK), TWO),
    "integers": (LOGISTIC(**TINY), 3 * (TWO == "no")),
    "boolean, online": (OnlineLogistic(), TWO == "no"),
    "reals, online": (OnlineLogistic(), 3.0 * (TWO == "no")),
}


@over("name", CLASSIFIERS, slow=["low rank"])
def test_binary_classifiers(name):
    model, y = CLASSIFIERS[name]
    model.fit(X, y)
    found = outputs(model.to_onnx(), NEW)
    expected = model.predict_proba(NEW)
    assert_allclose(found["probabilities"], expected, rtol=0.0, atol=1e-9)
    assert np.array_equal(found["label"], model.predict(NEW))


def test_input_in_single_precision():
    model = Logistic(**TINY).fit(X, TWO)
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


NO_VARIANCE = {"noise": "student_t", "fit_intercept": False}
REGRESSIONS = {
    "inferred noise": LINEAR(**TINY),
    "known noise": LINEAR(**TINY, noise_scale=0.7),
    "no variance": LINEAR(**TINY, **NO_VARIANCE),
    "online": OnlineLinear(),
    "online, diag": OnlineLinear(method="ngvi", covariance="diag", noise_scale=1.0),
}


@pytest.mark.parametrize("model", REGRESSIONS.values(), ids=REGRESSIONS)
def test_linear_regressions(model):
    model.fit(X, REAL)
    found = outputs(model.to_onnx(), NEW)
    mean, std = model.predict(NEW, return_std=True)
    assert_allclose(found["mean"], mean, rtol=1e-9, atol=1e-9)
    assert_allclose(found["std"], std, rtol=1e-9)


THREE = np.digitize(ETA + RNG.logistic(size=50), [-1.0, 1.0])
SHARP = LOGISTIC(**TINY, sharpen=True)
SEVERAL = {
    "three": (LOGISTIC(**TINY), THREE, 1e-9),
    "three, diag": (LOGISTIC(**TINY, **DIAG), THREE, 1e-9),
    "three, low rank": (LOGISTIC(**TINY, **LOW_RANK), THREE, 1e-9),
    "five": (LOGISTIC(**TINY), np.digitize(ETA, [-2.0, -0.5, 0.5, 2.0]), 1e-9),
    "by draws": (LOGISTIC(**TINY, family="laplace"), THREE, 1e-12),
    "online": (OnlineLogistic(), THREE, 1e-9),
    "sharpened": (SHARP, THREE, 1e-9),
    "two, sharpened": (SHARP, (ETA > 0).astype(int), 1e-9),
}


@over("name", SEVERAL, slow=["three, diag", "three, low rank", "five"])
def test_several_classes(name):
    model, y, tolerance = SEVERAL[name]
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
    model = Logistic(**TINY).fit(X, y)
    for size in (30.0, 1e3, 1e6):
        found = outputs(model.to_onnx(), size * NEW[:40])["probabilities"]
        expected = model.predict_proba(size * NEW[:40])
        assert_allclose(found, expected, rtol=0.0, atol=1e-8)


def test_other_models_say_what_to_use_instead(monkeypatch):
    laplace = Logistic(**TINY, family="laplace").fit(X, TWO)
    counts = Poisson(**TINY).fit(X, np.arange(50) % 3)
    for model in (laplace, counts):
        with pytest.raises(
            NotImplementedError, match=rf"got a {type(model).__name__}\b.* Use exp"
        ):
            model.to_onnx()
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    model = OnlineLogistic().fit(X, TWO)
    with pytest.raises(ImportError, match="pip install onnx"):
        model.to_onnx()
