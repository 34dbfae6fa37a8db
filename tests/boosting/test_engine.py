"""The engine: pure steps, immutable states, weights that move as they should."""

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.approximation import FreshDraws, Mixture, PooledDraws
from skboost.boosting import SimplexIterate
from skboost.families import FullGaussian

from ..kinds import over

STEP_SIZES = ["line-search", "adaptive", "predefined", 0.3]


def arrays_of(value):
    """All arrays that a state holds, however deep."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from arrays_of(part)
    elif hasattr(value, "__dataclass_fields__"):
        for field in fields(value):
            yield from arrays_of(getattr(value, field.name))


def iterate(engine, n):
    """States and reports of the first n iterations."""
    state, info = engine.init()
    states, infos = [state], [info]
    while len(states) < n:
        state, info = engine.step(state)
        states.append(state)
        infos.append(info)
    return states, infos


def test_state_and_info_are_immutable(engine):
    states, infos = iterate(engine("two modes", n_draws=32, n_fresh=64), 2)
    for value in (*states, *infos):
        for field in fields(value):
            with pytest.raises(FrozenInstanceError):
                setattr(value, field.name, None)
    mixture = states[-1].mixture
    for array in (
        mixture.weights,
        *(component.params for component in mixture.components),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


@pytest.mark.parametrize("corrective", ["away", "fully-corrective"])
def test_a_step_changes_nothing_but_its_result(engine, corrective):
    settings = {"step_size": "adaptive", "n_draws": 32, "n_fresh": 64}
    boosting = engine("two modes", corrective=corrective, **settings)
    (_, state), _ = iterate(boosting, 2)
    before = [array.copy() for array in arrays_of(state)]
    first, _ = boosting.step(state)
    assert all(map(np.array_equal, before, arrays_of(state)))
    again, _ = boosting.step(state)
    assert all(map(np.array_equal, arrays_of(first), arrays_of(again)))


# Where all weights are set anew, there is no step.
RULES = [
    *zip(STEP_SIZES, ["pairwise", "none", "away", "none"], strict=True),
    ("line-search", "fully-corrective"),
]


@pytest.mark.parametrize(("step_size", "corrective"), RULES)
def test_every_iterate_is_a_mixture_with_its_pool(engine, step_size, corrective):
    refine = RULES.index((step_size, corrective)) % 2 == 0
    settings = {"refine": refine, "n_draws": 32, "n_fresh": 128}
    boosting = engine(
        "two modes", corrective=corrective, step_size=step_size, **settings
    )
    states, infos = iterate(boosting, 3)
    for t, (state, info) in enumerate(zip(states, infos, strict=True), 1):
        weights = state.mixture.weights
        assert state.iteration == info.iteration == t
        assert (weights > 0).all()
        assert_allclose(weights.sum(), 1.0)
        assert state.iterate.pool.n_components == len(weights) == info.n_components
        assert_allclose(
            state.iterate.pool.log_components,
            state.mixture.log_components(state.iterate.pool.theta),
        )
        assert state.fresh.mixture is state.mixture
        assert np.isfinite(info.elbo).all()
        assert np.isfinite(state.remaining).all()


def test_a_rejected_step_leaves_the_state(engine):
    # One Gaussian is the target itself: all that is left to gain is noise.
    n_rejected = 0
    for seed in range(2):
        states, infos = iterate(engine("normal", dim=2, seed=seed), 4)
        for k in range(1, 4):
            if infos[k].move.kind != "rejected":
                continue
            n_rejected += 1
            before, after = states[k - 1], states[k]
            # A tenth of the tolerance is what a component has to be worth.
            assert not infos[k].gain.value > 0.1 * 1e-2
            assert after.iteration == before.iteration + 1
            for name in ("iterate", "fresh", "best", "best_iteration"):
                assert getattr(after, name) is getattr(before, name)
            assert infos[k].elbo == infos[k - 1].elbo
    assert n_rejected


@over("step_size", ["predefined", 0.9], slow=[0.9])
def test_steps_that_do_not_minimise_keep_the_best_iterate(engine, step_size):
    settings = {"corrective": "none", "refine": False, "n_fresh": 128}
    boosting = engine("two modes", step_size=step_size, **settings)
    assert not boosting.combination.monotone
    states, _ = iterate(boosting, 5)
    last = states[-1]
    best = states[last.best_iteration - 1]
    assert last.best is best.fresh
    assert last.best.mixture is best.mixture
    noise = max(state.fresh.elbo().se for state in states)
    top = max(state.fresh.elbo().value for state in states)
    assert last.best.elbo().value > top - 4 * noise


def test_max_components_is_a_bound(engine):
    settings = {"max_components": 2, "n_draws": 32, "n_fresh": 128}
    states, _ = iterate(engine("cauchy", **settings), 4)
    assert max(state.mixture.n_components for state in states) <= 2


# --- components that are dropped


def with_a_useless_component(boosting):
    """State with both modes of "far modes" and a component where no mass is."""
    family = FullGaussian()
    parts = [(-8.0, 1.0), (8.0, 1.0), (0.0, 1.0)]
    mixture = Mixture(
        tuple((family, np.array([m, np.log(s)])) for m, s in parts),
        np.array([0.28, 0.67, 0.05]),
    )
    state, _ = boosting.init()
    rng = np.random.default_rng(0)
    base = [family.base_draws(128, 1, rng) for _ in parts]
    fresh = FreshDraws.of(boosting.target, mixture, 512, rng, False)
    return replace(
        state,
        iterate=SimplexIterate(
            mixture, PooledDraws.of(boosting.target, mixture, base, False)
        ),
        fresh=fresh,
        best=fresh,
    )


@pytest.mark.parametrize(
    ("step_size", "corrective"),
    [("line-search", "away"), ("adaptive", "pairwise"), RULES[-1]],
)
def test_useless_components_are_dropped(engine, step_size, corrective):
    boosting = engine(
        "far modes", corrective=corrective, step_size=step_size, refine=False
    )
    state = with_a_useless_component(boosting)
    for _ in range(3):
        state, _ = boosting.step(state)
    means = state.mixture.component_means()[:, 0]
    assert np.abs(np.abs(means) - 8.0).max() < 4.0
    assert state.iterate.pool.n_components == len(means)


def test_an_away_step_adds_no_component(engine):
    boosting = engine("far modes", corrective="away", refine=False)
    state = with_a_useless_component(boosting)
    after, info = boosting.step(state)
    assert info.move.kind == "away"
    assert info.move.branch == "line-search"
    assert after.mixture.n_components == 2


# --- reports


@pytest.mark.parametrize("step_size", ["line-search", "adaptive"])
def test_reports_hold_what_they_say(engine, step_size):
    settings = {"corrective": "none", "refine": False}
    _, infos = iterate(engine("cauchy", step_size=step_size, **settings), 4)
    first, *others = infos
    assert first.move.kind == "first"
    assert np.isnan(first.gain.value)
    for info in others:
        assert info.move.kind in ("frank-wolfe", "rejected")
        assert 0 <= info.move.gamma <= 1
        assert info.gain.se >= 0
        assert 0 <= info.move.seconds <= info.seconds
        assert np.isfinite(info.entropy)
        if step_size == "adaptive":
            assert info.move.branch in ("adaptive", "fallback", "zero")
        assert (info.move.curvature is not None) == (info.move.branch == "adaptive")
