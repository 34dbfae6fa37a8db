"""Many rows and few: seconds and log loss of default fits beside a point estimate.

    python benchmarks/many_rows.py [--replicates 3]

Generated logistic regressions with 20 columns (standard normal, coefficients of size
one half), 1,000 to 300,000 rows for training and 20,000 for testing; with more columns
(coefficients of size ``sqrt(5 / columns)``); and the chemistry data ds1 of the shared
folder. Then small fits: 60 rows of iris and wine, 60 and 200 of ten digits, and 100 x
10 numbers with two classes, numbers and counts. Seconds are medians of CPU seconds in
one process, in which both models are fitted in turns; the log loss is in nats.
``largest difference`` is that of the predicted probabilities.
"""

from _harness import Report, parser, shared_module, timed  # isort: skip

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import (
    BayesianRidge,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
)
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
)

SIZES, COLUMNS, TEST = [1_000, 10_000, 100_000, 300_000], 20, 20_000
WIDE = [(1_000, 150), (10_000, 200), (240_600, 100)]
# What was asked for: times `LogisticRegression`, of ds1 and by rows and columns.
DS1 = 2.0
TIMES = {(10_000, 20): 4.0, (100_000, 20): 2.0, (10_000, 200): 20.0, (1_000, 150): 40.0}
# Loaders, rows for training, and times `LogisticRegressionCV`.
CLASSES = {
    "iris, 60 rows": (load_iris, 60, 0.2),
    "wine, 60 rows": (load_wine, 60, 0.2),
    "ten digits, 60 rows": (load_digits, 60, 1.0),
    "ten digits, 200 rows": (load_digits, 200, 1.2),
}
# Small fits have so many turns at least, and rows predicted in a second.
TURNS, RATES = 7, {"two classes, 10 columns": 3e6, "ten digits, 64 columns": 3e5}


def generated(rng, sizes, columns):
    """Rows for training of every size, and 20,000 for testing, of one model."""
    coef = np.sqrt(5.0 / columns) * rng.standard_normal(columns)
    X_new = rng.standard_normal((TEST, columns))
    y_new = rng.random(TEST) < expit(X_new @ coef)
    for size in sizes:
        X = rng.standard_normal((size, columns))
        yield X, rng.random(size) < expit(X @ coef), X_new, y_new


def in_turns(n, *models, **data):
    """The models after `n` fits in turns, and their median CPU seconds."""
    seconds = [[timed(model.fit, **data)[1] for model in models] for _ in range(n)]
    return np.median(seconds, axis=0)


def compare(report, table, replicates, X, y, X_new, y_new):
    """A row about one set of rows."""
    model, point = (
        BoostedBayesianLogisticRegression(random_state=0),
        LogisticRegression(),
    )
    seconds, rival = in_turns(replicates, model, point, X=X, y=y)
    p, q = model.predict_proba(X_new)[:, 1], point.predict_proba(X_new)[:, 1]
    report.row(
        table,
        **{"rows": len(X), "columns": X.shape[1], "CPU s": seconds,
           "LogisticRegression, CPU s": rival, "log loss": log_loss(y_new, p),
           "LogisticRegression, log loss": log_loss(y_new, q),
           "largest difference": np.abs(p - q).max(),
           "components": len(model.posterior_.weights)},
    )  # fmt: skip
    if X.shape in TIMES:
        bar = f"{X.shape}: times LogisticRegression"
        report.bar(bar, seconds / rival, "<=", TIMES[X.shape])


# --- small fits


def few_of(load, n):
    """So many standardised rows for training, and the others."""
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    some, others = order[:n], order[n:]
    scaler = StandardScaler().fit(X[some])
    return scaler.transform(X[some]), y[some], scaler.transform(X[others]), y[others]


def beside(report, work, bar, ours, rival, X, y, **losses):
    """A row about a small fit, and its target."""
    seconds = in_turns(TURNS, ours, rival, X=X, y=y)
    losses = {name: loss(model) for name, (loss, model) in losses.items()}
    report.row(
        "small fits",
        **{"work": work, "CPU s": seconds[0], "rival": type(rival).__name__,
           "rival, CPU s": seconds[1], "ratio": seconds[0] / seconds[1], **losses},
    )  # fmt: skip
    times = f"{work}: times {type(rival).__name__}"
    report.bar(times, seconds[0] / seconds[1], "<=", bar)


def rate(report, work, model, X):
    """A row about predictions of 20,000 rows, and its target."""
    X = np.resize(X, (TEST, X.shape[1]))
    seconds = np.median([timed(model.predict_proba, X)[1] for _ in range(TURNS)])
    report.row("predictions", work=work, **{"rows/s": TEST / seconds})
    report.bar(f"{work}: rows/s", TEST / seconds, ">=", RATES[work])


def small_fits(report):
    """Several classes, and 100 x 10 numbers with three kinds of responses."""
    for work, (load, n, bar) in CLASSES.items():
        X, y, X_new, y_new = few_of(load, n)
        ours = BoostedBayesianLogisticRegression(random_state=0)
        rival = LogisticRegressionCV(
            scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False,
            max_iter=1000,
        )  # fmt: skip

        def loss(model, X=X_new, y=y_new):
            return log_loss(y, model.predict_proba(X), labels=model.classes_)

        losses = {"log loss": (loss, ours), "rival, log loss": (loss, rival)}
        beside(report, work, bar, ours, rival, X, y, **losses)
    rate(report, "ten digits, 64 columns", ours, X_new)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 10))
    eta = X @ np.linspace(-0.8, 0.8, 10)
    ours = BoostedBayesianLogisticRegression(random_state=0)
    labels = rng.random(100) < expit(eta)
    beside(report, "100 x 10, two classes", 4.0, ours, LogisticRegression(), X, labels)
    rate(report, "two classes, 10 columns", ours, X)
    ours = BoostedBayesianLinearRegression(random_state=0)
    numbers = eta + rng.standard_normal(100)
    beside(report, "100 x 10, numbers", 3.0, ours, BayesianRidge(), X, numbers)
    ours = BoostedBayesianPoissonRegression(random_state=0)
    counts = rng.poisson(np.exp(eta))
    beside(report, "100 x 10, counts", 4.0, ours, PoissonRegressor(), X, counts)


def main(args):
    n = args.replicates
    report = Report("many_rows", args.out, replicates=n)
    rng = np.random.default_rng(0)
    for rows in generated(rng, SIZES, COLUMNS):
        compare(report, "logistic regression, 20 columns", n, *rows)
    for shape in WIDE:
        (rows,) = generated(rng, shape[:1], shape[1])
        compare(report, "more columns", n, *rows)
    small_fits(report)
    load = shared_module(args.shared, "data", "load")
    if load is None:
        report.not_run("ds1", "no data in the shared folder")
        return
    data = load.load("ds1_10")
    rows = [data[name] for name in ("X_train", "y_train", "X_test", "y_test")]
    rows[1::2] = [y > 0 for y in rows[1::2]]
    TIMES[rows[0].shape] = DS1
    compare(report, "chemistry (ds1)", n, *rows)


if __name__ == "__main__":
    main(parser(__doc__, replicates=3).parse_args())
