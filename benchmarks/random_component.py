"""A second component at random: step rules in growing dimension.

    python benchmarks/random_component.py [--replicates 50]

The synthetic experiment of Dresdner et al. 2021 (section 6.1 and Fig. 1, left). The
target is a mixture of two Gaussians, the approximation starts as the first of the two,
and the second component is drawn at random, so that it is worth less the higher the
dimension. What does a step rule make of it? As in the authors' code, weights are
Dirichlet(1, 1), means N(0, 1) and standard deviations softplus(N(0, 1)), all drawn anew
for every run, 100 draws per component; the divergence is measured on fresh draws.

Line search by stochastic gradient is theirs: ten projected steps of size 0.1 / (i + 1),
from 2 / 3, on new draws. Their code ends the search where it first hits 0 or 1; the
paper does not mention that, and it makes all the difference. Both stand in the table.
The other rules are the package's, on one table of cached draws.
"""

from types import SimpleNamespace

from _harness import Report, parser, timed  # isort: skip

import numpy as np
from figures import plt, results, save
from p0_tables import PUBLISHED

from skboost.approximation import Mixture, PooledDraws
from skboost.families import DiagonalGaussian
from skboost.frank_wolfe import (
    AdaptiveBacktracking,
    LineSearch,
    apply,
    frank_wolfe_direction,
)

DIMENSIONS = (2, 5, 10, 20, 50, 100)
FAMILY = DiagonalGaussian()
N_DRAWS, N_FRESH = 100, 10_000
PREDEFINED = 2 / 3


def random_gaussian(dim, rng):
    """Parameters (means, log standard deviations) of a Gaussian at random."""
    mean, std = rng.standard_normal(dim), np.logaddexp(0.0, rng.standard_normal(dim))
    return np.concatenate([mean, np.log(std)])


class Run:
    """A target, its first component as the approximation, and one at random."""

    def __init__(self, dim, seed):
        self.rng = np.random.default_rng([dim, seed])
        self.dim = dim
        first, second, new = (random_gaussian(dim, self.rng) for _ in range(3))
        self.target = Mixture(
            ((FAMILY, first), (FAMILY, second)), self.rng.dirichlet([1.0, 1.0])
        )
        self.q = Mixture(((FAMILY, first), (FAMILY, new)), [1.0, 0.0])

    def base_draws(self, n):
        return [FAMILY.base_draws(n, self.dim, self.rng) for _ in self.q.components]

    def draws(self, n):
        """Draws from both components, each (n, dim)."""
        pairs = zip(self.q.components, self.base_draws(n), strict=True)
        return [component.draws(eps) for component, eps in pairs]

    def log_ratios(self, gamma, draws):
        """ln q - ln p at draws from both components, nats."""
        q = self.q.with_weights([1.0 - gamma, gamma])
        return [q.log_density(x) - self.target.log_density(x) for x in draws]

    def noisy_slope(self, gamma):
        """Derivative of the divergence in the step, on new draws."""
        old, new = self.log_ratios(gamma, self.draws(N_DRAWS))
        return new.mean() - old.mean()

    def objective(self):
        """The divergence as a function of the weights, on cached draws."""
        target = SimpleNamespace(
            log_density=lambda theta, strict: self.target.log_density(theta)
        )
        pool = PooledDraws.of(target, self.q, self.base_draws(N_DRAWS), exact=False)
        return pool.weight_objective()

    def divergences(self, gammas):
        """KL(q || p) after each of several steps, on common fresh draws, nats."""
        draws = self.draws(N_FRESH)
        values = []
        for gamma in gammas:
            old, new = self.log_ratios(gamma, draws)
            values.append((1.0 - gamma) * old.mean() + gamma * new.mean())
        return np.array(values)


def gradient_search(run, stop, steps=10, size=0.1):
    """Line search by projected stochastic gradient; `stop` ends it at 0 or 1."""
    gamma = PREDEFINED
    for i in range(steps):
        gamma -= size / (i + 1) * run.noisy_slope(gamma)
        gamma = min(max(gamma, 0.0), 1.0)
        if stop and gamma in (0.0, 1.0):
            break
    return gamma, "search"


def cached(run, rule):
    """Step of one of the package's rules, and the branch that it took."""
    objective, weights = run.objective(), run.q.weights
    toward = frank_wolfe_direction(objective.slope(weights), weights, 1)
    step = rule.choose(objective, weights, toward, iteration=1)
    return apply(weights, step.direction, step.gamma)[1], step.branch


ALONE = "first component alone"
SEARCHES = ("gradient line search", "gradient line search, ends at 0 or 1")
ADAPTIVE = ("adaptive", "adaptive as published")
RULES = {
    ALONE: lambda run: (0.0, "none"),
    "predefined": lambda run: (PREDEFINED, "predefined"),
    SEARCHES[0]: lambda run: gradient_search(run, stop=False),
    SEARCHES[1]: lambda run: gradient_search(run, stop=True),
    ADAPTIVE[0]: lambda run: cached(run, AdaptiveBacktracking()),
    ADAPTIVE[1]: lambda run: cached(run, PUBLISHED),
    "exact line search, cached draws": lambda run: cached(run, LineSearch()),
}


def runs(dim, replicates):
    """Steps, branches, divergences and CPU seconds: a list per run, in RULES' order."""
    found = []
    for seed in range(replicates):
        steps, cpu = [], []
        for rule in RULES.values():
            (gamma, branch), seconds, _ = timed(rule, Run(dim, seed))
            steps.append((gamma, branch))
            cpu.append(seconds)
        gammas, branches = zip(*steps, strict=True)
        judge = Run(dim, seed)
        judge.rng = np.random.default_rng([dim, seed, 1])
        found.append((gammas, branches, judge.divergences(gammas), cpu))
    return [np.array(column) for column in zip(*found, strict=True)]


def tables(report, replicates):
    """One row per dimension and rule; divergences of all runs by dimension."""
    divergences, all_steps = {}, {}
    for dim in DIMENSIONS:
        gammas, branches, kl, cpu = runs(dim, replicates)
        divergences[dim], all_steps[dim] = kl, gammas
        for k, name in enumerate(RULES):
            own, steps = kl[:, k], gammas[:, k]
            report.row(
                "KL to the target after the second component", D=dim, rule=name,
                **{"mean KL": own.mean(), "median KL": float(np.median(own))},
                **{"worst KL": own.max()},
                **{"worse than alone": int((own > kl[:, 0] + 1e-3).sum())},
                **{"step 0": int((steps < 1e-6).sum())},
                **{"step 1": int((steps > 1 - 1e-6).sum())},
                fallback=int((branches[:, k] == "fallback").sum()),
                **{"CPU ms": 1e3 * float(np.median(cpu[:, k]))},
            )  # fmt: skip
    return divergences, all_steps


def bars(report, divergences):
    """Adaptive no worse than line search in any dimension, to 1e-3 nats."""
    names = list(RULES)
    for adaptive in ADAPTIVE:
        for search in SEARCHES:
            for label, average in (("mean", np.mean), ("median", np.median)):
                excess = max(
                    average(kl[:, names.index(adaptive)])
                    - average(kl[:, names.index(search)])
                    for kl in divergences.values()
                )
                report.bar(
                    f"{label} KL of '{adaptive}' minus '{search}', worst dimension",
                    float(excess), "<=", 1e-3,
                )  # fmt: skip


def picture(divergences, steps, content):
    """Medians with the middle 80 % of the runs, and the mean step."""
    made, axes = plt.subplots(1, 2, figsize=(9, 4.4))
    # Three rules find the same step: their markers lie inside of each other.
    looks = {
        ALONE: ("0.6", "", "--", 0),
        "predefined": ("C4", "s", "-", 5),
        SEARCHES[0]: ("C1", "^", "-", 5),
        SEARCHES[1]: ("C3", "v", "-", 5),
        ADAPTIVE[0]: ("C0", "o", "-", 10),
        ADAPTIVE[1]: ("C2", "o", "--", 6.5),
        "exact line search, cached draws": ("k", ".", ":", 4),
    }
    dims = np.array(DIMENSIONS)
    for k, (name, (color, marker, line, size)) in enumerate(looks.items()):
        kl = np.array([divergences[dim][:, k] for dim in DIMENSIONS])
        gamma = np.array([steps[dim][:, k] for dim in DIMENSIONS])
        style = {"color": color, "marker": marker, "ms": size, "ls": line}
        axes[0].plot(dims, kl.mean(axis=1), label=name, **style)
        low, high = np.quantile(kl, [0.1, 0.9], axis=1)
        shift = 1.0 + 0.025 * (k - 3)
        axes[0].vlines(dims * shift, low, high, color=color, lw=0.8, alpha=0.6)
        if name != ALONE:
            axes[1].plot(dims, gamma.mean(axis=1), **style)
    axes[0].set(yscale="log", ylabel="KL(q ‖ p) (nats): mean, middle 80 % of runs")
    axes[1].set(ylabel="mean step γ", ylim=(-0.03, 1.0))
    for ax in axes:
        ax.set(xscale="log", xlabel="dimension")
        ax.set_xticks(dims, [str(dim) for dim in dims])
        ax.minorticks_off()
    made.legend(loc="outside lower center", ncols=3)
    save(made, "random_component", content)


def main():
    args = parser(__doc__, replicates=50).parse_args()
    report = Report(
        "random_component", args.out, replicates=args.replicates, draws=N_DRAWS
    )
    divergences, steps = tables(report, args.replicates)
    bars(report, divergences)
    report.save()
    picture(divergences, steps, results("random_component", args.out))


if __name__ == "__main__":
    main()
