"""Examples of lme4's documentation: its published estimates beside ours.

    python benchmarks/mixed_models.py

Data are those that come with lme4 and nlme, from the shared folder. Published are
restricted maximum likelihood estimates of coefficients and then standard deviations and
correlations, the noise last (of cbpp maximum likelihood by adaptive quadrature); ours
are posterior means with standard deviations under default priors, by the same formula.
Those of standard deviations lie above estimates where groups are few, as averages over
what these leave open have to. CPU seconds are those of ``from_formula``.

The second table has models that took long: correlated slopes of these data and of
generated ones in the size of others, ordered classes with and without groups. CPU
seconds are medians of three fits after a first one, beside those of MixedLM of
statsmodels (REML), which has one factor and normal noise. Ratings of 2,972 crossed with
1,128 levels are generated, and fitted once.

The third table has what lattices are worth: models of which one to three coordinates
are left, by default and without a lattice, seconds and what remains (its upper end).
"""

from _harness import Report, median_cpu, parser, timed  # isort: skip

from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from skboost import (
    BoostedBayesianOrdinalRegression,
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalOrdinalRegression,
    BoostedHierarchicalPoissonRegression,
)
from skboost.hierarchy import HierarchicalTarget

try:
    from statsmodels.regression.mixed_linear_model import MixedLM
except ImportError:
    MixedLM = None

LINEAR = BoostedHierarchicalLinearRegression
# File, formula, and published figures: the intercept first, as lme4 prints it.
EXAMPLES = [
    ("Dyestuff", "Yield ~ 1 + (1 | Batch)", [1527.5], [42.00, 49.51]),
    ("Rail", "travel ~ 1 + (1 | Rail)", [66.5], [24.81, 4.021]),
    ("Penicillin", "diameter ~ 1 + (1 | plate) + (1 | sample)", [22.97],
     [0.8467, 1.932, 0.5499]),
    ("Pastes", "strength ~ 1 + (1 | batch/cask)", [60.05], [1.287, 2.904, 0.8234]),
    ("Oats", "Q('yield') ~ nitro + (1 | Block/Variety)", [81.87, 73.67],
     [14.51, 11.00, 12.87]),
    ("Machines", "score ~ Machine + (1 | Worker/Machine)", [52.36, 7.967, 13.92],
     [4.781, 3.730, 0.9616]),
    ("sleepstudy", "Reaction ~ Days + (Days || Subject)", [251.4, 10.47],
     [25.05, 5.988, 25.57]),
    ("sleepstudy", "Reaction ~ Days + (Days | Subject)", [251.4, 10.47],
     [24.74, 5.922, 0.066, 25.59]),
    ("cbpp", "incidence ~ C(period) + (1 | herd)",
     [-1.399, -0.9914, -1.128, -1.580], [0.6475]),
]  # fmt: skip


def short(value):
    """A figure with four digits."""
    return f"{value:.4g}"


def means(table):
    """Means of a table with their standard deviations."""
    pairs = zip(table["mean"], table["std"], strict=True)
    return ", ".join(f"{mean:.4g} ± {std:.2g}" for mean, std in pairs)


def fitted(formula, data):
    """The model of a formula; of cbpp with its trials."""
    if "size" in data.columns:
        return BoostedHierarchicalLogisticRegression.from_formula(
            formula, data, trials="size", random_state=0
        )
    return LINEAR.from_formula(formula, data, random_state=0)


# --- models that took long

ORDERED = BoostedHierarchicalOrdinalRegression


def slopes(n, n_groups, sd, noise, seed):
    """Rows with one correlated slope: y, x, its square and the group."""
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(n_groups, size=n))
    x = rng.normal(size=n)
    effects = rng.normal(size=(n_groups, 2)) @ [[1.0, 0.5], [0.0, 0.8]] * sd
    y = 10.0 + 2.0 * x + 0.5 * x**2 + effects[group, 0] + effects[group, 1] * x
    y += noise * rng.normal(size=n)
    return pd.DataFrame({"y": y, "x": x, "x2": x**2, "group": group.astype(str)})


def sides(seed):
    """102 rows of ten groups with slopes and two sides each."""
    rng = np.random.default_rng(seed)
    group, side, day = np.unravel_index(np.arange(120), (10, 2, 6))
    kept = np.sort(rng.permutation(120)[:102])
    group, side, day = group[kept], side[kept], 4.0 * day[kept]
    y = 1070.0 + 6.0 * day - 0.37 * day**2 + 9.0 * rng.normal(size=102)
    y += 29.0 * rng.normal(size=10)[group] + 1.8 * rng.normal(size=10)[group] * day
    y += 17.0 * rng.normal(size=20)[2 * group + side]
    names = {"group": group.astype(str), "side": (2 * group + side).astype(str)}
    return pd.DataFrame({"y": y, "day": day, "day2": day**2} | names)


def grades(n_groups, size, slope, seed):
    """Ordered classes of rows with a leniency, and a slope, of each group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    x = rng.normal(size=len(group))
    effects = rng.normal(size=(n_groups, 2)) * [1.0, slope]
    taste = x + effects[group, 0] + effects[group, 1] * x + rng.logistic(size=len(x))
    y = np.digitize(taste, [-1.0, 0.5, 2.0])
    return pd.DataFrame({"y": y, "x": x, "group": group.astype(str)})


def switches(seed):
    """Yes or no of 120 rows in three settings, which differ by group."""
    rng = np.random.default_rng(seed)
    group, h = np.repeat(np.arange(12), 10), np.tile(np.arange(10) % 3, 12)
    eta = rng.normal(size=(12, 3))[group, h] + 0.5 * (h == 1)
    y = (eta + rng.logistic(size=120) > 0.0).astype(int)
    names = {"h": np.array(list("abc"))[h], "group": group.astype(str)}
    return pd.DataFrame({"y": y} | names)


def crossed(n, sizes, seed, counts=False):
    """Rows of two crossed factors: rounded ratings, or counts."""
    rng = np.random.default_rng(seed)
    share = rng.gamma(1.0, size=sizes[1]) + 0.05
    first = rng.integers(sizes[0], size=n)
    second = rng.choice(sizes[1], size=n, p=share / share.sum())
    x, scale = rng.normal(size=n), 0.7 if counts else 0.5
    eta = 0.1 * x + rng.normal(0.0, 0.4, sizes[0])[first]
    eta += rng.normal(0.0, scale, sizes[1])[second]
    noisy = 3.3 + eta + 1.2 * rng.normal(size=n)
    y = rng.poisson(np.exp(eta)) if counts else np.clip(np.round(noisy), 1, 5)
    return pd.DataFrame({"y": y, "x": x, "s": first, "d": second})


def without_groups(n, weighted, seed):
    """A fit of ordered classes without groups, of rows that may have weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    coef = [0.6, 1.3, -0.6, -0.4, 0.4]
    y = np.digitize(X @ coef + rng.logistic(size=n), [-1.0, 0.0, 1.0])
    weight = rng.poisson(23.0, size=n) if weighted else np.ones(n)
    model = BoostedBayesianOrdinalRegression(random_state=0)
    return partial(model.fit, X, y, sample_weight=weight)


def of_formula(kind, formula, data):
    """A fit of a formula."""
    return partial(kind.from_formula, formula, data, random_state=0)


def dear(folder):
    """Name, a fit, and the fixed and random parts of MixedLM's formulas, if any."""
    orthodont, machines = (
        pd.read_csv(folder / f"{name}.csv") for name in ("Orthodont", "Machines")
    )
    schools, subjects = slopes(7185, 160, 2.0, 6.0, 1), slopes(234, 26, 8.0, 0.7, 2)
    age = "distance ~ age * Sex", "age", "Subject", orthodont
    machine = "score ~ Machine", "0 + Machine", "Worker", machines
    square = "y ~ x + x2", "x", "group"
    logistic = BoostedHierarchicalLogisticRegression
    two = "y ~ day + day2 + (day | group) + (1 | side)"
    for name, (fixed, random, factor, data) in {
        "Orthodont": age, "Machines": machine, "7,185 rows": (*square, schools),
        "234 rows": (*square, subjects),
    }.items():  # fmt: skip
        formula = f"{fixed} + ({random} | {factor})"
        rival = partial(rival_fit, fixed, random, factor, data)
        yield name, formula, of_formula(LINEAR, formula, data), rival
    yield "102 rows", two, of_formula(LINEAR, two, sides(0)), None
    for n, size, formula in ((9, 8, "y ~ x + (1 | group)"),
                             (12, 10, "y ~ x + (x | group)")):  # fmt: skip
        data = grades(n, size, 0.7, 3)
        name = f"ordered, {n * size} rows"
        yield name, formula, of_formula(ORDERED, formula, data), None
    yield "ordered, 72 weighted rows", "y ~ X", without_groups(72, True, 4), None
    yield "ordered, 1,847 rows", "y ~ X", without_groups(1847, False, 5), None
    formula = "y ~ h + (0 + h | group)"
    yield "yes or no", formula, of_formula(logistic, formula, switches(6)), None


def few_coordinates(folder):
    """Names and fits of models that have a lattice."""
    poisson = BoostedHierarchicalPoissonRegression
    days = pd.read_csv(folder / "sleepstudy.csv")
    plates = pd.read_csv(folder / "Penicillin.csv")
    yes = switches(6).assign(h=np.random.default_rng(1).normal(size=120))
    logistic = BoostedHierarchicalLogisticRegression
    one, two = "y ~ x + (1 | s)", "y ~ x + (1 | s) + (1 | d)"
    for name, kind, formula, data in (
        ("sleepstudy", LINEAR, "Reaction ~ Days + (Days || Subject)", days),
        ("Penicillin", LINEAR, "diameter ~ 1 + (1 | plate) + (1 | sample)", plates),
        ("200 counts", poisson, one, crossed(200, (20, 5), 3, True)),
        ("600 counts", poisson, two, crossed(600, (40, 30), 3, True)),
        ("72 ordered rows", ORDERED, "y ~ x + (1 | group)", grades(9, 8, 0.7, 3)),
        ("120 yes or no", logistic, "y ~ h + (0 + h | group)", yes),
    ):
        yield name, formula, partial(kind.from_formula, formula, data)


WITH = HierarchicalTarget.__init__


def without_lattice(self, *args, **options):
    """A target whose expectations are no sums over a lattice."""
    WITH(self, *args, **options)
    self.on_lattice = False


def lattices(report, folder):
    """Three seeds of every model, with a lattice and without."""
    for name, formula, fit in few_coordinates(folder):
        timed(fit, random_state=0)
        for seed in range(3):
            found = {}
            for way, init in ("", WITH), (" without", without_lattice):
                with patch.object(HierarchicalTarget, "__init__", init):
                    model, cpu, _ = timed(fit, random_state=seed)
                found |= {
                    f"CPU s{way}": cpu, f"remaining KL{way}": model.remaining_kl_,
                    f"to{way}": model.remaining_kl_interval_[1],
                }  # fmt: skip
            report.row("Lattices", data=name, formula=formula, seed=seed, **found)


def rival_fit(fixed, random, factor, data):
    """Restricted maximum likelihood of statsmodels."""
    return MixedLM.from_formula(
        fixed, data, groups=data[factor], re_formula=f"~ {random}"
    ).fit(reml=True)


def seconds(report, folder):
    """Medians of three fits after a first one, and what remains."""
    for name, formula, fit, rival in dear(folder):
        timed(fit)
        model, cpu = median_cpu(fit, 3)
        theirs = np.nan
        if rival is not None and MixedLM is not None:
            timed(rival)
            _, theirs = median_cpu(rival, 3)
        long_row(report, name, formula, model, cpu, theirs)
    formula, data = "y ~ x + (1 | s) + (1 | d)", crossed(73_421, (2_972, 1_128), 7)
    model, cpu, _ = timed(of_formula(LINEAR, formula, data))
    long_row(report, "73,421 rows", formula, model, cpu, np.nan)


def long_row(report, name, formula, model, cpu, theirs):
    """What remains of a model that took long, and its seconds."""
    low, high = model.remaining_kl_interval_
    report.row(
        "Models that took long",
        **{"data": name, "formula": formula, "CPU s": cpu, "MixedLM": theirs,
           "remaining KL": model.remaining_kl_, "from": low, "to": high,
           "iterations": model.n_iter_},
    )  # fmt: skip


def main():
    args = parser(__doc__).parse_args()
    report = Report("mixed_models", args.out)
    folder = args.shared and Path(args.shared) / "data" / "groups"
    if not folder or not folder.exists():
        report.not_run("all", "the data are not in the shared folder")
        return
    published(report, folder)
    lattices(report, folder)
    seconds(report, folder)


def published(report, folder):
    """lme4's estimates beside ours."""
    for name, formula, *figures in EXAMPLES:
        model, cpu, _ = timed(fitted, formula, pd.read_csv(folder / f"{name}.csv"))
        summary = model.summary()
        # lme4 has the intercept first.
        coefficients = summary.coefficients.sort_index(
            key=lambda names: names != "intercept", kind="stable"
        )
        tables = coefficients, summary.variance_components
        report.row(
            "lme4's examples", data=name, formula=formula,
            lme4="; ".join(", ".join(map(short, part)) for part in figures),
            skboost="; ".join(map(means, tables)),
            **{"CPU s": cpu, "remaining KL": model.remaining_kl_},
        )  # fmt: skip


if __name__ == "__main__":
    main()
