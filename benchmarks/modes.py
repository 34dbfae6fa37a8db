"""Densities with several modes: how many a fit finds, and what it says of the others.

    python benchmarks/modes.py [--replicates 5] [--only NAME ...] [--before FILE]
        [--seconds 30] [--add]

``boost_posterior(log_density, dim)`` by default, from the origin. Ten generated
mixtures have 2 to 12 modes in 2 to 30 dimensions, each mode with a covariance of its
own and one of three kinds of tails; four densities are those of Blessing et al. 2024
and Arenz et al. 2022, from the shared folder. A mode is *found* if the posterior has at
least a quarter of its share; a fit is *silent* if it says that it converged while it
lacks a mode of more than 2 %. A run that has taken so many CPU seconds stops after its
iteration, and has not converged. ``--before`` names the JSON file of another version,
whose figures are put beside; ``--add`` leaves out what the file has already, so that a
long table can be run in pieces.
"""

from _harness import (  # isort: skip
    Report,
    elbo_of,
    parser,
    shared_module,
    timed,
)

import json
import time
from pathlib import Path

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from skboost import boost_posterior

_N_DRAWS = 5_000
SEEN = "ten_gaussians", "ten_student_t", "forty_gaussians", "planar_robot"


class Radial:
    """Log density of a standard radial distribution, by its squared radius."""

    def __init__(self, kind, dim):
        self.kind, self.dim = kind, dim
        sphere = np.log(2.0) + 0.5 * dim * np.log(np.pi) - gammaln(0.5 * dim)

        # From its highest value, so that nothing overflows.
        def log_at(r):
            return self.log_shape(r * r) + (dim - 1) * np.log(r)

        grid = np.geomspace(1e-3, 1e6, 20_001)
        top = log_at(grid).max()
        log_step = np.log(grid[1] / grid[0])
        area = logsumexp(log_at(grid) + np.log(grid) - top) + np.log(log_step)
        self.constant = -(sphere + top + area)

    def log_shape(self, q):
        """Not normalised."""
        if self.kind == "gaussian":
            return -0.5 * q
        if self.kind == "student-t":
            return -0.5 * (4.0 + self.dim) * np.log1p(q / 4.0)
        return -np.sqrt(self.dim + 1.0) * np.sqrt(1.0 + q)

    def slope(self, q):
        """Derivative in the squared radius."""
        if self.kind == "gaussian":
            return np.full_like(q, -0.5)
        if self.kind == "student-t":
            return -0.5 * (4.0 + self.dim) / (4.0 + q)
        return -0.5 * np.sqrt(self.dim + 1.0) / np.sqrt(1.0 + q)


class Generated:
    """A mixture of radial distributions, each with a linear map of its own."""

    def __init__(self, seed):
        rng = np.random.default_rng([37, seed])
        kind = ("gaussian", "student-t", "hyperbolic")[seed % 3]
        self.dim = dim = int(rng.integers(2, 31))
        self.n_modes = n = int(rng.integers(2, 13))
        reach = (10.0, 50.0)[seed % 2] * np.sqrt(2.0 / dim if seed % 2 else 1.0)
        self.name = f"{n}_{kind}_{dim}d"
        self.radial = Radial(kind, dim)
        self.centres = rng.uniform(-reach, reach, (n, dim))
        self.shares = rng.dirichlet(np.full(n, 5.0))
        roots = []
        for _ in range(n):
            axes = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
            roots.append(axes * np.exp(rng.uniform(np.log(0.03), np.log(2.0), dim)))
        self.inverses = np.linalg.inv(np.array(roots))
        sizes = np.linalg.slogdet(np.array(roots))[1]
        self.constants = np.log(self.shares) + self.radial.constant - sizes

    def table(self, theta):
        """Whitened distances (n, k, dim), squared radii and log joints (n, k)."""
        away = theta[:, None] - self.centres
        z = np.einsum("kij,nkj->nki", self.inverses, away)
        q = (z**2).sum(axis=2)
        return z, q, self.constants + self.radial.log_shape(q)

    def __call__(self, theta):
        return logsumexp(self.table(theta)[2], axis=1)

    def gradient(self, theta):
        z, q, logs = self.table(theta)
        share = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        slopes = 2.0 * share * self.radial.slope(q)
        return np.einsum("nk,nki,kij->nj", slopes, z, self.inverses, optimize=True)

    def found(self, theta):
        """Share of the draws at each mode."""
        return np.bincount(self.table(theta)[2].argmax(axis=1), minlength=self.n_modes)


class Published:
    """A density of the shared folder."""

    def __init__(self, name, one):
        self.name, self.dim, self.gradient = name, one.dim, one.grad
        self.log_density = one.lp
        self.places = one.goals if one.modes is None else one.modes
        self.arms, self.roots = one.modes is None, getattr(one, "Ls", None)
        self.n_modes = len(self.places)
        self.shares = np.full(self.n_modes, 1.0 / self.n_modes)
        if self.arms:
            self.shares, self.log_z = goals_of_arm(self.places, self.dim)

    def __call__(self, theta):
        return self.log_density(theta)

    def found(self, theta):
        """Share of the draws nearest to each mode."""
        if self.arms:
            angles = np.cumsum(theta, axis=1)
            theta = np.stack([np.cos(angles).sum(1), np.sin(angles).sum(1)], axis=1)
        away = ((theta[:, None] - self.places) ** 2).sum(axis=2)
        return np.bincount(away.argmin(axis=1), minlength=self.n_modes)


def goals_of_arm(goals, dim, n=400_000):
    """Shares of the goals of the planar robot, and its log evidence.

    The first angle, standard normal, turns the whole arm: given the others, of standard
    deviation .2, it is integrated where the hand is as far out as the goals. The others
    are drawn near arcs that reach so far, and weighed. Goals hold the hand to .01; over
    .05 the density of how far out it is changes as little.
    """
    rng = np.random.default_rng(0)
    sd, bend, spread, hold = 0.2, 0.3, 0.22, 0.05
    side = rng.choice([-1.0, 1.0], size=(n, 1))
    turns = side * bend + spread * rng.standard_normal((n, dim - 1))
    log_w = -0.5 * ((turns / sd) ** 2).sum(axis=1) - (dim - 1) * np.log(sd / spread)
    arcs = [((turns + s * bend) / spread) ** 2 for s in (-1.0, 1.0)]
    log_w -= np.logaddexp(*(-0.5 * arc.sum(axis=1) for arc in arcs)) - np.log(2.0)
    angles = np.cumsum(np.column_stack([np.zeros(n), turns]), axis=1)
    hand = np.stack([np.cos(angles).sum(axis=1), np.sin(angles).sum(axis=1)])
    out = np.hypot(*goals[0])
    log_w += norm.logpdf(np.hypot(*hand), out, hold) - np.log(out)
    first = np.arctan2(*goals.T[::-1])[:, None] - np.arctan2(*hand[::-1])
    around = first[..., None] + 2.0 * np.pi * np.arange(-2, 3)
    mass = (norm.pdf(around).sum(axis=2) * np.exp(log_w)).mean(axis=1)
    return mass / mass.sum(), float(np.log(mass.sum()))


def forty(densities):
    """Forty Gaussians of unit variance in the plane, centres in [-40, 40]."""
    try:
        return densities.mog40()
    except ImportError:
        # Their places in the benchmark come from a generator of JAX.
        places = np.random.default_rng(0).uniform(-40.0, 40.0, (40, 2))
        return densities.gmix("mog40", places, np.array([np.eye(2)] * 40))


def main():
    made = parser(__doc__, replicates=5)
    made.add_argument("--only", nargs="+", default=[""], help="parts of names")
    made.add_argument("--before", type=Path, help="JSON file of another version")
    made.add_argument("--name", default="modes", help="of the JSON file")
    made.add_argument("--seconds", type=float, default=30.0, help="CPU, of one run")
    made.add_argument("--add", action="store_true", help="go on with the JSON file")
    args = made.parse_args()
    settings = {"replicates": args.replicates, "seconds": args.seconds}
    report = Report(args.name, args.out, **settings)
    done = {}
    if args.add and (args.out / f"{args.name}.json").exists():
        done = _rows(args.out / f"{args.name}.json")
        report.tables["modes"] = list(done.values())
    before = {} if args.before is None else _rows(args.before)
    targets = [Generated(seed) for seed in range(10)]
    densities = shared_module(args.shared, "reference", "densities")
    if densities is None:
        report.not_run("published densities", "they are not in the shared folder")
    else:
        ones = (
            densities.gmm20(),
            densities.stm20(),
            forty(densities),
            densities.planar(),
        )
        targets += [Published(*pair) for pair in zip(SEEN, ones, strict=True)]
    for target in targets:
        if any(part in target.name for part in args.only):
            for seed in range(args.replicates):
                key = target.name, seed
                if key not in done:
                    one(report, target, seed, before.get(key), args.seconds)
    rows = [r for r in report.tables.get("modes", []) if r["target"] not in SEEN]
    report.bar("silent misses", sum(row["silent"] for row in rows), "<=", 0)


def one(report, target, seed, before, seconds):
    """One fit, and a row about it."""
    end, rows = time.process_time() + seconds, []

    def log_density(theta):
        rows.append(len(theta))
        return target(theta)

    result, cpu, _ = timed(
        boost_posterior,
        log_density,
        target.dim,
        gradient=target.gradient,
        random_state=seed,
        callback=lambda _: time.process_time() > end,
    )
    n_evaluations = sum(rows)
    # The interval for what remains would take most of the seconds, and needs no judge.
    says = bool(result.converged)
    theta = result.posterior.sample(_N_DRAWS, random_state=1)
    found = target.found(theta) / _N_DRAWS > 0.25 * target.shares
    row = {
        "target": target.name, "seed": seed, "modes": target.n_modes,
        "found": int(found.sum()), "says_converged": says,
        "silent": bool(says and (~found & (target.shares > 0.02)).any()),
        "elbo": elbo_of(target, result.posterior, _N_DRAWS)[0],
        "components": result.posterior.n_components,
        "iterations": result.n_iter, "cpu_s": cpu, "evaluations": n_evaluations,
    }  # fmt: skip
    for name in ("found", "silent", "elbo", "cpu_s", "evaluations"):
        if before is not None:
            row[f"{name} before"] = before[name]
    report.row("modes", **row)


def _rows(path):
    rows = json.loads(path.read_text(encoding="utf-8"))["tables"]["modes"]
    return {(row["target"], row["seed"]): row for row in rows}


if __name__ == "__main__":
    main()
