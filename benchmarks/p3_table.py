"""Alquier's table: tempered variational inference against EM, unit variances known.

    python benchmarks/p3_table.py [--replicates 10]

sum_j p_j N(theta_j, 1), 3 components, n = 1000. The slides do not give the truth, so
there are three: components apart, overlapping, and drawn anew for every replicate (p
uniform on the simplex, theta ~ N(0, 4^2)). Temperatures 1/2 and 1 and EM start from
k-means labels, one start each; components are matched to the truth by minimum
cost. A cell is the mean over replicates of the absolute error (p: mean over the
three), its standard deviation in brackets.
"""

from _harness import Report, mean_and_error, parser, timed  # isort: skip

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from skboost.mixture import SVIGaussianMixture

TRUTHS = {
    "apart": ([0.2, 0.3, 0.5], [-4.0, 0.0, 4.0]),
    "overlapping": ([0.2, 0.3, 0.5], [-2.0, 0.0, 2.0]),
    "drawn": (None, None),
}
METHODS = ("VB 0.5", "VB 1", "EM")


def truth(name, rng):
    p, theta = TRUTHS[name]
    if p is None:
        return rng.dirichlet(np.ones(3)), 4.0 * rng.normal(size=3)
    return np.array(p), np.array(theta)


def em(x, seed, n_iter=5000, tol=1e-10):
    """Maximum likelihood with unit variances, from k-means labels."""
    labels = KMeans(3, n_init=1, random_state=seed).fit_predict(x)
    resp = np.eye(3)[labels]
    before = -np.inf
    for _ in range(n_iter):
        p = resp.mean(axis=0)
        theta = (resp.T @ x)[:, 0] / np.maximum(resp.sum(axis=0), 1e-12)
        log_p = np.log(np.maximum(p, 1e-300)) - 0.5 * (x - theta) ** 2
        total = logsumexp(log_p, axis=1)
        resp = np.exp(log_p - total[:, None])
        if total.sum() - before < tol:
            break
        before = total.sum()
    return p, theta


def vb(x, temperature, seed):
    model = SVIGaussianMixture(
        3,
        covariance_type="spherical",
        known_covariances=1.0,
        weight_concentration_prior=1.0,
        mean_prior=[0.0],
        mean_precision_prior=0.01,
        temperature=temperature,
        tol=1e-10,
        max_iter=5000,
        random_state=seed,
    ).fit(x)
    return model.weights_, model.means_[:, 0]


def errors(found, p, theta):
    """Absolute errors of (p, theta_1, theta_2, theta_3) after matching."""
    cost = np.abs(found[1][:, None] - theta)
    order = linear_sum_assignment(cost.T)[1]
    off_p = np.abs(found[0][order] - p).mean()
    return np.array([off_p, *np.abs(found[1][order] - theta)])


def one(name, replicate):
    """Errors and seconds of all methods on one data set."""
    rng = np.random.default_rng([replicate, list(TRUTHS).index(name)])
    p, theta = truth(name, rng)
    labels = rng.choice(3, size=1000, p=p)
    x = (theta[labels] + rng.normal(size=1000))[:, None]
    fits = {
        "VB 0.5": lambda: vb(x, 0.5, replicate),
        "VB 1": lambda: vb(x, 1.0, replicate),
        "EM": lambda: em(x, replicate),
    }
    found = {}
    for method, fit in fits.items():
        estimate, cpu, _ = timed(fit)
        found[method] = errors(estimate, p, theta), cpu
    return found


def main():
    options = parser(__doc__, replicates=10).parse_args()
    report = Report("p3_table", options.out, replicates=options.replicates, rows=1000)
    for name in TRUTHS:
        runs = [one(name, replicate) for replicate in range(options.replicates)]
        table = {m: np.array([run[m][0] for run in runs]) for m in METHODS}
        for method in METHODS:
            mean, spread = table[method].mean(axis=0), table[method].std(axis=0, ddof=1)
            cells = [f"{a:.3f} ({s:.3f})" for a, s in zip(mean, spread, strict=True)]
            cpu = float(np.median([run[method][1] for run in runs]))
            names = ("p", "theta 1", "theta 2", "theta 3")
            report.row(
                name, method=method, **dict(zip(names, cells, strict=True)), cpu_s=cpu
            )
        for method in METHODS[:2]:
            more, se = mean_and_error((table[method] - table["EM"]).mean(axis=1))
            title = f"{name}: mean absolute error less that of EM"
            report.row(title, method=method, difference=more, two_se=2 * se)
            what = f"{name}, {method}: error beyond EM's, less 2 standard errors"
            report.bar(what, more - 2 * se, "<=", 0.0)


if __name__ == "__main__":
    main()
