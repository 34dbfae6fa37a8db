"""Models with known answers, to be written in the language of each library."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import logsumexp
from scipy.stats import halfcauchy, norm


@pytest.fixture(scope="session")
def schools():
    """Eight schools (Rubin 1981), and its posterior by integration.

    ``mu ~ N(0, 5)``, ``tau ~ HalfCauchy(5)``, effects ``N(mu, tau)``. Effects are
    normal given the other two, over which a grid is laid.
    """
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mu = np.linspace(-25.0, 35.0, 301)[:, None, None]
    log_tau = np.linspace(-12.0, 7.0, 476)[None, :, None]
    tau = np.exp(log_tau)
    log_p = norm.logpdf(y, mu, np.hypot(tau, sigma)).sum(axis=-1)
    log_p += norm.logpdf(mu, 0, 5)[..., 0]
    log_p += (halfcauchy.logpdf(tau, scale=5) + log_tau)[..., 0]
    step = np.log(mu[1, 0, 0] - mu[0, 0, 0]) + np.log(
        log_tau[0, 1, 0] - log_tau[0, 0, 0]
    )
    log_evidence = logsumexp(log_p) + step
    weight = np.exp(log_p - logsumexp(log_p))[..., None]

    def moments(centre, variance=0.0):
        mean = (weight * centre).sum(axis=(0, 1))
        return mean, np.sqrt((weight * (variance + (centre - mean) ** 2)).sum((0, 1)))

    shrunk = 1 / (1 / sigma**2 + 1 / tau**2)
    truth = {
        "mu": moments(mu),
        "log_tau": moments(log_tau),
        "theta": moments(shrunk * (y / sigma**2 + mu / tau**2), shrunk),
    }
    return SimpleNamespace(y=y, sigma=sigma, log_evidence=log_evidence, truth=truth)


@pytest.fixture(scope="session")
def check_schools(schools):
    """Asserts that draws {name: (n, ...)} have the moments of eight schools."""

    def check(draws):
        found = {**draws, "log_tau": np.log(draws["tau"])}
        for name, (mean, sd) in schools.truth.items():
            error = (found[name].mean(axis=0) - mean) / sd
            np.testing.assert_allclose(error, 0.0, atol=0.05, err_msg=name)
            ratio = found[name].std(axis=0) / sd
            np.testing.assert_allclose(ratio, 1.0, atol=0.1, err_msg=name)

    return check


@pytest.fixture(scope="session")
def schools_log_density(schools):
    """Non-centred, of (mu, log tau, z_1 .. z_8), written with SciPy; rows to (n,)."""

    def log_density(theta):
        mu, log_tau, z = theta[:, :1], theta[:, 1:2], theta[:, 2:]
        tau = np.exp(log_tau)
        value = norm.logpdf(schools.y, mu + tau * z, schools.sigma).sum(axis=1)
        value += norm.logpdf(z).sum(axis=1) + norm.logpdf(mu, 0, 5)[:, 0]
        return value + (halfcauchy.logpdf(tau, scale=5) + log_tau)[:, 0]

    return log_density


@pytest.fixture(scope="session")
def check_gradient():
    """Asserts that a density's gradient is that of its value, at every point."""

    def check(density, points):
        for row in points:
            error = check_grad(density.log_density, density.gradient, row)
            assert error < 1e-5 * (1 + np.linalg.norm(density.gradient(row)))
            value, gradient = density.log_density.value_and_gradient(row)
            assert value == pytest.approx(density.log_density(row), rel=1e-12)
            np.testing.assert_array_equal(gradient, density.gradient(row))

    return check
