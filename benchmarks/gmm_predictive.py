"""Held-out log predictive density of Gaussian mixtures on five data sets.

    python benchmarks/gmm_predictive.py [--replicates 10] [--rows 4000]
        [--sets iris wine pima digits covtype] [--clusters 3 10]
        [--methods SVIGaussianMixture ...] [--name NAME]

Standardised on the training part, 70/30 splits. ``SVIGaussianMixture`` stands for
coordinate ascent with default settings but ``n_init=10``;
``BoostedGaussianMixture`` has its defaults, and scikit-learn's mixtures ``n_init=10``.
`BayesianGaussianMixture` is shown twice: by its own ``score``, which is a bound and
integrates to less than one, and as the plain mixture with its fitted weights, means and
covariances, which is a density. Differences are paired over splits: ours minus the
rival's, nats a row, and two standard errors.
"""

from _harness import Report, parser, shared_module, timed  # isort: skip

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.preprocessing import StandardScaler

from skboost.mixture import BoostedGaussianMixture, SVIGaussianMixture

STARTS = 10


def coordinate_ascent(n_clusters, seed):
    """With scikit-learn's priors, from as many starts as the rivals have."""
    return SVIGaussianMixture(
        n_clusters, covariance_prior=None, n_init=STARTS, random_state=seed
    )


def boosted(n_clusters, seed):
    """With scikit-learn's priors, all else by default."""
    return BoostedGaussianMixture(n_clusters, covariance_prior=None, random_state=seed)


OURS = {
    "SVIGaussianMixture": coordinate_ascent,
    "BoostedGaussianMixture": boosted,
}
RIVALS = ("Bayesian", "Bayesian, plain", "GaussianMixture")


def data_sets(load, n_rows):
    made = {
        "iris": load_iris().data,
        "wine": load_wine().data,
        "digits": load_digits().data,
    }
    if load is not None:
        made["pima"] = load.load("pima")["X"].astype(float)
        made["covtype"] = load.load("covtype_20k")["X"][:n_rows, :10].astype(float)
    return made


def split(name, X, seed):
    """Training and test rows, every transformation fitted on the former."""
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = np.split(order, [int(round(0.3 * len(X)))])
    steps = [PCA(10, random_state=0)] if name == "digits" else []
    X_train, X_test = X[train], X[test]
    for step in (*steps, StandardScaler()):
        X_train, X_test = step.fit_transform(X_train), step.transform(X_test)
    return X_train, X_test


def plain(fitted):
    """The mixture with the fitted weights, means and covariances."""
    point = GaussianMixture(len(fitted.weights_))
    point.weights_, point.means_ = fitted.weights_, fitted.means_
    point.covariances_ = fitted.covariances_
    point.precisions_cholesky_ = fitted.precisions_cholesky_
    return point


def scores(X_train, X_test, n_clusters, seed, methods):
    """Held-out density and CPU seconds of every method."""
    found = {}
    for name in methods:
        fit, cpu, _ = timed(OURS[name](n_clusters, seed).fit, X_train)
        found[name] = fit.score(X_test), cpu
    same = {"n_init": STARTS, "max_iter": 500, "random_state": seed}
    bayes = BayesianGaussianMixture(n_components=n_clusters, **same)
    bayes, cpu, _ = timed(bayes.fit, X_train)
    found["Bayesian"] = bayes.score(X_test), cpu
    found["Bayesian, plain"] = plain(bayes).score(X_test), cpu
    fit, cpu, _ = timed(GaussianMixture(n_clusters, **same).fit, X_train)
    found["GaussianMixture"] = fit.score(X_test), cpu
    return found


def compare(report, runs, label, methods):
    """One row of densities and one of differences for every method of ours."""
    mean = {name: np.mean([run[name][0] for run in runs]) for name in runs[0]}
    cpu = {name: np.mean([run[name][1] for run in runs]) for name in runs[0]}
    report.row("held-out log predictive density, nats a row", data=label, **mean)
    report.row("CPU seconds a fit", data=label, **cpu)
    for name in methods:
        cells = {}
        for rival in RIVALS:
            gain = np.array([run[name][0] - run[rival][0] for run in runs])
            cells[rival] = gain.mean()
            cells["2 se, " + rival] = 2.0 * gain.std(ddof=1) / np.sqrt(len(gain))
        report.row(f"{name} minus rival", data=label, **cells)


def bars(report, methods):
    for name in methods:
        rows = report.tables[f"{name} minus rival"]
        for rival in RIVALS:
            clear = [row[rival] > row["2 se, " + rival] for row in rows]
            behind = [row[rival] < -row["2 se, " + rival] for row in rows]
            report.bar(f"{name} ahead of {rival}, share", np.mean(clear), ">=", 0.5)
            report.bar(f"{name} behind {rival}, number", sum(behind), "<=", 0)


def main():
    options = parser(__doc__, replicates=10)
    options.add_argument("--rows", type=int, default=4000)
    options.add_argument("--name", default="gmm_predictive", help="of the JSON")
    options.add_argument(
        "--sets", nargs="+", default=["iris", "wine", "pima", "digits", "covtype"]
    )
    options.add_argument("--clusters", nargs="+", type=int, default=[3, 10])
    options.add_argument("--methods", nargs="+", choices=OURS, default=list(OURS))
    args = options.parse_args()
    load = shared_module(args.shared, "data", "load")
    methods = args.methods
    report = Report(args.name, args.out, splits=args.replicates, rows=args.rows)
    made = data_sets(load, args.rows)
    for name in args.sets:
        if name not in made:
            report.not_run(name, "the shared data are not there")
            continue
        for n_clusters in args.clusters:
            runs = [
                scores(*split(name, made[name], seed), n_clusters, seed, methods)
                for seed in range(args.replicates)
            ]
            compare(report, runs, f"{name}, {n_clusters}", methods)
    bars(report, methods)


if __name__ == "__main__":
    main()
