"""The posterior over all factors: densities, expectations, ascent and its gauge."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skboost.conjugate import (
    DrawStream,
    Entries,
    FactorTarget,
    MatrixFactorizationModel,
    ObservedEntries,
    annealed_factors,
    factor_ascent,
    predicted_rows,
    shaken_factors,
    turned_towards,
)
from skboost.conjugate.factorization import balanced, factor_round, transformed

from .conftest import close

SHAPE, RANK = (6, 5), 2
# Every two of these meet.
CASES = [(False, 0.5, 1.3), (False, None, None), (True, 0.5, None), (True, None, 1.3)]
each_case = pytest.mark.parametrize(("biases", "noise_scale", "prior_scale"), CASES)


def posterior(biases=False, noise_scale=None, prior_scale=None, shape=SHAPE, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    X += 0.3 * rng.standard_normal(shape)
    X[rng.random(shape) < 0.3] = np.nan
    model = MatrixFactorizationModel(
        shape, RANK, noise_scale, prior_scale, biases=biases
    )
    return FactorTarget(model, ObservedEntries(Entries.of(X)))


def after_rounds(target, n=3, seed=0):
    natural = target.model.start(np.random.default_rng(seed))
    for _ in range(n):
        statistics = target.model.expect(natural, target.observed).statistics[0]
        natural = target.model.updated(natural, statistics)
    return natural


def by_hand(target, theta):
    """The log joint of one draw, entry by entry and factor by factor."""
    model, layout = target.model, target.family.draws_layout
    draw = {name: value[0] for name, value in layout.tree(theta[None]).items()}
    value = 0.0
    scales = {}
    for side, name in (("rows", "row_scales"), ("columns", "column_scales")):
        scales[side] = (
            model.scales[side].variance(None) ** 0.5
            if (name not in draw)
            else np.exp(-0.5 * draw[name])
        )
        value += stats.norm(0, scales[side]).logpdf(draw[side]).sum()
    tau = np.exp(draw["noise"]) if "noise" in draw else model.noise.scale**-2.0
    for factor in model.factors[2:]:
        # The density of the logarithm has the precision itself as a further factor.
        prior = stats.gamma(factor.prior["shape"], scale=1 / factor.prior["rate"])
        eta = draw[factor.name]
        value += np.sum(prior.logpdf(np.exp(eta)) + eta)
    entries = target.entries
    for i, j, x in zip(entries.rows, entries.columns, entries.values, strict=True):
        u, v = draw["rows"][i], draw["columns"][j]
        mean = u[:RANK] @ v[:RANK] + u[RANK:].sum() + v[RANK:].sum()
        value += stats.norm(mean, tau**-0.5).logpdf(x)
    return value


@each_case
def test_the_log_joint_and_its_score_are_what_the_model_says(
    biases, noise_scale, prior_scale
):
    target = posterior(biases, noise_scale, prior_scale)
    theta = 0.6 * np.random.default_rng(1).standard_normal((4, target.dim))
    expected = [by_hand(target, one) for one in theta]
    value, score = target.value_and_score(theta)
    assert_allclose(value, expected, rtol=1e-11)
    for n_jobs in (None, 2):
        same = FactorTarget(target.model, target.observed, n_jobs)
        assert_allclose(same.log_density(theta), value, rtol=0)
    steps = 1e-5 * np.eye(target.dim)
    up, down = (target.log_density(theta[:1] + sign * steps) for sign in (1, -1))
    slope = (up - down) / 2e-5
    assert_allclose(score[0], slope, atol=1e-6 * np.abs(score[0]).max())


@pytest.mark.slow
@each_case
def test_expectations_and_entropy_are_those_of_draws(biases, noise_scale, prior_scale):
    target = posterior(biases, noise_scale, prior_scale)
    family, natural = target.family, after_rounds(target)
    params = family.params(natural)
    theta = family.transport(params, DrawStream(4000, np.random.default_rng(3)))
    log_joint = target.log_density(theta)
    log_q = family.log_density(theta, params)
    expected = target.expected_log_density(*family.structure(params))[0]
    assert close(log_joint, expected, 4.5)
    assert close(-log_q, family.entropy(params), 4.5)
    # Far less noisy than either: what rounds maximise.
    assert close(log_joint - log_q, target.bound(natural), 4.5)


@each_case
def test_expectations_of_diagonal_gaussians(biases, noise_scale, prior_scale):
    target = posterior(biases, noise_scale, prior_scale)
    rng = np.random.default_rng(4)
    mean, variance = rng.standard_normal(target.dim), 0.3 * rng.random(target.dim)
    value, g_mean, g_variance, _ = target.expected_log_density(mean, variance)
    away = np.sqrt(variance) * rng.standard_normal((1000, target.dim))
    # Pairs about the mean have less noise than as many draws.
    ends = [target.log_density(mean + sign * away) for sign in (1.0, -1.0)]
    assert close(np.mean(ends, axis=0), value, 4.5)
    for _ in range(5):
        where = 1e-5 * rng.standard_normal((2, target.dim))
        up, down = (
            target.expected_log_density(mean + s * where[0], variance + s * where[1])[0]
            for s in (1.0, -1.0)
        )
        found = 2.0 * (g_mean @ where[0] + g_variance @ where[1])
        assert_allclose(up - down, found, rtol=1e-6)


def test_densities_are_those_of_the_factors():
    target = posterior(True, None, 1.0)
    family, natural = target.family, after_rounds(target)
    params = family.params(natural)
    theta = family.transport(params, DrawStream(3, np.random.default_rng(5)))
    draws, expected = family.draws_layout.tree(theta), 0.0
    for name in ("rows", "columns"):
        for i, own in enumerate(natural[name]["precision"]):
            cov = np.linalg.inv(own)
            mean = cov @ natural[name]["first"][i]
            expected += stats.multivariate_normal(mean, cov).logpdf(draws[name][:, i])
    noise = natural["noise"]
    prior = stats.gamma(noise["shape"], scale=1.0 / noise["rate"])
    expected += prior.logpdf(np.exp(draws["noise"])) + draws["noise"]
    assert_allclose(family.log_density(theta, params), expected, rtol=1e-10)


def test_draws_have_the_moments_of_the_factors():
    target = posterior(False, 0.5, 1.0)
    family, natural = target.family, after_rounds(target)
    theta = family.transport(
        family.params(natural), DrawStream(20_000, np.random.default_rng(6))
    )
    rows = family.draws_layout.tree(theta)["rows"]
    moments = target.model.rows.stack(natural["rows"])
    away = rows - moments.mean
    assert close(rows, moments.mean, 4.5)
    assert close(away[..., None] * away[..., None, :], moments.covariance)


# --- ascent


def predictions(model, natural):
    rows, columns = (s.stack(natural[s.name]) for s in (model.rows, model.columns))
    return predicted_rows(rows, columns)


@each_case
def test_rounds_never_lower_the_bound(biases, noise_scale, prior_scale):
    target = posterior(biases, noise_scale, prior_scale, shape=(15, 9))
    natural = target.model.start(np.random.default_rng(7))
    bounds = []
    for _ in range(30):
        natural = factor_round(target, natural)
        bounds.append(target.bound(natural))
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1])


@each_case
def test_the_gauge_changes_no_prediction(biases, noise_scale, prior_scale):
    target = posterior(biases, noise_scale, prior_scale)
    before = after_rounds(target)
    after = balanced(target.model, before)
    for one, two in zip(
        predictions(target.model, before), predictions(target.model, after), strict=True
    ):
        assert_allclose(one, two, atol=1e-10, rtol=0)
    assert target.bound(after) > target.bound(before)


@pytest.mark.parametrize(("shape", "prior_scale"), [((9, 4), 1.3), ((4, 9), None)])
def test_no_other_gauge_has_a_larger_bound(shape, prior_scale):
    target = posterior(False, 0.5, prior_scale, shape=shape)
    best = balanced(target.model, after_rounds(target))
    bound, rng = target.bound(best), np.random.default_rng(8)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            a = np.eye(RANK) + size * rng.standard_normal((RANK, RANK))
            other = transformed(target.model, best, a)
            assert target.bound(other) <= bound + 1e-9 * abs(bound)


def test_a_run_in_the_best_gauge_gets_further_than_plain_rounds():
    target = posterior(True, None, 1.0, shape=(30, 12))
    start = target.model.start(np.random.default_rng(9))
    plain, found = start, factor_ascent(target, start, 40, 1e-6)
    for _ in range(40):
        statistics = target.model.expect(plain, target.observed).statistics[0]
        plain = target.model.updated(plain, statistics)
    assert found.bound > target.bound(plain) - 1e-6
    assert_allclose(found.bound, target.bound(found.natural), rtol=1e-12)


def test_a_rotation_is_turned_back():
    target = posterior(True, 0.5, 1.0)
    base = factor_ascent(target, after_rounds(target), 50, 1e-8).natural
    turn = np.linalg.qr(np.random.default_rng(10).standard_normal((RANK, RANK)))[0]
    found = turned_towards(target.model, transformed(target.model, base, turn), base)
    for name in ("rows", "columns"):
        assert_allclose(found[name]["first"], base[name]["first"], atol=1e-9, rtol=0)


@pytest.mark.parametrize("leave", [annealed_factors, shaken_factors])
def test_what_leaves_an_optimum_comes_back_with_a_bound(leave):
    target = posterior(True)
    rng = np.random.default_rng(11)
    natural = factor_ascent(target, after_rounds(target), 100, 1e-6).natural
    away = leave(target, natural, rng)
    assert target.bound(away) < target.bound(natural)
    assert np.isfinite(factor_ascent(target, away, 100, 1e-6).bound)
