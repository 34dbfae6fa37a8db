"""Closed forms at all scales around a quadratic, and when one is used."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.base import clone

from skboost import BoostedBayesianLogisticRegression, RowBlocks
from skboost._row_blocks import BlockTables
from skboost.families import FullGaussian
from skboost.proposals._quadratic import (
    Quadratic,
    may_be_quadratic,
    quadratic_nodes,
)
from skboost.targets import (
    CommonScale,
    CumulativeLogits,
    GLMTarget,
    HalfTPrior,
    Logistic,
    Multinomial,
    NormalPrior,
    OrdinalTarget,
    Poisson,
    PrincipalScale,
    ScaleNode,
    StudentTPrior,
    Table,
)


def rows_of(n, dim, seed=0, shift=0.0, spread=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dim)) @ (np.eye(dim) + 0.3)
    eta = spread * X @ rng.normal(size=dim) / np.sqrt(dim) + shift
    return X, (rng.uniform(size=n) < expit(eta)).astype(float)


def target_of(rows, likelihood=None, principal=True, temperature=1.0, intercept=True):
    n = rows.n_features
    factor, shared = HalfTPrior(scale=1.5), np.arange(n + intercept) < n
    scale = np.append(np.linspace(0.5, 1.5, n), 10.0)[: n + intercept]
    covariance = np.eye(n) + 0.5
    prior = (
        PrincipalScale(shared, covariance, factor)
        if principal
        else CommonScale(NormalPrior(), shared, n, factor)
    )
    return GLMTarget(
        rows, likelihood or Logistic(), prior=prior, scale=scale,
        fit_intercept=intercept, temperature=temperature,
    )  # fmt: skip


def test_coordinates_without_the_scale_stand_anywhere():
    rng = np.random.default_rng(0)
    root, slope = rng.normal(size=(5, 5)), rng.normal(size=5)
    shared = np.array([False, True, True, False, True])
    prior = CommonScale(NormalPrior(), shared, 3, HalfTPrior(scale=1.5))
    scale = np.linspace(0.5, 3.0, 5)
    quadratic = Quadratic(np.zeros(5), -3.0, slope, root @ root.T)
    (found,) = quadratic.under(prior, scale)
    means, covariances = found.gaussians(np.array([0.7]))
    precision = np.diag((scale * np.where(shared, np.exp(0.7), 1.0)) ** -2)
    inverse = np.linalg.inv(quadratic.bend + precision)
    np.testing.assert_allclose(means[0], inverse @ slope)
    np.testing.assert_allclose(covariances[0], inverse, atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_closed_forms_at_all_scales_are_those_of_each_scale(kind, intercept):
    rng = np.random.default_rng(kind)
    X, y = rows_of(20, 3)
    target = target_of(Table(X, y), intercept=intercept)
    dim, prior = target.dim, target.prior
    root = rng.normal(size=(dim, dim))
    quadratic = Quadratic(np.zeros(dim), -3.0, rng.normal(size=dim), root @ root.T)
    found = quadratic.under(prior, target.scale)[kind]
    for log_s in (-1.0, 0.7):
        if kind:
            node = ScaleNode(log_s, kind)
            covariance = prior.covariance_given(target.scale, node)
        else:
            grown = np.where(np.resize(prior.shared, dim), np.exp(log_s), 1.0)
            covariance = np.diag((target.scale * grown) ** 2)
        precision = np.linalg.inv(covariance)
        inverse = np.linalg.inv(quadratic.bend + precision)
        mean = inverse @ quadratic.slope
        # ln Z by Bayes' theorem at the mean.
        log_z = quadratic.value + mean @ quadratic.slope
        log_z -= 0.5 * mean @ quadratic.bend @ mean
        log_z += multivariate_normal(np.zeros(dim), covariance).logpdf(mean)
        log_z -= multivariate_normal(mean, inverse).logpdf(mean)
        (found_mean,), (found_covariance,) = found.gaussians(np.array([log_s]))
        np.testing.assert_allclose(found.log_evidence(np.array([log_s])), log_z)
        np.testing.assert_allclose(found_mean, mean, rtol=1e-9)
        np.testing.assert_allclose(found_covariance, inverse, rtol=1e-9, atol=1e-12)


def moments(nodes):
    """Mean and standard deviations over all nodes, and the log evidence."""
    share = np.array([one.log_evidence for one in nodes])
    log_evidence = np.logaddexp.reduce(share)
    share = np.exp(share - log_evidence)
    weights = np.concatenate(
        [s * one.weights for s, one in zip(share, nodes, strict=True)]
    )
    means = np.concatenate([one.gaussians.means for one in nodes])
    covariances = np.concatenate([one.gaussians.covariances for one in nodes])
    mean = weights @ means
    second = np.einsum("k,kii->i", weights, covariances) + weights @ means**2
    return mean, np.sqrt(second - mean**2), log_evidence


def by_importance(target, mean, sd, n=8_000):
    """The same by draws of a wider Gaussian, with standard errors of the means."""
    quadratic = target.expansion(mean)
    covariance = 1.2 * np.linalg.inv(quadratic[2] + np.diag(1e-3 / sd**2))
    proposal = multivariate_normal(mean, covariance)
    theta = proposal.rvs(n, random_state=0)
    log_w = target.log_density(theta) - proposal.logpdf(theta)
    w = np.exp(log_w - log_w.max())
    log_evidence = np.log(w.mean()) + log_w.max()
    w /= w.sum()
    at = w @ theta
    return at, np.sqrt(w @ (theta - at) ** 2), log_evidence, 1.0 / np.sum(w**2)


@pytest.mark.parametrize(
    ("likelihood", "principal"),
    [(Logistic(), True), (Logistic(), False), (Poisson(), False)],
)
def test_it_is_the_posterior_of_many_rows(likelihood, principal):
    X, y = rows_of(1500, 3)
    if isinstance(likelihood, Poisson):
        y = np.random.default_rng(1).poisson(np.exp(0.2 * X[:, 0])).astype(float)
    target = target_of(Table(X, y), likelihood, principal)
    mean, sd, log_evidence = moments(quadratic_nodes(target))
    exact, exact_sd, exact_evidence, ess = by_importance(target, mean, sd)
    # A third of what would show in an interval, and errors of the draws.
    assert np.all(np.abs(mean - exact) < (0.03 + 4.0 / np.sqrt(ess)) * exact_sd)
    np.testing.assert_allclose(sd, exact_sd, rtol=0.02 + 4.0 / np.sqrt(2.0 * ess))
    np.testing.assert_allclose(log_evidence, exact_evidence, atol=0.03)


def test_means_are_shifted_as_third_derivatives_ask():
    X, y = rows_of(400, 2, shift=-2.0)
    target = target_of(Table(X, y), principal=False)
    (nodes,) = quadratic_nodes(target)
    mean, sd, _ = moments([nodes])
    exact, exact_sd, _, ess = by_importance(target, mean, sd)
    mode = (
        mean
        - np.einsum("k,kij->ij", nodes.weights, nodes.gaussians.covariances)
        @ target.skewness(mean, np.linalg.cholesky(nodes.gaussians.covariances[4]))[0]
    )
    missed = np.abs(mode - exact)[-1] / exact_sd[-1]
    assert missed > 0.08
    assert np.abs(mean - exact)[-1] / exact_sd[-1] < 0.4 * missed + 4.0 / np.sqrt(ess)


def test_between_many_rows_and_few_it_is_that_of_the_expected_log_likelihood():
    X, y = rows_of(400, 10, shift=-1.0, spread=2.0)
    target = target_of(Table(X, y), principal=False)
    (nodes,) = quadratic_nodes(target)
    mean, sd, log_evidence = moments([nodes])
    exact, exact_sd, exact_evidence, ess = by_importance(target, mean, sd, 20_000)
    error = 4.0 / np.sqrt(ess)
    assert np.all(np.abs(mean - exact) < (0.02 + error) * exact_sd)
    np.testing.assert_allclose(sd, exact_sd, rtol=0.015 + error / np.sqrt(2.0))
    np.testing.assert_allclose(log_evidence, exact_evidence, atol=0.06)
    # Around the mode alone it would not do: the heaviest mean is far from it.
    k = nodes.weights.argmax()
    root = np.linalg.cholesky(nodes.gaussians.covariances[k])
    pull, _ = target.skewness(nodes.gaussians.means[k], root)
    assert 0.5 * np.sum((root.T @ pull) ** 2) > 0.03


@pytest.mark.parametrize("case", ["few rows", "separable", "wide", "heavy tails"])
def test_it_stands_back_where_the_posterior_is_no_gaussian(case):
    n, dim = (40, 3) if case == "few rows" else (2000, 3)
    X, y = rows_of(n, dim)
    if case == "separable":
        y = (X @ np.ones(3) > 0.0).astype(float)
    if case == "wide":
        X, y = rows_of(400, 20, spread=5.0)
    target = target_of(Table(X, y), principal=False)
    if case == "heavy tails":
        target = GLMTarget(
            target.rows, Logistic(), scale=target.scale,
            prior=CommonScale(StudentTPrior(), target.prior.shared, 3, HalfTPrior()),
        )  # fmt: skip
    tried = may_be_quadratic(target, FullGaussian())
    assert not (tried and quadratic_nodes(target))


def test_several_classes_have_none():
    X, y = rows_of(600, 2)
    rows = Table(X, (y + (X[:, 0] > 1.0)).astype(int))
    target = GLMTarget(rows, Multinomial(3))
    assert not may_be_quadratic(target, FullGaussian())


def test_rows_may_be_sparse_weighted_repeated_or_in_blocks():
    X, y = rows_of(9000, 2)
    X[np.abs(X) < 0.5] = 0.0
    order = np.argsort(y, kind="stable")  # classes one after the other
    X, y = X[order], y[order]
    ways = {
        "dense": Table(X, y),
        "sparse": Table(sparse.csr_matrix(X), y),
        "single precision": Table(X.astype(np.float32), y),
        "half weights": Table(np.vstack([X, X]), np.append(y, y), 0.5),
        "blocks": BlockTables(
            lambda: (Table(X[k : k + 3000], y[k : k + 3000]) for k in (0, 3000, 6000)),
            9000,
            2,
        ),
    }
    found = {name: moments(quadratic_nodes(target_of(t))) for name, t in ways.items()}
    mean, sd, log_evidence = found.pop("dense")
    for name, other in found.items():
        # Parts of the rows differ, which is what the search begins with.
        assert np.all(np.abs(other[0] - mean) < 0.01 * sd), name
        np.testing.assert_allclose(other[1], sd, rtol=3e-3, err_msg=name)
        np.testing.assert_allclose(other[2], log_evidence, atol=3e-3, err_msg=name)


def test_a_temperature_is_a_weight_and_a_rare_class_has_its_part():
    X, y = rows_of(20_000, 2, shift=-4.5)
    assert 0.005 < y.mean() < 0.03
    plain = moments(quadratic_nodes(target_of(Table(X, y, 0.5))))
    tempered = moments(quadratic_nodes(target_of(Table(X, y), temperature=0.5)))
    np.testing.assert_allclose(tempered[0], plain[0], rtol=1e-8)
    whole = target_of(Table(X, y))
    slope = whole.expansion(moments(quadratic_nodes(whole))[0], bends=False)[1]
    # Near the maximum of the likelihood, slopes are small beside those far from it.
    assert (
        np.abs(slope).max()
        < 0.05 * np.abs(whole.expansion(np.zeros(3), False)[1]).max()
    )


def ordered(n, weight=1.0):
    """Four ordered classes of rows with two columns, and where their mode is near."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2)) * [1.0, 40.0]
    eta = X @ [0.8, -0.01]
    y = np.digitize(eta + rng.logistic(size=n), [-1.0, 0.3, 1.2])
    prior = CommonScale(NormalPrior(), np.arange(3) < 2, 2, HalfTPrior(scale=1.5))
    target = OrdinalTarget(
        Table(X, y, np.full(n, weight)), CumulativeLogits(4),
        prior=prior, scale=np.array([1.0, 1 / 40, 10.0]),
    )  # fmt: skip
    return target, np.array([0.8, -0.01, 1.0, 0.26, -0.1])


def test_ordered_classes_expand_as_differences_say():
    target, theta = ordered(60, weight=2.0)
    value, slope, bend = target.expansion(theta)
    unit = np.append(np.array([1.0, 1 / 40, 1.0]), np.ones(2))

    def slope_at(t):
        return target.expansion(t, bends=False)[1]

    steps = 1e-5 * np.diag(unit)
    ahead = np.array([target.expansion(theta + h, bends=False)[0] for h in steps])
    behind = np.array([target.expansion(theta - h, bends=False)[0] for h in steps])
    np.testing.assert_allclose(unit * slope, (ahead - behind) / 2e-5, rtol=1e-5)
    differences = [(slope_at(theta - h) - slope_at(theta + h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(
        unit[:, None] * bend, np.array(differences), rtol=1e-6, atol=1e-5
    )
    whole = target.log_density(theta[None]) - target.prior.log_density(
        theta[None], target.scale
    )
    np.testing.assert_allclose(value, whole[0])


def test_ordered_classes_have_the_moments_of_weighted_draws():
    target, start = ordered(1500)
    (nodes,) = quadratic_nodes(target, start)
    means, covariances = nodes.gaussians.means, nodes.gaussians.covariances
    mean = nodes.weights @ means
    away = means - mean
    covariance = np.tensordot(nodes.weights, covariances, 1)
    covariance = covariance + (away.T * nodes.weights) @ away
    rng = np.random.default_rng(0)
    theta = rng.multivariate_normal(mean, 1.2 * covariance, 4000)
    log_w = target.log_density(theta)
    log_w -= multivariate_normal(mean, 1.2 * covariance).logpdf(theta)
    share = np.exp(log_w - log_w.max())
    share /= share.sum()
    sd = np.sqrt(np.diag(covariance))
    # Four standard errors of weighted draws, and what the shift leaves.
    error = 4.0 / np.sqrt(1.0 / (share @ share))
    np.testing.assert_allclose((share @ theta - mean) / sd, 0.0, atol=error + 0.02)
    spread = np.sqrt(share @ (theta - share @ theta) ** 2)
    np.testing.assert_allclose(spread / sd, 1.0, atol=error)
    evidence = log_w.max() + np.log(np.exp(log_w - log_w.max()).mean())
    assert nodes.log_evidence == pytest.approx(evidence, abs=0.05)


def test_many_ordered_rows_have_a_part_that_tells_the_shift():
    target, start = ordered(6000)
    (nodes,) = quadratic_nodes(target, start)
    mean = nodes.weights @ nodes.gaussians.means
    slope = target.expansion(mean, bends=False)[1]
    sd = np.sqrt(np.einsum("kii->i", nodes.gaussians.covariances) / len(nodes.weights))
    assert np.abs(slope * sd).max() < 0.3
    assert target.part(3).dim == target.dim


def test_few_ordered_rows_are_searched_but_heavy_ones_count_as_many():
    assert quadratic_nodes(*ordered(60)) is None
    assert quadratic_nodes(*ordered(60, weight=30.0)) is not None


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_curvatures_of_columns_far_from_zero_keep_their_digits(container):
    X, y = rows_of(400, 2)
    X[:, 1] = 0.0  # of a sparse matrix columns far from zero are few
    far = X + np.array([1e9, 0.0])
    factor, scale = HalfTPrior(scale=1.5), np.array([1.0, 1.0, 10.0])
    prior = CommonScale(NormalPrior(), np.arange(3) < 2, 2, factor)
    settings = {"prior": prior, "scale": scale}
    near, moved = (
        GLMTarget(Table(rows, y), Logistic(), centre=rows.mean(axis=0), **settings)
        for rows in (X, far)
    )
    if container is sparse.csr_matrix:
        rows = Table(container(X), y)
        moved = GLMTarget(rows, Logistic(), centre=X.mean(axis=0), **settings)
    theta = np.array([0.3, 0.0, -0.2])
    for one, other in zip(near.expansion(theta), moved.expansion(theta), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-4)


# --- rows beyond what expectation propagation has room for


def many_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(51_000, 20))
    return X, rng.random(51_000) < expit(X @ np.linspace(-0.5, 0.5, 20) - 1.0)


DEFAULT = BoostedBayesianLogisticRegression(random_state=0, orbit=None)


@pytest.mark.slow
def test_the_scale_is_learned_of_more_than_a_million_numbers(tmp_path):
    X, y = many_rows()
    path = tmp_path / "rows.npy"
    np.save(path, X)
    plain = clone(DEFAULT).fit(X, y)
    assert plain.prior_ == "principal" and plain.n_iter_ > 8
    mean, sd = (
        plain._fit.mixture.mean(),
        np.sqrt(np.diag(plain._fit.mixture.covariance())),
    )
    half = X[:, 0] > 0.0
    blocks = [(X[half], y[half]), (X[~half], y[~half])]
    ways = np.load(path, mmap_mode="r"), sparse.csr_matrix(X)
    fits = [clone(DEFAULT).fit(rows, y) for rows in ways]
    for model in (*fits, clone(DEFAULT).fit(RowBlocks(lambda: blocks))):
        other = model._fit.mixture
        assert np.abs((other.mean() - mean) / sd).max() < 0.02
        np.testing.assert_allclose(np.sqrt(np.diag(other.covariance())), sd, rtol=5e-3)


# --- a scale that is known


@pytest.mark.parametrize("likelihood", [Logistic(), Poisson()])
def test_a_known_scale_has_one_gaussian(likelihood):
    X, y = rows_of(1500, 3)
    scale = np.array([0.5, 1.0, 1.5, 10.0])
    target = GLMTarget(Table(X, y), likelihood, prior=NormalPrior(), scale=scale)
    (nodes,) = quadratic_nodes(target)
    assert len(nodes.weights) == 1
    (mean,), (covariance,) = nodes.gaussians[1:]
    sd = np.sqrt(np.diag(covariance))
    exact, exact_sd, _, ess = by_importance(target, mean, sd)
    assert np.all(np.abs(mean - exact) < (0.03 + 4.0 / np.sqrt(ess)) * exact_sd)
    np.testing.assert_allclose(sd, exact_sd, rtol=0.02 + 4.0 / np.sqrt(2.0 * ess))
