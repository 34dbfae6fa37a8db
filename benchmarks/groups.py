"""Hierarchical regressions beside NUTS: evidence, means, spreads, coverage, seconds.

    python benchmarks/groups.py [--replicates 3] [--only NAME ...]

Seeds, surgical and rats are the published data (Crowder 1978; Spiegelhalter, Best,
Gilks and Inskip 1996; Gelfand, Hills, Racine-Poon and Smith 1990); the others are
generated in their size. The same priors hold for both sides: normal ones of
coefficients, half-t ones of the scales of group effects, an inverse gamma of the
variance of the noise.

Ours is a call of ``fit``. ``KL`` is the log evidence minus the evidence bound, both
from fresh draws of the fitted density with its group effects, by Pareto-smoothed
importance sampling against the exact joint density; ``k-hat`` belongs to it. ``mean``
is the largest distance of a posterior mean, in standard deviations, of coefficients
and scales, ``effects`` of group effects; the ratios are those of the standard
deviations of scales; ``coverage`` is the share of the draws of NUTS inside of our 90
per cent intervals, averaged over all parameters. Long runs are nutpie's. Its seconds
are those of compilation and of 2 chains, 400 + 1,000 draws. CPU seconds throughout;
ours are medians.
"""

from dataclasses import dataclass, field
from functools import cached_property

from _harness import Report, median_cpu, parser, rival_module  # isort: skip

import numpy as np
from _published import RATS, SEEDS

from skboost import (
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalPoissonRegression,
)
from skboost.approximation import psis
from skboost.hierarchy import Factor, GroupedRows, marginal_of
from skboost.priors import HalfTPrior, NoiseScalePrior, NormalPrior
from skboost.targets import Logistic, Poisson

ESTIMATORS = {
    "normal": BoostedHierarchicalLinearRegression,
    "logistic": BoostedHierarchicalLogisticRegression,
    "poisson": BoostedHierarchicalPoissonRegression,
}
LIKELIHOODS = {"normal": None, "logistic": Logistic(), "poisson": Poisson()}
# Warm-up, draws and chains of the long run, and of the rival.
LONG, RIVAL = (1000, 2500, 4), (400, 1000, 2)
# What was asked for.
KL, MEAN, RATIO, COVERAGE, SECONDS, TENTH = 0.02, 0.05, 0.07, 0.02, 1.5, 0.1


@dataclass
class Task:
    """A hierarchical model and its data.

    `X` are numeric columns, `codes` one array for each factor, `slopes` the numeric
    columns whose slopes vary, by factor. `df` and `size` are of the half-t priors, the
    noise has `noise_weight` rows of size `noise_size` as its prior. `n_draws` are those
    that the evidence is computed from. `centred` is NUTS's way to write effects.
    """

    kind: str
    X: np.ndarray
    y: np.ndarray
    codes: tuple
    slopes: tuple = ()
    trials: np.ndarray | None = None
    coef_scale: float = 1.0
    intercept_scale: float = 10.0
    df: float = 3.0
    size: float = 1.0
    noise_weight: float = 1.0
    noise_size: float = 0.1
    n_draws: int = 20_000
    centred: bool = False
    seconds: float = SECONDS
    kl: float = KL
    long: tuple = field(default=LONG)

    def __post_init__(self):
        self.slopes = self.slopes or tuple(() for _ in self.codes)
        # Where our intercept has its prior, and so that of the models beside it.
        if self.X.size:
            self.X = self.X - np.average(self.X, axis=0, weights=self.trials)

    @property
    def rows(self):
        """Columns, responses and weights: binomial rows are two weighted ones."""
        table = np.column_stack([self.X, *self.codes]).astype(float)
        if self.trials is None:
            return table, self.y, np.ones(len(self.y))
        y = np.repeat([1, 0], len(self.y))
        weight = np.concatenate([self.y, self.trials - self.y]).astype(float)
        return np.vstack([table, table])[weight > 0], y[weight > 0], weight[weight > 0]

    def estimator(self, seed):
        """Ours, with the priors of this task."""
        n = self.X.shape[1]
        options = {}
        if self.kind == "normal":
            prior = NoiseScalePrior(self.noise_weight, self.noise_size)
            options = {"noise_prior": prior}
        return ESTIMATORS[self.kind](
            groups=[n + f for f in range(len(self.codes))],
            slopes={n + f: list(s) for f, s in enumerate(self.slopes) if s} or None,
            # Those of the models beside them are not correlated.
            correlated=False,
            scale_prior=HalfTPrior(self.df, self.size),
            prior_scale=self.coef_scale,
            intercept_scale=self.intercept_scale,
            random_state=seed,
            **options,
        )

    @cached_property
    def marginal(self):
        """The log likelihood, group effects integrated out."""
        table, y, weight = self.rows
        n = self.X.shape[1]
        X = np.column_stack([table[:, :n], np.ones(len(y))])
        factors = tuple(
            Factor(
                np.unique(table[:, n + f], return_inverse=True)[1],
                n_groups,
                np.column_stack([np.ones(len(y)), table[:, list(slopes)]]),
            )
            for f, (slopes, (n_groups, _)) in enumerate(
                zip(self.slopes, self.sizes, strict=True)
            )
        )
        rows = GroupedRows(X, y.astype(float), weight, factors)
        return marginal_of(rows, LIKELIHOODS[self.kind])

    @property
    def sizes(self):
        """Groups and effects of every factor."""
        return [
            (len(np.unique(codes)), 1 + len(slopes))
            for codes, slopes in zip(self.codes, self.slopes, strict=True)
        ]

    @property
    def n_scales(self):
        """Scales of effects, and of noise where there is one."""
        return sum(q for _, q in self.sizes) + self.marginal.n_further

    def parts(self, theta):
        """Coefficients, logarithms of scales and of noise, as marginals take them."""
        n = self.X.shape[1] + 1
        levels = np.log(theta[:, n:])
        if self.marginal.n_further:
            return theta[:, :n], levels[:, :-1], levels[:, -1]
        return theta[:, :n], levels

    def log_joint(self, theta):
        """Log joint density of coefficients, scales and noise, effects integrated."""
        beta, levels, *noise = self.parts(theta)
        value = self.marginal.value_and_score(beta, levels, *noise)[0]
        scale = np.append(
            np.full(self.X.shape[1], self.coef_scale), self.intercept_scale
        )
        value = value + NormalPrior().log_density(beta, scale)
        priors = [HalfTPrior(self.df, self.size)] * levels.shape[1]
        if noise:
            levels = np.column_stack([levels, noise[0]])
            priors.append(NoiseScalePrior(self.noise_weight, self.noise_size))
        for prior, level in zip(priors, levels.T, strict=True):
            # A density of the scale itself.
            value = value + prior.value_and_score(level)[0] - level
        return value


# --- data


def seeds():
    """Germination of 21 plates: seed and root extract, random plates."""
    r, n = SEEDS
    seed = np.repeat([0.0, 1.0], [11, 10])
    extract = np.repeat([0.0, 1.0, 0.0, 1.0], [5, 6, 5, 5])
    X = np.column_stack([seed, extract, seed * extract])
    return Task(
        "logistic", X, np.array(r), (np.arange(21),), trials=np.array(n),
        intercept_scale=1.0, df=1.0,
    )  # fmt: skip


def surgical():
    """Deaths of infants in twelve hospitals."""
    n = [47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360]
    r = [0, 18, 8, 46, 8, 13, 9, 31, 14, 8, 29, 24]
    return Task(
        "logistic", np.empty((12, 0)), np.array(r), (np.arange(12),),
        trials=np.array(n), df=1.0,
    )  # fmt: skip


def rats():
    """Weights of thirty rats in five weeks: every rat has a level and a slope."""
    y = RATS.ravel()
    days = np.tile([8.0, 15.0, 22.0, 29.0, 36.0], 30) - 22.0
    return Task(
        "normal", days[:, None], y, (np.repeat(np.arange(30), 5),), slopes=((0,),),
        coef_scale=100.0, intercept_scale=1000.0, size=10.0, noise_size=1.0,
        centred=True,
    )  # fmt: skip


def years():
    """Counts of forty years with a cubic trend, every year an effect of its own."""
    rng = np.random.default_rng(1)
    t = np.linspace(-1.0, 1.0, 40)
    X = np.column_stack([t, t**2, t**3])
    eta = 4.3 + X @ [1.2, 0.1, -0.8] + 0.12 * rng.normal(size=40)
    y = rng.poisson(np.exp(eta))
    return Task(
        "poisson", X, y, (np.arange(40),), coef_scale=10.0, centred=True,
    )  # fmt: skip


def radon():
    """Houses in 85 counties of unequal size, a floor, a level for each county."""
    rng = np.random.default_rng(2)
    sizes = rng.dirichlet(np.full(85, 0.7))
    county = np.append(np.arange(85), rng.choice(85, 919 - 85, p=sizes))
    floor = (rng.random(919) < 0.17).astype(float)
    y = 1.46 - 0.69 * floor + 0.33 * rng.normal(size=85)[county]
    y += 0.76 * rng.normal(size=919)
    return Task("normal", floor[:, None], y, (county,), coef_scale=10.0)


def glmm1():
    """Counts of nine years at 235 sites."""
    rng = np.random.default_rng(3)
    site = np.repeat(np.arange(235), 9)
    y = rng.poisson(np.exp(2.1 + 1.3 * rng.normal(size=235)[site]))
    return Task(
        "poisson", np.empty((len(site), 0)), y, (site,), centred=True, n_draws=10_000
    )


def crossed():
    """20,000 answers of 300 persons to 40 questions."""
    rng = np.random.default_rng(4)
    n = 20_000
    person, question = rng.integers(0, 300, n), rng.integers(0, 40, n)
    x = rng.normal(size=n)
    eta = 0.5 * x - 0.3
    eta += 0.8 * rng.normal(size=300)[person] + 0.5 * rng.normal(size=40)[question]
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    return Task(
        "logistic", x[:, None], y, (person, question), n_draws=2000, seconds=5.0,
        kl=0.1, long=(500, 1000, 2),
    )  # fmt: skip


def elections():
    """11,566 voters: age, education and both together, and states within regions."""
    rng = np.random.default_rng(5)
    n = 11_566
    age, education = rng.integers(0, 4, n), rng.integers(0, 4, n)
    state = rng.choice(51, n, p=rng.dirichlet(np.full(51, 2.0)))
    codes = (age, education, 4 * age + education, state, state % 5)
    female, black = rng.random(n) < 0.55, rng.random(n) < 0.1
    # The share of votes that each state gave before.
    before = 0.08 * rng.normal(size=51)[state]
    X = np.column_stack([female, black, female & black, before]).astype(float)
    eta = 0.3 + X @ [-0.1, -1.7, -0.2, 5.0]
    for scale, code in zip((0.1, 0.15, 0.15, 0.2, 0.15), codes, strict=True):
        eta += scale * rng.normal(size=code.max() + 1)[code]
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    return Task(
        "logistic", X, y, codes, coef_scale=10.0, n_draws=2000, seconds=10.0, kl=0.1,
        long=(500, 1000, 2),
    )  # fmt: skip


TASKS = {
    "seeds": seeds,
    "surgical": surgical,
    "rats with slopes": rats,
    "year effects (generated)": years,
    "radon (generated)": radon,
    "GLMM1 (generated)": glmm1,
    "two crossed factors (generated)": crossed,
    "five crossed factors (generated)": elections,
}


# --- figures


def joint_kl(task, posterior, seed=99):
    """Log evidence minus the bound of scales, coefficients and effects.

    Returns
    -------
    value, error, khat : float
    """
    theta = posterior.sample(task.n_draws, random_state=seed)
    ratio = task.log_joint(theta) - posterior.log_density(theta)
    if hasattr(task.marginal, "weighted_effects"):
        rng = np.random.default_rng(seed)
        normals = tuple(
            rng.standard_normal((q, len(theta), n)) for n, q in task.sizes
        )  # fmt: skip
        _, more = task.marginal.weighted_effects(normals, *task.parts(theta))
        ratio = ratio + more[0]
    smoothed, khat = psis(ratio)
    top = smoothed.max()
    weights = np.exp(smoothed - top)
    # The two averages are of the same draws: so is the error of their difference.
    terms = weights / weights.mean() - ratio
    value = top + np.log(weights.mean()) - ratio.mean()
    return float(value), float(terms.std(ddof=1) / np.sqrt(len(terms))), khat


def ours(estimator):
    """Means, standard deviations and intervals: of theta, then of all effects."""
    posterior = estimator.posterior_
    intervals = estimator.group_effects_interval(0.9)
    effects = [table.ravel() for table in estimator.group_effects_.values()]
    return {
        "mean": posterior.mean(),
        "sd": posterior.std(),
        "effects": np.concatenate(effects),
        "intervals": np.concatenate(
            [posterior.interval(0.9), *(i.reshape(-1, 2) for i in intervals.values())]
        ),
    }


def figures(found, draws, n_theta, n_scales):
    """What is compared with draws (n, n_theta + n_effects) of NUTS."""
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    low, high = found["intervals"].T
    ratio = (found["sd"] / sd[:n_theta])[n_theta - n_scales :]
    away = np.abs(np.append(found["mean"], found["effects"]) - mean) / sd
    return {
        "mean": float(away[:n_theta].max()),
        "effects": float(away[n_theta:].max()),
        "least ratio": float(ratio.min()),
        "largest ratio": float(ratio.max()),
        "coverage": float(((draws >= low) & (draws <= high)).mean()),
    }


def compare(report, name, task, models, replicates):
    """A row of the table, and its bars."""
    sampler = models.Sampler(models.grouped(task), models.grouped_columns)
    _, sampling, _ = sampler.run(*RIVAL[:2], 7, RIVAL[2])
    draws, _, rhat = sampler.run(*task.long[:2], 1, task.long[2])
    print(f"long run of {name}: R-hat {rhat:.4f}", flush=True)
    table, y, weight = task.rows
    seeds = iter(range(replicates))

    def fit():
        return task.estimator(next(seeds)).fit(table, y, weight)

    estimator, cpu = median_cpu(fit, replicates)
    found = figures(ours(estimator), draws, estimator.posterior_.dim, task.n_scales)
    kl, error, khat = joint_kl(task, estimator.posterior_)
    seconds = sampler.seconds + sampling
    report.row(
        "hierarchical models against NUTS",
        task=name, rows=len(task.y), parameters=draws.shape[1], KL=kl, se=error,
        **{"k-hat": khat}, **found, **{"CPU s": cpu},
        **{"nutpie compiles": sampler.seconds, "nutpie samples": sampling},
        **{"R-hat": rhat},
    )  # fmt: skip
    report.bar(f"{name}: KL", kl, "<=", task.kl, error)
    report.bar(f"{name}: means", max(found["mean"], found["effects"]), "<=", MEAN)
    report.bar(f"{name}: sd ratio of scales", found["least ratio"], ">=", 1 - RATIO)
    report.bar(f"{name}: sd ratio of scales", found["largest ratio"], "<=", 1 + RATIO)
    report.bar(f"{name}: coverage", found["coverage"], ">=", 0.9 - COVERAGE)
    report.bar(f"{name}: coverage", found["coverage"], "<=", 0.9 + COVERAGE)
    report.bar(f"{name}: CPU s", cpu, "<=", task.seconds)
    report.bar(f"{name}: share of nutpie's seconds", cpu / seconds, "<=", TENTH)


def main():
    made = parser(__doc__, replicates=3)
    made.add_argument("--only", nargs="+", default=[""], help="parts of names")
    args = made.parse_args()
    report = Report("groups", args.out, replicates=args.replicates)
    models = rival_module(report, "_nutpie", "all")
    if models is None:
        return
    for name, maker in TASKS.items():
        if any(part in name for part in args.only):
            compare(report, name, maker(), models, args.replicates)
        else:
            report.not_run(name, "not asked for")


if __name__ == "__main__":
    main()
