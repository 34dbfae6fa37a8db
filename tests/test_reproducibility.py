"""The same fit for every number of jobs and threads, every backend, every process."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose

import skboost
from skboost import (
    BoostedGaussianMixture,
    BoostedMatrixFactorization,
    SVIGaussianMixture,
    SVILatentDirichletAllocation,
)
from skboost.conjugate import Documents, TopicModel
from skboost.strategies import GreedySearch

from .kinds import Logistic

pytestmark = pytest.mark.slow

# Rounding of BLAS may differ between kernels for one thread and for several; the fits
# use one thread, so that what is left is what happens outside of them.
ROUNDING = 1e-10
SCRIPT = """
import json
import numpy as np
from skboost import BoostedBayesianLogisticRegression, SVIGaussianMixture
from skboost.strategies import GreedySearch
rng = np.random.default_rng(0)
X = rng.standard_normal((4000, 30))
y = X[:, 0] + rng.logistic(size=len(X)) > 0
search = GreedySearch(32)
one = BoostedBayesianLogisticRegression(random_state=0, max_iter=1, search=search)
two = SVIGaussianMixture(3, random_state=0, max_iter=5)
one.fit(X, y), two.fit(X)
print(json.dumps([one.coef_.tolist(), one.elbo_, two.means_.tolist(), two.elbo_]))
"""


def test_threads_of_blas_do_not_show():
    path, found = str(Path(skboost.__file__).parents[1]), []
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    for threads in "12":
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | dict.fromkeys(names, threads) | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout))
    for one, two in zip(*found, strict=True):
        assert_allclose(one, two, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_way_to_start_a_process_does_not_show(method):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 5))
    y = X[:, 0] + rng.logistic(size=len(X)) > 0
    one = Logistic(random_state=0, max_iter=1, search=GreedySearch(32))
    two = SVIGaussianMixture(3, random_state=0, max_iter=5, n_init=2)
    with multiprocessing.get_context(method).Pool(1) as pool:
        # A method of an estimator, because workers can not import a test.
        there = pool.apply(one.fit, (X, y)), pool.apply(two.fit, (X,))
    one.fit(X, y), two.fit(X)
    assert_allclose(there[0].coef_, one.coef_, rtol=ROUNDING, atol=ROUNDING)
    assert_allclose(there[0].elbo_, one.elbo_, rtol=ROUNDING)
    assert_allclose(there[1].means_, two.means_, rtol=ROUNDING, atol=ROUNDING)
    assert_allclose(there[1].elbo_by_init_, two.elbo_by_init_, rtol=ROUNDING)


# --- every number of jobs: of few rows the contracts tell

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 12)) + 2.0 * (np.arange(400) % 2)[:, None]
Y = (X[:, 0] + RNG.logistic(size=400) > 1.0).astype(int)
TINY = {"search": GreedySearch(64), "max_iter": 3, "random_state": 0}
# More rows than one block, so that threads have something to share.
LONG = RNG.standard_normal((20_000, 6))
LONG_Y = LONG[:, 0] + RNG.logistic(size=len(LONG)) > 0
THREE = np.digitize(LONG[:4000, 0], [-0.5, 0.5])


def logistic(X, y, **settings):
    model = Logistic(**TINY | {"search": GreedySearch(32)} | settings)
    return lambda n_jobs: model.set_params(n_jobs=n_jobs).fit(X, y)


# Of one kind of prior: three of the default take three times the seconds.
FITS = {
    "logistic": logistic(X, Y, prior="laplace"),
    "gaussian": logistic(LONG, LONG_Y, max_iter=2, tol=0.0, prior="normal"),
    "laplace": logistic(
        LONG[:6000], LONG_Y[:6000], max_iter=1, family="laplace", prior_scale=1.0
    ),
    "three classes": logistic(LONG[:4000], THREE, max_iter=1, prior_scale=1.0),
    "adaptive": logistic(
        LONG,
        LONG_Y,
        max_iter=2,
        tol=0.0,
        step_size="adaptive",
        corrective="away",
        prior_scale=1.0,
    ),
}


def numbers(model):
    """Fitted arrays and numbers, the report included; none of them is a time."""
    found = {name: getattr(model, name, None) for name in dir(model) if name[-1] == "_"}
    return {
        name: np.asarray(value)
        for name, value in found.items()
        if name[0] != "_" and isinstance(value, float | np.ndarray)
    }


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_backends_do_not_show(backend):
    alone = numbers(FITS["three classes"](1))
    with parallel_config(backend=backend, n_jobs=2):
        found = numbers(FITS["three classes"](None))
    for key, value in alone.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


@pytest.mark.parametrize("name", FITS)
def test_every_number_of_jobs_gives_the_same_bits(name):
    alone = numbers(FITS[name](1))
    for n_jobs in (3, -1):
        found = numbers(FITS[name](n_jobs))
        assert found.keys() == alone.keys()
        for key, value in alone.items():
            np.testing.assert_array_equal(found[key], value, err_msg=f"{key} {n_jobs}")


# --- conjugate models in other processes: data are sent once


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), 4)
    shares = rng.dirichlet(np.full(4, 0.3), 2_500)
    return rng.poisson(40.0 * shares @ topics)


@pytest.fixture
def written(monkeypatch):
    """Values that were written to files for workers."""
    found, dump = [], joblib.dump

    def counted(value, path):
        found.append(type(value).__name__)
        return dump(value, path)

    monkeypatch.setattr("skboost._parallel.joblib.dump", counted)
    return found


def test_documents_that_go_on_from_before_do_so_in_other_processes(counts):
    model = TopicModel(4, counts.shape[1], 0.3, 0.1)
    rng = np.random.default_rng(1)
    natural = {"topics": {"lambda": rng.gamma(2.0, 1.0, counts.shape[::-1][:1] + (4,))}}
    rows, table = Documents.of(counts), model._table(natural)
    start = rng.gamma(2.0, 5.0, (len(rows), 4))

    def proportions(gamma):
        found = model._proportions(table, rows, gamma)
        return np.concatenate([own.gamma for _, own in found])

    here = proportions(start)
    with parallel_config("loky", n_jobs=2):
        model.n_jobs = 2
        there = proportions(start)
    assert np.array_equal(here, there)
    assert not np.array_equal(here, proportions(None))


@pytest.mark.parametrize("kind", ["mixture", "factorisation", "topics"])
def test_conjugate_models_are_the_same_in_other_processes(kind, written, counts):
    rng = np.random.default_rng(0)
    if kind == "topics":
        X, model = counts, SVILatentDirichletAllocation(4, random_state=0, max_iter=6)
    elif kind == "mixture":
        X = rng.standard_normal((120, 2)) + 3.0 * rng.integers(0, 2, (120, 1))
        model = BoostedGaussianMixture(2, max_iter=2, random_state=0)
    else:
        X = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 8))
        model = BoostedMatrixFactorization(2, max_iter=2, random_state=0)
    one = model.fit(X).elbo_
    with parallel_config("loky", n_jobs=2):
        two = model.fit(X).elbo_
    assert one == two
    assert len(written) == 1
