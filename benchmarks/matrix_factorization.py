"""Matrix factorisation: faces, ratings, new users, ELBO curves.

    python benchmarks/matrix_factorization.py faces --replicates 10
    python benchmarks/matrix_factorization.py unit_noise --replicates 5
    python benchmarks/matrix_factorization.py residual --replicates 1
    python benchmarks/matrix_factorization.py movielens_100k --replicates 5
    python benchmarks/matrix_factorization.py fold_in
    python benchmarks/matrix_factorization.py curves --set movielens_100k --starts 20
    python benchmarks/matrix_factorization.py curves --means normal --ranks 5

Every part writes ``results/matrix_factorization_PART.json``. ALS is the ridge
regression by turns of ``_factors.py``, its penalty chosen on a tenth of the training
entries of another seed; its predictive density is the normal one with the training
error. Bars name the figures that were asked for; their standard errors are over masks
or splits. ``curves --means normal`` starts all means from N(0, 1).
"""

from _harness import Report, mean_and_error, parser, shared_module, timed  # isort: skip

import time
from itertools import product

import numpy as np
import scipy.sparse as sp
from _factors import (
    RidgeALS,
    chosen_ridge,
    faces,
    masked,
    ratings,
    split_entries,
    triples,
)

from skboost import BoostedMatrixFactorization, SVIMatrixFactorization
from skboost._entries import Entries
from skboost.conjugate import FactorTarget, MatrixFactorizationModel, ObservedEntries
from skboost.conjugate.factorization._ascent import factor_round as balanced_round
from skboost.strategies import (
    PerEmbedding,
    ResidualGain,
    RobbinsMonro,
    StochasticSearch,
)

_Z = 1.6448536269514722
_GRIDS = {"faces": (0.03, 0.1, 0.3, 1.0, 3.0), "ratings": (3.0, 6.0, 10.0, 15.0)}
_FACES = {False: (0.0130, 0.0107, 0.0076), True: (0.0120, 0.0098, 0.0073)}
_LARGEST_RMSE = 0.915
# Epochs of curves.
EPOCHS = 50
# Steps of Adam for a component, components after the first, early stopping.
_CLIMBS = (
    ("200 steps", 200, 16, False),
    ("1,000 steps", 1000, 9, False),
    ("1,000 steps, best joint gain", 1000, 3, True),
)
_P2 = {"noise_scale": np.sqrt(0.5), "prior_scale": 1.0}


# --- predictions


def bayes(model, train, held):
    """Squared error, log density, coverage and seconds of one of our estimators."""
    rows, cols, values = held
    model, cpu, _ = timed(model.fit, train)
    mean, std = model.predict_entries(rows, cols, return_std=True)
    inside = np.abs(values - mean) < _Z * std
    density = model.log_density_entries(rows, cols, values)
    return {
        "mse": float(np.mean((values - mean) ** 2)),
        "density": float(density.mean()),
        "coverage": float(inside.mean()),
        "cpu": cpu,
        "elbo": model.elbo_,
    }


def ridge(model, train, held):
    """The same of ALS, with the normal density of the training error."""
    rows, cols, values = held
    found, cpu, _ = timed(model.fit, train)
    where = triples(train)
    std = np.sqrt(np.mean((found.predict(*where[:2]) - where[2]) ** 2))
    errors = values - found.predict(rows, cols)
    density = -0.5 * (errors / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    return {
        "mse": float(np.mean(errors**2)),
        "density": float(density.mean()),
        "coverage": float(np.mean(np.abs(errors) < _Z * std)),
        "cpu": cpu,
        "elbo": np.nan,
    }


def methods(rank, biases, seed, averages):
    """Our estimators by name."""
    own = {"n_components": rank, "biases": biases, "random_state": seed}
    boosted = {**own, "n_restarts": 1, "max_iter": 3}
    found = {
        "single": SVIMatrixFactorization(**own),
        "boosted": BoostedMatrixFactorization(**boosted),
    }
    if averages:
        found["boosted, averaged"] = BoostedMatrixFactorization(
            **boosted, step_size="predefined", corrective="none"
        )
    return found


def table(report, title, label, runs, root):
    """A row for each method, and what boosting changes, paired."""
    for name in runs[0]:
        cells = {"case": label, "method": name}
        errors = [run[name]["mse"] for run in runs]
        errors = np.sqrt(errors) if root else errors
        error, se = mean_and_error(errors)
        cells |= {"RMSE" if root else "MSE": error, "se": se}
        columns = {"density": "log density", "coverage": "90 % inside", "cpu": "CPU s"}
        for key, words in columns.items():
            cells[words] = mean_and_error([run[name][key] for run in runs])[0]
        report.row(title, **cells)
    for name in runs[0]:
        if not name.startswith("boosted"):
            continue
        cells = {"case": label, "method": name}
        columns = {"mse": "MSE", "density": "log density", "elbo": "ELBO"}
        for key, words in columns.items():
            change = [run[name][key] - run["single"][key] for run in runs]
            cells[words], cells["2 se, " + words] = mean_and_error(change)
            cells["2 se, " + words] *= 2.0
        report.row(f"{title}: boosted minus single, paired", **cells)


def bars(report, label, runs, bound, root):
    what = "RMSE" if root else "MSE"
    for name in runs[0]:
        if name == "ALS":
            continue
        errors = [run[name]["mse"] for run in runs]
        value, se = mean_and_error(np.sqrt(errors) if root else errors)
        report.bar(f"{label}, {name}: {what}", value, "<=", bound, se)
        cover, se = mean_and_error([run[name]["coverage"] for run in runs])
        off = abs(cover - 0.9)
        report.bar(f"{label}, {name}: coverage off 0.9", off, "<=", 0.02, se)
    change = [run["boosted"]["mse"] - run["single"]["mse"] for run in runs]
    value, se = mean_and_error(change)
    report.bar(f"{label}: MSE, boosted minus single", value, "<=", 0.0, se)


def run_faces(report, load, args):
    X = faces(load)
    for biases, bounds in _FACES.items():
        for rank, bound in zip((3, 5, 10), bounds, strict=True):
            tuning, _ = masked(X, 1000)
            penalty = chosen_ridge(tuning, rank, biases, _GRIDS["faces"])
            runs = []
            for seed in range(args.replicates):
                train, held = masked(X, seed)
                als = RidgeALS(rank, penalty, biases, n_iter=30, seed=seed)
                found = {"ALS": ridge(als, train, held)}
                for name, model in methods(rank, biases, seed, False).items():
                    found[name] = bayes(model, train, held)
                runs.append(found)
            label = f"rank {rank}, {'biases' if biases else 'no biases'}"
            table(report, "faces", label, runs, root=False)
            bars(report, label, runs, bound, root=False)


def run_residual(report, load, args):
    """The paper's model (unit noise and prior) by its oracle, boosted step by step."""
    X = faces(load)
    for rank, (name, n_steps, n_iter, early) in product((3, 5, 10), _CLIMBS):
        if name not in args.climbs:
            report.not_run(f"rank {rank}, {name}", "not asked for")
            continue
        search = StochasticSearch(n_steps, n_step_draws=None)
        for seed in range(args.replicates):
            train, (rows, cols, values) = masked(X, seed)
            model = BoostedMatrixFactorization(
                rank, proposal=ResidualGain(early_stopping=early), search=search,
                noise_scale=1.0, prior_scale=1.0, step_size="predefined",
                corrective="none", tol=0.0, max_iter=n_iter, n_restarts=1, n_draws=8,
                random_state=seed,
            )  # fmt: skip
            model, cpu, _ = timed(model.fit, train)
            stages = model.staged_predict_entries(rows, cols, return_std=True)
            for t, (mean, std) in enumerate(stages):
                errors, var = values - mean, std**2
                density = -0.5 * (errors**2 / var + np.log(2.0 * np.pi * var))
                report.row(
                    "faces: unit noise, boosted by the residual ELBO",
                    rank=rank, climb=name, mask=seed, t=t,
                    MSE=float(np.mean(errors**2)), ELBO=float(model.elbo_path_[t]),
                    **{"log density": float(density.mean()), "CPU s in all": cpu},
                )  # fmt: skip


def run_unit_noise(report, load, args):
    """One component of the paper's model (unit noise and prior) at an entropy weight.

    E[ln p] + w H divided by w is the ELBO with noise and prior of variance w; densities
    are those of unit noise again, normal with the variance of the predicted mean.
    """
    X = faces(load)
    for rank in (3, 5, 10):
        for t in (0, 7, 16, 35):
            weight = 1.0 / np.sqrt(t + 1.0)
            own = {"noise_scale": np.sqrt(weight), "prior_scale": np.sqrt(weight)}
            mses, densities = [], []
            for seed in range(args.replicates):
                train, (rows, cols, values) = masked(X, seed)
                model = SVIMatrixFactorization(
                    rank, biases=False, random_state=seed, **own
                ).fit(train)
                mean, std = model.predict_entries(rows, cols, return_std=True)
                errors, var = values - mean, 1.0 + std**2 - weight
                density = -0.5 * (errors**2 / var + np.log(2.0 * np.pi * var))
                mses.append(float(np.mean(errors**2)))
                densities.append(float(density.mean()))
            (mse, se), (found, error) = map(mean_and_error, (mses, densities))
            report.row(
                "faces: unit noise, one component, no mixture",
                rank=rank, t=t, **{"entropy weight": weight}, MSE=mse, se=se,
                **{"log density": found, "se, log density": error},
            )  # fmt: skip


def run_ratings(report, load, args):
    X = ratings(load, args.part)
    for rank in (5, 10):
        tuning, _ = split_entries(X, seed=1000)
        penalty = chosen_ridge(tuning, rank, True, _GRIDS["ratings"])
        runs = []
        for seed in range(args.replicates):
            train, test = split_entries(X, seed=seed)
            held = triples(test)
            als = RidgeALS(rank, penalty, True, n_iter=30, seed=seed)
            found = {"ALS": ridge(als, train, held)}
            for name, model in methods(rank, True, seed, True).items():
                found[name] = bayes(model, train, held)
            runs.append(found)
        label = f"rank {rank}"
        table(report, args.part, label, runs, root=True)
        bars(report, label, runs, _LARGEST_RMSE, root=True)


# --- new users


def run_fold_in(report, load, args):
    """A thousand users left out: half of each one's ratings known, half predicted."""
    X = ratings(load, args.set)
    rng = np.random.default_rng(0)
    n_new = min(1000, X.shape[0] // 4)
    order = rng.permutation(X.shape[0])
    new, old = X[order[:n_new]], X[order[n_new:]]
    known, held = split_entries(new, 0.5)
    where = triples(held)
    for rank in (5, 10):
        model = SVIMatrixFactorization(rank, biases=True, random_state=0)
        model, fit_cpu, _ = timed(model.fit, old)
        model.transform(known[:10])
        began = time.process_time()
        folded = model.predict_entries(*where[:2], X=known)
        cpu = time.process_time() - began
        whole = SVIMatrixFactorization(rank, biases=True, random_state=0)
        whole, refit_cpu, _ = timed(whole.fit, sp.vstack([known, old]).tocsr())
        again = whole.predict_entries(*where[:2])
        found = [np.sqrt(np.mean((p - where[2]) ** 2)) for p in (folded, again)]
        report.row(
            f"fold-in of {n_new} new users, {args.set}",
            rank=rank,
            **{
                "ms a user": 1e3 * cpu / n_new,
                "RMSE, folded in": found[0],
                "RMSE, refitted": found[1],
                "CPU s, fit": fit_cpu,
                "CPU s, refit": refit_cpu,
            },
        )
        excess = float(found[0] - found[1])
        report.bar(f"rank {rank}: RMSE above a refit", excess, "<=", 0.01)


# --- ELBO by epoch, as Paisley et al., Fig. 1


_NOISE = {"effective_batch_size": lambda t: 50.0 * t}
STEPS = {
    "batch": {},
    "SVI+, rate t^-0.85": {
        **_NOISE,
        "learning_rate": RobbinsMonro(delay=0.0, forgetting=0.85),
    },
    "SVI+, rate 0.85": {**_NOISE, "learning_rate": 0.85},
    "SVI+, M per embedding": {
        "effective_batch_size": PerEmbedding(lambda t: 50.0 * t),
        "learning_rate": RobbinsMonro(delay=0.0, forgetting=0.85),
    },
    "SVI+, M per embedding, rate 0.85": {
        "effective_batch_size": PerEmbedding(lambda t: 50.0 * t),
        "learning_rate": 0.85,
    },
}


def from_normal(start):
    """A start whose means of columns, from which rows follow, are N(0, 1)."""

    def started(self, rng):
        natural = start(self, rng)
        means = rng.standard_normal((self.shape[1], self.columns.dim))
        return natural | {"columns": self.columns.start(means, 0.01)}

    return started


def run_curves(report, load, args):
    X = ratings(load, args.set)
    if args.means == "normal":
        MatrixFactorizationModel.start = from_normal(MatrixFactorizationModel.start)
    for rank in args.ranks:
        paths = {name: [] for name in args.methods}
        for seed in range(args.starts):
            own = {**_P2, "random_state": seed, "tol": 0.0, "max_iter": EPOCHS}
            for name in args.methods:
                if name == "batch, best gauge":
                    paths[name].append(with_gauge(X, rank, seed, EPOCHS))
                    continue
                model = SVIMatrixFactorization(rank, **own, **STEPS[name])
                paths[name].append(timed(model.fit, X)[0].elbo_path_)
        label = f"{args.set}, rank {rank}"
        summarise(report, label, {k: np.array(v) for k, v in paths.items()}, args)


def with_gauge(X, rank, seed, n_epochs):
    """Bounds of coordinate ascent with the best gauge after every round."""
    entries = Entries.of(X)
    magnitude = float(np.sqrt(np.mean(entries.values**2)))
    model = MatrixFactorizationModel(entries.shape, rank, **_P2, magnitude=magnitude)
    target = FactorTarget(model, ObservedEntries(entries))
    natural, path = model.start(np.random.default_rng(seed)), []
    for _ in range(n_epochs):
        natural = balanced_round(target, natural)
        path.append(target.bound(natural))
    return path


def summarise(report, label, paths, args):
    n = len(paths["batch"])
    for name, found in paths.items():
        value, se = mean_and_error(found[:, -1])
        spread = {"least": found[:, -1].min(), "most": found[:, -1].max()}
        report.row(
            f"{label}: ELBO after {EPOCHS} epochs, {n} starts, nats",
            method=name, mean=value, se=se, **spread,
        )  # fmt: skip
        report.curve(
            case=label, method=name, mean=[float(v) for v in found.mean(axis=0)],
            least=[float(v) for v in found.min(axis=0)],
            most=[float(v) for v in found.max(axis=0)],
        )  # fmt: skip
    for epoch in (2, 5, 10, 20, 30, EPOCHS):
        cells = {"epoch": epoch}
        for name in list(paths)[1:]:
            change = paths[name][:, epoch - 1] - paths["batch"][:, epoch - 1]
            cells[name], cells["2 se, " + name] = mean_and_error(change)
            cells["2 se, " + name] *= 2.0
        report.row(f"{label}: ELBO minus that of batch, paired", **cells)


PARTS = {
    "faces": run_faces,
    "unit_noise": run_unit_noise,
    "residual": run_residual,
    "movielens_100k": run_ratings,
    "fold_in": run_fold_in,
    "curves": run_curves,
}


def main():
    options = parser(__doc__, replicates=5)
    options.add_argument("part", choices=list(PARTS))
    options.add_argument("--set", default="movielens_1m", help="of fold_in and so on")
    options.add_argument("--starts", type=int, default=20, help="of curves")
    climbs = [name for name, *_ in _CLIMBS]
    options.add_argument("--climbs", nargs="+", default=climbs, help="of residual")
    options.add_argument(
        "--ranks", nargs="+", type=int, help="of curves", default=(5, 10)
    )
    options.add_argument("--means", choices=("ours", "normal"), default="ours")
    names = [*STEPS, "batch, best gauge"]
    options.add_argument("--methods", nargs="+", choices=names, default=names)
    options.add_argument("--name", help="of the file")
    args = options.parse_args()
    load = shared_module(args.shared, "data", "load")
    kept = dict.fromkeys(("faces", "unit_noise", "residual"), "replicates")
    kept |= {"movielens_100k": "replicates", "curves": "starts"}
    name = f"matrix_factorization_{args.part}"
    if args.part == "curves":
        name += args.set.removeprefix("movielens") + "_normal" * (args.means != "ours")
    key = kept.get(args.part, "set")
    report = Report(args.name or name, args.out, **{key: getattr(args, key)})
    if load is None:
        report.not_run(args.part, "the shared data are not there")
        return
    PARTS[args.part](report, load, args)


if __name__ == "__main__":
    main()
