"""Examples of lme4's documentation: its published estimates beside ours.

    python benchmarks/mixed_models.py

Data are those that come with lme4 and nlme, from the shared folder. Published are
restricted maximum likelihood estimates of coefficients and then standard deviations and
correlations, the noise last (of cbpp maximum likelihood by adaptive quadrature); ours
are posterior means with standard deviations under default priors, by the same formula.
Those of standard deviations lie above estimates where groups are few, as averages over
what these leave open have to. CPU seconds are those of ``from_formula``.
"""

from _harness import Report, parser, timed  # isort: skip

from pathlib import Path

import pandas as pd

from skboost import (
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
)

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


def main():
    args = parser(__doc__).parse_args()
    report = Report("mixed_models", args.out)
    folder = args.shared and Path(args.shared) / "data" / "groups"
    if not folder or not folder.exists():
        report.not_run("all", "the data are not in the shared folder")
        return
    for name, formula, *published in EXAMPLES:
        model, cpu, _ = timed(fitted, formula, pd.read_csv(folder / f"{name}.csv"))
        summary = model.summary()
        # lme4 has the intercept first.
        coefficients = summary.coefficients.sort_index(
            key=lambda names: names != "intercept", kind="stable"
        )
        tables = coefficients, summary.variance_components
        report.row(
            "lme4's examples", data=name, formula=formula,
            lme4="; ".join(", ".join(map(short, part)) for part in published),
            skboost="; ".join(map(means, tables)),
            **{"CPU s": cpu, "remaining KL": model.remaining_kl_},
        )  # fmt: skip


if __name__ == "__main__":
    main()
