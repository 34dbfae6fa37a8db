"""Fit a thousand times in one process, and look at its memory and threads.

    python tests/soak/soak.py [--fits 1000]

Run by hand, on Linux. Memory that is held after the first tenth of the fits is what
caches and pools need; from there to the end it may grow by `ALLOWED` megabytes. The
exit status is 1 if it grows by more, or if there are more threads than before.
"""

import argparse
import gc
import os
import sys
import threading
import warnings
from itertools import cycle, islice

import numpy as np
from sklearn.base import clone

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
    BoostedGaussianMixture,
    BoostedMatrixFactorization,
    OnlineBayesianLinearRegression,
    OnlineBayesianLogisticRegression,
    SVIGaussianMixture,
    SVILatentDirichletAllocation,
    SVIMatrixFactorization,
    boost_posterior,
)
from skboost.strategies import GreedySearch

# Fragments of the heap: they come and go from fit to fit.
ALLOWED = 8.0


def megabytes():
    """Memory of the process that is held."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def n_threads():
    """Threads of the process, those of libraries included."""
    return len(os.listdir("/proc/self/task"))


def bump(theta):
    return -0.5 * np.sum(theta**2, axis=-1)


def fits():
    """Functions that fit one estimator each."""
    rng = np.random.default_rng(0)
    X = np.round(np.abs(rng.normal(size=(30, 3)) * 3.0))
    y = np.arange(30) % 2
    others = {"max_iter": 1, "random_state": 0}
    tiny = {"search": GreedySearch(16), "max_iter": 2, "random_state": 0}
    models = [
        BoostedBayesianLogisticRegression(**tiny, n_jobs=2),
        BoostedBayesianLinearRegression(**tiny),
        BoostedBayesianPoissonRegression(**tiny),
        BoostedGaussianMixture(2, **others),
        BoostedMatrixFactorization(1, n_draws=4, **others),
        OnlineBayesianLogisticRegression(),
        OnlineBayesianLinearRegression(),
        SVIGaussianMixture(2, n_init=2, n_jobs=2, max_iter=5, random_state=0),
        SVILatentDirichletAllocation(2, max_iter=2, random_state=0),
        SVIMatrixFactorization(1, max_iter=3, random_state=0),
    ]
    made = [lambda m=m: clone(m).fit(X, y) for m in models]
    settings = tiny | {"gradient": lambda t: -t, "vectorized": True}
    return [*made, lambda: boost_posterior(bump, 2, **settings)]


def main(n_fits):
    """Return whether nothing grew."""
    warnings.simplefilter("ignore")
    before = None
    for k, fit in enumerate(islice(cycle(fits()), n_fits), start=1):
        fit()
        if k % max(1, n_fits // 10) == 0:
            now = megabytes(), n_threads(), threading.active_count()
            before = before or now
            sys.stdout.write(
                f"{k} fits: {now[0]:.1f} MB, {now[1]} threads, {now[2]} of Python\n"
            )
            sys.stdout.flush()
    return now[0] - before[0] < ALLOWED and now[1:] <= before[1:]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=1000)
    sys.exit(not main(parser.parse_args().fits))
