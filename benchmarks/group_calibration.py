"""Do the intervals of hierarchical regressions hold? Calibration by simulation.

    python benchmarks/group_calibration.py [--simulations 300]

Simulation-based calibration (Talts et al. 2018) of the three hierarchical models, with
an intercept and a feature, 15 groups and 120 rows: everything is drawn from the prior
that is fitted, but the noise scale, which is one. The ranks of the truth among 99 draws
are uniform where posteriors are exact; coverage is that of 90 per cent intervals, of
scales and of effects.
"""

from _harness import Report, parser, timed  # isort: skip

import numpy as np
from scipy.stats import chisquare

from skboost import (
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalPoissonRegression,
)
from skboost.priors import HalfNormalPrior

_N_GROUPS, _N_ROWS, _N_RANKS, _N_BINS = 15, 120, 99, 10


def linear(rng, eta):
    return eta + rng.normal(size=len(eta))


def logistic(rng, eta):
    return eta + rng.logistic(size=len(eta)) > 0


def poisson(rng, eta):
    return rng.poisson(np.exp(np.minimum(eta, 12.0)))


MODELS = {
    "linear": (BoostedHierarchicalLinearRegression, linear),
    "logistic": (BoostedHierarchicalLogisticRegression, logistic),
    "Poisson": (BoostedHierarchicalPoissonRegression, poisson),
}


def simulation(seed, estimator, response):
    """Truths and 99 draws of the scale, the slope and the effects; CPU seconds."""
    rng = np.random.default_rng(seed)
    scale, coef, intercept = abs(rng.normal()), rng.normal(), rng.normal()
    group = np.append(
        np.arange(_N_GROUPS), rng.integers(0, _N_GROUPS, _N_ROWS - _N_GROUPS)
    )
    x, effects = rng.normal(size=_N_ROWS), scale * rng.normal(size=_N_GROUPS)
    y = response(rng, intercept + coef * x + effects[group])
    model = estimator(
        groups=[1],
        scale_prior=HalfNormalPrior(1.0),
        prior_scale=1.0,
        intercept_scale=1.0,
        random_state=seed,
    )
    if len(np.unique(y)) < 2:
        return None
    _, cpu, _ = timed(model.fit, np.column_stack([x, group]), y)
    draws = model.sample_posterior(_N_RANKS, random_state=seed)
    found = [draws["scales"]["sd(x1)"], draws["coef"][:, 0]]
    found += [*draws["group_effects"]["x1"][:, :, 0].T]
    return np.array([scale, coef, *effects]), np.array(found), cpu


def judged(report, name, n_simulations):
    """Rows of the table of one model."""
    runs = [simulation(seed, *MODELS[name]) for seed in range(n_simulations)]
    used = [run for run in runs if run is not None]
    truths = np.array([truth for truth, _, _ in used])
    draws = np.array([found for _, found, _ in used])
    ranks = (draws < truths[:, :, None]).sum(axis=2)
    # Five of a hundred ranks lie outside at each end.
    inside = (ranks >= 5) & (ranks < _N_RANKS + 1 - 5)
    parts = {"scale": slice(0, 1), "slope": slice(1, 2), "effects": slice(2, None)}
    for part, some in parts.items():
        bins = ranks[:, some] * _N_BINS // (_N_RANKS + 1)
        # Effects of one data set share its scale: the first group stands for all.
        p = chisquare(np.bincount(bins[:, 0], minlength=_N_BINS)).pvalue
        covered = inside[:, some].mean()
        report.row(
            "calibration by simulation", model=name, parameter=part,
            simulations=len(used), coverage=covered, p_uniform=p,
            cpu=float(np.median([cpu for _, _, cpu in used])),
        )  # fmt: skip
        report.bar(f"coverage, {name}, {part}", covered, ">=", 0.88)
        report.bar(f"coverage, {name}, {part}", covered, "<=", 0.92)


def main():
    made = parser(__doc__)
    made.add_argument("--simulations", type=int, default=300)
    args = made.parse_args()
    report = Report("group_calibration", args.out, simulations=args.simulations)
    for name in MODELS:
        judged(report, name, args.simulations)
    report.save()


if __name__ == "__main__":
    main()
