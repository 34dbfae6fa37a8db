"""Steps of the engine: coordinate ascent, noise, and the domain of the parameters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skboost.svi import (
    LEARNING_RATES,
    ConstantRate,
    LearningRate,
    NaturalGradient,
    RobbinsMonro,
    SVILimits,
    as_learning_rate,
    effective_size,
    noise_weights,
    run,
    why_stop,
)

from ..conjugate.conftest import EVERY, blobs, make_model


def problem(clusters="normal-wishart", shape="full", n=60, seed=0, n_components=3):
    X = blobs(seed, n)
    model = make_model(clusters, shape, X, n_components)
    rows = model.rows(X)
    resp = np.random.default_rng(seed).dirichlet(np.ones(n_components), n)
    return model, rows, model.start(rows, resp)


def leaves(tree):
    for value in tree.values():
        yield from leaves(value) if isinstance(value, dict) else [value]


@pytest.mark.parametrize(("clusters", "shape"), EVERY)
def test_all_rows_at_rate_one_is_coordinate_ascent(clusters, shape):
    model, rows, natural = problem(clusters, shape)
    model.temperature = 0.5 if shape in ("tied", "diag") else 1.0
    weight = np.linspace(0.5, 2.0, len(rows))
    # M = N by name is no noise at all.
    engine = NaturalGradient(
        model, rows, natural, ConstantRate(), weight, len(rows), float(len(rows))
    )
    state, _ = engine.step(engine.initial)
    for _ in range(7):
        found = model.expect(natural, rows, weight).statistics[0]
        natural = model.updated(natural, found)
    for _ in range(6):
        state, info = engine.step(state)
    for ours, theirs in zip(leaves(state.natural), leaves(natural), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    evidence = model.expect(natural, rows, weight).evidence
    assert info.elbo == pytest.approx(model.elbo(natural, evidence), rel=1e-12)


@pytest.mark.slow
@given(
    st.sampled_from(EVERY),
    st.integers(0, 10_000),
    st.sampled_from([1, 2, 7, 20, 60, 100]),
    st.sampled_from([0.01, 1.0, 3.0]),
    st.sampled_from([ConstantRate(), ConstantRate(0.5), RobbinsMonro()]),
    st.sampled_from([1.0, 0.2]),
)
@settings(max_examples=40, deadline=None)
def test_no_step_leaves_the_parameter_space(
    law_and_shape, seed, batch_size, effective, rate, temperature
):
    model, rows, start = problem(*law_and_shape, seed=seed, n_components=4)
    model.temperature = temperature
    engine = NaturalGradient(
        model, rows, start, rate, None, batch_size, effective, seed
    )
    state, info = engine.step(engine.initial)
    for _ in range(2):
        state, info = engine.step(state)
    assert np.isfinite(info.elbo)
    for factor in model.factors:
        cone = factor.cone(state.natural[factor.name])
        assert all(np.all(scalars > 0) for scalars in cone.scalars)
        if cone.matrices is not None:
            np.linalg.cholesky(cone.matrices)
    assert 0 <= state.n_shrunk <= state.n_groups


def test_noise_is_centred_and_has_the_variance_of_smaller_batches():
    noise = np.stack([noise_weights(10.0, step, 40, seed=3) for step in range(500)])
    np.testing.assert_allclose(noise.sum(axis=1), 0.0, atol=1e-12, rtol=0)
    # n - 1 degrees of freedom in each row.
    assert noise_weights(40.0, 0, 40, 3) is noise_weights(None, 0, 40, 3) is None
    variance = (noise**2).sum() / (500 * 39)
    assert abs(variance - 3.0) < 5 * 3.0 * np.sqrt(2.0 / (500 * 39))


def test_noisy_steps_are_unbiased_where_nothing_is_shrunk():
    model, rows, start = problem()
    natural = model.updated(start, model.expect(start, rows, None).statistics[0])
    exact = model.expect(natural, rows, None).statistics[0]
    found = []
    for seed in range(400):
        engine = NaturalGradient(
            model, rows, natural, ConstantRate(), None, 30, 15.0, seed
        )
        mean, noise = engine._expect(natural, 0).statistics
        found.append(2.0 * (mean["first"] + noise["first"]))
    found = np.array(found)
    se = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - exact["first"]) < 5 * se)


def test_shrunk_noise_is_counted():
    model, rows, start = problem(n_components=6)
    engine = NaturalGradient(model, rows, start, ConstantRate(), None, 10, 1.0)
    state, info = engine.step(engine.initial)
    # Weights and clusters are one group each, and there are six of both.
    assert state.n_groups == 6 * 12
    assert 0 < state.n_shrunk < state.n_groups
    assert info.n_shrunk == state.n_shrunk


# --- batches


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_batch_stands_for_all_rows(temperature):
    model, rows, start = problem(n=60)
    model.temperature = temperature
    engine = NaturalGradient(model, rows, start, ConstantRate(), None, 20)
    state, _ = engine.step(engine.initial)
    # Each row adds one to the concentrations.
    gain = state.natural["weights"]["alpha"] - model.prior["weights"]["alpha"]
    assert gain.sum() == pytest.approx(60 * temperature)


def test_batches_are_drawn_anew_and_without_replacement(monkeypatch):
    model, rows, start = problem(n=50)
    batches = []
    rows_at = NaturalGradient._rows_at

    def recorded(self, batch):
        batches.append(batch)
        return rows_at(self, batch)

    monkeypatch.setattr(NaturalGradient, "_rows_at", recorded)
    run(NaturalGradient(model, rows, start, RobbinsMonro(), None, 20), SVILimits(2))
    assert [len(set(batch)) for batch in batches] == [20] * 6
    assert len({tuple(np.sort(batch)) for batch in batches}) == 6


@pytest.mark.parametrize("weighted", [False, True])
def test_the_bound_of_some_rows_is_that_of_all_that_are_like_them(weighted):
    model, _, start = problem(n=60)
    X = np.random.default_rng(1).normal(size=(30, 2))
    rows = model.rows(np.concatenate([X, X]))
    weight = np.tile(np.linspace(0.5, 2.0, 30), 2) if weighted else None
    settings = {"weight": weight, "batch_size": 20}
    engine = NaturalGradient(model, rows, start, RobbinsMonro(), **settings)
    half = replace(engine, bound_rows=np.arange(30), bound_scale=2.0)
    (_, every), (_, some) = (each.step(each.initial) for each in (engine, half))
    assert some.elbo == pytest.approx(every.elbo, rel=1e-12)


# --- when a run ends


def test_a_run_ends_at_its_time():
    model, rows, start = problem()
    ticks = iter(range(1000))
    engine = NaturalGradient(model, rows, start, RobbinsMonro(), None, 20)
    done = run(engine, SVILimits(50, max_time=10), clock=lambda: next(ticks))
    assert done.message == "Stopped at max_time=10 seconds."
    assert 1 <= done.n_iter < 10


@pytest.mark.parametrize(
    ("rate", "gain", "converged"),
    [(1.0, 0.4, True), (1.0, 0.6, False), (0.9, 0.4, False)],
)
def test_coordinate_ascent_has_converged_where_a_round_gains_little(
    rate, gain, converged
):
    model, rows, start = problem()
    engine = NaturalGradient(model, rows, start, ConstantRate(rate))
    _, info = engine.step(engine.initial)
    history = [replace(info, gain=gain)]
    end = why_stop(history, SVILimits(5, tol=0.5), engine.monotone)
    assert (end is not None) == converged


# --- schedules


@pytest.mark.parametrize("name", LEARNING_RATES)
def test_rates_stay_in_the_unit_interval(name):
    rates = [as_learning_rate(name).at(step) for step in range(1, 50)]
    assert all(0 < rate <= 1 for rate in rates)
    assert rates == sorted(rates, reverse=True)


def test_robbins_monro_is_the_power_of_the_step():
    assert RobbinsMonro(delay=3.0, forgetting=0.6).at(5) == pytest.approx(8.0**-0.6)
    assert as_learning_rate("robbins-monro").at(1) == pytest.approx(2.0**-0.7)


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        *((rate, "rates in") for rate in (0.0, 1.5, float("nan"))),
        (RobbinsMonro(forgetting=-1), "rates in"),
        *(
            (RobbinsMonro(delay=delay), "a number of at least 0")
            for delay in (-0.5, -1, -2, "one", float("nan"))
        ),
    ],
)
def test_rates_and_delays_that_mean_nothing_are_refused(rate, words):
    with pytest.raises(ValueError, match=words):
        as_learning_rate(rate)


def test_effective_sizes_are_capped_by_the_batch():
    assert effective_size(None, 3, 20) == 20
    assert effective_size(70, 3, 20) == 20
    assert effective_size(lambda step: 5 * step, 3, 20) == 15
    assert effective_size(lambda step: 50 * step, 3, 20) == 20


class Recording(LearningRate):
    """A constant rate that remembers the steps it was asked about."""

    def __init__(self):
        self.steps = []

    def at(self, step):
        self.steps.append(step)
        return 0.5


@pytest.mark.parametrize("batch_size", [None, 20])
def test_steps_count_from_one(batch_size):
    model, rows, start = problem(n=60)
    rate, steps = Recording(), []

    def growing(t):
        steps.append(t)
        return 7.0 * t

    engine = NaturalGradient(
        model, rows, start, rate, None, batch_size, growing, seed=0
    )
    state, first = engine.step(engine.initial)
    state, second = engine.step(state)
    n_steps = 1 if batch_size is None else 3
    assert set(rate.steps) == set(range(1, 2 * n_steps + 1))
    assert steps[0] == min(steps) == 1
    # The report is of the last step of the epoch.
    assert first.n_steps == n_steps
    size = 60 if batch_size is None else batch_size
    assert first.effective_batch_size == min(size, 7.0 * n_steps)
    assert second.effective_batch_size == min(size, 7.0 * 2 * n_steps)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "ten", None])
def test_callables_that_return_no_size_are_refused(value):
    with pytest.raises(ValueError, match="effective_batch_size must return positive"):
        effective_size(lambda step: value, 3, 20)
