"""Writes files of what skboost 0.2.0 brought: ``python write_new.py FOLDER``.

The folders ``0.1.0`` and ``0.2.0`` were written by these versions and stay as they are.
"""

import json
import pickle
import sys
from pathlib import Path

import numpy as np

import skboost
from skboost import (
    BoostedBayesianLinearRegression,
    BoostedGaussianMixture,
    BoostedMatrixFactorization,
    OnlineBayesianLinearRegression,
    SVILatentDirichletAllocation,
    boost_posterior,
)
from skboost.strategies import GreedySearch

OTHERS = {"max_iter": 2, "tol": 0.0, "random_state": 0}
TINY = {"search": GreedySearch(16), **OTHERS}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2)) + 4.0 * (np.arange(12) % 2)[:, None]
Y = np.arange(12) % 2


def banana(theta):
    """Bent along its first coordinate."""
    bent = theta[:, 1] - 0.5 * theta[:, 0] ** 2
    return -0.5 * (theta[:, 0] ** 2 + 4.0 * bent**2)


def main(folder):
    """Write everything."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {"skboost_version": skboost.__version__, "results": {}}
    warped = boost_posterior(
        banana, 2, **TINY | {"search": GreedySearch(64)}, warp="auto"
    )
    points = np.array([[0.0, 0.1], [1.0, -0.5], [-1.5, 1.0]])
    for name, result in (("warp", warped),):
        result.save(folder / f"result_{name}.npz")
        record["results"][name] = {
            "points": points.tolist(),
            "posterior": result.posterior.log_density(points).tolist(),
            "elbo": result.elbo,
            "warp": result.warp is not None and bool(result.warp.accepted),
        }
    sticks = BoostedGaussianMixture(
        2, **OTHERS, weight_concentration_prior_type="dirichlet_process"
    ).fit(X)
    factors = BoostedMatrixFactorization(1, n_draws=4, **OTHERS).fit(X)
    for name, model in (("sticks", sticks), ("factors", factors)):
        model.posterior_.save(folder / f"{name}.npz")
        draws = model.posterior_.sample(2, random_state=0)
        record[name] = {
            "draws": {key: np.asarray(value).tolist() for key, value in draws.items()},
            "log_density": model.posterior_.log_density(draws).tolist(),
        }
    objects = {
        "linear": BoostedBayesianLinearRegression(**TINY).fit(X, Y),
        "online": OnlineBayesianLinearRegression().fit(X, Y),
        "topics": SVILatentDirichletAllocation(2, max_iter=2, random_state=0).fit(
            np.abs(np.round(X))
        ),
        "factors": factors,
        "sticks": sticks,
    }
    for name, fitted in objects.items():
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(fitted, protocol=5))
    text = json.dumps(record, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
