"""Ordered classes: log loss beside classifiers that do not know of the order.

    python benchmarks/ordered_classes.py [--replicates 8]

The progression of scikit-learn's diabetes data by quarters, four classes, with 30, 60
and 200 rows for training and the others for testing, stratified splits
(``random_state=7``), columns standardised on the training rows. All by their defaults.
Nothing was tuned on these data. Means over splits, nats and CPU seconds of `fit` and
`predict_proba`.
"""

from _harness import Report, parser, timed  # isort: skip

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLogisticRegression, BoostedBayesianOrdinalRegression

SIZES = [30, 60, 200]
MODELS = {
    "BoostedBayesianOrdinalRegression": BoostedBayesianOrdinalRegression(
        random_state=0
    ),
    "BoostedBayesianLogisticRegression": BoostedBayesianLogisticRegression(
        random_state=0
    ),
    "LogisticRegression": LogisticRegression(),
    "LogisticRegressionCV": LogisticRegressionCV(
        scoring="neg_log_loss", use_legacy_attributes=False, l1_ratios=(0.0,)
    ),
}


def judged(model, X, y, train, test):
    """Log loss on the test rows, and CPU seconds."""
    pipe = make_pipeline(StandardScaler(), model)
    p, cpu, _ = timed(lambda: pipe.fit(X[train], y[train]).predict_proba(X[test]))
    return log_loss(y[test], p), cpu


def main(args):
    report = Report("ordered_classes", args.out, replicates=args.replicates)
    X, progression = load_diabetes(return_X_y=True)
    y = np.digitize(progression, np.quantile(progression, [0.25, 0.5, 0.75]))
    for size in SIZES:
        split = StratifiedShuffleSplit(args.replicates, train_size=size, random_state=7)
        folds = list(split.split(X, y))
        for name, model in MODELS.items():
            found = np.array([judged(model, X, y, *fold) for fold in folds])
            loss, cpu = found.mean(axis=0)
            report.row(
                "Ordered classes",
                **{"rows": size, "model": name, "log loss": loss,
                   "standard error": found[:, 0].std(ddof=1) / np.sqrt(len(found)),
                   "CPU s": cpu},
            )  # fmt: skip
    report.save()


if __name__ == "__main__":
    main(parser(__doc__, replicates=8).parse_args())
