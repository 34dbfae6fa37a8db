"""Effects that are reported: what intervals cover under a learned and a wide prior.

    python benchmarks/effects.py [--replicates 100] [--rows 60 250 1000]

Generated data: eight standard normal columns with correlations of .3, and effects of
every data set 0 (three of them), .3, .3, .7, .7 and 1.2: of the log odds of two
classes, or of numbers with noise of standard deviation 2. Fits by default, whose scale
of the prior is learned, under a normal prior that is wide (ten, per standard deviation
of its column; of numbers ten standard deviations of the response), and of classes by
maximum likelihood with Wald's intervals, infinite where classes are separated. How
often 90 % intervals hold every true effect, the mean estimate of the largest and its
root mean square error, that of effects of zero, and the mean width of intervals (the
median where one is infinite).
"""

from _harness import Report, parser, timed  # isort: skip

from functools import partial

import numpy as np
from scipy.special import expit

from skboost import BoostedBayesianLinearRegression, BoostedBayesianLogisticRegression

EFFECTS = np.array([0.0, 0.0, 0.0, 0.3, 0.3, 0.7, 0.7, 1.2])


def rows_of(seed, n):
    """Columns, labels of two classes, and numbers."""
    rng = np.random.default_rng([seed, n])
    covariance = 0.3 + 0.7 * np.eye(len(EFFECTS))
    X = rng.multivariate_normal(np.zeros(len(EFFECTS)), covariance, size=n)
    eta = X @ EFFECTS - 0.5
    return X, rng.random(n) < expit(eta), eta + 2.0 * rng.normal(size=n)


def fitted(model, X, y):
    """Estimates and ends of intervals, (n_effects,) and (n_effects, 2)."""
    model.fit(X, y)
    shape = len(EFFECTS)
    return model.coef_.reshape(shape), model.coef_interval(0.9).reshape(shape, 2)


def by_likelihood(X, y):
    """Newton's method; infinite intervals where it does not settle."""
    Z, theta = np.column_stack([X, np.ones(len(X))]), np.zeros(len(EFFECTS) + 1)
    for _ in range(50):
        p = expit(Z @ theta)
        information = Z.T @ (Z * (p * (1 - p))[:, None])
        if np.linalg.cond(information) > 1e10:
            break
        step = np.linalg.solve(information, Z.T @ (y - p))
        theta = theta + step
        if np.abs(step).max() < 1e-8:
            sd = np.sqrt(np.diag(np.linalg.inv(information)))
            ends = theta[:, None] + 1.6449 * sd[:, None] * [-1.0, 1.0]
            return theta[:-1], ends[:-1]
    shape = len(EFFECTS)
    return np.full(shape, np.nan), np.full((shape, 2), [-np.inf, np.inf])


def classes(**settings):
    return partial(
        fitted, BoostedBayesianLogisticRegression(random_state=0, **settings)
    )


def numbers(X, y, wide=False):
    scale = 10.0 * y.std() / X.std(axis=0) if wide else "learn"
    model = BoostedBayesianLinearRegression(random_state=0, prior_scale=scale)
    return fitted(model, X, y)


ODDS = {
    "default, learned": classes(),
    "prior_scale=1": classes(prior_scale=1.0),
    "prior_scale=10": classes(prior_scale=10.0),
    "maximum likelihood": by_likelihood,
}
NUMBERS = {"default, learned": numbers, "wide": partial(numbers, wide=True)}


def measure(report, table, fits, response, n, replicates):
    """Rows of a table: fits of data sets of n rows."""
    sets = [rows_of(seed, n) for seed in range(replicates)]
    for name, fit in fits.items():
        found = [timed(fit, X, ys[response])[:2] for X, *ys in sets]
        estimates = np.array([one for (one, _), _ in found])
        ends = np.array([one for (_, one), _ in found])
        held = (ends[..., 0] <= EFFECTS) & (EFFECTS <= ends[..., 1])
        widths = ends[..., 1] - ends[..., 0]
        average = np.mean if np.isfinite(widths).all() else np.median
        largest = EFFECTS == EFFECTS.max()
        report.row(
            table,
            **{"rows": n, "prior": name},
            **{f"covered, {effect:g}": float(held[:, EFFECTS == effect].mean())
               for effect in np.unique(EFFECTS)},
            **{"estimate of 1.2": float(np.nanmean(estimates[:, largest])),
               "its error": rms(estimates[:, largest] - EFFECTS.max()),
               "error of 0": rms(estimates[:, EFFECTS == 0.0]),
               "width": float(average(widths)),
               "CPU s": float(np.mean([cpu for _, cpu in found]))},
        )  # fmt: skip


def rms(errors):
    """Root mean square of those that are known."""
    return float(np.sqrt(np.nanmean(errors**2)))


def main():
    made = parser(__doc__, replicates=100)
    made.add_argument("--rows", type=int, nargs="+", default=[60, 250, 1000])
    args = made.parse_args()
    report = Report("effects", args.out, replicates=args.replicates)
    for n in args.rows:
        measure(report, "Log odds", ODDS, 0, n, args.replicates)
        measure(report, "Numbers", NUMBERS, 1, n, args.replicates)
    report.save()


if __name__ == "__main__":
    main()
