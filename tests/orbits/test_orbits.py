"""Orbits: groups, densities, bounds, draws, moments, marginals, by brute force."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

from skboost.approximation import Mixture, remaining_kl
from skboost.families import (
    Component,
    DiagonalGaussian,
    FullGaussian,
    Laplace,
    LowRankGaussian,
    StudentT,
)
from skboost.orbits import (
    OrbitMixture,
    Orbits,
    ShiftGroups,
    remaining_after_orbits,
    reweighted,
)
from skboost.posterior import MixturePosterior, as_posterior
from skboost.targets import Budget, CallableTarget, Target
from skboost.transforms import Constraints

GRID = np.linspace(-14.0, 8.0, 40_001)
STEP = GRID[1] - GRID[0]
# Off the lines through centres, whose images are infinitely far away.
PLANE = np.stack(np.meshgrid(*2 * [np.linspace(-8.98, 7.02, 321)]), -1).reshape(-1, 2)
CELL = (16.0 / 320) ** 2
COARSE = PLANE.reshape(321, 321, 2)[::2, ::2].reshape(-1, 2)


class LogGamma(Target):
    """Logarithms of gamma variables with shape 2.5, tied by their differences."""

    def __init__(self, dim):
        self.dim = dim

    def log_density(self, theta, strict=False):
        tie = -0.5 * (np.diff(theta, axis=1) ** 2).sum(axis=1)
        return (2.5 * theta - np.exp(theta)).sum(axis=1) + tie


def member(family, dim, mean, variance):
    covariance = variance * np.ones(dim)
    if family.full_covariance or family.low_rank:
        covariance = variance * (0.8 * np.eye(dim) + 0.2)
    return family, family.from_moments(np.full(dim, mean), covariance)


FULL = FullGaussian()
MIXTURES = {
    "one": lambda dim: Mixture.single(member(FULL, dim, 0.75, 0.45)),
    "two": lambda dim: Mixture(
        (member(FULL, dim, 0.2, 0.6), member(FULL, dim, 1.0, 0.3)), np.array([0.4, 0.6])
    ),
    "student_t": lambda dim: Mixture.single(member(StudentT("full"), dim, 0.75, 0.4)),
    "laplace": lambda dim: Mixture.single(member(Laplace(), dim, 0.7, 0.2)),
}
FAMILIES = {
    "full": FULL,
    "diag": DiagonalGaussian(),
    "low_rank": LowRankGaussian(rank=2),
    "laplace": Laplace(),
    "student_t": StudentT("full"),
    "student_t_diag": StudentT("diag", df=3.0),
}


def orbiting(target, mixture, order, n=512, seed=0):
    """A mixture with orbits of that order, and the draws behind it."""
    orbits = Orbits.of(target, mixture, n, np.random.default_rng(seed))
    orbits = orbits.doubled_until(target, -np.inf, order, at_once=True)
    return OrbitMixture.of(orbits, target), orbits


def kl(target, log_q, points, cell):
    log_p = target.log_density(points)
    log_p = log_p - np.log(np.exp(log_p).sum() * cell)
    q = np.exp(log_q)
    return float((np.where(q > 0, q * (log_q - log_p), 0.0)).sum() * cell)


# --- groups


@pytest.mark.parametrize(("name", "dim"), [*zip(FAMILIES, [1, 4] * 3, strict=True)])
def test_images_are_a_group_that_leaves_a_component_as_it_is(name, dim):
    rng = np.random.default_rng(0)
    component = Component(*member(FAMILIES[name], dim, 1.0, 2.0))
    group = ShiftGroups.of(component, rng)
    theta = component.sample(2048, rng)
    z = group.whiten(theta)
    images = group.images(z, 0, 16)
    assert_allclose(group.place(images[:, 0]), theta, atol=1e-12)
    assert_allclose(images[:, 1], -z, atol=1e-12)
    # The orbit of an image is the orbit.
    again = group.images(images[:9, 5], 0, 16)
    near = np.abs(images[:9, :, None] - again[:, None]).max(axis=3).min(axis=2)
    assert near.max() < 1e-6
    # Every image of a draw is a draw.
    u = component.family.uniform(images)
    for k in range(16):
        for moment in (u[:, k].mean(axis=0) - 0.5, (u[:, k] ** 2).mean(axis=0) - 1 / 3):
            assert np.abs(moment).max() < 4.0 * 0.3 / np.sqrt(2048)
    assert_allclose(component.family.from_uniform(u), images, rtol=1e-6, atol=1e-6)


def test_one_image_is_that_among_all():
    rng = np.random.default_rng(0)
    group = ShiftGroups.of(Component(*member(FULL, 3, 1.0, 2.0)), rng)
    z = rng.standard_normal((64, 3))
    which = np.arange(64)[::-1]
    images = group.images(z, 0, 64)[np.arange(64), which]
    assert_allclose(group.image(z, which), images, atol=1e-12)


def test_groups_contain_each_other_and_images_are_finite():
    rng = np.random.default_rng(0)
    component = Component(*member(FULL, 3, 1.0, 2.0))
    group = ShiftGroups.of(component, rng)
    z = np.concatenate(
        [np.zeros((1, 3)), 30.0 * np.ones((1, 3)), rng.normal(size=(5, 3))]
    )
    whole = group.images(z, 0, 1024)
    assert np.isfinite(whole).all()
    parts = [group.images(z, 0, 2)]
    parts += [group.images(z, 2**k, 2 ** (k + 1)) for k in range(1, 10)]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
    assert len(np.unique(whole[3, :, 0].round(9))) == 1024


def test_families_of_users_are_reflected_alone():
    class Own(DiagonalGaussian):
        maps_to_cube = False

    group = ShiftGroups.of(
        Component(*member(Own(), 2, 0.0, 1.0)), np.random.default_rng(0)
    )
    assert group.max_order == 2


# --- densities


@pytest.mark.parametrize(
    ("name", "dim", "order"),
    [
        ("one", 1, 32),
        ("two", 1, 4),
        ("two", 2, 8),
        pytest.param("two", 2, 32, marks=pytest.mark.slow),
        pytest.param("one", 2, 64, marks=pytest.mark.slow),
    ],
)
def test_they_are_normalised(name, dim, order):
    if dim == 1:
        points, cell = GRID[::4, None], 4 * STEP
    elif order == 64:
        points, cell = PLANE, CELL
    else:
        points, cell = COARSE, 4 * CELL
    q, _ = orbiting(LogGamma(dim), MIXTURES[name](dim), order, n=32)
    assert np.exp(q.log_density(points)).sum() * cell == pytest.approx(1.0, abs=5e-3)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("name", ["one", "two"])
def test_the_gain_is_the_bound_and_nothing_is_lost(name, dim):
    points, cell = (GRID[:, None], STEP) if dim == 1 else (PLANE, CELL)
    target, mixture = LogGamma(dim), MIXTURES[name](dim)
    q, report, left = reweighted(target, mixture, 4, 0.0, 0.0, np.random.default_rng(0))
    before = kl(target, mixture.log_density(points), points, cell)
    after = kl(target, q.log_density(points), points, cell)
    bound = before - report.gain
    assert report.order == 4 and report.remaining == left.value
    assert after < bound + 3.0 * report.gain_se < before
    assert left.value > after - 4.0 * left.se
    if name == "one":
        assert abs(after - bound) < 3.0 * report.gain_se
        assert abs(left.value - after) < 4.0 * left.se


def test_no_mixture_loses():
    """KL(q~ || p) <= ln Z - sum alpha E ln mean exp f <= KL(q || p)."""
    rng, target, points = np.random.default_rng(0), LogGamma(1), GRID[::8, None]
    parts = [
        member(FULL, 1, rng.uniform(-1.0, 2.0), rng.uniform(0.1, 1.0)) for _ in range(3)
    ]
    mixture = Mixture(tuple(parts), rng.dirichlet(np.ones(3)))
    before = kl(target, mixture.log_density(points), points, 8 * STEP)
    bounds = []
    orbits = Orbits.of(target, mixture, 2048, rng)
    for order in (2, 8, 32):
        orbits = orbits.doubled_until(target, -np.inf, order, at_once=True)
        q = OrbitMixture.of(orbits, target)
        gain = orbits.gain()
        bounds.append(before - gain.value)
        assert kl(target, q.log_density(points), points, 8 * STEP) < (
            bounds[-1] + 4.0 * gain.se
        )
    assert before >= bounds[0] >= bounds[1] - 1e-12 >= bounds[2] - 2e-12


def test_the_bound_rises_by_no_doubling_of_any_draw():
    target, mixture = LogGamma(3), MIXTURES["two"](3)
    _, orbits = orbiting(target, mixture, 2)
    undone = orbits.remaining().value
    for _ in range(5):
        doubled = orbits.doubled(target, np.array([True, True]))
        # Old evaluations are used again.
        for old, new in zip(orbits.f, doubled.f, strict=True):
            assert np.array_equal(new[:, : old.shape[1]], old)
        assert doubled.undone().sum() >= 0.0
        orbits = doubled
    assert orbits.remaining().value < undone
    assert orbits.undone().sum() == pytest.approx(orbits.remaining().value, abs=2e-3)


@pytest.mark.parametrize(
    ("name", "order"), [*zip(MIXTURES, (2, 16, 2, 16), strict=True)], ids=str
)
def test_it_is_a_density_with_these_moments_draws_and_marginals(name, order):
    mixture = MIXTURES[name](1)
    skewed, report, _ = reweighted(
        LogGamma(1), mixture, order, 0.0, 0.0, np.random.default_rng(0)
    )
    assert report.applied
    q = np.exp(skewed.log_density(GRID[:, None]))
    assert q.sum() * STEP == pytest.approx(1.0, abs=1e-3)
    mean = (q * GRID).sum() * STEP
    spread = np.sqrt((q * (GRID - mean) ** 2).sum() * STEP)
    # Of 4,096 draws.
    assert abs(skewed.mean()[0] - mean) < 4.0 * spread / 64.0
    assert skewed.std()[0] == pytest.approx(spread, rel=0.02)
    assert skewed.covariance()[0, 0] == pytest.approx(skewed.std()[0] ** 2)
    exact = np.cumsum(q) * STEP
    draws = np.sort(skewed.sample(20_000, np.random.default_rng(1)).ravel())
    found = np.interp(draws, GRID, exact)
    # Kolmogorov's bound at one in ten thousand.
    assert np.abs(found - (np.arange(20_000) + 0.5) / 20_000).max() < 2.2 / np.sqrt(2e4)
    marginal = MixturePosterior(skewed).marginal(0)
    pdf, cdf = marginal.pdf(GRID), marginal.cdf(GRID)
    # Where coordinates wrap the density jumps, and a marginal does not.
    assert np.abs(pdf - q).sum() * STEP < 0.05
    assert np.abs(cdf - exact).max() < 0.01
    assert (np.diff(cdf) > -1e-12).all()
    assert_allclose(np.gradient(cdf, STEP)[1:-1], pdf[1:-1], atol=1e-2)
    levels = np.array([0.05, 0.5, 0.95])
    assert_allclose(marginal.cdf(marginal.quantile(levels)), levels, atol=1e-6)


def test_second_moments_move_too():
    target, mixture = LogGamma(2), MIXTURES["one"](2)
    q, _ = orbiting(target, mixture, 16, n=2048)
    p = np.exp(q.log_density(COARSE)) * 4 * CELL
    apart = COARSE - p @ COARSE
    assert_allclose(q.covariance(), (p[:, None] * apart).T @ apart, atol=0.02)
    assert_allclose(q.std() ** 2, np.diag(q.covariance()))


def test_far_tails_are_finite():
    q, _ = orbiting(LogGamma(2), MIXTURES["two"](2), 64, n=32)
    far = np.array([[-90.0, -80.0], [-300.0, 2.0], [4.0, 4.0]])
    assert np.isfinite(q.log_density(far)).all()
    x = np.array([-300.0, -50.0, 30.0, 300.0])
    assert np.isfinite(q.marginal_log_density(0, np.zeros(4, dtype=int), x)).all()


def test_marginals_of_transformed_coordinates():
    mixture = MIXTURES["one"](1)
    q, *_ = reweighted(
        LogGamma(1), mixture, "auto", 0.01, 0.0, np.random.default_rng(0)
    )
    posterior = as_posterior(q, None, Constraints("positive", 1))
    # A gamma variable.
    assert posterior.mean()[0] == pytest.approx(2.5, rel=0.02)
    assert posterior.std()[0] == pytest.approx(np.sqrt(2.5), rel=0.1)
    draws = posterior.sample(50_000, random_state=0)
    assert draws.mean() == pytest.approx(2.5, rel=0.02)


# --- without the target


def test_importance_weights_have_draws_of_the_density_that_they_divide_by():
    # Close to so few known draws lie no draws of the density.
    q, _ = orbiting(LogGamma(1), MIXTURES["student_t"](1), 16, n=4)
    weighted = MixturePosterior(q).importance_weights(LogGamma(1), 2000, random_state=0)
    exact = np.cumsum(np.exp(q.log_density(GRID[:, None]))) * STEP
    found = np.interp(np.sort(weighted.draws.ravel()), GRID, exact)
    # Kolmogorov's bound at one in ten thousand.
    assert np.abs(found - (np.arange(2000) + 0.5) / 2000).max() < 2.2 / np.sqrt(2000)
    assert abs(weighted.log_evidence - gammaln(2.5)) < 4.0 * weighted.log_evidence_se


@pytest.mark.parametrize("order", [2, 32])
def test_pickles_hold_no_target_and_still_draw(order):
    q, _ = orbiting(LogGamma(2), MIXTURES["one"](2), order)
    posterior = MixturePosterior(q)
    copy = pickle.loads(pickle.dumps(posterior))
    draws = copy.sample(20_000, random_state=0)
    assert np.abs(draws.mean(axis=0) - posterior.mean()).max() < 0.03
    assert_allclose(draws.std(axis=0), posterior.std(), rtol=0.05)
    assert len(np.unique(draws[:, 0])) == len(draws)
    with pytest.raises(
        ValueError,
        match=r"with_log_joint\(log_joint\), where .* estimator.make_log_joint",
    ):
        copy.log_density(draws[:3])
    again = copy.with_log_joint(LogGamma(2).log_density)
    assert_allclose(again.log_density(draws[:9]), posterior.log_density(draws[:9]))


def test_files_keep_the_orbits(tmp_path):
    q, _ = orbiting(LogGamma(1), MIXTURES["two"](1), 8)
    posterior = MixturePosterior(q, ["a"])
    posterior.save(tmp_path / "orbits.npz")
    read = MixturePosterior.load(tmp_path / "orbits.npz")
    assert_allclose(read.mean(), posterior.mean())
    assert_allclose(read.interval(), posterior.interval())
    evidence = read.evidence(LogGamma(1), n=2000, random_state=0)
    before = MixturePosterior(q.base).evidence(LogGamma(1), 2000, random_state=0)
    assert evidence.elbo > before.elbo
    weights = read.importance_weights(LogGamma(1), n=2000, random_state=0)
    assert weights.effective_sample_size > 1900


# --- whether it is worth it


class Normal(Target):
    log_concave = True

    def __init__(self, dim=1):
        self.dim = dim

    def log_density(self, theta, strict=False):
        return -0.5 * ((theta - 1.0) ** 2).sum(axis=1)


def test_what_is_exact_is_declined():
    mixture = Mixture.single(member(FULL, 1, 1.0, 1.0))
    same, report, _ = reweighted(
        Normal(), mixture, "auto", 0.01, 1e-3, np.random.default_rng(0)
    )
    assert same is mixture and not report.applied and report.order == 2
    assert "gains no more than" in report.reason


def test_a_width_that_is_wrong_is_found_by_more_than_reflections():
    mixture = Mixture.single(member(FULL, 1, 1.0, 1.6))
    by_two, by_many = (
        reweighted(Normal(), mixture, order, 0.01, 1e-3, np.random.default_rng(0))[1]
        for order in (2, "auto")
    )
    assert not by_two.applied and by_many.applied and by_many.order > 2


def test_few_draws_say_what_would_remain():
    mixture = Mixture.single(member(FULL, 1, 1.0, 1.3))
    parts = lambda left: True, 1.0, 2, np.random.default_rng(0)  # noqa: E731
    left, _ = remaining_after_orbits(Normal(), mixture, *parts)
    # KL of N(1, 1.3) to N(1, 1).
    assert left.value == pytest.approx(0.5 * (0.3 - np.log(1.3)), abs=3 * left.se)


def test_a_tail_is_followed_through_a_few_more_images():
    mixture = Mixture.single(member(FULL, 1, 1.0, 1.3))
    for bends, order in ((None, 2), (lambda left: False, 2), (lambda left: True, 8)):
        parts = lambda left: True, 1.0, 64, np.random.default_rng(0)  # noqa: E731
        _, orbits = remaining_after_orbits(Normal(), mixture, *parts, bends=bends)
        assert orbits.orders.max() == order


class Counted(LogGamma):
    """Counts its evaluations."""

    n = 0

    def log_density(self, theta, strict=False):
        self.n += len(theta)
        return super().log_density(theta)


def test_orbits_that_are_known_serve_again_where_the_mixture_is_the_same():
    mixture, other = MIXTURES["one"](2), MIXTURES["two"](2)
    _, known = orbiting(LogGamma(2), mixture, 8, n=2048)
    for one, again in ((mixture, True), (other, False)):
        target = Counted(2)
        parts = one, "auto", 0.01, 1e-3, np.random.default_rng(0), known
        q, report, left = reweighted(target, *parts)
        assert report.applied and left.value < 0.02
        assert (target.n == 0) is again
        assert (len(q.orbits[0].shares) == 2048) is again


def test_doubling_ends_where_little_remains_and_goes_where_much_does():
    light = member(FULL, 2, 0.5, 0.4)
    mixture = Mixture((member(FULL, 2, 0.75, 0.45), light), np.array([0.999, 0.001]))
    orbits = Orbits.of(LogGamma(2), mixture, 512, np.random.default_rng(0))
    found = orbits.doubled_until(LogGamma(2), 0.01, 64)
    assert found.remaining().value < 0.015
    assert 2 < found.orders[0] <= 64 and found.orders[1] == 2


def test_draws_of_light_components_are_weighted():
    """Pooled, sixteen draws of a component of weight 1e-4 said nats for hundredths."""
    astray = member(FULL, 1, -12.0, 0.01)
    mixture = Mixture((member(FULL, 1, 0.75, 0.45), astray), np.array([0.9999, 1e-4]))
    orbits = Orbits.of(LogGamma(1), mixture, 512, np.random.default_rng(0))
    alone, _ = orbiting(LogGamma(1), MIXTURES["one"](1), 2)
    exact = kl(LogGamma(1), alone.log_density(GRID[:, None]), GRID[:, None], STEP)
    assert orbits.remaining().value == pytest.approx(exact, abs=0.02)
    assert remaining_kl(orbits.values).value > 10 * exact


# --- densities that fail, and limits


def beyond(theta):
    raise ValueError("below -1.5")


def test_a_density_that_ends_keeps_what_is_inside():
    def density(theta):
        inside = 2.5 * theta[0] - np.exp(theta[0])
        return inside if theta[0] > -1.5 else beyond(theta)

    target = CallableTarget(density, 1, vectorized=False, failures="zero")
    mixture = Mixture.single(member(FULL, 1, 0.75, 0.8))
    found = reweighted(target, mixture, 4, 0.0, 1e-3, np.random.default_rng(0))
    q, report, left = found
    assert report.applied
    assert np.isfinite([report.gain, report.gain_se, left.value]).all()
    assert (q.sample(1000, np.random.default_rng(1)) >= -1.5).all()
    mass = np.exp(q.log_density(GRID[::64, None])).sum() * 64 * STEP
    assert mass == pytest.approx(1.0, abs=0.03)


def test_a_density_that_is_zero_at_whole_orbits_is_declined():
    class Far(LogGamma):
        def log_density(self, theta, strict=False):
            return np.where(theta[:, 0] < 2.5, -np.inf, super().log_density(theta))

    mixture = MIXTURES["one"](1)
    same, report, _ = reweighted(
        Far(1), mixture, 4, 0.0, 1e-3, np.random.default_rng(0)
    )
    assert same is mixture and "zero at draws" in report.reason


@pytest.mark.parametrize("most", [3000, 12_000])
def test_limits_bind_inside_a_doubling(most):
    target = CallableTarget(LogGamma(3).log_density, 3, vectorized=True)
    mixture = MIXTURES["one"](3)
    budget = Budget(max_evaluations=most, ledger=target.ledger)
    with target.ledger.within(budget):
        _, report, _ = reweighted(
            target, mixture, 1024, 0.0, 1e-3, np.random.default_rng(0)
        )
    assert report.applied and 2 <= report.order < 64
    assert report.n_evaluations <= target.n_evaluations <= most


@pytest.mark.parametrize("dim", [1, 300])
def test_any_dimension(dim):
    target = Normal(dim)
    mixture = Mixture.single(member(FULL, dim, 1.1, 1.0))
    q, orbits = orbiting(target, mixture, 8, n=64)
    assert q.sample(50, np.random.default_rng(0)).shape == (50, dim)
    assert np.isfinite(q.log_density(mixture.sample(5, np.random.default_rng(1)))).all()
    assert np.isfinite(q.mean()).all() and (q.std() > 0).all()
    assert orbits.gain().value > 0
