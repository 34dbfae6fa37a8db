"""Small seeded fits, recorded bit for bit, to compare two versions of the package.

    python benchmarks/record_fits.py record FILE [--only NAME ...]
    python benchmarks/record_fits.py compare FILE [--only NAME ...]

``record`` runs every fit with the `skboost` that Python imports and writes weights,
parameters of the components, estimates, gains and messages to an npz archive.
``compare`` runs them again and names every fit that differs and by how much; it exits
with 1 if any does. Only the public interface is used, so that the script runs with
versions that are built differently. Rounding differs between processors: compare on
the machine that recorded, with the same versions of NumPy and SciPy.
"""

import _harness  # noqa: F401  isort: skip  (it asks for one thread of BLAS)

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import autograd.numpy as anp
import numpy as np
from scipy import sparse

import skboost
from skboost import (
    BoostedBayesianLogisticRegression,
    BoostedGaussianMixture,
    boost_posterior,
)
from skboost.families import Gaussian, StudentT
from skboost.strategies import AdaptiveBacktracking, GreedySearch, ResidualGain

# --- densities


def bumps(theta):
    """Two Gaussians in one dimension, (n, 1) -> (n,)."""
    return anp.logaddexp(
        -2.0 * (theta[:, 0] + 2.0) ** 2, -0.5 - (theta[:, 0] - 2.0) ** 2
    )


def banana(theta):
    """A parabola of probability in two dimensions."""
    return -0.5 * theta[:, 0] ** 2 - 2.0 * (theta[:, 1] - 0.5 * theta[:, 0] ** 2) ** 2


def ring(theta):
    """A circle of radius 2."""
    return -4.0 * (anp.sqrt(anp.sum(theta**2, axis=1) + 1e-3) - 2.0) ** 2


def heavy(theta):
    """A two-dimensional Student-t with 3 degrees of freedom."""
    return -2.5 * anp.log1p(theta[:, 0] ** 2 / 3.0 + theta[:, 1] ** 2 / 12.0)


def corners(theta):
    """Four separate modes of unequal mass in two dimensions."""
    values = [
        weight - 2.0 * (theta[:, 0] - x) ** 2 - 2.0 * (theta[:, 1] - y) ** 2
        for weight, x, y in ((0.0, 4, 4), (-0.5, -4, 4), (-1.0, 4, -4), (-1.5, -4, -4))
    ]
    top = anp.max(anp.array(values), axis=0)
    return top + anp.log(anp.sum(anp.exp(anp.array(values) - top), axis=0))


def chain(theta):
    """Twelve correlated coordinates with one heavy-tailed sum."""
    steps = theta[:, 1:] - 0.8 * theta[:, :-1]
    return (
        -0.5 * anp.sum(theta**2, axis=1)
        - anp.sum(steps**2, axis=1)
        - anp.log1p(anp.sum(theta, axis=1) ** 2)
    )


def gamma_beta(theta):
    """A gamma density beside a beta density."""
    a, b = theta[:, 0], theta[:, 1]
    return 1.5 * anp.log(a) - 2.0 * a + 2.0 * anp.log(b) + 0.5 * anp.log1p(-b)


def dirichlet(theta):
    """A Dirichlet density with parameters 2, 3, 4."""
    return anp.log(theta) @ anp.array([1.0, 2.0, 3.0])


def half_plane(theta):
    """A Gaussian that fails left of -1.5."""
    return anp.where(theta[:, 0] < -1.5, anp.nan, -0.5 * anp.sum(theta**2, axis=1))


# --- data


def binary(n=40, dim=5):
    """Few rows, so that the posterior under a wide prior is skewed."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((n, dim))
    eta = X @ np.linspace(4.0, -3.0, dim) + 0.3
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)


def wide():
    """More columns than a full covariance is the default for."""
    return binary(60, 320)


def many_rows():
    """Several blocks of rows, and more rows than one block of draws."""
    return binary(6000, 20)


def three_classes():
    rng = np.random.default_rng(12)
    y = rng.integers(0, 3, 45)
    return rng.standard_normal((45, 2)) + 2 * np.array([[1, 0], [0, 1], [-1, -1]])[y], y


def few_words():
    rng = np.random.default_rng(13)
    X = sparse.random(150, 8, density=0.3, random_state=13, format="csr")
    eta = X @ np.linspace(-3.0, 3.0, 8)
    y = (rng.random(150) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    return X, y, rng.integers(1, 4, 150).astype(float)


def two_clusters():
    rng = np.random.default_rng(14)
    X = rng.standard_normal((80, 2)) * [0.7, 1.0]
    X[:40] += [3.0, 1.0]
    return X


# --- fits


def density(log_density, dim, **settings):
    settings = {"max_iter": 5, "random_state": 0} | settings
    return lambda: boost_posterior(log_density, dim, **settings)


def logistic(data, **settings):
    settings = {"max_iter": 4, "prior_scale": 5.0, "random_state": 0} | settings

    def run():
        X, y, *weight = data()
        model = BoostedBayesianLogisticRegression(**settings)
        return model.fit(X, y, *weight)

    return run


def logistic_in_two_parts():
    X, y = binary()
    model = BoostedBayesianLogisticRegression(
        max_iter=3, prior_scale=5.0, random_state=0
    )
    return model.partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])


def clusters(**settings):
    settings = {"max_iter": 3, "random_state": 0} | settings
    return lambda: BoostedGaussianMixture(2, **settings).fit(two_clusters())


def plain(log_density, dim, step_size, corrective, **settings):
    """One of the papers' step rules, without refinement."""
    given = {
        "step_size": step_size,
        "corrective": corrective,
        "search": GreedySearch(refine=False),
    }
    return density(log_density, dim, **{**given, "max_iter": 8, **settings})


ON_THE_RING = [[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0]]

FITS = {
    "kl, banana": density(banana, 2, max_iter=8),
    "kl, no refinement": density(banana, 2, search=GreedySearch(refine=False)),
    "line-search, away": plain(banana, 2, "line-search", "away"),
    "line-search, pairwise": plain(ring, 2, "line-search", "pairwise"),
    "adaptive, none": plain(bumps, 1, "adaptive", "none"),
    "adaptive, away": plain(ring, 2, "adaptive", "away", x0=ON_THE_RING),
    "adaptive, pairwise": plain(bumps, 1, "adaptive", "pairwise"),
    "adaptive, lipschitz": plain(
        ring, 2, AdaptiveBacktracking(form="lipschitz"), "pairwise"
    ),
    "adaptive, fully": density(ring, 2, step_size="adaptive"),
    "predefined, away": plain(ring, 2, "predefined", "away"),
    "predefined, fully": density(banana, 2, step_size="predefined"),
    "constant, none": plain(bumps, 1, 0.3, "none"),
    "relbo": density(banana, 2, objective="relbo"),
    "relbo, several starts": density(ring, 2, objective="relbo", x0=ON_THE_RING),
    "relbo, predefined, away": plain(
        ring, 2, "predefined", "away", objective="relbo", x0=ON_THE_RING
    ),
    "relbo, laplace": density(ring, 2, objective=ResidualGain(0.5), family="laplace"),
    "laplace": density(ring, 2, family="laplace"),
    "student_t": density(heavy, 2, family="student_t"),
    "student_t, df auto": density(heavy, 2, family=StudentT("diag", df="auto")),
    "diagonal": density(banana, 2, family=Gaussian("diag")),
    "low rank": density(chain, 12, family=Gaussian("low_rank"), max_iter=3),
    "box": density(corners, 2, x0=([-6.0, -6.0], [6.0, 6.0])),
    "several starts": density(corners, 2, x0=[[4.0, 4.0], [-4.0, 4.0]], max_iter=5),
    "interval": density(
        gamma_beta,
        2,
        constraints=["positive", "unit_interval"],
        search=GreedySearch(stopping="gap"),
    ),
    "simplex": density(dirichlet, 3, constraints="simplex"),
    "failing points": density(half_plane, 2, failures="zero", max_evaluations=20_000),
    "few components": density(ring, 2, search=GreedySearch(max_components=2)),
    "hellinger": density(bumps, 1, objective="hellinger", max_iter=3),
    "hellinger, no refinement": density(
        banana, 2, objective="hellinger", search=GreedySearch(refine=False)
    ),
    "hellinger, laplace": density(
        heavy, 2, objective="hellinger", family="laplace", max_iter=2
    ),
    "logistic": logistic(binary),
    "logistic, many rows": logistic(many_rows, max_iter=2),
    "logistic, wide": logistic(
        wide, max_iter=2, search=GreedySearch(n_draws=128, refine=False)
    ),
    "logistic, three classes": logistic(three_classes),
    "logistic, sparse": logistic(few_words),
    "logistic, laplace prior": logistic(binary, prior="laplace", prior_scale=2.0),
    "logistic, student_t prior": logistic(
        binary,
        prior="student_t",
        family=Gaussian("low_rank"),
        search=GreedySearch(refine=False),
    ),
    "logistic, diagonal": logistic(
        binary,
        family=Gaussian("diag"),
        temperature=0.7,
        fit_intercept=False,
        class_weight="balanced",
    ),
    "logistic, laplace": logistic(binary, family="laplace", max_iter=2),
    "logistic, student_t": logistic(binary, family="student_t", max_iter=2),
    "logistic, relbo": logistic(binary, objective="relbo", corrective="pairwise"),
    "logistic, in two parts": logistic_in_two_parts,
    "clusters, full": clusters(),
    "clusters, diagonal": clusters(covariance_type="diag", temperature=0.8),
    "clusters, independent": clusters(mean_prior_type="independent", max_iter=2),
}


# --- what is kept of a fit


def record(fit):
    """Arrays and texts of one fit, by name."""
    own = {key.rstrip("_"): value for key, value in _attributes(fit).items()}
    posterior, history = own["posterior"], own["history"]
    kept = {f"posterior {key}": value for key, value in _archived(posterior).items()}
    for key in ("elbo", "elbo_se", "remaining_kl", "pareto_k", "duality_gap", "n_iter"):
        kept[key] = own[key]
    kept["n_evaluations"] = own.get("n_evaluations", 0)
    for key in ("gain", "gamma", "elbo", "remaining_kl", "n_components", "kind"):
        kept[f"history {key}"] = [entry[key] for entry in history]
    kept["message"] = own["message"]
    if hasattr(fit, "predict_proba"):
        points = np.random.default_rng(5).standard_normal((20, fit.n_features_in_))
        kept["predictions"] = fit.predict_proba(points)
    elif not hasattr(fit, "fit"):
        kept["log density at the mean"] = posterior.log_density(posterior.mean()[None])
    return {key: np.asarray(value) for key, value in kept.items()}


def _attributes(fit):
    """Fitted attributes of an estimator, or the fields of a result."""
    names = [name for name in dir(fit) if not name.startswith("_")]
    if hasattr(fit, "fit"):
        names = [name for name in names if name.endswith("_")]
    return {name: getattr(fit, name) for name in names if name not in ("save", "load")}


def _archived(posterior):
    """Weights and parameters as the posterior's own archive holds them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.npz"
        posterior.save(path)
        with np.load(path) as archive:
            return {name: archive[name] for name in archive.files if name != "header"}


def run_all(only):
    """Records of all fits; one that raises is recorded by its error."""
    records, began = {}, time.perf_counter()
    for name, fit in FITS.items():
        if only and not any(part in name for part in only):
            continue
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                records[name] = record(fit())
            except Exception as error:
                records[name] = {"message": np.asarray(f"{error!r}")}
        text = str(records[name]["message"])
        print(f"{time.perf_counter() - start:6.1f} s  {name}: {text[:70]}", flush=True)
    seconds = time.perf_counter() - began
    print(f"{len(records)} fits, {seconds:.0f} s, of {skboost.__file__}")
    return records


# --- comparing


def difference(old, new):
    """What differs between two records, one text each; empty where no bit does."""
    found = []
    for key in sorted({*old, *new}):
        if key not in old or key not in new:
            found.append(f"{key} only {'before' if key in old else 'now'}")
            continue
        a, b = old[key], new[key]
        if a.shape != b.shape:
            found.append(f"{key}: shape {a.shape} -> {b.shape}")
        elif a.dtype.kind in "US" or b.dtype.kind in "US":
            if not np.array_equal(a, b):
                found.append(f"{key}: {a.tolist()} -> {b.tolist()}")
        elif not np.array_equal(a, b, equal_nan=True):
            with np.errstate(invalid="ignore"):
                gap = np.abs(a.astype(float) - b.astype(float))
            found.append(f"{key}: largest difference {np.nanmax(gap):.3g}")
    return found


def compare(old, new):
    """Print what differs; the number of fits that do."""
    n_different = 0
    for name in old:
        found = difference(old[name], new.get(name, {}))
        n_different += bool(found)
        if found:
            print(f"DIFFERS  {name}\n         " + "\n         ".join(found))
        else:
            print(f"same     {name}")
    print(f"{n_different} of {len(old)} fits differ")
    return n_different


def load(path, only):
    with np.load(path) as archive:
        records = {}
        for key in archive.files:
            name, _, part = key.partition(" | ")
            if not only or any(word in name for word in only):
                records.setdefault(name, {})[part] = archive[key]
    return records


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("action", choices=["record", "compare"])
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--only", nargs="*", default=[], help="parts of fits' names")
    given = arguments.parse_args()
    if given.action == "compare":
        return int(compare(load(given.file, given.only), run_all(given.only)) > 0)
    records = run_all(given.only)
    flat = {
        f"{name} | {part}": value
        for name, parts in records.items()
        for part, value in parts.items()
    }
    with open(given.file, "wb") as file:
        np.savez(file, **flat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
