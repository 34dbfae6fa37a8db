import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from skboost.approximation import (
    effective_sample_size,
    fit_generalized_pareto,
    log_mean_weight,
    psis,
)


@pytest.mark.parametrize("shape", [-0.3, 0.0, 1.5])
def test_generalized_pareto_fit_finds_shape_and_scale(shape):
    n = 20_000
    x = stats.genpareto(shape, scale=2.5).rvs(n, random_state=0)
    fitted, scale = fit_generalized_pareto(np.sort(x))
    # Asymptotic sd of the maximum-likelihood shape, and the prior's small pull.
    assert abs(fitted - shape) < 4 * (1 + shape) / np.sqrt(n) + 10 / n
    assert scale == pytest.approx(2.5, rel=0.1)


@pytest.mark.parametrize("shape", [-0.3, 1.5])
def test_the_shape_is_pulled_towards_a_half_with_the_weight_of_ten(shape):
    n = 20
    x = stats.genpareto(shape).ppf((np.arange(n) + 0.5) / n)
    pulled, scale = fit_generalized_pareto(x)
    # The scale belongs to the shape before, as a solution of the profile likelihood.
    own = ((n + 10) * pulled - 5.0) / n
    assert own == pytest.approx(np.log1p(own / scale * x).mean(), rel=1e-9)


@pytest.mark.parametrize(("target_df", "proposal_df"), [(2, 3), (1, 4)])
def test_khat_of_student_t_is_the_tail_index(target_df, proposal_df):
    # w = p / q grows like |x|^(b - a) under t_b, so P(w > v) ~ v^(-b / (b - a)).
    n = 40_000
    x = stats.t(proposal_df).rvs(n, random_state=1)
    log_w = stats.t(target_df).logpdf(x) - stats.t(proposal_df).logpdf(x)
    expected = (proposal_df - target_df) / proposal_df
    n_tail = 3 * np.sqrt(n)
    se = (1 + expected) / np.sqrt(n_tail)
    assert abs(psis(log_w).khat - expected) < 4 * se


@pytest.mark.parametrize(("scale", "n"), [(0.5, 300), (1.0, 2000), (2.5, 10_000)])
def test_weights_and_khat_are_those_of_arviz(scale, n):
    psislw = getattr(pytest.importorskip("arviz"), "psislw", None)
    if psislw is None:
        pytest.skip("this version of ArviZ has no psislw")
    log_w = scale * np.random.default_rng(n).standard_normal(n)
    smoothed, khat = psis(log_w)
    expected, expected_khat = psislw(log_w)
    np.testing.assert_allclose(khat, float(expected_khat), rtol=1e-6)
    np.testing.assert_allclose(smoothed - logsumexp(smoothed), expected, rtol=1e-6)


def test_smoothing_keeps_the_order_the_body_and_the_maximum():
    log_w = 2.0 * np.random.default_rng(3).standard_normal(2000)
    smoothed, khat = psis(log_w)
    order = np.argsort(log_w)
    n_tail = int(np.ceil(3 * np.sqrt(2000)))
    assert np.all(np.diff(smoothed[order]) >= 0)
    np.testing.assert_array_equal(smoothed[order[:-n_tail]], log_w[order[:-n_tail]])
    assert smoothed.max() <= log_w.max()
    # A shift of log weights shifts the answer only.
    shifted, shifted_khat = psis(log_w + 1234.5)
    np.testing.assert_allclose(shifted - 1234.5, smoothed, atol=1e-9, rtol=0)
    assert shifted_khat == pytest.approx(khat, abs=1e-6)


def test_smoothing_reduces_the_error_of_the_normalizer():
    x = np.random.default_rng(0).standard_normal((200, 400))
    log_w = stats.t(3).logpdf(x) - stats.norm.logpdf(x)
    raw = logsumexp(log_w, axis=1) - np.log(400)
    smoothed = [log_mean_weight(psis(one).log_weights)[0] for one in log_w]
    assert np.mean(np.square(smoothed)) < np.mean(np.square(raw))


def test_weights_that_are_equal_or_zero_or_one_that_dominates():
    smoothed, khat = psis(np.full(100, -3.0))
    assert khat == 0.0
    np.testing.assert_array_equal(smoothed, -3.0)
    assert effective_sample_size(smoothed) == pytest.approx(100)
    assert log_mean_weight(smoothed) == pytest.approx((-3.0, 0.0), abs=1e-10)
    log_w = np.zeros(100)
    log_w[7] = 5000.0
    smoothed, khat = psis(log_w)
    assert khat == np.inf
    assert effective_sample_size(smoothed) == pytest.approx(1.0)
    log_w = np.random.default_rng(5).standard_normal(400)
    log_w[::2] = -np.inf
    smoothed, khat = psis(log_w)
    assert np.all(smoothed[::2] == -np.inf)
    assert np.isfinite(khat)


def test_log_mean_weight_covers_the_normalizer():
    hits, rng = 0, np.random.default_rng(0)
    for _ in range(200):
        # Of N(0.3, 1) to N(0, 1).
        log_w = 0.3 * rng.standard_normal(500) - 0.5 * 0.3**2 + 2.0
        value, se = log_mean_weight(log_w)
        hits += abs(value - 2.0) < 1.96 * se
    # Four binomial standard errors.
    assert abs(hits / 200 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 200)


@pytest.mark.parametrize(
    ("log_w", "message"),
    [
        ([0.0, np.nan], "NaN"),
        ([0.0, np.inf], "inf"),
        ([-np.inf, -np.inf], "all -inf"),
        ([], "non-empty"),
        ([[0.0]], "vector"),
    ],
)
def test_impossible_weights_are_refused(log_w, message):
    with pytest.raises(ValueError, match=message):
        psis(np.array(log_w))
