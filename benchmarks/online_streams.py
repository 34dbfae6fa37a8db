"""Average cumulative log loss of online methods on streams, and regret.

    python benchmarks/online_streams.py [--replicates 20]
    python benchmarks/online_streams.py --hindsight
    python benchmarks/online_streams.py --average
    python benchmarks/online_streams.py --many 581012
    python benchmarks/online_streams.py --draw

Every stream comes in random orders. Ours run with their defaults, which were chosen on
the streams whose column "tuned on" says so; the rates of the rivals are the best on
each stream in hindsight, of 12 rates with two schedules. Losses are of the
coefficients' mean before each row's update, nats. The noise of the linear streams is
known to all: 0.6 of standardised responses; EWA, which is exact then (river's Bayesian
regression is the same), has one with inferred noise beside it.

``--average`` is what Alquier calls online-to-batch conversion: the average of the
coefficients that predicted T independent rows, and its divergence from the truth.
``--many`` repeats the forest cover: rows drawn with replacement from the 20,000, labels
from the logistic model that fits these best.
"""

from _harness import Report, mean_and_error, parser, shared_module, timed  # isort: skip

import numpy as np
from _streams import (
    Logistic,
    Normal,
    best_fixed,
    best_parameter,
    gradient_descent,
    gradient_descent_expected,
    orders,
    streams,
)
from figures import GREY, legend_below, plt, results, save

from skboost import OnlineBayesianLinearRegression, OnlineBayesianLogisticRegression
from skboost.strategies import PowerRate

NOISE, CLASSES = 0.6, {"classes": [0, 1]}
RATES = 2.0 ** np.arange(-9, 3)
POWERS = (0.0, -0.5)
RIVALS = {
    "SGD": gradient_descent,
    "SGD averaged": lambda *args: gradient_descent(*args, averaged=True),
    "SGD on expected loss": gradient_descent_expected,
}
METHODS = {
    "SVA": {"method": "sva"},
    "SVB": {"method": "svb"},
    "NGVI diagonal": {"method": "ngvi", "covariance": "diag"},
    "NGVI": {"method": "ngvi", "covariance": "full"},
    "NGVI beta=1": {"method": "ngvi", "covariance": "full", "beta": 1.0},
}
LINEAR = {"EWA": {"method": "ewa"}, "EWA inferred": {"noise_scale": "infer"}}


def checkpoints(n_rows, n=40):
    """Numbers of rows at which curves have a point."""
    return np.unique(np.geomspace(5, n_rows, n).astype(int))


def ours(params, kind, X, y, rows, at):
    """Cumulative losses (n_orders, n_checkpoints)."""
    found = np.empty((len(rows), len(at)))
    for i, order in enumerate(rows):
        if kind == "logistic":
            model, more = OnlineBayesianLogisticRegression(**params), CLASSES
        else:
            params = {"noise_scale": NOISE, "intercept_scale": 1.0, **params}
            model, more = OnlineBayesianLinearRegression(**params), {}
        for j, (begin, end) in enumerate(zip([0, *at[:-1]], at, strict=True)):
            model.partial_fit(X[order[begin:end]], y[order[begin:end]], **more)
            found[i, j] = model.cumulative_loss_
    return found


def rival(method, loss, X, y, rows, at):
    """Cumulative losses at the best rate in hindsight, and that rate's name."""
    best = None
    for power in POWERS:
        with np.errstate(all="ignore"):
            losses = method(X, y, rows, RATES, power, loss)
        for rate, found in zip(RATES, losses, strict=True):
            score = found.mean()
            if np.isfinite(score) and (best is None or score < best[0]):
                total = np.cumsum(found, axis=1)[:, at - 1]
                best = score, total, f"{rate:g} t^{power:g}"
    return best[1], best[2]


def regrets(loss, X, y, rows, at, n_orders=3):
    """Least cumulative losses of one parameter on the rows so far, averaged."""
    found = [
        [best_fixed(X[order[:end]], y[order[:end]], loss) for end in at]
        for order in rows[:n_orders]
    ]
    return np.mean(found, axis=0)


def one_stream(report, name, X, y, kind, tuned, n_orders):
    rows, at = orders(len(y), n_orders), checkpoints(len(y))
    X1 = np.hstack([X, np.ones((len(y), 1))])
    loss = Logistic() if kind == "logistic" else Normal(NOISE)
    curves, rates = {}, {}
    methods = METHODS if kind == "logistic" else METHODS | LINEAR
    for label, params in methods.items():
        curves[label], _, _ = timed(ours, params, kind, X, y, rows, at)
    for label, method in RIVALS.items():
        (curves[label], rates[label]), _, _ = timed(
            rival, method, loss, X1, y, rows, at
        )
    sgd = curves["SGD"][:, -1] / len(y)
    for label, total in curves.items():
        loss_of, loss_se = mean_and_error(total[:, -1] / len(y))
        behind, se = mean_and_error(total[:, -1] / len(y) - sgd)
        report.row(
            "average cumulative log loss",
            **{"stream": name, "tuned on": "yes" if tuned else "no", "method": label,
               "loss": loss_of, "se": loss_se, "minus SGD": behind, "se of it": se,
               "rate": rates.get(label, "default")},
        )  # fmt: skip
        if label in ("SVA", "SVB", "NGVI", "NGVI diagonal"):
            report.bar(f"{name}: {label} minus SGD", behind, "<=", 0.0, se)
    best = regrets(loss, X1, y, rows, at)
    for label in curves:
        if label == "EWA inferred":
            continue
        regret = curves[label].mean(axis=0) - best
        report.curve(stream=name, method=label, rows=at.tolist(),
                     loss=(curves[label].mean(axis=0) / at).tolist(),
                     regret=regret.tolist())  # fmt: skip
        if label in ("SVA", "SVB", "NGVI"):
            late = at >= len(y) / 10
            power = np.polyfit(
                np.log(at[late]), np.log(np.maximum(regret[late], 1e-3)), 1
            )
            report.row("regret", **{"stream": name, "method": label,
                       "regret": regret[-1], "power of T": power[0]})  # fmt: skip
            report.bar(f"{name}: {label}, regret's power of T", power[0], "<=", 0.5)


def in_hindsight(report, name, X, y, kind, n_orders):
    """Ours at the best of a grid on this very stream, as the rivals always are."""
    rows, at = orders(len(y), n_orders), np.array([len(y)])
    loss = Logistic() if kind == "logistic" else Normal(NOISE)
    X1 = np.hstack([X, np.ones((len(y), 1))])
    sgd = rival(gradient_descent, loss, X1, y, rows, at)[0][:, -1] / len(y)
    rates = {"learning_rate": [PowerRate(r, p) for r in RATES.tolist() for p in POWERS]}
    betas = {"beta": [0.03, 0.1, 0.2, 0.5, 1.0]}
    grids = {"SVA": rates, "SVB": rates, "NGVI diagonal": betas, "NGVI": betas}
    for label, grid in grids.items():
        ((parameter, values),) = grid.items()
        tried = []
        for value in values:
            try:
                params = METHODS[label] | {parameter: value}
                found = ours(params, kind, X, y, rows, at)[:, -1] / len(y)
            except FloatingPointError:
                continue
            tried.append((found.mean(), str(value), found))
        average, value, found = min(tried, key=lambda item: item[0])
        behind, se = mean_and_error(found - sgd)
        report.row("at the best rate in hindsight", **{"stream": name, "method": label,
                   "best": f"{parameter}={value}", "loss": average,
                   "minus SGD": behind, "se of it": se})  # fmt: skip
        what = f"{name}: {label} minus SGD, both in hindsight"
        report.bar(what, behind, "<=", 0.0, se)


# --- online to batch, and many rows

FLIPPED, LENGTHS = (0.0, 0.1), (100, 300, 1_000, 3_000, 10_000, 30_000)


def averaged(report, n_streams):
    """Divergence from the truth of averaged and of last coefficients, by rows."""
    at = np.array(LENGTHS)
    for flipped in FLIPPED:
        for label in ("SVA", "SVB", "NGVI"):
            runs = np.array([
                excess_risks(METHODS[label], flipped, seed) for seed in range(n_streams)
            ])  # fmt: skip
            for k, which in enumerate(("average", "last")):
                found = runs[:, k]
                means = found.mean(axis=0)
                powers = np.polyfit(np.log(at[1:]), np.log(found[:, 1:].T), 1)[0]
                power, se = mean_and_error(powers)
                report.row(
                    "online to batch: excess risk, nats a row",
                    **{"labels flipped": flipped, "method": label, "of": which},
                    **{f"{n:,} rows": v for n, v in zip(LENGTHS, means, strict=True)},
                    **{"power of T": power, "se": se},
                )  # fmt: skip
                if which == "average":
                    what = f"{label}, {flipped:.0%} flipped: power of T"
                    report.bar(what, power, "<=", -0.5, se)


def excess_risks(params, flipped, seed, dim=10, n_fresh=20_000):
    """K(Q, P) over the least of all parameters: (average or last, lengths)."""
    rng = np.random.default_rng([seed, int(100 * flipped)])
    theta = rng.standard_normal(dim)
    X, fresh = (rng.standard_normal((n, dim)) for n in (LENGTHS[-1], n_fresh))
    chance = [
        flipped + (1.0 - 2.0 * flipped) / (1.0 + np.exp(-rows @ theta))
        for rows in (X, fresh)
    ]
    y = (rng.uniform(size=len(X)) < chance[0]).astype(float)
    loss = Logistic()
    least = best_fixed(fresh, chance[1], loss) / n_fresh
    model, found = OnlineBayesianLogisticRegression(**params), []
    for begin, end in zip([0, *LENGTHS[:-1]], LENGTHS, strict=True):
        model.partial_fit(X[begin:end], y[begin:end], classes=[0, 1])
        found.append([
            loss.loss(fresh @ coef[0] + intercept[0], chance[1]).mean() - least
            for coef, intercept in (
                (model.averaged_coef_, model.averaged_intercept_),
                (model.coef_, model.intercept_),
            )
        ])  # fmt: skip
    return np.transpose(found)


def many(report, X, y, n_rows):
    """One long stream like the forest cover: losses by rows, and seconds."""
    X1, loss = np.hstack([X, np.ones((len(y), 1))]), Logistic()
    rng = np.random.default_rng(0)
    chance = 1.0 / (1.0 + np.exp(-X1 @ best_parameter(X1, y, loss)))
    chosen = rng.integers(len(X), size=n_rows)
    X, X1 = X[chosen], X1[chosen]
    y = (rng.uniform(size=n_rows) < chance[chosen]).astype(float)
    rows = np.arange(n_rows)[None]
    at = np.array([n for n in (1_000, 20_000, 100_000) if n < n_rows] + [n_rows])
    least = np.array([best_fixed(X1[:n], y[:n], loss) for n in at])
    found = {
        label: (*timed(ours, METHODS[label], "logistic", X, y, rows, at)[:2], "default")
        for label in ("SVA", "SVB", "NGVI diagonal", "NGVI")
    }
    made, cpu, _ = timed(rival, gradient_descent, loss, X1, y, rows, at)
    found["SGD"] = made[0], cpu, made[1]
    for label, (total, cpu, rate) in found.items():
        means = total[0] / at
        report.row(
            f"forest cover, {n_rows:,} generated rows: average loss", method=label,
            **{f"{n:,} rows": v for n, v in zip(at.tolist(), means, strict=True)},
            **{"regret, nats": total[0, -1] - least[-1], "CPU s": cpu, "rate": rate},
        )  # fmt: skip


# The lecture's five data sets, less the generated one, and its five methods.
SHOWN = ("breast cancer", "pima", "boston", "forest cover")
LOOKS = {"SVA": "C0", "SVB": "C2", "NGVI": "C1", "SGD": "k",
         "SGD on expected loss": GREY}  # fmt: skip


def picture(content):
    """Average loss by row on four streams."""
    figure, grid = plt.subplots(2, 2, figsize=(7.6, 5.6))
    for ax, name in zip(grid.flat, SHOWN, strict=True):
        late = []
        for curve in (c for c in content["curves"] if c["stream"] == name):
            if (method := curve["method"]) in LOOKS:
                line = "--" if "SGD" in method else "-"
                ax.plot(curve["rows"], curve["loss"], line, color=LOOKS[method],
                        label=method)  # fmt: skip
                late.append(curve["loss"][-1])
        if late:
            ax.set_ylim(0.95 * min(late), min(3 * min(late) + 0.1, 2 * max(late)))
        ax.set(xscale="log", title=name, xlabel="rows so far")
    figure.supylabel("average loss (nats)", fontsize="medium")
    legend_below(figure, figure.axes, 5)
    save(figure, "online_loss", content)


def main():
    options = parser(__doc__, replicates=20)
    options.add_argument("--hindsight", action="store_true", help="tune ours as well")
    options.add_argument("--average", action="store_true", help="online to batch")
    options.add_argument("--many", type=int, help="rows like the forest cover")
    options.add_argument("--draw", action="store_true", help="the picture alone")
    options = options.parse_args()
    if options.draw:
        return picture(results("online_streams", options.out))
    if options.average:
        report = Report("online_average", options.out, streams=options.replicates)
        return averaged(report, options.replicates)
    shared = shared_module(options.shared, "data", "load")
    if options.many:
        report = Report("online_many", options.out, rows=options.many)
        if shared is None:
            return report.not_run("forest cover", "no shared data")
        return many(report, *streams(shared)["forest cover"][:2], options.many)
    script = "online_hindsight" if options.hindsight else "online_streams"
    report = Report(script, options.out, orders=options.replicates)
    if shared is None:
        report.not_run("pima, forest cover, boston", "no shared data")
    for name, (X, y, kind, tuned) in streams(shared).items():
        if options.hindsight:
            in_hindsight(report, name, X, y, kind, options.replicates)
        else:
            one_stream(report, name, X, y, kind, tuned, options.replicates)
    report.save()
    if not options.hindsight:
        picture(report.curves)


if __name__ == "__main__":
    main()
