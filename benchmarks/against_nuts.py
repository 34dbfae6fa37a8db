"""Boosting and exact sampling on six posteriors: energy distance over CPU seconds.

    python benchmarks/against_nuts.py [--replicates 5] [--only NAME ...]

nutpie (NUTS in Rust, PyMC models; the `bench` extra) with two chains and three budgets,
(warm-up, draws) each, and six settings of ours, turn by turn in one process. ``energy``
is the distance to long runs of NUTS, in the coordinates of the model: the median over
seeds for nutpie, the mean of ten sets of 4,000 draws for ours, spread evenly over the
fits, with their standard error; ``scaled`` the same with every coordinate divided by
its posterior standard deviation, from one set of each fit. Seconds are medians, without
nutpie's compilation, which has a column; ``seeds`` says of how many.

ds1_100 and eight schools have long runs in the shared folder; those of breast cancer
and wine are made by nutpie (4 chains, 500 + 2,000, every second draw). Where rows are
many the posterior is so near to a Gaussian that independent exact draws are cheaper,
by rejection from it.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from _harness import Report, mean_and_error, parser, rival_module, shared_module, timed  # isort: skip

import numpy as np
from _energy import EnergyTo, independent
from logistic_ds1 import log_joint
from scipy.linalg import solve_triangular
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import scale

from skboost import BoostedBayesianLogisticRegression, boost_posterior

# Warm-up and draws of each of two chains; the last is what we are compared with.
NUTPIE = ((100, 150), (200, 300), (400, 1000))
OURS = {
    "one Gaussian": {"max_iter": 1},
    'one Gaussian, "auto"': {"max_iter": 1, "calibrate": "auto"},
    'one Gaussian, "moments"': {"max_iter": 1, "calibrate": "moments"},
    "default": {},
    'default, "auto"': {"calibrate": "auto"},
    'default, "moments"': {"calibrate": "moments"},
}
N_SETS, SET_SIZE = 10, 4000
MANY_ROWS = 10_000
# Warm-up, draws, chains and thinning of the long runs that are not stored.
LONG = (500, 2000, 4, 2)
# Proposals for each coordinate, and how much wider than the Gaussian they are.
N_PROPOSED, WIDER = 240, 1.01


@dataclass
class Task:
    """A posterior: our fit of it, its PyMC model, and long runs of NUTS.

    `fit` takes options and returns a posterior; `model` takes the module of models.
    `refreshed` takes draws and returns better ones of the same distribution.
    Seconds and energy that were asked for, where they are not a third of nutpie's
    seconds and its own energy, belong to the setting that is named.
    """

    fit: callable
    model: callable
    columns: str | None = None
    reference: object = None
    refreshed: object = None
    seconds: float | None = None
    energy: float | None = None
    setting: str = "default"


def logistic_task(X, y, n_classes=2, intercept=True, **options):
    """`BoostedBayesianLogisticRegression` by default, and the same model in PyMC."""

    wide = np.column_stack([X, np.ones(len(X))]) if intercept else X
    # The defaults of the estimator: the intercept has a scale of its own.
    scales = np.ones(wide.shape[1])
    scales[-1] = 10.0 if intercept else 1.0

    def fit(**settings):
        model = BoostedBayesianLogisticRegression(fit_intercept=intercept, **settings)
        return model.fit(X, y).posterior_

    def model(models):
        if n_classes > 2:
            return models.softmax(wide, y, scales)
        return models.logistic(wide, (y > 0).astype(int), scales)

    if n_classes > 2:
        options["refreshed"] = partial(new_common_part, scales, n_classes)
    if len(X) >= MANY_ROWS:
        signs = np.where(y > 0, 1.0, -1.0)
        options["reference"] = partial(rejected, wide, signs, scales)
    return Task(fit, model, **options)


def new_common_part(scales, n_classes, draws):
    """Draws whose mean over classes is drawn anew, independently.

    The likelihood knows differences between classes alone. So the mean over classes
    is independent of them, and N(0, scale^2 / n_classes) as in the prior; for the
    intercept that is the widest direction, in which a chain moves slowly.
    """
    parts = draws.reshape(len(draws), n_classes, -1)
    rng = np.random.default_rng(1)
    new = rng.standard_normal((len(draws), 1, len(scales)))
    new *= scales / np.sqrt(n_classes)
    return (parts - parts.mean(axis=1, keepdims=True) + new).reshape(draws.shape)


def rejected(X, y, scales, n_steps=20):
    """Independent draws of a logistic posterior, by rejection from one Gaussian.

    The Gaussian is the fixed point of Opper and Archambeau 2009: expectations of slope
    and curvature under itself, by Gauss-Hermite quadrature.
    """
    nodes, shares = np.polynomial.hermite_e.hermegauss(20)
    shares = shares / shares.sum()
    mean, covariance = np.zeros(X.shape[1]), np.zeros((X.shape[1], X.shape[1]))
    for _ in range(n_steps):
        spread = np.sqrt(np.einsum("ij,ij->i", X @ covariance, X))
        p = expit(-y[:, None] * ((X @ mean)[:, None] + spread[:, None] * nodes))
        slope, bend = p @ shares, (p * (1.0 - p)) @ shares
        precision = np.diag(scales**-2.0) + (X * bend[:, None]).T @ X
        covariance = np.linalg.inv(precision)
        mean = mean + covariance @ (X.T @ (y * slope) - mean / scales**2)
    rng = np.random.default_rng(0)
    n = max(12_000, N_PROPOSED * len(mean))
    z = WIDER * rng.standard_normal((n, len(mean)))
    draws = mean + solve_triangular(np.linalg.cholesky(precision).T, z.T).T
    log_weights = log_joint(X, y)(draws) + 0.5 * (z**2).sum(axis=1) / WIDER**2
    # The prior of that function has scale 1 everywhere.
    log_weights += 0.5 * (draws**2 * (1.0 - scales**-2.0)).sum(axis=1)
    log_weights -= log_weights.max()
    kept = np.log(rng.random(n)) < log_weights
    print(f"rejection: {kept.sum()} of {n} kept, standard deviation of the "
          f"log weights {log_weights.std():.2f}", flush=True)  # fmt: skip
    return draws[kept][:SET_SIZE]


def schools_task(target):
    """Eight schools, non-centred, as posteriordb has it."""

    def fit(**settings):
        return boost_posterior(target.logp, target.dim, **settings).posterior

    with np.load(Path(target.path)) as file:
        effects, errors = file["data_y"].astype(float), file["data_sigma"].astype(float)
    return Task(
        fit,
        lambda models: models.eight_schools(effects, errors),
        columns="schools_columns",
        reference=target.z,
        seconds=1.0,
    )


def generated(n_rows=10_000, dim=200, seed=0):
    """Independent normal columns, coefficients N(0, 1 / 25)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim))
    coef = 0.2 * rng.standard_normal(dim)
    return X, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-X @ coef))).astype(int)


def tasks_of(shared, report):
    """Name and maker of every task that can be run here."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer, 569 x 31", lambda: logistic_task(scale(X), y)
    Z, classes = load_wine(return_X_y=True)
    yield (
        "wine, three classes",
        lambda: logistic_task(scale(Z), classes, n_classes=3, seconds=3.0),
    )
    tasks = shared_module(shared, "reference", "tasks")
    if tasks is None:
        report.not_run("ds1_100", "no reference tasks in the shared folder")
    else:
        yield "ds1_100, 1,871 x 101", lambda: ds1_100(tasks.ds1_100())
    targets = shared_module(shared, "posteriordb", "targets")
    if targets is None:
        report.not_run("eight schools", "no posteriors in the shared folder")
    else:
        yield "eight schools, non-centred", lambda: schools(shared, targets)
    load = shared_module(shared, "data", "load")
    if load is None:
        report.not_run("ds1", "no data in the shared folder")
    else:
        yield "ds1, 24,060 x 11", lambda: ds1(load.load("ds1_10"))
    yield (
        "generated, 10,000 x 200",
        lambda: logistic_task(*generated()),
    )


def ds1_100(task):
    return logistic_task(
        task.X, task.y, intercept=False, reference=task.draws, seconds=2.5,
        energy=0.002, setting='default, "auto"',
    )  # fmt: skip


def ds1(data):
    X, y = data["X_train"].astype(float), data["y_train"]
    return logistic_task(X, y, intercept=False)


def schools(shared, targets):
    name = "eight_schools-eight_schools_noncentered"
    target = targets.load(name)
    target.path = shared / "posteriordb" / f"{name}.npz"
    return schools_task(target)


def long_run(sampler, name, task):
    """Reference draws: those of the task, or new ones by nutpie."""
    if callable(task.reference):
        return task.reference()
    if task.reference is not None:
        return task.reference
    tune, n_draws, chains, thin = LONG
    draws, _, rhat = sampler.run(tune, n_draws, 1, chains)
    print(f"long run of {name}: R-hat {rhat:.4f}", flush=True)
    return draws[::thin] if task.refreshed is None else task.refreshed(draws[::thin])


def compare(report, name, task, models, args):
    """All settings of one posterior, turn by turn, and what they make of it."""
    done = measured(name, task, models, args)
    rows = [summary(label, done) for label in dict.fromkeys(r["method"] for r in done)]
    for row in rows:
        report.row(f"{name}: energy over seconds", **row)
    judge(report, name, task, {row["method"]: row for row in rows})


def measured(name, task, models, args):
    """Figures of every run."""
    columns = getattr(models, task.columns) if task.columns else None
    sampler = models.Sampler(task.model(models), columns)
    draws = long_run(sampler, name, task)
    energies = EnergyTo(draws), EnergyTo(draws, scaled=True)
    methods = {
        **{method_of(b): partial(sampled, sampler, b) for b in NUTPIE},
        **{label: partial(fitted, task, o, args) for label, o in OURS.items()},
    }
    done = []
    for seed in range(args.replicates):
        for method, run in methods.items():
            found = run(seed, *energies)
            found |= {"method": method, "compilation": sampler.seconds}
            print(f"{name}: {method}, seed {seed}: {found['cpu']:.2f} s", flush=True)
            done.append(found)
    return done


def sampled(sampler, budget, seed, energy, scaled):
    """One run of nutpie."""
    draws, cpu, rhat = sampler.run(*budget, 100 + seed)
    return {"cpu": cpu, "energies": [energy(draws)], "scaled": scaled(draws),
            "rhat": rhat, "components": None}  # fmt: skip


def fitted(task, options, args, seed, energy, scaled):
    """One fit of ours, and its share of the sets of draws."""
    posterior, cpu, _ = timed(task.fit, random_state=seed, **options)
    sets = [
        independent(posterior, SET_SIZE, 1000 + k)
        for k in range(seed, N_SETS, args.replicates)
    ]
    return {
        "cpu": cpu,
        "energies": [energy(draws) for draws in sets],
        "scaled": scaled(sets[0]),
        "components": posterior.n_components,
    }


def summary(method, done):
    """A row from the runs of a method."""
    runs = [run for run in done if run["method"] == method]
    energies = [value for run in runs for value in run["energies"]]
    middle = np.mean if method in OURS else np.median
    components = [run["components"] for run in runs if run["components"] is not None]
    return {
        "method": method,
        "energy": float(middle(energies)),
        "se": mean_and_error(energies)[1],
        "scaled": float(np.median([run["scaled"] for run in runs])),
        "CPU s": float(np.median([run["cpu"] for run in runs])),
        "components": float(np.median(components)) if components else None,
        "seeds": len(runs),
        "compilation s": None if method in OURS else runs[0]["compilation"],
    }


def method_of(budget):
    return f"nutpie, {budget[0]} + {budget[1]}"


def judge(report, name, task, rows):
    """The bars of the default or the named setting; the cheapest that is as good."""
    rival = rows[method_of(NUTPIE[-1])]
    seconds = task.seconds or rival["CPU s"] / 3.0
    for label in dict.fromkeys(("default", task.setting)):
        row = rows[label]
        report.bar(f"{name}: {label}: energy", row["energy"], "<=",
                   bound_of(row, rival))  # fmt: skip
    row = rows[task.setting]
    report.bar(f"{name}: {task.setting}: CPU s", row["CPU s"], "<=", seconds)
    if task.energy is not None:
        report.bar(f"{name}: {task.setting}: energy, its own row", row["energy"],
                   "<=", task.energy, row["se"])  # fmt: skip
    reached = [
        row for label, row in rows.items()
        if label in OURS and row["energy"] <= bound_of(row, rival)
    ]  # fmt: skip
    best = min(reached, key=lambda row: row["CPU s"], default=None)
    report.row(
        "the cheapest setting that comes as near as 2,000 draws of nutpie",
        posterior=name,
        setting=best["method"] if best else "none",
        energy=best["energy"] if best else None,
        **{"nutpie's energy": rival["energy"]},
        **{"CPU s": best["CPU s"] if best else None, "nutpie's s": rival["CPU s"]},
        **{"nutpie's / ours": rival["CPU s"] / best["CPU s"] if best else None},
    )


def bound_of(row, rival):
    """What the energy may be: nutpie's, and the larger of .001 and two errors."""
    return rival["energy"] + max(0.001, 2.0 * row["se"])


def main():
    made = parser(__doc__, replicates=5)
    made.add_argument("--only", nargs="+", default=[""], help="parts of names")
    args = made.parse_args()
    report = Report("against_nuts", args.out, replicates=args.replicates)
    models = rival_module(report, "_nutpie", "all")
    if models is None:
        return
    for name, maker in tasks_of(args.shared, report):
        if any(part in name for part in args.only):
            compare(report, name, maker(), models, args)
        else:
            report.not_run(name, "not asked for")


if __name__ == "__main__":
    main()
