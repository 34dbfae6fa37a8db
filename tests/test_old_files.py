"""Files of earlier versions: archives are read, pickles refused in a sentence."""

import copy
import io
import json
import pickle
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import skboost
from skboost import (
    BoostedBayesianLogisticRegression,
    BoostingResult,
    MixturePosterior,
    SVIGaussianMixture,
    boost_posterior,
)
from skboost.decomposition import MatrixFactorizationPosterior
from skboost.mixture import ConjugateMixturePosterior
from skboost.strategies import GreedySearch

FOLDER = Path(__file__).parent / "data" / "0.1.0"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
DENSITIES = EXPECTED["densities"]
# Rounding of another processor.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
NEW = FOLDER.parent / "0.2.0"
LATER = f"{skboost.__version__}1"
NEW_EXPECTED = json.loads((NEW / "expected.json").read_text(encoding="utf-8"))


# --- archives


@pytest.mark.parametrize("name", DENSITIES)
def test_posteriors_are_read(name):
    expected = DENSITIES[name]
    posterior = MixturePosterior.load(FOLDER / f"posterior_{name}.npz")
    found = posterior.log_density(np.array(expected["points"]))
    assert_allclose(found, expected["posterior"], **CLOSE)
    assert list(posterior.names or []) == (expected["names"] or [])


@pytest.mark.parametrize(
    "path", list(FOLDER.glob("result_*.npz")), ids=lambda p: p.stem
)
def test_results_are_read(path):
    expected = DENSITIES[path.stem.removeprefix("result_")]
    result = BoostingResult.load(path)
    points = np.array(expected["points"])
    assert result.elbo == expected["elbo"]
    assert result.n_iter == len(result.history) == len(expected["stages"])
    assert_allclose(
        result.posterior.log_density(points), expected["posterior"], **CLOSE
    )
    for stage, values in zip(result.stages, expected["stages"], strict=True):
        assert_allclose(stage.log_density(points), values, **CLOSE)


@pytest.mark.parametrize("name", NEW_EXPECTED["results"])
def test_warped_results_and_corrected_ones_are_read(name):
    expected = NEW_EXPECTED["results"][name]
    result = BoostingResult.load(NEW / f"result_{name}.npz")
    found = result.posterior.log_density(np.array(expected["points"]))
    assert_allclose(found, expected["posterior"], rtol=1e-9, atol=1e-9)
    assert result.elbo == expected["elbo"]
    warped = result.warp is not None and result.warp.accepted
    assert warped == expected["warp"]


@pytest.mark.parametrize(
    ("cls", "name", "folder", "close"),
    [
        (ConjugateMixturePosterior, "mixture", FOLDER, 1e-12),
        (ConjugateMixturePosterior, "sticks", NEW, 1e-9),
        (MatrixFactorizationPosterior, "factors", NEW, 1e-9),
    ],
)
def test_conjugate_posteriors_are_read(cls, name, folder, close):
    expected = (EXPECTED if folder == FOLDER else NEW_EXPECTED)[name]
    draws = {key: np.array(value) for key, value in expected["draws"].items()}
    found = cls.load(folder / f"{name}.npz").log_density(draws)
    assert_allclose(found, expected["log_density"], rtol=close, atol=close)


# --- pickles


def unpickled(path):
    """What a file holds, where this NumPy is not older than the arrays in it."""
    try:
        return pickle.loads(path.read_bytes())
    except TypeError as error:
        if "_frombuffer" in str(error):
            pytest.skip("this NumPy can not read arrays that a later one pickled")
        raise


@pytest.mark.parametrize(
    "path",
    sorted(FOLDER.parent.glob("*/*.pkl")),
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_pickles_of_earlier_versions_are_refused(path):
    version = re.escape(path.parent.name)
    with pytest.raises(pickle.UnpicklingError, match=f"skboost {version} and") as error:
        unpickled(path)
    assert f"skboost {skboost.__version__}:" in str(error.value)


def density(theta):
    return -0.5 * np.sum(theta**2, axis=-1)


def score(theta):
    return -theta


X = np.random.default_rng(0).normal(size=(20, 2))
Y = (X[:, 0] > 0).astype(int)


@cache
def objects():
    few = {"max_iter": 1, "search": GreedySearch(16), "random_state": 0}
    logistic = BoostedBayesianLogisticRegression(**few).fit(X, Y)
    return {
        "estimator": logistic,
        "unfitted": BoostedBayesianLogisticRegression(),
        "pipeline": make_pipeline(logistic),
        "svi": SVIGaussianMixture(2, max_iter=1, random_state=0).fit(X),
        "result": boost_posterior(density, 2, gradient=score, **few),
    }


@pytest.fixture(params=["estimator", "unfitted", "pipeline", "svi", "result"])
def written(request):
    return objects()[request.param]


@pytest.mark.parametrize(("version", "protocol"), [("0.2.0", 2), (LATER, 5)])
def test_other_versions_are_refused(written, version, protocol, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("skboost._pickles.__version__", version)
        data = pickle.dumps(written, protocol=protocol)
        pickle.loads(data)
    with pytest.raises(pickle.UnpicklingError, match=f"skboost {version} and cannot"):
        pickle.loads(data)


def test_the_version_is_checked_before_anything_else_is_looked_up(written, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("skboost._pickles.__version__", "0.9.0")
        data = pickle.dumps(written)

    class Reader(pickle.Unpickler):
        """Knows the classes that hold a version, and nothing that they hold."""

        def find_class(self, module, name):
            if module.startswith("skboost") and name not in known:
                raise ModuleNotFoundError(module)
            return super().find_class(module, name)

    known = {
        "check_version", "BoostingResult", "BoostedBayesianLogisticRegression",
        "SVIGaussianMixture",
    }  # fmt: skip
    with pytest.raises(pickle.UnpicklingError, match=r"skboost 0\.9\.0"):
        Reader(io.BytesIO(data)).load()


def test_the_same_version_and_copies_are_read(written):
    read = pickle.loads(pickle.dumps(written))
    for again in (read, copy.copy(written), copy.deepcopy(written)):
        assert type(again) is type(written)
        # Boosted estimators keep their run for warm_start=True only.
        assert vars(again).keys() | {"_run"} == vars(written).keys() | {"_run"}
        assert "_skboost_version" not in vars(again)
