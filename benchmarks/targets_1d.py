"""Densities in one dimension: reverse KL by quadrature, component by component.

    python benchmarks/targets_1d.py [--replicates 5]

The two-mode density of Locatello et al. 2018 (section 5.1), the mixture of Campbell
and Li 2019 (Fig. 1b) and the Cauchy; ``objective="kl"``, ``tol=0``, and beside it the
residual ELBO of the papers without refinement, solved to the end and stopped early.
"""

from _harness import Report, parser, timed  # isort: skip

import autograd.numpy as anp
import numpy as np
from autograd.scipy.special import logsumexp

from skboost import boost_posterior
from skboost.strategies import GreedySearch


def normal_mixture(weights, means, stds):
    """Log density of a mixture of normals, normalised."""
    weights, means, stds = (np.array(v, dtype=float) for v in (weights, means, stds))
    shift = np.log(weights) - np.log(stds) - 0.5 * np.log(2 * np.pi)

    def log_density(theta):
        z = (theta - means) / stds
        return logsumexp(shift - 0.5 * z**2, axis=1)

    return log_density


def cauchy(theta):
    return -anp.log(np.pi) - anp.log(1.0 + theta[:, 0] ** 2)


# Name: density, components, bar of the reverse KL.
TARGETS = {
    "two modes": (normal_mixture([0.4, 0.6], [-1, 1], [0.5, 0.5]), 3, 1e-3),
    "P4 Fig. 1b": (normal_mixture([0.5, 0.5], [0, 25], [1, 5**0.5]), 2, 1e-4),
    "Cauchy": (cauchy, 12, 1e-3),
}


def reverse_kl(log_density, posterior, half_width=10.0, nodes=2001):
    """KL(q || p) by a trapezoid rule at the scale of every component of q."""
    z = np.linspace(-half_width, half_width, nodes)
    rule = np.exp(-0.5 * z**2)
    rule /= rule.sum()
    total = 0.0
    for weight, component in zip(
        posterior.weights, posterior.mixture.components, strict=True
    ):
        x = (component.mean() + component.std() * z)[:, None]
        total += weight * rule @ (posterior.log_density(x) - log_density(x))
    return float(total)


def main():
    from skboost.strategies import ResidualGain

    args = parser(__doc__, replicates=5).parse_args()
    report = Report("targets_1d", args.out, replicates=args.replicates, tol=0.0)
    settings = {
        "kl": {},
        "kl, no refinement": {"search": GreedySearch(refine=False)},
        "relbo, no refinement": {
            "objective": ResidualGain(early_stopping=False),
            "search": GreedySearch(refine=False),
        },
        "relbo stopped early, no refinement": {
            "objective": "relbo",
            "search": GreedySearch(refine=False),
        },
    }
    for name, (log_density, n, bound) in TARGETS.items():
        for label, options in settings.items():
            kl = [
                one(report, name, label, log_density, n, seed, options)
                for seed in range(args.replicates)
            ]
            if label == "kl":
                report.bar(f"{name}: median reverse KL, {n} components",
                           float(np.median(kl)), "<=", bound)  # fmt: skip
                report.bar(f"{name}: worst reverse KL of {len(kl)} seeds",
                           max(kl), "<=", bound)  # fmt: skip


def one(report, name, label, log_density, n, seed, options):
    result, cpu, _ = timed(
        boost_posterior,
        log_density,
        1,
        max_iter=n,
        tol=0.0,
        random_state=seed,
        **options,
    )
    path = [reverse_kl(log_density, stage) for stage in result.stages]
    report.row(
        "reverse KL by quadrature",
        target=name,
        setting=label,
        seed=seed,
        components=result.posterior.n_components,
        iterations=result.n_iter,
        KL=path[-1],
        first=path[0],
        **{"CPU s": cpu},
    )
    return path[-1]


if __name__ == "__main__":
    main()
