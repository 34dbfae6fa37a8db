"""Evidence for two defaults: ``n_draws`` and ``n_restarts``.

python benchmarks/defaults.py [--replicates 3]
"""

from _harness import Report, elbo_of, parser, shared_module, timed  # isort: skip

import autograd.numpy as anp
import numpy as np
from logistic_ds1 import log_joint, model
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from skboost import boost_posterior

N_DRAWS = (256, 512, 1024)
N_RESTARTS = (1, 2, 4)


def problems(tasks):
    """Name, function that fits with given options, log density."""
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)

    def breast_cancer(seed, **options):
        return model(seed, **options).fit(X, y).posterior_

    yield "breast cancer", breast_cancer, log_joint(X, 2.0 * y - 1.0)
    if tasks is None:
        return
    for name in ("synth", "ds1", "phishing"):
        task = tasks.t2_logistic(name, xp=anp)

        def fit(seed, task=task, **options):
            return boost_posterior(
                task.log_density, task.dim, random_state=seed, **options
            ).posterior

        yield f"t2 {name}", fit, task.log_density


def main():
    args = parser(__doc__, replicates=3).parse_args()
    report = Report("defaults", args.out, replicates=args.replicates)
    tasks = shared_module(args.shared, "reference", "tasks")
    if tasks is None:
        report.not_run("t2_logistic", "no reference tasks in the shared folder")
    for name, fit, log_density in problems(tasks):
        for n_draws in N_DRAWS:
            for n_restarts in N_RESTARTS:
                figures = []
                for seed in range(args.replicates):
                    posterior, cpu, _ = timed(
                        fit, seed, n_draws=n_draws, n_restarts=n_restarts
                    )
                    elbo, se = elbo_of(log_density, posterior)
                    figures.append((elbo, se, cpu, posterior.n_components))
                median = np.median(figures, axis=0)
                report.row("defaults", task=name, n_draws=n_draws,
                           n_restarts=n_restarts, ELBO=median[0], se=median[1],
                           lowest=min(f[0] for f in figures),
                           **{"CPU s": median[2], "components": median[3]})  # fmt: skip


if __name__ == "__main__":
    main()
