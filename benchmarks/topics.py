"""Topics: SVI and SVI+ against scikit-learn's latent Dirichlet allocation.

    python benchmarks/topics.py [--data nyt_bow] [--replicates 10] [--batch-seeds 3]
        [--batch-rounds 60] [--small-seeds 10]

50 topics, all priors 1/50, batches of 1,000 documents, M = 500 for SVI+, and for all of
them scikit-learn's default schedule, ``(t + 10) ** -0.7``. Of each seed's split a tenth
of the documents is held out and its tokens are dealt into halves. One function scores
everybody: scikit-learn's own local step (its default tolerance) gives the proportions
from one half, the posterior means give the probabilities of the other half's tokens.
Figures are after 5 and 20 passes. scikit-learn's batch inference, as many rounds as
asked for, is the reference for the first seeds. CPU seconds are of `fit` alone; ours
include an estimate of the bound from 250 documents after each pass.

The bounds by pass, and those of SVI with batches of 500 documents, are Figure 2 of
Paisley, Fazelnia, Barr.
"""

from _harness import Report, mean_and_error, parser, shared_module, timed  # isort: skip

import numpy as np
from scipy import sparse
from scipy.special import psi
from sklearn.decomposition import LatentDirichletAllocation

from skboost.decomposition import SVILatentDirichletAllocation
from skboost.svi import RobbinsMonro

N_TOPICS, BATCH, EFFECTIVE = 50, 1000, 500
PASSES = (5, 20)
CURVE = (1, 2, 3, 5, 10, 15, 20)


def split(X, seed):
    """Documents to fit, and both halves of those held out."""
    rng = np.random.default_rng([1, seed])
    order = rng.permutation(X.shape[0])
    n_held_out = X.shape[0] // 10
    held_out = X[np.sort(order[:n_held_out])]
    given = held_out.copy()
    given.data = rng.binomial(held_out.data.astype(int), 0.5).astype(float)
    rest = sparse.csr_matrix(held_out - given)
    for half in (given, rest):
        half.eliminate_zeros()
    return X[np.sort(order[n_held_out:])], given, rest


def perplexity(components, given, rest):
    """Of one half of documents, given the other: the same function for all."""
    scorer = LatentDirichletAllocation(len(components), max_iter=1, random_state=0)
    scorer.fit(given[:1])
    scorer.components_ = components
    log_sums = psi(components.sum(axis=1, keepdims=True))
    scorer.exp_dirichlet_component_ = np.exp(psi(components) - log_sums)
    shares = scorer.transform(given)
    words = components / components.sum(axis=1, keepdims=True)
    entries = rest.tocoo()
    found = np.einsum("nk,kn->n", shares[entries.row], words[:, entries.col])
    return float(np.exp(-(entries.data @ np.log(found)) / entries.data.sum()))


def rival(train, passes, seed):
    """scikit-learn's online inference: components and CPU seconds after each."""
    model = LatentDirichletAllocation(
        N_TOPICS,
        learning_method="online",
        batch_size=BATCH,
        max_iter=passes[0],
        total_samples=train.shape[0],
        random_state=seed,
    )
    seconds = timed(model.fit, train)[1]
    yield passes[0], model.components_, seconds
    for more in range(passes[0] + 1, passes[-1] + 1):
        # A pass of `fit` is one of `partial_fit` that knows the number of documents.
        seconds += timed(model.partial_fit, train)[1]
        if more in passes:
            yield more, model.components_, seconds


def ours(train, passes, seed, **settings):
    """SVI or SVI+: the model and CPU seconds after each number of passes."""
    model = SVILatentDirichletAllocation(
        N_TOPICS,
        init_params="kmeans",
        learning_rate=RobbinsMonro(delay=10.0, forgetting=0.7),
        warm_start=True,
        random_state=seed,
        **{"batch_size": BATCH} | settings,
    )
    seconds = 0.0
    for n in passes:
        seconds += timed(model.set_params(max_iter=n).fit, train)[1]
        yield n, model, seconds


class Rows:
    """Figures of all runs so far, by method, passes and seed."""

    def __init__(self, report, name):
        self.report, self.name, self.figures, self.paths = report, name, {}, {}

    def add(self, method, passes, seed, value, cpu):
        self.figures.setdefault((method, passes), {})[seed] = (value, cpu)
        self.report.row(
            f"{self.name}: every run",
            method=method,
            passes=passes,
            seed=seed,
            perplexity=value,
            cpu_s=cpu,
        )

    def difference(self, a, b, column=0):
        """Mean relative difference over common seeds, its error, and their number."""
        a, b = self.figures[a], self.figures[b]
        seeds = sorted(a.keys() & b.keys())
        ratio = np.array([a[s][column] / b[s][column] - 1.0 for s in seeds])
        return *mean_and_error(ratio), len(ratio)


def task(rows, X, seed, options):
    """All methods on one split."""
    train, given, rest = split(X, seed)

    def score(components):
        return perplexity(components, given, rest)

    for n, components, cpu in rival(train, PASSES, seed):
        rows.add("scikit-learn online", n, seed, score(components), cpu)
    for method, settings in (
        ("SVI", {}),
        (f"SVI+ M={EFFECTIVE}", {"effective_batch_size": EFFECTIVE}),
    ):
        for n, model, cpu in ours(train, PASSES, seed, **settings):
            rows.add(method, n, seed, score(model.components_), cpu)
        rows.paths.setdefault(f"{method}, |S|={BATCH}", []).append(model.elbo_path_)
    if seed < options.small_seeds:
        small = {"batch_size": EFFECTIVE}
        for _, model, _ in ours(train, PASSES[-1:], seed, **small):
            rows.paths.setdefault(f"SVI, |S|={EFFECTIVE}", []).append(model.elbo_path_)
    if seed < options.batch_seeds:
        model = LatentDirichletAllocation(
            N_TOPICS, max_iter=options.batch_rounds, random_state=seed
        )
        cpu = timed(model.fit, train)[1]
        value = score(model.components_)
        rows.add("scikit-learn batch", options.batch_rounds, seed, value, cpu)
    if seed == 0:
        throughput(rows, train)


def throughput(rows, train):
    """Documents a second of `transform`, on the same topics; median of five."""
    mine = SVILatentDirichletAllocation(N_TOPICS, batch_size=BATCH, max_iter=1)
    mine.fit(train)
    model = LatentDirichletAllocation(N_TOPICS, max_iter=1).fit(train[:100])
    model.components_ = mine.components_
    model.exp_dirichlet_component_ = mine.exp_dirichlet_component_
    cpu = {}
    for name, estimator in (("scikit-learn", model), ("skboost", mine)):
        runs = [timed(estimator.transform, train)[1] for _ in range(5)]
        cpu[name] = float(np.median(runs))
    for name, seconds in cpu.items():
        rows.report.row(
            f"{rows.name}: documents a second of transform",
            method=name,
            documents_s=train.shape[0] / seconds,
        )
    rows.ratio = cpu["scikit-learn"] / cpu["skboost"]


def summarise(rows, options):
    """Tables and bars of all seeds so far; they replace those of before."""
    report, name = rows.report, rows.name
    report.bars = []
    title = f"{name}: held-out document completion, mean over seeds"
    report.tables.pop(title, None)
    for (method, passes), found in rows.figures.items():
        values = np.array(list(found.values()))
        value, se = mean_and_error(values[:, 0])
        report.row(
            title, method=method, passes=passes, seeds=len(values), perplexity=value,
            se=se, cpu_s=float(values[:, 1].mean()),
        )  # fmt: skip
    curves(rows)
    batch = ("scikit-learn batch", options.batch_rounds)
    for method in ("SVI", f"SVI+ M={EFFECTIVE}"):
        for n in PASSES:
            other = ("scikit-learn online", n)
            gain, se, _ = rows.difference((method, n), other)
            what, over = (
                f"{name}, {method}, {n} passes",
                "scikit-learn online's, less 1",
            )
            report.bar(f"{what}: perplexity over {over}", gain, "<=", 0.0, se)
            cpu, se, _ = rows.difference((method, n), other, column=1)
            report.bar(f"{what}: CPU seconds over {over}", cpu, "<=", 0.0, se)
        if batch in rows.figures:
            gain, se, n = rows.difference((method, PASSES[-1]), batch)
            what = f"{name}, {method}, {PASSES[-1]} passes: perplexity over "
            what += f"scikit-learn batch's, less 1 ({n} seeds)"
            report.bar(what, gain, "<=", 0.01, se)
    what = f"{name}: documents a second of transform over scikit-learn's"
    report.bar(what, rows.ratio, ">=", 1.0)


def curves(rows):
    """Bounds by pass, and their paired differences at the end."""
    title = f"{rows.name}: estimated ELBO by pass, mean over seeds, nats"
    rows.report.tables.pop(title, None)
    for method, paths in rows.paths.items():
        mean = np.mean(paths, axis=0)
        at = {f"pass {k}": float(mean[k - 1]) for k in CURVE}
        rows.report.row(title, method=method, seeds=len(paths), **at)
    title = f"{rows.name}: ELBO of SVI+ less SVI after {PASSES[-1]} passes, nats"
    rows.report.tables.pop(title, None)
    plus = f"SVI+ M={EFFECTIVE}, |S|={BATCH}"
    for method in [m for m in rows.paths if m != plus]:
        n = len(rows.paths[method])
        ends = zip(rows.paths[plus][:n], rows.paths[method], strict=True)
        gains = np.array([a[-1] - b[-1] for a, b in ends])
        gain, se = mean_and_error(gains)
        rows.report.row(
            title, against=method, seeds=n, gain=gain, two_se=2.0 * se,
            wins=int((gains > 0).sum()),
        )  # fmt: skip
    rows.report.curves = [
        {"method": method, "elbo": [list(map(float, path)) for path in paths]}
        for method, paths in rows.paths.items()
    ]


def main():
    made = parser(__doc__, replicates=10)
    made.add_argument("--data", default="nyt_bow", choices=("nyt_bow", "ap_bow"))
    made.add_argument("--batch-seeds", type=int, default=3)
    made.add_argument("--small-seeds", type=int, default=10)
    made.add_argument("--batch-rounds", type=int, default=60)
    options = made.parse_args()
    settings = {
        key: value
        for key, value in vars(options).items()
        if key not in ("shared", "out")
    }
    report = Report(f"topics_{options.data}", options.out, **settings)
    load = shared_module(options.shared, "data", "load")
    if load is None:
        return report.not_run("all figures", "the data are not there")
    X = load.bow_matrix(load.load(options.data))
    rows = Rows(report, options.data)
    for seed in range(options.replicates):
        task(rows, X, seed, options)
        summarise(rows, options)


if __name__ == "__main__":
    main()
