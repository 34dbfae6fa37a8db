"""KL against seconds: components, orbits of one Gaussian, both, and nutpie.

    python benchmarks/orbit_curves.py [--only NAME ...]

On four targets: two regressions, which orbits serve (breast cancer, wine of three
classes), one with more columns than its rows say much about (digits, 3 or 8), and a
funnel of ten dimensions, which bends. Seconds are CPU seconds of a fit and 1,000
draws. ``KL`` is the log evidence, exact or by importance sampling with the orbits that
leave least, minus the ELBO on 4,000 draws. nutpie (two chains of 400 + 1,000, without
its compilation) has no density and so no KL: the seconds alone are given.
"""

from dataclasses import dataclass
from pathlib import Path

from _harness import Report, parser, rival_module, timed  # isort: skip

import autograd.numpy as anp
import numpy as np
from price import NUTPIE, judged, tuned

from skboost import boost_posterior

ORDERS = (None, 2, 4, 8, 16, 32, 64, 128)
ITERATIONS = (1, 2, 3, 5, 8)
NAMES = ("breast cancer", "wine", "digits, 3 or 8, 200 x 64")
N_DRAWS = 4000
# Nats: so little that nothing but `max_iter` ends a run.
TOL = 1e-4


@dataclass
class Funnel:
    """Neal's: ``v ~ N(0, 3^2)``, the others ``N(0, exp(v))``."""

    dim: int = 10

    def fit(self, **settings):
        """The posterior and its log density, whose evidence is one."""
        result = boost_posterior(self.log_density, self.dim, **settings)
        return result.posterior, self.log_density

    def log_density(self, theta):
        """Log density (n,) of points (n, dim)."""
        v, rest = theta[:, 0], theta[:, 1:]
        constant = anp.log(3.0) + 0.5 * self.dim * anp.log(2.0 * anp.pi)
        spread = 0.5 * (self.dim - 1) * v
        squares = anp.sum(rest**2, axis=1) * anp.exp(-v)
        return -0.5 * v**2 / 9.0 - spread - 0.5 * squares - constant

    def model(self, models):
        """Of PyMC, and what makes rows of its draws."""
        return models.funnel(self.dim), models.funnel_columns


def targets(report, shared):
    """The four, by name."""
    known = dict(tuned(Path(shared), report)) | dict(judged(Path(shared), report))
    yield from ((name, known[name]) for name in NAMES)
    yield "funnel, 10", Funnel()


def fits():
    """Kinds of fits: a label and the settings."""
    for order in ORDERS:
        yield "orbits", order, {"max_iter": 1, "orbit": order}
    for n in ITERATIONS:
        yield "components", n, {"max_iter": n, "orbit": None, "tol": TOL}
    for n in ITERATIONS:
        yield "both", n, {"max_iter": n, "orbit": 64, "tol": TOL}
    yield "default", 0, {}


def log_ratios(task, settings):
    """``ln p - ln q`` at draws of a fit, and its CPU seconds with 1,000 draws."""

    def drawn():
        found = task.fit(random_state=0, **settings)
        found[0].sample(1000, random_state=0)
        return found

    (posterior, log_joint, *_), cpu, _ = timed(drawn)
    theta = posterior.sample(N_DRAWS, random_state=1)
    log_density = getattr(log_joint, "log_density", log_joint)
    return log_density(theta) - posterior.log_density(theta), cpu


def measure(report, name, task, models):
    """Rows about one target."""
    found = [(*key, *log_ratios(task, settings)) for *key, settings in fits()]
    log_z = 0.0
    if not isinstance(task, Funnel):
        best = max((ratio for *_, ratio, _ in found), key=np.mean)
        log_z = np.logaddexp.reduce(best) - np.log(len(best))
    for kind, size, ratio, cpu in found:
        se = ratio.std() / np.sqrt(len(ratio))
        kl = {"KL": log_z - ratio.mean(), "KL se": se}
        report.row(name, kind=kind, size=size or 1, **kl, **{"CPU s": cpu})
    if models is None:
        return
    sampler = models.Sampler(*task.model(models))
    _, cpu, _ = sampler.run(*NUTPIE, 100)
    report.row("nutpie", target=name, **{"CPU s": cpu, "compiling": sampler.seconds})


def main():
    made = parser(__doc__)
    made.add_argument("--only", nargs="+", default=[""], help="parts of names")
    made.add_argument("--name", default="orbit_curves", help="of the JSON file")
    args = made.parse_args()
    report = Report(args.name, args.out, draws=N_DRAWS)
    models = rival_module(report, "_nutpie", "seconds of nutpie")
    for name, task in targets(report, args.shared):
        if any(part in name for part in args.only):
            measure(report, name, task, models)


if __name__ == "__main__":
    main()
