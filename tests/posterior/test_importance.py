"""Evidence, error estimates and their warnings, against closed forms and quadrature."""

import warnings

import numpy as np
import pytest
from scipy import stats

from skboost.approximation import LogEvidence
from skboost.posterior import ImportanceWarning, MixturePosterior, evaluate_log_joint

N_SE = 4


@pytest.fixture
def single(normal_mixture):
    def make(mean, std):
        return MixturePosterior(normal_mixture([mean], [std], [1.0]))

    return make


@pytest.fixture
def wide(single):
    """q = N(0, 1.5^2), wider than the target N(0.4, 1), whose normaliser is e^2."""
    return single(0.0, 1.5)


TARGET = stats.norm(0.4, 1.0)
Q = stats.norm(0.0, 1.5)


def log_joint(theta):
    return TARGET.logpdf(theta[:, 0]) + 2.0


# --- evidence


def test_evidence_lies_between_bound_and_estimate(wide):
    # E_q[ln p - ln q]: minus the divergence of two Gaussians.
    kl = np.log(1 / 1.5) + (1.5**2 + 0.4**2) / 2 - 0.5
    evidence = wide.evidence(log_joint, n=8000, random_state=0)
    assert abs(evidence.elbo - (2.0 - kl)) < N_SE * evidence.elbo_se
    assert abs(evidence.log_evidence - 2.0) < N_SE * evidence.log_evidence_se
    low, high = evidence.interval
    assert low < evidence.elbo < evidence.log_evidence < high
    assert low < 2.0 < high
    assert evidence.khat < 0.7
    for level in (0.95, 0.5):
        given = {"n": 8000, "level": level, "random_state": 0}
        low, high = wide.evidence(log_joint, **given).interval
        width = stats.norm.ppf(0.5 * (1.0 + level))
        assert low == pytest.approx(evidence.elbo - width * evidence.elbo_se)
        assert high == pytest.approx(
            evidence.log_evidence + width * evidence.log_evidence_se
        )
    with pytest.raises(ValueError, match="level must lie strictly"):
        wide.evidence(log_joint, level=95)


def test_the_error_of_the_evidence_knows_tails_that_are_lacking(single):
    # ln Z is zero. Draws of a Gaussian alone miss a part of it, and do not say so.
    normal, t = single(0.0, 1.0), stats.t(3.0)

    def errors(found):
        return abs(found.log_evidence) / found.log_evidence_se

    def log_t(theta):
        return t.logpdf(theta[:, 0])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportanceWarning)
        alone = [normal.importance_weights(log_t, 1000, k) for k in range(40)]
    found = [normal.evidence(log_t, 1000, random_state=k) for k in range(40)]
    inside = [np.mean([errors(one) < 1.645 for one in many]) for many in (found, alone)]
    # Draws are spread evenly, so that more than 90 % hold.
    assert inside[0] >= 0.85
    assert inside[1] < 0.5


def test_the_evidence_of_a_multiple_of_the_mixture_is_exact(wide):
    def scaled(theta):
        return wide.log_density(theta) + 3.0

    evidence = wide.evidence(scaled, n=200, random_state=0)
    assert evidence.log_evidence == pytest.approx(3.0, abs=1e-12)
    assert evidence.log_evidence_se < 1e-12


def test_an_error_that_nobody_knows_is_infinite(single):
    # All mass is a thousand standard deviations away.
    with pytest.warns(ImportanceWarning, match="Pareto shape"):
        evidence = single(0.0, 0.001).evidence(log_joint, random_state=0)
    assert evidence.log_evidence_se == evidence.interval[1] == np.inf


def test_weights_without_a_variance_have_no_error():
    """Of forty short fits of a funnel nine had one, and were further off than that."""
    few, many = (LogEvidence(0.0, 0.1, 0.6, share) for share in (0.02, 0.005))
    assert few.reliable and few.known_se == np.inf
    assert many.reliable and many.known_se == 0.1
    assert LogEvidence(0.0, 0.1, 0.45, 0.02).known_se == 0.1
    assert not LogEvidence(0.0, 0.1, 0.8, 0.02).reliable


def test_a_target_that_vanishes_has_no_elbo(wide):
    def half(theta):
        return np.where(theta[:, 0] > 0, Q.logpdf(theta[:, 0]), -np.inf)

    evidence = wide.evidence(half, random_state=0)
    assert evidence.elbo == evidence.interval[0] == -np.inf
    assert abs(evidence.log_evidence - np.log(0.5)) < N_SE * evidence.log_evidence_se


# --- distances


def between(f):
    x = np.linspace(-15.0, 15.0, 20_001)
    return np.trapezoid(f(x), x)


def true_hellinger_squared():
    return 1.0 - between(lambda x: np.sqrt(TARGET.pdf(x) * Q.pdf(x)))


def test_hellinger_agrees_with_quadrature(wide):
    errors = wide.error_estimates(log_joint, n=8000, random_state=0)
    truth = true_hellinger_squared()
    error = abs(errors.hellinger_squared - truth)
    assert error < N_SE * errors.hellinger_squared_se
    assert errors.hellinger == pytest.approx(np.sqrt(errors.hellinger_squared))
    # An estimate in the right place: its error is far below the distance.
    assert errors.hellinger_squared_se < 0.1 * truth
    assert errors.n == 8000


def test_the_standard_error_is_that_of_repetition(wide):
    repeated = [
        wide.error_estimates(log_joint, n=500, random_state=seed) for seed in range(40)
    ]
    values = np.array([errors.hellinger_squared for errors in repeated])
    stated = np.mean([errors.hellinger_squared_se for errors in repeated])
    # Quasi-random draws do better than the standard error says, never worse.
    assert values.std() < 1.3 * stated


def test_the_bounds_hold(wide):
    errors = wide.error_estimates(log_joint, n=8000, random_state=0)
    distance = 0.5 * between(lambda x: abs(TARGET.pdf(x) - Q.pdf(x)))
    low, high = errors.total_variation
    assert low < distance < high
    first = between(lambda x: abs(TARGET.cdf(x) - Q.cdf(x)))
    # Two Gaussians: the squared distance of means plus that of deviations.
    second = np.sqrt(0.4**2 + 0.5**2)
    assert first < errors.wasserstein_1
    assert second < errors.wasserstein_2
    # By the definition, with the moments of both in closed form about zero.
    h = np.sqrt(true_hellinger_squared())
    moments = 1.5**2 + (1.0 + 0.4**2)
    assert errors.wasserstein_1 == pytest.approx(2 * h * np.sqrt(moments), rel=0.05)
    fourth = 3 * 1.5**4 + (3 + 6 * 0.4**2 + 0.4**4)
    expected = 2 * np.sqrt(h) * fourth**0.25
    assert errors.wasserstein_2 == pytest.approx(expected, rel=0.05)


def test_the_divergence_the_other_way_and_its_bound(wide):
    errors = wide.error_estimates(log_joint, n=16_000, random_state=0)
    truth = np.log(1.5) + (1.0 + 0.4**2) / (2 * 1.5**2) - 0.5
    assert errors.forward_kl == pytest.approx(truth, abs=0.01)
    h = np.sqrt(true_hellinger_squared())

    def square(x):
        ratio = TARGET.logpdf(x) - Q.logpdf(x)
        return TARGET.pdf(x) * (1 + ratio) ** 2 * (ratio > 0)

    bound = 2 * np.sqrt(2) * h * np.sqrt(1 + between(square))
    assert errors.forward_kl_bound == pytest.approx(bound, rel=0.05)
    assert truth < errors.forward_kl_bound


def test_importance_sampling_errs_less_than_the_bound(single):
    close = single(0.0, 1.02)
    target = stats.norm(0.0, 1.0)
    n = 400
    errors = close.error_estimates(
        lambda theta: target.logpdf(theta[:, 0]), n=n, random_state=0
    )
    h = errors.hellinger
    assert errors.importance_error == pytest.approx((n**-0.25 + 2 * np.sqrt(h)) ** 2)
    rng = np.random.default_rng(0)
    draws = 1.02 * rng.standard_normal((500, n))
    weights = target.pdf(draws) / stats.norm(0, 1.02).pdf(draws)
    known = np.abs((weights * draws).mean(axis=1)).mean()
    assert known < errors.importance_error
    normalised = np.abs((weights * draws).sum(axis=1) / weights.sum(axis=1))
    for t in (0.5, 2.0, 20.0):
        assert np.mean(normalised > t) <= errors.exceedance(t) <= 1.0
    assert errors.exceedance(1e-6) == 1.0
    with pytest.raises(ValueError, match="t must be positive"):
        errors.exceedance(0.0)


def test_the_estimates_are_blind_to_what_is_never_reached(single):
    """Campbell & Li 2019, Figure 1b: half of the target lies where q never is."""
    near, far = stats.norm(0, 1), stats.norm(25, np.sqrt(5))

    def two(theta):
        x = theta[:, 0]
        return np.logaddexp(near.logpdf(x), far.logpdf(x)) - np.log(2)

    def root(x):
        return np.sqrt(near.pdf(x) * 0.5 * (near.pdf(x) + far.pdf(x)))

    assert 1.0 - between(root) == pytest.approx(0.293, abs=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        errors = single(0.0, 1.0).error_estimates(two, random_state=0)
    assert errors.hellinger_squared == pytest.approx(0.0, abs=1e-6)
    assert errors.total_variation[1] < 1e-2
    assert errors.khat < 0.7


# --- one pass over the target


def test_one_sample_answers_what_the_posterior_is_asked(wide):
    calls = []

    def counted(theta):
        calls.append(len(theta))
        return log_joint(theta)

    weighted = wide.importance_weights(counted, n=500, random_state=3)
    resampled = weighted.resample(200, np.random.default_rng(0))
    same = {"n": 500, "random_state": 3}
    assert weighted.evidence(0.8)[:2] == wide.evidence(log_joint, **same)[:2]
    assert weighted.errors() == wide.error_estimates(log_joint, **same)
    assert calls == [500]
    counts = [np.sum(resampled.draws == draw) for draw in weighted.draws]
    assert np.all(np.abs(counts - 200 * weighted.weights) < 1.0 + 1e-9)
    # Their order says nothing of which draws they were.
    index = [int(np.flatnonzero(weighted.draws == draw)[0]) for draw in resampled.draws]
    assert abs(stats.spearmanr(index, range(200)).statistic) < 4 / np.sqrt(200)
    assert resampled.log_evidence == weighted.log_evidence
    with pytest.raises(ValueError, match="level must lie strictly"):
        weighted.evidence(95)
    for method in ("evidence", "errors"):
        with pytest.raises(ValueError, match=f"{method} needs the weighted draws"):
            getattr(resampled, method)()


# --- warnings


@pytest.mark.parametrize(
    "method", ["importance_weights", "resample", "evidence", "error_estimates"]
)
def test_heavy_weights_warn_where_they_were_asked_for(single, method):
    # Copies with heavy tails make up for less.
    narrow = single(0.0, 0.3 if method != "evidence" else 0.003)
    with pytest.warns(ImportanceWarning, match="Pareto shape of") as caught:
        getattr(narrow, method)(log_joint, random_state=0)
    assert caught[0].filename == __file__
    assert issubclass(ImportanceWarning, UserWarning)


def test_the_first_draw_at_which_a_log_joint_fails_is_named():
    theta = np.arange(4.0)[:, None]
    with pytest.raises(ValueError, match=r"got nan at theta = \[1\.\]"):
        evaluate_log_joint(lambda theta: [0.0, np.nan, np.inf, np.nan], theta)
    values = [0.0, -np.inf, 1.0, 2.0]
    assert evaluate_log_joint(lambda theta: values, theta).tolist() == values
