"""Models of PyMC, against integration and conjugate posteriors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

from skboost import boost_posterior
from skboost.adapters import from_pymc
from skboost.families import FullGaussian
from skboost.posterior import MixturePosterior
from skboost.strategies import GreedySearch

from ..conftest import Extra

pymc, pytensor = Extra("pymc"), Extra("pytensor")

POINTS = np.random.default_rng(0).standard_normal((5, 10))


def eight_schools(schools):
    with pymc.Model() as model:
        mu = pymc.Normal("mu", 0, 5)
        tau = pymc.HalfCauchy("tau", 5)
        z = pymc.Normal("z", 0, 1, shape=8)
        theta = pymc.Deterministic("theta", mu + tau * z)
        pymc.Normal("y", theta, schools.sigma, observed=schools.y)
    return from_pymc(model)


@pytest.fixture(scope="module")
def density(schools):
    """Without a compiler, which takes longer than all that is asked of it."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        return eight_schools(schools)


@pytest.fixture(scope="module")
def result(schools):
    return boost_posterior(**eight_schools(schools).arguments(random_state=0))


def test_coordinates_are_the_value_variables(density):
    assert density.names == ("mu", "tau_log__", *(f"z[{i}]" for i in range(8)))
    assert density.dim == 10 and density.vectorized
    # PyMC starts tau at its scale.
    assert_allclose(density.x0, [0.0, np.log(5.0), *np.zeros(8)])


def test_the_density_has_the_jacobian_and_every_constant(density, schools_log_density):
    # PyMC has one constant in single precision.
    truth = schools_log_density(POINTS)
    found = density.log_density(POINTS)
    assert_allclose(found, truth, atol=1e-7)
    assert_allclose(found - found[0], truth - truth[0], atol=1e-11, rtol=0)
    assert_array_equal([density.log_density(row) for row in POINTS], found)


def test_the_gradient_is_that_of_the_density(density, check_gradient):
    check_gradient(density, POINTS)


@pytest.mark.slow
def test_the_posterior_is_that_of_integration(density, result, schools, check_schools):
    assert result.posterior.names == density.names
    assert result.elbo < schools.log_evidence + 4 * result.elbo_se
    assert schools.log_evidence - result.elbo < 0.1
    check_schools(density.constrain(result.posterior.sample(20_000, random_state=0)))


@pytest.mark.slow
def test_resampled_draws_are_closer_still(density, result, schools, check_schools):
    drawn = result.posterior.resample(density.log_density, 5000, random_state=0)
    error = 4 * drawn.log_evidence_se
    assert drawn.log_evidence == pytest.approx(schools.log_evidence, abs=error)
    check_schools(density.constrain(drawn.draws))


def test_draws_come_back_as_the_models_variables(density):
    draws = density.constrain(POINTS)
    assert set(draws) == {"mu", "tau", "z", "theta"}
    assert_allclose(draws["mu"], POINTS[:, 0])
    assert_allclose(draws["tau"], np.exp(POINTS[:, 1]))
    assert_allclose(draws["z"], POINTS[:, 2:])
    assert_allclose(
        draws["theta"], draws["mu"][:, None] + draws["tau"][:, None] * POINTS[:, 2:]
    )


def test_tables_and_arviz_have_the_models_variables(density):
    posterior = MixturePosterior.from_components(
        [(FullGaussian(), FullGaussian().from_moments(np.zeros(10), np.eye(10)))], [1.0]
    )
    table = density.summary(posterior, level=0.8)
    assert list(table.index)[:3] == ["mu", "z[0]", "z[1]"]
    assert set(table.index) == {
        "mu", "tau", *(f"{v}[{i}]" for v in ("z", "theta") for i in range(8))
    }  # fmt: skip
    # tau is lognormal here.
    assert table.loc["tau", "median"] == pytest.approx(1.0, rel=0.04)
    assert table.loc["tau", "upper"] == pytest.approx(np.exp(1.2816), rel=0.06)
    pytest.importorskip("arviz")
    group = density.to_arviz(posterior, n=10, n_chains=4, random_state=0)["posterior"]
    assert set(group.data_vars) == {"mu", "tau", "z", "theta"}
    assert group["theta"].shape == (4, 3, 8)


@pytest.mark.slow
def test_rows_are_evaluated_at_once_whatever_the_model_is_made_of():
    rng = np.random.default_rng(0)
    group, X = rng.integers(3, size=20), rng.standard_normal((20, 2))
    with pymc.Model() as model:
        cov = pymc.LKJCholeskyCov("cov", n=2, eta=2.0, sd_dist=pymc.HalfNormal.dist(1))
        b = pymc.MvNormal("b", 0, chol=cov[0], shape=(3, 2))
        w = pymc.Dirichlet("w", np.ones(3))
        pymc.Deterministic("constant", pymc.math.stack([1.0, 2.0]))
        eta = (b[group] * X).sum(axis=1) + w[group]
        pymc.Bernoulli("y", logit_p=eta, observed=rng.integers(2, size=20))
    density = from_pymc(model)
    assert density.vectorized
    points = rng.standard_normal((4, density.dim))
    # PyMC's own function of a point is the judge.
    own, gradient = model.compile_logp(), model.compile_dlogp()
    starts = np.cumsum(
        [0, *(model.initial_point()[v.name].size for v in model.value_vars)]
    )
    shapes = {v.name: model.initial_point()[v.name].shape for v in model.value_vars}
    for point, value, slope in zip(
        points, *density.log_density.value_and_gradient(points), strict=True
    ):
        parts = {
            name: point[a:b].reshape(shape)
            for (name, shape), a, b in zip(
                shapes.items(), starts[:-1], starts[1:], strict=True
            )
        }
        assert value == pytest.approx(float(own(parts)), abs=1e-9)
        assert_allclose(slope, gradient(parts), atol=1e-9)
    assert_allclose(density.constrain(points)["constant"], [[1.0, 2.0]] * 4)


@pytest.mark.slow
def test_a_simplex_by_its_conjugate_posterior():
    prior, counts = np.array([1.0, 2.0, 3.0]), np.array([12, 5, 30])
    with pymc.Model() as model:
        p = pymc.Dirichlet("p", prior)
        pymc.Multinomial("counts", n=counts.sum(), p=p, observed=counts)
    density = from_pymc(model)
    assert density.dim == 2
    result = boost_posterior(**density.arguments(random_state=0))
    a = prior + counts

    def log_beta(a):
        return gammaln(a).sum() - gammaln(a.sum())

    ways = gammaln(counts.sum() + 1) - gammaln(counts + 1).sum()
    log_evidence = ways + log_beta(a) - log_beta(prior)
    assert result.elbo == pytest.approx(log_evidence, abs=0.02)
    p = density.constrain(result.posterior.sample(20_000, random_state=0))["p"]
    mean = a / a.sum()
    sd = np.sqrt(mean * (1 - mean) / (a.sum() + 1))
    assert_allclose(p.sum(axis=1), 1.0)
    assert_allclose((p.mean(axis=0) - mean) / sd, 0.0, atol=0.05)
    assert_allclose(p.std(axis=0) / sd, 1.0, atol=0.05)


@pytest.mark.slow
def test_workers_load_the_compiled_model():
    with pymc.Model() as model:
        x = pymc.HalfNormal("x", 2.0, shape=2)
        pymc.Normal("y", x.sum(), 1.0, observed=1.5)
    density = from_pymc(model)
    settings = {"random_state": 0, "max_iter": 1, "search": GreedySearch(20)}
    alone, together = (
        boost_posterior(**density.arguments(n_jobs=n_jobs, **settings))
        for n_jobs in (1, 2)
    )
    assert alone.elbo == together.elbo
    assert alone.n_evaluations == together.n_evaluations


def test_models_that_no_mixture_fits_are_refused():
    with pymc.Model() as discrete:
        k = pymc.Poisson("k", 3.0)
        pymc.Normal("y", k, 1.0, observed=2.0)
    with pytest.raises(ValueError, match=r"continuous.*got discrete \['k'\].*Mixture"):
        from_pymc(discrete)
    with pymc.Model() as empty:
        pymc.Normal("y", 0.0, 1.0, observed=2.0)
    with pytest.raises(ValueError, match="free random variables; got none"):
        from_pymc(empty)
