"""What fits of logistic models cost, binary and multinomial, beside another commit.

    git worktree add ../there 1e19c1e
    python benchmarks/glm_cost.py --other ../there [--replicates 3] [--only wine]

Every fit runs in a process of its own that imports skboost from one of the two
checkouts, turn by turn. ELBOs come from 100,000 new draws and a log joint that is
written here from the definition. CPU seconds are those of `fit`.
"""

from _harness import _ROOT, Report, commit, median_cpu, parser, timed  # isort: skip

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

import skboost
from skboost import BoostedBayesianLogisticRegression

N_ELBO, N_BATCH = 100_000, 5000
# Standard deviations of the default prior.
COEF, INTERCEPT = 1.0, 10.0
N_PREDICTED = 20_000


def wine():
    """178 x 13, three classes."""
    X, y = load_wine(return_X_y=True)
    return scale(X), y


def breast_cancer():
    """569 x 30, two classes."""
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def digits():
    """300 images of 0 to 3, ten principal components."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4][:300], y[y < 4][:300]
    return scale(PCA(10, random_state=0).fit_transform(X)), y


def generated():
    """10,000 x 200, two classes, coefficients of size 2 / sqrt(200)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 200))
    eta = X @ rng.standard_normal(200) * 2.0 / np.sqrt(200)
    return X, (rng.random(10_000) < 1.0 / (1.0 + np.exp(-eta))).astype(int)


def log_joint(X, y, theta):
    """Log joint density of draws under the default prior, nats."""
    X, n_classes = np.column_stack([X, np.ones(len(X))]), y.max() + 1
    coef = theta.reshape(len(theta), -1, X.shape[1])
    eta = np.einsum("nd,skd->skn", X, coef)
    if n_classes == 2:
        eta = np.concatenate([np.zeros_like(eta), eta], axis=1)
    picked = np.take_along_axis(eta, y[None, None], axis=1)[:, 0]
    value = (picked - logsumexp(eta, axis=1)).sum(axis=1)
    size = np.append(np.full(X.shape[1] - 1, COEF), INTERCEPT)
    prior = -0.5 * (coef / size) ** 2 - np.log(size * np.sqrt(2.0 * np.pi))
    return value + prior.sum(axis=(1, 2))


def elbo(X, y, posterior):
    """ELBO of a posterior and its standard error, nats."""
    ratio = []
    for seed in range(N_ELBO // N_BATCH):
        theta = posterior.sample(N_BATCH, random_state=1000 + seed)
        ratio.append(log_joint(X, y, theta) - posterior.log_density(theta))
    ratio = np.concatenate(ratio)
    return ratio.mean(), ratio.std(ddof=1) / np.sqrt(len(ratio))


class Fit:
    """A fit with some settings, judged by its ELBO."""

    def __init__(self, data, **settings):
        self.data, self.settings = data, settings

    def __call__(self, seed):
        X, y = self.data()
        model = BoostedBayesianLogisticRegression(random_state=seed, **self.settings)
        model, cpu, _ = timed(model.fit, X, y)
        value, se = elbo(X, y, model.posterior_)
        return {
            "ELBO": value,
            "se": se,
            "components": model.posterior_.n_components,
            "CPU s": cpu,
        }


class Large:
    """The first component, and an iteration that shows that nothing is left."""

    def __call__(self, seed):
        X, y = generated()
        found = {}
        for n in (1, 2):
            model = BoostedBayesianLogisticRegression(max_iter=n, random_state=seed)
            _, found[n], _ = timed(model.fit, X, y)
        return {
            "ELBO": model.elbo_,
            "components": model.posterior_.n_components,
            "first component, CPU s": found[1],
            "next iteration, CPU s": found[2] - found[1],
        }


class Search:
    """A search over four prior scales in five folds on wine, with the last fit."""

    def __init__(self, **settings):
        self.settings = settings

    def __call__(self, seed):
        X, y = load_wine(return_X_y=True)
        model = BoostedBayesianLogisticRegression(random_state=seed, **self.settings)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), model),
            {f"{type(model).__name__.lower()}__prior_scale": [0.3, 1.0, 3.0, 10.0]},
            scoring="neg_log_loss",
        )
        search, cpu, _ = timed(search.fit, X, y)
        return {"log-loss": -search.best_score_, "CPU s": cpu}


class Predictions:
    """Rows a second of `predict_proba` on wine."""

    def __init__(self, **settings):
        self.settings = settings

    def __call__(self, seed):
        X, y = wine()
        model = BoostedBayesianLogisticRegression(random_state=seed, **self.settings)
        model, _, _ = timed(model.fit, X, y)
        rows = np.tile(X, (N_PREDICTED // len(X) + 1, 1))[:N_PREDICTED]
        model.predict_proba(rows[:200])
        _, cpu = median_cpu(lambda: model.predict_proba(rows), 5)
        return {
            "components": model.posterior_.n_components,
            "rows a second": N_PREDICTED / cpu,
        }


TASKS = {
    "wine, max_iter=3": Fit(wine, max_iter=3),
    "wine": Fit(wine),
    "digits 0 to 3, max_iter=3": Fit(digits, max_iter=3),
    "breast cancer, max_iter=2": Fit(breast_cancer, max_iter=2),
    "breast cancer": Fit(breast_cancer),
    "10,000 x 200": Large(),
    "grid search, max_iter=2": Search(max_iter=2),
    "predict_proba, max_iter=1": Predictions(max_iter=1),
    "predict_proba, max_iter=3": Predictions(max_iter=3),
}
# (task, column, relation, bound), of the medians of this checkout.
BARS = (
    ("wine, max_iter=3", "ELBO", ">=", -32.70),
    ("wine, max_iter=3", "CPU s", "<=", 3.0),
    ("grid search, max_iter=2", "CPU s", "<=", 40.0),
    ("predict_proba, max_iter=1", "rows a second", ">=", 200_000.0),
    ("predict_proba, max_iter=3", "rows a second", ">=", 200_000.0),
)


def run_in(tree, task, seed):
    """Figures of one task by the skboost of `tree`."""
    done = subprocess.run(
        [sys.executable, __file__, "--run", task, str(seed)],
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    if Path(found.pop("package")) != tree:
        raise RuntimeError(f"skboost was not imported from the checkout {tree.name!r}")
    return found


def compared(report, trees, task, n_seeds):
    """Medians over seeds of this checkout; rows of both go into the report."""
    runs = {label: [] for label in trees}
    for seed in range(n_seeds):
        # First one tree, then the other: neither is always the one that comes second.
        for label in sorted(trees, reverse=seed % 2 == 1):
            found = run_in(trees[label], task, seed)
            report.row(f"every seed: {task}", commit=label, seed=seed, **found)
            runs[label].append(found)
    medians = {}
    for label, found in runs.items():
        medians[label] = {
            name: float(np.median([run[name] for run in found])) for name in found[0]
        }
        report.row(f"medians: {task}", commit=label, seeds=n_seeds, **medians[label])
    return medians["here"]


def main():
    made = parser(__doc__, replicates=3)
    made.add_argument("--other", type=Path, help="checkout of the other commit")
    made.add_argument("--only", nargs="+", default=[""], help="parts of task names")
    made.add_argument("--run", nargs=2, metavar=("TASK", "SEED"))
    args = made.parse_args()
    if args.run:
        found = TASKS[args.run[0]](int(args.run[1]))
        found["package"] = str(Path(skboost.__file__).resolve().parent.parent)
        print(json.dumps(found, default=float))
        return
    if args.other is None or not (args.other / "skboost").is_dir():
        made.error(
            "--other has to name a checkout that contains skboost/, got "
            f"{args.other}; make one by `git worktree add PATH COMMIT`"
        )
    trees = {"here": _ROOT, "there": args.other.resolve()}
    report = Report(
        "glm_cost",
        args.out,
        replicates=args.replicates,
        other=commit(trees["there"]),
    )
    here = {}
    for task in TASKS:
        if any(part in task for part in args.only):
            here[task] = compared(report, trees, task, args.replicates)
    for task, column, relation, bound in BARS:
        if task in here:
            report.bar(f"{task}: {column}", here[task][column], relation, bound)
    if "10,000 x 200" in here:
        large = here["10,000 x 200"]
        report.bar(
            "10,000 x 200: next iteration / first component, CPU s",
            large["next iteration, CPU s"] / large["first component, CPU s"],
            "<=",
            1.0,
        )
    # The page shows medians before what they are made of.
    report.tables = dict(sorted(report.tables.items(), key=lambda t: t[0][0] != "m"))
    report.save()


if __name__ == "__main__":
    main()
