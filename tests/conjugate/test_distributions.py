"""Dirichlet and Wishart factors against SciPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skboost.conjugate import COVARIANCES, Cone, GaussianMixtureModel, natural_step
from skboost.conjugate.gaussian_mixture import (
    DirichletWeights,
    JointStudentTs,
    SeparateStudentTs,
    Wishart,
)

from .conftest import ascended, blobs, close, make_model


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def random_rate(rng, p):
    root = rng.normal(size=(p, p))
    return root @ root.T + np.eye(p)


@pytest.mark.parametrize("p", [1, 4])
def test_wishart_agrees_with_scipy(rng, p):
    rates = np.stack([random_rate(rng, p) for _ in range(2)])
    dofs = np.array([p + 0.3, p + 5.0])
    ours = Wishart(dofs, rates)
    theirs = [
        stats.wishart(df, np.linalg.inv(r)) for df, r in zip(dofs, rates, strict=True)
    ]
    draws = ours.sample(5, rng)
    expected = [
        sum(float(np.squeeze(t.logpdf(d[k]))) for k, t in enumerate(theirs))
        for d in draws
    ]
    np.testing.assert_allclose(ours.log_density(draws), expected, rtol=1e-9)
    np.testing.assert_allclose(ours.entropy(), [t.entropy() for t in theirs], rtol=1e-9)
    np.testing.assert_allclose(
        ours.mean, np.reshape([t.mean() for t in theirs], ours.mean.shape)
    )


@pytest.mark.parametrize("p", [1, 3])
def test_wishart_draws_have_its_moments(rng, p):
    clusters = Wishart(np.array(p + 2.5), random_rate(rng, p))
    draws = clusters.sample(20_000, rng)
    assert close(draws, clusters.mean)
    assert close(np.linalg.slogdet(draws)[1], clusters.expected_log_det)


@pytest.mark.parametrize("joint", [True, False])
def test_draws_of_student_t_clusters_are_scipys(rng, joint):
    """In each coordinate; one cluster has Gaussian rows."""
    means, scales = rng.normal(size=(2, 2)), rng.uniform(0.5, 2.0, size=(2, 2))
    dof = np.array([2.5, np.inf])
    if joint:
        clusters = JointStudentTs(means, dof, np.array([np.diag(s) for s in scales]))
    else:
        clusters = SeparateStudentTs(means, np.repeat(dof[:, None], 2, 1), scales)
    draws = clusters.sample(np.repeat([0, 1], 5_000), rng).reshape(2, 5_000, 2)
    for k, i in np.ndindex(2, 2):
        exact = stats.t(dof[k], means[k, i], np.sqrt(scales[k, i]))
        assert stats.kstest(draws[k, :, i], exact.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("p", "excess", "spread"), [(1, 1e-3, 0), (2, 0.1, 6), (10, 1e-3, 3), (40, 1e-3, 6)]
)
def test_draws_that_are_nearly_singular_have_densities(rng, p, excess, spread):
    """An empty cluster has the prior's degrees of freedom, which can be that few."""
    turn = np.linalg.qr(rng.normal(size=(p, p)))[0]
    rate = (turn * 10.0 ** np.linspace(-spread, spread, p)) @ turn.T
    clusters = Wishart(np.array([p - 1.0 + excess]), ((rate + rate.T) / 2.0)[None])
    assert np.isfinite(clusters.log_density(clusters.sample(500, rng))).all()


def test_wishart_kl_is_the_expected_log_ratio(rng):
    one = Wishart(np.array([4.5]), random_rate(rng, 3)[None])
    two = Wishart(np.array([7.0]), random_rate(rng, 3)[None])
    draws = one.sample(20_000, rng)
    assert close(one.log_density(draws) - two.log_density(draws), one.kl(two))
    assert one.kl(one) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("alpha", [[0.5, 2.0, 3.0], [0.05, 0.05, 4.0]])
def test_dirichlet_agrees_with_scipy(rng, alpha):
    own, alpha = {"alpha": np.array(alpha)}, np.array(alpha)
    factor, theirs = DirichletWeights(np.full(3, 0.5)), stats.dirichlet(alpha)
    draws = factor.sample(own, 20_000, rng)
    pi, log_prior = draws["weights"], factor.log_density(factor.prior, draws)
    assert close(factor.log_density(own, draws) - log_prior, factor.kl(own))
    np.testing.assert_allclose(pi.sum(axis=1), 1.0)
    inside = np.flatnonzero(pi.min(axis=1) > 1e-10)[:20]
    np.testing.assert_allclose(
        factor.log_density(own, {"weights": pi[inside]}),
        [theirs.logpdf(row / row.sum()) for row in pi[inside]],
        rtol=1e-8,
    )
    assert factor.entropy(own) == pytest.approx(theirs.entropy())
    mean, covariance = factor.moments(own)["weights"]
    np.testing.assert_allclose(mean, theirs.mean())
    np.testing.assert_allclose(np.diag(covariance), theirs.var())
    np.testing.assert_allclose(covariance.sum(axis=1), 0.0, atol=1e-15, rtol=0)
    assert close(pi, theirs.mean())
    assert close(np.log(pi), factor.expected_log(own))


# --- steps in natural parameters: how far they go, and where noise has to end


class Counts:
    """Two positive numbers, each a group, whose optimum is one and a count."""

    name = "counts"

    def target(self, natural, statistics):
        return {"a": 1.0 + statistics}

    def cone(self, own):
        return Cone((own["a"],))


NATURAL = {"counts": {"a": np.array([2.0, 4.0])}}
SUMS = np.array([6.0, 1.0])


def test_a_step_goes_its_rate_of_the_way():
    done = natural_step((Counts(),), NATURAL, SUMS, 0.25)
    assert_allclose(done.natural["counts"]["a"], [0.75 * 2 + 0.25 * 7, 0.75 * 4 + 0.5])
    assert (done.n_groups, done.n_shrunk) == (0, 0)
    assert NATURAL["counts"]["a"].tolist() == [2.0, 4.0]


def test_noise_ends_one_hundredth_before_the_boundary():
    # From 7 towards -7, and from 2 to 5.
    noise = np.array([-14.0, 3.0])
    done = natural_step((Counts(),), NATURAL, SUMS, 1.0, noise)
    assert_allclose(done.natural["counts"]["a"], [0.01 * 7.0, 5.0])
    assert (done.n_groups, done.n_shrunk) == (2, 1)


# --- closed-form moments of the clusters' parameters against draws


def test_entropies_means_and_variances_are_those_of_draws(law_and_shape):
    # Rows enough that fourth moments of all parameters exist.
    X = blobs(n=120)
    model = make_model(*law_and_shape, X, n_components=2)
    natural, _ = ascended(model, model.rows(X), n_iter=30)
    draws = model.sample(natural, 8000, np.random.default_rng(1))
    log_q = model.log_density(natural, draws)
    assert close(-log_q, model.entropy(natural))
    assert close(log_q - model.log_prior(draws), model.kl(natural))
    shape = model.clusters.covariance
    inverse = np.linalg.inv(shape.matrices(draws["precisions"]))
    draws["covariances"] = shape.native(inverse)
    for name, (mean, spread) in model.moments(natural).items():
        values = draws[name]
        assert close(values, mean), name
        away = values - mean
        if name == "means":
            products = away[..., :, None] * away[..., None, :]
        elif name == "weights":
            products = away[:, :, None] * away[:, None, :]
        else:
            products = away**2
        assert products.shape[1:] == spread.shape
        assert close(products, spread), name


@pytest.mark.parametrize("shape", COVARIANCES)
def test_moments_that_do_not_exist_are_inf_or_nan(shape):
    rate = COVARIANCES[shape].of_matrix(np.eye(2))

    def moments(dof):
        prior = {"mean_precision": 1.0, "dof": dof, "rate": rate}
        model = GaussianMixtureModel(
            "normal-wishart", shape, np.ones(1), np.zeros(2), **prior
        )
        return model.moments(model.prior)

    # Degrees of freedom of the means' Student-t distribution: 1 less, or per feature.
    least = {"full": 1.0, "tied": 1.0, "diag": 0.0, "spherical": -0.5}[shape]
    low, middle, high = (moments(least + extra) for extra in (0.9, 1.8, 8.0))
    assert np.isfinite(middle["means"][0]).all()
    if shape != "spherical":
        assert np.isnan(low["means"][0]).all()
        variances = np.diagonal(middle["means"][1], axis1=1, axis2=2)
        assert np.isinf(variances).all()
        assert not np.isfinite(middle["covariances"][0]).any()
    if shape in ("full", "tied"):
        assert np.isnan(middle["covariances"][0][..., 0, 1]).all()
    assert all(np.isfinite(value).all() for pair in high.values() for value in pair)
