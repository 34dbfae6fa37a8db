"""The pictures of Dresdner et al. 2021: ELBO, parameters, kinds of steps; its grid.

    python benchmarks/p0_figures.py [--replicates 3] [--iterations 10] [--draws 100]
                                    [--rows 3000] [--sets ds1 eicu ring] [--draw]
    python benchmarks/p0_figures.py --grid [--corrective away] [--sets ds1] [--draw]

Four step rules (predefined, line search, adaptive, adaptive as published) by three
corrective rules, without refinement, all iterations done, for components by the joint
gain (``"kl"``), by the residual ELBO with the paper's entropy weight of 1 stopped early
(``"relbo"``), and solved to the end as in the paper's pseudo-code. Replicates differ by
the seed of the fit alone, so that what they spread over is the method, not the data.

Data: ds1_100_test without an intercept (2,674 x 100, the test part of ChemReact),
generated data like the eICU table with an intercept (0.7 ``rows`` x 70), as the train
log likelihoods of the paper suggest, both with Laplace components; and a ring in the
plane from a start on it, where every further component matters.

``--grid`` is every setting of adaptive steps in the paper's appendix C.4 (tau, 1/eta
and the first estimate, 60 in all) in the Lipschitz form of its appendix C.1, with the
safeguard and as printed: on ds1_100_test by the residual ELBO, and on the ring by the
joint gain. Shares of the kinds of steps are those of all settings and seeds, in all and
by iteration (Fig. 3); with ``--corrective`` away or pairwise steps they are written to
``p0_grid_CORRECTIVE.json``.

Writes ``results/p0_figures.json`` or ``p0_grid.json``, and in ``doc/_static`` the
pictures ``p0_elbo.png`` (Fig. 1, centre and right) and ``p0_parameters.png`` (Figs 2
and 4), or ``p0_kinds_CORRECTIVE.png`` (Fig. 3). ``--draw`` makes the pictures from that
file without running anything.
"""

from _harness import Report, parser, shared_module, timed  # isort: skip

from itertools import product, zip_longest

import numpy as np
from figures import legend_below, plt, results, save
from p0_tables import (
    AS_IN_THE_PAPER,
    AS_PRINTED,
    METHODS,
    ds1,
    eicu_like,
    se,
)
from step_rules import STEP_SIZES, TARGETS

from skboost import BoostedBayesianLogisticRegression, boost_posterior
from skboost.strategies import AdaptiveBacktracking, GreedySearch, ResidualGain

OBJECTIVES = {
    "kl": "kl",
    "relbo": ResidualGain(entropy_weight=1.0),
    "relbo, unstopped": ResidualGain(entropy_weight=1.0, early_stopping=False),
}
CORRECTIVE = ("none", "away", "pairwise")
# One letter per step in the file of results.
KINDS = {
    "F": "Frank-Wolfe",
    "A": "away",
    "P": "pairwise",
    "D": "drop",
    "B": "fallback",
    "R": "refused",
    "0": "no step",
}
LETTERS = {"frank-wolfe": "F", "away": "A", "pairwise": "P"}


# --- the runs


def problems(args):
    """Name, parameters of one component and ``run(**settings)`` of every data set."""
    load = shared_module(args.shared, "data", "load")
    make_synthetic = shared_module(args.shared, "data", "make_synthetic")
    if "ds1" in args.sets and load is not None:
        yield "ds1", 2 * 100, logistic(ds1(load, 0), fit_intercept=False)
    if "eicu" in args.sets and make_synthetic is not None:
        data = eicu_like(make_synthetic, args.rows)
        yield "eicu", 2 * 71, logistic(data, fit_intercept=True)
    if "ring" in args.sets:
        yield "ring", 2 + 3, ring


def logistic(data, fit_intercept):
    """A function that fits a logistic model with Laplace components."""

    def run(**settings):
        model = BoostedBayesianLogisticRegression(
            family="laplace",
            fit_intercept=fit_intercept,
            prior_scale=1.0,
            **settings,
        )
        return model.fit(*data[:2]).history_

    return run


def ring(**settings):
    """History of a run on the ring of ``step_rules.py``; full Gaussians."""
    target = TARGETS["ring"]
    return boost_posterior(
        target.log_density, len(target.start), x0=target.start, **settings
    ).history


def letter(record, before):
    """What a boosting step was, in one letter of `KINDS`.

    A pairwise step that exchanges a component for the new one counts as pairwise.
    """
    if record["branch"] == "zero":
        return "0"
    if record["kind"] == "rejected":
        return "R"
    if record["n_components"] - before < (record["kind"] == "frank-wolfe"):
        return "D"
    if record["branch"] == "fallback":
        return "B"
    return LETTERS[record["kind"]]


def letters(history):
    """All boosting steps of a run, one letter each."""
    sizes = [record["n_components"] for record in history]
    steps = zip(history[1:], sizes, strict=False)
    return "".join(letter(record, before) for record, before in steps)


def column(histories, key, n):
    """One quantity of several runs: an array (runs, n).

    A run that ended before iteration n stays where it was: its last value is repeated.
    """
    rows = []
    for history in histories:
        found = [record[key] for record in history]
        rows.append(found + [found[-1]] * (n - len(found)))
    return np.array(rows, dtype=float)


def text(values):
    """Numbers on one line of the file of results, nan where nothing is known."""
    return " ".join(f"{value:.6g}" for value in values)


def measured(run, args, objective, corrective, step):
    """Histories of one combination over the seeds, and the median CPU seconds."""
    runs = [
        timed(
            run,
            objective=OBJECTIVES[objective],
            corrective=corrective,
            step_size=STEP_SIZES[step],
            max_iter=args.iterations,
            search=GreedySearch(n_draws=args.draws, refine=False),
            random_state=seed,
            **AS_IN_THE_PAPER,
        )[:2]
        for seed in range(args.replicates)
    ]
    histories, seconds = zip(*runs, strict=True)
    return histories, float(np.median(seconds))


def summarise(report, name, size, key, histories, seconds):
    """One row of the table and the curves of one combination."""
    objective, corrective, step = key
    n = report.settings["iterations"]
    elbo, sizes = column(histories, "elbo", n), column(histories, "n_components", n)
    # Runs of one seed share the first component: their gains are compared by pairs.
    gain = elbo[:, -1] - elbo[:, 0]
    steps = [letters(history) for history in histories]
    report.row(
        name,
        objective=objective,
        corrective=corrective,
        **{"step size": step, "last ELBO over the first": gain.mean()},
        se=se(gain),
        components=float(np.median(sizes[:, -1])),
        **{kind: "".join(steps).count(k) for k, kind in KINDS.items()},
        **{"CPU s": seconds},
    )
    report.curve(
        data=name,
        objective=objective,
        corrective=corrective,
        step=step,
        steps=" ".join(steps),
        elbo_mean=text(elbo.mean(axis=0)),
        elbo_sd=text(elbo.std(axis=0, ddof=min(1, len(elbo) - 1))),
        parameters=text(size * sizes.mean(axis=0)),
    )


def run_all(args):
    """Run what was asked for and write the file of results."""
    report = Report(
        "p0_figures", args.out, replicates=args.replicates, iterations=args.iterations,
        draws=args.draws, rows=args.rows,
    )  # fmt: skip
    found = []
    for name, size, run in problems(args):
        found.append(name)
        for objective in OBJECTIVES:
            for corrective in CORRECTIVE:
                for step in STEP_SIZES:
                    key = objective, corrective, step
                    histories, seconds = measured(run, args, *key)
                    summarise(report, name, size, key, histories, seconds)
    for name in set(args.sets) - set(found):
        report.not_run(name, "no data in the shared folder")
    report.save()


# --- the grid

TAU, DECREASE = (1.01, 1.1, 1.5, 2.0, 5.0), (0.1, 0.01, 0.5, 0.99)
INITIAL = (0.01, 1.0, 100.0)
RULES = {"safeguard": {}, "as printed": AS_PRINTED}
_SHARES = "60 settings: share of the kinds of steps"


def grid(args):
    """Gain over the first component by every setting of adaptive steps."""
    name = "p0_grid" + f"_{args.corrective}" * (args.corrective != "none")
    kept = ("replicates", "iterations", "draws")
    report = Report(name, args.out, **{key: getattr(args, key) for key in kept})
    objectives = {"ds1": "relbo", "ring": "kl"}
    args.sets = [name for name in args.sets if name in objectives]
    for name, _, run in problems(args):
        common = AS_IN_THE_PAPER | {
            "objective": OBJECTIVES[objectives[name]], "max_iter": args.iterations,
            "search": GreedySearch(n_draws=args.draws, refine=False),
            "corrective": args.corrective,
        }  # fmt: skip
        seeds = range(args.replicates)
        beside = {
            rule: np.mean([gained(run, common, rule, seed)[0] for seed in seeds])
            for rule in ("predefined", "line-search")
        }
        for rule, more in RULES.items():
            runs = [
                gained(run, common, AdaptiveBacktracking(
                    form="lipschitz", increase=tau, decrease=decrease, initial=first,
                    **more), seed)
                for tau, decrease, first, seed in product(
                    TAU, DECREASE, INITIAL, seeds)
            ]  # fmt: skip
            found = np.array([gain for gain, _ in runs])
            found = found.reshape(len(TAU), len(DECREASE), len(INITIAL), len(seeds))
            found = found.mean(axis=3)
            add_shares(report, name, rule, [steps for _, steps in runs])
            report.row(
                "60 settings: last ELBO over the first, nats", data=name, rule=rule,
                least=found.min(), median=np.median(found), most=found.max(),
                spread=found.std(), **{"2, 0.5, 1": found[3, 2, 1]}, **beside,
            )  # fmt: skip
            for tau, means in zip(TAU, found.mean(axis=2), strict=True):
                cells = {
                    f"1/eta {d:g}": m for d, m in zip(DECREASE, means, strict=True)
                }
                report.row(
                    f"{name}, {rule}: means over first estimates", tau=tau, **cells
                )


def add_shares(report, name, rule, runs):
    """Shares of the kinds of steps over runs, in all and by iteration."""
    columns = {"all": "".join(runs)}
    # The first iteration takes none; a run that ended before takes no further one.
    columns |= {
        t + 2: "".join(each) for t, each in enumerate(zip_longest(*runs, fillvalue="0"))
    }
    for t, steps in columns.items():
        report.row(
            _SHARES, data=name, rule=rule, iteration=t,
            **{kind: steps.count(k) / len(steps) for k, kind in KINDS.items()},
        )  # fmt: skip


def gained(run, common, rule, seed):
    """Last ELBO over that of the first component, nats, and letters of the steps."""
    history, _, _ = timed(run, step_size=rule, random_state=seed, **common)
    return history[-1]["elbo"] - history[0]["elbo"], letters(history)


# --- the pictures

# Colours by their place in the style's cycle.
COLORS = {"predefined": "C1", "line-search": "k", "adaptive": "C0",
          "adaptive, published": "C3"}  # fmt: skip
KIND_COLORS = {"F": "C0", "A": "C1", "P": "C2", "D": "C3", "B": "C4", "R": "0.65",
               "0": "0.9"}  # fmt: skip
TITLES = {"ds1": "ds1_100_test", "eicu": "eicu_like", "ring": "ring"}
# Of the methods of the paper's Figs 2 and 4.
METHOD_COLORS = ("C1", "k", "C0", "C2", "C4")


class Curves:
    """The curves of a file of results, by data, objective, corrective rule and step."""

    def __init__(self, content):
        self.content = content
        names = ("data", "objective", "corrective", "step")
        self.found = {tuple(e[n] for n in names): e for e in content["curves"]}
        self.data = [name for name in TITLES if any(k[0] == name for k in self.found)]

    def get(self, data, objective, corrective, step, what):
        """One quantity as an array; nan where there is none."""
        found = self.found[data, objective, corrective, step][what]
        return np.array(found.split(), dtype=float)


def panels(lines, columns, size, draw, **options):
    """A figure with a panel for each line and column, which `draw` fills and names."""
    shape = len(lines), len(columns)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False, **options)
    for (i, k), ax in np.ndenumerate(axes):
        ax.set_title(draw(ax, lines[i], columns[k]), fontsize=9)
        ax.tick_params(labelsize=8)
    for ax in axes[-1]:
        ax.set_xlabel("iteration", fontsize=9)
    return figure, axes


# The data of the paper's figures, by the joint gain and by its own objective.
SHOWN, BY = ("ds1", "eicu"), ("kl", "relbo")


def by_iteration(name, ylabel, draw, content):
    """The data by the objectives; the curves of one panel are named below."""
    figure, axes = panels(SHOWN, BY, (7.6, 5.6), draw, sharex=True, sharey="row")
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel, fontsize=9)
    legend_below(figure, axes[:1, 0], 5)
    save(figure, name, content)


def elbo_picture(curves):
    """Fig. 1: ELBO by iteration, plain directions."""

    def draw(ax, data, objective):
        # The first component is the same for all: its mean is the zero of the axis.
        zero = curves.get(data, objective, "none", "adaptive", "elbo_mean")[0]
        for step, color in COLORS.items():
            key = data, objective, "none", step
            mean = curves.get(*key, "elbo_mean") - zero
            sd = curves.get(*key, "elbo_sd")
            t = np.arange(1, len(mean) + 1)
            ax.plot(t, mean, color=color, lw=1.5, label=step)
            ax.fill_between(t, mean - sd, mean + sd, color=color, alpha=0.13, lw=0)
        return f"{TITLES[data]}; {objective}"

    by_iteration(
        "p0_elbo", "ELBO over the first\ncomponent's (nats)", draw, curves.content
    )


def parameters_picture(curves):
    """Figs 2 and 4: parameters of the mixture by iteration, by the paper's methods."""

    def draw(ax, data, objective):
        for k, (name, (step, corrective)) in enumerate(METHODS.items()):
            mean = curves.get(data, objective, corrective, step, "parameters")
            t = np.arange(1, len(mean) + 1)
            # Shifted a little, since many curves coincide.
            shift = 0.012 * mean.max() * (k - 2)
            ax.plot(t, mean + shift, color=METHOD_COLORS[k], lw=1.5, label=name)
        return f"{TITLES[data]}; {objective}"

    by_iteration("p0_parameters", "parameters of the mixture", draw, curves.content)


def kinds_picture(corrective, out):
    """Fig. 3: shares of the kinds of steps by iteration, over settings and seeds."""
    content = results(f"p0_grid_{corrective}", out)
    shares = content["tables"][_SHARES]

    def draw(ax, data, rule):
        rows = [row for row in shares if (row["data"], row["rule"]) == (data, rule)]
        rows = [row for row in rows if row["iteration"] != "all"]
        t, below = [row["iteration"] for row in rows], np.zeros(len(rows))
        for key, kind in KINDS.items():
            share = np.array([row[kind] for row in rows])
            ax.bar(t, share, bottom=below, label=kind, color=KIND_COLORS[key])
            below += share
        ax.set_xticks(t)
        return f"{TITLES[data]}; {rule}"

    data = sorted({row["data"] for row in shares})
    height = 2.3 * len(data) + 0.7
    figure, axes = panels(data, list(RULES), (7.6, height), draw, sharey=True)
    for ax in axes[:, 0]:
        ax.set_ylabel("share of the steps", fontsize=9)
    legend_below(figure, axes[:1, 0], 4)
    save(figure, f"p0_kinds_{corrective}", content)


def main():
    made = parser(__doc__, replicates=3)
    made.add_argument("--iterations", type=int, default=10)
    made.add_argument("--draws", type=int, default=100)
    made.add_argument("--rows", type=int, default=3000, help="of the generated set")
    made.add_argument("--sets", nargs="+", choices=TITLES, default=list(TITLES))
    made.add_argument("--grid", action="store_true", help="settings of adaptive steps")
    made.add_argument("--corrective", choices=CORRECTIVE, default="none")
    made.add_argument("--draw", action="store_true", help="pictures alone")
    args = made.parse_args()
    if not args.draw:
        (grid if args.grid else run_all)(args)
    if not args.grid:
        curves = Curves(results("p0_figures", args.out))
        elbo_picture(curves)
        parameters_picture(curves)
    elif args.corrective != "none":
        kinds_picture(args.corrective, args.out)


if __name__ == "__main__":
    main()
