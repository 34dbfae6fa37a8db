"""Do the intervals of hierarchical regressions hold? Calibration by simulation.

    python benchmarks/group_calibration.py [--simulations 300] [--models linear ...]

Simulation-based calibration (Talts et al. 2018) of the hierarchical models, with an
intercept and a feature, 15 groups and 120 rows: everything is drawn from the prior that
is fitted, but the noise scale, which is one; the dispersion of negative binomial counts
has the median .25 and a deviation of its logarithm of one. Student-t noise has four
degrees of freedom, ordered classes are three. In models that are called
correlated groups have slopes, too, whose correlation with intercepts is even between -1
and 1. The ranks of the truth among
99 draws are uniform where posteriors are exact; coverage is that of 90 per cent
intervals, of scales, correlation, dispersion and effects. Models that are called nested
have 60 groups of one to three rows within 12 others, each with a scale.
"""

from _harness import Report, parser, timed  # isort: skip

import numpy as np
from scipy.stats import chisquare

from skboost import (
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalOrdinalRegression,
    BoostedHierarchicalPoissonRegression,
)
from skboost.priors import DispersionPrior, HalfNormalPrior

_N_GROUPS, _N_ROWS, _N_RANKS, _N_BINS = 15, 120, 99, 10
_N_FINE, _N_COARSE = 60, 12


def linear(rng, eta, dispersion):
    return eta + rng.normal(size=len(eta))


def logistic(rng, eta, dispersion):
    return eta + rng.logistic(size=len(eta)) > 0


def student_t(rng, eta, dispersion):
    return eta + rng.standard_t(4.0, size=len(eta))


def ordered(rng, eta, dispersion):
    gap = np.exp(1.5 * rng.normal())
    return np.digitize(eta + rng.logistic(size=len(eta)), [0.0, gap])


def poisson(rng, eta, dispersion):
    return rng.poisson(np.exp(np.minimum(eta, 12.0)))


def negative_binomial(rng, eta, dispersion):
    rate = np.exp(np.minimum(eta, 12.0))
    return rng.poisson(rate * rng.gamma(1.0 / dispersion, dispersion, len(eta)))


def dispersed(**settings):
    return BoostedHierarchicalPoissonRegression(
        likelihood="negative_binomial",
        dispersion_prior=DispersionPrior(sd=1.0),
        **settings,
    )


def robust(**settings):
    return BoostedHierarchicalLinearRegression(noise="student_t", **settings)


def of_three(**settings):
    return BoostedHierarchicalOrdinalRegression(categories=[0, 1, 2], **settings)


MODELS = {
    "linear": (BoostedHierarchicalLinearRegression, linear),
    "logistic": (BoostedHierarchicalLogisticRegression, logistic),
    "Poisson": (BoostedHierarchicalPoissonRegression, poisson),
    "negative binomial": (dispersed, negative_binomial),
    "student_t": (robust, student_t),
    "ordered": (of_three, ordered),
    "linear, correlated": (BoostedHierarchicalLinearRegression, linear),
    "logistic, correlated": (BoostedHierarchicalLogisticRegression, logistic),
    "logistic, nested": (BoostedHierarchicalLogisticRegression, logistic),
    "Poisson, nested": (BoostedHierarchicalPoissonRegression, poisson),
}


def simulation(seed, estimator, response, correlated=False):
    """Truths and 99 draws of scales, the slope and the effects; CPU seconds."""
    rng = np.random.default_rng(seed)
    scale, coef, intercept = abs(rng.normal()), rng.normal(), rng.normal()
    group = np.append(
        np.arange(_N_GROUPS), rng.integers(0, _N_GROUPS, _N_ROWS - _N_GROUPS)
    )
    x, effects = rng.normal(size=_N_ROWS), scale * rng.normal(size=_N_GROUPS)
    dispersion = 0.25 * np.exp(rng.normal())
    eta, truths = intercept + coef * x + effects[group], {"scale": scale}
    if correlated:
        rho, of_slopes = rng.uniform(-1.0, 1.0), abs(rng.normal())
        slopes = rho * effects / scale
        slopes = of_slopes * (slopes + np.sqrt(1 - rho**2) * rng.normal(size=_N_GROUPS))
        eta = eta + slopes[group] * x
        truths |= {"scale of slopes": of_slopes, "correlation": rho}
    y = response(rng, eta, dispersion)
    model = estimator(
        groups=[1],
        slopes={1: [0]} if correlated else None,
        scale_prior=HalfNormalPrior(1.0),
        prior_scale=1.0,
        intercept_scale=1.0,
        random_state=seed,
    )
    if len(np.unique(y)) < 2:
        return None
    _, cpu, _ = timed(model.fit, np.column_stack([x, group]), y)
    coefs, _, scales, drawn = model.sample_posterior(_N_RANKS, random_state=seed)
    names = {
        "scale": "sd(x1)",
        "scale of slopes": "sd(x1: x0)",
        "correlation": "cor(x1: intercept, x0)",
    }
    found = {part: (truth, scales[names[part]]) for part, truth in truths.items()}
    if "dispersion" in scales:
        found["dispersion"] = dispersion, scales["dispersion"]
    found["slope"] = coef, coefs[:, 0]
    found["effects"] = effects, drawn["x1"][:, :, 0].T
    return found, cpu


def nested(seed, estimator, response):
    """The same of a factor of small groups within another one."""
    rng = np.random.default_rng(seed)
    scales, coef, intercept = abs(rng.normal(size=2)), rng.normal(), rng.normal()
    fine = np.repeat(np.arange(_N_FINE), rng.integers(1, 4, _N_FINE))
    coarse, x = fine % _N_COARSE, rng.normal(size=len(fine))
    effects = [
        scale * rng.normal(size=n)
        for scale, n in zip(scales, (_N_FINE, _N_COARSE), strict=True)
    ]
    eta = intercept + coef * x + effects[0][fine] + effects[1][coarse]
    y = response(rng, eta, None)
    if len(np.unique(y)) < 2:
        return None
    model = estimator(
        groups=[1, 2],
        scale_prior=HalfNormalPrior(1.0),
        prior_scale=1.0,
        intercept_scale=1.0,
        random_state=seed,
    )
    _, cpu, _ = timed(model.fit, np.column_stack([x, fine, coarse]), y)
    coefs, _, drawn, of_groups = model.sample_posterior(_N_RANKS, random_state=seed)
    found = {
        "scale": (scales[0], drawn["sd(x1)"]),
        "scale above": (scales[1], drawn["sd(x2)"]),
        "slope": (coef, coefs[:, 0]),
        "effects": (effects[0], of_groups["x1"][:, :, 0].T),
        "effects above": (effects[1], of_groups["x2"][:, :, 0].T),
    }
    return found, cpu


def judged(report, name, n_simulations):
    """Rows of the table of one model."""
    if "nested" in name:
        runs = [nested(seed, *MODELS[name]) for seed in range(n_simulations)]
    else:
        runs = [
            simulation(seed, *MODELS[name], "correlated" in name)
            for seed in range(n_simulations)
        ]
    used = [run for run in runs if run is not None]
    for part in used[0][0]:
        truths = np.array([np.atleast_1d(found[part][0]) for found, _ in used])
        draws = np.array([np.atleast_2d(found[part][1]) for found, _ in used])
        ranks = (draws < truths[:, :, None]).sum(axis=2)
        # Five of a hundred ranks lie outside at each end.
        inside = (ranks >= 5) & (ranks < _N_RANKS + 1 - 5)
        bins = ranks * _N_BINS // (_N_RANKS + 1)
        # Effects of one data set share its scale: the first group stands for all.
        p = chisquare(np.bincount(bins[:, 0], minlength=_N_BINS)).pvalue
        covered = inside.mean()
        report.row(
            "calibration by simulation", model=name, parameter=part,
            simulations=len(used), coverage=covered, p_uniform=p,
            cpu=float(np.median([cpu for _, cpu in used])),
        )  # fmt: skip
        report.bar(f"coverage, {name}, {part}", covered, ">=", 0.88)
        report.bar(f"coverage, {name}, {part}", covered, "<=", 0.92)


def main():
    made = parser(__doc__)
    made.add_argument("--simulations", type=int, default=300)
    made.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    args = made.parse_args()
    report = Report("group_calibration", args.out, simulations=args.simulations)
    for name in args.models:
        judged(report, name, args.simulations)
    report.save()


if __name__ == "__main__":
    main()
