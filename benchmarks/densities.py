"""Densities that others chose: fits by default and from a box, beside what users pick.

    python benchmarks/densities.py [--only NAME ...] [--seconds 60] [--add] [--rivals]

Targets of Blessing et al. 2024 and Arenz et al. 2022, from the shared folder, without
which nothing is run: posteriors of one mode, a funnel, a banana, mixtures and a planar
robot. For each the ELBO by 5,000 draws that no fit has seen, the log evidence by
importance sampling, modes that have at least a quarter of their share, CPU seconds and
evaluations; a run that has taken so many seconds stops after its iteration.
``--rivals`` adds PyMC's ADVI and Pathfinder, and nutpie, through the same functions,
where they are installed: functions of Python, one point at a time, so that their
evaluations compare and their seconds do not. ``--add`` goes on with the JSON file.
"""

import json
import time
from unittest import mock

import numpy as np
from _harness import Report, elbo_of, parser, rival_module, shared_module, timed
from autograd import elementwise_grad
from modes import Published, forty
from scipy.stats import wishart

from skboost import boost_posterior

_N_DRAWS = 5_000


def ten(densities, tails):
    """Ten modes in the plane; places in the benchmark come from a generator of JAX."""
    rng = np.random.default_rng(0)
    places = rng.uniform(-10.0, 10.0, (10, 2))
    if tails == "student-t":
        with mock.patch.object(densities, "jmeans", lambda *_: places):
            return densities.mos10()
    covariances = [wishart.rvs(4, np.eye(2), random_state=k) for k in range(10)]
    return densities.gmix("mog10_2d", places, np.array(covariances), init=15.0)


def targets(densities):
    """Functions that make the targets, by name."""
    made = {
        "credit": densities.credit,
        "seeds": densities.seeds,
        "brownian": densities.brownian,
        "ionosphere": densities.ionosphere,
        "sonar": densities.sonar,
        "cancer": densities.cancer,
        "funnel": densities.funnel,
        "banana": densities.banana,
        "ten_gaussians_2d": lambda: ten(densities, "gaussian"),
        "ten_student_t_2d": lambda: ten(densities, "student-t"),
        "forty_gaussians_2d": lambda: forty(densities),
        "ten_gaussians_20d": densities.gmm20,
        "ten_student_t_20d": densities.stm20,
        "planar_robot": densities.planar,
    }
    return made


def modes_found(target, theta):
    """How many modes the draws have, of how many; empty where there is one."""
    if target.modes is None and not hasattr(target, "goals"):
        return ""
    published = Published(target.name, target)
    share = published.found(theta) / len(theta)
    return f"{int((share > 0.25 * published.shares).sum())}/{published.n_modes}"


def gradient_of(target):
    """The gradient that comes with a target, or autograd's."""
    return target.grad or elementwise_grad(target.lp)


def fitted(target, start, seconds):
    """Columns of one fit."""
    end = time.process_time() + seconds
    reach = np.full(target.dim, getattr(target, "init", None) or 3.0)
    result, cpu, _ = timed(
        boost_posterior,
        target.lp,
        target.dim,
        gradient=target.grad,
        x0=(-reach, reach) if start == "box" else None,
        random_state=0,
        callback=lambda _: time.process_time() > end,
    )
    n_evaluations = result._target.n_evaluations
    elbo, se = elbo_of(target.lp, result.posterior, _N_DRAWS)
    return {
        "elbo": elbo, "se": se, "log_evidence": result.log_evidence,
        "log_evidence_se": result.log_evidence_se, "k_hat": result.pareto_k,
        "modes": modes_found(target, result.posterior.sample(_N_DRAWS, random_state=1)),
        "converged": result.converged, "components": result.posterior.n_components,
        "cpu_s": cpu, "evaluations": n_evaluations,
    }  # fmt: skip


def by_rival(target, rival, name):
    """Columns of what a rival does with the same functions."""
    found, cpu, _ = timed(rival, target.lp, gradient_of(target), target.dim)
    theta, log_q, n_evaluations = found
    columns = dict.fromkeys(("elbo", "se", "log_evidence", "log_evidence_se", "k_hat"))
    if log_q is not None:
        ratio = target.lp(theta) - log_q
        columns |= {"elbo": ratio.mean(), "se": ratio.std() / np.sqrt(len(ratio))}
    return columns | {
        "modes": modes_found(target, theta), "converged": None, "components": None,
        "cpu_s": cpu, "evaluations": n_evaluations,
    }  # fmt: skip


def main():
    made = parser(__doc__)
    made.add_argument("--only", nargs="+", default=[""], help="parts of names")
    made.add_argument("--seconds", type=float, default=60.0, help="CPU, of one run")
    made.add_argument("--add", action="store_true", help="go on with the JSON file")
    made.add_argument("--rivals", action="store_true", help="ADVI and nutpie, too")
    args = made.parse_args()
    report = Report("densities", args.out, seconds=args.seconds)
    path = args.out / "densities.json"
    if args.add and path.exists():
        report.tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
    densities = shared_module(args.shared, "reference", "densities")
    if densities is None:
        report.not_run("all", "the targets are not in the shared folder")
        return
    ways = {f"skboost, {k}": (fitted, k, args.seconds) for k in ("default", "box")}
    rivals = rival_module(report, "_advi", "PyMC, nutpie") if args.rivals else None
    if rivals is not None:
        ways |= {k: (by_rival, rival, k) for k, rival in rivals.RIVALS.items()}
    done = {(row["target"], t) for t, rows in report.tables.items() for row in rows}
    for name, make in targets(densities).items():
        if any(part in name for part in args.only):
            target = make()
            for way, (function, *given) in ways.items():
                if (name, way) not in done:
                    row = {"target": name, "dim": target.dim, "log_z": target.logz}
                    report.row(way, **row, **function(target, *given))


if __name__ == "__main__":
    main()
