"""Fourteen posteriors of posteriordb, defaults only, one call each.

    python benchmarks/posteriordb.py [--replicates 5] [--only NAME ...]

``boost_posterior(log_density, dim)`` from the default start (the origin), with
autograd for the gradient. The reference draws of the shared folder and the log
normalisers score the result; nothing of them enters a fit. ``KL(q||p)`` is the log
normaliser minus the ELBO on 20,000 new draws, ``KL(p||q)`` that of the folder's
``score`` on 5,000 draws. ``energy ratio`` is the energy distance of as many draws as
half of the reference to a half, over that between its halves: the median over 20
independent sets of draws. It is compared with ``95 %``, the 95 % point of the ratio for
the two halves of 200 random splits of the reference; ``50 %`` is their median, near
which draws of the posterior itself would be. ``gradients`` are points
at which autograd computed one. The single Gaussian is the same code with
``max_iter=1``.
"""

import json

from _harness import (  # isort: skip
    Report,
    columns,
    elbo_of,
    median_cpu,
    medians,
    parser,
    shared_module,
    timed,
)

import numpy as np
from _energy import HalvesRatio, independent
from autograd.tracer import Box

from skboost import boost_posterior

# Nats and CPU seconds. The first is a funnel without a mode; a row of the second costs
# three times what those of the others do.
HARDER = {"eight_schools-eight_schools_centered": 0.05}
SLOWER = {"bball_drive_event_0-hmm_drive_0": 30.0}
MOST_KL, MOST_SECONDS = 0.02, 10.0
N_SETS, LEVEL = 20, 0.95


def main():
    made = parser(__doc__, replicates=5)
    made.add_argument("--only", nargs="+", default=[""], help="parts of names")
    args = made.parse_args()
    report = Report("posteriordb", args.out, replicates=args.replicates)
    targets = shared_module(args.shared, "posteriordb", "targets")
    if targets is None:
        return report.not_run("posteriordb", "no posteriors in the shared folder")
    score = shared_module(args.shared, "posteriordb", "score").score
    log_z = json.loads((args.shared / "posteriordb" / "logz.json").read_text())
    for name in sorted(log_z):
        if any(part in name for part in args.only):
            posterior, known = targets.load(name), log_z[name]["logz"]
            ratio = HalvesRatio(posterior.z)
            runs = [
                one(report, score, ratio, posterior, known, name.split("-")[1], seed)
                for seed in range(args.replicates)
            ]
            summarise(report, name, runs, ratio)


class Counted:
    """A log density that counts the rows at which it is differentiated."""

    def __init__(self, log_density):
        self.log_density, self.gradients = log_density, 0

    def __call__(self, theta):
        if isinstance(theta, Box):
            self.gradients += len(theta)
        return self.log_density(theta)


def one(report, score, ratio, posterior, log_z, short, seed):
    """One fit, one single Gaussian, and a row about them."""
    call, counted = (posterior.logp, posterior.dim), Counted(posterior.logp)
    single, _, _ = timed(boost_posterior, *call, max_iter=1, random_state=seed)
    result, cpu, _ = timed(boost_posterior, counted, posterior.dim, random_state=seed)
    elbo, se = elbo_of(posterior.logp, result.posterior)
    elbo_single, se_single = elbo_of(posterior.logp, single.posterior)
    draws = result.posterior.sample(5000, random_state=seed + 1)
    scored = score(posterior, draws, result.posterior.log_density, logz=log_z)
    ratios = [
        ratio(independent(result.posterior, ratio.size, 1000 + k), k)
        for k in range(N_SETS)
    ]
    rows = single.posterior.sample(1000, random_state=seed)
    figures = {
        "KL(q|p)": log_z - elbo,
        "se": se,
        "single": log_z - elbo_single,
        "KL(p|q)": scored["kl_forward"],
        "energy ratio": float(np.median(ratios)),
        "remaining_kl": result.remaining_kl,
        "components": result.posterior.n_components,
        "iterations": result.n_iter,
        "converged": result.converged,
        "CPU s": cpu,
        "1,000 gradients s": median_cpu(lambda: posterior.grad(rows), 3)[1],
        "evaluations": result.n_evaluations,
        "gradients": counted.gradients,
    }
    report.row("posteriordb", posterior=short, dim=posterior.dim, seed=seed, **figures)
    return figures | {"se both": float(np.hypot(se, se_single))}


def summarise(report, name, runs, ratio):
    """Medians and worst values of a posterior, and its bars."""
    short, point = name.split("-")[1], ratio.quantile(LEVEL)
    found, middle = columns(runs), medians(runs)
    root = np.sqrt(len(runs))
    report.row(
        "posteriordb, median and worst of the seeds",
        posterior=short,
        **{
            "KL(q|p)": middle["KL(q|p)"],
            "se": middle["se"] / root,
            "worst": found["KL(q|p)"].max(),
            **{name: middle[name] for name in ("single", "KL(p|q)", "energy ratio")},
            "50 %": ratio.quantile(0.5),
            "95 %": point,
            "components": " ".join(str(run["components"]) for run in runs),
            **{name: middle[name] for name in ("gradients", "CPU s")},
            "worst s": found["CPU s"].max(),
        },
    )
    report.bar(f"{short}: median KL(q|p)", middle["KL(q|p)"], "<=",
               HARDER.get(name, MOST_KL), middle["se"] / root)  # fmt: skip
    report.bar(f"{short}: median energy ratio", middle["energy ratio"], "<=",
               point, found["energy ratio"].std() / root)  # fmt: skip
    report.bar(f"{short}: median CPU s", middle["CPU s"], "<=",
               SLOWER.get(name, MOST_SECONDS))  # fmt: skip
    worse = found["KL(q|p)"] - found["single"] - 2.0 * found["se both"]
    report.bar(f"{short}: KL - that of one Gaussian - 2 se, worst",
               worse.max(), "<=", 0.0)  # fmt: skip


if __name__ == "__main__":
    main()
