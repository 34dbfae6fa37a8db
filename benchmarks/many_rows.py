"""Many rows: seconds and log loss of the default fit beside a point estimate.

    python benchmarks/many_rows.py [--replicates 3]

Generated logistic regressions with 20 columns (standard normal, coefficients of size
one half), 1,000 to 300,000 rows for training and 20,000 for testing. Seconds are
medians of CPU seconds in one process; the log loss is in nats. ``largest difference``
is that of the predicted probabilities.
"""

from _harness import Report, median_cpu, parser  # isort: skip

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skboost import BoostedBayesianLogisticRegression

SIZES, COLUMNS, TEST = [1_000, 10_000, 100_000, 300_000], 20, 20_000


def main(args):
    report = Report("many_rows", args.out, replicates=args.replicates)
    rng = np.random.default_rng(0)
    coef = 0.5 * rng.standard_normal(COLUMNS)
    X_new = rng.standard_normal((TEST, COLUMNS))
    y_new = rng.random(TEST) < expit(X_new @ coef)
    for size in SIZES:
        X = rng.standard_normal((size, COLUMNS))
        y = rng.random(size) < expit(X @ coef)
        ours = BoostedBayesianLogisticRegression(random_state=0)
        point = LogisticRegression()
        ours, seconds = median_cpu(
            lambda m=ours, X=X, y=y: m.fit(X, y), args.replicates
        )
        point, rival = median_cpu(
            lambda m=point, X=X, y=y: m.fit(X, y), args.replicates
        )
        p, q = ours.predict_proba(X_new)[:, 1], point.predict_proba(X_new)[:, 1]
        report.row(
            "logistic regression, 20 columns",
            **{"rows": size, "CPU s": seconds, "LogisticRegression, CPU s": rival,
               "log loss": log_loss(y_new, p),
               "LogisticRegression, log loss": log_loss(y_new, q),
               "largest difference": np.abs(p - q).max(),
               "components": len(ours.posterior_.weights)},
        )  # fmt: skip


if __name__ == "__main__":
    main(parser(__doc__, replicates=3).parse_args())
