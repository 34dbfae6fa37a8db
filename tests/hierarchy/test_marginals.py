"""Group effects integrated out, against brute force."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, gammaln
from scipy.stats import multivariate_normal, nbinom, norm

from skboost.hierarchy import (
    Factor,
    GroupedRows,
    HierarchicalTarget,
    NormalMarginal,
    QuadratureMarginal,
)
from skboost.hierarchy._target import UngroupedMarginal
from skboost.targets import (
    HalfNormalPrior,
    HalfTPrior,
    Logistic,
    NegativeBinomial,
    NormalPrior,
    Poisson,
)

from .conftest import (
    assert_score_is_the_slope,
    counts,
    differences,
    grouped,
    normal,
    points,
    split,
    zeros_and_ones,
)

N_GROUPS, N_COLUMNS = 5, 2


def in_one_factor(n_effects, response):
    """Rows in five groups, or in none."""
    design = ((N_GROUPS, n_effects),) if n_effects else ()
    return grouped(design, response, n=40, offset=False)


@pytest.mark.parametrize("n_effects", [0, 1, 2])
def test_normal_marginal_is_the_density_of_all_responses(n_effects):
    rows = in_one_factor(n_effects, normal)
    theta = points(rows, 1)
    marginal = NormalMarginal(rows)
    found, _ = marginal.value_and_score(*split(theta, rows, True))
    # A weight of two is a row that stands twice.
    repeated = np.repeat(np.arange(len(rows.y)), rows.weight.astype(int))
    for one, value in zip(theta, found, strict=True):
        covariance = np.exp(2.0 * one[-1]) * np.eye(len(repeated))
        for factor in rows.factors:
            codes, columns = factor.codes[repeated], factor.columns[repeated]
            variances = np.exp(2.0 * one[N_COLUMNS:-1])
            covariance += ((columns * variances) @ columns.T) * (
                codes[:, None] == codes
            )
        exact = multivariate_normal(rows.X[repeated] @ one[:N_COLUMNS], covariance)
        assert value == pytest.approx(exact.logpdf(rows.y[repeated]), abs=1e-9)
    assert_score_is_the_slope(marginal, theta, rows, True, 1e-6)


@pytest.mark.parametrize(("n_groups", "cheap"), [(12, True), (200, False)])
def test_few_groups_with_slopes_need_no_surrogate(n_groups, cheap):
    """Twelve groups with a slope each took 40 seconds on one, and 1.5 without."""
    rows = grouped(((n_groups, 2),), normal, n=600, offset=False)
    assert NormalMarginal(rows).cheap is cheap


@pytest.mark.parametrize(
    ("likelihood", "response"), [(Logistic(), zeros_and_ones), (Poisson(), counts)]
)
def test_quadrature_is_the_integral_over_every_group(likelihood, response):
    rows = in_one_factor(1, response)
    theta = points(rows)
    found, _ = QuadratureMarginal(rows, likelihood).value_and_score(*split(theta, rows))
    (factor,) = rows.factors

    def log_likelihood(eta, y):
        if isinstance(likelihood, Logistic):
            return y * eta - np.logaddexp(0.0, eta)
        return y * eta - np.exp(eta) - gammaln(y + 1.0)

    def integrand(v, group, one):
        held = factor.codes == group
        eta = rows.X[held] @ one[:N_COLUMNS] + np.exp(one[N_COLUMNS]) * v
        total = rows.weight[held] @ log_likelihood(eta, rows.y[held])
        return np.exp(total - 0.5 * v**2) / np.sqrt(2.0 * np.pi)

    for one, value in zip(theta, found, strict=True):
        parts = [
            quad(integrand, -9.0, 9.0, (group, one), epsabs=0.0, epsrel=1e-9)[0]
            for group in range(N_GROUPS)
        ]
        assert value == pytest.approx(np.log(parts).sum(), abs=1e-5)


@pytest.mark.parametrize("n_rows", [1, 3])
@pytest.mark.parametrize("scale", [3.0, 10.0, 30.0, 100.0])
def test_quadrature_of_groups_whose_responses_are_equal(n_rows, scale):
    """At large scales they are steps times Gaussians: errors would look like modes."""
    codes = np.repeat([0, 1], n_rows)
    factor = Factor(codes, 2, np.ones((2 * n_rows, 1)))
    rows = GroupedRows(factor.columns, codes * 1.0, np.ones(len(codes)), (factor,))
    found, _ = QuadratureMarginal(rows, Logistic()).value_and_score(
        np.array([[0.3]]), np.log([[scale]])
    )

    def integrand(v, sign):
        return expit(sign * (0.3 + scale * v)) ** n_rows * norm.pdf(v)

    kinks = [-0.3 / scale - 9.0 / scale, -0.3 / scale, -0.3 / scale + 9.0 / scale]
    parts = [quad(integrand, -9, 9, (sign,), points=kinks)[0] for sign in (-1, 1)]
    assert found[0] == pytest.approx(np.log(parts).sum(), abs=4e-3)


@pytest.mark.parametrize("n_effects", [1, 2])
@pytest.mark.parametrize(
    ("likelihood", "response"), [(Logistic(), zeros_and_ones), (Poisson(), counts)]
)
def test_gradients_of_quadrature_are_those_of_the_integral(
    likelihood, response, n_effects
):
    rows = in_one_factor(n_effects, response)
    marginal = QuadratureMarginal(rows, likelihood, n_nodes=13)
    assert_score_is_the_slope(marginal, points(rows), rows, False, 2e-5)


@pytest.mark.parametrize("level", [-30.0, -9.0, -1.0, 1.5])
def test_quadrature_integrates_counts_with_a_dispersion(level):
    rows = in_one_factor(1, counts)
    theta = np.append(points(rows)[0], level)[None]
    alpha = np.exp(level)
    found = [
        QuadratureMarginal(rows, NegativeBinomial(), n_nodes).value_and_score(
            *split(theta, rows, True)
        )[0][0]
        for n_nodes in (5, 10)
    ]
    (factor,) = rows.factors

    def integrand(v, group):
        held = factor.codes == group
        eta = rows.X[held] @ theta[0, :2] + np.exp(theta[0, 2]) * v
        if level < -20.0:
            # Beyond what SciPy resolves these are Poisson counts.
            y = rows.y[held]
            log = y * eta - np.exp(eta) - gammaln(y + 1.0)
        else:
            log = nbinom.logpmf(rows.y[held], 1 / alpha, 1 / (1 + alpha * np.exp(eta)))
        return np.exp(rows.weight[held] @ log - 0.5 * v**2) / np.sqrt(2.0 * np.pi)

    parts = [
        quad(integrand, -9.0, 9.0, (group,), epsabs=0.0, epsrel=1e-9)[0]
        for group in range(N_GROUPS)
    ]
    # Five groups whose responses vary a lot, with ten nodes each and with more.
    assert found[0] == pytest.approx(np.log(parts).sum(), abs=5e-5)
    assert found[1] == pytest.approx(np.log(parts).sum(), abs=1e-6)


@pytest.mark.parametrize("n_effects", [0, 1, 2])
def test_gradients_with_a_dispersion_are_those_of_the_integral(n_effects):
    rows = in_one_factor(n_effects, counts)
    if n_effects:
        marginal = QuadratureMarginal(rows, NegativeBinomial(), n_nodes=13)
    else:
        marginal = UngroupedMarginal(rows, NegativeBinomial())
    assert_score_is_the_slope(marginal, points(rows, 1), rows, True, 2e-5)


@pytest.mark.parametrize("n_effects", [1, 2])
def test_effects_of_a_normal_model_are_drawn_from_their_gaussian(n_effects):
    rows = in_one_factor(n_effects, normal)
    theta = np.repeat(points(rows, 1)[:1], 4000, axis=0)
    (factor,) = rows.factors
    normals = np.random.default_rng(3).normal(size=(n_effects, 4000, N_GROUPS))
    (draws,) = NormalMarginal(rows).effects((normals,), *split(theta, rows, True))
    one = theta[0]
    for group in range(N_GROUPS):
        held = factor.codes == group
        Z, weight = factor.columns[held], rows.weight[held]
        residual = rows.y[held] - rows.X[held] @ one[:N_COLUMNS]
        precision = (Z.T * weight) @ Z / np.exp(2.0 * one[-1])
        precision += np.diag(np.exp(-2.0 * one[N_COLUMNS:-1]))
        covariance = np.linalg.inv(precision)
        mean = covariance @ (Z.T @ (weight * residual)) / np.exp(2.0 * one[-1])
        found = draws[..., group].swapaxes(0, 1).reshape(n_effects, -1)
        np.testing.assert_allclose(found.mean(axis=1), mean, atol=1e-10)
        # Four standard errors of 8,000 draws that come in pairs.
        np.testing.assert_allclose(
            np.cov(found).reshape(n_effects, n_effects), covariance,
            atol=4.0 * np.sqrt(2.0 / 4000) * covariance.max(),
        )  # fmt: skip


def test_effects_of_counts_have_the_skewness_of_their_density():
    rows = in_one_factor(1, counts)
    theta = np.repeat(points(rows)[:1], 20_000, axis=0)
    (factor,) = rows.factors
    normals = np.random.default_rng(3).normal(size=(1, 20_000, N_GROUPS))
    (draws,) = QuadratureMarginal(rows, Poisson()).effects(
        (normals,), *split(theta, rows)
    )
    scale, grid = np.exp(theta[0, N_COLUMNS]), np.linspace(-9.0, 9.0, 4001)
    for group in range(N_GROUPS):
        held = factor.codes == group
        eta = rows.X[held] @ theta[0, :N_COLUMNS] + scale * grid[:, None]
        log_density = (rows.y[held] * eta - np.exp(eta)) @ rows.weight[held]
        density = np.exp(log_density - 0.5 * grid**2 - log_density.max())
        density /= density.sum()
        levels = np.interp([0.05, 0.5, 0.95], density.cumsum(), scale * grid)
        found = np.quantile(draws[..., group], [0.05, 0.5, 0.95])
        width = levels[2] - levels[0]
        np.testing.assert_allclose(found, levels, atol=0.02 * width)


@pytest.mark.parametrize("prior", [HalfNormalPrior(0.7), HalfTPrior(4.0, 0.7)])
def test_priors_of_scales_are_densities_of_logarithms(prior):
    grid = np.linspace(-40.0, 12.0, 60_001)
    value, _ = prior.value_and_score(grid)
    assert np.trapezoid(np.exp(value), grid) == pytest.approx(1.0, abs=1e-6)
    middle = np.linspace(-3.0, 2.0, 50)
    above, below = (prior.value_and_score(middle + s)[0] for s in (1e-5, -1e-5))
    score = prior.value_and_score(middle)[1]
    np.testing.assert_allclose(score, (above - below) / 2e-5, atol=1e-5)


@pytest.mark.parametrize("prior", [HalfNormalPrior(-1.0), HalfTPrior(0.0)])
def test_priors_of_scales_refuse_parameters_that_mean_nothing(prior):
    with pytest.raises(ValueError, match="must be a positive finite number; got"):
        prior.checked()


def test_the_target_adds_priors_to_the_marginal():
    rows = in_one_factor(2, normal)
    target = HierarchicalTarget(
        NormalMarginal(rows),
        NormalPrior(),
        np.array([1.0, 3.0]),
        [HalfTPrior(3.0, 0.5), HalfNormalPrior(2.0)],
        [0.3, 2.0],
        HalfTPrior(),
    )
    theta = points(rows, 1)
    value, score = target.value_and_score(theta)
    expected = target.marginal.value_and_score(*target.split(theta))[0]
    expected = expected + NormalPrior().log_density(theta[:, :2], np.array([1.0, 3.0]))
    for k, (prior, transform) in enumerate(
        zip(target.level_priors, target.transforms, strict=True)
    ):
        # Densities of the coordinates: of a logarithm, times its derivative.
        z = theta[:, 2 + k]
        slope = (transform.forward(z + 1e-6) - transform.forward(z - 1e-6)) / 2e-6
        level = np.log(transform.forward(z))
        expected = expected + prior.value_and_score(level)[0]
        expected = expected + np.log(slope / transform.forward(z))
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(
        score, differences(lambda t: target.value_and_score(t)[0], theta), atol=1e-6
    )
