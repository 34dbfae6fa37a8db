"""Boosted mixtures of conjugate distributions against sums over all assignments."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln, multigammaln

from skboost.approximation import Mixture, PooledDraws
from skboost.boosting import Boosting, Settings, SimplexCombination
from skboost.conjugate import (
    COVARIANCES,
    INITS,
    ConjugateTarget,
    DrawStream,
    GaussianMixtureModel,
    aligned,
    coordinate_ascent,
    explanations,
    split_and_merge,
    start,
    with_louis_widths,
)
from skboost.fitting import Limits, Options, boost
from skboost.objectives import FixedMixture, SearchContext, joint_gains
from skboost.proposals import ConjugateProposer
from skboost.proposals._conjugate import _worth_a_look
from skboost.targets import Budget

MEAN_PRECISION, ALPHA = 0.4, 0.7


def make_target(
    X, n_components, covariance_type="full", n_jobs=None, weight=None,
    clusters="normal-wishart",
):  # fmt: skip
    rate = COVARIANCES[covariance_type].of_matrix(np.eye(X.shape[1]))
    scale = {"normal-wishart": "mean_precision", "independent": "mean_variance"}
    model = GaussianMixtureModel(
        clusters, covariance_type, np.full(n_components, ALPHA), np.zeros(X.shape[1]),
        dof=X.shape[1] + 1.5, rate=rate, **{scale[clusters]: MEAN_PRECISION},
    )  # fmt: skip
    weight = np.ones(len(X)) if weight is None else weight
    return ConjugateTarget(model, model.rows(X), weight, n_jobs)


def make_engine(target, step_size="line-search", seed=0, **options):
    corrective = options.pop("corrective", "fully-corrective")
    combination = SimplexCombination.of(step_size, corrective)
    values = {"n_draws": 256, "n_restarts": 3, "n_fresh": 1024, "refine": False}
    settings = Settings(seed=seed, n_jobs=target.n_jobs, **(values | options))
    return Boosting(ConjugateProposer(), combination, settings)


def log_evidence_of_cluster(X):
    """Rows of one Normal-Wishart cluster, all parameters integrated out."""
    n, dim = X.shape
    dof, rate, precision = dim + 1.5, np.eye(dim), MEAN_PRECISION
    total = X.sum(axis=0)
    after = rate + X.T @ X - np.outer(total, total) / (precision + n)
    return (
        -0.5 * n * dim * np.log(np.pi)
        + multigammaln((dof + n) / 2, dim)
        - multigammaln(dof / 2, dim)
        + 0.5 * dof * np.linalg.slogdet(rate)[1]
        - 0.5 * (dof + n) * np.linalg.slogdet(after)[1]
        + 0.5 * dim * np.log(precision / (precision + n))
    )


def exact_log_evidence(X, n_components):
    """Sum over all assignments of rows to clusters, in closed form."""
    n, logs = len(X), []
    for labels in itertools.product(range(n_components), repeat=n):
        labels = np.array(labels)
        counts = np.bincount(labels, minlength=n_components)
        log_p = gammaln(n_components * ALPHA) - gammaln(n_components * ALPHA + n)
        log_p += (gammaln(ALPHA + counts) - gammaln(ALPHA)).sum()
        log_p += sum(log_evidence_of_cluster(X[labels == k]) for k in set(labels))
        logs.append(log_p)
    return np.logaddexp.reduce(logs)


@pytest.fixture(scope="module")
def apart():
    """Eight rows in two groups that nobody can take for one."""
    rng = np.random.default_rng(5)
    X = 0.3 * rng.standard_normal((8, 2))
    X[::2] += 6.0
    return X


@pytest.fixture(scope="module")
def close():
    """Eight rows that one or two clusters explain."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((8, 1))
    X[::2] += 1.5
    return X


@pytest.fixture(scope="module")
def overlapping():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    X[::2] += 2.0
    return X


def test_optima_are_looked_at_once_and_where_their_mass_can_matter():
    modes = [SimpleNamespace(bound=b) for b in (-5.003, 0.0, -30.0, -5.0, -0.5)]
    found = [mode.bound for mode in _worth_a_look(modes, [-0.501, -3.0])]
    assert found == [0.0, -5.0]


# --- densities


@pytest.mark.parametrize(
    ("covariance_type", "missing"),
    [*((name, False) for name in COVARIANCES), ("full", True), ("diag", True)],
)
def test_the_log_joint_against_scipy(covariance_type, missing):
    """Rows count by their weights; entries that are missing are integrated out."""
    rng = np.random.default_rng(1)
    X, weight = rng.standard_normal((9, 3)), rng.random(9)
    if missing:
        X[0, 1] = X[1, 0] = X[1, 2] = X[2, 1] = np.nan
    target = make_target(X, 2, covariance_type, weight=weight)
    params = target.family.params(target.model.prior)
    theta = target.family.transport(params, DrawStream(5, rng))
    draws = target.family.draws_layout.tree(theta)
    expected = target.model.log_prior(draws)
    shape = target.model.clusters.covariance
    covariances = np.linalg.inv(shape.matrices(draws["precisions"]))
    covariances = shape.whole_matrices(shape.native(covariances), 3)
    if covariance_type == "tied":
        covariances = np.repeat(covariances[:, None], 2, axis=1)
    for i, (x, w) in itertools.product(range(5), zip(X, weight, strict=True)):
        seen = ~np.isnan(x)
        clusters = zip(draws["means"][i], covariances[i], strict=True)
        densities = [
            stats.multivariate_normal(mean[seen], matrix[seen][:, seen]).pdf(x[seen])
            for mean, matrix in clusters
        ]
        expected[i] += w * np.log(draws["weights"][i] @ densities)
    assert_allclose(target.log_density(theta), expected, rtol=1e-10)


@pytest.mark.parametrize("clusters", ["normal-wishart", "independent"])
@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_densities_are_inner_products(covariance_type, clusters, overlapping):
    target = make_target(overlapping, 3, covariance_type, clusters=clusters)
    rng = np.random.default_rng(4)
    family, model = target.family, target.model
    a, b = (start(target, "random_from_data", rng) for _ in range(2))
    theta = family.transport(family.params(a), DrawStream(20, rng))
    draws = family.draws_layout.tree(theta)
    for natural in (a, b, model.prior):
        expected = model.log_density(natural, draws)
        found = family.log_density(theta, family.params(natural))
        assert_allclose(found, expected, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_natural_parameters_in_a_row_and_back(covariance_type, overlapping):
    target = make_target(overlapping, 2, covariance_type)
    natural = start(target, "kmeans", np.random.default_rng(0))
    family = target.family
    back = family.natural(family.params(natural))
    for name, own in natural.items():
        for key, value in own.items():
            assert np.array_equal(back[name][key], value)
    assert family.entropy(family.params(natural)) == target.model.entropy(natural)


# --- the evidence


def test_boosting_reaches_the_evidence_of_one_labelling(apart):
    """Two clusters far apart: each order of the labels has half of the posterior."""
    exact = exact_log_evidence(apart, 2) - np.log(2.0)
    target = make_target(apart, 2)
    engine = make_engine(target)
    done = boost(target, Options(engine, Limits(10))).run
    for info in done.history:
        assert info.elbo.value < exact + 4.0 * info.elbo.se
    elbo, remaining = done.history[-1].elbo, done.state.remaining
    assert elbo.value > exact - 0.05 - 4.0 * elbo.se
    # Importance sampling finds the rest.
    found = done.state.fresh.elbo().value + remaining.value
    assert abs(found - exact) < 4.0 * remaining.se + 0.02


@pytest.mark.slow
def test_boosting_gets_nearer_to_the_evidence(close):
    """One distribution misses most of what several reach where clusters overlap."""
    exact, left = exact_log_evidence(close, 2), []
    target = make_target(close, 2)
    for seed in range(3):
        engine = make_engine(target, seed=seed)
        done = boost(target, Options(engine, Limits(10, tol=0.0))).run
        for info in done.history:
            assert info.elbo.value < exact + 4.0 * info.elbo.se
        first, last = done.history[0].elbo, done.history[-1].elbo
        before, after = exact - first.value, exact - last.value
        assert after < before - 4.0 * np.hypot(first.se, last.se)
        left.append(after)
    # Mixed labellings are within reach here, so ln 2 is no limit. Single runs meet it.
    assert np.mean(left) < np.log(2.0)


def test_one_cluster_is_exact(overlapping):
    """With one cluster the posterior is conjugate, and nothing is left to boost."""
    target = make_target(overlapping, 1)
    engine = make_engine(target)
    done = boost(target, Options(engine, Limits(5))).run
    exact = log_evidence_of_cluster(overlapping)
    assert_allclose(done.history[0].elbo.value, exact, rtol=1e-10)
    assert done.converged
    assert all(abs(info.gain.value) < 1e-3 for info in done.history[1:])


# --- coordinate ascent and its neighbours


@pytest.mark.parametrize("init", INITS)
def test_starts_count_every_row_once(init, overlapping):
    weight = np.random.default_rng(0).random(len(overlapping))
    target = make_target(overlapping, 3, weight=weight)
    for scaled in (False, True):
        natural = start(target, init, np.random.default_rng(1), scaled)
        assert_allclose(natural["weights"]["alpha"].sum() - 3 * ALPHA, weight.sum())


@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_moves_never_leave_the_natural_parameters(covariance_type, overlapping):
    target = make_target(overlapping, 4, covariance_type)
    rng = np.random.default_rng(0)
    natural = start(target, "random", rng)
    for _ in range(3):
        natural = split_and_merge(target, natural, rng)
        assert np.isfinite(coordinate_ascent(target, natural, 1, 0.0).bound)


def test_without_time_the_first_start_is_all_there_is():
    X = np.random.default_rng(0).standard_normal((60, 2))
    target = make_target(X, 2)
    with target.ledger.within(Budget(max_time=1e-9), raises=False):
        mixture, modes = ConjugateProposer().initial(target, Settings(n_restarts=4))
    assert mixture.n_components == 1 and len(modes.components) == 1
    assert np.isfinite(mixture.components[0].params).all()


def test_louis_widths_raise_the_elbo_where_clusters_overlap():
    """Coordinate ascent is too narrow for the posterior without assignments."""
    X = np.random.default_rng(0).standard_normal((80, 2))
    X[::2] += 2.0, 3.0
    target = make_target(X, 2)
    mode = explanations(target, "kmeans", 0, 9)[0]
    elbos = []
    for power in (0.0, 1.0):
        params = target.family.params(with_louis_widths(target, mode.natural, power))
        stream = DrawStream(8000, np.random.default_rng(1))
        theta = target.family.transport(params, stream)
        ratio = target.log_density(theta) - target.family.log_density(theta, params)
        elbos.append((ratio.mean(), ratio.std() / np.sqrt(len(ratio))))
    (narrow, se), (wide, se_wide) = elbos
    assert wide - narrow > 4.0 * np.hypot(se, se_wide)


@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_widths_are_those_of_coordinate_ascent_without_overlap(covariance_type):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    X[::2] += 30.0
    target = make_target(X, 2, covariance_type)
    mode = coordinate_ascent(target, start(target, "kmeans", rng), 100, 1e-10)
    wide = with_louis_widths(target, mode.natural, 1.0)
    narrow = target.family.params(mode.natural)
    assert_allclose(target.family.params(wide), narrow, rtol=1e-6)


@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_alignment_undoes_a_permutation(covariance_type, overlapping):
    target = make_target(overlapping, 4, covariance_type)
    natural = start(target, "kmeans", np.random.default_rng(0))
    mixed = target.model.permuted(natural, np.array([2, 0, 3, 1]))
    back = aligned(target, mixed, natural)
    assert np.array_equal(target.family.params(back), target.family.params(natural))


def test_modes_are_distinct_and_in_order(overlapping):
    target = make_target(overlapping, 3)
    modes = explanations(target, "kmeans", 0, 12)
    bounds = [mode.bound for mode in modes]
    assert all(a >= b for a, b in itertools.pairwise(bounds))
    labels = [
        target.model.responsibilities(mode.natural, target.rows).argmax(axis=1)
        for mode in modes
    ]
    assert len(modes) > 1
    for one, other in itertools.combinations(labels, 2):
        assert np.mean(one == other) <= 0.97


def test_ends_of_new_runs_are_proposed_where_no_optimum_is_known(overlapping):
    """One end at several widths, of which the best gains beside a poor start."""
    target = make_target(overlapping, 2)
    natural = start(target, "random", np.random.default_rng(0))
    poor = Mixture.single((target.family, target.family.params(natural)))
    rng = np.random.default_rng(1)
    base = [target.family.base_draws(64, target.dim, rng)]
    pool = PooledDraws.of(target, poor, base, False)
    fixed = FixedMixture.of(poor, pool)
    context = SearchContext(target, poor, fixed, pool, 1, False)
    settings = Settings(seed=0, n_restarts=1)
    found = ConjugateProposer().propose(target, context, settings)
    draws = DrawStream(64, np.random.default_rng(2))
    assert joint_gains(context, [found], draws, np.array([0.25])) > 0.0
