"""What each mechanism of the search is worth: switched off, one at a time.

    python benchmarks/ablation.py [--replicates 3] [--iterations 10] [--jobs 1]
                                  [--only split ...] [--targets NAME ...]

Thirty-four posteriors, of which the search was tuned on one half (or on their like) and
never saw the other. Every fit is compared with one that differs in a single setting:
same target, same seed, one after the other in the same process. The ELBO is that of
20,000 draws that no fit has seen, with one seed for all.

``gain`` is the ELBO with the mechanism minus the ELBO without, so positive numbers
speak for it. The standard error of a target's gain is the larger of its spread over
seeds and of the Monte Carlo error of the ELBOs; that of a mean is over targets. A
target is called better or worse beyond two standard errors and a thousandth of a nat.

``--propagation`` leaves expectation propagation under priors that are mixtures of
normal ones out of regressions with two classes, and does nothing else; ``--groups``
leaves out what makes integrals over groups cheaper: values without their slopes, under
normal noise, and as few nodes of quadrature as do.
"""

from _harness import Report, elbo_of, parser, timed  # isort: skip

from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from unittest.mock import patch

import numpy as np
from _densities import seen, unseen
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import scale

import skboost
from skboost import BoostedBayesianLogisticRegression
from skboost.boosting import Boosting
from skboost.fitting import _engines
from skboost.hierarchy._integrated_normal import IntegratedNormalMarginal
from skboost.hierarchy._quadrature import QuadratureMarginal
from skboost.proposals import _propagated
from skboost.targets import NormalPrior

# Mechanism: the settings without it.
WITHOUT = {
    "refine": {"refine": False},
    "search_modes": {"search_modes": False},
    "split": {"split": False},
    # One more search for modes before a run says that it has converged.
    "last look": {"last_look": lambda self, target, state: (state.modes, None)},
}
DEFAULT = "default"
# Priors under which there is propagation all the same.
NORMAL = {NormalPrior: None}
# Nats below which a gain is none, however sure: a tenth of the default `tol`, which
# is what an iterate has to gain to be kept.
LEAST = 1e-3
HALVES = {"seen": seen, "unseen": unseen}


def one_fit(task, changes, seed, max_iter):
    """Figures of one fit with some settings changed."""
    made = _engines.make_settings

    def changed(*args, **kwargs):
        return replace(made(*args, **kwargs), **changes)

    changes = dict(changes)
    with ExitStack() as patches:
        if method := changes.pop("last_look", None):
            patches.enter_context(patch.object(Boosting, "last_look", method))
        # Engine and proposer share the settings, so they are changed where made.
        patches.enter_context(patch.object(_engines, "make_settings", changed))
        found, cpu, _ = timed(task.fit, random_state=seed, max_iter=max_iter)
    posterior, n_iter = found
    elbo, se = elbo_of(task.log_density, posterior)
    return {
        "elbo": elbo,
        "se": se,
        "cpu": cpu,
        "components": posterior.n_components,
        "iterations": n_iter,
    }


def warm_up():
    """Imports and caches that the first fit of a process would pay for."""
    one_fit(seen()["two modes"], {}, 0, 2)


def fits(half, name, seed, max_iter, mechanisms):
    """Figures by mechanism of one target and seed."""
    warm_up()
    task = HALVES[half]()[name]
    variants = {DEFAULT: {}, **{m: WITHOUT[m] for m in mechanisms}}
    return {m: one_fit(task, v, seed, max_iter) for m, v in variants.items()}


def compared(runs, mechanism):
    """Gain of a mechanism on one target and what it costs, over seeds."""
    on, off = ([run[m] for run in runs] for m in (DEFAULT, mechanism))
    pairs = list(zip(on, off, strict=True))
    gains = np.array([a["elbo"] - b["elbo"] for a, b in pairs])
    noise = np.sqrt(sum(a["se"] ** 2 + b["se"] ** 2 for a, b in pairs)) / len(gains)
    spread = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
    # Fits that agree to the last bit never used the mechanism: no noise either.
    idle = all(
        a["elbo"] == b["elbo"] and a["components"] == b["components"] for a, b in pairs
    )
    gain, se = float(gains.mean()), 0.0 if idle else float(max(noise, spread))
    return {
        "gain": gain,
        "se": se,
        "idle": idle,
        "clear": abs(gain) > max(2 * se, LEAST),
        "pairs": pairs,
    }


def ratio(pairs, average=None):
    """CPU seconds with a mechanism in units of those without."""
    on, off = np.array([[a["cpu"], b["cpu"]] for a, b in pairs]).T
    return float(average(on / off) if average else on.sum() / off.sum())


def summary(report, results, mechanisms):
    """One row per mechanism and half."""
    for mechanism in mechanisms:
        for label in ("seen", "unseen", "all"):
            found = [
                compared(runs, mechanism)
                for (half, _), runs in results.items()
                if label in (half, "all")
            ]
            gains = np.array([f["gain"] for f in found])
            pairs = [pair for f in found for pair in f["pairs"]]
            report.row(
                "What a mechanism is worth (nats; costs with / without)",
                mechanism=mechanism,
                targets=f"{label}, {len(found)}",
                gain=float(gains.mean()),
                se=float(gains.std(ddof=1) / np.sqrt(len(gains))),
                median=float(np.median(gains)),
                smallest=float(gains.min()),
                largest=float(gains.max()),
                better=sum(f["clear"] and f["gain"] > 0 for f in found),
                worse=sum(f["clear"] and f["gain"] < 0 for f in found),
                idle=sum(f["idle"] for f in found),
                **{
                    "CPU, median": ratio(pairs, np.median),
                    "CPU, total": ratio(pairs),
                },
            )


def marked(found):
    """A gain as text, with a star where it is clear."""
    if found["idle"]:
        return "idle"
    star = "*" if found["clear"] else ""
    return f"{found['gain']:+.4f}{star}"


def target_row(report, half, name, runs, mechanisms):
    """The default's figures on one target, and every mechanism's gain."""
    default = [run[DEFAULT] for run in runs]
    mean = {key: float(np.mean([f[key] for f in default])) for key in default[0]}
    report.row(
        "Gain of every mechanism by target (nats; * clearly)",
        target=name,
        half=half,
        ELBO=mean["elbo"],
        se=mean["se"],
        components=mean["components"],
        iterations=mean["iterations"],
        **{"CPU s": mean["cpu"]},
        **{m: marked(compared(runs, m)) for m in mechanisms},
    )


def propagation(report, replicates):
    """Regressions on some rows of bundled data, with propagation and without."""
    cancer, wine, iris = (
        (scale(X[places]), y[places])
        for load, places in (
            (load_breast_cancer, slice(None)),
            (load_wine, slice(130)),
            (load_iris, slice(50, None)),
        )
        for X, y in [load(return_X_y=True)]
    )
    for name, (X, y), n, dim, prior in (
        ("breast cancer", cancer, 100, 10, "laplace"),
        ("breast cancer", cancer, 100, 10, "student_t"),
        ("breast cancer", cancer, 60, 30, "horseshoe"),
        ("wine", wine, 60, 13, "laplace"),
        ("iris", iris, 50, 4, "horseshoe"),
        ("iris", iris, 50, 4, "student_t"),
    ):
        for seed in range(replicates):
            rows = np.random.default_rng(seed).permutation(len(X))[:n]
            found = {}
            for label, known in (("with", _propagated._MIXTURES), ("without", NORMAL)):
                with patch.object(_propagated, "_MIXTURES", known):
                    model = BoostedBayesianLogisticRegression(
                        prior=prior, random_state=seed
                    )
                    _, cpu, _ = timed(model.fit, X[rows, :dim], y[rows])
                found |= {f"ELBO {label}": model.elbo_, f"CPU s {label}": cpu}
            report.row("Propagation", data=f"{name}, {n} x {dim}", prior=prior,
                       seed=seed, **found)  # fmt: skip


def with_slopes(marginal, *given):
    """The value that comes with a gradient."""
    return marginal.value_and_score(*given)[0]


# Kind of response; groups, rows of each, columns, random slopes and groups of a second
# factor; and parameters.
_LAPLACE = {"prior": "laplace"}
GROUPS = {
    "slopes": (IntegratedNormalMarginal, "value", with_slopes, (
        ("Linear", (8, 10, 1, 0, 0), {}), ("Linear", (85, 11, 2, 0, 0), {}),
        ("Linear", (30, 5, 1, 1, 0), {}), ("Linear", (18, 10, 1, 1, 0), {}),
        ("Linear", (24, 6, 1, 0, 6), {}), ("Linear", (40, 10, 8, 0, 0), {}),
    )),
    "all nodes": (QuadratureMarginal, "choose_nodes", lambda marginal, *given: None, (
        ("Logistic", (20, 6, 3, 0, 0), _LAPLACE),
        ("Poisson", (40, 5, 4, 0, 0), _LAPLACE),
        ("Ordinal", (25, 6, 2, 0, 0), _LAPLACE),
        ("Poisson", (15, 8, 2, 0, 0), _LAPLACE | {"likelihood": "negative_binomial"}),
        ("Linear", (30, 5, 3, 0, 0), _LAPLACE | {"noise": "student_t"}),
        ("Logistic", (30, 6, 2, 1, 0), _LAPLACE),
    )),
}  # fmt: skip


def grouped(kind, sizes, seed):
    """Rows, responses and parameters of a generated regression with groups."""
    n_groups, n_each, n_columns, n_slopes, n_second = sizes
    rng, n = np.random.default_rng(seed), n_groups * n_each
    X, first = rng.normal(size=(n, n_columns)), np.repeat(np.arange(n_groups), n_each)
    eta = X[:, 0] + rng.normal(size=n_groups)[first]
    eta += (0.5 * rng.normal(size=(n_groups, n_slopes))[first] * X[:, :n_slopes]).sum(1)
    factors, params = [first], {"groups": [n_columns]}
    if n_slopes:
        params["slopes"] = {f"x{n_columns}": list(range(n_slopes))}
    if n_second:
        factors.append(rng.integers(0, n_second, n))
        eta += rng.normal(size=n_second)[factors[1]]
        params["groups"].append(n_columns + 1)
    y = {
        "Linear": lambda: eta + rng.normal(size=n),
        "Logistic": lambda: eta + rng.logistic(size=n) > 0,
        "Ordinal": lambda: np.digitize(eta + rng.logistic(size=n), [-1, 1]),
        "Poisson": lambda: rng.poisson(np.exp(0.5 * eta)),
    }[kind]()
    return np.column_stack([X, *factors]), y, params


def groups(report, replicates):
    """Regressions with groups, with a mechanism and without; the faster of two fits."""
    for mechanism, (owner, name, other, targets) in GROUPS.items():
        for (kind, sizes, more), seed in product(targets, range(replicates)):
            X, y, params = grouped(kind, sizes, seed)
            model = getattr(skboost, f"BoostedHierarchical{kind}Regression")
            found = {}
            for label, way in (("with", getattr(owner, name)), ("without", other)):
                with patch.object(owner, name, way):
                    made = model(**params, **more, random_state=0)
                    cpu = min(timed(made.fit, X, y)[1] for _ in range(2))
                found |= {f"ELBO {label}": made.elbo_, f"CPU s {label}": cpu}
            report.row("Integrals over groups", without=mechanism, model=kind,
                       sizes=str(sizes), seed=seed, **found)  # fmt: skip


def main():
    made = parser(__doc__, replicates=3)
    made.add_argument("--propagation", action="store_true")
    made.add_argument("--groups", action="store_true")
    made.add_argument("--iterations", type=int, default=10)
    made.add_argument("--jobs", type=int, default=1, help="processes over targets")
    made.add_argument("--only", nargs="+", choices=list(WITHOUT), default=list(WITHOUT))
    made.add_argument("--name", default="ablation", help="of the JSON file")
    made.add_argument("--targets", nargs="+", help="some of them, by name")
    args = made.parse_args()
    if args.propagation:
        report = Report("propagation", args.out, replicates=args.replicates)
        propagation(report, args.replicates)
        return
    if args.groups:
        report = Report("ablation_groups", args.out, replicates=args.replicates)
        groups(report, args.replicates)
        return
    report = Report(
        args.name,
        args.out,
        replicates=args.replicates,
        max_iter=args.iterations,
        n_draws=512,
        **{"draws of the ELBO": 20_000, "processes": args.jobs},
    )
    targets = [
        (half, name)
        for half, tasks in HALVES.items()
        for name in tasks()
        if args.targets is None or name in args.targets
    ]
    jobs = [
        delayed(fits)(half, name, seed, args.iterations, args.only)
        for half, name in targets
        for seed in range(args.replicates)
    ]
    found = Parallel(args.jobs, return_as="generator")(jobs)
    results = {}
    for half, name in targets:
        runs = [next(found) for _ in range(args.replicates)]
        results[half, name] = runs
        target_row(report, half, name, runs, args.only)
    summary(report, results, args.only)


if __name__ == "__main__":
    main()
