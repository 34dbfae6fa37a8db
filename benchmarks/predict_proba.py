"""Predictive probabilities: accuracy against adaptive quadrature, and rows a second.

python benchmarks/predict_proba.py
"""

from _harness import Report, parser, timed  # isort: skip

import numpy as np
from scipy.integrate import quad
from scipy.special import expit

from skboost import BoostedBayesianLogisticRegression, MixturePosterior
from skboost.families import as_family

STDS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
# In standard deviations of the whole latent, and some in its own units.
SHIFTS = [-8.0, -3.0, -1.0, -0.3, 0.0, 0.1, 0.7, 2.0, 5.0]
UNITS = [-30.0, -5.0, -0.5, 0.2, 1.0, 4.0, 12.0]


def sigmoid_normal(mean, std):
    """E sigmoid(eta), eta ~ N(mean, std^2), adaptively and piece by piece."""

    def integrand(z):
        return expit(mean + std * z) * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)

    knee = -mean / std
    cuts = {-12.0, 12.0, -3.0, 3.0, 0.0}
    cuts |= {c for w in (0, 1, 5, 20, 40) for c in (knee - w / std, knee + w / std)}
    cuts = sorted(c for c in cuts if -12.0 <= c <= 12.0)
    return sum(
        quad(integrand, a, b, epsabs=1e-15, epsrel=1e-13, limit=200)[0]
        for a, b in zip(cuts[:-1], cuts[1:], strict=True)
    )


def fitted(means, factors, weights):
    """An estimator that holds a given mixture; no fit is worth this benchmark."""
    dim = means.shape[1]
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, dim)), np.arange(30) % 2
    model = BoostedBayesianLogisticRegression(fit_intercept=False, max_iter=1)
    model, _, _ = timed(model.fit, X, y)
    family = as_family("gaussian-full", dim)
    components = [
        (family, family.from_moments(m, L @ L.T))
        for m, L in zip(means, factors, strict=True)
    ]
    model.posterior_ = MixturePosterior.from_components(components, weights)
    return model


def accuracy(report):
    # theta = (1 exactly, N(0, 1)): a row (m, s) has the latent N(m, s^2).
    tiny = 1e-12
    model = fitted(np.array([[1.0, 0.0]]), np.array([np.diag([tiny, 1.0])]), [1.0])
    worst = 0.0
    for std in STDS:
        means = np.unique([std * k for k in SHIFTS] + UNITS)
        rows = np.column_stack([means, np.full(len(means), std)])
        exact = np.array([sigmoid_normal(m, std) for m in means])
        error = np.abs(model.predict_proba(rows)[:, 1] - exact).max()
        report.row(
            "accuracy", **{"latent sd": std, "means": len(means), "error": error}
        )
        worst = max(worst, error)
    report.bar("largest error against adaptive quadrature", worst, "<=", 1e-9)


def speed(report, n_rows=200_000, dim=11, n_components=10, n_runs=7):
    rng = np.random.default_rng(1)
    means = rng.standard_normal((n_components, dim))
    factors = np.linalg.cholesky(
        [np.cov(rng.standard_normal((dim, 3 * dim))) for _ in range(n_components)]
    )
    model = fitted(means, factors, np.full(n_components, 1.0 / n_components))
    X = rng.standard_normal((n_rows, dim))
    for width in (0.1, 1.0, 10.0):
        runs = [timed(model.predict_proba, width * X)[1] for _ in range(n_runs)]
        rate = n_rows / float(np.median(runs))
        report.row("speed", **{"scale of rows": width, "rows": n_rows, "rows/s": rate})
        if width == 1.0:
            report.bar("rows a second on one core", rate, ">=", 100_000)
    eta = [means @ x for x in X[:40]]
    stds = [np.sqrt(((x @ factors) ** 2).sum(axis=1)) for x in X[:40]]
    exact = [
        np.mean([sigmoid_normal(m, s) for m, s in zip(e, sd, strict=True)])
        for e, sd in zip(eta, stds, strict=True)
    ]
    error = np.abs(model.predict_proba(X[:40])[:, 1] - exact).max()
    report.bar("largest error of the mixture of ten, 40 rows", error, "<=", 1e-9)


def main():
    args = parser(__doc__).parse_args()
    report = Report("predict_proba", args.out, features=11, components=10)
    accuracy(report)
    speed(report)


if __name__ == "__main__":
    main()
