"""Are posteriors right? Simulation-based calibration (Talts et al. 2018).

    python benchmarks/calibration.py [--simulations 300]

Logistic models with five coefficients and 100 rows, coefficients drawn from the prior:
among draws of a right posterior their ranks are uniform. `price.py` compares intervals
with those of long NUTS runs.
"""

from _harness import Report, parser, timed  # isort: skip

import numpy as np
from scipy.special import expit
from scipy.stats import chisquare

from skboost import BoostedBayesianLogisticRegression


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
        # The prior that coefficients are drawn from: by default its scale is learned.
        prior = {"prior": "normal", "prior_scale": 1.0, "fit_intercept": False}
        model = BoostedBayesianLogisticRegression(**prior, random_state=s)
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
    means = {"median CPU s": float(np.median(cpu)), "components": np.mean(components)}
    report.row("fits of the simulations", simulations=len(used), **means)
    corrected = min(1.0, dim * min(p_values))
    report.bar("smallest p, Bonferroni", corrected, ">=", 0.01)


def main():
    made = parser(__doc__)
    made.add_argument("--simulations", type=int, default=300)
    args = made.parse_args()
    report = Report("calibration", args.out, simulations=args.simulations)
    by_simulation(report, args.simulations)


if __name__ == "__main__":
    main()
