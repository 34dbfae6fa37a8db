"""Models of PyMC, against integration and conjugate posteriors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

from skboost import boost_posterior
from skboost.adapters import from_pymc

pymc = pytest.importorskip("pymc")

POINTS = np.random.default_rng(0).standard_normal((5, 10))


@pytest.fixture(scope="module")
def density(schools):
    with pymc.Model() as model:
        mu = pymc.Normal("mu", 0, 5)
        tau = pymc.HalfCauchy("tau", 5)
        z = pymc.Normal("z", 0, 1, shape=8)
        theta = pymc.Deterministic("theta", mu + tau * z)
        pymc.Normal("y", theta, schools.sigma, observed=schools.y)
    return from_pymc(model)


@pytest.fixture(scope="module")
def result(density):
    return boost_posterior(**density.arguments(random_state=0))


def test_coordinates_are_the_value_variables(density):
    assert density.names == ("mu", "tau_log__", *(f"z[{i}]" for i in range(8)))
    assert density.dim == 10
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
    settings = {"random_state": 0, "max_iter": 1, "n_draws": 20}
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
