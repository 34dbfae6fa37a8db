"""Results of `boost_posterior` with every option: files, pickles, jobs."""

import pickle
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal, assert_equal

from skboost import BoostingResult, boost_posterior
from skboost.posterior import MixturePosterior
from skboost.strategies import GreedySearch


def bent(theta):
    x, y = theta[..., 0], theta[..., 1]
    return -0.5 * x**2 - 2.0 * (y - 0.5 * (x**2 - 1.0)) ** 2


def bent_gradient(theta):
    x, y = theta[..., 0], theta[..., 1]
    off = 4.0 * (y - 0.5 * (x**2 - 1.0))
    return np.stack([off * x - x, -off], axis=-1)


POSITIVE = {"constraints": {"y": (-3.0, None)}}
PLAIN = GreedySearch(32, refine=False)
WAYS = {
    "plain": {"orbit": None, "tol": 0.0, "max_iter": 3, "search": PLAIN},
    "skewed": {"max_iter": 1, "orbit": 8},
    "hellinger": {"objective": "hellinger", "orbit": None, "max_iter": 2},
    "warp, constraints": {"warp": "auto", "orbit": None, "max_iter": 2, **POSITIVE},
    "surrogate": {"surrogate": "auto", "orbit": 8, "max_iter": 1},
}
FEW = {"names": ["x", "y"], "search": GreedySearch(32), "random_state": 0}


SLOW = [pytest.mark.slow]
PARAMS = [pytest.param(w, marks=SLOW * (n == "hellinger")) for n, w in WAYS.items()]


@pytest.fixture(scope="module", params=PARAMS, ids=WAYS)
def found(request):
    """A result, and the arguments that it comes from."""
    told = FEW | request.param | {"gradient": bent_gradient}
    return boost_posterior(bent, 2, **told), told


def assert_same(one, two):
    for record, other in zip(one.history, two.history, strict=True):
        untimed = {key: value for key, value in record.items() if "seconds" not in key}
        assert_equal({key: other[key] for key in untimed}, untimed)
    for name in (
        "message", "elbo", "elbo_se", "remaining_kl", "pareto_k",
        "remaining_kl_interval", "n_evaluations", "orbiting",
    ):  # fmt: skip
        assert_equal(getattr(one, name), getattr(two, name), name)
    assert (one.warp is None) == (two.warp is None)
    assert one.warp is None or one.warp.record() == two.warp.record()
    for first, second in zip(one.stages, two.stages, strict=True):
        draws = second.sample(9, random_state=0)
        assert_array_equal(first.sample(9, random_state=0), draws)
        assert_allclose(first.log_density(draws), second.log_density(draws), rtol=1e-12)
    first, second = one.posterior, two.posterior
    assert type(first) is type(second) and first.names == second.names
    assert first.constraints == second.constraints
    # With skewing weights draws need the density, which no file has.
    assert_allclose(first.mean(), second.mean(), rtol=1e-6, atol=1e-9)
    assert_allclose(first.std(), second.std(), rtol=1e-6)


def test_saved_and_pickled(found, tmp_path):
    result, told = found
    result.save(tmp_path / "result.npz")
    for again in (
        BoostingResult.load(tmp_path / "result.npz"),
        pickle.loads(pickle.dumps(result)),
    ):
        assert_same(again, result)
    result.posterior.save(tmp_path / "posterior.npz")
    loaded = MixturePosterior.load(tmp_path / "posterior.npz")
    assert loaded.constraints == result.posterior.constraints
    assert_allclose(loaded.mean(), result.posterior.mean(), rtol=1e-6, atol=1e-9)
    if told["search"].refine:
        return
    # Without refinement no component ever changes, and stages share them in a file.
    with np.load(tmp_path / "result.npz") as archive:
        stored = sum(name.startswith("params_") for name in archive.files)
    assert stored < sum(stage.n_components for stage in result.stages)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answer_for_every_n_jobs(found):
    def density(theta):  # workers can not import this file: pickled by value
        x, y = theta[..., 0], theta[..., 1]
        return -0.5 * x**2 - 2.0 * (y - 0.5 * (x**2 - 1.0)) ** 2

    def gradient(theta):
        x, y = theta[..., 0], theta[..., 1]
        off = 4.0 * (y - 0.5 * (x**2 - 1.0))
        return np.stack([off * x - x, -off], axis=-1)

    result, told = found
    two = boost_posterior(density, 2, n_jobs=2, **told | {"gradient": gradient})
    assert_same(two, result)


def test_loading_refuses_other_files(tmp_path):
    result = boost_posterior(lambda t: -0.5 * anp.sum(t**2, axis=1), 1, max_iter=1)
    result.posterior.save(tmp_path / "posterior")
    result.save(tmp_path / "result")
    (tmp_path / "text").write_text("elbo: 1", encoding="utf-8")
    for name in ("posterior", "text"):
        with pytest.raises(ValueError, match=r"written by BoostingResult\.save"):
            BoostingResult.load(tmp_path / name)
    with pytest.raises(ValueError, match=r"written by MixturePosterior\.save"):
        MixturePosterior.load(tmp_path / "result")


# --- rates of the papers


def two_humps(theta):
    x = theta[..., 0]
    return anp.logaddexp(-2.0 * (x + 1.0) ** 2, -2.0 * (x - 1.0) ** 2)


@pytest.fixture(scope="module")
def adaptive():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return boost_posterior(
            two_humps, 1, step_size="adaptive", corrective="none",
            search=GreedySearch(refine=False), orbit=None, tol=0.0, max_iter=4,
            random_state=0,
        )  # fmt: skip


def test_distances_that_were_seen_are_within_the_rates_of_the_papers(adaptive):
    # The integral is known: two normal densities of standard deviation 1/2.
    log_evidence = np.log(2.0 * 0.5 * np.sqrt(2.0 * np.pi))
    left = log_evidence - np.array([record["elbo"] for record in adaptive.history])
    assert len(left) == 4
    assert np.all(left <= adaptive.rate_bound())
    assert np.all(left[1:] <= adaptive.adaptive_rate_bound())


def test_rates_are_the_formulas_of_the_papers(adaptive):
    history = adaptive.history
    curvatures = [record["curvature"] for record in history[1:]]
    error = adaptive.elbo + adaptive.remaining_kl - history[0]["elbo"]
    found = adaptive.rate_bound(3.0, delta=0.5)
    assert_allclose(found[[0, 2]], [6.0 + error, 2.0 * (6.0 + error) / 3.0])
    largest = adaptive.rate_bound()
    assert_allclose(largest[0], max(curvatures) + error)
    # t = 2 and delta = 1/2: t delta (t delta + 1) is 2, delta (t delta + 1) is 1.
    found = adaptive.adaptive_rate_bound(delta=0.5, sampling_error=0.1)
    expected = history[1]["gap"] + 2.0 * np.mean(curvatures[:2]) + 0.1
    assert_allclose(found[1], expected)
    with pytest.raises(ValueError, match="delta"):
        adaptive.rate_bound(delta=0.0)
    with pytest.raises(ValueError, match="curvature"):
        boost_posterior(two_humps, 1, max_iter=1, random_state=0).rate_bound()
