"""Regression: errors, log densities, intervals and exactness.

    python benchmarks/regression.py [--only exact generated splines counts real]

Every part writes a file of its own, ``regression_PART.json``.

Ten splits 90/10 of five real data sets, features and response scaled by the training
part, against BayesianRidge, ARDRegression and NGBoost, all with their defaults; nothing
was tuned on any of the five sets. Log densities are of the scaled response, in nats for
each row; those of the linear rivals are of their normal predictive distributions.
"""

from _harness import Report, mean_and_error, parser, shared_module, timed  # isort: skip

from importlib.util import find_spec

import numpy as np
from scipy.special import gammaln, xlogy
from scipy.stats import norm
from sklearn.linear_model import ARDRegression, BayesianRidge, PoissonRegressor
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from skboost import BoostedBayesianLinearRegression, BoostedBayesianPoissonRegression

SETS = ["concrete", "energy", "power_plant", "wine_red", "yacht"]
PARTS = ["exact", "generated", "splines", "counts", "real"]
LINEAR_RIVALS = ["BayesianRidge", "ARDRegression"]
FINE = {"tol": 1e-3, "n_draws": 2048}


def ours(seed=0, **settings):
    return BoostedBayesianLinearRegression(random_state=seed, **settings)


def normal_answers(model, X, y):
    """Mean, log density and 90 % interval of a model with a normal prediction."""
    mean, std = model.predict(X, return_std=True)
    half = norm.ppf(0.95) * std
    return mean, norm.logpdf(y, mean, std), np.column_stack([mean - half, mean + half])


def our_answers(model, X, y):
    interval = model.predict_interval(X, 0.9)
    return model.predict(X), model.log_predictive_density(X, y), interval


def ngboost_answers(model, X, y):
    found = model.pred_dist(X)
    ends = np.column_stack([found.ppf(0.05), found.ppf(0.95)])
    return found.loc, found.logpdf(y), ends


def competitors():
    """Name, maker and answers of every model."""
    models = {
        "normal": (lambda seed: ours(seed), our_answers),
        "student_t": (lambda seed: ours(seed, noise="student_t"), our_answers),
        "BayesianRidge": (lambda seed: BayesianRidge(), normal_answers),
        "ARDRegression": (lambda seed: ARDRegression(), normal_answers),
    }
    if find_spec("ngboost") is not None:
        from ngboost import NGBRegressor

        models["NGBoost"] = (
            lambda seed: NGBRegressor(verbose=False, random_state=seed),
            ngboost_answers,
        )
    return models


# --- real data


def real(report, args):
    load = shared_module(args.shared, "data", "load")
    if load is None:
        report.not_run("real data", "no shared data")
        return
    models = competitors()
    if "NGBoost" not in models:
        report.not_run("NGBoost", "not installed")
    for name in SETS:
        data = load.load(name)
        X, y = np.asarray(data["X"], float), np.asarray(data["y"], float)
        found = {model: [] for model in models}
        splits = ShuffleSplit(args.replicates, test_size=0.1, random_state=0)
        for seed, (train, test) in enumerate(splits.split(X)):
            for model, (make, answers) in models.items():
                found[model].append(
                    one_split(make(seed), answers, X[train], y[train], X[test], y[test])
                )
        judge(report, name, {m: np.array(rows) for m, rows in found.items()})


def one_split(model, answers, X, y, X_test, y_test):
    """RMSE, mean log density, coverage and CPU seconds of a fit."""
    scale = StandardScaler().fit(X)
    mean, std = y.mean(), y.std()
    X, X_test = scale.transform(X), scale.transform(X_test)
    y, y_test = (y - mean) / std, (y_test - mean) / std
    model, seconds, _ = timed(model.fit, X, y)
    (centre, density, ends), _, _ = timed(answers, model, X_test, y_test)
    inside = (ends[:, 0] <= y_test) & (y_test <= ends[:, 1])
    rmse = np.sqrt(np.mean((centre - y_test) ** 2))
    return rmse, density.mean(), inside.mean(), seconds


def judge(report, name, found):
    for model, rows in found.items():
        rmse, rmse_se = mean_and_error(rows[:, 0])
        density, density_se = mean_and_error(rows[:, 1])
        report.row(
            "real data",
            set=name,
            model=model,
            rmse=rmse,
            rmse_se=rmse_se,
            log_density=density,
            log_density_se=density_se,
            coverage=rows[:, 2].mean(),
            seconds=np.median(rows[:, 3]),
        )
    best = min(LINEAR_RIVALS, key=lambda model: found[model][:, 0].mean())
    ratio, se = mean_and_error(found["normal"][:, 0] / found[best][:, 0])
    report.bar(f"{name}: RMSE over that of {best}", ratio, "<=", 1.005, se)
    gain, se = mean_and_error(found["student_t"][:, 1] - found["normal"][:, 1])
    report.row("student_t against normal noise", set=name, log_density_gain=gain, se=se)


# --- data from the model


def generated(report, args, n_sets=100, n=50, d=3, n_test=50):
    """Coverage of 90 % intervals where data come from the model."""
    rng = np.random.default_rng(0)
    for noise in ("normal", "student_t"):
        inside = []
        for seed in range(n_sets):
            coef, scale = rng.standard_normal(d), np.exp(0.5 * rng.standard_normal())
            X = rng.standard_normal((n + n_test, d))
            e = rng.standard_normal(n + n_test)
            if noise == "student_t":
                e = rng.standard_t(4.0, n + n_test)
            y = X @ coef + scale * e
            model, _, _ = timed(ours(seed, noise=noise).fit, X[:n], y[:n])
            ends = model.predict_interval(X[n:], 0.9)
            inside.append(np.mean((ends[:, 0] <= y[n:]) & (y[n:] <= ends[:, 1])))
        coverage, se = mean_and_error(inside)
        report.row(
            "coverage of 90 % intervals, data from the model",
            noise=noise, sets=n_sets, rows=n, features=d, coverage=coverage, se=se,
        )  # fmt: skip
        report.bar(f"{noise}: coverage", coverage, ">=", 0.88, se)
        report.bar(f"{noise}: coverage (upper)", coverage, "<=", 0.92, se)


# --- exactness


def line(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 0.5 + rng.standard_normal(n)


def log_evidence(X, y, scale, weight, size):
    """Log evidence of a normal prior and inverse chi-squared noise, by quadrature."""
    A = np.column_stack([X, np.ones(len(y))])
    values, axes = np.linalg.eigh(scale**2 * A @ A.T)
    squares = (axes.T @ y) ** 2
    level = np.linspace(-8.0, 5.0, 20_001)
    total = np.maximum(values, 0.0)[:, None] + np.exp(2.0 * level)
    log = -0.5 * (np.log(2 * np.pi * total) + squares[:, None] / total).sum(axis=0)
    half = 0.5 * weight
    log += np.log(2.0) + half * np.log(half * size**2) - gammaln(half)
    log -= weight * level + half * size**2 * np.exp(-2.0 * level)
    return log.max() + np.log(np.trapezoid(np.exp(log - log.max()), level))


def exact(report, args):
    X, y = line(40, 3, 0)
    prior = {"prior_scale": 2.0, "intercept_scale": 2.0}
    model = ours(noise_scale=0.5, **prior).fit(X, y)
    A = np.column_stack([X, np.ones(40)])
    covariance = np.linalg.inv(A.T @ A / 0.25 + np.eye(4) / 4.0)
    mean = covariance @ (A.T @ y) / 0.25
    error = max(
        np.abs(model.posterior_.mean() - mean).max(),
        np.abs(model.posterior_.covariance() - covariance).max(),
    )
    report.bar("known scale: error of moments", error, "<=", 1e-8)
    # A prior this wide on the coefficients makes the posterior normal-inverse-gamma.
    wide = {"prior_scale": 100.0, "intercept_scale": 100.0, "noise_prior_scale": 0.1}
    for n, d in ((50, 3), (100, 5), (200, 10), (500, 5), (15, 8)):
        for label, settings in (("defaults", {}), ("fine", FINE)):
            X, y = line(n, d, 1)
            model, seconds, _ = timed(ours(**settings, **wide).fit, X, y)
            kl = log_evidence(X, y, 100.0, 1.0, 0.1) - model.elbo_
            report.row(
                "KL to the normal-inverse-gamma posterior", rows=n, features=d,
                settings=label, components=model.posterior_.n_components, kl=kl,
                se=model.elbo_se_, seconds=seconds,
            )  # fmt: skip
            if label == "fine":
                report.bar(f"KL, {n} x {d}", kl, "<=", 0.005, model.elbo_se_)
    pieces(report)


def pieces(report, n=400):
    """One fit against a hundred calls of `partial_fit`."""
    X, y = line(n, 3, 2)
    prior = {"prior_scale": 10.0, "intercept_scale": 10.0, "noise_prior_scale": 0.1}
    for label, first, settings in (
        ("known scale", 4, {"noise_scale": 1.0}),
        ("inferred scale", 4, {}),
        ("inferred scale, max_components=1", 4, {"max_components": 1}),
        ("first piece of 40 rows", 40, {}),
        ("first piece of 40 rows, max_components=1", 40, {"max_components": 1}),
    ):
        whole = ours(**settings, **prior).fit(X, y)
        model = ours(**settings, **prior)
        model, seconds, _ = timed(in_pieces, model, X, y, first)
        distance = model.posterior_.hellinger(whole.posterior_, random_state=0)
        report.row(
            "partial_fit in 100 pieces against one fit", case=label,
            hellinger=distance.distance, se=distance.se, seconds=seconds,
        )  # fmt: skip


def in_pieces(model, X, y, first):
    model.partial_fit(X[:first], y[:first])
    for rows in np.array_split(np.arange(first, len(y)), 99):
        model.partial_fit(X[rows], y[rows])
    return model


# --- a basis expansion


def smooth(x):
    return np.sin(6.0 * x) + x**2


def splines(report, args, n_test=1000):
    """RMSE against the true function through a pipeline with splines."""
    test = np.linspace(0.0, 1.0, n_test)[:, None]
    for n in (25, 50, 100, 200, 400, 800, 1600):
        found = {"ours": [], "ours, prior_scale=1": [], "BayesianRidge": []}
        for seed in range(args.replicates):
            rng = np.random.default_rng(seed)
            x = rng.uniform(size=(n, 1))
            y = smooth(x[:, 0]) + 0.3 * rng.standard_normal(n)
            models = {
                "ours": ours(seed),
                "ours, prior_scale=1": ours(seed, prior_scale=1.0),
                "BayesianRidge": BayesianRidge(),
            }
            for name, model in models.items():
                basis = SplineTransformer(n_knots=12, extrapolation="linear")
                fitted, _, _ = timed(make_pipeline(basis, model).fit, x, y)
                error = fitted.predict(test) - smooth(test[:, 0])
                found[name].append(np.sqrt(np.mean(error**2)))
        row = {"rows": n}
        for name, values in found.items():
            row[name], row[f"{name} se"] = mean_and_error(values)
        report.row("splines: RMSE against the true function", **row)


# --- counts


def counts(report, args):
    """Stops by precinct, ethnicity and crime, with past arrests as exposure."""
    load = shared_module(args.shared, "data", "load")
    if load is None:
        report.not_run("counts", "no shared data")
        return
    data = load.load("frisk")
    labels = np.column_stack([data[k] for k in ("precinct", "ethnicity", "crime")])
    X = OneHotEncoder(drop="first", sparse_output=False).fit_transform(labels)
    y = np.asarray(data["stops"], float)
    exposure = np.maximum(np.asarray(data["past_arrests"], float), 1.0)
    found = {"ours": [], "PoissonRegressor": []}
    splits = ShuffleSplit(args.replicates, test_size=0.1, random_state=0)
    for seed, (train, test) in enumerate(splits.split(X)):
        offset = np.log(exposure)
        model = BoostedBayesianPoissonRegression(random_state=seed)
        model, seconds, _ = timed(model.fit, X[train], y[train], offset=offset[train])
        density = model.log_predictive_density(X[test], y[test], offset=offset[test])
        mean = model.predict(X[test], offset=offset[test])
        found["ours"].append((deviance(y[test], mean), density.mean(), seconds))
        rival = PoissonRegressor(alpha=1e-6, max_iter=10_000)
        rate = y[train] / exposure[train]
        rival, seconds, _ = timed(
            rival.fit, X[train], rate, sample_weight=exposure[train]
        )
        mean = exposure[test] * rival.predict(X[test])
        density = xlogy(y[test], mean) - mean - gammaln(y[test] + 1.0)
        found["PoissonRegressor"].append(
            (deviance(y[test], mean), density.mean(), seconds)
        )
    for name, rows in found.items():
        rows = np.array(rows)
        dev, dev_se = mean_and_error(rows[:, 0])
        density, density_se = mean_and_error(rows[:, 1])
        report.row(
            "counts with exposure (frisk)", model=name, deviance=dev,
            deviance_se=dev_se, log_probability=density,
            log_probability_se=density_se, seconds=np.median(rows[:, 2]),
        )  # fmt: skip


def deviance(y, mean):
    return 2.0 * np.mean(xlogy(y, y / mean) - y + mean)


def main():
    made = parser(__doc__, replicates=10)
    made.add_argument("--only", nargs="*", default=PARTS, choices=PARTS)
    args = made.parse_args()
    run = {f.__name__: f for f in (exact, generated, splines, counts, real)}
    for part in args.only:
        settings = {"replicates": args.replicates, "models": "defaults"}
        run[part](Report(f"regression_{part}", args.out, **settings), args)


if __name__ == "__main__":
    main()
