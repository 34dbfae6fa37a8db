"""The first component, and starts beside the ones there are: each piece by itself."""

from dataclasses import dataclass
from types import SimpleNamespace

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import BoostedBayesianLinearRegression, boost_posterior
from skboost.approximation import Mixture
from skboost.boosting import Settings
from skboost.families import (
    Component,
    DiagonalGaussian,
    FullGaussian,
    Laplace,
    LowRankGaussian,
    StudentT,
)
from skboost.modes import Modes
from skboost.modes._missed import WeighedMode
from skboost.priors import HalfTPrior
from skboost.proposals import (
    DensityProposer,
    ScaleProposer,
    left_out,
    natural_gaussian,
    propagates,
    skew_direction,
    split_component,
)
from skboost.proposals._first import (
    _best_of_short_searches,
    _groups,
    fitted_at,
    projected,
    proper_modes,
)
from skboost.proposals._greedy import _starts_at, residual_points
from skboost.proposals._propagated import has_room, has_room_for_classes, is_wide
from skboost.proposals._scales import _Searches
from skboost.strategies import GreedySearch
from skboost.targets import (
    Budget,
    CallableTarget,
    CommonScale,
    GLMTarget,
    LaplacePrior,
    LogDensityError,
    Logistic,
    Multinomial,
    NormalPrior,
    Poisson,
    Table,
)


def fourth_power(centre):
    """Expectations of ``-(x - centre)^4 / 4`` under a normal distribution."""

    def curvature(mean, factor):
        m, variance = mean - centre, factor[0, 0] ** 2
        value = -0.25 * (m**4 + 6 * m**2 * variance + 3 * variance**2)[0]
        return value, -(m**3 + 3 * m * variance), (3 * (m**2 + variance))[None]

    return curvature


@pytest.mark.parametrize("mean", [1.0, 4.0], ids="from {}".format)
def test_natural_gradients_end_at_the_best_gaussian(mean):
    # Without damping the precision goes from p to 3 / p and back.
    start = (np.array([mean]), np.array([0.1]))
    found, covariance = natural_gaussian(fourth_power(1.0), 1, Budget(), start=start)
    assert_allclose(found, 1.0, atol=1e-3)
    assert_allclose(covariance, 1.0 / np.sqrt(3.0), rtol=1e-3)


class Skewed:
    """Skewed along the first axis, and shifted along the second."""

    dim = 2

    def value_and_score(self, theta):
        score = -theta
        score[:, 0] += 0.3 * (theta[:, 0] ** 2 - 1.0)
        score[:, 1] += 1.0
        return np.zeros(len(theta)), score


FAMILY = DiagonalGaussian()
STANDARD = FAMILY.from_moments(np.zeros(2), np.ones(2))


def test_a_shift_is_no_skewness():
    mixture = Mixture.single((FAMILY, STANDARD))
    rng = np.random.default_rng(0)
    direction = skew_direction(Skewed(), mixture, 0, rng)
    assert_allclose(np.abs(direction), [1.0, 0.0], atol=0.1)


def test_halves_share_the_weight_and_lie_a_standard_deviation_apart():
    family, variance = FullGaussian(), np.array([4.0, 0.5])
    light = family.from_moments(np.full(2, 5.0), np.eye(2))
    heavy = family.from_moments(np.zeros(2), np.diag(variance))
    mixture = Mixture(((family, light), (family, heavy)), np.array([0.3, 0.7]))
    found = split_component(Skewed(), mixture, 1, np.random.default_rng(0))
    assert_allclose(found.weights, [0.3, 0.35, 0.35])
    here, there = (half.location() for half in found.components[1:])
    assert_allclose(here + there, 0.0, atol=1e-12)
    assert np.linalg.norm((there - here) / np.sqrt(variance)) == pytest.approx(1.0)


@dataclass
class Parabola:
    """A problem with its maximum at the start."""

    top: float
    start = np.zeros(1)
    limits = np.array([np.inf])

    def value_and_gradient(self, x):
        return self.top - 0.5 * float(x @ x), -x


def test_the_best_of_several_starts_is_searched():
    problems = [Parabola(top) for top in (0.0, 5.0, 1.0, -3.0)]
    x, best = _best_of_short_searches(problems, Budget(), Settings())
    assert best is problems[1]
    assert x == [0.0]
    assert _best_of_short_searches(problems[:1], None, None)[1] is problems[0]


def test_a_diagonal_gaussian_beside_a_full_one_has_the_conditional_variances():
    covariance = np.array([[1.0, 0.6], [0.6, 4.0]])
    params = projected(FAMILY, np.array([3.0, -1.0]), covariance)
    mean, found = Component(FAMILY, params).moments()
    assert_allclose(mean, [3.0, -1.0])
    assert_allclose(np.diag(found), [1.0 - 0.36 / 4.0, 4.0 - 0.36])


def test_residual_points_are_where_the_target_has_more_mass():
    mixture = Mixture.single((FAMILY, STANDARD))

    def points(log_density):
        target = CallableTarget(log_density, 2)
        fixed = SimpleNamespace(components=mixture)
        context = SimpleNamespace(fixed=fixed, target=target, mixture=mixture)
        return residual_points(context, 50, np.random.default_rng(0))

    def two(theta):
        away = anp.sum((theta - anp.array([6.0, 0.0])) ** 2, axis=1)
        return 7.0 + anp.logaddexp(-0.5 * anp.sum(theta**2, axis=1), -0.5 * away)

    found = points(two)
    assert len(found) and (found[:, 0] > 2.5).all()
    # Twice as wide it is denser from a radius of 1.92 on.
    wide = points(lambda t: 40.0 - 0.125 * anp.sum(t**2, axis=1))
    radius = np.sqrt((wide**2).sum(axis=1))
    assert radius.min() == pytest.approx(np.sqrt(8.0 * np.log(4.0) / 3.0), abs=0.5)
    # Of a density that is zero everywhere there are none.
    assert not len(points(lambda t: -np.inf + 0.0 * t[:, 0]))


def test_a_climb_without_end_is_no_mode():
    """On one side of zero the density rises for ever, on the other it has a mode."""

    def log_density(theta):
        x = theta[:, 0]
        return anp.where(x > 0, x, -0.5 * (x + 1.0) ** 2)

    target = CallableTarget(log_density, 1)
    starts, ends = np.array([[1.0], [-3.0]]), np.array([[1e8], [-1.0]])
    assert proper_modes(target, starts, ends) == [[-1.0]]
    assert proper_modes(target, starts[1:], ends[1:]) == [[-1.0]]
    with pytest.raises(LogDensityError, match="rises without end: from x0=.1"):
        proper_modes(target, starts[:1], ends[:1])
    # As far along one axis, and at the top of a normal density.
    top = np.array([[1e8, 0.0]])
    normal = CallableTarget(lambda t: -0.5 * anp.sum((t - top) ** 2, axis=1), 2)
    assert_allclose(proper_modes(normal, np.array([[1.0, 0.0]]), top), top)


def test_modes_that_are_fitted_together_share_their_evidence():
    family, shares = FullGaussian(), np.array([0.2, 0.8])
    modes = [Component(family, family.from_moments([x], [[1.0]])) for x in (0.0, 4.0)]
    truth = Mixture(tuple(modes), shares)
    target = CallableTarget(
        lambda t: 3.0 + truth.log_density(t), 1,
        lambda t: truth.score_and_log_density(t)[0],
    )  # fmt: skip
    assert len(_groups(modes)) == 1
    _, logs = zip(*fitted_at(target, family, modes, Settings()), strict=True)
    assert_allclose(logs, 3.0 + np.log(shares), atol=0.01)


@pytest.mark.parametrize("df", [3.0, 30.0])
def test_the_best_variant_is_fitted_at_a_mode(df):
    choices = StudentT("diag", df=(30.0, 3.0))
    (truth,) = (one for one in choices.variants() if one.df == df)
    truth = Component(truth, truth.from_moments(np.array([2.0]), np.ones(1)))
    target = CallableTarget(
        lambda t: 5.0 + truth.log_density(t), 1, lambda t: truth.at(t).score()
    )
    family = DiagonalGaussian()
    mode = Component(family, family.from_moments([2.0], np.ones(1)))
    ((found, log_mass),) = fitted_at(target, choices, [mode], Settings())
    assert found.family.df == df and log_mass == pytest.approx(5.0, abs=1e-3)


def test_fits_at_modes_that_a_mixture_lacks_join_it_by_their_mass():
    family = DiagonalGaussian()
    places = [family.from_moments([x, 0.0], np.ones(2)) for x in (0.0, 20.0, 40.0)]
    known = [Component(family, one) for one in places]
    mixture, theta = Mixture.single((family, places[0])), np.zeros((4, 2))
    proposer = DensityProposer(family, None, np.zeros((1, 2)))
    for log_evidence in (0.0, -3.0):
        fits = {k: (known[k], log) for k, log in ((1, -2.0), (2, 1.0))}
        weighed = tuple(
            (k, WeighedMode(theta + 20.0 * k, np.zeros(4), fit[1], fit[1], fit))
            for k, fit in fits.items()
        )
        modes = Modes(tuple(known), (0.0, -2.0, 1.0), weighed=weighed)
        grown = proposer.with_missed(mixture, log_evidence, modes, Settings(tol=0.01))
        masses = dict(zip(grown.component_means()[:, 0], grown.weights, strict=True))
        exact = np.exp([log_evidence, -2.0, 1.0])
        assert_allclose([masses[x] for x in (0.0, 20.0, 40.0)], exact / exact.sum())


def test_of_one_scale_components_are_kept_that_half_a_nat_of_overlap_separates():
    family = FullGaussian()
    # Minus the log affinities of unit normals are an eighth of their squared distances.
    found = [
        Component(family, family.from_moments([x], [[1.0]])) for x in (0.0, 2.5, 1.5)
    ]
    logs = [0.0, -1.0, -2.0]

    class Found(_Searches):
        def _at(self, log_s):
            return None

        def _component(self, target, start, tol):
            return found[round(start[0][0])], logs[round(start[0][0])]

    starts = [Component(family, family.from_moments([k], [[1.0]])) for k in range(3)]
    mixture, evidence = Found(None, None, None)._mixture(0.0, starts, 1e-4)
    assert_allclose(evidence, np.log(1.0 + np.exp(-1.0)))
    assert mixture.components == tuple(found[:2])
    assert_allclose(mixture.weights, np.exp(np.array(logs[:2]) - evidence))


class Counting(GLMTarget):
    """Notes every time that it is asked for expectations and their curvature."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.asked = []

    def expected_curvature(self, *moments):
        self.asked.append(moments)
        return super().expected_curvature(*moments)


def searches(family, **settings):
    """Searches at scales of two coefficients, of which rows say little."""
    X = np.random.default_rng(0).standard_normal((20, 2))
    y = np.where(np.arange(20) < 4, X[:, 0] < 0.0, X[:, 0] > 0.0).astype(float)
    prior = CommonScale(NormalPrior(), np.array([1, 1, 0], bool), 2, HalfTPrior())
    target = Counting(Table(X, y), Logistic(), prior=prior, scale=np.ones(3))
    proposer = ScaleProposer(family, None, np.zeros((1, 3)))
    return _Searches(proposer, target, Settings(**settings))


@pytest.mark.parametrize("family", [DiagonalGaussian(), Laplace(), LowRankGaussian()])
def test_families_have_what_they_can_of_the_gaussians_in_closed_form(family):
    target = searches(family).target
    full, own = (
        ScaleProposer(one, None, np.zeros((1, 3))).at_scales(target, Settings())[0]
        for one in (FullGaussian(), family)
    )
    assert_allclose(own.weights, full.weights, rtol=1e-12)
    for a, b in zip(full.components, own.components, strict=True):
        covariance = a.moments()[1]
        assert_allclose(b.location(), a.location(), rtol=1e-10)
        # Mean-field theory has the variances of conditionals.
        wanted = 1.0 / np.diagonal(np.linalg.inv(covariance))
        wanted = np.diagonal(covariance) if family.low_rank else wanted
        assert_allclose(np.diagonal(b.moments()[1]), wanted, rtol=1e-6)


def test_the_elbo_of_a_searched_component_is_that_of_draws_where_none_is_exact():
    found = searches(Laplace(), n_draws=2048)
    target = found._at(0.0)
    component, elbo = found._component(target, None, 1e-4)
    theta = component.sample(40_000, np.random.default_rng(1))
    ratio = target.log_density(theta) - component.log_density(theta)
    assert elbo == pytest.approx(ratio.mean(), abs=4 * ratio.std() / 200)


def test_a_search_that_is_not_to_be_rough_goes_on_and_ends():
    def cost(*tol):
        search, log_s = searches(DiagonalGaussian()), np.array([-1.0, 0.0])
        search.fitted(log_s, search.initial(2), *tol)
        return len(search.target.asked)

    assert cost(1.0) < cost() < cost(0.0)


def test_modes_within_six_standard_deviations_of_either_are_fitted_together():
    # The fifth is ten times as wide as the first, and 45 from it.
    places = {-10.0: 1.0, 100.0: 1.0, 10.0: 1.0, 103.0: 1.0, -55.0: 10.0}
    components = [
        Component(FAMILY, FAMILY.from_moments([x, 0.0], [sd**2] * 2))
        for x, sd in places.items()
    ]
    groups = _groups(components)
    found = [[float(each.location()[0]) for each in group] for group in groups]
    assert found == [[-10.0, -55.0], [100.0, 103.0], [10.0]]


def test_a_point_that_is_missed_is_met_at_it_on_the_way_and_by_more_width():
    component = Component(FAMILY, FAMILY.from_moments([1.0, 0.0], [4.0, 4.0]))
    found = [start.moments() for start in _starts_at(component, [10.0, 0.0])]
    by_root = 1.0 + 9.0 / np.sqrt(2.0)
    assert_allclose([m[0] for m, _ in found], [10.0, 10.0, by_root, 1.0])
    # The point is 4.5 standard deviations away; three times the width makes it 1.5.
    assert_allclose([np.diag(C)[0] for _, C in found], [1.0, 4.0, 4.0, 36.0])


@pytest.mark.parametrize(("structure", "apart"), [("full", 9.0), ("low_rank", 1.6)])
def test_modes_of_the_starts_get_components_of_the_family(structure, apart):
    def two_modes(theta):
        left, right = theta + apart * np.eye(3)[0], theta - apart * np.eye(3)[0]
        return anp.logaddexp(*(-0.5 * anp.sum(z**2, axis=1) for z in (left, right)))

    starts = apart * np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    settings = {"x0": starts, "max_iter": 2, "search": GreedySearch(64)}
    settings["family"] = (
        LowRankGaussian(1) if structure == "low_rank" else FullGaussian()
    )
    result = boost_posterior(two_modes, 3, random_state=0, **settings)
    mixture, family = result.posterior.mixture, settings["family"]
    assert mixture.n_components == 2
    found = {component.family.full_covariance for component in mixture.components}
    assert found == {family.full_covariance}
    means = np.sort(mixture.component_means()[:, 0])
    assert_allclose(means, [-apart, apart], atol=0.7)


@pytest.mark.parametrize(
    ("prior", "scale", "found"),
    [
        (NormalPrior(), np.ones(9), True),
        # Classes that differ, and a prior without a closed form for several.
        (NormalPrior(), np.repeat([1.0, 2.0, 1.0], 3), False),
        (LaplacePrior(), np.ones(9), False),
    ],
)
def test_several_classes_propagate_under_one_normal_prior(prior, scale, found):
    rng = np.random.default_rng(0)
    table = Table(rng.standard_normal((20, 2)), np.arange(20) % 3)
    target = GLMTarget(table, Multinomial(3), prior=prior, scale=scale)
    assert propagates(target, FullGaussian()) == found


def test_rows_and_columns_have_room_up_to_limits():
    full, low = FullGaussian(), LowRankGaussian()
    assert has_room(10_000, 100, full) and not has_room(10_000, 120, full)
    assert not has_room(100, 10, low)
    # Where a scale is learned components of all families are made of full ones.
    assert has_room(100, 300, low, learns=True)
    assert not has_room(100, 301, low, learns=True)
    diagonal = DiagonalGaussian()
    assert not has_room_for_classes(100, 100, diagonal, 5)
    assert has_room_for_classes(100, 100, diagonal, 5, learns=True)
    classes = [(1000, 100, 5), (1000, 1000, 5), (10, 1001, 5), (10, 105, 21)]
    found = [has_room_for_classes(n, dim, full, k) for n, dim, k in classes]
    assert found == [True, False, False, False]
    # Hundreds of columns, of which few rows or few columns are swept.
    wide = [(40, 2000), (500, 1000), (700, 1000), (40, 200), (600, 2000)]
    assert [is_wide(*size, low) for size in wide] == [True, True, False, False, False]
    assert not is_wide(40, 2000, full)


def test_two_classes_propagate_and_counts_where_a_scale_is_learned():
    table = Table(np.random.default_rng(0).standard_normal((20, 2)), np.arange(20) % 2)
    found = [
        propagates(GLMTarget(table, likelihood), family)
        for likelihood in (Logistic(), Poisson())
        for family in (FullGaussian(), DiagonalGaussian())
    ]
    assert found == [True, False, False, False]


def test_rows_that_are_left_out_weigh_what_they_did_before_tempering():
    X, weight = np.random.default_rng(0).standard_normal((2, 12)), np.arange(1.0, 13.0)
    y = (X[0] > 0).astype(float)
    target = GLMTarget(Table(X.T, y, weight), Logistic(), temperature=0.25)
    logs, found = left_out(target, FullGaussian())
    assert_allclose(found, weight)
    assert_allclose(np.exp(logs).sum(axis=1), 1.0)


def test_closed_forms_of_normal_noise_are_least_squares_where_rows_say_all():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3))
    y = X @ [1.0, -2.0, 0.5] + 3.0 + 0.1 * rng.standard_normal(2000)
    model = BoostedBayesianLinearRegression(max_iter=1, orbit=None, random_state=0)
    model.fit(X, y)
    wide = np.column_stack([X, np.ones(2000)])
    exact, error = np.linalg.lstsq(wide, y)[:2]
    assert_allclose(model.coef_, exact[:3], atol=2e-3)
    assert_allclose(model.intercept_, exact[3], atol=2e-3)
    std = np.sqrt(np.diag(np.linalg.inv(wide.T @ wide)) * error[0] / 1996)
    assert_allclose(model.posterior_.std()[:4], std, rtol=0.05)
