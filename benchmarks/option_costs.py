"""What an option costs and what it buys: seconds, nats that remain, held-out log loss.

    python benchmarks/option_costs.py [--replicates 3]

Classes: the breast cancer data (569 rows, 30 standardised columns), fitted to two
thirds three times. CPU seconds of ``fit`` and of the report, which ``remaining_kl_``
asks for, and nats that remain are medians of the folds, the log loss is the mean.
Densities: a banana in two dimensions and a normal one in twenty whose first coordinate
has two modes, both with log evidence 0, so that minus the ELBO of fresh draws is the
KL. One option at a time is not the default; every fit runs to its own end.
"""

from _harness import Report, columns, elbo_of, median_cpu, parser, timed  # isort: skip

import autograd.numpy as anp
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLogisticRegression, boost_posterior
from skboost.strategies import GreedySearch

ONE_BY_ONE = {"tol": 0.01, "max_iter": 20}
SHARED = (
    {},
    {"tol": 0.01},
    ONE_BY_ONE,
    {"orbit": None},
    {"family": "student_t"},
    {"family": "laplace"},
    {"family": "gaussian-diag"},
    {"family": "gaussian-low-rank"},
    {"objective": "relbo"},
    {"objective": "hellinger"},
    {"corrective": "none", **ONE_BY_ONE},
    {"corrective": "pairwise", **ONE_BY_ONE},
    {"search": GreedySearch(refine=False), **ONE_BY_ONE},
    {"step_size": "predefined", "corrective": "none", **ONE_BY_ONE},
    {"step_size": "adaptive", "corrective": "none", **ONE_BY_ONE},
    {"search": GreedySearch(stopping="gap"), **ONE_BY_ONE},
    {"search": GreedySearch(n_draws=2048)},
    {"search": GreedySearch(max_components=2), **ONE_BY_ONE},
)
OF_CLASSES = (
    {"prior_scale": 1.0},
    {"prior": "normal"},
    {"prior": "laplace"},
    {"prior": "student_t"},
    {"prior": "horseshoe"},
    {"sharpen": True},
)
OF_DENSITIES = ({"warp": "auto"},)


def banana(theta):
    """Normal with standard deviation 2, and normal around a parabola."""
    along, across = theta[:, 0] / 2.0, (theta[:, 1] - theta[:, 0] ** 2 / 4.0) / 0.5
    return -0.5 * (along**2 + across**2) - anp.log(2.0 * anp.pi)


def two_modes(theta):
    """Two equal modes, three standard deviations from the middle, and 19 others."""
    first = anp.logaddexp(-0.5 * (theta[:, 0] - 3) ** 2, -0.5 * (theta[:, 0] + 3) ** 2)
    rest = -0.5 * anp.sum(theta[:, 1:] ** 2, axis=1)
    return first + rest - anp.log(2.0) - 10.0 * anp.log(2.0 * anp.pi)


DENSITIES = {"banana, 2": (banana, 2), "two modes, 20": (two_modes, 20)}


def named(option):
    """An option as it is written in a call."""
    given = (f"{name}={value!r}" for name, value in option.items())
    return ", ".join(given).replace("'", '"') or "default"


def of_classes(option):
    """A row about three folds of the breast cancer data."""
    X, y = load_breast_cancer(return_X_y=True)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    rows = []
    for train, test in folds.split(X, y):
        scaler = StandardScaler().fit(X[train])
        model = BoostedBayesianLogisticRegression(random_state=0, **option)
        _, fitting, _ = timed(model.fit, scaler.transform(X[train]), y[train])
        left, reporting, _ = timed(lambda model=model: model.remaining_kl_)
        p = model.predict_proba(scaler.transform(X[test]))
        rows.append(
            {"fit, CPU s": fitting, "with report, CPU s": fitting + reporting,
             "nats left": left, "log loss": log_loss(y[test], p)}
        )  # fmt: skip
    found = columns(rows)
    middle = {name: float(np.median(values)) for name, values in found.items()}
    return middle | {"log loss": float(found["log loss"].mean())}


def of_density(option, replicates):
    """A row about densities of which the evidence is known."""
    row = {}
    for name, (density, dim) in DENSITIES.items():
        result, seconds = median_cpu(
            lambda density=density, dim=dim: boost_posterior(
                density, dim, random_state=0, **option
            ),
            replicates,
        )
        elbo, _ = elbo_of(density, result.posterior)
        row |= {f"{name}-D, CPU s": seconds, f"{name}-D, nats": -elbo}
    return row


def main(args):
    report = Report("option_costs", args.out, replicates=args.replicates)
    for option in SHARED[:1] + OF_CLASSES + SHARED[1:]:
        found = of_classes(option)
        report.row("breast cancer, 380 rows", option=named(option), **found)
    for option in SHARED + OF_DENSITIES:
        found = of_density(option, args.replicates)
        report.row("densities", option=named(option), **found)


if __name__ == "__main__":
    main(parser(__doc__, replicates=3).parse_args())
