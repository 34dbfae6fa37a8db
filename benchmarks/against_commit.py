"""Default settings against another commit: quality and CPU seconds in one run.

    git worktree add ../before COMMIT
    python benchmarks/against_commit.py --other ../before [--replicates 3]
                                        [--only NAME ...] [--limit 150]

The tasks of `targets_1d.py`, `many_modes.py` (two sets of means, given by a box),
`t2_logistic.py`, `posteriordb.py` and `logistic_ds1.py`, all with default settings.
Every fit runs in a process of its own that imports skboost from one of the two trees,
turn by turn, so that what else the machine does hits both; tasks and scores are those
of this checkout. A fit of less than a second is repeated three times and its median
counts; imports do not.

``loss`` is the KL(q || p) in nats by quadrature or by 20,000 new draws, or minus the
ELBO where the normaliser is not known; all seeds have the same new draws, so that the
spread over seeds is that of the fits. ``worse`` compares the mean difference with the
standard deviation over seeds of the other commit, ``slower`` the ratio of seconds
with one; what exceeds that by less than two standard errors is undecided. ``same``
counts the seeds whose losses agree to the last bit: the same fit.
"""

from _harness import (  # isort: skip
    _ROOT,
    Report,
    commit,
    elbo_of,
    median_cpu,
    parser,
    shared_module,
    timed,
    verdict,
)

import json
import os
import subprocess
import sys
from pathlib import Path

import autograd.numpy as anp
import logistic_ds1
import many_modes
import numpy as np
import t2_logistic
import targets_1d

import skboost
from skboost import boost_posterior

# Nats by which the same fit differs when sums are taken in another order.
ROUNDING = 1e-9
# Relative standard error of a ratio of seconds, at least.
CLOCK = 0.03
# Fits shorter than this many seconds are repeated.
SHORT, REPEATS = 1.0, 3
N_ENERGY = 4000
WORD = {"met": "no", "undecided": "undecided", "missed": "yes"}


class Density:
    """A task of `boost_posterior`: `log_density`, `dim` and options of the start."""

    measure = "KL(q|p)"
    options = {}

    def fit(self, seed):
        return boost_posterior(
            self.log_density, self.dim, random_state=seed, **self.options
        )

    def posterior(self, fitted):
        return fitted.posterior

    def evaluations(self, fitted):
        return fitted.n_evaluations

    def loss(self, fitted):
        """Loss in nats and its standard error."""
        elbo, se = elbo_of(self.log_density, self.posterior(fitted))
        return -elbo, se

    def energy(self, posterior):
        """Distance to reference draws, None where there are none."""
        return None


class OneDimension(Density):
    """Densities on the line, KL by quadrature."""

    dim = 1

    def __init__(self, shared, name):
        self.log_density = targets_1d.TARGETS[name][0]

    @staticmethod
    def names(shared):
        return list(targets_1d.TARGETS)

    def loss(self, fitted):
        return targets_1d.reverse_kl(self.log_density, fitted.posterior), 0.0


class ManyModes(Density):
    """Modes in a box, of equal and of unequal weights."""

    def __init__(self, shared, name):
        task, means = name.rsplit(", means ", 1)
        self.truth = many_modes.Truth(*many_modes.TASKS[task], int(means))
        self.log_density, self.dim = self.truth.log_density, self.truth.dim
        self.options = {"x0": (-many_modes.HALF_WIDTH, many_modes.HALF_WIDTH)}

    @staticmethod
    def names(shared):
        return [f"{task}, means {k}" for task in many_modes.TASKS for k in (0, 1)]

    def loss(self, fitted):
        found = many_modes.figures(self.truth, fitted)
        return found["KL"], found["se"]


class HeavyTails(Density):
    """Logistic regressions on 20 rows with a prior of two degrees of freedom."""

    measure = "-ELBO"

    def __init__(self, shared, name):
        tasks = shared_module(shared, "reference", "tasks")
        self.metrics = shared_module(shared, "reference", "metrics")
        self.task = tasks.t2_logistic(name.removeprefix("t2 "), xp=anp)
        self.log_density, self.dim = self.task.log_density, self.task.dim

    @staticmethod
    def names(shared):
        if shared_module(shared, "reference", "tasks") is None:
            return []
        return [f"t2 {name}" for name in t2_logistic.TASKS]

    def energy(self, posterior):
        draws = posterior.sample(N_ENERGY, random_state=1)
        return self.metrics.energy_distance(draws, self.task.draws)


class PosteriorDB(Density):
    """Real posteriors; the energy distance is in units of the reference's own."""

    def __init__(self, shared, name):
        folder = shared / "posteriordb"
        log_z = json.loads((folder / "logz.json").read_text())
        (full,) = (known for known in log_z if known.split("-")[1] == name)
        self.log_z = log_z[full]["logz"]
        self.target = shared_module(shared, "posteriordb", "targets").load(full)
        self.score = shared_module(shared, "posteriordb", "score").score
        self.log_density, self.dim = self.target.logp, self.target.dim

    @staticmethod
    def names(shared):
        if shared_module(shared, "posteriordb", "targets") is None:
            return []
        log_z = json.loads((shared / "posteriordb" / "logz.json").read_text())
        return [name.split("-")[1] for name in sorted(log_z)]

    def loss(self, fitted):
        minus_elbo, se = super().loss(fitted)
        return self.log_z + minus_elbo, se

    def energy(self, posterior):
        draws = posterior.sample(5000, random_state=1)
        return self.score(self.target, draws)["energy_ratio"]


class Logistic(Density):
    """Logistic regression on ds1 by the estimator; 24,060 x 11 and 1,871 x 101."""

    measure = "-ELBO"

    def __init__(self, shared, name):
        self.metrics, self.draws = None, None
        if name == "ds1_10":
            data = shared_module(shared, "data", "load").load(name)
            self.X, self.y = data["X_train"].astype(float), data["y_train"]
        else:
            self.metrics = shared_module(shared, "reference", "metrics")
            task = shared_module(shared, "reference", "tasks").ds1_100()
            self.X, self.y, self.draws = task.X, task.y, task.draws
        self.log_density = logistic_ds1.log_joint(self.X, self.y.astype(float))
        # Twenty thousand draws times 24,060 rows would take longer than the fit.
        self.n_draws = 2000 if name == "ds1_10" else 20_000

    @staticmethod
    def names(shared):
        have = shared_module(shared, "data", "load") is not None
        have = have and shared_module(shared, "reference", "tasks") is not None
        return ["ds1_10", "ds1_100"] if have else []

    def fit(self, seed):
        return logistic_ds1.model(seed).fit(self.X, self.y)

    def posterior(self, fitted):
        return fitted.posterior_

    def evaluations(self, fitted):
        return None

    def loss(self, fitted):
        elbo, se = elbo_of(self.log_density, fitted.posterior_, self.n_draws)
        return -elbo, se

    def energy(self, posterior):
        if self.draws is None:
            return None
        draws = posterior.sample(N_ENERGY, random_state=1)
        return self.metrics.energy_distance(draws, self.draws)


GROUPS = {
    "one dimension": OneDimension,
    "many modes": ManyModes,
    "t2 logistic": HeavyTails,
    "ds1": Logistic,
    "posteriordb": PosteriorDB,
}


# --- one fit, in a process that imports skboost from one tree


def fit_and_print(group, name, seed, shared):
    """Figures of one fit as one line of JSON."""
    task = GROUPS[group](shared, name)
    fitted, cpu, _ = timed(task.fit, seed)
    if cpu < SHORT:
        fitted, cpu = median_cpu(lambda: task.fit(seed), REPEATS)
    loss, se = task.loss(fitted)
    posterior = task.posterior(fitted)
    found = {
        "loss": float(loss),
        "se": float(se),
        "energy": task.energy(posterior),
        "components": posterior.n_components,
        "evaluations": task.evaluations(fitted),
        "CPU s": cpu,
        "package": str(Path(skboost.__file__).resolve().parent.parent),
    }
    print(json.dumps(found, default=float))


def fit_in(tree, group, name, seed, shared):
    """Figures of one fit by the skboost of `tree`."""
    command = [sys.executable, __file__, "--fit", group, name, str(seed)]
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


# --- both trees, all tasks


def compared(report, trees, group, name, args):
    """Figures of a task by tree, a row per seed; None where a fit failed."""
    runs, spent = {label: [] for label in trees}, 0.0
    for seed in range(args.replicates):
        if spent > args.limit:
            report.not_run(
                f"{name}: seeds from {seed}", f"{spent:.0f} CPU seconds spent on it"
            )
            break
        # First one tree, then the other: neither is always the one that comes second.
        for label in sorted(trees, reverse=seed % 2 == 1):
            try:
                found = fit_in(trees[label], group, name, seed, args.shared)
            except RuntimeError as error:
                report.not_run(f"{name}, seed {seed}, {label}", str(error))
                return None
            runs[label].append(found)
            spent += found["CPU s"]
        row_of_seed(report, name, seed, runs)
    return {
        label: {
            key: np.array([run[key] for run in rows], dtype=float) for key in rows[0]
        }
        for label, rows in runs.items()
    }


def row_of_seed(report, name, seed, runs):
    here, there = runs["here"][-1], runs["there"][-1]
    columns = {}
    for key in ("loss", "energy", "components", "evaluations", "CPU s"):
        columns |= {key: here[key], f"{key}, other": there[key]}
    report.row("every seed", task=name, seed=seed, **columns)


def standard_error(values):
    """Of a mean; infinite for one value, so that verdicts are undecided."""
    if len(values) < 2:
        return float("inf")
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def judged(name, measure, here, there):
    """The row of a task: medians, differences, verdicts."""
    n = len(here["loss"])
    excess = here["loss"] - there["loss"]
    noise = np.sqrt(np.mean(here["se"] ** 2 + there["se"] ** 2))
    same = int((excess == 0.0).sum())
    se = 0.0 if same == n else float(np.hypot(standard_error(excess), noise))
    spread = float(there["loss"].std(ddof=1)) if n > 1 else float("nan")
    seconds = here["CPU s"], there["CPU s"]
    ratio = float(np.median(seconds[0]) / np.median(seconds[1]))
    ratio_se = max(standard_error(seconds[0] / seconds[1]), CLOCK)
    return {
        "task": name,
        "measure": measure,
        "seeds": n,
        "loss": np.median(here["loss"]),
        "loss, other": np.median(there["loss"]),
        "difference": float(excess.mean()),
        "se": se,
        "spread, other": spread,
        "worse": WORD[verdict(excess.mean(), "<=", np.fmax(spread, ROUNDING), se)],
        "same": f"{same} of {n}",
        "energy": np.median(here["energy"]),
        "energy, other": np.median(there["energy"]),
        "CPU s": np.median(seconds[0]),
        "CPU s, other": np.median(seconds[1]),
        "ratio": ratio,
        "ratio se": ratio_se,
        "slower": WORD[verdict(ratio, "<=", 1.0, ratio_se)],
    }


def summarise(report, rows):
    """The bars: no task worse, none slower, no more seconds in all."""
    for key, what in (
        ("worse", "worse by more than the spread over seeds"),
        ("slower", "slower by more than two standard errors"),
    ):
        found = [row["task"] for row in rows if row[key] == "yes"]
        named = f" ({', '.join(found)})" if found else ""
        report.bar(f"tasks that are {what}{named}", len(found), "<=", 0)
    ours, theirs = (
        np.array([row[key] for row in rows]) for key in ("CPU s", "CPU s, other")
    )
    noise = np.linalg.norm(theirs * [row["ratio se"] for row in rows])
    report.bar(
        "CPU seconds of all tasks / the other's",
        ours.sum() / theirs.sum(),
        "<=",
        1.0,
        se=float(noise / theirs.sum()),
    )
    logs = np.log([row["ratio"] for row in rows])
    mean = float(np.exp(logs.mean()))
    report.bar(
        "geometric mean of the ratios of seconds",
        mean,
        "<=",
        1.0,
        se=mean * standard_error(logs),
    )


def main():
    made = parser(__doc__, replicates=3)
    made.add_argument("--other", type=Path, help="checkout of the other commit")
    made.add_argument("--only", nargs="+", default=[""], help="parts of task names")
    made.add_argument(
        "--limit",
        type=float,
        default=150.0,
        help="no further seed after so many CPU seconds on a task",
    )
    made.add_argument(
        "--fit",
        nargs=3,
        metavar=("GROUP", "NAME", "SEED"),
        help="one fit in this process: used by the script itself",
    )
    args = made.parse_args()
    if args.fit:
        group, name, seed = args.fit
        fit_and_print(group, name, int(seed), args.shared)
        return
    if args.other is None or not (args.other / "skboost").is_dir():
        made.error(
            "--other has to name a checkout that contains skboost/, got "
            f"{args.other}; make one by `git worktree add PATH COMMIT`"
        )
    trees = {"here": _ROOT, "there": args.other.resolve()}
    report = Report(
        "against_commit",
        args.out,
        replicates=args.replicates,
        other=commit(trees["there"]),
        limit=args.limit,
    )
    rows = []
    for group, kind in GROUPS.items():
        names = kind.names(args.shared)
        if not names:
            report.not_run(group, "not in the shared folder")
        for name in names:
            if not any(part in name for part in args.only):
                continue
            found = compared(report, trees, group, name, args)
            if found is not None:
                rows.append(judged(name, kind.measure, found["here"], found["there"]))
    for row in rows:
        report.row("defaults against the other commit", **row)
    # The page shows the tables in this order.
    report.tables = dict(reversed(report.tables.items()))
    if rows:
        summarise(report, rows)


if __name__ == "__main__":
    main()
