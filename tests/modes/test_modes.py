"""Looking for modes: climbs, openings with all of them, and what probes can not see."""

import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import autograd.numpy as anp
import numpy as np
import pytest
from autograd.scipy.special import logsumexp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from skboost import boost_posterior
from skboost.approximation import Mixture
from skboost.boosting import Settings
from skboost.families import (
    Component,
    DiagonalGaussian,
    FullGaussian,
    LowRankGaussian,
    StudentT,
)
from skboost.modes import (
    Box,
    Modes,
    ModeSearch,
    add_ends,
    climb_all,
    diagonal_curvature,
    inverse_curvature,
    missed_modes,
    weighed,
    wide_directions,
)
from skboost.modes._climb import Ends
from skboost.modes._modes import far_draws, promising
from skboost.strategies import GreedySearch
from skboost.targets import (
    Budget,
    CallableTarget,
    GLMTarget,
    KnownScale,
    NormalNoise,
    Table,
)

CORNERS = np.array([[-7.0, -6.0], [6.0, -7.0], [-5.0, 7.0], [7.0, 6.0]])
SHARES = np.array([0.1, 0.2, 0.3, 0.4])
# Of coordinates whose scales differ.
WIDE = np.exp(np.linspace(-3.0, 1.0, 28))


class Normals:
    """Normalised log density of a mixture of round normals, and its gradient."""

    def __init__(self, means, weights, std=1.0):
        dim, self.means, self.std = means.shape[1], means, std
        self.log_weights = np.log(weights) - 0.5 * dim * np.log(2 * np.pi * std**2)

    def parts(self, theta):
        square = anp.sum((theta[:, None, :] - self.means) ** 2, axis=2)
        return self.log_weights - 0.5 * square / self.std**2

    def __call__(self, theta):
        return logsumexp(self.parts(theta), axis=1)

    def gradient(self, theta):
        share = softmax(self.parts(theta), axis=1)
        return (share @ self.means - theta) / self.std**2


def boosted(log_density, dim=2, **settings):
    """A run with the density's own gradient where it has one."""
    own = {"gradient": getattr(log_density, "gradient", None), "random_state": 0}
    return boost_posterior(log_density, dim, **own | settings)


def target_of(log_density, dim=2):
    return CallableTarget(log_density, dim, getattr(log_density, "gradient", None))


corners = Normals(CORNERS, SHARES)
# Limits under which a second mode is left out.
kept_out = {"max_iter": 1, "search": GreedySearch(max_components=1)}
lopsided = Normals(np.array([[0.0, 0.0], [12.0, 5.0]]), np.array([0.6, 0.4]))


def weights_near(posterior, means, radius=4.0):
    """Share of a posterior's draws near each of the means."""
    theta = posterior.sample(20_000, random_state=1)
    distance = np.linalg.norm(theta[:, None] - means, axis=2)
    return (distance < radius).mean(axis=0)


def test_one_start_is_not_climbed_from_unless_a_box_has_more():
    box = Box(np.full(2, -10.0), np.full(2, 10.0), place=np.array)
    target, start = target_of(corners), np.zeros((1, 2))
    found = [
        ModeSearch(target, FullGaussian(), start, where, Settings()).from_starts()
        for where in (None, box)
    ]
    assert not found[0].components
    assert len(found[1].components) == 4


def test_a_search_in_a_box_takes_half_of_the_evaluations_at_most():
    box = Box(np.full(2, -10.0), np.full(2, 10.0), place=np.array)
    target = target_of(corners)
    search = ModeSearch(target, FullGaussian(), np.zeros((1, 2)), box, Settings())
    with target.ledger.within(Budget(max_evaluations=1200)):
        search.from_starts()
    # One batch and the look at a mode may go beyond.
    assert 500 < target.n_evaluations < 600 + 64


class TestClimbs:
    @settings(max_examples=15, deadline=None)
    @given(st.integers(0, 10_000), st.integers(1, 6), st.floats(-3.0, 3.0))
    def test_a_normal_has_its_mode_where_its_mean_is(self, seed, dim, log_scale):
        rng = np.random.default_rng(seed)
        axes = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        precision = (axes * np.exp(log_scale + np.linspace(0.0, 3.0, dim))) @ axes.T
        mean = rng.standard_normal(dim)

        def log_density(theta):
            away = theta - mean
            return -0.5 * anp.sum(anp.dot(away, precision) * away, axis=1)

        starts = mean + 3.0 * rng.standard_normal((5, dim))
        ends = climb_all(CallableTarget(log_density, dim), starts, np.ones(dim))
        assert ends.settled.all()
        assert_allclose(ends.heights, 0.0, atol=1e-3)

    @pytest.mark.parametrize(("condition", "most"), [(10.0, 18), (1000.0, 48)])
    def test_few_evaluations_lead_up_a_quadratic(self, condition, most):
        """Of six coordinates: 15 and 39 for each climb, by curvature that it met."""
        rng, dim = np.random.default_rng(0), 6
        axes = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        precision = (axes * np.geomspace(1.0, condition, dim)) @ axes.T
        target = CallableTarget(
            lambda t: -0.5 * np.sum((t @ precision) * t, axis=1), dim,
            lambda t: -t @ precision,
        )  # fmt: skip
        starts = 3.0 * rng.standard_normal((50, dim))
        ends = climb_all(target, starts, np.ones(dim))
        assert_allclose(ends.heights, 0.0, atol=1e-4)
        assert target.n_evaluations < 50 * most

    def test_climbs_do_not_depend_on_their_company(self):
        target = target_of(corners)
        starts = np.random.default_rng(0).uniform(-10, 10, (5, 2))
        together = climb_all(target, starts, np.ones(2))
        alone = [climb_all(target, row[None], np.ones(2)) for row in starts]
        points = np.concatenate([one.points for one in alone])
        assert_allclose(together.points, points, atol=1e-9, rtol=0)

    def test_a_start_of_zero_density_stays(self):
        def half_normal(theta):
            x = theta[:, 0]
            return anp.where(x > 0, -0.5 * (x - 1.0) ** 2, -np.inf)

        target = CallableTarget(half_normal, 1)
        ends = climb_all(target, np.array([[-1.0], [2.0]]), np.ones(1))
        assert_array_equal(ends.points[0], [-1.0])
        assert ends.heights[0] == -np.inf and not ends.settled[0]
        assert_allclose(ends.points[1], [1.0], atol=1e-2)

    def test_where_the_density_rises_for_ever_there_is_no_mode(self):
        targets = [
            lambda theta: theta[:, 0],
            lambda theta: -0.5 * anp.log(theta[:, 0] ** 2),
        ]
        for log_density in targets:
            target = CallableTarget(log_density, 1)
            ends = climb_all(target, np.array([[1.0], [3.0]]), np.ones(1))
            assert not ends.settled.any()
            assert add_ends(target, FullGaussian(), Modes(), ends).components == ()

    def test_they_stay_in_the_basin_of_an_exponential_tail(self):
        """There is next to no curvature, and nothing bounds a quasi-Newton step."""
        means = 20.0 * np.eye(10)[:3]
        widths = np.geomspace(0.1, 2.0, 10)
        scales = np.array([np.roll(widths, 2 * k) for k in range(3)])

        def distances(x):
            z = (x[:, None] - means) / scales
            return anp.sqrt(1.0 + anp.sum(z**2, axis=2))

        target = CallableTarget(lambda x: logsumexp(-5.0 * distances(x), axis=1), 10)
        starts = np.random.default_rng(0).normal(scale=20.0, size=(200, 10))
        ends = climb_all(target, starts, np.ones(10))
        same = distances(starts).argmin(axis=1) == distances(ends.points).argmin(axis=1)
        # With steps of any length .64 do.
        assert same.mean() > 0.9

    def test_a_kink_is_a_mode(self):
        target = CallableTarget(lambda theta: -anp.sum(anp.abs(theta), axis=1), 2)
        starts = np.random.default_rng(0).uniform(-5, 5, (8, 2))
        ends = climb_all(target, starts, np.ones(2))
        modes = add_ends(target, FullGaussian(), Modes(), ends)
        assert ends.heights.max() > -0.05
        assert len(modes.heaviest(10)) == 1

    def test_they_end_where_they_arrive_at_a_known_mode_or_with_the_budget(self):
        starts = np.random.default_rng(0).uniform(-10, 10, (10, 2))
        spent, ends = [], []
        for arrived in (None, lambda x: np.linalg.norm(x - CORNERS[0], axis=1) < 0.2):
            target = target_of(corners)
            ends.append(climb_all(target, starts, np.ones(2), arrived=arrived))
            spent.append(target.n_evaluations)
        assert spent[1] < spent[0]
        assert ends[1].settled.all()
        away = [np.linalg.norm(e.points - CORNERS[0], axis=1) < 0.2 for e in ends]
        # As many at that mode, and all others as before.
        assert np.array_equal(*away) and away[0].any()
        assert np.allclose(ends[0].points[~away[0]], ends[1].points[~away[0]])

        target = target_of(corners)
        climb_all(target, starts, 1e-3 * np.ones(2), max_evaluations=35)
        assert target.n_evaluations <= 35 + 10


class TestToldApart:
    def test_each_mode_is_counted_once(self):
        target = target_of(corners)
        starts = np.random.default_rng(0).uniform(-10, 10, (64, 2))
        ends = climb_all(target, starts, np.ones(2))
        modes = add_ends(target, FullGaussian(), Modes(), ends)
        found = np.array([mode.location() for mode in modes.components])
        order = np.argsort([np.linalg.norm(found - c, axis=1).min() for c in CORNERS])
        assert len(found) == 4 and len(order) == 4
        distance = np.linalg.norm(found[:, None] - CORNERS, axis=2)
        assert distance.min(axis=0).max() < 1e-2
        # Laplace's formula is exact for normals far apart.
        mass = np.exp(np.array(modes.mass) - 1.0)
        assert_allclose(mass, SHARES[distance.argmin(axis=1)], rtol=1e-3)

    def test_modes_of_little_mass_do_not_matter(self):
        modes = Modes(((0.0,), (1.0,), (2.0,)), (0.0, np.log(1e-6), -1.0))
        assert modes.matter.tolist() == [True, False, True]
        assert modes.heaviest(3) == ((0.0,), (2.0,))
        assert modes.several

    @pytest.mark.parametrize("family", [DiagonalGaussian(), FullGaussian()], ids=repr)
    def test_laplaces_approximation_of_a_normal_is_the_normal(self, family):
        std = np.array([0.3, 20.0])
        target = CallableTarget(lambda t: -0.5 * anp.sum((t / std) ** 2, axis=1), 2)
        ends = climb_all(target, np.array([[0.2, 5.0]]), std)
        (mode,) = add_ends(target, family, Modes(), ends).components
        assert_allclose(mode.scale(), std, rtol=1e-3)

    @pytest.mark.parametrize(("dip", "n"), [(0.01, 1), (0.5, 2)])
    def test_modes_are_told_apart_by_the_dip_between_them(self, dip, n):
        # Of x^4 / 4 - x^2 / 2, whose wells are a quarter deep.
        target = CallableTarget(
            lambda t: -4.0 * dip * (t[:, 0] ** 4 / 4.0 - t[:, 0] ** 2 / 2.0), 1
        )
        ends = climb_all(target, np.array([[-1.2], [1.2]]), np.ones(1))
        assert ends.settled.all()
        assert len(add_ends(target, FullGaussian(), Modes(), ends).components) == n

    def test_a_slope_is_no_mode_of_its_own(self):
        target = target_of(corners)
        points = np.vstack([CORNERS, CORNERS[1] + [2.0, -2.0]])
        settled = np.ones(5, dtype=bool)
        ends = Ends(points, target.log_density(points), settled)
        modes = add_ends(target, FullGaussian(), Modes(), ends)
        # The highest come first.
        assert modes.counts == (1, 1, 2, 1)
        assert (modes.n_climbs, modes.total, modes.last) == (5, 5, 4)
        again = add_ends(target, FullGaussian(), modes, ends)
        assert again.components == modes.components and again.counts == (2, 2, 4, 2)
        assert (again.n_climbs, again.last) == (10, 4)

    def test_climbs_that_stop_on_a_ridge_that_bends_are_no_modes(self):
        def chain(theta):
            bent = theta[:, 1:] - 0.5 * (theta[:, :-1] ** 2 - 1.0)
            return -0.5 * theta[:, 0] ** 2 - 2.0 * anp.sum(bent**2, axis=1)

        # Each coordinate is where the ridge has it, given the one before.
        first = np.array([0.0, -2.0, -3.0, 2.75])
        columns = [first]
        for _ in range(3):
            columns.append(0.5 * (columns[-1] ** 2 - 1.0))
        points, target = np.column_stack(columns), CallableTarget(chain, 4)
        ends = Ends(points, target.log_density(points), np.ones(4, dtype=bool))
        modes = add_ends(target, FullGaussian(), Modes(), ends)
        assert modes.counts == (4,) and not modes.several
        _, score = target.value_and_score(modes.components[0].location()[None])
        assert np.abs(score).max() < 0.1

    @pytest.mark.parametrize(
        "log_density",
        [
            lambda t: -16.0 * anp.log1p(anp.sum((t / WIDE) ** 2, axis=1) / 4.0),
            lambda t: -anp.sum(anp.abs(t / WIDE), axis=1),
        ],
        ids=["heavy tails", "kinks"],
    )
    def test_climbs_that_stop_short_of_a_mode_have_found_it(self, log_density):
        target = CallableTarget(log_density, 28)
        points = np.random.default_rng(0).normal(scale=0.2, size=(4, 28)) * WIDE
        ends = Ends(points, target.log_density(points), np.ones(4, dtype=bool))
        modes = add_ends(target, FullGaussian(), Modes(), ends)
        assert modes.matter.any() and np.isfinite(modes.mass[0])
        top = target.log_density(modes.components[0].location()[None])[0]
        assert top > ends.heights.max()

    @pytest.mark.parametrize("steepness", [1.0, 2.75])
    def test_a_flat_top_gets_a_scale_of_its_own(self, steepness):
        target = CallableTarget(lambda t: -steepness * anp.sum(t**4, axis=1), 2)
        ends = climb_all(target, np.array([[0.5, -0.4]]), np.ones(2))
        (mode,) = add_ends(target, FullGaussian(), Modes(), ends).components
        # The density falls by at most two nats there, and by more at four times that.
        drop, before = (steepness * (k * mode.scale()) ** 4 for k in (1.0, 4.0))
        assert (drop <= 2.0).all() and (before > 2.0).all()


class TestBoxes:
    def test_all_modes_are_found_with_their_weights(self):
        result = boosted(corners, x0=(-10, 10))
        assert [one.n_components for one in result.stages] == [1, 2, 3, 4]
        assert_allclose(weights_near(result.posterior, CORNERS), SHARES, atol=0.02)
        assert_allclose(result.elbo, 0.0, atol=0.01)
        assert result.converged
        assert "uncertified" not in result.message
        modes = result.posterior.modes()
        assert_allclose([m.location for m in modes], CORNERS[::-1], atol=0.05)
        assert_allclose([m.weight for m in modes], SHARES[::-1], atol=0.02)
        truth = corners(np.array([m.location for m in modes]))
        assert_allclose([m.log_density for m in modes], truth, atol=0.05)
        assert len(result.modes_found) == 4
        # In the plane a look is cheap: with as many draws as many dimensions need it
        # was 183,000 evaluations for 27,000.
        assert result.n_evaluations < 60_000

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "settings",
        [
            {"objective": "hellinger", "max_iter": 2},
            {"family": StudentT(df=(4.0, 30.0)), "max_iter": 5},
            {"family": "laplace", "max_iter": 5},
            {"family": "gaussian-diag"},
            {
                "step_size": "predefined",
                "corrective": "none",
                "search": GreedySearch(refine=False),
            },
            {"objective": "relbo"},
        ],
        ids=str,
    )
    def test_under_every_setting(self, settings):
        result = boosted(corners, x0=(-10, 10), **settings)
        # One iteration for each; the mixture of roots has their products, too.
        whole = next(one for one in result.stages if one.n_components >= 4)
        # Weights of predefined steps are those of the recursion.
        tolerance = 0.5 if "step_size" in settings else 0.03
        found = weights_near(whole, CORNERS, 5.0)
        assert_allclose(found, SHARES, atol=tolerance)
        assert np.all(found > 0.0)

    def test_on_the_users_scale(self):
        # Log-normal in the first coordinate: modes of the log at -2 and 3.
        log_p = Normals(np.array([[-2.0, -5.0], [3.0, 5.0]]), np.array([0.3, 0.7]), 0.3)

        def log_density(theta):
            z = anp.log(theta[:, :1])
            return log_p(anp.concatenate([z, theta[:, 1:]], axis=1)) - z[:, 0]

        def gradient(theta):
            z = np.column_stack([np.log(theta[:, 0]), theta[:, 1]])
            jacobian = np.column_stack([1.0 / theta[:, 0], np.ones(len(theta))])
            return (log_p.gradient(z) - [1.0, 0.0]) * jacobian

        box, constraints = ([0.01, -9.0], [40.0, 9.0]), {0: "positive"}
        result = boosted(
            log_density, x0=box, constraints=constraints, gradient=gradient
        )
        assert_allclose(result.elbo, 0.0, atol=0.01)
        low = (result.posterior.sample(20_000, random_state=0)[:, 0] < 1.5).mean()
        assert_allclose(low, 0.3, atol=0.02)

    def test_max_components_holds_from_the_first_iteration(self):
        limits = {"search": GreedySearch(max_components=3), "max_iter": 3}
        result = boosted(corners, x0=(-10, 10), **limits)
        assert max(h["n_components"] for h in result.history) <= 3


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "seed"), [(2, 0), (2, 1), (20, 0)])
def test_ten_normals_in_a_box(dim, seed):
    rng = np.random.default_rng([dim, seed])
    means, weights = rng.uniform(-10, 10, (10, dim)), rng.dirichlet(np.full(10, 20.0))
    density = Normals(means, weights)
    result = boosted(density, dim, x0=(-10, 10), random_state=seed)
    theta = result.posterior.sample(20_000, random_state=1)
    square = ((theta[:, None] - means) ** 2).sum(axis=2)
    table = np.log(weights) - 0.5 * square
    shares = np.exp(table - logsumexp(table, axis=1, keepdims=True)).mean(axis=0)
    assert_allclose(shares, weights, atol=0.02)
    assert result.elbo > -0.02


class TestProbes:
    """What is outside the mixture, and what no probe can see."""

    def test_a_run_goes_where_probes_find_mass(self):
        result = boosted(lopsided)
        assert_allclose(result.elbo, 0.0, atol=0.01)
        assert "uncertified" not in result.message

    def test_a_mode_that_is_left_out_is_reported(self):
        with pytest.warns(ConvergenceWarning, match="uncertified"):
            result = boosted(lopsided, **kept_out)
        assert not result.converged
        assert_allclose(result.elbo, np.log(0.6), atol=0.01)
        assert "about 40 %" in result.message or "about 39 %" in result.message
        assert "max_components" in result.message and "x0" in result.message
        assert "Converged" not in result.message
        assert [mode.in_mixture for mode in result.modes_found] == [True, False]
        assert result.remaining_kl_interval[1] == np.inf

    def test_the_place_is_on_the_users_scale(self):
        def log_density(theta):
            return lopsided(anp.log(theta)) - anp.sum(anp.log(theta), axis=1)

        with pytest.warns(ConvergenceWarning, match="uncertified"):
            result = boosted(log_density, constraints="positive", **kept_out)
        place = json.loads(
            result.message.partition("x0 of boost_posterior): ")[2].partition(". ")[0]
        )
        assert_allclose(np.log(place), [[12.0, 5.0]], atol=0.05)

    def test_a_mode_without_mass_is_no_matter(self):
        # Twice as high, and with a ten thousandth of the mass.
        means = np.array([[0.0, 0.0], [12.0, 5.0]])

        def log_density(theta):
            thin = Normals(means[1:], np.ones(1), std=0.01)(theta) + np.log(1e-4)
            return anp.logaddexp(Normals(means[:1], np.ones(1))(theta), thin)

        result = boosted(log_density, max_iter=1)
        assert "uncertified" not in result.message

    def test_a_light_mode_is_left_out_and_said_to_be(self):
        means = np.array([[0.0, 0.0], [12.0, 5.0]])
        light = Normals(means, np.array([0.996, 0.004]))
        result = boosted(light)
        assert result.converged and result.posterior.n_components == 1
        assert [mode.in_mixture for mode in result.modes_found] == [True, False]
        assert_allclose(result.modes_found[1].mass, 0.004, rtol=0.05)

    @pytest.mark.parametrize("limits", [{}, {"max_components": 1}])
    def test_light_modes_that_together_have_mass_are_not_left_out(self, limits):
        angles = np.arange(6) * np.pi / 3.0
        around = 15.0 * np.column_stack([np.cos(angles), np.sin(angles)])
        means = np.concatenate([np.zeros((1, 2)), around])
        density = Normals(means, np.array([0.964, *np.full(6, 0.006)]))
        parts = {"search": GreedySearch(**limits)}
        with pytest.warns(ConvergenceWarning) if limits else nullcontext():
            result = boosted(density, **parts)
        lacking = sum(one.mass for one in result.modes_found if not one.in_mixture)
        # Each has less than the default `tol` of .01, all have .036.
        assert result.converged == (lacking <= 0.01)
        assert result.message.startswith("uncertified") == (lacking > 0.01)
        assert (lacking > 0.01) == bool(limits)

    @pytest.mark.parametrize("dim", [2, 201])
    def test_the_message_says_where_none_were_sent(self, dim):
        density = Normals(np.zeros((1, dim)), np.ones(1))
        result = boosted(density, dim, max_iter=1, family="gaussian-diag")
        assert ("201 coordinates" in result.message) == (dim == 201)

    @pytest.mark.parametrize(
        ("dim", "n"), [(3, 3), pytest.param(8, 5, marks=pytest.mark.slow)]
    )
    def test_modes_narrow_in_directions_of_their_own_are_all_found(self, dim, n):
        """Draws with the correlations of one component stay in its basin."""
        rng = np.random.default_rng(0)
        means, roots = rng.uniform(-50, 50, (n, dim)), []
        for _ in range(n):
            axes = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
            roots.append(axes / np.geomspace(0.05, 5.0, dim))
        maps = np.array(roots)
        constants = -0.5 * dim * np.log(2 * np.pi) - np.log(n)
        constants -= np.log(np.geomspace(0.05, 5.0, dim)).sum()

        def log_density(theta):
            z = anp.einsum("nki,kij->nkj", theta[:, None] - means, maps)
            return logsumexp(constants - 0.5 * anp.sum(z**2, axis=2), axis=1)

        def gradient(theta):
            z = np.einsum("nki,kij->nkj", theta[:, None] - means, maps)
            share = softmax(-0.5 * (z**2).sum(axis=2), axis=1)
            return -np.einsum("nkj,kij->ni", share[..., None] * z, maps)

        result = boosted(log_density, dim, gradient=gradient)
        assert_allclose(result.elbo, 0.0, atol=0.01)
        assert_allclose(result.log_evidence, 0.0, atol=0.01)
        assert len(result.modes_found) == n
        assert_allclose([mode.mass for mode in result.modes_found], 1 / n, atol=0.01)
        assert all(mode.in_mixture for mode in result.modes_found)
        assert "second mode" not in result.message

    def test_a_mode_that_few_climbs_lead_to_is_found(self):
        """Far out, wide tails hide the narrow one: one draw in some thousand is its."""
        dim, scales = 12, np.array([1.0, 1.0, 0.2])
        means = np.zeros((3, dim))
        means[1, 0] = means[2, 1] = 20.0

        def log_density(theta):
            z = (theta[:, None] - means) / scales[:, None]
            tails = -0.5 * (4 + dim) * anp.log1p(anp.sum(z**2, axis=2) / 4.0)
            return logsumexp(tails - dim * np.log(scales), axis=1)

        def gradient(theta):
            z = (theta[:, None] - means) / scales[:, None]
            bend = 4.0 + (z**2).sum(axis=2)
            tails = -0.5 * (4 + dim) * np.log(bend) - dim * np.log(scales)
            share = softmax(tails, axis=1) * (4 + dim) / bend / scales
            return -np.einsum("nk,nki->ni", share, z)

        result = boosted(log_density, dim, gradient=gradient, max_iter=1)
        assert len(result.modes_found) == 3
        assert min(mode.n_climbs for mode in result.modes_found) > 1

    def test_one_mode_is_said_to_be_the_only_one(self):
        result = boosted(Normals(np.zeros((1, 2)), np.ones(1)))
        assert "climbs led to a second mode" in result.message
        (mode,) = result.modes_found
        assert mode.in_mixture and mode.mass == 1.0 and mode.n_climbs > 16
        assert_allclose(result.log_evidence, 0.0, atol=1e-6)

    def test_a_point_of_rounding_is_no_mode(self):
        def log_density(theta):
            spike = np.where(np.abs(theta[:, 0]) < 1e-14, 30.0, 0.0)
            return spike - 0.5 * theta[:, 0] ** 2

        modes = Modes((unit(),), (0.0,))
        ((_, one),) = weighed(CallableTarget(log_density, 1), modes, 0).weighed
        assert one.mass == -np.inf


@pytest.mark.parametrize(("first", "n_climbs"), [(1, 16), (10, 40), (15, 60)])
def test_a_search_ends_at_so_many_times_the_climbs_to_the_last_mode(first, n_climbs):
    """Four times; the starts lead to a second, light mode at a climb that is given."""
    means = np.array([[0.0, 0.0], [20.0, 0.0]])
    target = target_of(Normals(means, np.array([0.999, 0.001])))
    search = ModeSearch(target, FullGaussian(), means[:1], None, Settings())

    asked = []

    def draw(n, modes):
        points = np.tile(means[:1], (n, 1))
        if not modes.total:
            points[first - 1] = means[1]
        asked.append(n)
        return points

    modes = search._searched(draw, np.ones(2), Modes(), 16, 512, 4, 0.0625)
    assert (modes.last, modes.n_climbs) == (first if first > 1 else 2, n_climbs)
    # Sixteen draws for each climb.
    assert asked == [16 * 16, 16 * (n_climbs - 16)][: len(asked)]


@pytest.mark.parametrize("dim", [3, 100])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_steps_of_curvature_are_as_short_as_the_density_is_narrow(dim, scale):
    scales = scale * np.linspace(1.0, 2.0, dim)
    target = CallableTarget(
        lambda t: -np.log(np.cosh(t / scales)).sum(axis=1), dim,
        lambda t: -np.tanh(t / scales) / scales,
    )  # fmt: skip
    found = diagonal_curvature(target, np.zeros(dim), np.random.default_rng(0))
    assert_allclose(found * scales**2, 1.0, rtol=1e-3)


def test_a_curvature_that_overflows_is_that_of_a_unit_scale():
    def score(theta):
        return -1.5e308 * np.sign(theta)

    target = CallableTarget(lambda t: -1.5e308 * np.abs(t[:, 0]), 1, score)
    with np.errstate(over="ignore"):
        found = diagonal_curvature(target, np.zeros(1), np.random.default_rng(0))
    assert_array_equal(found, 1.0)


def test_closed_expectations_know_the_curvature():
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((30, 3)), KnownScale(NormalNoise(), 0.7)
    target = GLMTarget(Table(X, X[:, 0]), noise, fit_intercept=False)
    found = inverse_curvature(target, np.zeros(3), DiagonalGaussian())
    assert_allclose(1.0 / found, (X**2).sum(axis=0) / 0.7**2 + target.scale**-2)


def test_scores_that_overflow_far_out_say_nothing_of_curvature():
    def log_density(theta):  # logarithms of exponential variables
        return anp.sum(2 * theta - anp.exp(theta), axis=1)

    family = LowRankGaussian(rank=1)
    result = boosted(log_density, 4, family=family, max_iter=1)
    (mode,) = result.modes_found
    assert_allclose(mode.location, np.log(2.0), atol=1e-3)


def test_a_mode_that_one_climb_led_to_is_rare_where_there_are_several():
    assert Modes(mass=(0.0, -1.0, -9.0), counts=(20, 1, 1)).n_rare == 1
    assert Modes(mass=(0.0, -9.0), counts=(1, 1)).n_rare == 0


class TestFarDraws:
    """Where climbs begin: mean logs of distances, which are known of every kind."""

    # Of the absolute value of a standard normal variable.
    LOG = -0.5 * (np.log(2.0) + np.euler_gamma)
    N = 16_000
    ORDER = np.arange(N)

    def draws(self, family, variances, modes=None):
        component = family, family.from_moments([5.0, -3.0], variances)
        mixture, modes = Mixture.single(component), modes or Modes()
        return far_draws(mixture, modes, self.N, np.random.default_rng(0))

    def test_one_in_four_has_the_correlations_of_a_component(self):
        covariance = np.array([[1.0, 0.009], [0.009, 1e-4]])
        away = self.draws(FullGaussian(), covariance) - [5.0, -3.0]
        alike = self.ORDER % 4 == 0
        z = np.linalg.solve(np.linalg.cholesky(covariance), away[alike].T)
        log = np.log(np.abs(z)).mean(axis=1) - self.LOG
        assert_allclose(log, 0.5 * np.log(2.0 * 50.0), atol=0.1)
        log = np.log(np.abs(away[~alike] / [1.0, 0.01])).mean(axis=0) - self.LOG
        assert_allclose(log, 0.5 * np.log(2.0 * 3000.0), atol=0.1)

    def test_where_there_are_several_modes_others_are_around_them(self):
        family, apart = DiagonalGaussian(), 50.0
        wide = np.full(2, 4.0)
        known = [family.from_moments([x, 0.0], wide) for x in (-apart, apart)]
        modes = Modes(tuple(Component(family, one) for one in known), (0.0, -1.0))
        theta = self.draws(family, np.ones(2), modes)
        # As far as they are apart, in both coordinates.
        reach = np.log([apart, apart / np.sqrt(2.0)])
        middle = np.isin(self.ORDER % 8, [1, 4, 7])
        log = np.log(np.abs(theta[middle])).mean(axis=0) - self.LOG
        assert_allclose(log, reach + np.log(0.5) + 0.5 * np.log(8.0), atol=0.1)
        beside = np.isin(self.ORDER % 8, [3, 5])
        log = np.log(np.abs(theta[beside, 1])).mean() - self.LOG
        assert_allclose(log, reach[1] + np.log(0.5) + 0.5 * np.log(16.0), atol=0.1)


class TestPromising:
    """Of draws, those from which the score does not point at a mode that is known."""

    MEANS = np.array([[0.0, 0.0], [30.0, 0.0]])

    def kept(self, counts, n, points):
        target = target_of(Normals(self.MEANS, np.array([0.5, 0.5])), 2)
        family = FullGaussian()
        # The first is known with other correlations: the score points past it.
        shapes = [[1.0, 0.8], [0.8, 1.0]], np.eye(2)
        known = tuple(
            Component(family, family.from_moments(mean, np.array(shape)))
            for mean, shape in zip(self.MEANS, shapes, strict=True)
        )[: len(counts)]
        modes = Modes(known, (0.0,) * len(counts), counts=counts)
        return promising(target, modes, points, n).tolist()

    def test_draws_in_the_basin_of_another_mode_are_kept(self):
        rng = np.random.default_rng(0)
        points = self.MEANS[[0] * 10 + [1] * 5] + rng.standard_normal((15, 2))
        kept = self.kept((20,), 7, points)
        # A quarter are the first, whatever they are.
        assert kept[0] == points[0].tolist()
        assert all(point in kept for point in points[10:].tolist())
        assert self.kept((), 7, points) == points[:7].tolist()
        assert self.kept((20,), 15, points) == points.tolist()

    @pytest.mark.parametrize("n_climbs", [1, 2])
    def test_a_mode_that_one_climb_led_to_is_led_to_again(self, n_climbs):
        points = np.array([[1.0, 0.5], [-2.0, 1.0], [0.5, -1.0], [-1.0, -2.0]] * 3)
        points[5] = [31.0, 1.0]
        kept = self.kept((20, n_climbs), 4, points)
        assert (points[5].tolist() in kept) == (n_climbs == 1)


def unit(mean=0.0, dim=1):
    """A standard normal component about a point of the diagonal."""
    family = DiagonalGaussian()
    return Component(family, family.from_moments(np.full(dim, mean), np.ones(dim)))


class TestMissed:
    """What is said of one known mode beside a mixture of half of the mass."""

    @staticmethod
    def found(std, covered):
        """Missed modes, where the mode has a standard normal as its approximation."""
        away = CallableTarget(lambda t: stats.norm.logpdf(t[:, 0], 0.0, std), 1)
        mixture = Mixture.single(unit(0.0 if covered else 40.0))
        modes = weighed(away, Modes((unit(),), (0.0,)), 0)
        return missed_modes(modes, mixture, 0.0, 0.01)

    def test_a_mode_that_is_far_from_the_mixture_is_missed(self):
        (mode,) = self.found(std=1.0, covered=False)
        assert mode.location == [0.0] and mode.mass == pytest.approx(0.5)

    @pytest.mark.parametrize("constant", [-1000.0, 1000.0])
    def test_a_normalising_constant_moves_the_mass_and_nothing_else(self, constant):
        shifted = CallableTarget(
            lambda t: constant + stats.norm.logpdf(t[:, 0], 0.0, 0.9), 1
        )
        modes = Modes((unit(),), (0.0,))
        ((_, one),) = weighed(shifted, modes, 0).weighed
        assert_allclose([one.mass, one.least], constant, atol=0.1)
        assert one.least < one.mass
        # The same draws for the same seed.
        ((_, again),) = weighed(shifted, modes, 0).weighed
        assert_array_equal(one.theta, again.theta)

    def test_a_draw_on_a_pole_says_nothing_of_mass(self):
        pole = SimpleNamespace(
            log_density=lambda t: np.where(np.arange(len(t)) == 7, np.inf, 0.0)
        )
        ((_, one),) = weighed(pole, Modes((unit(),), (0.0,)), 0).weighed
        assert one.mass == one.least == -np.inf

    def test_a_mode_that_is_covered_is_not_nor_a_mass_that_a_few_draws_carry(self):
        assert self.found(std=1.0, covered=True) == []
        assert self.found(std=0.005, covered=False) == []

    def test_nor_is_one_whose_draws_are_too_narrow_for_it(self):
        dim = 30

        def wide(theta):
            # Of 256 draws a few have nearly all of the estimate, which is above one.
            return 15.0 + stats.norm.logpdf(theta, 0.0, 3.0).sum(axis=1)

        parts = Mixture.single(unit(40.0, dim)), 0.0, 0.01
        modes = weighed(CallableTarget(wide, dim), Modes((unit(0.0, dim),), (0.0,)), 0)
        assert missed_modes(modes, *parts) == []
        assert len(missed_modes(modes, *parts, surely=False)) == 1

    def test_laplaces_mass_counts_where_draws_hold_next_to_none(self):
        """Compared with what it says of the mode that the mixture has."""
        modes = Modes((unit(0.0), unit(40.0)), (-4.0, -5.0))
        target = CallableTarget(lambda t: stats.norm.logpdf(t[:, 0]), 1)
        ((_, here), (_, there)) = weighed(target, modes, 0).weighed
        there = there._replace(log_p=np.full(256, -3.0), mass=-9.0, least=-9.0)
        modes = replace(modes, weighed=((0, here), (1, there)))
        mixture = Mixture.single(unit())
        assert missed_modes(modes, mixture, 0.0, 0.01) == []
        (found,) = missed_modes(modes, mixture, 0.0, 0.01, surely=False)
        # A share of exp(-1) beside one.
        assert found.index == 1 and found.mass == pytest.approx(
            1 / (1 + np.e), abs=0.01
        )

    @pytest.mark.parametrize(("tol", "n_missed"), [(0.03, 0), (0.01, 2), (0.003, 4)])
    def test_what_is_left_out_has_less_than_tol_together(self, tol, n_missed):
        """Of four modes with shares of .007, .006, .005 and .004 beside the mixture."""
        shares = np.array([7.0, 5.0, 4.0, 6.0]) / 1000
        every = [unit(40.0 * k) for k in range(5)]
        weights = np.array([1.0 - shares.sum(), *shares])
        target = CallableTarget(Mixture(tuple(every), weights).log_density, 1)
        modes = weighed(target, Modes(tuple(every), tuple(np.log(weights))), 0)
        mixture = Mixture(tuple(every[:1]), np.ones(1))
        found = missed_modes(modes, mixture, np.log(weights[0]), tol)
        assert [one.index for one in found] == [1, 4, 2, 3][:n_missed]
        assert_allclose(
            [one.mass for one in found],
            [0.007, 0.006, 0.005, 0.004][:n_missed],
            rtol=1e-6,
        )

    def test_what_few_draws_say_of_one_mode_dismisses_no_other(self):
        away = CallableTarget(lambda t: stats.norm.logpdf(t[:, 0]), 1)
        far = Mixture.single(unit(40.0))
        modes = weighed(away, Modes((unit(), unit()), (0.0, 0.0)), 0)
        (_, loud), (_, quiet) = modes.weighed
        loud, quiet = loud._replace(mass=9.0), quiet._replace(mass=-2.0)
        modes = replace(modes, weighed=((0, loud), (1, quiet)))
        found = missed_modes(modes, far, 0.0, 0.01, surely=False)
        assert [one.index for one in found] == [0, 1]


class TestPoles:
    """Unbounded densities: legal where they can be integrated, refused elsewhere."""

    @staticmethod
    def pole(power):
        def log_density(theta):
            x = theta[:, 0]
            return -power * anp.log(anp.abs(x - 3.0)) - 0.5 * x**2

        return log_density

    @pytest.mark.parametrize(
        "x0", [None, pytest.param((-5, 5), marks=pytest.mark.slow)]
    )
    def test_an_integrable_pole_swallows_nothing(self, x0):
        result = boosted(self.pole(0.5), 1, x0=x0)
        assert "improper" not in result.message
        # The truth, by substituting x = 3 + sign u^2, which takes the pole away.
        u = np.linspace(0.0, 6.0, 200_001)
        both = np.exp(-0.5 * (3 + u**2) ** 2) + np.exp(-0.5 * (3 - u**2) ** 2)
        log_z = np.log(2 * np.trapezoid(both, u))
        assert_allclose(result.elbo, log_z, atol=0.05)
        assert result.elbo < log_z + 4 * result.elbo_se

    # From the origin only starts of a small weight lead to it.
    @pytest.mark.slow
    @pytest.mark.parametrize("x0", [None, (-5, 5)])
    def test_a_pole_with_infinite_mass_is_refused(self, x0):
        with pytest.warns(ConvergenceWarning, match="improper.*shrunk onto"):
            result = boosted(self.pole(1.5), 1, x0=x0)
        assert not result.converged

    @pytest.mark.slow
    def test_effects_of_a_scale_near_zero_are_not_improper(self):
        """Counts of ten years with an effect each: unbounded, and of finite mass."""
        rng, zero = np.random.default_rng(1), anp.zeros((1, 10))
        year = (np.arange(1, 11) - 5.5) / 5.0
        design = np.column_stack([np.ones(10), year, year**2, year**3])
        rate = design @ [4.3, 1.9, 0.1, -1.1] + 0.1 * rng.normal(size=10)
        y = rng.poisson(np.exp(rate))

        def log_density(theta):
            coef, effects, scale = theta[:, :4], theta[:, 4:14], theta[:, 14]
            eta = coef @ design.T + effects + zero
            size = anp.sum(effects**2, axis=1) / (2 * scale**2)
            return anp.sum(y * eta - anp.exp(eta), axis=1) - size - 10 * anp.log(scale)

        bounds = [(-20, 20), *[(-10, 10)] * 3, *[None] * 10, (0, 5)]
        result = boost_posterior(
            log_density, 15, constraints=bounds, random_state=1, max_iter=3
        )
        assert "improper" not in result.message
        # A run that ended at the component on the pole had a mean of .027.
        assert result.posterior.mean()[-1] > 0.04


def test_an_end_on_the_slope_of_a_heavy_tail_is_no_mode():
    """There the slope is next to none, and the curvature that of a wide Gaussian."""
    target = CallableTarget(lambda t: -1.5 * anp.log1p(t**2 / 2).sum(axis=1), 2)
    points = np.array([[0.0, -60.0]])
    ends = Ends(points, target.log_density(points), np.ones(1, dtype=bool))
    (mode,) = add_ends(target, FullGaussian(), Modes(), ends).heaviest(None)
    assert_allclose(mode.location(), 0.0, atol=0.1)


def test_what_is_a_little_below_everywhere_is_no_mode_that_is_missed():
    """A mixture that is far too wide is low at the mode, and has it all the same."""
    target = target_of(Normals(np.zeros((1, 2)), np.ones(1)), 2)
    ends = climb_all(target, np.array([[1.0, -1.0]]), np.ones(2))
    modes = weighed(target, add_ends(target, FullGaussian(), Modes(), ends), 0)
    family = FullGaussian()

    def missed(std):
        params = family.from_moments(np.zeros(2), std**2 * np.eye(2))
        return missed_modes(modes, Mixture.single((family, params)), 0.0, 0.01)

    # Below by two logarithms of the width: up to twice the dimension that is a tail.
    assert not missed(1.0) and not missed(np.exp(1.5))
    assert [round(one.mass, 1) for one in missed(np.exp(3.0))] == [0.5]


def test_directions_are_orthonormal_and_the_flattest():
    """Of a quadratic whose curvature is known, in blocks that stay apart."""
    dim, rng = 60, np.random.default_rng(0)
    curvature = np.linspace(1.0, 3.0, dim)
    curvature[[7, 31]] = 0.01, 0.05
    target = CallableTarget(
        lambda t: -0.5 * np.sum(curvature * t**2, axis=1), dim, lambda t: -curvature * t
    )
    diagonal = DiagonalGaussian()
    plain = Component(diagonal, diagonal.from_moments(np.zeros(dim), np.ones(dim)))
    found, directions = wide_directions(
        target, plain.whitening(), np.zeros((1, dim)), 2, rng
    )
    assert_allclose(found, [0.01, 0.05], rtol=0.02)
    assert_allclose(directions @ directions.T, np.eye(2), atol=1e-6)
    assert_allclose(abs(directions[[0, 1], [7, 31]]), 1.0, rtol=0.01)
