"""A funnel, a correlated Gaussian in 500 dimensions, and cost by dimension.

    python benchmarks/high_dimension.py [--replicates 3]

`boost_posterior` with its defaults against NumPyro's guides: full-rank and low-rank
Gaussians and an inverse autoregressive flow, each for the CPU seconds that boosting
took on the same seed, their compilation not counted. Their step size is the best of
four on the first seed. ELBOs of all come from 50,000 fresh draws; both densities are
normalised, so that an ELBO is minus a KL.
"""

import time
import tracemalloc

from _harness import Report, elbo_of, parser, timed  # isort: skip

import numpy as np

from skboost import boost_posterior

GUIDES = ("full-rank", "low-rank", "flow (IAF)")
STEP_SIZES = (0.1, 0.03, 0.01, 0.003)
N_FRESH = 50_000
# Of the funnel: what more components, and heavier tails, would bring.
OTHER_SETTINGS = {
    "max_iter=30": {"max_iter": 30},
    "student_t, max_iter=30": {"family": "student_t", "max_iter": 30},
}
LOG_2PI = np.log(2.0 * np.pi)


class Funnel:
    """Neal 2003: v ~ N(0, 9) and the others ~ N(0, exp(v))."""

    name, dim, n_particles = "funnel", 10, 16

    def batch(self, theta):
        v, x = theta[:, 0], theta[:, 1:]
        inside = np.exp(-v) * np.sum(x**2, axis=1) + x.shape[1] * v
        return -0.5 * (v**2 / 9.0 + inside + self.dim * LOG_2PI) - np.log(3.0)

    def gradient(self, theta):
        v, x = theta[:, :1], theta[:, 1:]
        precision = np.exp(-v)
        squares = precision * np.sum(x**2, axis=1, keepdims=True)
        return np.hstack([-v / 9.0 + 0.5 * (squares - x.shape[1]), -precision * x])

    def one(self, theta):
        import jax.numpy as jnp

        v, x = theta[0], theta[1:]
        inside = jnp.exp(-v) * jnp.sum(x**2) + x.size * v
        return -0.5 * (v**2 / 9.0 + inside + self.dim * LOG_2PI) - np.log(3.0)


class Correlated:
    """A Gaussian of unequal scales, ten times wider along five directions."""

    n_particles = 4

    def __init__(self, dim, n_strong=5, variance=100.0):
        rng = np.random.default_rng(0)
        self.name, self.dim = f"Gaussian, {dim} dims", dim
        self.axes = np.linalg.qr(rng.standard_normal((dim, n_strong)))[0]
        self.scale = np.exp(0.5 * rng.standard_normal(dim))
        self.mean = rng.standard_normal(dim)
        self.lost = 1.0 - 1.0 / variance
        half_log_det = np.log(self.scale).sum() + 0.5 * n_strong * np.log(variance)
        self.top = -0.5 * dim * LOG_2PI - half_log_det

    def _pulled(self, theta):
        z = (theta - self.mean) / self.scale
        return z, z - self.lost * ((z @ self.axes) @ self.axes.T)

    def batch(self, theta):
        z, pulled = self._pulled(theta)
        return self.top - 0.5 * np.einsum("ij,ij->i", z, pulled)

    def gradient(self, theta):
        return -self._pulled(theta)[1] / self.scale

    def one(self, theta):
        z, pulled = self._pulled(theta)
        return self.top - 0.5 * z @ pulled


def boosted(target, seed, **options):
    """A run, its CPU seconds, and those of its first component."""
    began, clock = time.process_time(), []

    def listen(_):
        clock.append(time.process_time() - began)

    result, cpu, _ = timed(
        boost_posterior,
        target.batch,
        target.dim,
        gradient=target.gradient,
        vectorized=True,
        random_state=seed,
        callback=listen,
        **options,
    )
    return result, cpu, clock[0]


def compare(report, target, n_seeds):
    """Boosting and the guides on one target; bars on the difference."""
    elbos, seconds = [], []
    for seed in range(n_seeds):
        elbo, cpu = ours(report, target, "boost_posterior", seed)
        elbos.append(elbo)
        seconds.append(cpu)
    best = {}
    for name in GUIDES:
        found = rival(report, target, name, seconds)
        if found is not None:
            best[name] = found
    summary(report, target, {"boost_posterior": elbos} | best)


def ours(report, target, label, seed, **options):
    """ELBO and CPU seconds of one call."""
    result, cpu, _ = boosted(target, seed, **options)
    elbo = elbo_of(target.batch, result.posterior, N_FRESH, 1000 + seed)
    work = f"{result.posterior.n_components} components"
    row(report, target, label, seed, elbo, cpu, work)
    return elbo[0], cpu


def rival(report, target, name, seconds):
    """ELBOs of a guide, seed by seed, or None where it can not be run."""
    try:
        from _guides import Guide
    except ImportError as error:
        report.not_run(f"{target.name}: {name}", str(error))
        return None

    def run(seed, step_size):
        guide = Guide(name, target.one, target.dim, step_size, target.n_particles)
        n_steps, cpu = guide.fit(seconds[seed], seed)
        ratio = guide.log_ratio(target.one, N_FRESH, 1000 + seed)
        elbo = float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(N_FRESH))
        work = f"{n_steps} steps of {step_size}"
        row(report, target, name, seed, elbo, cpu, work)
        return elbo[0]

    first = {step: run(0, step) for step in STEP_SIZES}
    # An optimisation that diverged is no number.
    step = max(first, key=lambda s: np.nan_to_num(first[s], nan=-np.inf))
    return [first[step]] + [run(seed, step) for seed in range(1, len(seconds))]


def row(report, target, method, seed, elbo, cpu, work):
    report.row(
        "every run",
        target=target.name,
        method=method,
        seed=seed,
        ELBO=elbo[0],
        se=elbo[1],
        **{"CPU s": cpu},
        work=work,
    )


def summary(report, target, elbos):
    for method, values in elbos.items():
        report.row(
            "ELBO at equal CPU seconds",
            target=target.name,
            method=method,
            median=float(np.median(values)),
            worst=min(values),
        )
    others = [float(np.median(v)) for k, v in elbos.items() if k in GUIDES]
    if others:
        ahead = float(np.median(elbos["boost_posterior"])) - max(others)
        report.bar(f"{target.name}: ELBO - that of the best guide", ahead, ">=", -0.05)


def scaling(report, n_seeds):
    """Seconds and memory by dimension, one call with low-rank components."""
    per_dim = {}
    for dim in (100, 500, 2000):
        target = Correlated(dim)
        runs = [
            boosted(target, seed, family="gaussian-low-rank") for seed in range(n_seeds)
        ]
        tracemalloc.start()
        boosted(target, 0, family="gaussian-low-rank")
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        kl = [-elbo_of(target.batch, r.posterior, N_FRESH)[0] for r, _, _ in runs]
        per_dim[dim] = (float(np.median([first for *_, first in runs])), peak)
        report.row(
            "Gaussian with five strong directions, low-rank components",
            D=dim,
            **{"first component, CPU s": per_dim[dim][0]},
            **{"whole call, CPU s": float(np.median([cpu for _, cpu, _ in runs]))},
            **{"peak MB": peak, "one D x D matrix, MB": 8e-6 * dim**2},
            rank=[r.posterior.mixture.components[0][0].rank for r, _, _ in runs],
            iterations=[r.n_iter for r, _, _ in runs],
            **{"KL, median": float(np.median(kl)), "KL, worst": max(kl)},
        )
        report.bar(f"KL in {dim} dimensions, worst seed", max(kl), "<=", 1e-2)
    (few, small), (many, large) = per_dim[500], per_dim[2000]
    report.bar("seconds of the first component, 2,000 / 500 dims", many / few, "<=", 5)
    report.bar("peak memory, 2,000 / 500 dims", large / small, "<=", 4.4)


def main():
    args = parser(__doc__, replicates=3).parse_args()
    report = Report("high_dimension", args.out, replicates=args.replicates)
    for target in (Funnel(), Correlated(500)):
        compare(report, target, args.replicates)
    for label, options in OTHER_SETTINGS.items():
        for seed in range(args.replicates):
            ours(report, Funnel(), f"boost_posterior, {label}", seed, **options)
    scaling(report, args.replicates)


if __name__ == "__main__":
    main()
