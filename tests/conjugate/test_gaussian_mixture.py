"""The conjugate mixture against closed forms, quadrature and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp
from sklearn.mixture import BayesianGaussianMixture

from skboost.conjugate import (
    COVARIANCES,
    Cone,
    GaussianMixtureModel,
    combine,
    largest_step,
)
from skboost.conjugate.gaussian_mixture import log_densities_at_draws

from .conftest import EVERY, ascended, blobs, close, log_joint, make_model

# --- one cluster


@pytest.mark.parametrize(
    ("clusters", "shape", "reg_covar", "missing"),
    [
        *(("known", shape, 0.0, False) for shape in COVARIANCES),
        *(("normal-wishart", shape, 0.4, False) for shape in COVARIANCES),
        ("normal-wishart", "full", 0.0, False),
        ("normal-wishart", "diag", 0.4, True),
        ("normal-wishart", "diag", 0.0, True),
    ],
)
def test_with_one_cluster_the_posterior_is_exact(clusters, shape, reg_covar, missing):
    X, weight = blobs(n=12), np.linspace(0.2, 2.0, 12)
    model = make_model(clusters, shape, X, 1, 0.7, reg_covar=reg_covar)
    if missing:
        X[np.random.default_rng(2).random(X.shape) < 0.3] = np.nan
    rows = model.rows(X)
    natural, path = ascended(model, rows, weight, n_iter=3)
    draws = model.sample(natural, 50, np.random.default_rng(0))
    # Exact means: the log joint minus ln q is the log evidence, wherever one looks.
    evidence = log_joint(model, draws, rows, weight) - model.log_density(natural, draws)
    np.testing.assert_allclose(evidence, path[-1], rtol=1e-9)


def test_evidence_of_one_cluster_by_quadrature():
    X = np.array([[0.3], [1.1], [-0.4], [2.0]])
    model = make_model("normal-wishart", "full", X, n_components=1)
    _, path = ascended(model, model.rows(X), n_iter=2)
    center, rate, dof, beta = model.center[0], float(np.cov(X.T)), 2.5, 0.7

    precision = np.exp(np.linspace(-12.0, 5.0, 401))[:, None]
    mu = center + np.linspace(-40.0, 40.0, 4001)
    joint = stats.gamma(dof / 2, scale=2 / rate).logpdf(precision) + np.log(precision)
    joint = joint + stats.norm(center, 1 / np.sqrt(beta * precision)).logpdf(mu)
    for x in X[:, 0]:
        joint += 0.5 * np.log(precision / (2 * np.pi)) - precision * (x - mu) ** 2 / 2
    cell = np.log((mu[1] - mu[0]) * 17.0 / 400)
    assert path[-1] == pytest.approx(logsumexp(joint) + cell, abs=1e-5)


# --- coordinate ascent


@given(
    st.sampled_from(["dirichlet", "stick-breaking"]),
    st.sampled_from(EVERY),
    st.integers(0, 10_000),
    st.sampled_from([1.0, 0.3]),
    st.integers(1, 5),
    st.floats(0.01, 100.0),
    st.sampled_from([0.0, 0.7]),
    st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_the_bound_never_falls(
    weights, law_and_shape, seed, temperature, n_components, scale, reg_covar, gaps
):
    X = blobs(seed, n=25, dim=3) * scale
    kind = {"weights": weights, "reg_covar": reg_covar * scale**2}
    model = make_model(*law_and_shape, X, n_components, temperature, **kind)
    if gaps and law_and_shape[1] in ("diag", "full"):
        X[np.random.default_rng(seed).random(X.shape) < 0.3] = np.nan
    weight = np.random.default_rng(seed).random(25)
    _, path = ascended(model, model.rows(X), weight, n_iter=15, seed=seed)
    assert np.all(np.diff(path) >= -1e-9 * np.abs(path[1:]))


@pytest.mark.parametrize("shape", ["tied", "diag"])
def test_sums_do_not_depend_on_the_blocks(shape, monkeypatch):
    X = blobs()
    model = make_model("normal-wishart", shape, X)
    _, path = ascended(model, model.rows(X))
    monkeypatch.setattr(model, "_blocks", lambda rows: [slice(0, 7), slice(7, 40)])
    _, blocked = ascended(model, model.rows(X))
    np.testing.assert_allclose(blocked, path, rtol=1e-12)


def test_permuted_clusters_are_the_same_posterior(law_and_shape):
    X = blobs()
    model = make_model(*law_and_shape, X)
    natural, _ = ascended(model, model.rows(X))
    order = np.array([2, 0, 1])
    moved = model.permuted(natural, order)
    np.testing.assert_allclose(model.means(moved), model.means(natural)[order])
    assert model.entropy(moved) == pytest.approx(model.entropy(natural))
    before, after = (
        model.predictive(own).log_density(model.rows(X)) for own in (natural, moved)
    )
    np.testing.assert_allclose(after, before[:, order])


# --- against scikit-learn


def test_full_coordinate_ascent_is_scikit_learns():
    X = blobs(n=120, dim=3)
    resp = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    theirs = BayesianGaussianMixture(
        n_components=3, weight_concentration_prior=0.4, mean_precision_prior=0.6,
        weight_concentration_prior_type="dirichlet_distribution",
        degrees_of_freedom_prior=4.5, reg_covar=0.0,
    )  # fmt: skip
    theirs._check_parameters(X)
    theirs._initialize(X, resp)
    prior = {"mean_precision": 0.6, "dof": 4.5, "rate": np.cov(X.T)}
    alpha = np.full(3, 0.4)
    ours = GaussianMixtureModel(
        "normal-wishart", "full", alpha, X.mean(axis=0), **prior
    )
    rows = ours.rows(X)
    natural, dropped = ours.start(rows, resp), []
    for _ in range(25):
        log_norm, log_resp = theirs._e_step(X)
        found = ours.responsibilities(natural, rows)
        np.testing.assert_allclose(found, np.exp(log_resp), atol=1e-9, rtol=0)
        theirs._m_step(X, log_resp)
        statistics = ours.statistics(rows, found, ours.clusters.gaussians(natural))
        natural = ours.updated(natural, statistics)
        # Their bound is of the old assignments and the new parameters.
        expected = (found * ours.joint(natural, rows)).sum() - ours.kl(natural)
        bound = expected - (found * log_resp).sum()
        dropped.append(theirs._compute_lower_bound(log_resp, log_norm) - bound)
    # Their constants are others: ours are those of the evidence, as tested above.
    np.testing.assert_allclose(dropped, dropped[0], rtol=1e-9)
    np.testing.assert_allclose(ours.covariances(natural), theirs.covariances_)


# --- prediction


def predictive(model, natural, values):
    """Posterior predictive density of rows, (n_rows,)."""
    return np.exp(model.predictive(natural).log_density(model.rows(values))).sum(axis=1)


@pytest.mark.parametrize("shape", COVARIANCES)
@pytest.mark.parametrize("clusters", ["normal-wishart", "independent", "known"])
def test_predictive_density_integrates_to_one_and_averages_over_draws(clusters, shape):
    X = blobs(n=15, dim=1)
    model = make_model(clusters, shape, X, n_components=2)
    natural, _ = ascended(model, model.rows(X))

    grid = np.linspace(-20.0, 20.0, 8001)
    density = predictive(model, natural, np.sinh(grid)[:, None])
    total = (density * np.cosh(grid)).sum() * (grid[1] - grid[0])
    assert total == pytest.approx(1.0, abs=1e-6)
    if clusters == "independent":
        return  # an approximation, tested by its moments below
    draws = model.sample(natural, 2000, np.random.default_rng(0))
    at = log_joint(model, draws, model.rows([[0.5]]))
    values = np.exp(at - model.log_prior(draws))
    assert close(values, predictive(model, natural, [[0.5]]))


@pytest.mark.parametrize("shape", COVARIANCES)
def test_the_independent_predictive_has_the_right_covariance(shape):
    X = blobs(n=30)
    model = make_model("independent", shape, X, n_components=1)
    natural, _ = ascended(model, model.rows(X))
    student = model.clusters.predictive(natural)
    excess = np.reshape(student.dof / (student.dof - 2), (-1,))
    scale = student.scales[0]
    found = excess * scale if scale.ndim == 2 else np.diag(excess * scale)
    # Of a row about its mean, and of the mean: these are tested by draws.
    moments = model.clusters.moments(natural)
    inner = COVARIANCES[shape].whole_matrices(moments["covariances"][0], 2)
    expected = inner + moments["means"][1][0]
    np.testing.assert_allclose(found, expected.reshape(2, 2))


@pytest.mark.parametrize("shape", ["full", "diag"])
@pytest.mark.parametrize("clusters", ["normal-wishart", "known"])
def test_missing_entries_are_integrated_out_of_the_predictive(clusters, shape):
    X = blobs()
    model = make_model(clusters, shape, X)
    natural, _ = ascended(model, model.rows(X))

    # Tails like t: a grid that is even in arcsinh.
    grid = np.linspace(-12.0, 12.0, 4001)
    points = np.stack([np.ones_like(grid), np.sinh(grid)], axis=1)
    density = predictive(model, natural, points)
    total = (density * np.cosh(grid)).sum() * (grid[1] - grid[0])
    (partial,) = predictive(model, natural, [[1.0, np.nan]])
    assert partial == pytest.approx(total, rel=1e-6)


def test_missing_entries_are_integrated_out_of_the_local_step():
    X = blobs()
    model = make_model("normal-wishart", "full", X)
    natural, _ = ascended(model, model.rows(X))

    def expected(y, k):
        return np.exp(model.joint(natural, model.rows([[1.0, y]]))[0, k])

    total = [quad(expected, -np.inf, np.inf, args=(k,))[0] for k in range(3)]
    partial = model.joint(natural, model.rows([[1.0, np.nan]]))[0]
    np.testing.assert_allclose(np.exp(partial), total, rtol=1e-6)


def test_filled_in_moments_are_the_conditional_ones():
    X = blobs()
    model = make_model("normal-wishart", "full", X, n_components=1)
    natural, _ = ascended(model, model.rows(X))
    gaussians = model.clusters.gaussians(natural)
    rows = model.rows([[1.0, np.nan]])
    found = model.statistics(rows, np.ones((1, 1)), gaussians)
    # The same by quadrature over what is missing.
    grid = np.linspace(-60, 60, 40_001)
    points = np.stack([np.full_like(grid, 1.0), grid], axis=1)
    density = np.exp(gaussians.log_density(model.rows(points))[:, 0])
    density /= density.sum()
    values = points - model.center
    np.testing.assert_allclose(found["first"][0], density @ values, rtol=1e-6)
    second = (values * density[:, None]).T @ values
    np.testing.assert_allclose(found["second"][0], second, rtol=1e-6)


@pytest.mark.parametrize("shape", ["tied", "spherical"])
def test_shapes_that_cannot_integrate_refuse_missing_entries(shape):
    X = blobs()
    model = make_model("normal-wishart", shape, X)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match=rf"\['full', 'diag'\]; got .*{shape}"):
        model.rows(X)


# --- the domain of the natural parameters


def test_walks_end_at_the_boundary(law_and_shape):
    X = blobs()
    model = make_model(*law_and_shape, X)
    rows = model.rows(X)
    natural, _ = ascended(model, rows)
    rng = np.random.default_rng(0)
    mean, noise = model.expect(
        natural, rows, np.ones(len(X)), rng.normal(size=len(X)) * 6.0
    ).statistics
    for factor in model.factors:
        start = factor.target(natural, mean)
        end = factor.target(natural, combine(1.0, mean, 1.0, noise))
        far = combine(-2.0, start, 3.0, end)
        step = largest_step(factor.cone(start), factor.cone(far))
        assert np.all(step > 0)
        for fraction, inside in ((0.999, True), (1.001, False)):
            # Each group walks on its own: look at the one that stops first.
            first = np.unravel_index(np.argmin(step), step.shape)
            there = {
                key: start[key] + fraction * step[first] * (far[key] - start[key])
                for key in start
            }
            cone = factor.cone(there)
            good = all(np.asarray(s)[first] > 0 for s in cone.scalars)
            if cone.matrices is not None:
                good &= np.linalg.eigvalsh(cone.matrices[first])[0] > 0
            assert good == inside or np.isinf(step[first])


@pytest.mark.parametrize("shape", COVARIANCES)
def test_cones_are_the_domains(shape):
    # A Normal-Wishart is proper exactly where its rate is positive definite.
    X = blobs()
    model = make_model("normal-wishart", shape, X)
    natural, _ = ascended(model, model.rows(X))
    factor, own, covariance = model.clusters, natural["clusters"], COVARIANCES[shape]
    rate = covariance.matrices(factor._rate(own))
    outside = np.linalg.eigvalsh(rate)[..., 0].max() * 1.01 * np.eye(rate.shape[-1])
    second = covariance.native(covariance.matrices(own["second"]) - outside)
    cone = factor.cone(own | {"second": second})
    assert np.linalg.eigvalsh(cone.matrices)[..., 0].max() < 0


def test_a_step_of_a_subnormal_number_meets_no_boundary():
    start = np.eye(2)
    end = start + 1e-310 * (1.0 - start)
    assert largest_step(Cone((np.ones(()),), start), Cone((np.ones(()),), end)) > 1.0


def test_gaps_do_not_ask_for_the_inverse_of_a_nearly_singular_precision():
    rng = np.random.default_rng(0)
    model = make_model("normal-wishart", "full", blobs(n=9, dim=3))
    rows = model.rows([[0.3, -0.2, np.nan], [0.3, -0.2, 0.5]])
    for _ in range(50):
        # One direction is a hundred thousand times as wide as the others.
        root = np.linalg.qr(rng.normal(size=(3, 3)))[0] * [1.0, 1.0, 1e-5]
        found = log_densities_at_draws(
            np.zeros((1, 1, 3)), (root @ root.T)[None, None], rows
        )
        upper = np.linalg.qr(root[[2, 0, 1]].T, mode="r")
        for row, n_missing in enumerate((1, 0)):
            # Rows are relative to the centre of the prior.
            own, x = upper[n_missing:, n_missing:], rows.values[row, [2, 0, 1]]
            x = x[n_missing:]
            exact = np.log(np.abs(np.diag(own))).sum() - 0.5 * np.sum((own @ x) ** 2)
            exact -= 0.5 * len(x) * np.log(2 * np.pi)
            np.testing.assert_allclose(found[row, 0, 0], exact, atol=1e-3)
