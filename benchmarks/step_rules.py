"""Step rules at equal seconds: four densities and two data sets, fifteen iterations.

    python benchmarks/step_rules.py [--replicates 5] [--refined 1]

Four step rules (predefined, line search, adaptive as published and with the safeguard)
by four corrective rules, for components by the joint gain, without refinement. The
densities are two bumps, a ring, a mixture of four Gaussians and one of three Student-t,
from one start that misses most of the mass, with full Gaussian components; the data
sets are logistic regressions with Laplace components, as in Dresdner et al. 2021.
Breast cancer is run with ``refine=True`` too, the default of the package, for
``--refined`` seeds.

CPU seconds and the points at which the density is evaluated are read at the end of
every iteration. The unit of time of a task is what predefined steps without correction
take to their end (median of the seeds): every rule is judged by the mixture that it
would return after a quarter, a half and the whole of it, and at its own end; one that
ends early stays where it is. The rules of one seed run one after the other.
KL(q || p), in nats, is by 5,000 draws that no fit has seen; the normalisers of the
densities are known, those of the data sets are estimated by importance sampling from
the default fit with Gaussian components.

The target is that no rule takes more than 1.3 times the seconds of predefined steps.
"""

from _harness import Report, elbo_of, mean_and_error, parser, shared_module, timed  # isort: skip

import time
from typing import NamedTuple

import numpy as np
from _densities import four_gaussians, gaussians, ring, three_student_t
from p0_tables import PUBLISHED
from scipy.special import log_expit, logsumexp
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from skboost import BoostedBayesianLogisticRegression, boost_posterior
from skboost.posterior import as_posterior
from skboost.strategies import GreedySearch
from skboost.targets import GLMTarget

MAX_ITER, N_DRAWS, MOST_TIMES = 15, 5000, 1.3
PARTS = {"1/4": 0.25, "1/2": 0.5, "1": 1.0}
CORRECTIVE = ("none", "away", "pairwise", "fully-corrective")
STEP_SIZES = {
    "predefined": "predefined",
    "line-search": "line-search",
    "adaptive, published": PUBLISHED,
    "adaptive": "adaptive",
}
SETTINGS = {"max_iter": MAX_ITER, "tol": 0.01, "orbit": None}


class Clock:
    """CPU seconds and points evaluated, at the end of every iteration of a fit."""

    def __init__(self):
        self.marks, self.points, self.began = [], 0, time.process_time()

    def counted(self, function):
        """A function of points that are counted."""

        def counting(*args, **more):
            # Before them is the target, and after them how it is evaluated.
            self.points += len(next(a for a in args[::-1] if not isinstance(a, bool)))
            return function(*args, **more)

        return counting

    def __call__(self, record=None):
        self.marks.append((time.process_time() - self.began, self.points))
        return False

    # --- what `set_callbacks` of an estimator asks for

    def setup(self, estimator, context):
        """Nothing to prepare."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do before an iteration."""

    def on_fit_task_end(self, estimator, context):
        """Note the time after an iteration."""
        return self() if context.task_name == "iteration" else False

    def teardown(self, estimator, context):
        """Nothing to put away."""


class Target(NamedTuple):
    """A log density with its log normaliser, and where runs start."""

    log_density: object
    log_normaliser: float
    start: list

    def fit(self, clock, **options):
        """The posterior after every iteration."""
        return boost_posterior(
            clock.counted(self.log_density),
            len(self.start),
            x0=self.start,
            callback=clock,
            **options,
        ).stages


class Regression(NamedTuple):
    """A logistic regression with a standard normal prior, by Laplace components."""

    X: np.ndarray
    y: np.ndarray
    log_normaliser: float

    @classmethod
    def of(cls, X, y):
        """With the evidence by importance sampling from the default fit."""
        task = cls(scale(np.asarray(X, dtype=float)), np.where(y, 1.0, -1.0), 0.0)
        theta = task.model(random_state=0).fit(task.X, task.y).posterior_
        draws = theta.sample(50_000, random_state=1)
        ratio = task.log_density(draws) - theta.log_density(draws)
        return task._replace(log_normaliser=logsumexp(ratio) - np.log(len(ratio)))

    @staticmethod
    def model(**options):
        # That of the density: by default its scale is learned.
        prior = {"prior": "normal", "prior_scale": 1.0, "fit_intercept": False}
        return BoostedBayesianLogisticRegression(**prior, **options)

    def log_density(self, theta):
        prior = -0.5 * (theta**2 + np.log(2 * np.pi)).sum(axis=1)
        return log_expit(theta @ (self.X * self.y[:, None]).T).sum(axis=1) + prior

    def fit(self, clock, **options):
        """The posterior after every iteration."""
        asked = {
            name: vars(GLMTarget)[name] for name in ("log_density", "value_and_score")
        }
        for name, method in asked.items():
            setattr(GLMTarget, name, clock.counted(method))
        try:
            model = self.model(family="laplace", **options).set_callbacks(clock)
            mixtures = model.fit(self.X, self.y)._fit.stages
        finally:
            for name, method in asked.items():
                setattr(GLMTarget, name, method)
        return [as_posterior(mixture, None) for mixture in mixtures]


TARGETS = {
    "two bumps": Target(gaussians([0.5, 0.5], [[-4], [4]], [0.5, 0.5]), 0.0, [-4.0]),
    "ring": Target(*ring(3.0, 0.5), [3.0, 0.0]),
    "four Gaussians": Target(four_gaussians, 0.0, [0.0, 0.0]),
    "three Student-t": Target(three_student_t, 0.0, [0.0]),
}


class Run(NamedTuple):
    """One fit: marks of the clock, and the divergence as a function of the second."""

    task: object
    stages: list
    marks: np.ndarray

    @classmethod
    def of(cls, task, **options):
        clock = Clock()
        stages, _, _ = timed(task.fit, clock, **options)
        # A stage that limits or stopping end has its mark as well.
        return cls(task, stages, np.array(clock.marks))

    @property
    def seconds(self):
        return self.marks[-1, 0]

    def done(self, second):
        """Iterations that have ended by then, the first component at least."""
        return max(1, int((self.marks[:, 0] <= second).sum()))

    def divergences(self, seconds):
        """KL(q || p) of what the run would return at each of these times."""
        steps = [self.done(second) for second in seconds]
        known = {
            step: self.task.log_normaliser
            - elbo_of(self.task.log_density, self.stages[step - 1], N_DRAWS)[0]
            for step in set(steps)
        }
        return [known[step] for step in steps]


def compare(report, name, task, replicates, refine):
    """All rules on one task: a table, the curves and the targets."""
    rules = [(step, corrective) for step in STEP_SIZES for corrective in CORRECTIVE]
    runs = {rule: [] for rule in rules}
    for seed in range(replicates):
        for step, corrective in rules:
            options = {"step_size": STEP_SIZES[step], "corrective": corrective}
            options |= {"search": GreedySearch(refine=refine), "random_state": seed}
            runs[step, corrective].append(Run.of(task, **options, **SETTINGS))
    base = np.array([run.seconds for run in runs["predefined", "none"]])
    unit, found = float(np.median(base)), {}
    for (step, corrective), several in runs.items():
        times = [part * unit for part in PARTS.values()]
        kl = np.array([run.divergences([*times, run.seconds]) for run in several])
        ratio = float(np.median([run.seconds for run in several] / base))
        mean, se = mean_and_error(kl[:, 2])
        columns = {f"KL at {part}": kl[:, k].mean() for k, part in enumerate(PARTS)}
        report.row(
            f"{name} (1 is {unit:.2g} CPU s)",
            **{"step size": step, "corrective": corrective},
            **columns,
            se=se,
            **{"KL at its end": kl[:, 3].mean()},
            **{"iterations at 1": np.median([run.done(unit) for run in several])},
            components=np.median([run.stages[-1].n_components for run in several]),
            evaluations=np.median([run.marks[-1, 1] for run in several]),
            **{"times predefined": ratio},
        )
        for seed, run in enumerate(several):
            report.curve(
                task=name,
                step=step,
                corrective=corrective,
                seed=seed,
                seconds=run.marks[:, 0].round(4).tolist(),
                evaluations=run.marks[:, 1].astype(int).tolist(),
                divergences=kl[seed].round(5).tolist(),
            )
        report.bar(f"{name}: {step}, {corrective}: seconds over those of predefined",
                   ratio, "<=", MOST_TIMES)  # fmt: skip
        found[step, corrective] = mean
    return found


def main():
    made = parser(__doc__, replicates=5)
    made.add_argument("--refined", type=int, default=1, help="seeds with refinement")
    args = made.parse_args()
    report = Report(
        "step_rules", args.out, replicates=args.replicates, refined=args.refined,
        iterations=MAX_ITER, draws_of_the_divergence=N_DRAWS,
    )  # fmt: skip
    tasks, load = dict(TARGETS), shared_module(args.shared, "data", "load")
    cancer = load_breast_cancer()
    if load is None:
        report.not_run("pima", "no data in the shared folder")
    else:
        pima = load.load("pima")
        tasks["pima, 8-D"] = Regression.of(pima["X"], pima["y"] > 0)
    tasks["breast cancer, 30-D"] = Regression.of(cancer.data, cancer.target > 0)
    found = {
        name: compare(report, name, task, args.replicates, refine=False)
        for name, task in tasks.items()
    }
    for step in STEP_SIZES:
        for corrective in CORRECTIVE:
            report.row(
                "KL at 1, all tasks",
                **{"step size": step, "corrective": corrective},
                **{name: kl[step, corrective] for name, kl in found.items()},
            )
    if args.refined:
        name = "breast cancer, refined"
        compare(report, name, tasks["breast cancer, 30-D"], args.refined, refine=True)


if __name__ == "__main__":
    main()
