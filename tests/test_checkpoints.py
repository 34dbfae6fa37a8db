"""A fit that is killed and begun again gives what an uninterrupted one gives."""

import os
import pickle
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skboost import (
    BoostedBayesianLinearRegression,
    BoostedBayesianLogisticRegression,
    BoostedBayesianPoissonRegression,
    BoostedGaussianMixture,
    BoostedMatrixFactorization,
    OnlineBayesianLogisticRegression,
    SVIGaussianMixture,
    boost_posterior,
)
from skboost.callbacks import Checkpoint
from skboost.exceptions import CheckpointWarning
from skboost.families import Gaussian, StudentT
from skboost.fitting import _checkpoint

from .conftest import Listener

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2)) + 3.0 * (np.arange(30) % 2)[:, None]
LABELS = (RNG.random(30) < 0.5).astype(int)
REAL = X @ [1.0, -1.0] + RNG.standard_t(3, size=30)
TINY = {"n_draws": 32, "max_iter": 3, "tol": 0.0, "random_state": 0}


class Killed(Exception):
    """Whatever ends a process."""


class Killer(Listener):
    """A callback that counts iterations, and may end the fit after one."""

    def __init__(self, after=None):
        self.n, self.after = 0, after

    def on_fit_task_end(self, estimator, context):
        self.n += context.task_name == "iteration"
        if self.n == self.after:
            raise Killed


def logistic(**settings):
    return BoostedBayesianLogisticRegression(**TINY | settings), (X, LABELS)


TABLE = np.where(RNG.random((8, 6)) < 0.2, np.nan, RNG.normal(size=(8, 6)))
FEW = TINY | {"n_draws": 8}
FITS = {
    "logistic": lambda: logistic(),
    "with noise": lambda: logistic(prior="laplace", family="gaussian-diag"),
    "hellinger": lambda: logistic(objective="hellinger"),
    "adaptive": lambda: logistic(step_size="adaptive", corrective="away"),
    "several df": lambda: logistic(family=StudentT("diag", df=(3.0, 8.0))),
    "calibrated": lambda: logistic(calibrate="moments"),
    "linear": lambda: (BoostedBayesianLinearRegression(**TINY), (X, REAL)),
    "poisson": lambda: (BoostedBayesianPoissonRegression(**TINY), (X, LABELS)),
    "mixture": lambda: (BoostedGaussianMixture(2, **FEW), (X,)),
    "factorisation": lambda: (BoostedMatrixFactorization(2, **FEW), (TABLE,)),
}


def same(a, b, path=""):
    """Whether two fitted values are the same, bit for bit; times may differ."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            if not key.startswith("seconds"):
                same(a[key], b[key], f"{path}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for k, pair in enumerate(zip(a, b, strict=True)):
            same(*pair, f"{path}[{k}]")
    elif hasattr(a, "mixture"):
        same(list(a.mixture.weights), list(b.mixture.weights), path)
        pairs = zip(a.mixture.components, b.mixture.components, strict=True)
        assert all(np.array_equal(p.params, q.params) for p, q in pairs), path
    elif isinstance(a, np.ndarray | float | int | bool | str | np.generic):
        assert np.array_equal(a, b, equal_nan=not isinstance(a, str)), path


def fitted(model):
    return {k: v for k, v in vars(model).items() if k[-1] == "_" and k[0] != "_"}


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("logistic", 1),
        *[pytest.param(name, 2, marks=pytest.mark.slow) for name in FITS],
        pytest.param("with noise", 3, marks=pytest.mark.slow),
    ],
)
def test_a_killed_fit_goes_on(name, after, tmp_path):
    path = tmp_path / "fit.npz"
    plain, data = FITS[name]()
    plain.fit(*data)
    first, _ = FITS[name]()
    with pytest.raises(Killed):
        first.set_callbacks(Checkpoint(path), Killer(after)).fit(*data)
    assert path.exists()
    again, _ = FITS[name]()
    counted = Killer()
    again.set_callbacks(Checkpoint(path), counted).fit(*data)
    same(fitted(plain), fitted(again))
    # It did go on: what was done is not done again.
    assert counted.n == plain.n_iter_ - after
    # And what was done altogether is not done at all.
    once_more, _ = FITS[name]()
    counted = Killer()
    once_more.set_callbacks(Checkpoint(path), counted).fit(*data)
    same(fitted(plain), fitted(once_more))
    assert counted.n == 0


def two_bumps(theta):
    far = -2.0 * anp.sum((theta + 3.0) ** 2, axis=-1)
    return anp.logaddexp(far, -0.5 * anp.sum((theta - 2.0) ** 2, axis=-1))


@pytest.mark.parametrize(
    "settings",
    [
        {"constraints": (-6.0, None), "max_evaluations": 4000},
        pytest.param({"warp": "auto"}, marks=pytest.mark.slow),
    ],
    ids=["constrained", "warped"],
)
def test_a_killed_run_of_any_density_goes_on(settings, tmp_path):
    path, calls = tmp_path / "run.npz", []

    def density(theta):
        calls.append(len(theta))
        if len(calls) == kill_at:
            raise KeyboardInterrupt
        return two_bumps(theta)

    def run(**more):
        calls.clear()
        return boost_posterior(density, 2, vectorized=True, **TINY | settings | more)

    kill_at = None
    plain = run()
    kill_at = 3 * len(calls) // 4
    with pytest.raises(KeyboardInterrupt):
        run(callback=Checkpoint(path))
    kill_at = None
    again = run(callback=Checkpoint(path))
    same(vars(plain), vars(again))


class Own(Gaussian):
    """The package's family under the name of a user."""


@pytest.mark.parametrize("own", [{}, {"family": Own("diag"), "prior": "laplace"}])
def test_a_finished_fit_goes_on_to_more_iterations(own, tmp_path):
    path = tmp_path / "fit.npz"
    plain, data = logistic(**own)
    short, _ = logistic(max_iter=2, **own)
    short.set_callbacks(Checkpoint(path)).fit(*data)
    again, _ = logistic(**own)
    again.set_callbacks(Checkpoint(path)).fit(*data)
    same(fitted(plain.fit(*data)), fitted(again))


def test_how_often(tmp_path, monkeypatch):
    written = []

    def write(path, write):
        written.append(path)

    monkeypatch.setattr(_checkpoint, "write_atomically", write)
    model, data = logistic(family="gaussian-diag", max_iter=5)

    def fit(**often):
        written.clear()
        model.set_callbacks(Checkpoint(tmp_path / "x.npz", **often)).fit(*data)
        return len(written)

    n = fit()
    assert n == model.n_iter_ > 2
    assert fit(every=2) == -(-n // 2)
    # The last is written in any case.
    assert fit(every=100) == fit(seconds=1e6) == 1


# --- what is refused


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "fit.npz"
    model, data = logistic(max_iter=1)
    model.set_callbacks(Checkpoint(path)).fit(*data)
    return path


def refit(path, **settings):
    model, data = logistic(max_iter=1, **settings)
    return model.set_callbacks(Checkpoint(path)).fit(*data)


def test_other_parameters_are_refused(written):
    with pytest.raises(ValueError, match=r"another fit: prior_scale was 1\.0 and is 2"):
        refit(written, prior_scale=2.0)
    with pytest.raises(ValueError, match="another fit: random_state was 0 and is 1"):
        refit(written, random_state=1)
    # What decides nothing may change.
    assert refit(written, n_jobs=2, max_time=100.0).n_iter_ == 1
    model, data = logistic(max_iter=1)
    model.set_callbacks(Checkpoint(written))
    search = GridSearchCV(model, {"prior_scale": [1.0, 2.0]}, cv=2, error_score="raise")
    with pytest.raises(ValueError, match="another fit|same data"):
        search.fit(*data)


@pytest.mark.parametrize("rows", [X[:29], 1.0001 * X, X[:, :1]])
def test_other_data_are_refused(written, rows):
    model, _ = logistic(max_iter=1)
    model.set_callbacks(Checkpoint(written))
    with pytest.raises(ValueError, match="same data and the same model"):
        model.fit(rows, LABELS[: len(rows)])
    assert not hasattr(model, "posterior_")


def test_truncated_and_foreign_files_are_refused(written, monkeypatch):
    whole, model = written.read_bytes(), refit(written)
    with monkeypatch.context() as patch:
        patch.setattr("skboost._pickles.__version__", "0.9.0")
        with pytest.raises(ValueError, match=r"another version.* skboost 0.*0.9.0"):
            refit(written)
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        written.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"written by skboost\.callbacks"):
            refit(written)
    model.posterior_.save(written)
    with pytest.raises(ValueError, match=r"written by skboost\.callbacks"):
        refit(written)


class Calls:
    """Its pickle calls a function when it is read."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def names(module, name):
    """A pickle that looks up one name."""
    return b"\x80\x04\x8c%c%b\x8c%c%b\x93." % (
        len(module), module.encode(), len(name), name.encode(),
    )  # fmt: skip


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(lambda trap: pickle.dumps(Calls(os.mkdir, trap)), id="a call"),
        pytest.param(lambda trap: pickle.dumps(Calls(eval, "1 + 1")), id="eval"),
        pytest.param(lambda trap: names("os", "system"), id="os"),
        pytest.param(lambda trap: names("numpy", "load"), id="numpy"),
        # Functions, what is imported into a module, dotted names, other rooms.
        pytest.param(
            lambda trap: names("skboost.fitting._boost", "boost"), id="a function"
        ),
        pytest.param(lambda trap: names("skboost.fitting._run", "End"), id="imported"),
        pytest.param(
            lambda trap: names("skboost.fitting._run", "Run.__init__"), id="dotted"
        ),
        pytest.param(lambda trap: names("skboost.callbacks", "Checkpoint"), id="room"),
    ],
)
def test_a_file_runs_no_code_of_its_own(forged, written):
    trap = written.parent / "trap"
    session = _checkpoint.session_of(
        logistic(max_iter=1)[0].set_callbacks(Checkpoint(written))
    )
    session.put(None, forged(str(trap)))
    with pytest.raises(ValueError, match=r"written by skboost\.callbacks") as error:
        refit(written)
    assert "a checkpoint holds no" in str(error.value.__cause__)
    assert not trap.exists()


def test_a_seed_is_asked_for_and_one_checkpoint(tmp_path):
    for state in (None, np.random.RandomState(0)):
        model, data = logistic(random_state=state)
        model.set_callbacks(Checkpoint(tmp_path / "fit.npz"))
        with pytest.raises(ValueError, match="random_state to be an integer"):
            model.fit(*data)


@pytest.mark.parametrize("wrong", [{"every": 0}, {"every": 1.5}, {"seconds": -1.0}])
def test_parameters_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Checkpoint("fit.npz", **wrong)


def test_natural_gradients_say_what_to_do_instead(tmp_path):
    model = SVIGaussianMixture(2).set_callbacks(Checkpoint(tmp_path / "fit.npz"))
    with pytest.raises(ValueError, match="takes no Checkpoint. With warm_start=True"):
        model.fit(X)


def test_estimators_without_iterations_take_no_notice(tmp_path):
    path = tmp_path / "fit.npz"
    OnlineBayesianLogisticRegression().set_callbacks(Checkpoint(path)).fit(X, LABELS)
    logistic()[0].set_callbacks(Checkpoint(path)).partial_fit(X, LABELS)
    assert not path.exists()


# --- a full disk


def test_a_full_disk_keeps_the_earlier_file_and_the_fit(written, monkeypatch):
    before = written.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    model, data = logistic()
    model.set_callbacks(Checkpoint(written))
    with pytest.warns(CheckpointWarning, match="No space left on device"):
        model.fit(*data)
    assert written.read_bytes() == before
    assert [path.name for path in written.parent.iterdir()] == [written.name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(fitted(logistic()[0].fit(*data)), fitted(model))
