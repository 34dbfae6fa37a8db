"""Periodic coordinates of ``boost_posterior``: circular answers, one mode at a cut."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ive, softmax

from skboost import BoostingResult, MixturePosterior, boost_posterior
from skboost.inspection import PosteriorDisplay
from skboost.transforms import Constraints, Periodic

TURN = 2 * np.pi


def von_mises(kappa, centre, **settings):
    """A run for that density."""
    return boost_posterior(
        lambda theta: kappa * np.cos(theta[:, 0] - centre), 1,
        gradient=lambda theta: -kappa * np.sin(theta - centre),
        **{"constraints": "periodic", "random_state": 0} | settings,
    )  # fmt: skip


def spread(kappa):
    """Circular standard deviation of a von Mises density, radians."""
    return np.sqrt(-2.0 * np.log(ive(1, kappa) / ive(0, kappa)))


def apart(a, b, period=TURN):
    return abs((a - b + period / 2) % period - period / 2)


def mass_of(posterior):
    """Integral over the circle, by points that are dense around its cut."""
    cut = posterior.constraints.periodic[0].cut
    away = np.concatenate(
        [np.geomspace(1e-9, 0.1, 4000), np.linspace(0.1, np.pi, 4000)]
    )
    density = [
        np.exp(posterior.log_density(((cut + side * away) % TURN)[:, None]))
        for side in (-1.0, 1.0)
    ]
    return sum(np.trapezoid(values, away) for values in density)


@pytest.mark.parametrize(("kappa", "centre"), [(1.0, 3.0), (5.0, 0.0), (50.0, 6.2)])
def test_a_von_mises_density_has_its_direction_spread_and_normaliser(kappa, centre):
    result = von_mises(kappa, centre)
    posterior, exact = result.posterior, spread(kappa)
    mean, std = posterior.mean()[0], posterior.std()[0]
    assert 0.0 <= mean < TURN
    assert apart(mean, centre) < 0.02 * exact
    assert std == pytest.approx(exact, rel=0.015)
    log_evidence = np.log(TURN * ive(0, kappa)) + kappa
    assert result.elbo == pytest.approx(log_evidence, abs=0.01)
    assert len(posterior.modes()) == len(result.modes_found) == 1
    assert mass_of(posterior) == pytest.approx(1.0, abs=1e-5)
    draws = posterior.sample(2000, random_state=0)
    assert ((draws >= 0.0) & (draws < TURN)).all()
    resultant = abs(np.exp(1j * draws).mean())
    assert resultant == pytest.approx(ive(1, kappa) / ive(0, kappa), abs=0.04)
    # The arc from the lower end upwards holds what the interval is said to hold.
    lower, upper = posterior.interval(0.9)[0]
    held = (draws - lower) % TURN <= (upper - lower) % TURN
    assert held.mean() == pytest.approx(0.9, abs=0.03)


def test_an_angle_beside_a_normal_coordinate_and_another_period():
    def log_density(theta):
        hour, x = theta[:, 0], theta[:, 1]
        return 4.0 * anp.cos(TURN / 24.0 * hour) - 0.5 * (x - 7.0) ** 2

    constraints = {"hour": ("periodic", -12.0, 12.0)}
    result = boost_posterior(
        log_density, 2, names=["hour", "x"], constraints=constraints, random_state=0
    )
    table = result.posterior.summary()
    assert table["circular"].tolist() == [True, False]
    hour, x = table["mean"]
    assert apart(hour, 0.0, 24.0) < 0.1 and x == pytest.approx(7.0, abs=0.02)
    assert_allclose(table["std"], [spread(4.0) * 24.0 / TURN, 1.0], rtol=0.02)
    positive = table["probability_positive"].iloc[0]
    assert positive == pytest.approx(0.5, abs=0.01)
    covariance = result.posterior.covariance()
    assert_allclose(np.sqrt(np.diag(covariance)), table["std"])
    assert abs(covariance[0, 1]) < 0.02 * np.prod(table["std"])


def test_two_real_modes_stay_two():
    def parts(theta):
        return 30.0 * np.cos(theta - [0.0, 2.5])

    def gradient(theta):
        slopes = -30.0 * np.sin(theta - [0.0, 2.5])
        return np.sum(softmax(parts(theta), axis=1) * slopes, axis=1, keepdims=True)

    result = boost_posterior(
        lambda theta: np.logaddexp(*parts(theta).T), 1, gradient=gradient,
        x0=([0.0], [TURN]), constraints="periodic", random_state=0,
    )  # fmt: skip
    locations = [mode.location[0] for mode in result.posterior.modes()]
    assert len(locations) == 2
    assert min(apart(one, 0.0) for one in locations) < 0.05
    assert min(apart(one, 2.5) for one in locations) < 0.05
    log_evidence = np.log(2 * TURN * ive(0, 30.0)) + 30.0
    assert result.elbo == pytest.approx(log_evidence, abs=0.01)
    draws = result.posterior.sample(4000, random_state=0)
    assert (apart(draws, 0.0) < 1.25).mean() == pytest.approx(0.5, abs=0.04)


def test_the_cut_is_opposite_to_the_mass_where_other_coordinates_move_it():
    # At the start the second coordinate is zero, where the angle is at 3.
    def log_density(theta):
        angle, x = theta[:, 0], theta[:, 1]
        return 20.0 * np.cos(angle - 3.0 - x) - 2.0 * (x - 3.0) ** 2

    def gradient(theta):
        angle, x = theta[:, 0], theta[:, 1]
        pull = 20.0 * np.sin(angle - 3.0 - x)
        return np.column_stack([-pull, pull - 4.0 * (x - 3.0)])

    result = boost_posterior(
        log_density, 2, constraints={0: "periodic"}, gradient=gradient, random_state=0
    )
    posterior = result.posterior
    assert apart(posterior.constraints.periodic[0].cut, 6.0) > 2.0
    assert apart(posterior.mean()[0], 6.0) < 0.05
    assert len(posterior.modes()) == 1
    log_evidence = np.log(TURN * ive(0, 20.0)) + 20.0 + 0.5 * np.log(np.pi / 2)
    assert result.elbo == pytest.approx(log_evidence, abs=0.02)


def test_files_and_continued_runs_have_the_same_circle(tmp_path):
    result = von_mises(5.0, 0.1, max_iter=3, tol=0.0)
    posterior = result.posterior
    points = posterior.sample(50, random_state=1)
    posterior.save(tmp_path / "posterior.npz")
    result.save(tmp_path / "result.npz")
    for loaded in (
        MixturePosterior.load(tmp_path / "posterior.npz"),
        BoostingResult.load(tmp_path / "result.npz").posterior,
    ):
        assert loaded.constraints == posterior.constraints
        assert_allclose(loaded.log_density(points), posterior.log_density(points))
        assert_allclose(loaded.mean(), posterior.mean())
        assert_allclose(loaded.sample(50, random_state=1), points)
    first = von_mises(5.0, 0.1, max_iter=2, tol=0.0)
    longer = von_mises(5.0, 0.1, max_iter=3, tol=0.0, start=first)
    assert_allclose(longer.posterior.sample(50, random_state=1), points)


@pytest.mark.slow
def test_behind_a_warp_answers_are_circular_too():
    def log_density(theta):
        angle, x = theta[:, 0], theta[:, 1]
        return 10.0 * anp.cos(angle - 0.3 * x**2) - 0.5 * x**2

    result = boost_posterior(
        log_density, 2, constraints={0: "periodic"}, warp="auto", random_state=0
    )
    posterior = result.posterior
    assert posterior.constraints.warp is not None
    # The mean of exp(0.3 i x^2) under a normal x is (1 - 0.6 i)^(-1/2).
    exact = (1.0 - 0.6j) ** -0.5 * ive(1, 10.0) / ive(0, 10.0)
    assert apart(posterior.mean()[0], np.angle(exact)) < 0.03
    assert posterior.std()[0] == pytest.approx(
        np.sqrt(-2 * np.log(abs(exact))), rel=0.05
    )
    lower, upper = posterior.interval(0.9)[0]
    draws = posterior.sample(4000, random_state=0)[:, 0]
    held = (draws - lower) % TURN <= (upper - lower) % TURN
    assert held.mean() == pytest.approx(0.9, abs=0.03)


def test_a_circle_there_and_back_with_any_cut():
    z = np.linspace(-12.0, 12.0, 101)
    for circle in (
        Periodic(-1.0, 3.0, 2.0),
        Periodic(5.0, 6.0, 5.0),
        Periodic(cut=1.0),
    ):
        theta = circle.forward(z)
        assert circle.inside(theta).all()
        assert_allclose(circle.inverse(theta), z, atol=1e-7)
        assert circle.inside(circle.low) and not circle.inside(circle.high)
        assert np.isfinite(circle.inverse(np.array([circle.low, circle.cut]))).all()
        record = Constraints(circle, 1).record()
        assert Constraints.from_record(record, 1).periodic[0] == circle
        # A narrow density has its spread to many digits.
        theta = circle.rolled(circle.high + np.array([-1e-6, 1e-6]) * circle.period)
        mean, std = circle.moments(theta, np.array([0.5, 0.5]))
        assert apart(mean, circle.low, circle.period) < 1e-12
        assert std == pytest.approx(1e-6 * circle.period, rel=1e-6)


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        (("periodic", 3.0, 1.0), "low < high"),
        (("periodic", 0.0, None), "finite ends"),
        (("periodic", 0.0), "finite ends"),
        (("periodic", 0.0, 1.0, 1.0), "low <= cut < high"),
    ],
)
def test_what_is_no_period_is_refused(entry, wanted):
    with pytest.raises(ValueError, match=f"constraints.*{wanted}"):
        Constraints({0: entry}, 1)


def test_displays_of_arcs_stay_about_their_median():
    pytest.importorskip("matplotlib").use("agg")
    result = von_mises(5.0, 0.1, max_iter=1)
    display = PosteriorDisplay.from_result(result, kind="interval")
    low, high = display.ax_.collections[0].get_segments()[0][:, 0]
    assert high - low == pytest.approx(2 * 1.645 * spread(5.0), rel=0.05)
    assert 0.5 * (low + high) == pytest.approx(0.1, abs=0.05)
    display = PosteriorDisplay.from_result(result, kind="density")
    angles, density = display.ax_.lines[-1].get_data()
    assert np.trapezoid(density, angles) == pytest.approx(1.0, abs=0.01)


def test_few_evaluations_and_given_cuts():
    given = von_mises(5.0, 0.1, constraints={0: ("periodic", 0.0, TURN, 3.5)})
    assert given.posterior.constraints.periodic[0].cut == 3.5
    found = von_mises(5.0, 0.1)
    assert apart(found.posterior.constraints.periodic[0].cut, 0.1 + np.pi) < 0.3
    with pytest.warns(UserWarning):
        few = von_mises(5.0, 0.1, max_evaluations=400)
    assert few.n_evaluations <= 400
    assert apart(few.posterior.mean()[0], 0.1) < 0.2
