"""What strategies buy in default fits: held-out log loss or density, and ELBO.

    python benchmarks/strategies.py [--replicates 5]

Six pairs of model and data of scikit-learn under six strategies. Every replicate draws
60 rows for the fit, other ones each time, and is judged by all the others. Losses are
minus the mean log predictive density of these, nats. The ELBO counts the node as a
coordinate: it is exact up to a constant that all strategies share, so that differences
to the default have no noise of draws. Distinct predictions are counted for the first
replicate, to nine digits. More than two classes are predicted by the mixture,
``sharpen=False``: stacked modes, their default, use none.
"""

from functools import partial

from _harness import Report, medians, parser, timed  # isort: skip

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
)

STRATEGIES = [
    ("predefined", "none"),
    ("line-search", "none"),
    ("adaptive", "none"),
    ("line-search", "away"),
    ("line-search", "pairwise"),
    ("line-search", "fully-corrective"),
]
N_ROWS = 60


def table(load, n_classes=None):
    """Rows of a data set, of the first classes alone where there are more."""
    X, y = load(return_X_y=True)
    some = np.ones(len(y), bool) if n_classes is None else y < n_classes
    return X[some], y[some]


def counts():
    """Poisson counts of four columns, of which three matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    return X, rng.poisson(np.exp(0.5 + X @ [0.5, -0.3, 0.0, 0.1]))


SEVERAL = partial(BoostedBayesianLogisticRegression, sharpen=False)
PAIRS = {
    "breast cancer": (BoostedBayesianLogisticRegression, table(load_breast_cancer)),
    "wine": (SEVERAL, table(load_wine)),
    "iris": (SEVERAL, table(load_iris)),
    "wine, two classes": (BoostedBayesianLogisticRegression, table(load_wine, 2)),
    "diabetes": (BoostedBayesianLinearRegression, table(load_diabetes)),
    "counts": (BoostedBayesianPoissonRegression, counts()),
}


def split(X, y, seed):
    """Rows to fit, scaled, and all others."""
    order = np.random.default_rng(seed).permutation(len(y))
    fit, rest = order[:N_ROWS], order[N_ROWS:]
    scaler = StandardScaler().fit(X[fit])
    return scaler.transform(X[fit]), y[fit], scaler.transform(X[rest]), y[rest]


def measured(kind, data, strategy, seed):
    """Figures of one fit, and its predictions."""
    X, y, rest, truth = split(*data, seed)
    step_size, corrective = strategy
    model = kind(step_size=step_size, corrective=corrective, random_state=seed)
    _, cpu, _ = timed(model.fit, X, y)
    found = {
        "iterations": model.n_iter_,
        "components": model.posterior_.n_components,
        "loss": -float(np.mean(model.log_predictive_density(rest, truth))),
        "elbo": max(told["elbo"] for told in model.history_),
        "cpu": cpu,
    }
    predictions = getattr(model, "predict_proba", model.predict)(rest)
    return found, np.ravel(predictions)


def compare(report, name, kind, data, replicates):
    """A row for every strategy, in differences to the default, the last one."""
    runs = {
        strategy: [measured(kind, data, strategy, seed) for seed in range(replicates)]
        for strategy in STRATEGIES
    }
    default = [found for found, _ in runs[STRATEGIES[-1]]]
    for strategy in STRATEGIES:
        rows = [found for found, _ in runs[strategy]]
        pairs = list(zip(rows, default, strict=True))
        middle = medians(rows)
        report.row(
            "Differences to the default",
            **{"data": name, "strategy": "/".join(strategy)},
            **{key: middle[key] for key in ("iterations", "components", "cpu")},
            loss=float(np.mean([row["loss"] for row in rows])),
            more_loss=float(np.mean([a["loss"] - b["loss"] for a, b in pairs])),
            elbo_lost=float(np.mean([b["elbo"] - a["elbo"] for a, b in pairs])),
        )
    first = np.array([runs[strategy][0][1] for strategy in STRATEGIES])
    n_distinct = len(np.unique(first.round(9), axis=0))
    report.bar(f"{name}: distinct predictions", n_distinct, ">=", 3)
    least = min(row["iterations"] for some in runs.values() for row, _ in some)
    report.bar(f"{name}: iterations of every fit", least, ">=", 2)


def main():
    args = parser(__doc__, replicates=5).parse_args()
    report = Report("strategies", args.out, replicates=args.replicates, rows=N_ROWS)
    for name, (kind, data) in PAIRS.items():
        compare(report, name, kind, data, args.replicates)


if __name__ == "__main__":
    main()
