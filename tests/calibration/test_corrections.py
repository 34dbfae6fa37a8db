"""Corrections after a fit: moments that are known, and reasons to decline."""

from dataclasses import replace

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln
from scipy.stats import multivariate_normal, multivariate_t

from skboost.approximation import Mixture
from skboost.calibration import (
    CALIBRATIONS,
    Calibration,
    Declined,
    Pool,
    Problem,
    _calibrate,
    affine_map,
    allowed_loss,
    calibrate,
    jointly_weighted,
    refusal,
    shrunk,
    stein_map,
    student_fit,
)
from skboost.calibration._chains import Chains, Scatter
from skboost.calibration._heavy_tailed import (
    _DF,
    _improved,
    _likeliest_df,
    _proposal,
    heavy_tails,
)
from skboost.families import DiagonalGaussian, FullGaussian, StudentT
from skboost.families._moments import Diagonal
from skboost.targets import BudgetSpent, CallableTarget, Target

ROOT = np.array([[1.0, 0.0], [0.8, 0.5]])
SCATTER = ROOT @ ROOT.T
CENTRE = np.array([3.0, -2.0])


class NormalTarget(Target):
    """N(mean, covariance) with its score."""

    def __init__(self, mean, covariance):
        self.mean, self.precision = np.asarray(mean), np.linalg.inv(covariance)
        self.dim = len(self.mean)
        self.constant = 0.5 * np.linalg.slogdet(self.precision)[1]
        self.constant -= 0.5 * self.dim * np.log(2 * np.pi)

    def value_and_score(self, theta):
        score = -(theta - self.mean) @ self.precision
        return self.constant + 0.5 * ((theta - self.mean) * score).sum(axis=1), score


def student_t(theta, df=5.0):
    """Multivariate Student-t of scale matrix SCATTER, normalised."""
    z = anp.dot(theta, np.linalg.inv(ROOT).T)
    constant = gammaln(0.5 * (df + 2)) - gammaln(0.5 * df) - np.log(df * np.pi)
    constant -= np.log(np.linalg.det(ROOT))
    return constant - 0.5 * (df + 2) * anp.log1p(anp.sum(z**2, axis=-1) / df)


def normal(mean, covariance):
    family = FullGaussian()
    return Mixture.single((family, family.from_moments(mean, covariance)))


@pytest.fixture
def heavy_tailed():
    """A Student-t target, and a Gaussian that is a little too wide for its scale."""
    target = CallableTarget(lambda theta: student_t(theta - CENTRE), 2)
    return target, normal(CENTRE, 1.2 * SCATTER)


# --- chains


def test_chains_leave_their_target_as_it_is(rng):
    target = NormalTarget([1.0, -2.0], SCATTER)
    n = 20_000
    theta = target.mean + rng.standard_normal((n, 2)) @ ROOT.T
    # Coordinates of a mixture that is far from the target.
    whitening = Scatter(normal(np.zeros(2), np.diag([0.2, 3.0]))).whitening
    chains = Chains.at(target, theta)
    for _ in range(3):
        chains = chains.moved(target, whitening, rng)
    error = 5.0 / np.sqrt(n)
    assert not np.array_equal(chains.theta, theta)
    assert_allclose(chains.theta.mean(axis=0), target.mean, atol=error * ROOT.max())
    assert_allclose(np.cov(chains.theta.T), SCATTER, atol=2 * error)
    assert_allclose(chains.log_joint, target.log_density(chains.theta))


def test_chains_stay_where_the_density_is_not_zero(rng):
    def half(theta):
        return anp.where(theta[:, 0] > 0, -0.5 * anp.sum(theta**2, axis=1), -anp.inf)

    target = CallableTarget(half, 2, lambda t: -t, vectorized=True)
    chains = Chains.at(target, abs(rng.standard_normal((200, 2))))
    for _ in range(3):
        chains = chains.moved(target, Diagonal(np.ones(2)), rng)
    assert (chains.theta[:, 0] > 0).all()


# --- the affine map


def test_steins_moments_of_a_normal_need_no_converged_chains(rng):
    """With the mixture's covariance they are exact wherever the chains are."""
    mixture = normal(np.zeros(2), SCATTER)
    target = NormalTarget([0.7, -1.5], SCATTER)
    chains = Chains.at(target, 5.0 + rng.standard_normal((50, 2)))
    shift, log_scale = stein_map(chains, Scatter(mixture))
    # A ridge of 1e-9 on correlations is between them.
    assert_allclose(shift, target.mean, atol=1e-7)
    assert_allclose(log_scale, 0.0, atol=1e-7)
    # Scales need draws of the target: these have its moments.
    narrow = NormalTarget(target.mean, 0.49 * SCATTER)
    steps = 0.7 * FullGaussian().matched_draws(64, 2, rng) @ ROOT.T
    chains = Chains.at(narrow, target.mean + steps)
    _, log_scale = stein_map(chains, Scatter(mixture))
    assert_allclose(log_scale, np.log(0.7), atol=1e-7)


@pytest.mark.parametrize("dim", [3, 1500])
def test_steps_go_into_coordinates_and_out_again(dim, rng):
    """Correlated ones in few dimensions, coordinate by coordinate in many."""
    family = (FullGaussian if dim < 10 else DiagonalGaussian)()
    params = rng.standard_normal(family.n_params(dim))
    whitening = Scatter(Mixture.single((family, params))).whitening
    assert isinstance(whitening, Diagonal) == (dim > 10)
    steps = rng.standard_normal((4, dim))
    assert_allclose(whitening.lift(whitening.whiten(steps)), steps, atol=1e-9)


def test_noise_is_shrunk_away_and_differences_are_kept():
    values = np.array([0.1, 0.1, 0.1, 0.9])
    assert_allclose(shrunk(values, np.full(4, 1e-9)), values)
    assert_allclose(shrunk(values, np.full(4, 10.0)), values.mean())
    assert_allclose(shrunk(values, np.full(4, 10.0), centre=0.0), 0.0)


@pytest.mark.parametrize("family", [FullGaussian(), DiagonalGaussian()], ids=repr)
def test_a_map_finds_the_moments_of_a_normal_in_many_dimensions(family):
    dim = 60
    std = np.linspace(0.5, 2.0, dim)
    target = NormalTarget(np.full(dim, 0.3) * std, np.diag(std**2))
    start = family.from_moments(np.zeros(dim), 0.7 * std**2)
    mixture = Mixture.single((family, start))
    found, record = calibrate(target, mixture, "moments", 0)
    assert record.method == "affine" and record.applied and record.step == 1.0
    # 512 chains, whose noise Stein's identity cuts to a third and shrinkage further.
    assert_allclose(found.mean() / std, 0.3, atol=0.1)
    assert_allclose(found.std() / std, 1.0, atol=0.1)
    before = np.abs(mixture.std() / std - 1.0).mean()
    assert np.abs(found.std() / std - 1.0).mean() < 0.3 * before
    assert record.log_score_gain > 2 * record.log_score_gain_se


def test_a_guarded_map_keeps_its_allowance():
    dim = 60
    target = NormalTarget(np.zeros(dim), np.eye(dim))
    mixture = normal(np.zeros(dim), 0.85 * np.eye(dim))
    found, record = calibrate(target, mixture, "auto", 0)
    assert record.applied
    assert record.elbo_change > -allowed_loss(record, True, 10.0, dim)
    assert np.abs(found.std() - 1.0).mean() < np.abs(mixture.std() - 1.0).mean()


def test_a_guarded_map_takes_the_longest_step_that_is_not_refused(monkeypatch):
    def costly_from_half(problem, step, *arguments, judged=_calibrate._judged):
        record = judged(problem, step, *arguments)
        return replace(record, elbo_change=0.0 if step < 0.5 else -1e6)

    monkeypatch.setattr(_calibrate, "_judged", costly_from_half)
    dim = 30
    target = NormalTarget(np.zeros(dim), np.eye(dim))
    mixture = normal(np.zeros(dim), 0.7 * np.eye(dim))
    problem = Problem(target, mixture, False, 0)
    found, record = affine_map(problem, 1.0)
    assert record.step == 0.4
    assert (found.std() > mixture.std()).all()
    with pytest.raises(Declined, match="would cost"):
        affine_map(replace(problem, guarded=False), 1.0)


def test_a_guarded_map_wins_more_than_it_costs_for_sure():
    record = Calibration("affine", 1.0, -0.1, 0.03, 0.25, 0.04)
    # The gain less two standard errors of both: 0.25 - 2 * 0.05.
    assert_allclose(allowed_loss(record, True, 0.5, 1000), 0.15)
    # A hundredth of a nat and a tenth of what remains.
    assert_allclose(allowed_loss(record, True, 0.5, 1), 0.06)
    # A correction of moments may cost nats, and by chains more in many dimensions.
    tails = replace(record, method="heavy-tailed")
    assert 0.06 < allowed_loss(tails, False, 0.5, 500) < 3.0
    assert allowed_loss(record, False, 0.5, 500) > 10.0


# --- Student-t components


def test_the_moments_of_a_student_t_are_found(heavy_tailed):
    df = 5.0
    found, record = calibrate(*heavy_tailed, "moments", 0)
    assert record.method == "heavy-tailed" and record.applied
    family = found.components[0].family
    assert isinstance(family, StudentT)
    # The truth and two Monte Carlo errors of a variance by some thousand draws.
    assert_allclose(found.covariance(), df / (df - 2) * SCATTER, rtol=0.15, atol=0.02)
    assert_allclose(found.mean(), CENTRE, atol=0.08)
    assert record.pareto_k < 0.7


def test_both_directions_gain_where_tails_are_guarded(heavy_tailed):
    _, mixture = heavy_tailed
    found, record = calibrate(*heavy_tailed, "auto", 0)
    assert record.applied and found.n_components == 2
    bound, bound_record = calibrate(*heavy_tailed, "auto", 0, max_components=1)
    assert bound_record.applied and bound.n_components == 1
    rng = np.random.default_rng(1)
    eps = rng.standard_normal((20_000, 2)) @ ROOT.T
    theta = CENTRE + eps / np.sqrt(rng.chisquare(5.0, 20_000) / 5.0)[:, None]
    gain = found.log_density(theta) - mixture.log_density(theta)
    assert gain.mean() > 4 * gain.std() / np.sqrt(len(gain))
    assert record.elbo_change > -allowed_loss(record, True, 0.1, 2)


def test_a_student_t_fit_has_the_degrees_of_freedom_of_its_target(rng):
    target = CallableTarget(student_t, 2)
    problem = Problem(target, normal(np.zeros(2), SCATTER), False, 0)
    fit, pool, proposal = student_fit(problem, 2048, rng)
    (component,) = fit.components
    df = component.family.df
    assert 4.0 <= df <= 7.0
    assert_allclose(component.moments()[1] * (df - 2.0) / df, SCATTER, atol=0.1)
    # Kish's effective sample size.
    assert 1.0 / np.sum(pool.weights**2) > 0.5 * len(pool.theta)
    assert len(pool.theta) == 4 * 2048


@pytest.mark.parametrize("df", [3.0, 7.0, np.inf])
def test_degrees_of_freedom_are_the_likeliest_of_the_choices(df, rng):
    """By brute force, on weighted draws of a standard one."""
    dim, n = 3, 4000
    theta = multivariate_t(np.zeros(dim), df=df, seed=rng).rvs(n)
    share, squared = rng.dirichlet(np.ones(n)), (theta**2).sum(axis=1)
    every = [multivariate_t(np.zeros(dim), df=one).logpdf(theta) for one in _DF[:-1]]
    every.append(multivariate_normal(np.zeros(dim)).logpdf(theta))
    found = _likeliest_df(_DF, share, squared, dim)
    assert found == _DF[int(np.argmax(np.array(every) @ share))]


def test_the_truth_is_where_steps_of_em_stay(rng):
    parts = [(np.array([m]), np.eye(1), np.inf) for m in (-1.0, 1.0)]
    weights = np.array([0.2, 0.8])
    theta = rng.choice([-1.0, 1.0], 20_000, p=weights) + rng.standard_normal(20_000)
    pool = Pool(theta[:, None], None, None, np.full(20_000, 1 / 20_000))
    found, moved = _improved(weights, parts, pool, (np.inf,))
    assert_allclose(found, weights, atol=0.01)
    assert_allclose([m[0] for m, *_ in moved], [-1.0, 1.0], atol=0.05)
    assert_allclose([S[0, 0] for _, S, _ in moved], 1.0, atol=0.05)


def test_half_of_the_draws_are_in_heavy_tails():
    parts = [(np.zeros(2), SCATTER, 5.0), (CENTRE, np.eye(2), np.inf)]
    found = _proposal(np.array([0.3, 0.7]), parts, normal(CENTRE, 4.0 * SCATTER))
    tails = [getattr(each.family, "df", np.inf) for each in found.components]
    assert tails == [5.0, np.inf, 2.0, 2.0, 2.0]
    assert_allclose(found.weights, [0.12, 0.28, 0.15, 0.35, 0.1])
    # The last is half as wide again as the mixture: of df = 2 in the plane.
    height = found.components[-1].log_density(CENTRE[None])
    area = np.linalg.slogdet(1.5**2 * 4.0 * SCATTER)[1]
    assert_allclose(height, -np.log(2.0 * np.pi) - 0.5 * area)


@pytest.mark.parametrize(("dim", "n"), [(2, 1024), (5, 2000)])
def test_draws_of_a_round_grow_with_the_dimension(dim, n):
    target = CallableTarget(lambda t: -0.5 * anp.sum(t**2, axis=1), dim)
    problem = Problem(target, normal(np.zeros(dim), 0.7 * np.eye(dim)), False, 0)
    heavy_tails(problem, 1.0)
    # Four rounds, and three thirds of as many that judge.
    assert target.n_evaluations == pytest.approx(8 * n, abs=3)


def test_components_are_gaussian_where_results_are_exponentials():
    """The moments are those of the target all the same."""
    target = CallableTarget(student_t, 2)
    target.light_tails = True
    found, record = calibrate(target, normal(np.zeros(2), 0.8 * SCATTER), "moments", 0)
    assert record.applied and record.method == "gaussian"
    assert {type(component.family) for component in found.components} == {FullGaussian}
    assert_allclose(found.covariance(), 5 / 3 * SCATTER, rtol=0.15, atol=0.02)


class Countdown:
    """A budget that ends at the `n`-th look at it."""

    def __init__(self, n):
        self.left = n

    def check(self, n=1):
        self.left -= 1
        if self.left < 0:
            raise BudgetSpent("nothing is left")


def test_a_budget_binds_between_evaluations(heavy_tailed):
    """Steps of EM, and those of the weights, evaluate nothing and take seconds."""
    target, mixture = heavy_tailed
    looks = Countdown(10**6)
    with target.ledger.within(looks):
        _, record = calibrate(target, mixture, "auto", 0)
    n_looks = 10**6 - looks.left
    assert record.applied and n_looks > 4 * 8
    for n in (0, 4 * 8 - 1, n_looks - 1):
        with pytest.raises(BudgetSpent), target.ledger.within(Countdown(n)):
            calibrate(target, mixture, "auto", 0)


def test_joint_weights_solve_a_convex_problem(rng):
    """Two components of the target itself: the weights are those of the target."""
    parts = tuple((DiagonalGaussian(), np.array([m, 0.0])) for m in (-1.5, 1.5))
    truth = Mixture(parts, np.array([0.3, 0.7]))
    theta = truth.sample(4000, rng)
    log_p = truth.log_density(theta)
    pool = Pool.of(theta, log_p + 3.0, [truth])
    problem = Problem(Target(), Mixture.single(parts[0]), False, 0)
    found = jointly_weighted(parts, problem, pool)
    assert_allclose(found.weights, truth.weights, atol=1e-3)


# --- declined


@pytest.mark.parametrize("method", ["gaussian", "affine"])
@pytest.mark.parametrize(
    ("change", "change_se", "gain", "se", "found"),
    [
        (-2.0, 0.01, 0.5, 0.01, ""),
        (-2.0, 0.01, 0.3, 0.2, "no gain beyond two standard errors"),
        (-2.0, 0.01, np.nan, 0.2, "no gain beyond two standard errors"),
        (-2.3, 0.01, 0.5, 0.01, "would cost 2.3 nats"),
        (np.nan, 0.01, 0.5, 0.01, "no number"),
        # Of an infinite loss draws see little but a large error.
        (-2.0, 1.3, 0.5, 0.01, "hardly known (standard error 1.3)"),
    ],
)
def test_what_is_refused(method, change, change_se, gain, se, found):
    """Two nats, and what remains, may be paid for moments."""
    record = Calibration(method, 1.0, change, change_se, gain, se)
    reason = refusal(record, allowed_loss(record, False, 0.2, 2))
    assert found in reason and bool(reason) == bool(found)


@pytest.mark.parametrize(
    ("method", "dim", "gain", "found"),
    [
        # A hundredth of a nat, or .002 for each dimension, and a tenth of what remains.
        ("gaussian", 100, 0.0, 0.01 + 0.05),
        ("affine", 2, 9.0, 0.01 + 0.05),
        ("affine", 100, 9.0, 0.2 + 0.05),
        # But less than was gained for sure.
        ("affine", 100, 0.2, 0.2 - 2.0 * 0.05),
    ],
)
def test_a_guarded_correction_may_cost_little(method, dim, gain, found):
    record = Calibration(method, 1.0, 0.0, 0.03, gain, 0.04)
    assert allowed_loss(record, True, 0.5, dim) == pytest.approx(found)


@pytest.mark.parametrize("method", sorted(CALIBRATIONS))
@pytest.mark.parametrize("dim", [2, 60])
def test_an_exact_fit_is_left_alone(method, dim):
    target = NormalTarget(np.zeros(dim), np.eye(dim))
    mixture = normal(np.zeros(dim), np.eye(dim))
    found, record = calibrate(target, mixture, method, 0)
    assert found is mixture
    assert not record.applied
    assert "left to correct" in record.reason


@pytest.mark.parametrize("method", sorted(CALIBRATIONS))
@pytest.mark.parametrize("wrong", [-1.0, 0.0, 10.0])
def test_a_wrong_gradient_does_no_harm(method, wrong):
    """Chains are right under any gradient, so what they accept is a gain."""
    dim, variance = 60, 1.2

    class Wrong(NormalTarget):
        def value_and_score(self, theta):
            value, score = super().value_and_score(theta)
            return value, wrong * score

    target = Wrong(np.zeros(dim), variance * np.eye(dim))
    mixture = normal(np.zeros(dim), np.eye(dim))
    found, record = calibrate(target, mixture, method, 0)
    if not record.applied:
        assert found is mixture and record.reason
    theta = np.random.default_rng(5).standard_normal((4000, dim)) * np.sqrt(variance)
    gain = found.log_density(theta) - mixture.log_density(theta)
    assert gain.mean() >= 0


@pytest.mark.parametrize("dim", [2, 60])
def test_a_density_that_fails_leaves_the_mixture(dim):
    def broken(theta):
        return anp.nan * anp.sum(theta, axis=-1)

    def half_broken(theta):
        return anp.where(theta[:, 0] > 0, anp.nan, -0.1 * anp.sum(theta**2, axis=-1))

    mixture = normal(np.zeros(dim), np.eye(dim))
    for log_density in (broken, half_broken):
        target = CallableTarget(log_density, dim, lambda t: 0 * t, vectorized=True)
        for method in CALIBRATIONS:
            found, record = calibrate(target, mixture, method, 0)
            if not record.applied:
                assert found is mixture and record.reason
            assert np.isfinite(found.mean()).all()
            assert log_density is half_broken or not record.applied


def test_a_gradient_that_raises_is_named():
    dim = 21

    def gradient(theta):
        raise RuntimeError("no gradient here")

    target = CallableTarget(
        lambda t: -0.4 * np.sum(t**2, axis=-1), dim, gradient, vectorized=True
    )
    mixture = normal(np.zeros(dim), np.eye(dim))
    found, record = calibrate(target, mixture, "moments", 0)
    assert found is mixture
    assert "gradient" in record.reason


def test_the_same_seed_gives_the_same_correction(heavy_tailed):
    one, again, other = (calibrate(*heavy_tailed, "auto", s)[0] for s in (3, 3, 4))
    assert np.array_equal(one.components[-1].params, again.components[-1].params)
    assert not np.array_equal(one.components[-1].params, other.components[-1].params)


def test_most_trajectories_are_taken_in_a_hundred_dimensions(rng):
    """Steps are short enough there, and were chosen there."""
    target = CallableTarget(lambda t: -0.5 * anp.sum(t**2, axis=1), 100)
    chains = Chains.at(target, rng.standard_normal((200, 100)))
    moved = chains.moved(target, Diagonal(np.ones(100)), rng)
    taken = (moved.theta != chains.theta).any(axis=1)
    assert taken.mean() > 0.9 and moved.step == 1.5 * chains.step
    # No longer than twice the first; shorter where few are taken.
    assert moved.moved(target, Diagonal(np.ones(100)), rng).step == 2.0 * chains.step
    wide = chains.moved(target, Diagonal(np.full(100, 16.0)), rng)
    assert wide.step == chains.step / 1.5
