"""What nearly Gaussian posteriors cost: default fits beside nutpie, in the same run.

    python benchmarks/price.py [--replicates 3] [--only NAME ...] [--half tuned]

For every posterior the default fit with 1,000 draws, `replicates` seeds, and nutpie
(two chains of 400 + 1,000; its compilation is not counted), turn by turn in one
process; seconds are medians of CPU seconds. Truth are long runs of nutpie. ``KL`` is
the log evidence, by bridge sampling between the long run and the fit, minus the ELBO on
20,000 draws that no fit has seen; ``energy`` the mean distance of eight sets of 4,000
draws to the long run, in the coordinates of the model; ``sd`` the mean ratio of
standard deviations, ``least sd`` the smallest; ``cover`` the share of the long run
inside the 90 % intervals of the coordinates; ``p`` and ``ends`` the root mean square
errors of class probabilities and of the ends of their 90 % intervals, on the rows of
the fit.

The half "tuned" are posteriors on which corrections were chosen, "judged" those on
which nothing was.
"""

from dataclasses import dataclass, field
from functools import partial

from _harness import Report, parser, rival_module, shared_module, timed  # isort: skip

import numpy as np
from _energy import EnergyTo
from scipy.special import expit, softmax
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_linnerud,
    load_wine,
)
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
    boost_posterior,
)
from skboost.priors import NoiseScalePrior

MODELS = {
    "logistic": BoostedBayesianLogisticRegression,
    "linear": BoostedBayesianLinearRegression,
    "poisson": BoostedBayesianPoissonRegression,
}
# Warm-up and draws of each of two chains, and of four.
NUTPIE, LONG = (400, 1000), (1000, 15_000)
N_KEPT, N_SETS, SET_SIZE, N_ROWS = 12_000, 8, 4000, 300


@dataclass
class GLM:
    """A regression with fixed scales, as our estimator and as a model of PyMC.

    Parameters
    ----------
    kind : str
        Of `MODELS`.
    X, y : arrays
    options : dict
        Of the estimator, where it is not the default.
    """

    kind: str
    X: np.ndarray
    y: np.ndarray
    options: dict = field(default_factory=dict)

    def fit(self, **settings):
        """The posterior, its log joint and the estimator."""
        unit = self.y.std() if self.kind == "linear" else 1.0
        fixed = {"prior_scale": unit, "intercept_scale": 10.0 * unit}
        if self.kind == "linear":
            fixed["noise_prior"] = NoiseScalePrior(scale=0.01 * unit)
        options = fixed | self.options | settings
        model = MODELS[self.kind](**options).fit(self.X, self.y)
        return model.posterior_, model.make_log_joint(self.X, self.y), model

    @property
    def wide(self):
        """Rows with the column of the intercept."""
        if not self.options.get("fit_intercept", True):
            return self.X
        return np.column_stack([self.X, np.ones(len(self.X))])

    def model(self, models):
        """Of PyMC, and what makes rows of its draws."""
        unit = self.y.std() if self.kind == "linear" else 1.0
        scales = np.full(self.wide.shape[1], self.options.get("prior_scale", unit))
        if self.options.get("fit_intercept", True):
            scales[-1] = 10.0 * unit
        prior = self.options.get("prior", "normal")
        noise = self.options.get("noise", "normal")
        made = models.glm(self.kind, self.wide, self.y, scales, prior, noise)
        n_classes = len(np.unique(self.y)) if self.kind == "logistic" else 2
        if n_classes > 2:
            return made, partial(new_common_part, scales, n_classes)
        return made, models.glm_columns

    def probabilities(self, draws, rows):
        """Of all classes but the first of two, (n_draws, n_rows, n)."""
        X, n = self.wide[rows].astype(np.float32), len(np.unique(self.y))
        draws = draws.astype(np.float32)
        if n == 2:
            return expit(draws @ X.T)[:, :, None]
        return softmax(np.einsum("nd,skd->snk", X, draws.reshape(-1, n, X.shape[1])), 2)


def new_common_part(scales, n_classes, flat):
    """Draws whose mean over classes is drawn anew, independently.

    The likelihood knows differences between classes alone. So the mean over classes
    is independent of them, and N(0, scale^2 / n_classes) as in the prior; for the
    intercept that is the widest direction, in which a chain moves slowly.
    """
    draws = flat["theta"]
    parts = draws.reshape(len(draws), n_classes, -1)
    rng = np.random.default_rng(1)
    new = rng.standard_normal((len(draws), 1, len(scales)))
    new *= scales / np.sqrt(n_classes)
    return (parts - parts.mean(axis=1, keepdims=True) + new).reshape(draws.shape)


@dataclass
class Schools:
    """Eight schools, non-centred, as posteriordb has them."""

    target: object
    effects: np.ndarray
    errors: np.ndarray

    def fit(self, **settings):
        result = boost_posterior(self.target.logp, self.target.dim, **settings)
        return result.posterior, self.target.logp, None

    def model(self, models):
        return models.eight_schools(self.effects, self.errors), models.schools_columns


def logistic(X, y, **options):
    return GLM("logistic", scale(X.astype(float)), y, options)


def counts(n, dim, size, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dim))
    y = rng.poisson(np.exp(0.5 + X @ (size * rng.standard_normal(dim))))
    return GLM("poisson", X, y)


def rare(seed):
    """600 x 24, a third rare and binary: they nearly separate the classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((600, 24))
    X[:, :8] = rng.random((600, 8)) < 0.03
    logits = X @ np.where(np.arange(24) < 8, 6.0, 0.8 * rng.standard_normal(24)) - 2.0
    y = (rng.random(600) < expit(logits)).astype(int)
    return logistic(X, y, prior_scale=5.0)


def few(X, y, n, seed=0):
    """Some rows, the same at every call."""
    chosen = np.random.default_rng(seed).permutation(len(X))[:n]
    return X[chosen], y[chosen]


def tuned(shared, report):
    """Posteriors that corrections were chosen on."""
    yield "breast cancer", logistic(*load_breast_cancer(return_X_y=True))
    yield "wine", logistic(*load_wine(return_X_y=True))
    yield "iris", logistic(*load_iris(return_X_y=True))
    tasks = shared_module(shared, "reference", "tasks")
    load = shared_module(shared, "data", "load")
    targets = shared_module(shared, "posteriordb", "targets")
    if tasks is None or load is None or targets is None:
        report.not_run("ds1_100, pima, eight schools", "not in the shared folder")
    else:
        task, pima = tasks.ds1_100(), load.load("pima")
        y = (task.y > 0).astype(int)
        yield "ds1_100", GLM("logistic", task.X, y, {"fit_intercept": False})
        yield "pima", logistic(pima["X"], pima["y"])
        name = "eight_schools-eight_schools_noncentered"
        with np.load(shared / "posteriordb" / f"{name}.npz") as file:
            rows = file["data_y"].astype(float), file["data_sigma"].astype(float)
        yield "eight schools", Schools(targets.load(name), *rows)
    yield "diabetes, inferred noise", GLM("linear", *load_diabetes(return_X_y=True))
    yield "Poisson, 120 x 9", counts(120, 9, 0.3, 0)


def judged(shared, report):
    """Ten regressions on which nothing was tuned."""
    X, y = load_digits(return_X_y=True)
    some = np.isin(y, (3, 8))
    yield "digits, 3 or 8, 200 x 64", logistic(*few(X[some], (y[some] == 8) * 1, 200))
    some = y < 3
    X, y = few(PCA(8, random_state=0).fit_transform(X[some]), y[some], 150)
    yield "digits, 0 to 2, 150 x 8", logistic(X, y)
    X, y = few(*load_breast_cancer(return_X_y=True), 100)
    yield "breast cancer, 100 x 10, Laplace", logistic(X[:, :10], y, prior="laplace")
    X, y = load_wine(return_X_y=True)
    X, y = few(X[y < 2], y[y < 2], 60)
    yield "wine, two classes, 60 x 13", logistic(X, y)
    X, y = few(*load_diabetes(return_X_y=True), 60)
    yield "diabetes, 60 x 10, Student-t", GLM("linear", X, y, {"noise": "student_t"})
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 12))
    y = X @ rng.standard_normal(12) + rng.standard_normal(40)
    yield "generated linear, 40 x 12", GLM("linear", X, y)
    data = load_linnerud()
    yield "Linnerud, chin-ups", GLM("poisson", scale(data.target), data.data[:, 0])
    yield "generated counts, 60 x 15", counts(60, 15, 0.2, 2)
    yield "rare columns, 600 x 24, first", rare(1)
    yield "rare columns, 600 x 24, second", rare(2)


def main():
    made = parser(__doc__, replicates=3)
    made.add_argument("--only", nargs="+", default=[""], help="parts of names")
    made.add_argument("--half", nargs="+", default=["tuned", "judged"])
    made.add_argument("--name", default="price", help="of the JSON file")
    args = made.parse_args()
    report = Report(args.name, args.out, replicates=args.replicates)
    models = rival_module(report, "_nutpie", "all")
    if models is None:
        return
    for half in args.half:
        for name, task in {"tuned": tuned, "judged": judged}[half](args.shared, report):
            if any(part in name for part in args.only):
                compare(report, half, name, task, models, args)
    if any(part in "grid" for part in args.only):
        grid(report)


def compare(report, half, name, task, models, args):
    """A row about one posterior."""
    made, columns = task.model(models)
    sampler = models.Sampler(made, columns)
    long, long_cpu, rhat = sampler.run(*LONG, 1, 4)
    gold = long[:: len(long) // N_KEPT]
    energy = EnergyTo(gold)
    theirs, ours, fitted = [], [], None
    for seed in range(args.replicates):
        draws, cpu, _ = sampler.run(*NUTPIE, 100 + seed)
        theirs.append((cpu, energy(draws)))
        found, cpu, _ = timed(drawn, task, seed)
        ours.append(cpu)
        fitted = fitted or found
    cpu, (rival_cpu, rival_energy) = np.median(ours), np.median(theirs, axis=0)
    row = judge(*fitted[:2], gold, energy)
    report.row(
        half, posterior=name, dim=gold.shape[1], **row, **{"CPU s": float(cpu)},
        **{"nutpie's energy": rival_energy, "nutpie's s": rival_cpu,
           "share": cpu / rival_cpu, "R-hat": rhat},
    )  # fmt: skip
    report.bar(f"{name}: energy", row["energy"], "<=", rival_energy + 0.001, row["se"])
    report.bar(f"{name}: cover", abs(row["cover"] - 0.9), "<=", 0.02)
    report.bar(f"{name}: share of nutpie's seconds", cpu / rival_cpu, "<=", 0.4)
    if getattr(task, "kind", None) == "logistic":
        p, ends = predictions(task, fitted[2], long)
        report.row(f"{half}, predictions", posterior=name, p=p, ends=ends)
        report.bar(f"{name}: probabilities", p, "<=", 0.001)
        report.bar(f"{name}: ends of intervals", ends, "<=", 0.005)


def drawn(task, seed):
    """A default fit from which 1,000 draws were taken."""
    found = task.fit(random_state=seed)
    found[0].sample(1000, random_state=seed)
    return found


def judge(posterior, log_joint, gold, energy):
    """Distances of a posterior to a long run."""
    log_p = getattr(log_joint, "log_density", log_joint)
    rng = np.random.default_rng(0)
    draws = posterior.sample(N_SETS * SET_SIZE, random_state=1)
    draws = draws[rng.permutation(len(draws))]
    energies = [energy(part) for part in np.split(draws, N_SETS)]
    part = draws[: 5 * SET_SIZE]
    ratio = log_p(part) - posterior.log_density(part)
    log_z = bridge(log_p(gold) - posterior.log_density(gold), ratio)
    lower, upper = posterior.interval(0.9).T
    ratios = draws.std(axis=0) / gold.std(axis=0)
    return {
        "KL": log_z - ratio.mean(),
        "KL se": ratio.std() / np.sqrt(len(ratio)),
        "components": posterior.n_components,
        "energy": float(np.mean(energies)),
        "se": float(np.std(energies) / np.sqrt(N_SETS)),
        "cover": float(((gold > lower) & (gold < upper)).mean()),
        "sd": float(ratios.mean()),
        "least sd": float(ratios.min()),
    }


def bridge(at_gold, at_draws, n_steps=200):
    """Log evidence from ``ln p - ln q`` at draws of p and of q (Meng and Wong 1996)."""
    share = np.log(len(at_draws) / len(at_gold))
    log_z = at_draws.mean()
    for _ in range(n_steps):
        up = at_draws - np.logaddexp(at_draws, log_z + share)
        down = -np.logaddexp(at_gold, log_z + share)
        log_z = float(
            np.logaddexp.reduce(up) - np.log(len(up))
            - np.logaddexp.reduce(down) + np.log(len(down))
        )  # fmt: skip
    return log_z


def predictions(task, model, draws):
    """Root mean square errors of probabilities and of the ends of their intervals."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(task.X))[:N_ROWS]
    p = np.moveaxis(task.probabilities(draws, rows), 0, -1)
    found = model.predict_proba(task.X[rows])
    found = found[:, 1:] if found.shape[1] == 2 else found
    ends = model.predict_proba_interval(task.X[rows], 0.9).reshape(*found.shape, 2)
    exact = np.moveaxis(np.quantile(p, [0.05, 0.95], axis=-1), 0, -1)
    return [float(np.sqrt(np.mean((a - b) ** 2)))
            for a, b in ((found, p.mean(axis=-1)), (ends, exact))]  # fmt: skip


def grid(report):
    """Four prior scales by three folds of wine in two processes."""
    X, y = load_wine(return_X_y=True)
    search = GridSearchCV(
        BoostedBayesianLogisticRegression(random_state=0),
        {"prior_scale": [0.1, 0.3, 1.0, 3.0]},
        scoring="neg_log_loss", cv=3, n_jobs=2,
    )  # fmt: skip
    _, _, wall = timed(search.fit, scale(X), y)
    report.row("wine, grid of four values x 3 folds, two processes", wall=wall)
    report.bar("grid: wall seconds", wall, "<=", 15.0)


if __name__ == "__main__":
    main()
