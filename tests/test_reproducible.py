"""The same fit for every number of threads, of jobs, and every way to start processes.

Chunks and streams do not depend on workers, so ``n_jobs`` changes no bit. BLAS adds up
in another order with more threads, where work is large enough for it to use them; fits
run it on one, so that is not seen either.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skboost

pytestmark = pytest.mark.slow

FIT = """
import json, sys, warnings
import numpy as np
from skboost import *

def digits(*arrays):
    return [float(x).hex() for a in arrays for x in np.ravel(a)]

def fits(n_jobs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12)) + 2.0 * (np.arange(400) % 2)[:, None]
    y = (X[:, 0] + rng.logistic(size=400) > 1.0).astype(int)
    tiny = {"n_draws": 64, "max_iter": 3, "random_state": 0, "n_jobs": n_jobs}
    a = BoostedBayesianLogisticRegression(prior="laplace", n_restarts=3, **tiny)
    a.fit(X, y)
    b = BoostedBayesianLinearRegression(**tiny).fit(X, X[:, 1] + y)
    c = SVIGaussianMixture(3, n_init=3, max_iter=10, random_state=0, n_jobs=n_jobs)
    c.fit(X)
    d = OnlineBayesianLogisticRegression().fit(X, y)
    return {
        "logistic": digits(a.elbo_, a.coef_, a.predict_proba(X[:9])),
        "linear": digits(b.elbo_, b.coef_),
        "mixture": digits(c.elbo_, c.means_),
        "online": digits(d.coef_, d.coef_std_),
    }

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    method = sys.argv[2]
    if method == "here":
        found = fits(int(sys.argv[1]))
    else:
        import multiprocessing
        with multiprocessing.get_context(method).Pool(1) as pool:
            found = pool.apply(fits, (int(sys.argv[1]),))
    sys.stdout.write(json.dumps(found))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("reproducible") / "fits.py"
    path.write_text(FIT, encoding="utf-8")
    return path


def run(script, n_jobs=1, method="here", blas="1"):
    """The fits of a new process, as hexadecimal digits."""
    root = str(Path(skboost.__file__).parents[1])
    threads = {"OMP_NUM_THREADS": blas, "OPENBLAS_NUM_THREADS": blas}
    done = subprocess.run(
        [sys.executable, script, str(n_jobs), method],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONPATH": root} | threads,
        text=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def plain(script):
    return run(script)


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_every_number_of_jobs_gives_the_same_bits(script, plain, n_jobs):
    assert run(script, n_jobs=n_jobs) == plain


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_every_way_to_start_a_process_gives_the_same_bits(script, plain, method):
    assert run(script, method=method) == plain


def test_two_numbers_of_blas_threads_agree_to_rounding(script, plain):
    found = run(script, blas="2")
    for name, values in plain.items():
        first, second = (
            np.array([float.fromhex(x) for x in v]) for v in (values, found[name])
        )
        np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-12, err_msg=name)
