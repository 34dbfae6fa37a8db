"""``boost_posterior(constraints=...)``: closed forms, and everything on one's scale."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import betaln, gammaln, softmax
from sklearn.exceptions import ConvergenceWarning

from skboost import boost_posterior
from skboost.posterior import MixturePosterior, TransformedPosterior
from skboost.strategies import GreedySearch
from skboost.targets import LogDensityError

N_DRAWS = 512


def boost(log_density, dim, constraints, **settings):
    settings = {"random_state": 0, "search": GreedySearch(N_DRAWS)} | settings
    return boost_posterior(log_density, dim, constraints=constraints, **settings)


def gamma(theta):
    """Gamma(3, rate 2), unnormalised."""
    return anp.sum(2.0 * anp.log(theta) - 2.0 * theta, axis=-1)


def beta(theta):
    """Beta(0.7, 3), unnormalised: infinite at zero."""
    return anp.sum(-0.3 * anp.log(theta) + 2.0 * anp.log1p(-theta), axis=-1)


ALPHA = np.array([2.0, 3.0, 5.0])


def dirichlet(theta):
    return anp.sum((ALPHA - 1.0) * anp.log(theta), axis=-1)


def correlations(theta):
    """LKJ(2) of three variables, unnormalised."""
    a, b, c = theta[..., 0], theta[..., 1], theta[..., 2]
    return anp.log(1.0 + 2.0 * a * b * c - a**2 - b**2 - c**2)


def lognormal(theta):
    logs = anp.log(theta)
    return anp.sum(-logs - 0.5 * ((logs - 0.5) / 0.4) ** 2, axis=-1)


def normal(theta):
    return -0.5 * anp.sum(theta**2, axis=-1)


# Means and standard deviations of three sorted standard normal draws: mean of the
# largest 3 / (2 sqrt(pi)); variances by David & Nagaraja, Order Statistics.
TOP = 1.5 / np.sqrt(np.pi)
SORTED = np.sqrt([0.5594672, 0.4486711, 0.5594672])
LKJ = 11 * np.log(2) + 2 * betaln(2.5, 2.5) + betaln(2, 2)
# Density, dimension, constraints; logarithm of the integral, means and deviations.
CASES = {
    "gamma": (gamma, 2, "positive", 2 * (gammaln(3) - 3 * np.log(2)), 1.5, 0.75**0.5),
    "beta": (
        beta, 1, "unit_interval", betaln(0.7, 3),
        0.7 / 3.7, np.sqrt(0.7 * 3 / 3.7**2 / 4.7),
    ),
    "lognormal": (
        lognormal, 1, "positive", np.log(0.4 * np.sqrt(2 * np.pi)),
        np.exp(0.58), np.exp(0.58) * np.sqrt(np.expm1(0.16)),
    ),
    "dirichlet": (
        dirichlet, 3, "simplex", gammaln(ALPHA).sum() - gammaln(10),
        ALPHA / 10, np.sqrt(ALPHA * (10 - ALPHA) / 1100),
    ),
    "truncated": (
        normal, 1, (0, None), 0.5 * np.log(np.pi / 2),
        np.sqrt(2 / np.pi), np.sqrt(1 - 2 / np.pi),
    ),
    "uniform": (
        lambda theta: 0.0 * theta[..., 0], 2, (-1, 3), 2 * np.log(4),
        1.0, 4 / np.sqrt(12),
    ),
    "ordered": (
        normal, 3, "ordered", 1.5 * np.log(2 * np.pi) - np.log(6),
        np.array([-TOP, 0.0, TOP]), SORTED,
    ),
    # Lewandowski, Kurowicka, Joe 2009.
    "correlation": (correlations, 3, "correlation", LKJ, 0.0, np.sqrt(1 / 6)),
}  # fmt: skip


def test_correlations_are_saved_and_drawn_inside_of_their_set(tmp_path):
    result = boost(correlations, 3, "correlation", max_iter=1, names=["ba", "ca", "cb"])
    posterior = result.posterior
    draws = posterior.sample(500, random_state=0)
    assert np.isfinite(correlations(draws)).all()
    assert_allclose(posterior.std(), np.sqrt(1 / 6), rtol=0.1)
    assert list(posterior.summary()["lower"] > -1.0) == [True] * 3
    posterior.save(tmp_path / "correlations.npz")
    again = MixturePosterior.load(tmp_path / "correlations.npz")
    assert again.names == ("ba", "ca", "cb")
    again = again.with_log_joint(correlations)
    assert_allclose(again.log_density(draws), posterior.log_density(draws))
    with pytest.raises(ValueError, match="K variables: 1, 3, 6, 10.*got 2"):
        boost(correlations, 3, {(0, 1): "correlation"})


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_closed_forms_are_found(name):
    log_density, dim, constraints, log_z, mean, std = CASES[name]
    result = boost(log_density, dim, constraints)
    posterior = result.posterior
    assert isinstance(posterior, TransformedPosterior)
    # A bound, and as close as the run says that it is.
    assert result.elbo < log_z + 4 * result.elbo_se
    left = max(result.remaining_kl, 0.0) + 4 * result.remaining_kl_se + 0.05
    assert result.elbo > log_z - left
    # Averages over the draws that were fitted, and what Pinsker makes of `left`.
    error = std * (4 / np.sqrt(N_DRAWS) + np.sqrt(2 * max(log_z - result.elbo, 0)))
    assert (np.abs(posterior.mean() - mean) < error).all()
    assert (np.abs(posterior.std() - std) < 2 * error).all()


def test_everything_is_on_the_users_scale():
    seen = []

    def density(theta):
        seen.append(np.asarray(theta, dtype=float))
        return dirichlet(theta[:, :3]) + gamma(theta[:, 3:])

    def gradient(theta):
        return np.column_stack([(ALPHA - 1) / theta[:, :3], 2 / theta[:, 3:] - 2])

    constraints = {("a", "b", "c"): "simplex", "rate": "positive"}
    settings = {"names": ["a", "b", "c", "rate"], "max_iter": 2, "orbit": None}
    result = boost(density, 4, constraints, gradient=gradient, **settings)
    # Also where it was tried out: no point outside was ever asked for.
    points = np.concatenate(seen)
    assert (points > 0).all()
    assert_allclose(points[:, :3].sum(axis=1), 1.0)
    assert result.posterior.names == ("a", "b", "c", "rate")
    assert result.posterior.mixture.dim == 3
    assert result.posterior.sample(5, random_state=0).shape == (5, 4)
    assert all(isinstance(s, TransformedPosterior) for s in result.stages)
    theta = result.posterior.sample(20, random_state=1)
    assert_allclose(
        result.stages[-1].log_density(theta), result.posterior.log_density(theta)
    )


def test_starts_and_probes_lead_to_modes_on_the_unconstrained_scale():
    def parts(theta):
        return -0.5 * (np.log(theta) - [9.0, -9.0]) ** 2

    def density(theta):
        return np.logaddexp(*parts(theta).T) - np.log(theta[:, 0])

    def gradient(theta):
        means = softmax(parts(theta), axis=1) @ [[9.0], [-9.0]]
        return (means - np.log(theta) - 1.0) / theta

    for x0 in (np.exp(8.0), np.exp(-8.0)):
        result = boost(density, 1, "positive", x0=[x0], gradient=gradient)
        ends = result.posterior.marginal(0).quantile([0.25, 0.75])
        assert_allclose(np.log(ends), [-9.0, 9.0], atol=0.5)


def test_bad_values_show_the_point_on_the_users_scale():
    def density(theta):
        return anp.where(theta[:, 0] > 3.0, anp.nan, -theta[:, 0])

    with pytest.raises(LogDensityError, match=r"theta=\[[1-9]"):
        boost(density, 1, "positive", x0=[50.0])


@pytest.mark.parametrize(
    ("constraints", "slope"),
    [({1: "positive"}, -3.0), ({1: (None, 0)}, 2.0)],
)
def test_powers_that_can_not_be_integrated_are_improper(constraints, slope):
    def power(theta):
        return -(theta[:, 0] ** 2) + slope * np.log(np.abs(theta[:, 1]))

    def gradient(theta):
        return np.column_stack([-2.0 * theta[:, 0], slope / theta[:, 1]])

    where = r"improper.*along theta\[1\] on its unconstrained"
    with pytest.warns(ConvergenceWarning, match=where):
        result = boost(power, 2, constraints, gradient=gradient, max_iter=3)
    assert not result.converged


def test_a_free_coordinate_without_an_end_is_named_as_it_is():
    with pytest.warns(ConvergenceWarning, match=r"improper.*along theta\[0\], and"):
        settings = {"gradient": lambda t: 0.0 * t - [0.0, 1.0], "max_iter": 2}
        boost(lambda t: 0.0 * t[:, 0] - t[:, 1], 2, {1: "positive"}, **settings)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_a_wide_lognormal_of_any_unit_is_proper(scale):
    def lognormal(theta):
        z = anp.log(theta[:, 0] / scale)
        return -0.5 * (z / 20.0) ** 2 - z

    result = boost(lognormal, 1, "positive", x0=[scale], max_iter=2)
    assert "improper" not in result.message
    assert result.elbo == pytest.approx(np.log(20.0 * scale * np.sqrt(2 * np.pi)))


@pytest.mark.parametrize(
    ("constraints", "x0", "words"),
    [
        ("positive", [1.0, -1.0], "'positive' of coordinate 1 .*-1.0"),
        ("positive", [[1.0, 1.0], [0.0, 1.0]], "'positive' of coordinate 0"),
        ("simplex", [0.5, 0.6], "'simplex' of coordinates 0, 1"),
        ("ordered", [2.0, 1.0], "'ordered' of coordinates 0, 1"),
        ({1: (0, 2)}, [5.0, 2.0], r"\(0.0, 2.0\) of coordinate 1"),
        ("positive", (-1.0, 1.0), "box must lie inside constraints.*coordinate 0"),
        ("simplex", (0.0, 2.0), "box must lie inside constraints.*'simplex'"),
        ({1: (0, 2)}, (0.0, 3.0), "box must lie inside constraints.*coordinate 1"),
    ],
)
def test_starts_outside_are_refused_by_name(constraints, x0, words):
    with pytest.raises(ValueError, match="x0.*" + words):
        boost(normal, 2, constraints, x0=x0)


def test_constraints_that_mean_nothing_are_refused_before_any_work():
    calls = []
    with pytest.raises(ValueError, match="^constraints"):
        boost(calls.append, 2, {"a": "positive"})
    assert not calls
