"""Gaussian mixtures by default: held-out density, groups, seconds.

    python benchmarks/mixtures.py [--replicates 5] [--sets iris wine ...] [--drawn 0 48]

Two thirds train, one third tests, columns standardised on the former, the number of
clusters given. ``GaussianMixture`` and ``BayesianGaussianMixture`` of scikit-learn have
``n_init=10`` and ``max_iter=500``; the latter is scored as the plain mixture with its
fitted weights, means and covariances, since its own score is no density. Ours have
their defaults, and "auto" finds the number of clusters, as "BIC" does over four shapes
of covariances. Constants were chosen on the sets of the tuning half alone.

``--drawn`` asks for the number of clusters of drawn sets, 1 to 6 clusters in 2 to 5
dimensions with 100 to 500 rows and overlap from none to much: how often each method
finds it. ``--coverage 100``: how often 90 % intervals hold what rows were drawn from.
"""

from _harness import Report, parser, shared_module, timed  # isort: skip

import itertools
from contextlib import suppress

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.preprocessing import StandardScaler

from skboost.mixture import BoostedGaussianMixture, SVIGaussianMixture

# Nats a row within which two densities are level.
LEVEL = 0.01
SHAPES = ("full", "tied", "diag", "spherical")
TUNING = ("iris", "pima", "cancer", "overlap", "skewed")
JUDGING = ("wine", "digits", "concrete", "unequal", "scales", "random")


def groups(seed, sizes, means, roots):
    """Rows of Gaussian groups, and the group of each."""
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    noise = rng.standard_normal((len(y), len(means[0])))
    X = np.asarray(means, float)[y]
    return X + np.einsum("nde,ne->nd", np.asarray(roots, float)[y], noise), y


def overlap():
    means = [[0.0, 0.0], [2.2, 0.0], [1.1, 2.0]]
    return groups(1, [60, 60, 60], means, [np.eye(2)] * 3)


def unequal():
    means = [[0.0, 0.0], [3.0, 2.0], [-3.0, 3.5]]
    roots = [[[1.5, 0], [0.6, 0.4]], [[0.5, 0], [-0.6, 1.2]], 0.5 * np.eye(2)]
    return groups(2, [200, 80, 20], means, roots)


def scales():
    means = np.array([[0.0, 0.0, 0.0], [3.0, 3.0, 0.0], [0.0, 4.0, 4.0]])
    return groups(3, [100, 100, 100], means, [s * np.eye(3) for s in (0.3, 1.0, 0.6)])


def skewed():
    X, y = groups(4, [120, 120, 120], [[0, 0], [2, 1], [4, 0]], [0.5 * np.eye(2)] * 3)
    return np.column_stack([X[:, 0], np.exp(X[:, 1])]), y


def drawn():
    rng = np.random.default_rng(5)
    roots = [rng.standard_normal((2, 2)) for _ in range(6)]
    return groups(6, [50] * 6, 4.0 * rng.standard_normal((6, 2)), roots)


GENERATED = {
    "overlap": (3, overlap),
    "unequal": (3, unequal),
    "scales": (3, scales),
    "skewed": (3, skewed),
    "random": (6, drawn),
}


def data_sets(load):
    """Name to number of clusters, rows, groups or None, columns of PCA or None."""
    made = {
        "iris": (3, *load_iris(return_X_y=True), None),
        "wine": (3, *load_wine(return_X_y=True), None),
        "cancer": (2, *load_breast_cancer(return_X_y=True), 5),
        "digits": (10, *load_digits(return_X_y=True), 10),
    }
    made |= {name: (k, *make(), None) for name, (k, make) in GENERATED.items()}
    if load is not None:
        made["pima"] = (2, load.load("pima")["X"], None, None)
        made["concrete"] = (3, load.load("concrete")["X"], None, None)
    return made


def drawn_set(seed):
    """Rows of a drawn mixture, and its number of clusters."""
    rng = np.random.default_rng([7, seed])
    k, dim, n = seed % 6 + 1, rng.integers(2, 6), rng.integers(100, 501)
    apart = rng.uniform(2.0, 6.0)
    sizes = np.maximum(rng.multinomial(n, rng.dirichlet(np.full(k, 5.0))), 10)
    means = apart * rng.standard_normal((k, dim)) / np.sqrt(2.0)
    roots = np.eye(dim) + 0.4 * rng.standard_normal((k, dim, dim))
    roots *= rng.uniform(0.6, 1.4, (k, 1, 1))
    return groups(seed, sizes, means, roots)[0], k


def by_bic(X, shapes, most, seed):
    """Of plain mixtures with these shapes of covariances the best by BIC."""
    fits = []
    for shape, k in itertools.product(shapes, range(1, most + 1)):
        plain = GaussianMixture(
            k, covariance_type=shape, n_init=3, max_iter=500, random_state=seed
        )
        # A cluster that collapses is an error of that many.
        with suppress(ValueError):
            fits.append(plain.fit(X))
    return min(fits, key=lambda fit: fit.bic(X))


class ByBIC:
    """`by_bic` with the methods of an estimator."""

    def __init__(self, most, seed):
        self.most, self.seed = most, seed

    def fit(self, X):
        return by_bic(X, SHAPES, self.most, self.seed)


def numbers(report, first, last):
    """How often each method finds the number of clusters of drawn sets."""
    right = dict.fromkeys(("auto", "BIC", "BIC, full"), 0)
    for seed in range(first, last):
        X, k = drawn_set(seed)
        X = StandardScaler().fit_transform(X)
        chosen = {
            "auto": BoostedGaussianMixture("auto", random_state=0).fit(X).n_components_,
            "BIC": by_bic(X, SHAPES, 9, 0).n_components,
            "BIC, full": by_bic(X, ["full"], 9, 0).n_components,
        }
        report.row("number of clusters", data=seed, true=k, **chosen)
        for name, number in chosen.items():
            right[name] += number == k
    report.row("sets with the right number", data=f"{first} to {last - 1}", **right)


def coverage(report, n_sets):
    """How often 90 % intervals of weights and means hold what rows were drawn from:
    three overlapping groups, 150 rows, labels matched by rows.
    """
    means, weights = np.array([[0.0, 0.0], [2.2, 0.0], [1.1, 2.0]]), np.full(3, 1 / 3)
    for kind in ("variational", "gibbs"):
        held, seconds = [], []
        for seed in range(n_sets):
            rng = np.random.default_rng([11, seed])
            y = rng.choice(3, 150, p=weights)
            X = means[y] + rng.standard_normal((150, 2))
            model = BoostedGaussianMixture(3, posterior=kind, random_state=0)
            fit, cpu, _ = timed(model.fit, X)
            shared = fit.predict_proba(X).T @ np.eye(3)[y]
            order = linear_sum_assignment(-shared)[1]
            ends, truth = fit.posterior_.interval(0.9), {"weights": weights[order]}
            truth["means"] = means[order]
            held.append(
                [
                    np.mean((ends[k][..., 0] < v) & (v < ends[k][..., 1]))
                    for k, v in truth.items()
                ]
            )
            seconds.append(cpu)
        cells = dict(zip(("weights", "means"), np.mean(held, axis=0), strict=True))
        cells["CPU s"] = np.median(seconds)
        report.row("truths in 90 % intervals", posterior=kind, sets=n_sets, **cells)


def plain(fitted):
    """The mixture with the fitted weights, means and covariances."""
    point = GaussianMixture(len(fitted.weights_))
    point.weights_, point.means_ = fitted.weights_, fitted.means_
    point.covariances_ = fitted.covariances_
    point.precisions_cholesky_ = fitted.precisions_cholesky_
    return point


def models(k, seed):
    """Every method by name."""
    theirs = {"n_init": 10, "max_iter": 500, "random_state": seed}
    return {
        "boosted": BoostedGaussianMixture(k, random_state=seed),
        "auto": BoostedGaussianMixture("auto", random_state=seed),
        "SVI": SVIGaussianMixture(k, random_state=seed),
        "BIC": ByBIC(k + 6, seed),
        "GaussianMixture": GaussianMixture(k, **theirs),
        "Bayesian": BayesianGaussianMixture(n_components=k, **theirs),
    }


def split(X, n_columns, seed):
    """Training and test rows, every transformation fitted on the former."""
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = np.split(order, [len(X) // 3])
    A, B = X[train], X[test]
    for step in (StandardScaler(), n_columns and PCA(n_columns), StandardScaler()):
        if step:
            A, B = step.fit_transform(A), step.transform(B)
    return A, B, test


def judged(k, X, y, n_columns, n_splits):
    """Density, adjusted Rand index and seconds of every method, means over splits."""
    found = {}
    for seed in range(n_splits):
        A, B, test = split(X, n_columns, seed)
        for name, model in models(k, seed).items():
            fit, cpu, _ = timed(model.fit, A)
            density = (plain(fit) if name == "Bayesian" else fit).score(B)
            index = (
                np.nan if y is None else adjusted_rand_score(y[test], fit.predict(B))
            )
            found.setdefault(name, []).append((density, index, cpu))
    return {name: np.mean(values, axis=0) for name, values in found.items()}


def of_all_rows(report, made):
    """Adjusted Rand index of all standardised rows of two sets."""
    for name, least in (("iris", 0.88), ("wine", 0.95)):
        k, X, y, _ = made[name]
        X, cells = StandardScaler().fit_transform(X), {}
        for method, model in models(k, 0).items():
            fit, cpu, _ = timed(model.fit, X)
            cells[method] = adjusted_rand_score(y, fit.predict(X))
            cells[f"{method}, s"] = cpu
        report.row("adjusted Rand index of all rows", data=name, **cells)
        report.bar(
            f"{name}, boosted: adjusted Rand index", cells["boosted"], ">=", least
        )
        report.bar(f"{name}, SVI: adjusted Rand index", cells["SVI"], ">=", least)


def main():
    options = parser(__doc__, replicates=5)
    options.add_argument("--sets", nargs="*", default=[*TUNING, *JUDGING])
    options.add_argument("--drawn", nargs=2, type=int, default=[0, 0])
    options.add_argument("--coverage", type=int, default=0, metavar="SETS")
    args = options.parse_args()
    made = data_sets(shared_module(args.shared, "data", "load"))
    report = Report("mixtures", args.out, splits=args.replicates)
    if args.coverage:
        coverage(report, args.coverage)
    if args.drawn[1]:
        numbers(report, *args.drawn)
    if args.sets:
        of_all_rows(report, made)
    gains = {"boosted": [], "SVI": []}
    for name in args.sets:
        if name not in made:
            report.not_run(name, "the shared data are not there")
            continue
        k, X, y, n_columns = made[name]
        found = judged(k, X, y, n_columns, args.replicates)
        half = "tuning" if name in TUNING else "judging"
        for i, title in enumerate(
            ("held-out nats a row", "adjusted Rand index", "CPU seconds a fit")
        ):
            cells = {method: values[i] for method, values in found.items()}
            report.row(title, data=f"{name}, {k}", half=half, **cells)
        for ours, values in gains.items():
            values.append(found[ours][0] - found["GaussianMixture"][0])
    for ours, values in gains.items():
        behind = sum(gain < -LEVEL for gain in values)
        report.bar(f"{ours} behind GaussianMixture, sets", behind, "<=", 0)


if __name__ == "__main__":
    main()
