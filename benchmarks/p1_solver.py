"""Table 1 of Locatello et al. 2018 by the authors' own solver.

    python benchmarks/p1_solver.py [--replicates 5] [--splits 10] [--iterations 18]

A component takes 600 steps of Adam on one draw from a random start, steps are
predefined (``search=StochasticSearch(600, select="last")``), and the reported iterate
is the last, or the one with the largest train log likelihood. Beside it the first
component of the same runs, and one component of either base solved to convergence. Data
are the 2,674 rows of ds1_100_test without an intercept, split 70 to 30; every split is
fitted from ``--replicates`` seeds. AUROC is that of the mean logit, as the authors
compute it. Each split gives the mean and the standard deviation over seeds, and the
last rows pool them. Every split and seed is kept in the JSON as soon as it is done, and
a run at the same commit, with as many iterations, goes on after it.
"""

from _harness import (  # isort: skip
    Report,
    commit,
    mean_and_error,
    parser,
    shared_module,
    timed,
)

import json

import numpy as np
from p0_tables import ds1
from scipy.special import expit, log_expit

from skboost import boost_posterior
from skboost.strategies import ResidualGain, StochasticSearch

# Draws for the train log likelihood; the authors take 50.
N_DRAWS = 200
SOLVERS = {
    "boosted, residual of equation 9": {"residual": "joint"},
    "boosted, residual of their code": {"residual": "elementwise"},
}


def joint(X, y):
    """Log joint density with standard normal priors, and both it and its gradient."""
    signed = X * np.where(y > 0, 1.0, -1.0)[:, None]

    def value_and_gradient(theta):
        eta = theta @ signed.T
        value = log_expit(eta).sum(axis=1) - 0.5 * (theta**2).sum(axis=1)
        return value, expit(-eta) @ signed - theta

    return lambda theta: value_and_gradient(theta)[0], value_and_gradient


def figures(metrics, posterior, data, seed):
    """Train log likelihood of a row in nats, and test AUROC of the mean logit."""
    X, y, X_test, y_test = data
    theta = posterior.sample(N_DRAWS, random_state=seed)
    likelihood = metrics.mean_log_lik(X, y, theta, block=50)
    return likelihood, metrics.auroc(y_test, X_test @ posterior.mean())


def runs_of(metrics, data, seed, args):
    """Figures of every method for one split and one seed."""
    density, both = joint(*data[:2])
    dim = data[0].shape[1]
    common = {
        "value_and_gradient": both, "vectorized": True, "random_state": seed,
        "orbit": None, "tol": 0.0,
    }  # fmt: skip
    found = {}
    for base, family in (("Laplace", "laplace"), ("Gaussian", "gaussian-diag")):
        result = boost_posterior(density, dim, family=family, max_iter=1, **common)
        name = f"one {base}, converged"
        found[name] = figures(metrics, result.posterior, data, seed)
    for name, params in SOLVERS.items():
        search = StochasticSearch(
            600, select="last", n_draws=32, refine=False, **params
        )
        result, cpu, _ = timed(
            boost_posterior, density, dim, family="laplace", search=search,
            objective=ResidualGain(early_stopping=False), step_size="predefined",
            corrective="none", max_iter=args.iterations, **common,
        )  # fmt: skip
        stages = [figures(metrics, each, data, seed) for each in result.stages]
        found["one Laplace, 600 steps"] = stages[0]
        found[name] = stages[-1]
        found[f"{name}, by train LL"] = max(stages)
    return found, cpu


def main():
    made = parser(__doc__, replicates=5)
    made.add_argument("--splits", type=int, default=10)
    made.add_argument("--iterations", type=int, default=18)
    args = made.parse_args()
    kept = ("replicates", "splits", "iterations")
    settings = {k: getattr(args, k) for k in kept}
    report = Report("p1_solver", args.out, **settings)
    load = shared_module(args.shared, "data", "load")
    metrics = shared_module(args.shared, "reference", "metrics")
    if load is None or metrics is None:
        report.not_run("ds1_100_test", "the shared data are not there")
        return
    found = done_before(report)
    for split in range(args.splits):
        cases = [(split, seed) for seed in range(args.replicates)]
        missing = [case for case in cases if case not in found]
        data = ds1(load, split) if missing else None
        for case in missing:
            found[case], cpu = runs_of(metrics, data, case[1], args)
            keep(report, case, found[case], cpu)
        add_split(report, split, [found[case] for case in cases])
    add_all_splits(report)


def done_before(report):
    """Figures by split and seed of a run of this commit that was stopped."""
    file = report.out / f"{report.name}.json"
    if not file.exists():
        return {}
    kept = json.loads(file.read_text(encoding="utf-8"))
    # More seeds or splits may be asked for than were done.
    free = ("replicates", "splits")
    now, then = (
        {k: v for k, v in settings.items() if k not in free}
        for settings in (report.settings, kept["settings"])
    )
    # With a plus it would stand for any change.
    if now != then or kept["commit"] != commit() or kept["commit"].endswith("+"):
        return {}
    report.curves = kept.get("curves", [])
    return {(one["split"], one["seed"]): one["methods"] for one in report.curves}


def keep(report, case, methods, cpu):
    """Add what a split and seed gave to the file."""
    plain = {name: np.array(values).tolist() for name, values in methods.items()}
    report.curve(split=case[0], seed=case[1], methods=plain, cpu=round(cpu, 1))
    report.save()


def add_split(report, split, runs):
    """Rows of a split: means over seeds, and the spread between them."""
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        report.row(
            "splits", split=split, method=name, **{
                "train LL": values[:, 0].mean(), "test AUROC": values[:, 1].mean(),
                "sd of AUROC over seeds": values[:, 1].std(ddof=1),
            },
        )  # fmt: skip


def add_all_splits(report):
    """Rows that pool the splits, beside one component solved to convergence."""
    rows, by_method = report.tables["splits"], {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(list(row.values())[2:])
    baseline = np.array(by_method["one Laplace, converged"])
    for name, values in by_method.items():
        values = np.array(values)
        gain, error = mean_and_error(values[:, 1] - baseline[:, 1])
        report.row(
            "all splits", method=name, **{
                "train LL": values[:, 0].mean(), "test AUROC": values[:, 1].mean(),
                "sd of AUROC over seeds": np.median(values[:, 2]),
                "AUROC - converged": gain, "se": error,
            },
        )  # fmt: skip


if __name__ == "__main__":
    main()
