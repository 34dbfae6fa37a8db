"""Rows a second of online methods, with and without the extra ``fast``.

    python benchmarks/online_speed.py

Dense rows have 54 columns, sparse ones 50 non-zeros in 100,000; updates are per row in
batches of 1000 unless a table says otherwise. River's logistic regression gets its rows
as dictionaries that were made before; scikit-learn's SGDClassifier gets the same
batches as ours. What is compiled is compiled before the clock starts. CPU seconds, the
median of 5 runs.
"""

from _harness import Report, median_cpu, parser  # isort: skip

import warnings
from importlib.util import find_spec
from time import process_time

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier

from skboost import OnlineBayesianLogisticRegression
from skboost.online import _loops

N_RUNS, BATCH = 5, 1000


def dense(n=20_000, dim=54):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, dim))
    return X, (X @ rng.standard_normal(dim) + rng.logistic(size=n) > 0).astype(int)


def sparse_rows(n=20_000, dim=100_000, n_nonzero=50):
    rng = np.random.default_rng(0)
    columns = np.concatenate(
        [np.sort(rng.choice(dim, n_nonzero, replace=False)) for _ in range(n)]
    )
    data = rng.standard_normal(n * n_nonzero)
    X = sparse.csr_matrix((data, columns, np.arange(0, n + 1) * n_nonzero), (n, dim))
    return X, (X @ rng.standard_normal(dim) + rng.logistic(size=n) > 0).astype(int)


def as_dicts(X):
    if sparse.issparse(X):
        parts = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [
            dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
            for a, b in parts
        ]
    return [dict(enumerate(row)) for row in X.tolist()]


def microseconds(make, learn, X, y, n_rows, batch=BATCH):
    """CPU microseconds for each row."""
    learner = make()
    learn(learner, X[:10], y[:10])

    def run():
        for begin in range(0, n_rows, batch):
            learn(learner, X[begin : begin + batch], y[begin : begin + batch])

    _, seconds = median_cpu(run, N_RUNS)
    return 1e6 * seconds / n_rows


def batches(learner, X, y):
    learner.partial_fit(X, y, classes=[0, 1])


def river(X, y, n_rows):
    from river.linear_model import LogisticRegression
    from river.optim import SGD

    rows, labels = as_dicts(X[:n_rows]), y[:n_rows].astype(bool).tolist()
    model = LogisticRegression(SGD(0.01))

    def run():
        for row, label in zip(rows, labels, strict=True):
            model.learn_one(row, label)

    return 1e6 * median_cpu(run, N_RUNS)[1] / n_rows


def first_call(make, X, y):
    """CPU seconds of the first batch, compilation included."""
    begin = process_time()
    make().partial_fit(X[:10], y[:10], classes=[0, 1])
    return process_time() - begin


def without_extra(on):
    """Loops that are compiled or not, whatever is installed."""
    compiler = _loops.compiler
    if on:
        _loops.compiler = lambda: None
    _loops.dense_loop.cache_clear()
    _loops.sparse_loop.cache_clear()
    return compiler


def per_row(report, name, X, y, settings):
    if find_spec("river") is None:
        report.not_run(f"{name}, one update for each row", "river is not installed")
        return
    rival = river(X, y, 5000)
    report.row("one update for each row", rows=name, learner="river", us_per_row=rival,
               rows_per_s=1e6 / rival, times_river=1.0, first_call_s=0.0)  # fmt: skip
    for label, params in settings.items():
        for fast in (False, True):
            if fast and params.get("covariance") == "full":
                continue
            compiler = without_extra(not fast)
            try:
                make = lambda p=params: OnlineBayesianLogisticRegression(**p)  # noqa: E731
                first = first_call(make, X, y)
                took = microseconds(make, batches, X, y, 20_000 if fast else 5000)
            finally:
                _loops.compiler = compiler
            learner = f"{label}, {'fast' if fast else 'plain'}"
            report.row("one update for each row", rows=name, learner=learner,
                       us_per_row=took, rows_per_s=1e6 / took,
                       times_river=took / rival, first_call_s=first)  # fmt: skip
            what = f"{name}, {learner}: times river's"
            report.bar(what, took / rival, "<=", 1.0 if fast else 3.0)


def minibatches(report, name, X, y, settings):
    rival = microseconds(lambda: SGDClassifier(loss="log_loss"), batches, X, y, 20_000)
    report.row("one update for each batch of 1000", rows=name, learner="SGDClassifier",
               us_per_row=rival, times_sgd=1.0)  # fmt: skip
    for label, params in settings.items():
        make = lambda p=params: OnlineBayesianLogisticRegression(batch_size=BATCH, **p)  # noqa: E731
        took = microseconds(make, batches, X, y, 20_000)
        report.row("one update for each batch of 1000", rows=name, learner=label,
                   us_per_row=took, times_sgd=took / rival)  # fmt: skip
        report.bar(f"{name}, {label}: times SGDClassifier's", took / rival, "<=", 3.0)


def main():
    args = parser(__doc__).parse_args()
    warnings.simplefilter("ignore")
    report = Report("online_speed", args.out, batch=BATCH, runs=N_RUNS)
    diagonal = {
        name: {"method": name, "covariance": "diag"} for name in ("sva", "svb", "ngvi")
    }
    decay = {"ngvi rate 1000": {**diagonal["ngvi"], "learning_rate": 1000.0}}
    full = {"ngvi full": {"covariance": "full"}}
    rows = {"dense, 54": dense(), "sparse, 50 of 100,000": sparse_rows()}
    for name, (X, y) in rows.items():
        more = decay if sparse.issparse(X) else full
        per_row(report, name, X, y, diagonal | more)
        minibatches(report, name, X, y, diagonal | ({} if sparse.issparse(X) else full))
    X, y = rows["dense, 54"]
    make = lambda: OnlineBayesianLogisticRegression(**diagonal["ngvi"])  # noqa: E731
    took = microseconds(make, batches, X, y, 500, batch=1)
    report.row("calls with a single row", learner="ngvi", us_per_row=took)
    took = microseconds(lambda: SGDClassifier(loss="log_loss"), batches, X, y, 500, 1)
    report.row("calls with a single row", learner="SGDClassifier", us_per_row=took)


if __name__ == "__main__":
    main()
