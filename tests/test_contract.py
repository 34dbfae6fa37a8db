"""What every boosted estimator promises, whatever it models."""

import copy
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from skboost.callbacks import ELBOMonitor
from skboost.families import LowRankGaussian
from skboost.frank_wolfe import CORRECTIVE, STEP_SIZES
from skboost.strategies import AdaptiveBacktracking, GreedySearch

from .cases import EVERY, HIERARCHICAL, KINDS, each, fitted, same_fit
from .conftest import Hook, interrupted

# These go the way of another through a fit.
LIKE_OTHERS = (
    "ordered classes", "normal", "poisson", "groups, poisson", "groups, classes",
    "groups, ordered", "three classes",
)  # fmt: skip
every = each(KINDS, slow=LIKE_OTHERS)
# What the one `fit` of boosted estimators does, whatever it fits.
every_way = each(
    {k: v for k, v in KINDS.items() if k not in LIKE_OTHERS}, slow=["factorisation"]
)
with_stages = each(
    {k: v for k, v in KINDS.items() if k not in HIERARCHICAL}, slow=LIKE_OTHERS
)
# One model of each engine room: densities, conjugate models, factorisations.
ENGINES = {k: KINDS[k] for k in ("two classes", "mixture", "factorisation")}
one_of_each = each(ENGINES)


def report(model):
    """What takes further evaluations, which are made when it is asked for."""
    return (
        model.elbo_, model.elbo_se_, model.remaining_kl_, model.remaining_kl_se_,
        model.remaining_kl_interval_, model.pareto_k_, model.message_,
    )  # fmt: skip


def states(model):
    """Names of fitted attributes."""
    names = (name for name in dir(model) if name[-1] == "_" != name[0])
    return {name for name in names if hasattr(model, name)}


# --- attributes


@every
def test_a_fit_tells_what_it_did(name):
    model = fitted(name)
    n = model.n_iter_
    assert n == model.max_iter and not model.converged_
    assert isinstance(model.message_, str) and isinstance(model.converged_, bool)
    for path in ("elbo_path_", "gain_path_", "duality_gap_path_"):
        assert getattr(model, path).shape == (n,)
        assert np.isfinite(getattr(model, path)[1:]).all()
    assert model.duality_gap_ == model.duality_gap_path_[-1] or n == 1
    for number in ("elbo_", "elbo_se_", "remaining_kl_", "remaining_kl_se_"):
        assert isinstance(getattr(model, number), float), number
    low, high = model.remaining_kl_interval_
    assert low <= high and 0.0 <= high
    assert [record["iteration"] for record in model.history_] == [*range(1, n + 1)]
    wanted = {"kind", "gamma", "curvature", "n_components", "seconds", "elbo"}
    assert all(wanted <= record.keys() for record in model.history_)
    assert [record["elbo"] for record in model.history_] == [*model.elbo_path_]
    assert model.posterior_.weights.sum() == pytest.approx(1.0)
    assert model.n_features_in_ == KINDS[name].X.shape[1]


@every
def test_nothing_is_known_before_a_fit(name):
    case = KINDS[name]
    model = case.new()
    assert not states(model)
    with pytest.raises(NotFittedError):
        case.answer(model)
    if name not in HIERARCHICAL:
        with pytest.raises(NotFittedError):
            case.stages(model)
    assert not states(clone(fitted(name)))


# --- the same seed, the same fit


@every
def test_a_seed_decides_whatever_was_before_and_what_is_given_is_left_alone(name):
    case, data = KINDS[name], KINDS[name].data()
    before, again = copy.deepcopy(data), copy.deepcopy(fitted(name, max_iter=1))
    params = again.set_params(n_jobs=2, max_iter=fitted(name).max_iter).get_params()
    same_fit(case, fitted(name), again.fit(**data))
    for key, value in before.items():
        np.testing.assert_array_equal(data[key], value)
    if name == "two classes":
        states = (np.random.RandomState(seed) for seed in (3, 3, 4))
        one, two, other = (case.fit(random_state=state, max_iter=1) for state in states)
        same_fit(case, one, two)
        assert one.elbo_ != other.elbo_
    assert all(again.get_params()[key] is value for key, value in params.items())


@every
def test_rows_that_change_after_a_fit_give_no_silent_numbers(name, monkeypatch):
    case, data = KINDS[name], copy.deepcopy(KINDS[name].data())
    # As if they were large: such rows are not copied.
    monkeypatch.setattr("skboost._rows.MAX_BYTES", 0)
    model, expected = case.new().fit(**data), report(case.fit())
    for value in data.values():
        if value.dtype.kind == "f":
            value[:] = 1.5 * value[::-1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = report(model)
    if any("changed in place" in str(one.message) for one in caught):
        assert np.isfinite(found[:2]).all()
    else:
        assert found == expected


# Of a likelihood with groups and without, and of all others in the slow tests.
WEIGHTED = {"two classes", "normal", "poisson", "groups, normal", "mixture"}


@each(EVERY, "set_fit_request", slow={*EVERY} - WEIGHTED)
def test_weights_are_repetitions_in_any_order(name):
    case = EVERY[name]
    weight = np.random.default_rng(0).integers(0, 4, len(case.X))
    rows = np.random.default_rng(1).permutation(
        np.repeat(np.arange(len(weight)), weight)
    )
    weighted = case.new(max_iter=1).fit(**case.data(), sample_weight=weight)
    repeated = case.new(max_iter=1).fit(**case.data(rows))
    if name not in HIERARCHICAL:
        same_fit(case, weighted, repeated)
    np.testing.assert_allclose(case.answer(weighted), case.answer(repeated), atol=1e-8)
    assert weighted.elbo_ == pytest.approx(repeated.elbo_)


# --- stages and limits


@with_stages
def test_stages_are_shorter_fits_and_end_at_the_fit(name):
    case, model = KINDS[name], fitted(name)
    stages = case.stages(model)
    assert len(stages) == model.n_iter_ == 2
    short = fitted(name, max_iter=1)
    assert short.n_iter_ == 1 and "max_iter=1" in short.message_
    np.testing.assert_array_equal(stages[0], case.answer(short))
    np.testing.assert_array_equal(stages[1], case.answer(model))
    assert short.elbo_path_ == model.elbo_path_[:1]
    # A step that gained nothing is refused, or the mixture before it is kept.
    stayed = model.history_[1]["kind"] == "rejected" or "Kept" in model.message_
    assert (np.abs(stages[1] - stages[0]).max() > 0.0) == (not stayed)


@every_way
def test_time_that_is_over_leaves_a_whole_fit(name):
    case = KINDS[name]
    model = case.fit(max_time=1e-9, max_iter=1000)
    assert model.n_iter_ == 1 and not model.converged_
    assert "max_time" in model.message_
    assert np.isfinite(case.answer(model)).all() and np.isfinite(model.elbo_)
    assert states(model) == states(fitted(name))


@every_way
def test_a_wide_tolerance_is_reached_at_once(name):
    model = KINDS[name].fit(tol=1e9, max_iter=50)
    # One iteration for every node that was found, and one search.
    n_nodes = len(getattr(model, "explanations_", model.posterior_.weights))
    # Where nothing says how much an approximate marginal density misses, no word is.
    assert model.converged_ or np.isinf(model.remaining_kl_interval_[1])
    assert model.n_iter_ <= n_nodes + 1


# --- strategies


# The defaults of mixtures and factorisations are in every other test of theirs.
MOVES = [
    ("two classes", "line-search", "fully-corrective"),
    ("two classes", "predefined", "pairwise"),
    ("mixture", "adaptive", "away"),
    ("factorisation", "predefined", "pairwise"),
]


@pytest.mark.parametrize(("name", "step_size", "corrective"), MOVES)
def test_every_way_to_move_weights(name, step_size, corrective):
    case = KINDS[name]
    assert corrective in CORRECTIVE and len(STEP_SIZES) == 3
    model = case.fit(step_size=step_size, corrective=corrective, max_iter=3)
    assert model.posterior_.weights.sum() == pytest.approx(1.0)
    assert np.isfinite(model.elbo_) and np.isfinite(case.answer(model)).all()
    if step_size == "line-search":
        # Steps that minimise never lose more than the noise of fresh draws.
        noise = np.array([record["elbo_se"] for record in model.history_])
        falls = -np.diff(model.elbo_path_)
        assert (falls < 3.0 * np.hypot(noise[1:], noise[:-1]) + 1e-9).all()


@each(KINDS, "objective", slow=LIKE_OTHERS)
@pytest.mark.parametrize(
    ("objective", "family"),
    [
        ("kl", "laplace"),
        ("relbo", "student_t"),
        ("relbo", LowRankGaussian(rank=1)),
        ("hellinger", "gaussian"),
    ],
    ids=str,
)
def test_every_objective_and_family_refined(name, objective, family):
    case = KINDS[name]
    settings = {"objective": objective, "family": family, "step_size": "line-search"}
    model = case.fit(search=GreedySearch(32), **settings)
    assert np.isfinite(model.elbo_) and np.isfinite(case.answer(model)).all()
    assert {record["kind"] for record in model.history_} - {"first"}


@each(KINDS, "objective", slow=LIKE_OTHERS)
def test_both_rules_of_stopping_and_a_limit_of_components(name):
    for stopping in ("gain", "gap"):
        search = GreedySearch(32, stopping=stopping)
        model = KINDS[name].fit(search=search, tol=1e9, max_iter=9)
        n_nodes = len(getattr(model, "explanations_", [None]))
        assert model.converged_ and model.n_iter_ <= n_nodes + 1
    model = KINDS[name].fit(search=GreedySearch(max_components=1))
    assert model.posterior_.n_components == 1


# --- going on


LONG_FITS = [
    *(
        pytest.param(name, {}, marks=pytest.mark.slow)
        for name in [*KINDS, "three classes"]
        if name not in HIERARCHICAL
    ),
    pytest.param("normal", {"prior_scale": "learn"}, id="learned scale"),
    pytest.param(
        "two classes",
        {"step_size": "adaptive", "corrective": "away", "family": "laplace"},
        id="moves away",
    ),
    pytest.param(
        "factorisation", {"proposal": "residual"}, marks=pytest.mark.slow, id="residual"
    ),
]


@pytest.mark.parametrize(("name", "settings"), LONG_FITS)
def test_a_warm_start_is_one_long_fit(name, settings):
    """One iteration, a pickle, and then the rest."""
    case = EVERY[name]
    warm = case.fit(max_iter=1, warm_start=True, **settings)
    warm = pickle.loads(pickle.dumps(warm)).set_params(max_iter=3)
    warm.fit(**case.data())
    same_fit(case, warm, fitted(name, max_iter=3, **settings))
    # Where it is done another fit changes nothing.
    before = case.answer(warm)
    np.testing.assert_array_equal(case.answer(warm.fit(**case.data())), before)


@each(ENGINES, slow=["mixture", "factorisation"])
def test_a_warm_start_without_a_seed_goes_on_with_its_own(name):
    case = KINDS[name]
    warm = case.fit(max_iter=1, warm_start=True, random_state=None)
    path = warm.elbo_path_
    warm.set_params(max_iter=2).fit(**case.data())
    assert np.array_equal(warm.elbo_path_[:1], path) and warm.n_iter_ == 2


# Factors may go on with other entries.
OTHER_DENSITIES = [
    *((name, "rows") for name in ("two classes", "mixture")),
    *((name, "responses") for name in ("two classes", "normal", "poisson")),
    ("two classes", {"temperature": 0.5}),
    # Mixtures whose components are others can not go on either.
    ("two classes", {"family": "gaussian-full"}),
    ("two classes", {"objective": "hellinger", "step_size": "line-search"}),
    ("mixture", {"temperature": 0.5}),
    ("mixture", {"n_components": 3}),
    ("mixture", {"mean_prior_type": "independent"}),
    ("factorisation", {"n_components": 3}),
]


@cache
def begun(name):
    """A pickle of a fit that may go on."""
    return pickle.dumps(KINDS[name].fit(max_iter=1, warm_start=True))


@pytest.mark.parametrize(("name", "change"), OTHER_DENSITIES, ids=str)
def test_a_warm_start_needs_the_same_density(name, change):
    case, warm = KINDS[name], pickle.loads(begun(name))
    before, data = case.answer(warm), case.data()
    if change == "rows":
        data["X"] = 1.5 * case.X
    elif change == "responses":
        data["y"] = case.y[::-1]
    else:
        warm.set_params(**change)
    warm.set_params(max_iter=2)
    with pytest.raises(ValueError, match="warm_start=True"):
        warm.fit(**data)
    warm.set_params(**case.new().get_params())
    np.testing.assert_array_equal(case.answer(warm), before)


# --- failures


@every
def test_a_fit_that_fails_leaves_the_one_before_or_none(name):
    case = KINDS[name]
    bad = case.X.copy()
    bad[0, 0] = np.inf
    model = case.new(max_iter=1)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(**case.data() | {"X": bad})
    assert not states(model)
    model = copy.deepcopy(fitted(name, max_iter=1))
    before, known = case.answer(model), report(model)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(**case.data() | {"X": bad})
    with pytest.raises(ValueError, match="'tol' parameter"):
        model.set_params(tol=-1.0).fit(**case.data())
    np.testing.assert_array_equal(case.answer(model), before)
    assert report(model) == known


@each(ENGINES, slow=["mixture"])
def test_an_error_in_a_callback_leaves_the_old_fit(name):
    case, model = KINDS[name], copy.deepcopy(fitted(name))
    before, hook = case.answer(model), Hook(fails_at=2, error=RuntimeError)
    with pytest.raises(RuntimeError):
        model.set_params(max_iter=3).set_callbacks(hook).fit(**case.data(slice(9)))
    assert hook.calls[-1] == "teardown"
    np.testing.assert_array_equal(case.answer(model), before)
    if name == "two classes":  # nothing of it gets in the way of the next fit
        model.set_params(max_iter=2).set_callbacks().fit(**case.data())
        same_fit(case, model, fitted(name))


# --- callbacks


@every_way
def test_callbacks_hear_of_every_iteration_and_change_nothing(name):
    case, hook, monitor = KINDS[name], Hook(), ELBOMonitor()
    more = [ScoringMonitor(scoring="neg_log_loss")] if name == "two classes" else []
    model = case.new().set_callbacks(monitor, hook, *more).fit(**case.data())
    n = model.n_iter_
    assert hook.calls == [
        "setup", "begin fit", *n * ["begin iteration", "end iteration"], "end fit",
        "teardown",
    ]  # fmt: skip
    same_fit(case, model, fitted(name))
    # They are given an estimator that answers, and the data that fit was given.
    assert [model.n_iter_ for *_, model in hook.heard] == [*range(1, n + 1), n]
    for stage, (X, y, seen) in zip(
        [] if name in HIERARCHICAL else case.stages(model), hook.heard, strict=False
    ):
        np.testing.assert_allclose(case.answer(seen), stage)
        assert X.shape == case.X.shape and (y is None) == (case.y is None)
    assert [record["iteration"] for record in monitor.records] == [*range(1, n + 1)]
    for record, expected in zip(monitor.records, model.history_, strict=True):
        np.testing.assert_equal(record, expected)


@each(KINDS, "set_fit_request", slow=(*LIKE_OTHERS, "mixture"))
def test_callbacks_get_what_the_user_passed(name):
    case, hook = KINDS[name], Hook()
    weight = np.ones(len(case.X))
    case.new(max_iter=1).set_callbacks(hook).fit(**case.data(), sample_weight=weight)
    for metadata in hook.metadata:
        assert metadata["sample_weight"] is weight
        assert metadata.keys() >= case.offset.keys()


@every_way
def test_a_callback_stops_the_fit(name):
    case = KINDS[name]
    model = case.new(max_iter=9).set_callbacks(Hook(stops_at=1)).fit(**case.data())
    assert model.n_iter_ == 1 and not model.converged_
    assert "callback" in model.message_
    short = fitted(name, max_iter=1)
    np.testing.assert_array_equal(case.answer(model), case.answer(short))


def test_the_monitor_waits_for_its_patience_and_forgets_an_earlier_fit():
    case, monitor = KINDS["two classes"], ELBOMonitor(patience=2, tol=1e6)
    model = case.new(max_iter=9).set_callbacks(monitor).fit(**case.data())
    assert model.n_iter_ == 3 and "callback" in model.message_
    model = case.new(warm_start=True).set_callbacks(monitor)
    # It hears of the iterations of a warm start only.
    for max_iter, heard in ((2, [1, 2]), (9, [3, 4])):
        model.set_params(max_iter=max_iter).fit(**case.data())
        assert [record["iteration"] for record in monitor.records] == heard
    for patience in (0, -1, 1.5):
        with pytest.raises(ValueError, match="patience"):
            ELBOMonitor(patience=patience)


def test_the_monitor_and_parameters_of_strategies_go_through_a_search():
    case, monitor = KINDS["two classes"], ELBOMonitor()
    model = case.new(max_iter=1, step_size=AdaptiveBacktracking())
    search = GridSearchCV(model.set_callbacks(monitor), {"step_size__decrease": [0.25]})
    model = search.set_params(cv=2).fit(**case.data()).best_estimator_
    assert [record["iteration"] for record in monitor.records] == [1]
    assert model.get_params()["step_size__decrease"] == 0.25


# --- interruption


@every_way
def test_an_interrupted_fit_keeps_the_iterations_done(name):
    case = KINDS[name]
    kept = interrupted(case.new(max_iter=4), case.data(), 1)
    short = fitted(name, max_iter=1)
    assert states(kept) == states(fitted(name))
    assert kept.n_iter_ == len(kept.history_) == 1 and not kept.converged_
    assert kept.message_.startswith("Interrupted")
    np.testing.assert_array_equal(kept.elbo_path_, short.elbo_path_)
    if name not in HIERARCHICAL:  # whose effects are drawn after corrections
        np.testing.assert_array_equal(case.answer(kept), case.answer(short))
    # There is no last report, which would take more evaluations.
    told = kept.history_[-1]["elbo"]
    if "components to begin with" in short.message_:
        # The node counts as a coordinate there, which lowers a bound.
        assert told < kept.elbo_ + 2 * kept.elbo_se_
    else:
        assert kept.elbo_ == told
    again = pickle.loads(pickle.dumps(kept))
    np.testing.assert_array_equal(case.answer(again), case.answer(kept))


@each(KINDS, "warm_start", "step_size", slow=(*LIKE_OTHERS, "factorisation"))
def test_an_interrupted_fit_goes_on_and_may_be_interrupted_again(name):
    case = KINDS[name]
    kept = interrupted(case.new(max_iter=3), case.data(), 1)
    kept = pickle.loads(pickle.dumps(kept.set_params(warm_start=True)))
    interrupted(kept, case.data(), 1)
    assert kept.n_iter_ == 2
    same_fit(case, kept.fit(**case.data()), fitted(name, max_iter=3))


@one_of_each
def test_without_a_new_iteration_the_old_fit_stays(name):
    case = KINDS[name]
    assert not states(interrupted(case.new(), case.data(), 1, "begin"))
    model = copy.deepcopy(fitted(name)).set_params(max_iter=4)
    for warm_start in (False, True):
        model.set_params(warm_start=warm_start)
        same_fit(case, interrupted(model, case.data(), 1, "begin"), fitted(name))
    # A new iteration replaces an older fit.
    interrupted(model.set_params(warm_start=False), case.data(), 1)
    assert model.n_iter_ == 1


@each(KINDS, "partial_fit", slow=LIKE_OTHERS)
@pytest.mark.parametrize(
    ("first", "error"), [(True, KeyboardInterrupt), (False, MemoryError)]
)
def test_partial_fit_is_done_or_not(name, first, error):
    # Kept half-way, the same rows could not be passed again without counting twice.
    case = KINDS[name]
    model = case.new() if first else case.fit()
    before, hook = states(model), Hook(fails_at=2, error=error)
    with pytest.raises(error):
        model.set_callbacks(hook).partial_fit(**case.data())
    assert states(model) == before
    assert first or np.array_equal(case.answer(model), case.answer(fitted(name)))


# --- pickles


@every
def test_pickles_answer_and_hold_no_rows(name):
    case, model = KINDS[name], fitted(name)
    data = pickle.dumps(model)
    assert (
        case.X.tobytes() not in data and np.asfortranarray(case.X).tobytes() not in data
    )
    for again in (pickle.loads(data), copy.deepcopy(model)):
        same_fit(case, again, model)
        assert again.get_params().keys() == model.get_params().keys()
    if "warm_start" in model.get_params():
        # What goes on is kept only where it is wanted.
        warm = case.fit(max_iter=1, warm_start=True)
        size = len(pickle.dumps(warm))
        assert len(pickle.dumps(warm.set_params(warm_start=False))) < size
