"""What ``warp="auto"`` gains and costs, beside ``warp=None`` in the same run.

    python benchmarks/warp.py [--replicates 5] [--only NAME ...]

Densities with known normalisers; each replicate has its own seed, and its own rotation
where there is one. Form, thresholds and limits of the warp were chosen while looking
at the *tuned* half, at rotations of other seeds; the *judged* half was first run when
nothing changed any more. Both halves are curved or skewed; the *mixtures* are what
``warp=None`` is good at, and should stay as they are. All settings but `warp` are the
defaults; ``KL`` is the log normaliser minus the ELBO of 20,000 new draws.
"""

from functools import partial

from _harness import Report, columns, elbo_of, parser, timed  # isort: skip

import autograd.numpy as anp
import numpy as np
from _densities import (
    four_gaussians,
    gaussians,
    long_banana,
    neals_funnel,
    normals,
    ring,
    student_t,
)
from autograd.scipy.stats import norm
from scipy.special import gammaln
from targets_1d import TARGETS, normal_mixture

from skboost import boost_posterior

SHAPE = 1.5
SKEWS = np.array([2.0, 3.0, 4.0, 6.0])
narrow_ring, ring_log_z = ring(3.0, 0.4)


# --- densities: each takes (n, dim); all but the ring are normalised


def log_gammas(theta):
    return (SHAPE * theta - anp.exp(theta) - gammaln(SHAPE)).sum(axis=1)


def bananas(theta):
    """Pairs of x ~ N(0, 4) and y ~ N(x^2 / 4, 1 / 4)."""
    x, y = theta[:, ::2], theta[:, 1::2]
    return normals(x, 2.0) + normals(y - 0.25 * x**2, 0.5)


def bent_plate(theta):
    """One x ~ N(0, 1), and all others N((x^2 - 1) / 2, 1 / 4)."""
    x = theta[:, :1]
    return normals(x) + normals(theta[:, 1:] - 0.5 * (x**2 - 1.0), 0.5)


def skew_normals(theta):
    skews = np.resize(SKEWS, theta.shape[1])
    return normals(theta) + (norm.logcdf(skews * theta) + np.log(2.0)).sum(axis=1)


def waves(theta):
    """Pairs of x ~ N(0, 1) and y ~ N(sin 2x, 1 / 4)."""
    x, y = theta[:, ::2], theta[:, 1::2]
    return normals(x) + normals(y - anp.sin(2.0 * x), 0.5)


def two_funnels(theta):
    """Two drivers, each with half of the others."""
    drivers, rest = theta[:, :2], theta[:, 2:]
    half = rest.shape[1] // 2
    total = normals(drivers)
    for k in (0, 1):
        v = drivers[:, k : k + 1]
        total = total + normals(rest[:, k * half : (k + 1) * half] * anp.exp(-v))
        total = total - half * v[:, 0]
    return total


overlapping = gaussians(
    [0.4, 0.3, 0.3],
    [[0, 0, 0, 0], [1.5, 1.5, 0, 0], [-1, 2, 1, -1]],
    [1.0, 0.6, 0.8],
)

# Name: log density, dim, rotated at random, half, largest KL, seconds.
TASKS = {
    "log-gammas, 5-D": (log_gammas, 5, False, "tuned", 0.01, 2),
    "log-gammas, 5-D, rotated": (log_gammas, 5, True, "tuned", 0.03, 5),
    "log-gammas, 12-D, rotated": (log_gammas, 12, True, "tuned", 0.06, 10),
    "bananas, 10-D": (bananas, 10, False, "tuned", 0.005, 2),
    "bananas, 10-D, rotated": (bananas, 10, True, "tuned", 0.2, 10),
    "bent plate, 10-D": (bent_plate, 10, False, "tuned", 0.005, 2),
    "bent plate, 10-D, rotated": (bent_plate, 10, True, "tuned", 0.2, 10),
    "funnel, 10-D": (neals_funnel, 10, False, "tuned", 0.01, 2),
    "funnel, 10-D, rotated": (neals_funnel, 10, True, "tuned", 0.2, 10),
    "skew-normals, 8-D, rotated": (skew_normals, 8, True, "judged", None, None),
    "Student-t, 6-D, rotated": (
        partial(student_t, df=5.0), 6, True, "judged", None, None,
    ),
    "waves, 6-D": (waves, 6, False, "judged", None, None),
    "chain, 6-D, rotated": (long_banana, 6, True, "judged", None, None),
    "two funnels, 8-D": (two_funnels, 8, False, "judged", None, None),
    "two funnels, 8-D, rotated": (two_funnels, 8, True, "judged", None, None),
    "ring": (narrow_ring, 2, False, "mixtures", None, None),
    "four bumps": (four_gaussians, 2, False, "mixtures", None, None),
    "overlapping mixture, 4-D": (overlapping, 4, False, "mixtures", None, None),
    "bimodal, overlapping, 1-D": (
        normal_mixture([0.5, 0.5], [-1.2, 1.2], [1.0, 0.7]), 1, False, "mixtures",
        None, None,
    ),
    **{
        f"{name}, 1-D": (log_density, 1, False, "mixtures", None, None)
        for name, (log_density, _, _) in TARGETS.items()
    },
}  # fmt: skip
LOG_Z = {"ring": ring_log_z}


def rotated(log_density, dim, seed):
    """The density of coordinates turned by a random rotation."""
    draws = np.random.default_rng(seed + 1).standard_normal((dim, dim))
    turn = np.linalg.qr(draws)[0]
    return lambda theta: log_density(anp.dot(theta, turn))


def main():
    made = parser(__doc__, replicates=5)
    made.add_argument("--only", nargs="+", default=[""], help="parts of names")
    args = made.parse_args()
    report = Report("warp", args.out, replicates=args.replicates)
    for task, (log_density, dim, turn, half, bound, seconds) in TASKS.items():
        if not any(part in task for part in args.only):
            continue
        runs = []
        for seed in range(args.replicates):
            density = rotated(log_density, dim, seed) if turn else log_density
            runs.append(both(density, dim, LOG_Z.get(task, 0.0), seed))
        found = columns(runs)
        summarise(report, half, task, found)
        bars(report, half, task, found, bound, seconds)


def both(log_density, dim, log_z, seed):
    """Figures of one density by ``warp=None`` and by ``"auto"``."""
    single, _, _ = timed(
        boost_posterior, log_density, dim, max_iter=1, random_state=seed
    )
    figures = {"one Gaussian": log_z - elbo_of(log_density, single.posterior)[0]}
    for label, warp in (("None", None), ("auto", "auto")):
        result, cpu, _ = timed(
            boost_posterior, log_density, dim, warp=warp, random_state=seed
        )
        elbo, se = elbo_of(log_density, result.posterior)
        figures |= {
            f"KL {label}": log_z - elbo,
            f"se {label}": se,
            f"components {label}": result.posterior.n_components,
            f"CPU s {label}": cpu,
            f"left {label}": result.remaining_kl,
        }
    figures["accepted"] = result.warp.accepted
    figures["gain"] = result.warp.gain
    figures["edges"] = result.warp.n_scales + result.warp.n_curves
    return figures


def summarise(report, half, task, found):
    """Medians over the seeds, as a row."""
    middle = {name: np.median(values) for name, values in found.items()}
    accepted = f"{int(found['accepted'].sum())} of {len(found['accepted'])}"
    report.row(
        half,
        density=task,
        **{name: middle[name] for name in ("one Gaussian", "KL None", "KL auto")},
        **{"worst auto": found["KL auto"].max(), "se": middle["se auto"]},
        **{"accepted": accepted, "gain of the map": middle["gain"]},
        **{
            name: middle[name]
            for name in ("edges", "components None", "components auto", "CPU s None",
                         "CPU s auto")
        },
    )  # fmt: skip


def bars(report, half, task, found, bound, seconds):
    """The figure asked for; else not worse than without by more than the spread."""
    n = len(found["gain"])
    se = float(np.median(found["se auto"]) / np.sqrt(n))
    if bound is not None:
        kl = np.median(found["KL auto"])
        report.bar(f"{half}: {task}: median KL", kl, "<=", bound, se)
        median = np.median(found["CPU s auto"])
        report.bar(f"{half}: {task}: median CPU s", median, "<=", float(seconds))
        return
    worse = found["KL auto"] - found["KL None"]
    spread = float(found["KL None"].std(ddof=1))
    error = float(np.hypot(se, np.median(found["se None"]) / np.sqrt(n)))
    report.bar(f"{half}: {task}: mean KL, auto minus None, against the spread",
               worse.mean(), "<=", spread, error)  # fmt: skip


if __name__ == "__main__":
    main()
