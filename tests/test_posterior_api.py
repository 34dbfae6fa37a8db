"""``boost_posterior``: from any log density to a result."""

import logging
import pickle
import re
import sys
from time import sleep

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from skboost import BoostingResult, boost_posterior
from skboost.callbacks import Checkpoint
from skboost.posterior import MixturePosterior
from skboost.strategies import GreedySearch, ResidualGain

MEAN = np.array([1.0, -2.0])
ROOT = np.array([[1.0, 0.0], [0.8, 0.5]])
PRECISION = np.linalg.inv(ROOT @ ROOT.T)


def correlated(theta):
    """N(MEAN, ROOT ROOT^T), unnormalised."""
    z = theta - MEAN
    return -0.5 * anp.sum(anp.dot(z, PRECISION) * z, axis=-1)


def correlated_gradient(theta):
    return -(theta - MEAN) @ PRECISION


def two_modes(theta):
    return anp.logaddexp(-2 * (theta[:, 0] + 2) ** 2, -((theta[:, 0] - 2) ** 2))


def two_slopes(theta):
    left, right = -2 * (theta + 2) ** 2, -((theta - 2) ** 2)
    share = 1.0 / (1.0 + np.exp(right - left))
    return -4 * share * (theta + 2) - 2 * (1 - share) * (theta - 2)


def banana(theta):
    return -0.5 * (theta[:, 0] ** 2 / 9 + (theta[:, 1] + 0.1 * theta[:, 0] ** 2) ** 2)


def banana_gradient(theta):
    x, off = theta[:, 0], theta[:, 1] + 0.1 * theta[:, 0] ** 2
    return np.column_stack([-x / 9 - 0.2 * x * off, -off])


GRADIENTS = {two_modes: two_slopes, banana: banana_gradient}


def boost(log_density=correlated, dim=2, **settings):
    few = {"random_state": 0, "max_iter": 3, "search": GreedySearch(64), "orbit": None}
    few["gradient"] = GRADIENTS.get(log_density)
    return boost_posterior(log_density, dim, **few | settings)


# --- what comes back


def test_callbacks_come_in_lists():
    one, other = [], []
    calls = [one.append, lambda r: r["iteration"] == 2, other.append]
    result = boost(two_modes, 1, tol=0.0, max_iter=9, callback=calls)
    assert one == other and len(one) == result.n_iter == 2
    assert not result.converged
    assert result.message.startswith("Stopped by a callback.")
    with pytest.raises(ValueError, match="a list with 'no'"):
        boost(two_modes, 1, callback=[one.append, "no"])
    with pytest.raises(ValueError, match="at most one Checkpoint; got 2"):
        boost(two_modes, 1, callback=[Checkpoint("a"), Checkpoint("b")])


def test_the_result_holds_what_the_page_says():
    seen = []
    result = boost(two_modes, 1, tol=0.0, callback=seen.append, orbit="auto")
    assert isinstance(result, BoostingResult)
    assert isinstance(result.posterior, MixturePosterior)
    for name in ("elbo", "elbo_se", "duality_gap", "remaining_kl", "pareto_k"):
        assert isinstance(getattr(result, name), float)
    assert result.n_iter == len(result.history) == len(result.stages) == len(seen) == 3
    assert seen == result.history
    assert [record["iteration"] for record in seen] == [1, 2, 3]
    assert result.n_evaluations > 0
    assert not result.converged
    assert "max_iter=3" in result.message
    assert f"n_components={result.posterior.n_components}" in repr(result)
    z = np.linspace(-5, 5, 11)[:, None]
    # Stages are those without orbits.
    assert result.orbiting.applied
    assert_allclose(
        result.stages[-1].log_density(z), result.posterior.mixture.log_density(z)
    )
    with pytest.raises(AttributeError):
        result.elbo = 0.0


def same_bits(a, b):
    one, two = a.posterior.mixture, b.posterior.mixture
    return np.array_equal(one.weights, two.weights) and np.array_equal(
        one.component_means(), two.component_means()
    )


def test_the_seed_decides():
    one, two, other = (
        boost(two_modes, 1, max_iter=2, random_state=seed) for seed in (0, 0, 1)
    )
    assert same_bits(one, two) and not same_bits(one, other)
    assert one.elbo == two.elbo


# --- ways to say the density


def test_ways_to_give_the_density_agree():
    settings = {"max_iter": 1, "search": GreedySearch(16)}
    expected = boost(**settings)
    result = boost(vectorized=False, gradient=correlated_gradient, **settings)
    assert_allclose(result.posterior.mean(), expected.posterior.mean(), rtol=1e-6)
    assert_allclose(result.elbo, expected.elbo, rtol=1e-6)


@pytest.mark.parametrize(
    "x0",
    [[2.0], [[2.0], [-2.0]], ([-4.0], [4.0]), (-4, np.array([4.0]))],
    ids=["point", "points", "box", "mixed box"],
)
def test_starts(x0):
    result = boost(two_modes, 1, x0=x0, max_iter=2)
    near = np.abs(result.posterior.mixture.component_means()[:, 0])
    assert np.abs(near - 2.0).min() < 0.5


# --- when it ends


def test_evaluations_are_bounded():
    calls = []

    def density(theta):
        calls.append(len(theta))
        return two_modes(theta)

    free = boost(density, 1, tol=0.0, max_iter=4, vectorized=True)
    assert free.n_evaluations == sum(calls)
    bound = free.history[0]["iteration"] + 1000
    result = boost(two_modes, 1, tol=0.0, max_iter=40, max_evaluations=bound)
    assert result.n_iter < 40
    assert "max_evaluations=" in result.message
    # Never exceeded: a batch that does not fit in is refused.
    assert 0.5 * bound < result.n_evaluations <= bound


# --- densities that are zero somewhere


def half_line(theta):
    return anp.where(anp.all(theta > 0, axis=1), -anp.sum(theta, axis=1), -anp.inf)


def test_an_unfinished_run_warns_where_it_was_called():
    with pytest.warns(ConvergenceWarning, match="For less, raise max_iter.") as caught:
        # Of each exponential distribution a Gaussian leaves half a nat or more.
        options = {"x0": [1.0] * 3, "max_iter": 1, "orbit": None, "random_state": 0}
        boost_posterior(half_line, 3, **options)
    assert caught[0].filename == __file__


# --- what is refused


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dim": 0}, "'dim' parameter of boost_posterior"),
        ({"log_density": 3}, "'log_density' parameter"),
        ({"gradient": "yes"}, "'gradient' parameter"),
        ({"family": "gauss"}, "'family' parameter"),
        ({"objective": "elbo"}, "'objective' parameter"),
        ({"step_size": "linesearch"}, "'step_size' parameter"),
        ({"corrective": "fully"}, "'corrective' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"max_evaluations": 0}, "'max_evaluations' parameter"),
        ({"max_evaluations": 10.5}, "'max_evaluations' .* must be an int"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"callback": 3}, "'callback' parameter"),
        ({"warp": True}, "'warp' parameter"),
        ({"objective": ResidualGain(-1.0)}, "entropy_weight must be a finite number"),
        ({"names": ["a"]}, "names must hold one name for each coordinate, 2 in all"),
        ({"names": ["a", "a"]}, "names must be distinct"),
        ({"x0": [1.0]}, "x0 must be finite, of shape"),
        ({"x0": [np.nan, 0.0]}, "x0 must be finite"),
        ({"x0": np.zeros((0, 2))}, "x0 must be finite, of shape"),
        ({"x0": [[0.0, 1.0], [1.0]]}, "x0 must hold numbers, in rows of one length"),
        ({"x0": ("low", "high")}, "x0 must hold numbers"),
        ({"x0": np.zeros((2, 2, 2))}, "x0 must be finite, of shape"),
        ({"x0": (1.0, -1.0)}, "low < high"),
        ({"x0": (-1.0, 0.0, 1.0)}, "x0 as a box must be a tuple"),
        ({"x0": ([-1.0], [1.0, 1.0, 1.0])}, "x0 as a box must be a tuple"),
        ({"x0": (-np.inf, 1.0)}, "x0 as a box must be a tuple"),
    ],
)
def test_what_means_nothing_is_refused_before_any_work(settings, words):
    calls = []

    def density(theta):
        calls.append(len(theta))
        return correlated(theta)

    arguments = {"log_density": density, "dim": 2} | settings
    with pytest.raises(ValueError, match=words):
        boost_posterior(**arguments)
    # At most the trial of whether it takes batches.
    assert sum(calls) <= 10


def test_values_with_gradients_are_those_of_both():
    calls = []

    def both(theta):
        calls.append(len(theta))
        return -0.5 * np.sum(theta**2, axis=1), -theta

    def log_density(theta):
        return both(theta)[0]

    given = {"random_state": 0, "max_iter": 2}
    result = boost_posterior(log_density, 2, value_and_gradient=both, **given)
    n_together = sum(calls)
    calls.clear()
    apart = boost_posterior(log_density, 2, gradient=lambda t: -t, **given)
    assert result.elbo == apart.elbo
    assert result.n_evaluations == apart.n_evaluations
    assert n_together <= sum(calls)
    with pytest.raises(ValueError, match="value_and_gradient"):
        boost_posterior(log_density, 2, gradient=lambda t: -t, value_and_gradient=both)


# --- going on, and what is told


@pytest.mark.parametrize("warp", [None, pytest.param("auto", marks=pytest.mark.slow)])
def test_a_result_goes_on_as_one_long_run(warp):
    settings = {"tol": 0.0, "warp": warp, "orbit": "auto"}
    short = boost(banana, max_iter=2, **settings)
    whole = boost(banana, max_iter=3, **settings)
    longer = boost(banana, max_iter=3, start=short, random_state=5, **settings)
    # What judged the first counts, too.
    assert longer.n_evaluations > whole.n_evaluations
    theta = whole.posterior.sample(50, random_state=0)
    assert_allclose(
        longer.posterior.log_density(theta), whole.posterior.log_density(theta)
    )
    assert longer.elbo == whole.elbo and longer.message == whole.message


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"log_density": two_modes, "dim": 1}, marks=pytest.mark.slow),
        {"log_density": two_modes, "dim": 1, "init": "single", "tol": 1e-3},
        pytest.param(
            {"log_density": banana, "objective": "hellinger"}, marks=pytest.mark.slow
        ),
        {"log_density": banana, "constraints": {0: (-9.0, 9.0)}, "orbit": 2},
        {"log_density": correlated, "tol": 0.1, "search": GreedySearch(512)},
    ],
    ids=["modes", "single", "roots", "orbits", "converged"],
)
def test_what_remains_at_most_is_the_same_however_often_a_run_went_on(settings):
    settings = {"tol": 0.0} | settings
    whole, went_on = boost(**settings), boost(max_iter=1, **settings)
    for max_iter in (2, 3, 3):
        # Evaluations that are asked of a result on the way are none of the run's.
        assert np.isfinite(went_on.elbo)
        went_on = boost(start=went_on, **settings, max_iter=max_iter)
    assert went_on.n_iter == whole.n_iter and went_on.elbo == whole.elbo
    assert went_on.remaining_kl_interval == whole.remaining_kl_interval
    assert whole.remaining_kl_interval[1] < np.inf


def test_a_result_that_converged_goes_on_to_a_smaller_tol():
    first = boost(banana, tol=0.1)
    again = boost(banana, start=first, tol=0.1)
    assert first.converged and again.n_iter == first.n_iter
    longer = boost(banana, start=first, tol=1e-4, max_iter=first.n_iter + 1)
    # ELBOs of different draws differ by more than an iteration gains: a sum over a grid
    # does not.
    axes = np.linspace(-20.0, 20.0, 601), np.linspace(-45.0, 8.0, 901)
    theta = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    log_p = banana(theta)

    def negative_elbo(result):
        log_q = result.posterior.log_density(theta)
        return np.exp(log_q) @ (log_q - log_p)

    assert longer.n_iter == first.n_iter + 1
    assert negative_elbo(longer) < negative_elbo(first)


def test_a_result_goes_on_with_the_same_density_only(tmp_path):
    first = boost(banana, max_iter=1)
    for settings, words in (
        ({"family": "gaussian-diag"}, "the same family; got .* after"),
        ({"constraints": {1: "positive"}}, "got .*'positive'.*after None"),
        ({"constraints": "simplex"}, "the same constraints; got"),
        ({"warp": "auto"}, "the same choice of a warp"),
        ({"callback": Checkpoint(tmp_path / "fit")}, "Pass one of them"),
    ):
        with pytest.raises(ValueError, match=words):
            boost(banana, start=first, **settings)
    with pytest.raises(ValueError, match="start goes on with the same data"):
        boost(lambda theta: 2.0 * banana(theta), start=first)
    with pytest.raises(ValueError, match="number of free coordinates; got 1 after 2"):
        boost(two_modes, 1, start=first)
    first.save(tmp_path / "result.npz")
    loaded = BoostingResult.load(tmp_path / "result.npz")
    for gone in (loaded, pickle.loads(pickle.dumps(first))):
        with pytest.raises(ValueError, match="whose run is in memory"):
            boost(banana, start=gone)


def test_progress_is_logged_and_shown_where_it_is_asked_for(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="skboost"):
        result = boost(banana, max_iter=2, tol=0.0)
    first, second, end = (record.getMessage() for record in caplog.records)
    assert first.startswith("Iteration 1: ELBO") and second.startswith("Iteration 2:")
    assert "nats of KL left, " in second and " evaluations." in second
    assert result.message.startswith(end)
    assert capsys.readouterr().err == ""
    logger = logging.getLogger("skboost")
    for verbose in (1, 2):
        boost(banana, max_iter=2, tol=0.0, verbose=verbose)
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 3 * verbose
        if verbose == 2:
            assert told.pop(0) == "Begins with components by search."
        assert told[0] == first and ("gain" in told[1]) == (verbose == 2)
    assert logger.level == logging.NOTSET and not logger.handlers


def percents(told):
    """What a bar showed, and the lines above it."""
    plain = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "\r", told)
    return [int(found) for found in re.findall(r"(\d+)%", plain)], plain


def test_a_bar_moves_within_the_first_iteration(monkeypatch, capsys):
    pytest.importorskip("rich.progress")
    # A terminal that is recorded.
    monkeypatch.setenv("FORCE_COLOR", "1")

    def slow(theta):
        sleep(1e-4 * len(theta))
        return correlated(theta)

    limits = {"tol": 0.0, "max_iter": 1000, "max_evaluations": 3000}
    boost(slow, gradient=correlated_gradient, verbose=1, **limits)
    shown, plain = percents(capsys.readouterr().err)
    assert shown[0] < 50 and shown[-1] == 100
    # Above a line that is written, rich may draw once more what it drew before;
    # what it draws for the first time is never less.
    assert list(dict.fromkeys(shown)) == sorted(set(shown))
    # Drawn ten times a second: at least twice while the run went on.
    assert len({one for one in shown if 0 < one < 100}) > 1
    first = plain.index("Iteration 1: ELBO")
    assert percents(plain[:first])[0][-1] > 0
    assert "evaluations" in plain[:first] and "Stopped at max_" in plain


def test_a_bar_counts_iterations_where_nothing_else_is_limited(monkeypatch, capsys):
    pytest.importorskip("rich.progress")
    monkeypatch.setenv("FORCE_COLOR", "1")
    boost(banana, max_iter=2, tol=0.0, verbose=1, callback=lambda _: sleep(0.15))
    shown, plain = percents(capsys.readouterr().err)
    assert set(shown) == {0, 50, 100} and "1 iteration, " in plain


def test_without_rich_there_are_lines_and_no_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setitem(sys.modules, "rich", None)
    boost(max_iter=1, verbose=1)
    assert capsys.readouterr().err.startswith("Iteration 1: ELBO")
