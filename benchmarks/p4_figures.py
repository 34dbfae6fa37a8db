"""The pictures of Campbell and Li 2019: which divergence, heavy tails, regression.

    python benchmarks/p4_figures.py [--part fig2 cauchy banana fig4] [--replicates 3]
        [--iterations 15] [--draw]

fig2
    Figure 2: N(0, A'A) with normal entries of A in two dimensions, approximated by
    N(0, s I) so that Hellinger distance, KL(q || p) or KL(p || q) is least, and by one
    diagonal Gaussian of ``boost_posterior``. KL(p || q) is in closed form; the error of
    the covariance is that of importance sampling with 1,000 draws (relative Frobenius
    norm, median of 20 repetitions).
cauchy, banana
    Figure 3, by the settings of ``ubvi.py``: squared Hellinger distance and KL(p || q)
    after every iteration, by quadrature. The KL of a Gaussian mixture to a Cauchy is
    infinite; it is that of both restricted to the middle 99.9 % of the Cauchy.
fig4
    Figure 4: energy distance to NUTS draws after every iteration on the three logistic
    regressions with a heavy-tailed prior, over that of one Gaussian.

Writes ``results/p4_figures.json`` and ``doc/_static/p4_fig2.png``, ``p4_cauchy.png``,
``p4_banana.png`` and ``p4_fig4.png``. ``--draw`` draws what
the file has without a run.
"""

from _harness import Report, parser, shared_module, timed  # isort: skip

import autograd.numpy as anp
import numpy as np
import ubvi
from _energy import independent
from figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    legend_below,
    plt,  # fmt: skip
    results,
    save,
)
from scipy.optimize import minimize_scalar

from skboost import boost_posterior

PARTS = ("fig2", "cauchy", "banana", "fig4")
COLOURS = {
    "hellinger": BLUE,
    "kl": GREEN,
    "relbo (BVI)": VERMILION,
    "relbo + 1e-3 (BVI+)": ORANGE,
}
# Tangent of the 99.9 % quantile of the absolute value of a Cauchy.
CAUCHY_END = float(np.tan(0.999 * np.pi / 2))
N_COVARIANCES, N_DRAWS, N_REPEATS = 40, 1_000, 20
N_ENERGY = 2_000


# --- figure 2


def spherical(cov):
    """Variances s of N(0, s I) nearest to N(0, cov) in each divergence."""
    dim = len(cov)

    def hellinger(log_s):
        zero = np.zeros(dim)
        return ubvi.between_gaussians(zero, cov, zero, np.exp(log_s) * np.eye(dim))

    values = np.log(np.linalg.eigvalsh(cov))
    found = minimize_scalar(hellinger, bounds=(values[0], values[-1]), method="bounded")
    return {
        "Hellinger": float(np.exp(found.x)),
        "KL(p || q)": float(np.trace(cov) / dim),
        "KL(q || p)": float(dim / np.trace(np.linalg.inv(cov))),
    }


def forward_kl(cov, variances):
    """KL(p || q) of N(0, cov) and the diagonal Gaussian q, nats."""
    ratio = np.diag(cov) / variances
    log_dets = np.log(variances).sum() - np.linalg.slogdet(cov)[1]
    return float(0.5 * (ratio.sum() - len(cov) + log_dets))


def covariance_error(cov, variances, rng):
    """Relative error of the covariance by self-normalised importance sampling."""
    precision, errors = np.linalg.inv(cov), []
    for _ in range(N_REPEATS):
        draws = rng.standard_normal((N_DRAWS, len(cov))) * np.sqrt(variances)
        log_w = 0.5 * (
            (draws**2 / variances).sum(axis=1)
            - np.einsum("ni,ij,nj->n", draws, precision, draws)
        )
        weights = np.exp(log_w - log_w.max())
        estimate = (draws.T * (weights / weights.sum())) @ draws
        errors.append(np.linalg.norm(estimate - cov) / np.linalg.norm(cov))
    return float(np.median(errors))


def fitted_variances(cov, objective, seed):
    """Of one diagonal Gaussian by ``boost_posterior``."""
    precision = np.linalg.inv(cov)
    result, _, _ = timed(
        boost_posterior,
        lambda theta: -0.5 * anp.sum(anp.dot(theta, precision) * theta, axis=1),
        2, objective=objective, family="gaussian-diag", max_iter=1,
        random_state=seed,
    )  # fmt: skip
    return result.posterior.std() ** 2


def fig2(report, args):
    """Forward KL and covariance error for covariances of every condition."""
    found = {}
    for seed in range(N_COVARIANCES):
        rng = np.random.default_rng(seed)
        root = rng.standard_normal((2, 2))
        cov = root.T @ root
        variances = {k: np.full(2, s) for k, s in spherical(cov).items()}
        for objective in ("hellinger", "kl"):
            variances[f"skboost, {objective}"] = fitted_variances(cov, objective, seed)
        for name, v in variances.items():
            point = (
                float(np.linalg.cond(cov)), forward_kl(cov, v),
                covariance_error(cov, v, rng),
            )  # fmt: skip
            found.setdefault(name, []).append(point)
    for name, points in found.items():
        middle = np.median(points, axis=0)
        report.row(
            "Fig. 2: medians over 40 covariances", approximation=name,
            **{"KL(p || q)": middle[1], "relative error of covariance": middle[2]},
        )  # fmt: skip
        report.curve(part="fig2", name=name, points=np.round(points, 5).tolist())


# --- figure 3


def log_cauchy_middle(nodes, weights):
    """Inside the middle: quadrature nodes and weights."""
    inside = np.abs(nodes[:, 0]) <= CAUCHY_END
    return nodes[inside], weights[inside]


def divergences(log_p, log_q, rule, middle=None):
    """Squared Hellinger distance, and KL(p || q) by quadrature."""
    nodes, weights = (middle or (lambda *r: r))(*rule)
    p, q = np.asarray(log_p(nodes)), log_q(nodes)
    mass_p, mass_q = weights @ np.exp(p), weights @ np.exp(q)
    forward = weights @ (np.exp(p) * (p - q)) / mass_p + np.log(mass_q / mass_p)
    return ubvi.squared_hellinger(log_p, log_q, rule), float(forward)


def density(report, args, target):
    """Divergences after every iteration, and the densities of the first seed."""
    name = {"cauchy": "Cauchy", "banana": "banana"}[target]
    log_density, dim, make_rule, _ = ubvi.DENSITIES[name]
    middle = log_cauchy_middle if target == "cauchy" else None
    rule = make_rule()
    for label, options in ubvi.SETTINGS.items():
        runs = []
        for seed in range(args.replicates):
            result, cpu, _ = ubvi.fit(
                log_density, dim, seed, max_iter=args.iterations, **options
            )
            path = [
                (*divergences(log_density, stage.log_density, rule, middle), stage)
                for stage in result.stages
            ]
            runs.append([(h, kl, s.n_components) for h, kl, s in path])
            report.curve(
                part=target, name=label, seed=seed, cpu=np.round(cpu, 3).tolist(),
                path=[[float(f"{v:.5g}") for v in row] for row in runs[-1]],
                **(shown_density(target, path[-1][2]) if seed == 0 else {}),
            )  # fmt: skip
        last = np.array([run[-1] for run in runs])
        report.row(
            f"Fig. 3: {name} after {args.iterations} iterations, medians",
            objective=label, **{"squared Hellinger": float(np.median(last[:, 0])),
            "KL(p || q)": float(np.median(last[:, 1])),
            "components": float(np.median(last[:, 2]))},
        )  # fmt: skip


def shown_density(target, stage):
    """Log density of a mixture on the grid of the pictures."""
    if target == "cauchy":
        values = stage.log_density(cauchy_grid()[:, None])
        return {"log_q": np.round(values, 3).tolist()}
    nodes, step = banana_grid()
    values = stage.log_density(nodes.reshape(-1, 2)).reshape(nodes.shape[:2])
    marginal = np.log(np.maximum(np.exp(values).sum(axis=1) * step, 1e-300))
    return {"log_marginal": np.round(marginal, 3).tolist()}


def cauchy_grid():
    return np.sinh(np.linspace(-7, 7, 201))


def banana_grid():
    """Nodes (x, y, 2) and the step in y."""
    x, (y, step) = np.linspace(-40, 40, 161), np.linspace(-160, 20, 721, retstep=True)
    return np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1), step


# --- figure 4


def fig4(report, args):
    """Energy distance after every iteration, by components and CPU seconds."""
    tasks = shared_module(args.shared, "reference", "tasks")
    metrics = shared_module(args.shared, "reference", "metrics")
    if tasks is None:
        return report.not_run("fig4", "no reference tasks in the shared folder")
    labels = [label for label in ubvi.SETTINGS if label != "relbo (BVI)"]
    for name in ubvi.T2_TASKS:
        task = tasks.t2_logistic(name, xp=anp)
        reference = task.draws[:: max(1, len(task.draws) // N_ENERGY)]
        for label in labels:
            last = []
            for seed in range(args.replicates):
                result, cpu, _ = ubvi.fit(
                    task.log_density, task.dim, seed,
                    max_iter=min(10, args.iterations), n_draws=1024,
                    **ubvi.SETTINGS[label],
                )  # fmt: skip
                path = [
                    (energy(metrics, stage, reference, seed), stage.n_components)
                    for stage in result.stages
                ]
                report.curve(part="fig4", task=name, name=label, seed=seed,
                             cpu=np.round(cpu, 3).tolist(), path=path)  # fmt: skip
                last.append((path[0][0], path[-1][0], path[-1][1], cpu[-1]))
            middle = np.median(last, axis=0)
            report.row(
                "Fig. 4: energy distance to NUTS, medians", task=name, objective=label,
                **dict(zip(("one Gaussian", "last iteration", "components", "CPU s"),
                           map(float, middle), strict=True)),
            )  # fmt: skip


def energy(metrics, stage, reference, seed):
    draws = independent(stage, N_ENERGY, 1000 + seed)
    return float(f"{metrics.energy_distance(draws, reference):.5g}")


# --- pictures


def draw_fig2(curves):
    figure, grid = plt.subplots(1, 2, figsize=(7.4, 3.3), sharex=True)
    looks = {
        "Hellinger": (BLUE, "-"), "KL(p || q)": (PURPLE, "-"),
        "KL(q || p)": (VERMILION, "-"), "skboost, hellinger": (BLUE, "o"),
        "skboost, kl": (VERMILION, "s"),
    }  # fmt: skip
    for curve in curves:
        colour, look = looks[curve["name"]]
        x, kl, error = np.array(sorted(curve["points"])).T
        for axes, y in zip(grid, (kl, error), strict=True):
            style = {"linestyle": look, "lw": 1} if look == "-" else {
                "marker": look, "linestyle": "", "markersize": 4,
                "markerfacecolor": "none"}  # fmt: skip
            axes.plot(
                x, y, color=colour, label=curve["name"].replace("||", "‖"), **style
            )
    for axes, label in zip(
        grid, ("KL(p ‖ q) in nats", "relative error of the covariance"), strict=True
    ):
        axes.set(xscale="log", yscale="log", ylabel=label)
        axes.set_xlabel("condition number of the covariance")
    legend_below(figure, grid[:1], 3)
    save(figure, "p4_fig2")


def draw_paths(axes, curves, x_of, column):
    """One thin line for each seed, named once."""
    for curve in curves:
        y = [row[column] for row in curve["path"]]
        axes.plot(
            x_of(curve)[: len(y)], y, color=COLOURS[curve["name"]], lw=1,
            marker="o", markersize=2.5,
            label=curve["name"] if curve["seed"] == 0 else None,
        )  # fmt: skip


def iterations(curve):
    return np.arange(1, len(curve["path"]) + 1)


def seconds(curve):
    return curve["cpu"]


def draw_density(target, curves):
    figure, grid = plt.subplots(2, 2, figsize=(8.2, 6.0))
    {"cauchy": draw_cauchy, "banana": draw_banana}[target](grid[0], curves)
    for axes, x_of, label in (
        (grid[1, 0], iterations, "iteration"), (grid[1, 1], seconds, "CPU seconds"),
    ):  # fmt: skip
        draw_paths(axes, curves, x_of, 1)
        axes.set(yscale="log", xlabel=label, ylabel="KL(p ‖ q) in nats")
    grid[1, 0].xaxis.get_major_locator().set_params(integer=True)
    grid[1, 1].set_xscale("log")
    grid[1, 1].xaxis.set_minor_formatter("")
    legend_below(figure, (grid[0, 0], grid[1, 0]), 5, last=("target",))
    save(figure, f"p4_{target}")


def draw_cauchy(grid, curves):
    x = cauchy_grid()
    log_p = np.asarray(ubvi.cauchy(x[:, None]))
    for axes in grid:
        axes.plot(x, log_p if axes is grid[1] else np.exp(log_p), color=GREY, lw=3,
                  alpha=0.5, label="target")  # fmt: skip
        for curve in curves:
            if "log_q" in curve:
                y = np.array(curve["log_q"])
                axes.plot(x, y if axes is grid[1] else np.exp(y),
                          color=COLOURS[curve["name"]], lw=1)  # fmt: skip
        axes.set_xlabel("x")
    grid[0].set(xlim=(-8, 8), ylabel="density")
    grid[1].set(xscale="symlog", ylim=(-25, 0), ylabel="log density, nats")


def draw_banana(grid, curves):
    nodes, step = banana_grid()
    log_p = np.asarray(ubvi.banana(nodes.reshape(-1, 2))).reshape(nodes.shape[:2])
    grid[1].plot(nodes[:, 0, 0], np.log(np.exp(log_p).sum(axis=1) * step),
                 color=GREY, lw=3, alpha=0.5)  # fmt: skip
    for curve in curves:
        if "log_marginal" in curve:
            colour = COLOURS[curve["name"]]
            grid[1].plot(nodes[:, 0, 0], curve["log_marginal"], color=colour, lw=1)
    draw_paths(grid[0], curves, iterations, 0)
    grid[0].plot([], [], color=GREY, lw=3, alpha=0.5, label="target")
    grid[0].set(yscale="log", xlabel="iteration", ylabel="squared Hellinger distance")
    grid[1].set(xlabel="x", ylabel="log density of x, nats", ylim=(-20, 0))


def draw_fig4(curves):
    figure, grid = plt.subplots(2, 3, figsize=(8.6, 5.2), sharey=True)
    for k, name in enumerate(ubvi.T2_TASKS):
        own = [dict(curve) for curve in curves if curve["task"] == name]
        one = [curve for curve in own if curve["name"] == "kl"]
        unit = np.median([curve["path"][0][0] for curve in one])
        unit_seconds = np.median([curve["cpu"][0] for curve in one])
        for curve in own:
            curve["path"] = [[max(e / unit, 1e-3), n] for e, n in curve["path"]]
            curve["cpu"] = np.divide(curve["cpu"], unit_seconds)
        draw_paths(grid[0, k], own, lambda c: [n for _, n in c["path"]], 0)
        draw_paths(grid[1, k], own, seconds, 0)
        grid[0, k].set(title=name, xlabel="components", yscale="log")
        grid[1, k].set(xlabel="CPU seconds over those of\none Gaussian", xscale="log")
    for axes in grid[:, 0]:
        axes.set_ylabel("energy distance over\nthat of one Gaussian")
    legend_below(figure, grid[0, :1], 3)
    save(figure, "p4_fig4")


def pictures(content):
    """Every picture of which the file has the numbers."""
    for part in PARTS:
        curves = [c for c in content.get("curves", []) if c["part"] == part]
        if curves and part in ("cauchy", "banana"):
            draw_density(part, curves)
        elif curves:
            {"fig2": draw_fig2, "fig4": draw_fig4}[part](curves)


def main():
    made = parser(__doc__, replicates=3)
    made.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    made.add_argument("--iterations", type=int, default=15)
    made.add_argument("--draw", action="store_true")
    args = made.parse_args()
    if args.draw:
        return pictures(results("p4_figures", args.out))
    report = Report("p4_figures", args.out, replicates=args.replicates,
                    iterations=args.iterations)  # fmt: skip
    for part in args.part:
        if part in ("cauchy", "banana"):
            density(report, args, part)
        else:
            {"fig2": fig2, "fig4": fig4}[part](report, args)
        report.save()
    pictures(results("p4_figures", args.out))


if __name__ == "__main__":
    main()
