"""The tables of Dresdner et al. 2021: five step rules, two bases, two data sets.

    python benchmarks/p0_tables.py [--replicates 10] [--iterations 20] [--draws 256]
        [--sets ds1 eicu] [--rows 71366] [--objectives kl relbo relbo-unstopped]

The weight rules of the paper without refinement (``refine=False``, ``tol=0``), for
components by the joint gain (``kl``, the default of the package, not the paper's), by
the residual ELBO with the paper's entropy weight of 1 stopped early (``relbo``) and,
where asked for, solved to the end (``relbo-unstopped``); beside them plain variational
inference, one component, as in Locatello et al. 2018, Tables 1 and 2. Data:
ds1_100_test (2,674 x 100, standardised, split anew for every replicate) and generated
data of the size of the eICU table (``eicu_like(positive_rate=0.06)``; replicates differ
by seed). ``share`` is the part of the fit spent in step selection and weights.
"""

from _harness import Report, parser, shared_module, timed  # isort: skip

import numpy as np

from skboost import BoostedBayesianLogisticRegression
from skboost.strategies import ResidualGain

OBJECTIVES = {
    "kl": "kl",
    "relbo": ResidualGain(entropy_weight=1.0),
    "relbo-unstopped": ResidualGain(entropy_weight=1.0, early_stopping=False),
}
METHODS = {
    "predefined": ("predefined", "none"),
    "line-search": ("line-search", "none"),
    "AdaFW": ("adaptive", "none"),
    "AdaAFW": ("adaptive", "away"),
    "AdaPFW": ("adaptive", "pairwise"),
}
BASES = {"laplace": "auto", "gaussian": "diag"}
FIGURES = ("train LL", "test AUROC", "test log-loss", "ELBO", "CPU s", "components",
           "share")  # fmt: skip


def ds1(load, seed):
    data = load.load("ds1_100_test")
    X, y = data["X"].astype(float), data["y"].astype(int)
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [int(round(0.3 * len(y)))])
    return X[train], y[train], X[test], y[test]


def eicu_like(make_synthetic, n_samples):
    data = make_synthetic.eicu_like(n_samples=n_samples, positive_rate=0.06)
    labels = [2 * data[key].astype(int) - 1 for key in ("y_train", "y_test")]
    X_train, X_test = (data[key].astype(float) for key in ("X_train", "X_test"))
    return X_train, labels[0], X_test, labels[1]


def one(metrics, data, fit_intercept, base, seed, **options):
    """Figures of one fit, as a tuple in the order of FIGURES."""
    X, y, X_test, y_test = data
    model = BoostedBayesianLogisticRegression(
        family=base,
        component_covariance=BASES[base],
        refine=False,
        tol=0.0,
        fit_intercept=fit_intercept,
        random_state=seed,
        **options,
    )
    model, cpu, _ = timed(model.fit, X, y)
    probability = model.predict_proba(X_test)[:, 1]
    coef, intercept = model.sample_posterior(200, random_state=seed)
    eta_X = np.column_stack([X, np.ones(len(X))])
    theta = np.column_stack([coef, intercept])
    weights = sum(record["seconds_weights"] for record in model.history_)
    total = sum(record["seconds"] for record in model.history_)
    return (
        metrics.mean_log_lik(eta_X, y, theta, block=50),
        metrics.auroc(y_test, probability),
        metrics.log_loss(y_test, probability),
        model.elbo_,
        cpu,
        model.posterior_.n_components,
        weights / total,
    )


def main():
    made = parser(__doc__, replicates=10)
    made.add_argument("--iterations", type=int, default=20)
    made.add_argument("--draws", type=int, default=256)
    made.add_argument("--rows", type=int, default=71_366, help="of the generated set")
    made.add_argument("--sets", nargs="+", default=["ds1", "eicu"])
    made.add_argument(
        "--objectives", nargs="+", choices=OBJECTIVES, default=["kl", "relbo"]
    )
    args = made.parse_args()
    load = shared_module(args.shared, "data", "load")
    make_synthetic = shared_module(args.shared, "data", "make_synthetic")
    metrics = shared_module(args.shared, "reference", "metrics")
    settings = {k: getattr(args, k) for k in ("replicates", "iterations", "draws")}
    options = {"max_iter": args.iterations, "n_draws": args.draws}
    for name in args.sets:
        report = Report(f"p0_{name}", args.out, **settings)
        if load is None or metrics is None:
            report.not_run(name, "no data in the shared folder")
        elif name == "ds1":
            splits = [ds1(load, seed) for seed in range(args.replicates)]
            tables(report, metrics, "ds1_100_test", splits, args.objectives, options)
        else:
            report.settings["rows"] = args.rows
            # One data set: the seeds of the fits differ.
            splits = [eicu_like(make_synthetic, args.rows)] * args.replicates
            name = "eicu_like (generated)"
            tables(report, metrics, name, splits, args.objectives, options)


def rows(objectives, options):
    """Objective, method and settings of every row of a table."""
    yield "plain VI", "one component", options | {"max_iter": 1}
    for objective in objectives:
        for method, (step_size, corrective) in METHODS.items():
            settings = {"step_size": step_size, "corrective": corrective}
            settings["objective"] = OBJECTIVES[objective]
            yield objective, method, options | settings


def tables(report, metrics, name, data, objectives, options):
    for fit_intercept in (False, True):
        for base in BASES:
            title = f"{name}, {'with' if fit_intercept else 'no'} intercept, {base}"
            shares = []
            for objective, method, settings in rows(objectives, options):
                runs = np.array(
                    [
                        one(metrics, split, fit_intercept, base, seed, **settings)
                        for seed, split in enumerate(data)
                    ]
                )
                row = dict(zip(FIGURES, np.median(runs, axis=0), strict=True))
                spread = runs.std(axis=0, ddof=min(1, len(runs) - 1))
                report.row(title, objective=objective, method=method, runs=len(runs),
                           **row,
                           **{"sd LL": spread[0], "sd AUROC": spread[1],
                              "max share": runs[:, -1].max()})  # fmt: skip
                shares.append(row["share"])
            report.bar(f"{title}: largest share of step and weights", max(shares),
                       "<=", 0.1)  # fmt: skip


if __name__ == "__main__":
    main()
