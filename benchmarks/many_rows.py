"""Many rows: seconds and log loss of the default fit beside a point estimate.

    python benchmarks/many_rows.py [--replicates 3]

Generated logistic regressions with 20 columns (standard normal, coefficients of size
one half), 1,000 to 300,000 rows for training and 20,000 for testing; with more columns
(coefficients of size ``sqrt(5 / columns)``); and the chemistry data ds1 of the shared
folder. Seconds are medians of CPU seconds in one process; the log loss is in nats.
``largest difference`` is that of the predicted probabilities.
"""

from _harness import Report, median_cpu, parser, shared_module  # isort: skip

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skboost import BoostedBayesianLogisticRegression

SIZES, COLUMNS, TEST = [1_000, 10_000, 100_000, 300_000], 20, 20_000
WIDE = [(10_000, 200), (240_600, 100)]
# Times `LogisticRegression` on ds1, and seconds of the wide ones: what was asked for.
DS1, SECONDS = 15.0, {(10_000, 200): 2.5, (240_600, 100): 11.0}


def generated(rng, sizes, columns):
    """Rows for training of every size, and 20,000 for testing, of one model."""
    coef = np.sqrt(5.0 / columns) * rng.standard_normal(columns)
    X_new = rng.standard_normal((TEST, columns))
    y_new = rng.random(TEST) < expit(X_new @ coef)
    for size in sizes:
        X = rng.standard_normal((size, columns))
        yield X, rng.random(size) < expit(X @ coef), X_new, y_new


def compare(report, table, replicates, X, y, X_new, y_new):
    """A row about one set of rows."""
    model, point = (
        BoostedBayesianLogisticRegression(random_state=0),
        LogisticRegression(),
    )
    ours, seconds = median_cpu(lambda: model.fit(X, y), replicates)
    _, rival = median_cpu(lambda: point.fit(X, y), replicates)
    p, q = ours.predict_proba(X_new)[:, 1], point.predict_proba(X_new)[:, 1]
    report.row(
        table,
        **{"rows": len(X), "columns": X.shape[1], "CPU s": seconds,
           "LogisticRegression, CPU s": rival, "log loss": log_loss(y_new, p),
           "LogisticRegression, log loss": log_loss(y_new, q),
           "largest difference": np.abs(p - q).max(),
           "components": len(ours.posterior_.weights)},
    )  # fmt: skip
    return seconds, rival


def main(args):
    n = args.replicates
    report = Report("many_rows", args.out, replicates=n)
    rng = np.random.default_rng(0)
    for rows in generated(rng, SIZES, COLUMNS):
        compare(report, "logistic regression, 20 columns", n, *rows)
    for shape in WIDE:
        (rows,) = generated(rng, shape[:1], shape[1])
        seconds, _ = compare(report, "more columns", n, *rows)
        report.bar(f"{shape}: CPU s", seconds, "<=", SECONDS[shape])
    load = shared_module(args.shared, "data", "load")
    if load is None:
        report.not_run("ds1", "no data in the shared folder")
        return
    data = load.load("ds1_10")
    rows = [data[name] for name in ("X_train", "y_train", "X_test", "y_test")]
    rows[1::2] = [y > 0 for y in rows[1::2]]
    seconds, rival = compare(report, "chemistry (ds1)", n, *rows)
    report.bar("ds1: times LogisticRegression", seconds / rival, "<=", DS1)


if __name__ == "__main__":
    main(parser(__doc__, replicates=3).parse_args())
