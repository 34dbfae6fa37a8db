"""More compute never hurts: the ELBO of every stage, on draws that no fit has seen.

    python benchmarks/monotone.py [--replicates 2]

For every pair of consecutive stages the fall in ELBO is compared with twice its
standard error (measured on 20,000 new draws of each); a fall beyond that is a miss.
"""

from _harness import Report, elbo_of, parser, shared_module, timed  # isort: skip

import warnings

import autograd.numpy as anp
import numpy as np
from logistic_ds1 import log_joint, model
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from targets_1d import TARGETS

from skboost import MixturePosterior, boost_posterior


def stages_of(fit):
    """Posteriors after every iteration of a fitted estimator."""
    return [MixturePosterior(mixture) for mixture in fit._stages]


def runs(tasks, load, seed):
    """(name, log density, stages, draws for the ELBO) of every task."""
    for name, (log_density, n, _) in TARGETS.items():
        result, _, _ = timed(boost_posterior, log_density, 1, max_iter=n, tol=0.0,
                             random_state=seed)  # fmt: skip
        yield name, log_density, result.stages, 50_000
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    fit, _, _ = timed(model(seed, tol=0.0, max_iter=6).fit, X, y)
    yield "breast cancer", log_joint(X, 2.0 * y - 1.0), stages_of(fit), 20_000
    if tasks is None:
        return
    for name in ("synth", "ds1", "phishing"):
        task = tasks.t2_logistic(name, xp=anp)
        result, _, _ = timed(boost_posterior, task.log_density, task.dim, tol=0.0,
                             random_state=seed)  # fmt: skip
        yield f"t2 {name}", task.log_density, result.stages, 50_000
    task = tasks.ds1_100()
    fit, _, _ = timed(model(seed, tol=0.0, max_iter=6).fit, task.X, task.y)
    yield "ds1_100", task.log_density, stages_of(fit), 20_000
    data = load.load("ds1_10")
    X, y = data["X_train"].astype(float), data["y_train"].astype(float)
    fit, _, _ = timed(model(seed, tol=0.0, max_iter=3).fit, X, y)
    yield "ds1_10", log_joint(X, y), stages_of(fit), 2000


def main():
    args = parser(__doc__, replicates=2).parse_args()
    report = Report("monotone", args.out, replicates=args.replicates, tol=0.0)
    tasks = shared_module(args.shared, "reference", "tasks")
    load = shared_module(args.shared, "data", "load")
    if tasks is None:
        report.not_run("t2_logistic, ds1_100, ds1_10", "no data in the shared folder")
    worst = {}
    warnings.simplefilter("ignore")
    for seed in range(args.replicates):
        for name, log_density, stages, n in runs(tasks, load, seed):
            row = falls(log_density, stages, n)
            report.row("staged ELBO", task=name, seed=seed, **row)
            worst[name] = max(worst.get(name, -np.inf), row["worst fall / se"])
    for name, value in worst.items():
        report.bar(f"{name}: worst fall in standard errors", value, "<=", 2.0)


def falls(log_density, stages, n):
    """First and last ELBO, and the worst fall between consecutive stages."""
    # One seed for all: what two stages share cancels in part, and a stage that was
    # kept falls by exactly nothing.
    values = [elbo_of(log_density, stage, n, seed=777) for stage in stages]
    worst, fall_of_worst = 0.0, 0.0
    for (before, se_before), (after, se_after) in zip(
        values[:-1], values[1:], strict=True
    ):
        ratio = (before - after) / max(np.hypot(se_before, se_after), 1e-12)
        if ratio > worst:
            worst, fall_of_worst = ratio, before - after
    return {
        "stages": len(stages),
        "first": values[0][0],
        "last": values[-1][0],
        "se": values[-1][1],
        "worst fall": fall_of_worst,
        "worst fall / se": worst,
    }


if __name__ == "__main__":
    main()
