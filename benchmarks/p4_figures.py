"""The pictures of Campbell and Li 2019: which divergence, heavy tails, regression.

    python benchmarks/p4_figures.py [--part fig2 cauchy banana fig4] [--replicates 20]
        [--iterations 30] [--family gaussian-diag] [--draw]

fig1a
    The schematic of Figure 1a: which component the greedy step takes. Computed on a
    sphere by equation 5, not measured.
fig2
    Figure 2: N(0, A'A) with normal entries of A in two dimensions, approximated by
    N(0, s I) so that Hellinger distance, KL(q || p) or KL(p || q) is least, and by one
    diagonal Gaussian of ``boost_posterior``. KL(p || q) is in closed form; the error of
    the covariance is that of importance sampling with 1,000 draws (relative Frobenius
    norm, median of 20 repetitions).
cauchy, banana
    Figure 3, by the settings of ``ubvi.py``: squared Hellinger distance and KL(p || q)
    after 1 to 30 iterations, by quadrature. ``"kl"``, which is not in the paper, does
    at most fifteen. The KL of a Gaussian mixture to a Cauchy is infinite; it is that of
    both restricted to the middle 99.9 % of the Cauchy.
fig4
    Figure 4: energy distance to NUTS draws after every iteration on the three logistic
    regressions with a heavy-tailed prior, over that of one Gaussian.

Every part writes ``results/p4_PART.json`` and ``doc/_static/p4_PART.png``. ``--draw``
draws what the files have without a run. ``--family gaussian-diag``, the paper's, is for
banana and fig4 (a Cauchy has one coordinate) and writes ``p4_PART_diagonal.json``.
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
from sklearn.base import clone

from skboost import boost_posterior
from skboost.strategies import GreedySearch

PARTS = ("fig2", "cauchy", "banana", "fig4")
# Iterations after which densities are compared; most of them by the package's default.
STAGES, MOST_KL = (1, 2, 3, 5, 7, 10, 15, 20, 25, 30), 15
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
        report.curve(name=name, points=np.round(points, 5).tolist())


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
    """Divergences by iteration, and the densities of the first seed."""
    name = {"cauchy": "Cauchy", "banana": "banana"}[target]
    log_density, dim, make_rule, _ = ubvi.DENSITIES[name]
    middle = log_cauchy_middle if target == "cauchy" else None
    rule = make_rule()
    for label, options in ubvi.SETTINGS.items():
        most = min(args.iterations, MOST_KL) if label == "kl" else args.iterations
        last = []
        for seed in range(args.replicates):
            result, cpu, _ = ubvi.fit(
                log_density, dim, seed, max_iter=most, family=args.family, **options
            )
            path = []
            for n in (n for n in STAGES if n <= most):
                # A run that ended before stays where it was.
                stage = result.stages[min(n, len(result.stages)) - 1]
                found = divergences(log_density, stage.log_density, rule, middle)
                path.append([n, *found, stage.n_components, cpu[min(n, len(cpu)) - 1]])
            report.curve(
                name=label, seed=seed,
                path=[[float(f"{v:.4g}") for v in row] for row in path],
                **(shown_density(target, stage) if seed == 0 else {}),
            )  # fmt: skip
            last.append(path[-1])
        low, half, high = np.percentile(last, (25, 50, 75), axis=0)
        report.row(
            f"Fig. 3: {name}, medians", objective=label, seeds=args.replicates,
            iterations=most, **{"squared Hellinger": float(half[1]),
            "KL(p || q)": float(half[2]), "25 %": float(low[2]),
            "75 %": float(high[2]), "components": float(half[3]),
            "CPU s": float(half[4])},
        )  # fmt: skip


def shown_density(target, stage):
    """Log density of a mixture on the grid of the pictures."""
    if target == "cauchy":
        values = stage.log_density(cauchy_grid()[:, None])
        return {"log_q": np.round(values, 3).tolist()}
    nodes, step = banana_grid()
    values = stage.log_density(nodes.reshape(-1, 2)).reshape(nodes.shape[:2])
    marginal = np.log(np.maximum(np.exp(values).sum(axis=1) * step, 1e-300))
    # Every eighth node of y is enough for the eye.
    plane = np.round(np.maximum(values[:, ::8], -30.0), 1)
    return {"log_marginal": np.round(marginal, 3).tolist(), "plane": plane.tolist()}


def cauchy_grid():
    return np.sinh(np.linspace(-7, 7, 201))


def banana_grid():
    """Nodes (x, y, 2) and the step in y."""
    x, (y, step) = np.linspace(-40, 40, 161), np.linspace(-160, 20, 721, retstep=True)
    return np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1), step


# --- figure 4


def with_draws(settings, n_draws):
    """Settings of a fit, and so many draws of every component."""
    search = settings.get("search", GreedySearch())
    return settings | {"search": clone(search).set_params(n_draws=n_draws)}


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
                    task.log_density, task.dim, seed, max_iter=min(10, args.iterations),
                    family=args.family, **with_draws(ubvi.SETTINGS[label], 1024),
                )  # fmt: skip
                path = [
                    (energy(metrics, stage, reference, seed), stage.n_components)
                    for stage in result.stages
                ]
                report.curve(task=name, name=label, seed=seed,
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


def draw_fig2(content):
    curves = content["curves"]
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
    save(figure, "p4_fig2", content)


def draw_paths(axes, curves, x_of, y_of):
    """Median over the seeds, and the range of the middle half."""
    for name, color in COLOURS.items():
        own = [np.array(c["path"], dtype=float) for c in curves if c["name"] == name]
        if own:
            x = np.median([x_of(path) for path in own], axis=0)
            low, half, high = np.percentile([y_of(path) for path in own], (25, 50, 75),
                                            axis=0)  # fmt: skip
            axes.plot(x, half, color=color, marker="o", markersize=3, label=name)
            axes.fill_between(x, low, high, color=color, alpha=0.2, lw=0)
    axes.set_yscale("log")


def draw_cauchy(content):
    curves = content["curves"]
    figure, grid = plt.subplots(2, 2, figsize=(7.6, 5.6))
    x = cauchy_grid()
    log_p = np.asarray(ubvi.cauchy(x[:, None]))
    for axes, shown in zip(grid[0], (np.exp, np.asarray), strict=True):
        axes.plot(x, shown(log_p), color=GREY, lw=3, alpha=0.5, label="target")
        for curve in (c for c in curves if "log_q" in c):
            y = shown(np.array(curve["log_q"]))
            axes.plot(x, y, color=COLOURS[curve["name"]], lw=1, label=curve["name"])
        axes.set_xlabel("x")
    grid[0, 0].set(xlim=(-8, 8), ylabel="density")
    grid[0, 1].set(xscale="symlog", ylim=(-25, 0), ylabel="log density, nats")
    draw_progress(grid[1], curves)
    legend_below(figure, (grid[0, 0],), 5, last=("target",))
    save(figure, "p4_cauchy", content)


def draw_progress(grid, curves):
    """KL(p || q) by iteration and by seconds."""
    for axes, k, label in zip(grid, (0, 4), ("iteration", "CPU seconds"), strict=True):
        draw_paths(axes, curves, lambda p, k=k: p[:, k], lambda p: p[:, 2])
        axes.set(xlabel=label, ylabel="KL(p ‖ q) in nats")
    grid[1].set_xscale("log")
    grid[1].xaxis.set_minor_formatter("")


def draw_banana(content):
    curves = content["curves"]
    figure, grid = plt.subplots(2, 2, figsize=(7.6, 6.4))
    nodes, step = banana_grid()
    x, y = nodes[:, 0, 0], nodes[0, ::8, 1]
    log_p = np.asarray(ubvi.banana(nodes.reshape(-1, 2))).reshape(nodes.shape[:2])
    shown = {curve["name"]: curve for curve in curves if "plane" in curve}
    levels = [-12.0, -10.0, -8.0, -7.0, -6.0, -5.0, -4.0]
    for axes, name in zip(grid[0], ("hellinger", "relbo + 1e-3 (BVI+)"), strict=True):
        plane = np.array(shown[name]["plane"])
        axes.contourf(x, y, plane.T, levels, extend="max", cmap="Blues")
        axes.contour(x, nodes[0, :, 1], log_p.T, [-14.0, -6.0], colors=GREY,
                     linestyles="-", linewidths=0.8)  # fmt: skip
        axes.set(title=name, xlabel="x", ylabel="y", xlim=(-36, 36), ylim=(-115, 20))
    axes = grid[1, 0]
    axes.plot(x, np.log(np.exp(log_p).sum(axis=1) * step), color=GREY, lw=3, alpha=0.5,
              label="target")  # fmt: skip
    for name, curve in shown.items():
        axes.plot(x, curve["log_marginal"], color=COLOURS[name], lw=1, label=name)
    axes.set(xlabel="x", ylabel="log density of x, nats", ylim=(-20, 0))
    draw_paths(grid[1, 1], curves, lambda p: p[:, 0], lambda p: p[:, 2])
    grid[1, 1].set(xlabel="iteration", ylabel="KL(p ‖ q) in nats")
    legend_below(figure, (axes,), 5, last=("target",))
    save(figure, "p4_banana", content)


def draw_fig4(content):
    curves = content["curves"]
    figure, grid = plt.subplots(1, 3, figsize=(8.0, 3.2), sharey=True)
    for axes, name in zip(grid, ubvi.T2_TASKS, strict=True):
        own = [curve for curve in curves if curve["task"] == name]
        unit = np.median([c["path"][0][0] for c in own if c["name"] == "kl"])
        fewest = min(len(c["path"]) for c in own)
        own = [c | {"path": c["path"][:fewest]} for c in own]
        draw_paths(axes, own, lambda p: np.arange(1, len(p) + 1),
                   lambda p, unit=unit: np.maximum(p[:, 0] / unit, 1e-3))  # fmt: skip
        axes.set(title=name, xlabel="iteration")
    grid[0].set_ylabel("energy distance over\nthat of one Gaussian")
    legend_below(figure, grid[:1], 3)
    save(figure, "p4_fig4", content)


def draw_fig1a():
    """Greedy choice on the unit sphere of root densities, by equation 5."""
    point = lambda *v: np.array(v) / np.linalg.norm(v)  # noqa: E731
    f, g = point(-0.1, 0.8, 1.0), point(-0.75, -0.45, 1.0)
    candidates = [point(0.75, -0.4, 1), point(0.95, 0.25, 1), point(-0.75, 0.6, 1)]
    candidates.append(point(0.55, 0.85, 0.55))

    def towards(h):
        """Unit direction at g of the geodesic to h."""
        return point(*(h - (h @ g) * g))

    best = max(candidates, key=lambda h: f @ towards(h))
    # The nearest point of that geodesic to f.
    nearest = point(*((f @ g) * g + (f @ towards(best)) * towards(best)))
    figure, axes = plt.subplots(figsize=(4.6, 4.2))
    axes.add_patch(plt.Circle((0, 0), 1.0, facecolor="0.95", edgecolor=GREY))
    ends = [(h, "0.6", 1.0) for h in candidates if h is not best]
    for end, color, width in [*ends, (best, VERMILION, 1.8), (f, BLUE, 1.8)]:
        angles = np.linspace(0.0, np.arccos(end @ g), 50)[:, None]
        arc = np.cos(angles) * g + np.sin(angles) * towards(end)
        axes.plot(*arc[:, :2].T, color=color, lw=width)
        axes.annotate("", arc[18, :2], arc[15, :2],
                      arrowprops={"arrowstyle": "->", "color": color})  # fmt: skip
    axes.plot(*np.array([f, nearest])[:, :2].T, ":", color=GREY)
    named = [
        (f, "target f", BLUE),
        (g, "mixture so far", "k"),
        (best, "chosen component", VERMILION),
        (nearest, "nearest point", GREEN),
    ]
    named += [(h, "candidate", "0.6") for h, *_ in ends]  # fmt: skip
    for place, text, color in named:
        axes.plot(*place[:2], "o", color=color)
        axes.annotate(text, place[:2], (5, 5), textcoords="offset points", fontsize=8)
    axes.set(aspect="equal", xlim=(-1.05, 1.25), ylim=(-1.05, 1.05))
    axes.axis("off")
    save(figure, "p4_fig1a")


def pictures(folder):
    """Every picture of which the files have the numbers."""
    draw_fig1a()
    draws = (draw_fig2, draw_cauchy, draw_banana, draw_fig4)
    for part, draw in zip(PARTS, draws, strict=True):
        if (folder / f"p4_{part}.json").exists():
            draw(results(f"p4_{part}", folder))


def main():
    made = parser(__doc__, replicates=20)
    made.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    made.add_argument("--iterations", type=int, default=30)
    made.add_argument("--family", default="gaussian")
    made.add_argument("--draw", action="store_true")
    args = made.parse_args()
    for part in () if args.draw else args.part:
        name = f"p4_{part}" + "_diagonal" * (args.family != "gaussian")
        report = Report(name, args.out, replicates=args.replicates,
                        iterations=args.iterations, family=args.family)  # fmt: skip
        if part in ("cauchy", "banana"):
            density(report, args, part)
        else:
            {"fig2": fig2, "fig4": fig4}[part](report, args)
        report.save()
    pictures(args.out)


if __name__ == "__main__":
    main()
