"""Few rows: one Gaussian, the default, a learned scale of the prior, and rivals.

    python benchmarks/few_rows.py [--half tune judge] [--replicates 10]

Each half of the sets writes a file of its own, ``few_rows_HALF.json``.

Twelve public sets, 20, 60 and 300 of their rows for training, all others for testing,
columns standardised by the training rows. What was chosen for a learned scale was
chosen on the half that is called ``tune``. Classification: mean log loss, nats; true
probabilities are not known, so that their intervals cannot be judged here. Regression:
root mean squared error in standard deviations of the response, mean log density of the
response in that unit, and coverage of 90 % intervals.
"""

from _harness import Report, columns, mean_and_error, parser, shared_module, timed  # isort: skip

import numpy as np
from scipy.stats import norm
from sklearn import datasets
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    LogisticRegression,
    LogisticRegressionCV,
)
from sklearn.metrics import log_loss
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLinearRegression, BoostedBayesianLogisticRegression

SIZES = [20, 60, 300]
HALVES = {
    "tune": ["iris", "pima", "digits_3_8", "diabetes", "yacht", "concrete"],
    "judge": ["wine", "breast_cancer", "phishing", "boston", "energy", "wine_red"],
}
# Said, since linear regression learns its scale by default.
FIXED = {"classification": 1.0, "regression": "auto"}
OURS = {
    "one Gaussian": {"max_iter": 1, "orbit": None},
    "fixed": {},
    "learn": {"prior_scale": "learn"},
}
RIVALS = {"classification": ["LR", "LRCV"], "regression": ["BayesianRidge", "ARD"]}


def bundled(name):
    """A set of scikit-learn's, or None."""
    if name == "digits_3_8":
        X, y = datasets.load_digits(return_X_y=True)
        some = np.isin(y, [3, 8])
        return X[some], y[some]
    if name not in ("iris", "wine", "breast_cancer", "diabetes"):
        return None
    return getattr(datasets, f"load_{name}")(return_X_y=True)


def shared(load, name):
    """A set of the shared folder."""
    data = load.load(name)
    if "X_train" in data:
        X = np.vstack([data["X_train"], data["X_test"]])
        y = np.concatenate([data["y_train"], data["y_test"]])
        # The last column is a constant.
        return X[:, :-1].astype(float), y
    y = data["y"]
    return data["X"].astype(float), y if name == "pima" else y.astype(float)


def is_classification(name):
    return name in ("iris", "pima", "digits_3_8", "wine", "breast_cancer", "phishing")


def splits(name, X, y, size, n):
    """Training and test rows, at most 2,000 of these."""
    kind = StratifiedShuffleSplit if is_classification(name) else ShuffleSplit
    test = min(2000, len(y) - size)
    made = kind(n, train_size=size, test_size=test, random_state=0)
    return list(made.split(X, y))


# --- models


def classifiers(ours):
    made = {
        name: BoostedBayesianLogisticRegression(
            random_state=0, **{"prior_scale": FIXED["classification"]} | chosen
        )
        for name, chosen in ours.items()
    }
    made["LR"] = LogisticRegression(max_iter=1000)
    made["LRCV"] = LogisticRegressionCV(
        scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False,
        max_iter=1000,
    )  # fmt: skip
    return made


def regressors(ours):
    made = {
        name: BoostedBayesianLinearRegression(
            random_state=0, **{"prior_scale": FIXED["regression"]} | chosen
        )
        for name, chosen in ours.items()
    }
    return made | {"BayesianRidge": BayesianRidge(), "ARD": ARDRegression()}


def judged_classifier(model, X, y):
    return {"loss": log_loss(y, model.predict_proba(X), labels=model.classes_)}


def judged_regressor(model, X, y):
    if hasattr(model, "log_predictive_density"):
        mean = model.predict(X)
        low, high = model.predict_interval(X, 0.9).T
        density = model.log_predictive_density(X, y)
    else:
        mean, std = model.predict(X, return_std=True)
        low, high = mean + np.outer(norm.ppf([0.05, 0.95]), std)
        density = norm.logpdf(y, mean, std)
    return {
        "loss": np.sqrt(np.mean((mean - y) ** 2)),
        "log_density": density.mean(),
        "coverage": np.mean((low <= y) & (y <= high)),
    }


def one_split(name, model, X, y, train, test):
    """Figures of a model on the test rows, and CPU seconds of its fit."""
    scale = StandardScaler().fit(X[train])
    rows, others = scale.transform(X[train]), scale.transform(X[test])
    judge = judged_classifier if is_classification(name) else judged_regressor
    model, seconds, _ = timed(model.fit, rows, y[train])
    found, _, _ = timed(judge, model, others, y[test])
    return found | {"seconds": seconds}


# --- tables


def one_set(report, name, data, args, ours):
    """All models on one set; mean loss of each size and model."""
    X, y = data
    classification = is_classification(name)
    if not classification:
        y = (y - y.mean()) / y.std()
    losses = {}
    for size in SIZES:
        if len(y) - size < 50:
            continue
        models = classifiers(ours) if classification else regressors(ours)
        parts = splits(name, X, y, size, args.replicates)
        for model, estimator in models.items():
            rows = [one_split(name, estimator, X, y, *part) for part in parts]
            found = columns(rows)
            losses[size, model] = found.pop("loss")
            mean, se = mean_and_error(losses[size, model])
            further = {k: np.mean(v) for k, v in found.items() if k != "seconds"}
            table = "log loss" if classification else "regression"
            report.row(
                table, set=name, rows=size, model=model, loss=mean, se=se, **further,
                seconds=np.median(found["seconds"]),
            )  # fmt: skip
    return losses


def summary(report, half, kind, found):
    """Means over sets and sizes of one half, and the targets."""
    names = [name for name in HALVES[half] if name in found]
    names = [n for n in names if is_classification(n) == (kind == "classification")]
    pairs = [(name, size) for name in names for size, m in found[name] if m == "fixed"]
    if not pairs:
        return
    models = sorted({model for _, model in found[names[0]]})
    mean = {
        model: np.mean([found[name][size, model].mean() for name, size in pairs])
        for model in models
    }
    for model in models:
        report.row("means", half=half, kind=kind, model=model, loss=mean[model])
    what = "log loss" if kind == "classification" else "standardised RMSE"
    for rival in ["fixed", *RIVALS[kind]]:
        # Splits are those of all models.
        behind = [found[n][k, "learn"] - found[n][k, rival] for n, k in pairs]
        errors = [mean_and_error(one)[1] for one in behind]
        report.bar(
            f"{half}: mean {what} over that of {rival}",
            mean["learn"] - mean[rival], "<=", 0.0,
            np.linalg.norm(errors) / len(pairs),
        )  # fmt: skip
    for name, size in pairs:
        ours, fixed = found[name][size, "learn"], found[name][size, "fixed"]
        if kind == "classification":
            worse, se = mean_and_error(ours - fixed)
            report.bar(f"{name}, {size} rows: nats behind fixed", worse, "<=", 0.01, se)
        else:
            worse, se = mean_and_error(ours / fixed)
            report.bar(f"{name}, {size} rows: RMSE over fixed", worse, "<=", 1.02, se)


def main(args, ours=OURS):
    load = shared_module(args.shared, "data", "load")
    for half in args.half:
        report = Report(f"few_rows_{half}", args.out, replicates=args.replicates)
        found = {}
        for name in HALVES[half]:
            data = bundled(name)
            if data is None and load is None:
                report.not_run(name, "no shared data")
                continue
            data = shared(load, name) if data is None else data
            found[name] = one_set(report, name, data, args, ours)
        for kind in ("classification", "regression"):
            summary(report, half, kind, found)


if __name__ == "__main__":
    command = parser(__doc__, replicates=10)
    command.add_argument("--half", nargs="+", choices=HALVES, default=list(HALVES))
    main(command.parse_args())
