"""The same fit for every number of threads of BLAS and every way to start a process."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import skboost
from skboost import BoostedBayesianLogisticRegression, SVIGaussianMixture

# Rounding of BLAS may differ between kernels for one thread and for several; the fits
# use one thread, so that what is left is what happens outside of them.
ROUNDING = 1e-10
SCRIPT = """
import json
import numpy as np
from skboost import BoostedBayesianLogisticRegression, SVIGaussianMixture
rng = np.random.default_rng(0)
X = rng.standard_normal((4000, 30))
y = X[:, 0] + rng.logistic(size=len(X)) > 0
one = BoostedBayesianLogisticRegression(random_state=0, max_iter=1, n_draws=32)
two = SVIGaussianMixture(3, random_state=0, max_iter=5)
one.fit(X, y), two.fit(X)
print(json.dumps([one.coef_.tolist(), one.elbo_, two.means_.tolist(), two.elbo_]))
"""


def run_with(threads):
    path = str(Path(skboost.__file__).parents[1])
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    settings = dict.fromkeys(names, str(threads)) | {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | settings, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.slow
def test_threads_of_blas_do_not_show():
    for one, two in zip(run_with(1), run_with(2), strict=True):
        assert_allclose(one, two, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_way_to_start_a_process_does_not_show(method):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 5))
    y = X[:, 0] + rng.logistic(size=len(X)) > 0
    one = BoostedBayesianLogisticRegression(random_state=0, max_iter=1, n_draws=32)
    two = SVIGaussianMixture(3, random_state=0, max_iter=5, n_init=2)
    with multiprocessing.get_context(method).Pool(1) as pool:
        # A method of an estimator, because workers can not import a test.
        there = pool.apply(one.fit, (X, y)), pool.apply(two.fit, (X,))
    one.fit(X, y), two.fit(X)
    assert_allclose(there[0].coef_, one.coef_, rtol=ROUNDING, atol=ROUNDING)
    assert_allclose(there[0].elbo_, one.elbo_, rtol=ROUNDING)
    assert_allclose(there[1].means_, two.means_, rtol=ROUNDING, atol=ROUNDING)
    assert_allclose(there[1].elbo_by_init_, two.elbo_by_init_, rtol=ROUNDING)
