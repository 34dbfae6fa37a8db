"""Table 3 of Locatello et al. 2018 by the oracle that their public code has.

    python benchmarks/p1_faces.py [--replicates 10] [--ranks 3 5 10] [--iterations 40]

Faces, half of the entries hidden, noise and priors of variance one. A component takes
100 steps of Adam on one draw, from the same small random start for every component;
steps are predefined. The residual has a mixture for every factor in place of equation
9 (``StochasticSearch(residual="elementwise")`` of the package, whose starts are wider).
Written in plain numpy, since a step over all entries is what it takes.

Figures: squared error of the mixture's mean on hidden entries; and the authors' own,
over all entries, of the mean of 500 draws with unit noise, which adds (1 + var) / 500;
and E[ln N(value | u'v, 1)] over all entries.
"""

from _harness import Report, mean_and_error, parser, shared_module, timed  # isort: skip

from itertools import product

import numpy as np
from _factors import faces, masked
from scipy.special import expit, softmax

STEPS, RATE, N_PREDICTED = 100, 0.1, 500
SHOWN = (0, 1, 2, 5, 10, 15, 20, 25, 30, 35, 39)
COLUMNS = ("MSE, hidden", "MSE, all", "MSE, theirs", "log lik., theirs")


class Faces:
    """Log joint density of factors, one flat array: rows, then columns."""

    def __init__(self, train, rank):
        self.seen, self.rank = ~np.isnan(train), rank
        self.train, self.shape = np.nan_to_num(train), train.shape

    def factors(self, z):
        """Factors of rows and of columns."""
        cut = self.shape[0] * self.rank
        return z[:cut].reshape(-1, self.rank), z[cut:].reshape(-1, self.rank)

    def gradient(self, z):
        """Of ln p(values, z)."""
        u, v = self.factors(z)
        errors = np.where(self.seen, self.train - u @ v.T, 0.0)
        return np.append(errors @ v, errors.T @ u) - z

    def start(self, seed):
        """Means and scales before softplus, uniform in the width of their matrix."""
        rng, parts = np.random.default_rng(seed), []
        for _ in range(2):
            for n in self.shape:
                end = np.sqrt(6.0 / (n + self.rank))
                parts.append(rng.uniform(-end, end, n * self.rank))
        return np.concatenate(parts)

    def moments(self, mean, scale):
        """Mean and second moment of every product u'v."""
        (u, v), (a, b) = self.factors(mean), self.factors(scale**2)
        product = u @ v.T
        return product, product**2 + u**2 @ b.T + a @ (v**2).T + a @ b.T


def residual_slope(z, mixture):
    """Slope of the sum over factors of the log densities of their mixtures."""
    if not mixture:
        return 0.0
    weights, means, scales = (np.array(part) for part in zip(*mixture, strict=True))
    away = (z - means) / scales
    logs = np.log(weights)[:, None] - 0.5 * away**2 - np.log(scales)
    return -(softmax(logs, axis=0) * away / scales).sum(axis=0)


def component(model, mixture, t, seed):
    """Mean and scales after the steps."""
    x, rng = model.start(seed), np.random.default_rng((seed, t))
    slope, square = np.zeros((2, len(x)))
    entropy = 1.0 / np.sqrt(t + 1.0)
    for step in range(1, STEPS + 1):
        mean, raw = x.reshape(2, -1)
        scale, noise = np.logaddexp(0.0, raw), rng.standard_normal(len(mean))
        z = mean + scale * noise
        g = model.gradient(z) - residual_slope(z, mixture)
        g = np.append(g, (g * noise + entropy / scale) * expit(raw))
        slope += 0.1 * (g - slope)
        square += 0.001 * (g**2 - square)
        step_of = slope / (1.0 - 0.9**step)
        x = x + RATE * step_of / (np.sqrt(square / (1.0 - 0.999**step)) + 1e-8)
    mean, raw = x.reshape(2, -1)
    return mean, np.logaddexp(0.0, raw)


def boosted(X, rank, seed, n_iterations):
    """Figures of every iterate."""
    train, (rows, cols, values) = masked(X, seed)
    model, mixture, found = Faces(train, rank), [], []
    mean = second = 0.0
    for t in range(n_iterations):
        new, gamma = component(model, mixture, t, seed), 2.0 / (t + 2.0)
        mixture = [(w * (1.0 - gamma), *old) for w, *old in mixture if gamma < 1.0]
        mixture.append((gamma, *new))
        first_two = model.moments(*new)
        mean, second = (
            (1.0 - gamma) * old + gamma * one
            for old, one in zip((mean, second), first_two, strict=True)
        )
        error = np.mean((X - mean) ** 2)
        spread = np.mean(second - mean**2)
        hidden = np.mean((values - mean[rows, cols]) ** 2)
        likelihood = -0.5 * (np.log(2.0 * np.pi) + error + spread)
        theirs = error + (1.0 + spread) / N_PREDICTED
        found.append([float(v) for v in (hidden, error, theirs, likelihood)])
    return found


def summarise(report):
    """Means over the masks so far; they replace those of before."""
    title = "means over masks"
    report.tables.pop(title, None)
    for rank in dict.fromkeys(curve["rank"] for curve in report.curves):
        runs = np.array([c["path"] for c in report.curves if c["rank"] == rank])
        for t in (t for t in SHOWN if t < runs.shape[1]):
            row = {"rank": rank, "t": t, "masks": len(runs)}
            for k, name in enumerate(COLUMNS):
                row[name], row[f"se, {name}"] = mean_and_error(runs[:, t, k])
            report.row(title, **row)


def main():
    made = parser(__doc__, replicates=10)
    made.add_argument("--ranks", nargs="+", type=int, default=(3, 5, 10))
    made.add_argument("--iterations", type=int, default=40)
    args = made.parse_args()
    report = Report("p1_faces", args.out, replicates=args.replicates,
                    iterations=args.iterations)  # fmt: skip
    load = shared_module(args.shared, "data", "load")
    if load is None:
        report.not_run("faces", "the shared data are not there")
        return
    X = faces(load)
    for seed, rank in product(range(args.replicates), args.ranks):
        path, cpu, _ = timed(boosted, X, rank, seed, args.iterations)
        report.curve(rank=rank, mask=seed, cpu=round(cpu, 1), path=path)
        summarise(report)


if __name__ == "__main__":
    main()
