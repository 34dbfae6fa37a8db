"""Nats by CPU second: the defaults, their neighbours, and an earlier commit.

    git worktree add ../before COMMIT
    python benchmarks/pareto.py --other ../before [--replicates 3] [--only NAME ...]
    python benchmarks/pareto.py --other ../before --merge PART.json ...
    python benchmarks/pareto.py --front --name pareto_front [--only NAME ...]

Every fit runs in a process of its own, turn by turn, and keeps the CPU seconds at which
each iteration ended, and the ELBO of its mixture by `N_DRAWS` new draws; that of
ds1_100 is the fit's own, whose expectations are in closed form but for the overlap of
components. Thresholds and settings of the engine were chosen while looking at the
*tuned* half of the tasks; the *judged* half is reported apart.

The first call compares with another checkout: ``share`` is the CPU second at which the
ELBO that the other ends with, less `ALLOWED` nats, is reached, over the seconds of the
other's whole run; it is infinite where that is never reached.

``--front`` runs the defaults beside other values of `refine`, `n_draws`, `n_restarts`
and the growth of draws: by how many nats each is ahead of the defaults, on the median
of the tasks, with what is known at several budgets of CPU seconds.
"""

import time

time.perf_counter = time.process_time  # the package's own clock, on a busy machine

from _harness import (  # isort: skip  # noqa: E402
    _ROOT,
    Report,
    commit,
    elbo_of,
    parser,
    shared_module,
)

import dataclasses  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import warnings  # noqa: E402
from pathlib import Path  # noqa: E402

import autograd.numpy as anp  # noqa: E402
import numpy as np  # noqa: E402
from logistic_ds1 import log_joint  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_wine  # noqa: E402
from sklearn.preprocessing import scale  # noqa: E402

import skboost  # noqa: E402
import skboost._base  # noqa: E402
from skboost import (  # noqa: E402
    BoostedBayesianLogisticRegression,
    MixturePosterior,
    boost_posterior,
)

N_DRAWS = 20_000
ALLOWED = 0.02
QUARTER = 0.25
SETTINGS = {
    "defaults": {},
    "refine=False": {"refine": False},
    "n_draws=256": {"n_draws": 256},
    "n_draws=1024": {"n_draws": 1024},
    "n_draws=2048": {"n_draws": 2048},
    "n_restarts=1": {"n_restarts": 1},
    "n_restarts=4": {"n_restarts": 4},
    "draws never grow": {"draw_growth": 1},
    "draws grow to 16": {"draw_growth": 16},
}
# CPU seconds at which settings are compared.
BUDGETS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


# --- tasks: a fit gives its stages, and the ELBO of a stage has an estimator


class Density:
    """A log density with autograd."""

    def __init__(self, log_density, dim):
        self.log_density, self.dim = log_density, dim

    def fit(self, seed, **options):
        result = boost_posterior(
            self.log_density, self.dim, random_state=seed, **options
        )
        return result.history, result.stages

    def elbo(self, stage):
        return elbo_of(self.log_density, stage, N_DRAWS)


class Classifier:
    """A logistic model, two classes or several."""

    def __init__(self, X, y, log_density, **options):
        self.X, self.y, self.options = X, y, options
        self.log_density = log_density

    def fit(self, seed, **options):
        model = BoostedBayesianLogisticRegression(
            random_state=seed, **self.options, **options
        ).fit(self.X, self.y)
        return model.history_, [MixturePosterior(mixture) for mixture in model._stages]

    def elbo(self, stage):
        return elbo_of(self.log_density, stage, N_DRAWS)


def softmax_joint(X, y):
    """Log joint of three classes with the default prior, class by class."""
    design = np.column_stack([X, np.ones(len(X))])
    sd = np.tile(np.append(np.ones(X.shape[1]), 10.0), 3)
    constant = -np.log(sd).sum() - 0.5 * len(sd) * np.log(2 * np.pi)

    def log_density(theta):
        parts = []
        for block in np.array_split(theta, max(1, len(theta) // 2000)):
            coef = block.reshape(len(block), 3, -1)
            eta = np.einsum("nd,bkd->bnk", design, coef)
            top = eta.max(axis=2, keepdims=True)
            log_sum = np.log(np.exp(eta - top).sum(axis=2)) + top[:, :, 0]
            own = np.take_along_axis(eta, y[None, :, None], axis=2)[:, :, 0]
            parts.append((own - log_sum).sum(axis=1))
        return np.concatenate(parts) - 0.5 * ((theta / sd) ** 2).sum(axis=1) + constant

    return log_density


def heavy_tails(shared, name):
    task = shared_module(shared, "reference", "tasks").t2_logistic(name, xp=anp)
    return Density(task.log_density, task.dim)


def posteriordb(shared, name):
    target = shared_module(shared, "posteriordb", "targets").load(name)
    return Density(target.logp, target.dim)


def ds1_100(shared, name):
    task = shared_module(shared, "reference", "tasks").ds1_100()
    return Classifier(task.X, task.y, None, fit_intercept=False)


def wine(shared, name):
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    return Classifier(X, y, softmax_joint(X, y))


def breast_cancer(shared, name):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    density = log_joint(X, 2.0 * y - 1.0)
    return Classifier(X, y, density, fit_intercept=False, family="laplace")


# Half that was looked at while settings were chosen, name, maker.
TASKS = {
    "t2 synth": ("tuned", heavy_tails, "synth"),
    "t2 phishing": ("tuned", heavy_tails, "phishing"),
    "ds1_100": ("tuned", ds1_100, ""),
    "garch11": ("tuned", posteriordb, "garch-garch11"),
    "t2 ds1": ("judged", heavy_tails, "ds1"),
    "wine": ("judged", wine, ""),
    "hmm_drive_0": ("judged", posteriordb, "bball_drive_event_0-hmm_drive_0"),
    "breast cancer, Laplace bases": ("judged", breast_cancer, ""),
}


# --- one fit, in a process that imports skboost from one tree


def fit_and_print(name, seed, options, shared):
    """Seconds and ELBO of every stage as one line of JSON."""
    _, make, part = TASKS[name]
    task = make(shared, part)
    options = dict(options)
    growth = options.pop("draw_growth", None)
    if growth is not None:
        _set_growth(growth)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history, stages = task.fit(seed, **options)
    total = time.process_time() - began
    known, figures = {}, []
    for h, stage in zip(history, stages, strict=True):
        if task.log_density is None:
            figures.append((h["elbo"], h["elbo_se"]))
            continue
        if id(stage) not in known:
            known[id(stage)] = task.elbo(stage)
        figures.append(known[id(stage)])
    found = {
        "seconds": np.cumsum([h["seconds"] for h in history]).tolist(),
        "elbo": [value for value, _ in figures],
        "se": [se for _, se in figures],
        "total": total,
        "components": stages[-1].n_components,
        "package": str(Path(skboost.__file__).resolve().parent.parent),
    }
    print(json.dumps(found, default=float))


def _set_growth(growth):
    """The growth of draws is no public parameter."""
    make = skboost._base.make_settings

    def with_growth(*args, **kwargs):
        return dataclasses.replace(make(*args, **kwargs), draw_growth=growth)

    skboost._base.make_settings = with_growth


def fit_in(tree, name, seed, options, shared):
    """Seconds and ELBO of every stage by the skboost of `tree`."""
    command = [sys.executable, __file__, "--fit", name, str(seed), json.dumps(options)]
    done = subprocess.run(
        [*command, "--shared", str(shared)],
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    if Path(found.pop("package")) != tree:
        raise RuntimeError(f"skboost was not imported from the checkout {tree.name!r}")
    return found


# --- beside another commit


def reached(run, level):
    """CPU second at which a run is at a level for good; inf where it never is."""
    below = [k for k, elbo in enumerate(run["elbo"]) if elbo < level]
    first = below[-1] + 1 if below else 0
    return run["seconds"][first] if first < len(run["seconds"]) else float("inf")


def quarter(report, args, names):
    """When the ELBO that the other commit ends with is reached."""
    other, rows = args.other.resolve(), []
    for name in names:
        half, shares = TASKS[name][0], []
        spent = 0.0
        for seed in range(args.replicates):
            if spent > args.limit:
                report.not_run(f"{name}: seeds from {seed}", f"{spent:.0f} CPU s spent")
                break
            trees = [("there", other), ("here", _ROOT)]
            runs = {
                label: fit_in(tree, name, seed, {}, args.shared)
                for label, tree in (trees if seed % 2 else trees[::-1])
            }
            here, there = runs["here"], runs["there"]
            spent += there["total"]
            seconds = reached(here, there["elbo"][-1] - ALLOWED)
            shares.append(seconds / there["total"])
            report.row(
                "every seed", task=name, half=half, seed=seed,
                **{"ELBO, other": there["elbo"][-1], "se": there["se"][-1],
                   "CPU s, other": there["total"], "CPU s to it": seconds,
                   "share": shares[-1], "ELBO": here["elbo"][-1],
                   "CPU s": here["total"], "components": here["components"],
                   "components, other": there["components"]},
            )  # fmt: skip
        rows.append((half, name, shares))
    summarise(report, rows)


def summarise(report, rows):
    """Shares by task, and the bars of both halves."""
    for half in ("tuned", "judged"):
        ours = [(name, s) for kind, name, s in rows if kind == half]
        for name, s in ours:
            median, worst = float(np.median(s)), max(s)
            report.row("share of the other's seconds", half=half, task=name,
                       median=median, worst=worst)  # fmt: skip
        if ours:
            medians = [float(np.median(s)) for _, s in ours]
            report.bar(f"{half}: median over tasks of the share",
                       float(np.median(medians)), "<=", QUARTER)  # fmt: skip
            report.bar(f"{half}: largest median share", max(medians), "<=", 1.0)


def merged(report, files):
    """One report of calls that ran some of the tasks each, at the same commit."""
    parts = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    found = {part["commit"] for part in parts}
    if found != {commit()}:
        raise ValueError(f"the parts have to be of commit {commit()}; got {found}.")
    rows = [row for part in parts for row in part["tables"]["every seed"]]
    shares = {}
    for row in rows:
        report.row("every seed", **row)
        shares.setdefault(row["task"], []).append(row["share"])
    summarise(report, [(TASKS[name][0], name, s) for name, s in shares.items()])
    for name in TASKS:
        if name not in shares:
            report.not_run(name, "no time on this machine")


# --- the front


def at_budgets(run):
    """ELBO of what a run has within each budget; before its first component nan."""
    values = []
    for budget in BUDGETS:
        done = [
            e for s, e in zip(run["seconds"], run["elbo"], strict=True) if s <= budget
        ]
        values.append(done[-1] if done else np.nan)
    return np.array(values)


def front(report, args, names):
    """The defaults beside each setting, on the median over tasks."""
    table = {}
    for name in names:
        for seed in range(args.replicates):
            for setting, options in SETTINGS.items():
                run = fit_in(_ROOT, name, seed, options, args.shared)
                table.setdefault(setting, {}).setdefault(name, []).append(
                    at_budgets(run)
                )
                report.row("every fit", task=name, setting=setting, seed=seed,
                           ELBO=run["elbo"][-1], **{"CPU s": run["total"]})  # fmt: skip
    for half in ("tuned", "judged", "all"):
        chosen = [n for n in names if half in ("all", TASKS[n][0])]
        for setting in SETTINGS:
            ahead = _ahead(table, setting, chosen)
            if ahead is None:
                continue
            columns = dict(zip((f"{b:g} s" for b in BUDGETS), ahead, strict=True))
            report.row(f"nats ahead of the defaults, {half} tasks (median)",
                       setting=setting, **columns)  # fmt: skip
            if half != "tuned" and setting != "defaults":
                report.bar(f"{half}: {setting}, most nats ahead of the defaults",
                           float(np.nanmax(ahead)), "<=", ALLOWED)  # fmt: skip


def _ahead(table, setting, names):
    """Median over tasks, at each budget, of the ELBO less that of the defaults."""
    if not names:
        return None
    rows = []
    for name in names:
        ours, theirs = (np.array(table[s][name]) for s in ("defaults", setting))
        # Where one of them has nothing yet the task does not count.
        rows.append(np.median(theirs - ours, axis=0))
    return np.nanmedian(np.array(rows), axis=0)


def main():
    made = parser(__doc__, replicates=3)
    made.add_argument("--other", type=Path, help="checkout of the other commit")
    made.add_argument(
        "--limit",
        type=float,
        default=30.0,
        help="no further seed after so many CPU seconds of the other's on a task",
    )
    made.add_argument("--merge", nargs="+", help="JSON files of calls with --only")
    made.add_argument("--name", default="pareto", help="of the JSON file")
    made.add_argument("--front", action="store_true", help="other settings beside")
    made.add_argument("--only", nargs="+", default=[""], help="parts of task names")
    made.add_argument(
        "--fit",
        nargs=3,
        metavar=("NAME", "SEED", "OPTIONS"),
        help="one fit in this process: used by the script itself",
    )
    args = made.parse_args()
    if args.fit:
        name, seed, options = args.fit
        fit_and_print(name, int(seed), json.loads(options), args.shared)
        return
    names = [name for name in TASKS if any(part in name for part in args.only)]
    if args.front:
        report = Report(args.name, args.out, replicates=args.replicates)
        front(report, args, names)
    elif args.merge:
        report = Report(args.name, args.out, other=commit(args.other))
        merged(report, args.merge)
    elif args.other is None or not (args.other / "skboost").is_dir():
        made.error(f"--other has to name a checkout with skboost/, got {args.other}")
    else:
        report = Report(args.name, args.out, replicates=args.replicates,
                        limit=args.limit, other=commit(args.other))  # fmt: skip
        quarter(report, args, names)


if __name__ == "__main__":
    main()
