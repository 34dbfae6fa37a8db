"""A fit that is killed and begun again gives what an uninterrupted one gives."""

import os
import pickle

import autograd.numpy as anp
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import skboost
from skboost import EvidenceSearch, boost_posterior
from skboost._sklearn import registered_callbacks
from skboost.callbacks import Checkpoint
from skboost.exceptions import CheckpointWarning
from skboost.families import DiagonalGaussian, StudentT
from skboost.strategies import GreedySearch

from .cases import EVERY, OTHERS, SVI, same_fit
from .conftest import Hook
from .kinds import GROUPED, ONLINE, over

LOGISTIC = EVERY["two classes"]


class Killed(Exception):
    """Whatever ends a process."""


class Own(DiagonalGaussian):
    """The package's family under the name of a user."""


def on_disk(model, case, path, killed_after=None):
    """The model after a fit with a checkpoint, and how many iterations it made."""
    hook = Hook(fails_at=killed_after, error=Killed)
    model.set_callbacks(Checkpoint(path), hook)
    if killed_after is None:
        model.fit(**case.data())
    else:
        with pytest.raises(Killed):
            model.fit(**case.data())
    return model.set_callbacks(), hook.calls.count("end iteration")


WAYS = [
    {"prior": "laplace", "family": Own()},
    {"objective": "hellinger", "step_size": "line-search", "family": "gaussian"},
    {"step_size": "adaptive", "corrective": "away", "search": GreedySearch(32)},
    {"family": StudentT("diag", df=(3.0, 8.0))},
]
slow = pytest.mark.slow
KILLED = [
    (LOGISTIC, {}, 1),
    *(pytest.param(case, {}, 1, marks=slow) for case in OTHERS.values()),
    *(pytest.param(LOGISTIC, way, 2, marks=slow) for way in WAYS),
]


@pytest.mark.parametrize(("case", "settings", "after"), KILLED)
def test_a_killed_fit_goes_on(case, settings, after, tmp_path):
    path, settings = tmp_path / "fit.npz", settings | {"max_iter": after + 2}
    plain = case.fit(**settings)
    _, done = on_disk(case.new(**settings), case, path, killed_after=after)
    assert path.exists() and done == after
    again, done = on_disk(case.new(**settings), case, path)
    same_fit(case, plain, again)
    # It did go on: what was done is not done again.
    assert done == plain.n_iter_ - after
    # And what was done altogether is not done at all.
    again, done = on_disk(case.new(**settings), case, path)
    same_fit(case, plain, again)
    assert done == 0


def test_a_warm_start_is_kept_as_it_goes_on(tmp_path):
    settings = {"warm_start": True, "prior_scale": 1.0, "tol": 0.0}
    model = LOGISTIC.new(**settings, max_iter=1)
    model, _ = on_disk(model, LOGISTIC, tmp_path / "run")
    size = os.path.getsize(tmp_path / "run")
    model, n = on_disk(model.set_params(max_iter=2), LOGISTIC, tmp_path / "run")
    assert n == 1 and os.path.getsize(tmp_path / "run") > size
    again = LOGISTIC.fit(max_iter=2, prior_scale=1.0, tol=0.0)
    assert model.elbo_path_ == pytest.approx(again.elbo_path_)


@over("name", EVERY, slow=EVERY.keys() - {"two classes", "groups, normal"})
def test_a_finished_fit_goes_on_to_more_iterations(name, tmp_path):
    case, path = EVERY[name], tmp_path / "fit.npz"
    first, _ = on_disk(case.new(max_iter=1), case, path)
    assert path.exists()
    again, done = on_disk(case.new(max_iter=3), case, path)
    plain = case.fit(max_iter=3)
    same_fit(case, again, plain)
    assert done == plain.n_iter_ - first.n_iter_


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
    calls = []

    def density(theta):
        calls.append(len(theta))
        if len(calls) == kill_at:
            raise KeyboardInterrupt
        return two_bumps(theta)

    def run(**more):
        calls.clear()
        few = {"search": GreedySearch(32), "max_iter": 3, "tol": 0.0, "random_state": 0}
        return boost_posterior(density, 2, vectorized=True, **few | settings | more)

    kill_at = None
    plain = run()
    kill_at = 3 * len(calls) // 4
    checkpoint = Checkpoint(tmp_path / "run.npz")
    with pytest.raises(KeyboardInterrupt):
        run(callback=checkpoint)
    kill_at = None
    again = run(callback=checkpoint)
    for name in ("elbo", "elbo_se", "remaining_kl", "message"):
        assert getattr(again, name) == getattr(plain, name), name
    # Three draws tell whether the density is the same.
    assert again.n_evaluations - plain.n_evaluations in (0, 3)
    theta = plain.posterior.sample(20, random_state=0)
    for one, two in zip(again.stages, plain.stages, strict=True):
        assert np.array_equal(one.log_density(theta), two.log_density(theta))


def test_how_often(tmp_path):
    class Files(Hook):
        """Notes the size of the file where an iteration begins."""

        def on_fit_task_begin(self, estimator, context, *, metadata=None):
            if context.task_name == "iteration":
                found = path.stat().st_mtime_ns if path.exists() else None
                self.metadata.append(found)

    def written(**often):
        path.unlink(missing_ok=True)
        model, files = LOGISTIC.new(max_iter=3, orbit=None), Files()
        model.set_callbacks(Checkpoint(path, **often), files).fit(**LOGISTIC.data())
        # The last is written in any case.
        assert path.exists()
        return len({*files.metadata, path.stat().st_mtime_ns} - {None})

    path = tmp_path / "x.npz"
    assert (written(every=1), written(every=2), written(seconds=1e6)) == (3, 2, 1)


# --- what is refused


@pytest.fixture(scope="module")
def of_one_fit(tmp_path_factory):
    path = tmp_path_factory.mktemp("once") / "fit.npz"
    on_disk(LOGISTIC.new(max_iter=1), LOGISTIC, path)
    return path.read_bytes()


@pytest.fixture
def written(of_one_fit, tmp_path):
    """A file of its own for every test."""
    (tmp_path / "fit.npz").write_bytes(of_one_fit)
    return tmp_path / "fit.npz"


def refit(path, **settings):
    return on_disk(LOGISTIC.new(max_iter=1, **settings), LOGISTIC, path)[0]


def test_other_parameters_are_refused(written):
    with pytest.raises(ValueError, match="another fit: prior_scale was .* and is 2"):
        refit(written, prior_scale=2.0)
    with pytest.raises(ValueError, match="another fit: random_state was 0 and is 1"):
        refit(written, random_state=1)
    # What decides nothing may change.
    assert refit(written, n_jobs=2, max_time=100.0).n_iter_ == 1
    model = LOGISTIC.new(max_iter=1).set_callbacks(Checkpoint(written))
    search = GridSearchCV(model, {"prior_scale": [1.0, 2.0]}, cv=2, error_score="raise")
    with pytest.raises(ValueError, match="another fit|same data"):
        search.fit(**LOGISTIC.data())


@pytest.mark.parametrize("change", [lambda X: 1.0001 * X, lambda X: X[:, :1]])
def test_other_data_are_refused(written, change):
    model = LOGISTIC.new(max_iter=1).set_callbacks(Checkpoint(written))
    with pytest.raises(ValueError, match="same data and the same model"):
        model.fit(change(LOGISTIC.X), LOGISTIC.y)
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


# Functions, what is imported into a module, dotted names and other rooms; of other
# packages not even the module is imported.
LOOKED_UP = [
    "os system", "numpy load", "skboost.fitting._boost boost", "this.is.nowhere Run",
    "skboost.fitting._run End", "skboost.fitting._run Run.__init__",
    "skboost.callbacks Checkpoint", "skboost.dask._estimators WorkerTables",
]  # fmt: skip


@pytest.mark.parametrize(
    "forged",
    [
        lambda trap: pickle.dumps(Calls(os.mkdir, trap)),
        lambda trap: pickle.dumps(Calls(eval, "1 + 1")),
        *LOOKED_UP,
    ],
)
def test_a_file_runs_no_code_of_its_own(forged, written):
    trap = written.parent / "trap"
    with open(written, "rb") as file:
        header = [pickle.load(file) for _ in range(2)]
    told = forged.split() if isinstance(forged, str) else None
    run = names(*told) if told else forged(str(trap))
    written.write_bytes(b"".join([*map(pickle.dumps, header), run]))
    with pytest.raises(ValueError, match=r"written by skboost\.callbacks") as error:
        refit(written)
    assert "a checkpoint holds no" in str(error.value.__cause__)
    assert not trap.exists()


def test_what_means_nothing_is_refused(tmp_path):
    for wrong in ({"every": 0}, {"every": 1.5}, {"seconds": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Checkpoint("fit.npz", **wrong)
    for state in (None, np.random.RandomState(0)):
        with pytest.raises(ValueError, match="random_state to be an integer"):
            refit(tmp_path / "fit.npz", random_state=state)


KEPT_OTHERWISE = {
    **{name: (case.new(), "warm_start=True") for name, case in SVI.items()},
    **{one.__name__: (one(), "partial_fit") for one in ONLINE},
    "search": (EvidenceSearch(LOGISTIC.new(), {}), "one candidate at a time"),
}


@pytest.mark.parametrize(
    ("model", "instead"), KEPT_OTHERWISE.values(), ids=KEPT_OTHERWISE
)
def test_estimators_that_write_none_say_what_to_do_instead(model, instead, tmp_path):
    hook = Hook()
    model.set_callbacks(hook)
    with pytest.raises(ValueError, match=f"takes no Checkpoint.*{instead}"):
        model.set_callbacks(Checkpoint(tmp_path / "fit.npz"), hook)
    assert registered_callbacks(model) == [hook]


def test_all_others_are_boosted():
    public = [getattr(skboost, name) for name in skboost.__all__]
    hearing = {one for one in public if hasattr(one, "set_callbacks")}
    refusing = {type(model) for model, _ in KEPT_OTHERWISE.values()}
    assert hearing - refusing == {type(case.estimator) for case in EVERY.values()}


def test_batches_take_no_notice(tmp_path):
    path, data = tmp_path / "fit.npz", LOGISTIC.data()
    LOGISTIC.new().set_callbacks(Checkpoint(path)).partial_fit(**data)
    assert not path.exists()


@pytest.mark.parametrize("kind", GROUPED)
def test_a_checkpoint_is_named_where_there_is_no_warm_start(kind):
    with pytest.raises(TypeError, match=r"no parameter 'warm_start'.*Checkpoint\(path"):
        kind(warm_start=True)


def test_a_full_disk_keeps_the_earlier_file_and_the_fit(written, monkeypatch):
    before = written.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(CheckpointWarning, match="No space left on device"):
        model, _ = on_disk(LOGISTIC.new(), LOGISTIC, written)
    assert written.read_bytes() == before
    assert [path.name for path in written.parent.iterdir()] == [written.name]
    same_fit(LOGISTIC, model, LOGISTIC.fit())
