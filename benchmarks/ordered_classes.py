"""Ordered classes: log loss beside classifiers that do not know of order or groups.

    python benchmarks/ordered_classes.py [--replicates 8] [--parts groups_8]

The progression of scikit-learn's diabetes data by quarters, four classes, with 30, 60
and 200 rows for training and the others for testing, stratified splits
(``random_state=7``), columns standardised on the training rows. All by their defaults.
Nothing was tuned on these data. Means over splits, nats and CPU seconds of `fit` and
`predict_proba`.

Groups are generated: 24 judges grade 4, 8 or 20 rows each in four classes, by two
columns and a leniency of their own with standard deviation 1; 40 more rows of each are
for testing, and so are 40 of each of 24 judges that no fit has seen. Beside ours stand
the same model without judges or with a column for each, the latter of statsmodels, too,
where it is installed (likelihood, no penalty), and a classifier with such columns.
Differences are to ours, their standard errors over data sets.
"""

from _harness import Report, parser, timed  # isort: skip

from functools import partial

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import (
    BoostedBayesianLogisticRegression,
    BoostedBayesianOrdinalRegression,
    BoostedHierarchicalOrdinalRegression,
)

try:
    from statsmodels.miscmodels.ordinal_model import OrderedModel
except ImportError:
    OrderedModel = None

SIZES = [30, 60, 200]
MODELS = {
    "BoostedBayesianOrdinalRegression": BoostedBayesianOrdinalRegression(
        random_state=0
    ),
    "BoostedBayesianLogisticRegression": BoostedBayesianLogisticRegression(
        random_state=0
    ),
    "BoostedBayesianLogisticRegression, averages": BoostedBayesianLogisticRegression(
        random_state=0, sharpen=False
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


# --- groups

N_JUDGES, N_TESTS = 24, 40


def graded(seed, size):
    """Rows (x, z, judge) and grades: for training, of the same judges, of others."""
    rng = np.random.default_rng(seed)
    leniency = rng.normal(size=2 * N_JUDGES)

    def rows(judges, n):
        judge = np.repeat(judges, n)
        X = rng.normal(size=(len(judge), 2))
        taste = X @ [1.0, -0.5] + leniency[judge] + rng.logistic(size=len(judge))
        return np.column_stack([X, judge]), np.digitize(taste, [-1.5, 0.0, 1.5])

    known, others = np.arange(2 * N_JUDGES).reshape(2, -1)
    return rows(known, size), rows(known, N_TESTS), rows(others, N_TESTS)


def one_hot(X):
    """Columns with one for each judge; none of judges that are not known."""
    return np.hstack([X[:, :2], X[:, 2:] == np.arange(N_JUDGES)])


def ours(X, y):
    model = BoostedHierarchicalOrdinalRegression(groups=[2], random_state=0)
    return model.fit(X, y).predict_proba


def without(X, y):
    model = BoostedBayesianOrdinalRegression(random_state=0).fit(X[:, :2], y)
    return lambda X: model.predict_proba(X[:, :2])


def with_columns(X, y):
    model = BoostedBayesianOrdinalRegression(random_state=0).fit(one_hot(X), y)
    return lambda X: model.predict_proba(one_hot(X))


def unordered(X, y):
    model = LogisticRegression().fit(one_hot(X), y)
    return lambda X: model.predict_proba(one_hot(X))


def by_likelihood(X, y):
    # The first judge is the intercept's, which thresholds are.
    kept = np.arange(2 + N_JUDGES) != 2
    fit = OrderedModel(y, one_hot(X)[:, kept], distr="logit").fit(
        method="bfgs", disp=False, maxiter=500
    )
    return lambda X: np.maximum(fit.predict(one_hot(X)[:, kept]), 1e-12)


OF_GROUPS = {
    "BoostedHierarchicalOrdinalRegression": ours,
    "BoostedBayesianOrdinalRegression without judges": without,
    "BoostedBayesianOrdinalRegression, a column for each": with_columns,
    "LogisticRegression, a column for each": unordered,
} | ({"OrderedModel of statsmodels": by_likelihood} if OrderedModel else {})


def compare_groups(report, replicates, size):
    """Log loss of known and of new judges, beside ours."""
    sets, first = [graded(seed, size) for seed in range(replicates)], None
    for name, fit in OF_GROUPS.items():
        found = []
        for train, *tests in sets:
            predict, cpu, _ = timed(fit, *train)
            losses = [log_loss(y, predict(X), labels=range(4)) for X, y in tests]
            found.append([*losses, cpu])
        found = np.array(found)
        first = found if first is None else first
        behind = found[:, :2] - first[:, :2]
        error = behind.std(axis=0, ddof=1) / np.sqrt(len(behind))
        report.row(
            "Ordered classes in groups",
            **{"rows of a judge": size, "model": name,
               "log loss": found[:, 0].mean(), "behind ours": behind[:, 0].mean(),
               "standard error": error[0], "new judges": found[:, 1].mean(),
               "new, behind ours": behind[:, 1].mean(),
               "new, standard error": error[1], "CPU s": found[:, 2].mean()},
        )  # fmt: skip


def compare(report, replicates):
    """Diabetes in four classes."""
    X, progression = load_diabetes(return_X_y=True)
    y = np.digitize(progression, np.quantile(progression, [0.25, 0.5, 0.75]))
    for size in SIZES:
        split = StratifiedShuffleSplit(replicates, train_size=size, random_state=7)
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


PARTS = {"diabetes": compare} | {
    f"groups_{size}": partial(compare_groups, size=size) for size in (4, 8, 20)
}


def main():
    made = parser(__doc__, replicates=8)
    made.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    args = made.parse_args()
    report = Report("ordered_classes", args.out, replicates=args.replicates)
    for part in args.parts:
        PARTS[part](report, args.replicates)
    report.save()


if __name__ == "__main__":
    main()
