"""Are the intervals right? Against long NUTS runs, and by simulation.

    python benchmarks/calibration.py [--simulations 300]

Part one: 90 % credible intervals of the predictive probability on held-out rows of
five data sets, default fits, against NumPyro's NUTS (2 chains x 4,000 draws after
1,000 of warm-up). Part two: simulation-based calibration (Talts et al. 2018) of a
logistic model with five coefficients and 100 rows.
"""

from _harness import Report, parser, rival_module, timed  # isort: skip

import numpy as np
from scipy.special import expit
from scipy.stats import chisquare
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLogisticRegression


def data_sets():
    """Name, X, y: four bundled sets and a generated one."""
    yield "breast cancer", *load_breast_cancer(return_X_y=True)
    X, y = load_iris(return_X_y=True)
    yield "iris, 1 against 2", X[y > 0], y[y > 0] - 1
    X, y = load_wine(return_X_y=True)
    yield "wine, 0 against 1", X[y < 2], y[y < 2]
    X, y = load_digits(return_X_y=True)
    few = np.isin(y, (3, 8))
    X = PCA(10, random_state=0).fit_transform(X[few])
    yield "digits, 3 against 8, 10 PCs", X, (y[few] == 8).astype(int)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 8)) @ rng.standard_normal((8, 8))
    y = rng.random(120) < expit(X @ rng.standard_normal(8) * 0.5 - 2.0)
    yield "generated, 120 x 8", X, y.astype(int)


def against_nuts(report, rivals):
    for name, X, y in data_sets():
        X, X_test, y, _ = train_test_split(
            X, y, test_size=0.4, random_state=0, stratify=y
        )
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
        fit, cpu, _ = timed(BoostedBayesianLogisticRegression(random_state=0).fit, X, y)
        wide = np.column_stack([X, np.ones(len(X))])
        scale = np.append(np.ones(X.shape[1]), 10.0)
        (draws, rhat), cpu_nuts, _ = timed(rivals.nuts, rivals.logistic(wide, y, scale))
        p = expit(np.column_stack([X_test, np.ones(len(X_test))]) @ draws.T)
        theirs = np.quantile(p, [0.05, 0.95], axis=1).T
        one, two = np.split(p, 2, axis=1)
        noise = np.abs(
            np.quantile(one, [0.05, 0.95], axis=1)
            - np.quantile(two, [0.05, 0.95], axis=1)
        ).mean()
        difference = np.abs(fit.predict_proba_interval(X_test, 0.9) - theirs)
        mean = np.abs(fit.predict_proba(X_test)[:, 1] - p.mean(axis=1))
        report.row("90 % intervals of the probability", data=name, rows=len(X),
                   columns=X.shape[1], **{
                       "mean |difference|": difference.mean(),
                       "lower": difference[:, 0].mean(),
                       "upper": difference[:, 1].mean(),
                       "largest": difference.max(),
                       "between chains": noise,
                       "mean |p - p|": mean.mean(),
                       "components": fit.posterior_.n_components,
                       "CPU s": cpu, "CPU s NUTS": cpu_nuts,
                       "R-hat": rhat})  # fmt: skip
        report.bar(
            f"{name}: mean |difference| of both ends", difference.mean(), "<=", 0.02
        )


def by_simulation(report, n_simulations, dim=5, n_rows=100, n_ranks=99, n_bins=10):
    rng = np.random.default_rng(2026)
    ranks, cpu, components = np.empty((n_simulations, dim), dtype=int), [], []
    for s in range(n_simulations):
        theta = rng.standard_normal(dim)
        X = rng.standard_normal((n_rows, dim))
        X[:, -1] = 1.0
        y = (rng.random(n_rows) < expit(X @ theta)).astype(int)
        if y.min() == y.max():
            # One class only: the estimator refuses it; counted as not used.
            ranks[s] = -1
            continue
        model = BoostedBayesianLogisticRegression(fit_intercept=False, random_state=s)
        fit, seconds, _ = timed(model.fit, X, y)
        draws = fit.posterior_.sample(n_ranks, random_state=s)
        ranks[s] = (draws < theta).sum(axis=0)
        cpu.append(seconds)
        components.append(fit.posterior_.n_components)
    used = ranks[(ranks >= 0).all(axis=1)]
    edges = np.linspace(0, n_ranks + 1, n_bins + 1)
    p_values = [
        chisquare(np.histogram(used[:, j], bins=edges)[0]).pvalue for j in range(dim)
    ]
    for j, p_value in enumerate(p_values):
        report.row("simulation-based calibration", coefficient=j, simulations=len(used),
                   counts=np.histogram(used[:, j], bins=edges)[0].tolist(),
                   p=p_value)  # fmt: skip
    report.row(
        "fits of the simulations",
        simulations=len(used),
        **{
            "median CPU s": float(np.median(cpu)),
            "mean components": np.mean(components),
        },
    )
    corrected = min(1.0, dim * min(p_values))
    report.bar("smallest p, Bonferroni", corrected, ">=", 0.01)


def main():
    made = parser(__doc__)
    made.add_argument("--simulations", type=int, default=300)
    args = made.parse_args()
    report = Report("calibration", args.out, simulations=args.simulations)
    rivals = rival_module(report, "_rivals", "intervals against NUTS")
    if rivals is not None:
        against_nuts(report, rivals)
    by_simulation(report, args.simulations)


if __name__ == "__main__":
    main()
