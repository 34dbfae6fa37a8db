"""Every step rule on targets where a component matters: KL(q || p) by fresh draws.

    python benchmarks/step_rules.py [--replicates 5]

Four targets whose first component misses most of the mass: two bumps, a ring, a
mixture of four Gaussians and a mixture of three Student-t. Every step size is crossed
with every corrective rule, for ``objective="kl"`` and ``objective="relbo"``, without
refinement, from one start, for at most fifteen iterations; all else by default, the
stopping rule and the number of draws included. One file of results per objective.

KL(q || p), in nats, is the mean of ln q - ln p over 10^5 draws of the final mixture
that no fit has seen; the normalisers are known in closed form. Rows give the mean over
the seeds with its standard error, the median and the worst seed. A miss smaller than
two standard errors is "undecided". Predefined and constant steps and the published
rule of Dresdner et al. 2021 (``safeguard=False, max_increases=10``) have no target.
"""

from _harness import Report, parser, timed, verdict  # isort: skip

from collections import Counter
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from _densities import four_gaussians, gaussians, three_student_t
from scipy.special import erf

from skboost import boost_posterior
from skboost.strategies import AdaptiveBacktracking

MAX_ITER, N_DRAWS = 15, 100_000
CORRECTIVE = ("none", "away", "pairwise", "fully-corrective")
STEP_SIZES = {
    "line-search": "line-search",
    "adaptive, curvature": AdaptiveBacktracking(),
    "adaptive, lipschitz": AdaptiveBacktracking(form="lipschitz"),
    "adaptive, published": AdaptiveBacktracking(safeguard=False, max_increases=10),
    "predefined": "predefined",
    "constant .1": 0.1,
}
JUDGED = ("line-search", "adaptive, curvature", "adaptive, lipschitz")


class Target(NamedTuple):
    """A log density with its log normaliser, where runs start, and the bars."""

    log_density: object
    log_normaliser: float
    start: list
    bars: dict


def ring(radius, std):
    """Unnormalised log density in the plane, and its log normaliser.

    The integral of r exp(-(r - radius)^2 / (2 std^2)) over r > 0, times 2 pi.
    """
    z = radius / std
    integral = std**2 * np.exp(-0.5 * z**2) + radius * std * np.sqrt(np.pi / 2) * (
        1.0 + erf(z / np.sqrt(2))
    )

    def log_density(theta):
        # The tiny number keeps the derivative at the origin finite.
        r = anp.sqrt(anp.sum(theta**2, axis=1) + 1e-300)
        return -0.5 * ((r - radius) / std) ** 2

    return log_density, float(np.log(2 * np.pi * integral))


TARGETS = {
    "two bumps": Target(
        gaussians([0.5, 0.5], [[-4], [4]], [0.5, 0.5]),
        0.0, [-4.0], {"kl": 0.05, "relbo": 0.1},
    ),
    "ring": Target(*ring(3.0, 0.5), [3.0, 0.0], {"kl": 0.1, "relbo": 0.4}),
    "four Gaussians": Target(
        four_gaussians, 0.0, [0.0, 0.0], {"kl": 0.05, "relbo": 0.3}
    ),
    "three Student-t": Target(
        three_student_t, 0.0, [0.0], {"kl": 0.05, "relbo": 0.15}
    ),
}  # fmt: skip


def divergence(target, posterior):
    """KL(q || p) in nats, by draws of q that no fit has seen."""
    theta = posterior.sample(N_DRAWS, random_state=12345)
    excess = posterior.log_density(theta) - target.log_density(theta)
    return float(excess.mean()) + target.log_normaliser


def fitted(target, step, corrective, objective, seed):
    """What one run found, and its divergence from the target."""
    result = boost_posterior(
        target.log_density,
        len(target.start),
        x0=target.start,
        objective=objective,
        step_size=STEP_SIZES[step],
        corrective=corrective,
        refine=False,
        max_iter=MAX_ITER,
        random_state=seed,
    )
    return result, divergence(target, result.posterior)


def row(report, name, step, corrective, objective, replicates):
    """One combination over the seeds: a row, and a bar where there is a target."""
    target, runs, seconds = TARGETS[name], [], []
    for seed in range(replicates):
        run, cpu, _ = timed(fitted, target, step, corrective, objective, seed)
        runs.append(run)
        seconds.append(cpu)
    results, kl = [result for result, _ in runs], np.array([value for _, value in runs])
    mean, se = float(kl.mean()), float(kl.std(ddof=1) / np.sqrt(len(kl)))
    bound = target.bars[objective] if step in JUDGED else None
    branches = Counter(r["branch"] for result in results for r in result.history[1:])
    report.row(
        f'KL(q || p), objective="{objective}"',
        target=name,
        **{"step size": step, "corrective": corrective, "KL": mean, "se": se},
        median=float(np.median(kl)),
        worst=float(kl.max()),
        asked=bound,
        verdict=None if bound is None else verdict(mean, "<=", bound, se),
        components=float(np.median([r.posterior.n_components for r in results])),
        iterations=float(np.median([r.n_iter for r in results])),
        **{"ended early": sum(r.n_iter < MAX_ITER for r in results)},
        branches=" ".join(f"{name} {n}" for name, n in sorted(branches.items())),
        **{"CPU s": float(np.median(seconds))},
    )
    if bound is not None:
        report.bar(f"{name}: {step}, {corrective}", mean, "<=", bound, se)


def main():
    args = parser(__doc__, replicates=5).parse_args()
    for objective in ("kl", "relbo"):
        report = Report(
            f"step_rules_{objective}", args.out, replicates=args.replicates,
            iterations=MAX_ITER, draws_of_the_divergence=N_DRAWS,
        )  # fmt: skip
        for name in TARGETS:
            for step in STEP_SIZES:
                for corrective in CORRECTIVE:
                    row(report, name, step, corrective, objective, args.replicates)


if __name__ == "__main__":
    main()
