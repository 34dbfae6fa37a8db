"""Densities with faults: each has a right answer, or ends with a clear sentence."""

import re
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from skboost import boost_posterior
from skboost.strategies import GreedySearch
from skboost.targets import (
    FailedEvaluationError,
    FailedEvaluationWarning,
    LogDensityError,
)


def boost(log_density, dim, **settings):
    settings = {"random_state": 0, "search": GreedySearch(256)} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return boost_posterior(log_density, dim, **settings)


def log_evidence(result, log_density, n=20_000):
    weighted = result.posterior.importance_weights(log_density, n=n, random_state=1)
    return weighted.log_evidence, weighted.log_evidence_se


# --- a density that fails somewhere


def fails_right_of(limit, how):
    """A Gaussian that cannot be evaluated beyond a limit, and its gradient."""

    def density(theta):
        if theta[0] > limit:
            return how()
        return -0.5 * sum(t * t for t in theta.tolist())

    return {"log_density": density, "gradient": np.negative, "vectorized": False}


def divides_by_zero():
    raise ZeroDivisionError("beyond the limit")


FAULTS = [lambda: np.nan, lambda: np.inf, divides_by_zero]


@pytest.mark.parametrize("how", FAULTS, ids=["nan", "inf", "raises"])
def test_a_draw_of_the_mixture_that_fails_is_an_error_with_the_point(how):
    with pytest.raises(FailedEvaluationError, match="theta=.*failures='zero'"):
        boost(**fails_right_of(1.5, how), dim=2, search=GreedySearch(64))


@pytest.mark.slow
@pytest.mark.parametrize("how", FAULTS, ids=["nan", "inf", "raises"])
def test_failures_may_count_as_zero_density(how):
    density = fails_right_of(1.5, how)
    settings = {"dim": 2, "failures": "zero", "max_iter": 3}
    settings["search"] = GreedySearch(128)
    with pytest.warns(FailedEvaluationWarning, match="First: log_density") as caught:
        result = boost(**density, **settings)
    (warning,) = (w for w in caught if w.category is FailedEvaluationWarning)
    told = re.search(r"failed at (\d+) of (\d+) points", str(warning.message))
    n_failures, n_evaluations = map(int, told.groups())
    # The report, which is made when it is asked for, evaluates further points.
    assert 0 < n_failures <= result.n_failures
    assert n_evaluations < result.n_evaluations
    truth = np.log(2 * np.pi) + norm.logcdf(1.5)
    assert result.elbo < truth + 4 * result.elbo_se
    assert result.elbo + result.remaining_kl == pytest.approx(truth, abs=0.1)


def test_a_search_steps_back_from_where_it_fails():
    """Nothing but searches gets there: no error, no warning, and a count."""

    def density(theta):
        if np.abs(getattr(theta, "_value", theta)).max() > 8.0:
            raise ArithmeticError("far off")
        return -0.5 * anp.sum(theta**2, axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("error", FailedEvaluationWarning)
        result = boost(density, 2, x0=[6.0, 0.0], vectorized=True)
    assert result.n_failures > 0
    assert result.elbo == pytest.approx(np.log(2 * np.pi), abs=1e-2)


@pytest.mark.parametrize(
    ("failures", "objective"), [("raise", "kl"), ("zero", "hellinger")]
)
def test_failing_at_every_start_is_an_error_that_names_x0(failures, objective):
    def density(theta):
        raise ArithmeticError("no luck")

    with pytest.raises(LogDensityError) as caught:
        boost(density, 2, x0=[1.25, 2.5], failures=failures, objective=objective)
    for words in ("x0=[1.25 2.5", "no luck", "Pass as x0"):
        assert words in str(caught.value)
    with pytest.raises(LogDensityError, match="must return one number"):
        boost(lambda t: np.zeros(3), 2, failures=failures, vectorized=False)
    # One good start is enough.
    density = fails_right_of(8.0, divides_by_zero)
    starts = [[9.0, 0.0], [1.0, 1.0]]
    settings = {"search": GreedySearch(128), "orbit": None}
    result = boost(**density, dim=2, x0=starts, **settings)
    assert result.elbo == pytest.approx(np.log(2 * np.pi), abs=1e-2)


def zero_but_at(inside):
    """A falling density that is zero elsewhere."""
    return lambda theta: anp.where(inside(theta[:, 0]), -theta[:, 0], -np.inf)


@pytest.mark.parametrize(
    ("inside", "settings", "words"),
    [
        (lambda x: x > 0.0, {"x0": [-1.0]}, r"-inf .*at x0=\[-1"),
        (lambda x: x > 0.0, {"x0": [-1.0], "objective": "hellinger"}, r"at x0=\[-1"),
        # On the user's scale.
        (lambda x: x > 3.0, {"x0": [2.0], "constraints": "positive"}, r"x0=\[2\.\]"),
        # No draw finds the one point where it is not.
        (lambda x: x == 1.0, {"x0": [1.0]}, r"all \d+ draws.*x0=\[1"),
    ],
)
def test_a_start_that_leads_nowhere_is_an_error_that_names_x0(inside, settings, words):
    with pytest.raises(LogDensityError, match=words):
        boost(zero_but_at(inside), 1, **settings)


@pytest.mark.slow
def test_nan_after_a_thousand_evaluations():
    """A density with a state, which breaks in the middle of a search."""
    calls = []

    def density(theta):
        calls.append(1)
        good = -0.5 * anp.sum(theta**2, axis=-1)
        return good if sum(calls) <= 1000 else np.nan * good

    settings = {"tol": 1e-2, "vectorized": False, "search": GreedySearch(64)}
    with pytest.raises(FailedEvaluationError, match="got nan at theta="):
        boost(density, 2, **settings)
    calls.clear()
    with pytest.warns(FailedEvaluationWarning, match="got nan at theta="):
        result = boost(density, 2, failures="zero", **settings)
    # Nothing is known of the posterior any more, and that is what is said.
    assert result.n_failures > 0.5 * result.n_evaluations
    assert result.elbo == -np.inf
    assert "100 % of the posterior's draws" in result.message
    assert np.isfinite(result.posterior.mean()).all()


def test_nan_after_the_start():
    """Not one draw of the first component can be evaluated."""

    def density(theta):
        good = -0.5 * anp.sum(theta**2, axis=-1)
        return good if (getattr(theta, "_value", theta) == 1.0).all() else np.nan * good

    with pytest.raises(LogDensityError, match="x0=.*got nan at theta="):
        boost(density, 2, x0=[1.0, 1.0], failures="zero")


# --- regions of zero density


def half_normal(theta):
    x = theta[:, 0]
    return anp.where(x > 0, -0.5 * x**2, -np.inf)


def unit_square(theta):
    inside = anp.all((theta > 0) & (theta < 1), axis=1)
    return anp.where(inside, 0.0 * theta[:, 0], -np.inf)


def truncated(theta):
    """A correlated Gaussian to the right of x + y = 0, which holds half of it."""
    x, y = theta[:, 0], theta[:, 1]
    return anp.where(x + y > 0, -(x**2 + y**2 - 1.2 * x * y) / 1.28, -np.inf)


OBJECTIVES = "kl", "hellinger"
REGIONS = {
    "half-normal": (half_normal, [1.0], 0.5 * np.log(np.pi / 2)),
    "uniform on a square": (unit_square, [0.5, 0.5], 0.0),
    "truncated Gaussian": (truncated, [1.0, 1.0], np.log(np.pi * 0.8)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {"objective": each}) for name in REGIONS for each in OBJECTIVES),
        *(("half-normal", {"family": each}) for each in ("laplace", "student_t")),
    ],
)
def test_zero_density_beyond_a_border(name, settings):
    density, x0, truth = REGIONS[name]
    result = boost(density, len(x0), x0=x0, max_iter=6, **settings)
    assert np.isfinite(result.posterior.mean()).all()
    assert (result.posterior.std() > 0).all()
    assert 0.0 < result.history[-1]["outside"] < 0.2
    assert "% of the posterior's draws lie where the density is zero" in result.message
    # The bound is one, and what is left of it is stated.
    assert result.elbo < truth + 4 * result.elbo_se
    # Components or images of orbits follow the border: one Gaussian lacks .34 nats.
    assert result.elbo > truth - 0.2
    found, error = log_evidence(result, density)
    assert found == pytest.approx(truth, abs=4 * error)
    assert error < 0.05
    # The hint of the message helps: resampled draws are inside.
    draws = result.posterior.resample(density, 500, random_state=0).draws
    assert np.isfinite(density(draws)).all()


# --- modes, flat directions, and densities that can not be normalised


# Standard deviations, beyond what probes reach.
FAR = 1e6


def test_a_mode_that_q_never_sees_and_what_gives_it_away():
    """No number from q's own draws lacks anything; another start does."""
    truth = np.log(2 * np.pi)

    def density(theta):
        here = np.log(0.3) + anp.sum(-0.5 * theta**2, axis=1)
        there = np.log(0.7) + anp.sum(-0.5 * (theta - FAR) ** 2, axis=1)
        return anp.logaddexp(here, there)

    blind = boost(density, 2)
    assert blind.converged and "uncertified" not in blind.message
    assert blind.elbo == pytest.approx(truth + np.log(0.3), abs=1e-2)
    assert abs(blind.remaining_kl) < 1e-2
    assert blind.pareto_k < 0.7
    found, error = log_evidence(blind, density)
    assert found == pytest.approx(truth + np.log(0.3), abs=4 * error + 1e-3)

    other = boost(density, 2, x0=[FAR - 10.0, FAR + 10.0])
    assert other.elbo - blind.elbo == pytest.approx(np.log(0.7 / 0.3), abs=2e-2)
    both = boost(density, 2, x0=[[0.0, 0.0], [FAR - 10.0, FAR + 10.0]])
    assert both.elbo == pytest.approx(truth, abs=2e-2)
    np.testing.assert_allclose(both.posterior.mean(), 0.7 * FAR, rtol=0.02)


# Functions of two columns, and their slopes in both.
IMPROPER = {
    "flat diagonal": (lambda x, y: -0.5 * (x - y) ** 2, lambda x, y: (y - x, x - y)),
    "rising both ways": (
        lambda x, y: np.abs(x) - 0.5 * y**2, lambda x, y: (np.sign(x), -y),
    ),
    "slowly falling": (
        lambda x, y: -0.1 * np.log1p(x**2) - 0.5 * y**2,
        lambda x, y: (-0.2 * x / (1.0 + x**2), -y),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("flat diagonal", "kl"),
        ("rising both ways", "kl"),
        *(
            pytest.param("slowly falling", objective, marks=pytest.mark.slow)
            for objective in ("kl", "hellinger")
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_improper_density_ends_with_a_warning(name, objective):
    value, slopes = IMPROPER[name]
    with pytest.warns(ConvergenceWarning, match="seems to be improper") as caught:
        result = boost_posterior(
            lambda t: value(*t.T), 2, gradient=lambda t: np.stack(slopes(*t.T), 1),
            objective=objective, random_state=0, max_iter=50, search=GreedySearch(64),
        )  # fmt: skip
    (warning,) = (w for w in caught if w.category is ConvergenceWarning)
    assert warning.filename == __file__
    assert not result.converged
    assert "proper prior" in result.message
    assert result.n_iter <= 10
    assert np.isfinite(result.posterior.std()).all()


def test_a_density_that_rises_along_a_line_is_an_error():
    with pytest.raises(LogDensityError, match="rises without end.*proper prior"):
        slopes = {"gradient": lambda t: np.column_stack([np.ones(len(t)), -t[:, 1]])}
        boost(lambda t: t[:, 0] - 0.5 * t[:, 1] ** 2, 2, **slopes)


@pytest.mark.parametrize(("scale", "start"), [(1e-6, 10.0), (1e5, 0.0)])
def test_a_proper_density_in_odd_units_is_none_of_these(scale, start):
    def density(theta):
        return anp.sum(-0.5 * (theta / scale - 1.0) ** 2, axis=1)

    result = boost(density, 2, x0=[start * scale, 0.0])
    assert result.elbo == pytest.approx(np.log(2 * np.pi * scale**2), abs=2e-2)
    np.testing.assert_allclose(result.posterior.std(), scale, rtol=0.05)


# --- a density with jumps


def stairs(theta):
    """Piecewise constant in x, where its slope is zero."""
    return -np.floor(np.abs(theta[:, 0])) - 0.5 * theta[:, 1] ** 2


def test_a_discontinuous_density():
    # Steps of width one on either side: a geometric series.
    truth = np.log(2 / (1 - np.exp(-1))) + 0.5 * np.log(2 * np.pi)
    few = {"search": GreedySearch(64), "max_iter": 4}
    result = boost(stairs, 2, gradient=lambda t: t * [0.0, -1.0], **few)
    assert result.elbo < truth + 4 * result.elbo_se
    assert truth - result.elbo < 0.15
    found, error = log_evidence(result, stairs)
    assert found == pytest.approx(truth, abs=4 * error)
    assert error < 0.02
    assert result.elbo + result.remaining_kl == pytest.approx(truth, abs=0.05)
