"""Writes the files beside it, in the format of the skboost that runs it.

Those in a folder ``0.1.0`` were written by skboost 0.1.0, once, on x86_64; no later
version writes them again. ``tests/test_old_files.py`` says what has to become of them.

Run as ``python write.py FOLDER``.
"""

import json
import pickle
import sys
from pathlib import Path

import autograd.numpy as np

import skboost
from skboost import (
    BoostedBayesianLogisticRegression,
    BoostedGaussianMixture,
    EvidenceSearch,
    SVIGaussianMixture,
    boost_posterior,
)
from skboost.families import Gaussian

TINY = {"n_draws": 16, "n_restarts": 1, "max_iter": 2, "tol": 0.0, "random_state": 0}


def two_bumps(theta):
    """Two unequal normal bumps in any dimension."""
    far = -2.0 * np.sum((theta + 2.0) ** 2, axis=-1)
    return np.logaddexp(far, -0.5 * np.sum((theta - 2.0) ** 2, axis=-1))


def gamma_times_simplex(theta):
    """A positive number, a number in an interval, and a point of a simplex."""
    first = 2.0 * np.log(theta[:, 0]) - theta[:, 0]
    shares = np.sum(np.log(theta[:, 2:]), axis=1)
    return first - theta[:, 1] ** 2 + 2.0 * shares


FAMILIES = {
    "gaussian_full": {"family": "gaussian", "component_covariance": "full"},
    "gaussian_diag": {"family": "gaussian", "component_covariance": "diag"},
    "gaussian_low_rank": {"family": Gaussian("low_rank", rank=1)},
    "laplace": {"family": "laplace"},
    "student_t": {"family": "student_t"},
    "hellinger": {"objective": "hellinger", "component_covariance": "full"},
}
CONSTRAINTS = {0: "positive", "slope": (-1.0, 2.0), (2, 3, 4): "simplex"}
# Those of which the whole result is written: two, to keep the folder small.
RESULTS = ("gaussian_low_rank", "constraints")
NAMES = ["rate", "slope", "a", "b", "c"]


def results():
    """Results by name, and points at which their densities are recorded."""
    points = np.array([[-2.0, -1.5, -2.2], [0.0, 0.3, -0.1], [2.0, 2.5, 1.0]])
    for name, settings in FAMILIES.items():
        yield name, boost_posterior(two_bumps, 3, **TINY | settings), points
    result = boost_posterior(
        gamma_times_simplex, 5, constraints=CONSTRAINTS, names=NAMES, **TINY
    )
    points = [[0.5, 0.0, 0.2, 0.3, 0.5], [3.0, -0.7, 0.6, 0.3, 0.1]]
    yield "constraints", result, np.array(points)


def main(folder):
    """Write everything."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {"skboost_version": skboost.__version__, "densities": {}}
    for name, result, points in results():
        result.posterior.save(folder / f"posterior_{name}.npz")
        if name in RESULTS:
            result.save(folder / f"result_{name}.npz")
        record["densities"][name] = {
            "points": points.tolist(),
            "posterior": result.posterior.log_density(points).tolist(),
            "stages": [p.log_density(points).tolist() for p in result.stages],
            "elbo": result.elbo,
            "names": result.posterior.names,
        }
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2)) + 4.0 * (np.arange(12) % 2)[:, None]
    y = np.arange(12) % 2
    mixture = BoostedGaussianMixture(2, **TINY | {"n_draws": 4}).fit(X)
    mixture.posterior_.save(folder / "mixture.npz")
    draws = mixture.posterior_.sample(2, random_state=0)
    record["mixture"] = {
        "draws": {key: value.tolist() for key, value in draws.items()},
        "log_density": mixture.posterior_.log_density(draws).tolist(),
    }
    settings = TINY | {"n_draws": 4, "prior": "laplace", "component_covariance": "diag"}
    logistic = BoostedBayesianLogisticRegression(**settings).fit(X, y)
    search = EvidenceSearch(SVIGaussianMixture(max_iter=2), {"n_components": [1, 2]})
    objects = {
        "logistic": logistic,
        "mixture": mixture,
        "svi": SVIGaussianMixture(2, max_iter=2, random_state=0).fit(X),
        "search": search.set_params(n_repeats=1, random_state=0).fit(X),
        "posterior": logistic.posterior_,
        "posterior_constraints": result.posterior,
        "result": result,
    }
    for name, fitted in objects.items():
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(fitted, protocol=5))
    text = json.dumps(record, indent=1, default=lambda tuple_: list(tuple_))
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
