"""Figure 3 of Paisley, Fazelnia, Barr: SVI+ against SVI and batch inference.

    python benchmarks/svi_plus.py [--replicates 20] [--start random_from_data]
        [--clusters 2] [--raw]

The paper's independent priors (a = D, B = I, c = 10, alpha = 1/2), synthetic
250 x 2 with |S| = 50, M = 10, and pima (standardised columns) with |S| = 200, M = 50,
100, 150 (``--raw``: pima alone, as it comes). Figures 4 to 6 are those of
``p2_figures.py``.

Two clusters by default, since the paper's alpha has two entries; ``--clusters`` takes
others. The paper gives neither the rates nor the start, so: Robbins-Monro rates
(t + 1) ** -0.7 for SVI and SVI+ alike; two starts, of random responsibilities or of a
row for each cluster; the same start for all methods of a seed. Batch
inference runs to convergence. The figure is the full-data ELBO without noise, at the
end of the stochastic run and, in a second table that is not the paper's, after
coordinate ascent from there: how good is the optimum that the noise led to?
"""

from _harness import Report, parser, shared_module, timed  # isort: skip

import numpy as np
from scipy.stats import ttest_rel, wilcoxon

from skboost.mixture import SVIGaussianMixture

QUARTILES = ("least", "first_quartile", "median", "third_quartile", "most")
EPOCHS = 100
CURVE = (1, 2, 5, 10, 20, 50, 100)


def fit(X, n_components, seed, **settings):
    """One fit with the paper's priors."""
    dim = X.shape[1]
    model = SVIGaussianMixture(
        n_components,
        mean_prior_type="independent",
        mean_prior=np.zeros(dim),
        mean_precision_prior=0.1,
        degrees_of_freedom_prior=dim,
        covariance_prior=np.eye(dim),
        random_state=seed,
        **settings,
    )
    return timed(model.fit, X)[:2]


def methods(batch_size, effective, epochs):
    """Settings of batch inference, SVI, and SVI+ for each M."""
    found = {"batch": {"max_iter": 5000, "tol": 1e-6}}
    found["SVI"] = {"batch_size": batch_size, "max_iter": epochs}
    for size in effective:
        found[f"SVI+ M={size}"] = found["SVI"] | {"effective_batch_size": size}
    return found


def five_numbers(values):
    """Mean, least, quartiles and largest of final bounds."""
    five = np.percentile(values, (0, 25, 50, 75, 100))
    return {"mean": float(values.mean()), **dict(zip(QUARTILES, five, strict=True))}


def figure_3(report, name, X, n_components, start, settings, seeds):
    """Final bounds and curves of all methods, and paired tests."""
    title = f"{name}, {n_components} clusters"
    finals, curves, ascended = {}, {}, {}
    own = {"weight_concentration_prior": 0.5, "init_params": start}
    for method, options in settings.items():
        options = own | options
        runs = [fit(X, n_components, seed, **options) for seed in range(seeds)]
        models = [model for model, _ in runs]
        finals[method] = np.array([model.elbo_ for model in models])
        curves[method] = [model.elbo_path_ for model in models]
        ascended[method] = np.array([ascend(model, X) for model in models])
        report.row(
            f"{title}: final ELBO, nats",
            method=method,
            **five_numbers(finals[method]),
            shrunk=float(np.mean([model.noise_shrunk_ for model in models])),
            cpu_s=float(np.median([cpu for _, cpu in runs])),
        )
    for method, paths in curves.items():
        at = {
            f"epoch {e}": float(
                np.mean([path[min(e, len(path)) - 1] for path in paths])
            )
            for e in CURVE
        }
        report.row(f"{title}: mean ELBO by epoch", method=method, **at)
    for method, values in ascended.items():
        after = f"{title}: after coordinate ascent, nats"
        report.row(after, method=method, **five_numbers(values))
    for method in list(settings)[2:]:
        for rival in ("SVI", "batch"):
            gain = compare(
                report, f"{title}: paired differences", method, rival, finals
            )
            report.bar(f"{title}: {method} less {rival}", gain, ">=", 0.0)
            compare(report, f"{title}: paired, after ascent", method, rival, ascended)


def ascend(model, X):
    """The bound after going on by coordinate ascent, nats."""
    model.set_params(
        warm_start=True,
        batch_size=None,
        effective_batch_size=None,
        max_iter=model.n_iter_ + 5000,
        tol=1e-6,
    )
    return timed(model.fit, X)[0].elbo_


def compare(report, title, method, rival, finals):
    """A paired test of one method against another over seeds."""
    gain = finals[method] - finals[rival]
    ties = not np.any(np.abs(gain) > 1e-9)
    report.row(
        f"{title}, nats",
        method=method,
        against=rival,
        gain=float(gain.mean()),
        two_se=float(2 * gain.std(ddof=1) / np.sqrt(len(gain))),
        wins=int((gain > 0).sum()),
        p_t=1.0 if ties else float(ttest_rel(finals[method], finals[rival]).pvalue),
        p_wilcoxon=1.0 if ties else float(wilcoxon(gain).pvalue),
    )
    return float(gain.mean())


def main():
    made = parser(__doc__, replicates=20)
    starts = ("random_from_data", "random")
    made.add_argument("--start", choices=starts, default=starts[0])
    made.add_argument("--clusters", nargs="+", type=int, default=[2])
    made.add_argument("--raw", action="store_true", help="columns as they come")
    options = made.parse_args()
    kept = ("replicates", "start", "clusters", "raw")
    settings = {name: getattr(options, name) for name in kept}
    synthetic = shared_module(options.shared, "data", "make_synthetic")
    load = shared_module(options.shared, "data", "load")
    if synthetic is None:
        report = Report("svi_plus", options.out, **settings)
        return report.not_run("all figures", "the shared data are not there")
    name = f"svi_plus_{options.start}" + "_raw" * options.raw
    report = Report(name, options.out, **settings)
    pima = load.load("pima")["X"].astype(float)
    if not options.raw:
        pima = (pima - pima.mean(axis=0)) / pima.std(axis=0)
    sets = (
        ("synthetic", synthetic.gmm_2d()["X"], 50, (10,)),
        ("pima", pima, 200, (50, 100, 150)),
    )
    for n_components in options.clusters:
        for name, X, size, effective in sets[options.raw :]:
            runs = methods(size, effective, EPOCHS)
            figure_3(
                report, name, X, n_components, options.start, runs, options.replicates
            )


if __name__ == "__main__":
    main()
