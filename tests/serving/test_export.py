"""Exported models predict what the estimators predict, without the package."""

import json
import os
import subprocess
import sys
from functools import cache
from runpy import run_path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import BoostedGaussianMixture
from skboost.families import Gaussian, Laplace, StudentT
from skboost.serving import BinaryClassifier, standalone, write_module
from skboost.strategies import GreedySearch

from ..kinds import Linear, Logistic, OnlineLinear, OnlineLogistic, Poisson

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [1.0, 3.0, 0.2]
ETA = X @ [1.0, -0.5, 2.0]
TWO = np.array(["no", "yes"])[(ETA + RNG.logistic(size=60) > 0).astype(int)]
THREE = np.digitize(ETA + RNG.logistic(size=60), [-1.0, 1.0]) * 10
REAL = ETA + RNG.normal(size=60)
COUNTS = RNG.poisson(np.exp(0.3 * ETA))
# Far out too, where tails and wide Gaussians need their own rules.
NEW = np.concatenate([RNG.normal(size=(40, 3)), 1e3 * RNG.normal(size=(40, 3))])
TINY = {
    "search": GreedySearch(32), "max_iter": 2, "tol": 0.0, "prior_scale": 1.0,
    "random_state": 0,
}  # fmt: skip


class Own(Laplace):
    """A family whose predictions have no rule of their own."""

    distribution = "own"


LOGISTIC, LINEAR = Logistic, Linear
POISSON = Poisson
ONLINE, STREAM = OnlineLogistic, OnlineLinear
DISPERSED = {"likelihood": "negative_binomial"}
MODELS = {
    "full": (LOGISTIC, TWO, {"prior_scale": "learn"}),
    "diag": (LOGISTIC, TWO, {"family": "gaussian-diag"}),
    "low rank": (LOGISTIC, TWO, {"family": Gaussian("low_rank", rank=1)}),
    "no intercept": (LOGISTIC, TWO, {"fit_intercept": False}),
    "student_t": (LOGISTIC, TWO, {"family": "student_t"}),
    "student_t, diag": (LOGISTIC, TWO, {"family": StudentT("diag", df=3.0)}),
    "laplace": (LOGISTIC, TWO, {"family": "laplace"}),
    "own family": (LOGISTIC, TWO, {"family": Own(), "max_iter": 1, "orbit": None}),
    "roots": (LOGISTIC, TWO, {"family": "gaussian-diag", "objective": "hellinger"}),
    "three classes": (LOGISTIC, THREE, {}),
    "boolean": (ONLINE, TWO == "yes", {}),
    "objects": (ONLINE, TWO.astype(object), {}),
    "online, diag": (ONLINE, TWO, {"covariance": "diag"}),
    "online, three": (ONLINE, THREE, {}),
    "linear": (LINEAR, REAL, {}),
    "linear, known noise": (LINEAR, REAL, {"noise_scale": 0.5}),
    "linear, t noise": (LINEAR, REAL, {"noise": "student_t"}),
    "linear, laplace": (LINEAR, REAL, {"family": "laplace"}),
    "online linear": (STREAM, REAL, {}),
    "online linear, one row": (STREAM, REAL[:1], {}),
    "online linear, known": (
        STREAM, REAL, {"noise_scale": 1.0, "method": "ngvi", "covariance": "diag"}
    ),
    "poisson": (POISSON, COUNTS, {}),
    "negative binomial": (POISSON, COUNTS, DISPERSED),
    "negative binomial, student_t": (
        POISSON, COUNTS, DISPERSED | {"family": "student_t"}
    ),
    "poisson, student_t": (POISSON, COUNTS, {"family": "student_t"}),
}  # fmt: skip


@cache
def model_of(name):
    """Fitted once for all tests."""
    kind, y, settings = MODELS[name]
    few = {} if kind in (ONLINE, STREAM) else TINY
    return kind(**few | settings).fit(X[: len(y)], y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


QUICK = "full", "three classes", "linear", "boolean", "poisson"
SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in MODELS if n not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_predictions_are_those_of_the_estimator_bit_for_bit(name, folder):
    model, path = model_of(name), folder / f"{name}.py"
    model.export(path)
    names = run_path(str(path))
    with pytest.raises(ValueError, match=r"shape \(n_samples, 3\); got \(2, 2\)"):
        names["predict"](np.zeros((2, 2)))
    with pytest.raises(ValueError, match="finite"):
        names["predict"](np.full((1, 3), np.nan))
    if hasattr(model, "predict_proba"):
        assert np.array_equal(names["predict_proba"](NEW), model.predict_proba(NEW))
        labels = names["predict"](NEW)
        assert labels.dtype == model.classes_.dtype
        assert np.array_equal(labels, model.predict(NEW))
        return
    # Rates of counts overflow where the linear predictor is in the hundreds.
    rows = NEW[:40] if isinstance(model, Poisson) else NEW
    assert np.array_equal(names["predict"](rows), model.predict(rows))
    expected = model.predict(rows, return_std=True)
    assert np.array_equal(names["predict"](rows, return_std=True), expected)


RUNS_ALONE = """
import importlib.util, json, pathlib, sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("skboost", "sklearn", "scipy", "autograd"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nothing())
import numpy as np
rows = np.array(json.loads(sys.stdin.read()))
out = {}
for path in pathlib.Path(sys.argv[1]).glob("*.py"):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    predict = getattr(module, "predict_proba", module.predict)
    out[path.stem] = predict(rows).tolist()
assert not {"skboost", "sklearn", "scipy"} & set(sys.modules)
sys.stdout.write(json.dumps(out))
"""


def test_the_package_can_not_be_imported_where_the_files_run(tmp_path):
    models = {name: model_of(name) for name in ("full", "laplace", "linear", "poisson")}
    models["mixture"] = BoostedGaussianMixture(2, max_iter=1, random_state=0).fit(X)
    for name, model in models.items():
        model.export(tmp_path / f"{name}.py")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", RUNS_ALONE, tmp_path],
        input=json.dumps(NEW[:40].tolist()), text=True,
        capture_output=True, check=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found.keys() == models.keys()
    for name, model in models.items():
        predict = getattr(model, "predict_proba", model.predict)
        assert_allclose(found[name], predict(NEW[:40]), rtol=1e-12, atol=1e-12)


def test_a_file_that_can_not_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "model.py"
    model_of("full").export(path)
    before = path.read_bytes()
    assert len(before) < 25_000

    def full_disk(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        model_of("linear").export(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.py"]
    with pytest.raises(FileNotFoundError, match="nowhere/model.py'$"):
        model_of("linear").export(tmp_path / "nowhere" / "model.py")


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        Logistic().export(tmp_path / "model.py")
    model = BinaryClassifier(1, False, np.array([1j, 2j]), np.ones(1), ())
    with pytest.raises(ValueError, match=r"got \['complex'\]"):
        write_module(tmp_path / "model.py", model, "Classifier")


def test_families_without_a_quadrature_come_as_draws(folder):
    model = model_of("own family")
    model.export(folder / "own.py")
    (part, *_) = run_path(str(folder / "own.py"))["_MODEL"].parts
    assert part.draws.shape == (1024, 4)
    assert_allclose(part.moments(np.eye(4))[0], model.posterior_.mean(), atol=0.1)


def test_two_definitions_under_one_name_are_noticed(monkeypatch):
    text = "from skboost.one import f\nfrom skboost.two import g\n"
    files = {
        "skboost.top": text + "def h():\n    return f(), g()\n",
        "skboost.one": "A = 1\ndef f():\n    return A\n",
        "skboost.two": "A = 2\ndef g():\n    return A\n",
    }
    monkeypatch.setattr("skboost.serving._module._source_of", files.__getitem__)
    with pytest.raises(RuntimeError, match=r"skboost\.one and skboost\.two"):
        standalone([("skboost.top", "h")])
