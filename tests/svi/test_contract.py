"""What estimators by natural gradients promise, whatever they model."""

import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skboost.callbacks import ELBOMonitor
from skboost.strategies import LearningRate, RobbinsMonro

from ..cases import SVI, same_fit
from ..conftest import Hook, interrupted

BATCHES = {"batch_size": 15, "effective_batch_size": 5}
every = pytest.mark.parametrize("case", SVI.values(), ids=SVI)
FACTORS = SVI["svi, factors"]
# Batches of factors take as long as all others together.
both = pytest.mark.parametrize(
    ("case", "settings"),
    [
        pytest.param(
            case, settings, id=f"{name}, {rows}",
            marks=[pytest.mark.slow] * (case is FACTORS and rows == "batches"),
        )
        for name, case in SVI.items()
        for rows, settings in (("all", {}), ("batches", BATCHES))
    ],
)  # fmt: skip


# --- a run, and several


@both
def test_a_fit_tells_what_it_did(case, settings):
    model = case.fit(**settings)
    assert model.n_iter_ == len(model.history_) == len(model.elbo_path_) == 4
    assert model.elbo_ == model.elbo_path_[-1] and not model.converged_
    assert "max_iter" in model.message_
    if not settings:
        gains = np.diff(model.elbo_path_)
        assert (gains > -1e-9 * abs(model.elbo_)).all()
        assert model.noise_shrunk_ == 0.0
    else:
        assert model.history_[0]["n_steps"] >= 3
        assert 0.0 <= model.noise_shrunk_ <= 1.0


@pytest.mark.parametrize(
    ("case", "settings"),
    [
        (SVI["svi, mixture"], BATCHES),
        (FACTORS, {}),
        pytest.param(SVI["svi, topics"], BATCHES, marks=pytest.mark.slow),
    ],
)
def test_the_best_of_several_runs_is_kept_whatever_the_number_of_jobs(case, settings):
    one, two = (case.fit(n_init=3, n_jobs=n, **settings) for n in (1, 2))
    same_fit(case, one, two)
    assert_array_equal(one.elbo_by_init_, two.elbo_by_init_)
    assert one.elbo_ == one.elbo_by_init_.max() and np.ptp(one.elbo_by_init_) > 0.0
    other = case.fit(n_init=3, random_state=1, **settings)
    assert other.elbo_ != one.elbo_


def test_runs_in_plain_processes_are_the_same():
    case = SVI["svi, mixture"]
    expected = case.fit(n_init=2).elbo_by_init_
    with joblib.parallel_config("multiprocessing", n_jobs=2):
        assert_array_equal(case.fit(n_init=2).elbo_by_init_, expected)


@every
def test_coordinate_ascent_converges_and_says_so(case):
    model = case.fit(max_iter=2000, tol=1e-3)
    assert model.converged_ and model.n_iter_ < 2000
    assert case.fit(max_iter=10_000, max_time=1e-3).message_.startswith(
        "Stopped at max_time=0.001"
    )


# --- going on


@both
def test_a_warm_start_is_one_long_run(case, settings):
    warm = case.fit(max_iter=2, warm_start=True, **settings)
    warm = pickle.loads(pickle.dumps(warm)).set_params(max_iter=6)
    same_fit(case, warm.fit(case.X), case.fit(max_iter=6, **settings))


@every
def test_one_epoch_at_a_time_climbs_until_it_converges(case):
    step, n = case.new(max_iter=1, tol=1e-2, warm_start=True), 0
    while not n or not step.converged_:
        n += 1
        assert step.fit(case.X).n_iter_ == n < 1000
    same_fit(case, step, case.fit(max_iter=1000, tol=1e-2))
    assert step.fit(case.X).n_iter_ == n


OTHER_MODELS = {
    "svi, mixture": [
        {"n_components": 2}, {"covariance_type": "diag"}, {"temperature": 0.5},
        {"reg_covar": 0.5}, {"weight_concentration_prior_type": "dirichlet_process"},
    ],
    "svi, factors": [{"n_components": 3}, {"noise_scale": 0.5}],
    "svi, topics": [{"n_components": 2}, {"temperature": 0.5}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "changed"),
    [(SVI[name], changed) for name, each in OTHER_MODELS.items() for changed in each],
)
def test_going_on_with_another_model_is_refused(case, changed):
    model = case.fit(warm_start=True)
    before = case.answer(model)
    known = {key: model.get_params()[key] for key in changed}
    model.set_params(**changed)
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="goes on with the same model"):
            getattr(model, method)(case.X)
    assert_array_equal(case.answer(model.set_params(**known)), before)


# --- streams


@every
def test_a_stream_goes_on_after_fit_without_the_report_of_a_run(case):
    model = case.fit()
    of_runs = {"elbo_path_", "elbo_by_init_", "converged_", "message_", "history_"}
    assert of_runs <= set(vars(model))
    before = model.n_iter_
    more = case.X[:20] if case is not FACTORS else np.full((42, 8), 1.0)
    model.partial_fit(more)
    assert model.n_iter_ > before and not of_runs & set(vars(model))
    same_fit(case, model.fit(case.X), case.fit())


# --- schedules


class Gap(LearningRate):
    def at(self, step):
        return float("nan") if step == 2 else 0.5


@every
@pytest.mark.parametrize("batch_size", [None, 15])
def test_a_schedule_that_leaves_the_interval_later_is_named(case, batch_size):
    model = case.new(learning_rate=Gap(), batch_size=batch_size)
    stream = case.new(learning_rate=Gap(), batch_size=15)
    # Factors learn new entries by coordinate ascent.
    for call in (model.fit, model.fit if case is FACTORS else stream.partial_fit):
        with pytest.raises(ValueError, match=r"rates in \(0, 1\]; got nan at step 2"):
            call(case.X)


@every
def test_schedules_are_asked_about_every_step(case):
    seen = []

    def growing(step):
        seen.append(step)
        return 3.0 * step

    case.fit(effective_batch_size=growing, batch_size=15, max_iter=2)
    assert set(seen) == set(range(1, max(seen) + 1)) and max(seen) >= 6
    rate = RobbinsMonro(delay=4.0, forgetting=0.6)
    model = case.fit(learning_rate=rate, batch_size=15, max_iter=1)
    n_steps = model.history_[0]["n_steps"]
    expected = (n_steps + 4.0) ** -0.6
    assert model.history_[0]["learning_rate"] == pytest.approx(expected)


# --- callbacks and failures


@every
def test_a_callback_stops_a_run(case):
    monitor = ELBOMonitor(patience=1, tol=np.inf)
    model = case.new(max_iter=50, **BATCHES).set_callbacks(monitor).fit(case.X)
    assert model.n_iter_ == 2 and "callback" in model.message_


@both
def test_an_interrupted_fit_keeps_the_iterations_done_and_goes_on(case, settings):
    data = {"X": case.X}
    kept = interrupted(case.new(**settings), data, 3, "begin")
    assert kept.n_iter_ == 2 and not kept.converged_
    assert kept.message_.startswith("Interrupted")
    short, again = case.fit(max_iter=2, **settings), pickle.loads(pickle.dumps(kept))
    assert kept.elbo_ == short.elbo_
    assert_array_equal(case.answer(again), case.answer(short))
    # A warm start can be interrupted again.
    interrupted(kept.set_params(warm_start=True), data, 1)
    assert kept.n_iter_ == 3
    same_fit(case, kept.fit(case.X), case.fit(**settings))


@every
def test_without_a_new_iteration_the_old_fit_stays(case):
    data, whole = {"X": case.X}, case.fit()
    model = interrupted(case.new(), data, 1, "begin")
    assert not hasattr(model, "n_iter_")
    model.fit(case.X)
    for warm_start in (False, True):
        model.set_params(max_iter=9, warm_start=warm_start)
        same_fit(case, interrupted(model, data, 1, "begin"), whole)
    # Other errors keep nothing of what was done.
    hook = Hook(fails_at=2, error=MemoryError)
    with pytest.raises(MemoryError):
        model.set_params(warm_start=False).set_callbacks(hook).fit(case.X)
    same_fit(case, model, whole)


@every
def test_the_best_of_the_runs_that_began_is_kept(case):
    whole = case.fit(n_init=3, max_iter=5)
    # In the second run, after its second epoch.
    kept = interrupted(case.new(n_init=3, max_iter=5), {"X": case.X}, 7)
    bounds = kept.elbo_by_init_
    assert bounds[0] == whole.elbo_by_init_[0] and np.isnan(bounds[2])
    assert kept.elbo_ == np.nanmax(bounds)


@every
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_rows_leave_the_old_fit(case, method):
    model, bad = case.fit(), case.X.astype(float)
    bad[3, 1] = np.inf
    for rows, words in ((bad, "infinity"), (case.X[:0], "sample")):
        with pytest.raises(ValueError, match=words):
            getattr(model, method)(rows)
    hook = Hook(fails_at=1, error=RuntimeError)
    with pytest.raises(RuntimeError):
        model.set_callbacks(hook).fit(case.X)
    same_fit(case, model.set_callbacks(), case.fit())
