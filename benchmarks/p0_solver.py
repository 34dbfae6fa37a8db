"""Tables 2 and 3 of Dresdner et al. 2021 by the authors' own solver.

    python benchmarks/p0_solver.py --set ds1 [--intercept] [--replicates 10]
        [--steps 1000] [--iterations 18] [--rows 2000] [--name NAME]

A component takes ``--steps`` steps of Adam on one draw from a random start, on the
residual ELBO with an entropy weight of 1; step rules are those of the paper, its line
search by stochastic gradients among them, with the settings that the authors' README
has for each and the least step 0.01 of their code. One split, ``--replicates`` seeds of
the fit. As in the paper, the iteration that counts is the one with the largest median
train log likelihood over the seeds; beside it stands the last one. Seconds are those of
step selection alone, which is what the authors timed; ``iteration`` has the median
seconds of a whole iteration. Every seed is kept in the JSON once it is done, and a run
at the same commit with the same settings goes on after it.
"""

from _harness import Report, mean_and_error, parser, shared_module, timed  # isort: skip

import numpy as np
from p0_tables import PAPER, ds1, eicu_like, order, se
from p1_solver import done_before, figures, joint, keep

from skboost import boost_posterior
from skboost.strategies import (
    AdaptiveBacktracking,
    ResidualGain,
    StochasticLineSearch,
    StochasticSearch,
)


def adaptive(decrease, initial, increase):
    """The authors' backtracking with one of their settings."""
    return AdaptiveBacktracking(
        form="lipschitz", safeguard=False, max_increases=10, min_gamma=0.01,
        decrease=decrease, initial=initial, increase=increase,
    )  # fmt: skip


# Step rule and corrective rule.
METHODS = {
    "predefined": ("predefined", "none"),
    "line-search": (StochasticLineSearch(), "none"),
    "exact line search": ("line-search", "none"),
    "AdaFW": (adaptive(0.1, 0.01, 2.0), "none"),
    "AdaAFW": (adaptive(0.1, 1.0, 5.0), "away"),
    "AdaPFW": (adaptive(0.99, 0.01, 1.01), "pairwise"),
}
COLUMNS = ("train LL", "test AUROC", "ELBO", "step ms", "iteration ms")


def runs_of(metrics, data, seed, args):
    """Figures of every iteration by every rule, and the CPU seconds of all."""
    density, both = joint(*data[:2])
    found, seconds = {}, 0.0
    for name, (step_size, corrective) in METHODS.items():
        result, cpu, _ = timed(
            boost_posterior, density, data[0].shape[1], family="laplace",
            value_and_gradient=both, vectorized=True, random_state=seed, orbit=None,
            tol=0.0, max_iter=args.iterations,
            objective=ResidualGain(entropy_weight=1.0, early_stopping=False),
            search=StochasticSearch(
                args.steps, select="last", n_draws=100, refine=False
            ),
            step_size=step_size, corrective=corrective,
        )  # fmt: skip
        seconds += cpu
        found[name] = [
            [*figures(metrics, stage, data, seed), record["elbo"],
             1e3 * record["seconds_weights"], 1e3 * record["seconds"]]
            for stage, record in zip(result.stages, result.history, strict=True)
        ]  # fmt: skip
        # A run that a rule ended before stays where it was.
        found[name] += found[name][-1:] * (args.iterations - len(found[name]))
    return found, seconds


def tables(report, runs, paper):
    """Rows of all rules at the best and at the last iteration, and their differences.

    `runs` has for every rule an array (seeds, iterations, figures).
    """
    best = {
        name: int(np.median(found[:, :, 0], axis=0).argmax())
        for name, found in runs.items()
    }
    at = {
        "iteration with the best median train LL": best,
        "last iteration": {name: found.shape[1] - 1 for name, found in runs.items()},
    }
    for which, places in at.items():
        chosen = {name: found[:, places[name]] for name, found in runs.items()}
        for name, values in chosen.items():
            # The first component takes no step.
            ms = np.median(runs[name][:, 1:, 3:], axis=(0, 1))
            row = {"method": name, "iteration": places[name] + 1}
            for k, figure in enumerate(COLUMNS[:3]):
                row |= {figure: values[:, k].mean(), f"se {figure}": se(values[:, k])}
            row |= dict(zip(COLUMNS[3:], map(float, ms), strict=True))
            report.row(which, **row)
        for other in ("predefined", "line-search"):
            for name in ("AdaFW", "AdaAFW", "AdaPFW"):
                excess = chosen[name] - chosen[other]
                row = {"pair": f"{name} - {other}"}
                for k, figure in enumerate(COLUMNS[:3]):
                    asked = 1.0 if k == 2 else paper[name][k] - paper[other][k]
                    mean, error = mean_and_error(excess[:, k])
                    row |= {figure: mean, f"se {figure}": error}
                    row |= {f"{figure}, order": order(excess[:, k], asked)}
                report.row(f"{which}: differences", **row)


def main():
    made = parser(__doc__, replicates=10)
    made.add_argument("--set", choices=PAPER, default="ds1")
    made.add_argument("--intercept", action="store_true")
    made.add_argument("--steps", type=int, default=1000)
    made.add_argument("--iterations", type=int, default=18)
    made.add_argument("--rows", type=int, default=2000, help="of the generated set")
    made.add_argument("--name", help="of the file, in place of p0_solver_SET")
    args = made.parse_args()
    kept = ("replicates", "set", "intercept", "steps", "iterations", "rows")
    settings = {k: getattr(args, k) for k in kept}
    name = args.name or f"p0_solver_{args.set}" + "_intercept" * args.intercept
    report = Report(name, args.out, **settings)
    load = shared_module(args.shared, "data", "load")
    make_synthetic = shared_module(args.shared, "data", "make_synthetic")
    metrics = shared_module(args.shared, "reference", "metrics")
    if load is None or metrics is None:
        report.not_run(args.set, "the shared data are not there")
        return
    data = ds1(load, 0) if args.set == "ds1" else eicu_like(make_synthetic, args.rows)
    if args.intercept:
        X, y, X_test, y_test = data
        columns = [np.column_stack([x, np.ones(len(x))]) for x in (X, X_test)]
        data = columns[0], y, columns[1], y_test
    found = done_before(report)
    for seed in range(args.replicates):
        if (0, seed) not in found:
            found[0, seed], cpu = runs_of(metrics, data, seed, args)
            keep(report, (0, seed), found[0, seed], cpu)
    seeds = [found[0, seed] for seed in range(args.replicates)]
    runs = {method: np.array([one[method] for one in seeds]) for method in METHODS}
    tables(report, runs, PAPER[args.set])


if __name__ == "__main__":
    main()
