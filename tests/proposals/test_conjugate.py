"""Boosted mixtures of conjugate distributions against sums over all assignments."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln, multigammaln

from skboost._budget import Budget
from skboost._callbacks import Limits, run
from skboost._settings import Settings
from skboost.boosting import Boosting, Simplex
from skboost.conjugate import COVARIANCES, ConjugateTarget, GaussianMixtureModel
from skboost.conjugate._draws import DrawStream, Layout
from skboost.conjugate.gaussian_mixture._ascent import (
    INITS,
    aligned,
    annealed,
    coordinate_ascent,
    split_and_merge,
    start,
    with_louis_widths,
)
from skboost.proposals import ConjugateProposer
from skboost.proposals._conjugate import first_distribution, local_optima

MEAN_PRECISION, ALPHA = 0.4, 0.7


def make_target(
    X, n_components, covariance_type="full", n_jobs=None, weight=None,
    clusters="normal-wishart",
):  # fmt: skip
    rate = {"full": np.eye(X.shape[1]), "tied": np.eye(X.shape[1]),
            "diag": np.ones(X.shape[1]), "spherical": 1.0}[covariance_type]  # fmt: skip
    scale = {"normal-wishart": "mean_precision", "independent": "mean_variance"}
    model = GaussianMixtureModel.make(
        clusters, covariance_type, np.full(n_components, ALPHA), np.zeros(X.shape[1]),
        dof=X.shape[1] + 1.5, rate=rate, **{scale[clusters]: MEAN_PRECISION},
    )  # fmt: skip
    weight = np.ones(len(X)) if weight is None else weight
    return ConjugateTarget(model, model.rows(X), weight, n_jobs)


def make_engine(target, step_size="line-search", seed=0, **options):
    combination = Simplex.of(
        target, step_size, options.pop("corrective", "fully-corrective")
    )
    values = {"n_draws": 256, "n_restarts": 3, "n_fresh": 1024, "refine": False}
    settings = Settings(seed=seed, n_jobs=target.n_jobs, **(values | options))
    return Boosting(target, ConjugateProposer(target), combination, settings)


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


# --- densities


@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_the_log_joint_against_scipy(covariance_type):
    rng = np.random.default_rng(1)
    X, weight = rng.standard_normal((9, 3)), rng.random(9)
    target = make_target(X, 2, covariance_type, weight=weight)
    params = target.family.params(target.model.prior)
    theta = target.family.transport(params, DrawStream(5, rng))
    draws = target.family.draws_layout.tree(theta)
    expected = target.model.log_prior(draws)
    for i in range(5):
        precisions = draws["precisions"][i]
        matrices = {
            "full": lambda p: p,
            "tied": lambda p: np.broadcast_to(p, (2, 3, 3)),
            "diag": lambda p: np.array([np.diag(row) for row in p]),
            "spherical": lambda p: np.array([np.eye(3) * row for row in p]),
        }[covariance_type](precisions)
        density = sum(
            pi * stats.multivariate_normal(mean, np.linalg.inv(matrix)).pdf(X)
            for pi, mean, matrix in zip(
                draws["weights"][i], draws["means"][i], matrices, strict=True
            )
        )
        expected[i] += weight @ np.log(density)
    assert_allclose(target.log_density(theta), expected, rtol=1e-10)


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_missing_entries_are_integrated_out(covariance_type):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((6, 3))
    X[0, 1] = X[1, 0] = X[1, 2] = X[2, 1] = np.nan
    target = make_target(X, 2, covariance_type)
    params = target.family.params(target.model.prior)
    theta = target.family.transport(params, DrawStream(4, rng))
    draws = target.family.draws_layout.tree(theta)
    covariances = {
        "full": np.linalg.inv,
        "diag": lambda p: p[..., None] ** -1 * np.eye(3),
    }[covariance_type](draws["precisions"])
    expected = target.model.log_prior(draws)
    for i, x in itertools.product(range(4), X):
        seen = ~np.isnan(x)
        clusters = zip(draws["means"][i], covariances[i], strict=True)
        densities = [
            stats.multivariate_normal(mean[seen], matrix[seen][:, seen]).pdf(x[seen])
            for mean, matrix in clusters
        ]
        expected[i] += np.log(draws["weights"][i] @ densities)
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


def test_flat_rows_and_trees_are_the_same():
    rng = np.random.default_rng(3)
    layout = Layout({"a": (2,), "b": {"c": (), "d": (3, 2)}})
    rows = rng.random((4, layout.size))
    assert layout.size == 9
    assert np.array_equal(layout.flat(layout.tree(rows)), rows)
    with pytest.raises(ValueError, match="9 numbers"):
        layout.tree(rows[:, 1:])


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


@pytest.mark.slow
@pytest.mark.parametrize("data", ["apart", "close"])
def test_no_elbo_is_above_the_evidence(data, request):
    X = request.getfixturevalue(data)
    exact = exact_log_evidence(X, 2)
    done = run(make_engine(make_target(X, 2)), Limits(max_iter=4, tol=0.0))
    for info in done.history:
        assert info.elbo.value < exact + 4.0 * info.elbo.se


def test_boosting_reaches_the_evidence_of_one_labelling(apart):
    """Two clusters far apart: each order of the labels has half of the posterior."""
    exact = exact_log_evidence(apart, 2) - np.log(2.0)
    engine = make_engine(make_target(apart, 2))
    elbo = run(engine, Limits(max_iter=10)).history[-1].elbo
    assert elbo.value < exact + 4.0 * elbo.se
    assert elbo.value > exact - 0.05 - 4.0 * elbo.se


@pytest.mark.slow
def test_boosting_gets_nearer_to_the_evidence(close):
    """One distribution misses most of what several reach where clusters overlap."""
    exact = exact_log_evidence(close, 2)
    engine = make_engine(make_target(close, 2))
    done = run(engine, Limits(max_iter=10))
    first, last = done.history[0].elbo, done.history[-1].elbo
    before, after = exact - first.value, exact - last.value
    assert after < before - 4.0 * np.hypot(first.se, last.se)
    # Mixed labellings are within reach here, so ln 2 is no limit.
    assert after < np.log(2.0)


def test_one_cluster_is_exact(overlapping):
    """With one cluster the posterior is conjugate, and nothing is left to boost."""
    engine = make_engine(make_target(overlapping, 1))
    done = run(engine, Limits(max_iter=5))
    exact = log_evidence_of_cluster(overlapping)
    assert_allclose(done.history[0].elbo.value, exact, rtol=1e-10)
    assert done.converged
    assert all(abs(info.gain.value) < 1e-3 for info in done.history[1:])


def test_importance_sampling_finds_the_evidence_of_one_labelling(apart):
    exact = exact_log_evidence(apart, 2) - np.log(2.0)
    done = run(make_engine(make_target(apart, 2)), Limits(max_iter=6))
    fresh, remaining = done.state.fresh, done.state.remaining
    found = fresh.elbo().value + remaining.value
    assert abs(found - exact) < 4.0 * remaining.se + 0.02


# --- the loop


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_accepted_step_loses_beyond_its_error(overlapping, seed):
    engine = make_engine(make_target(overlapping, 3), seed=seed, n_draws=128)
    done = run(engine, Limits(max_iter=5, tol=0.0))
    for before, after in itertools.pairwise(done.history):
        assert after.gain.value > -2.0 * after.gain.se or after.kind == "rejected"
        change = after.elbo.value - before.elbo.value
        assert change > -4.0 * np.hypot(after.elbo.se, before.elbo.se)


@pytest.mark.slow
@pytest.mark.parametrize("corrective", ["none", "away", "pairwise", "fully-corrective"])
@pytest.mark.parametrize("step_size", ["line-search", "adaptive", "predefined", 0.3])
def test_all_steps_and_correctives_run(close, step_size, corrective):
    engine = make_engine(
        make_target(close, 2), step_size, corrective=corrective, n_draws=64, n_fresh=128
    )
    done = run(engine, Limits(max_iter=4, tol=0.0))
    mixture = done.stages[-1]
    assert_allclose(mixture.weights.sum(), 1.0)
    assert np.isfinite([info.elbo.value for info in done.history]).all()
    if step_size == 0.3 and corrective == "none":
        assert done.history[1].gamma == 0.3


@pytest.mark.slow
def test_the_same_fit_for_every_n_jobs(close):
    runs = [
        run(make_engine(make_target(close, 3, n_jobs=n_jobs)), Limits(max_iter=3))
        for n_jobs in (None, 2, 3)
    ]
    first, *others = [done.stages[-1] for done in runs]
    for other in others:
        assert np.array_equal(first.weights, other.weights)
        for (_, a), (_, b) in zip(first.components, other.components, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.slow
def test_a_bound_on_the_components_holds(close):
    engine = make_engine(make_target(close, 2), max_components=2, n_draws=64)
    done = run(engine, Limits(max_iter=5, tol=0.0))
    assert max(info.n_components for info in done.history) == 2


# --- coordinate ascent and its neighbours


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("scaled", [False, True])
def test_starts_count_every_row_once(init, scaled, overlapping):
    weight = np.random.default_rng(0).random(len(overlapping))
    target = make_target(overlapping, 3, weight=weight)
    natural = start(target, init, np.random.default_rng(1), scaled)
    assert_allclose(natural["weights"]["alpha"].sum() - 3 * ALPHA, weight.sum())


@pytest.mark.parametrize("covariance_type", COVARIANCES)
@pytest.mark.parametrize("move", [annealed, split_and_merge])
def test_moves_never_leave_the_natural_parameters(move, covariance_type, overlapping):
    target = make_target(overlapping, 4, covariance_type)
    rng = np.random.default_rng(0)
    natural = start(target, "random", rng)
    for _ in range(3):
        natural = move(target, natural, rng)
        assert np.isfinite(coordinate_ascent(target, natural, 1, 0.0).bound)


def test_without_time_the_first_start_is_all_there_is():
    """Even finding the best of its widths would take draws."""
    X = np.random.default_rng(0).standard_normal((60, 2))
    target = make_target(X, 2)
    settings = Settings(n_restarts=4, budget=Budget(max_time=1e-9))
    modes = local_optima(target, "kmeans", settings)
    assert len(modes) == 1
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    params, candidates = first_distribution(target, modes, settings, rng)
    assert rng.bit_generator.state == before
    assert np.isfinite(params).all() and len(candidates) == 1


def test_louis_widths_raise_the_elbo_where_clusters_overlap():
    """Coordinate ascent is too narrow for the posterior without assignments."""
    X = np.random.default_rng(0).standard_normal((120, 2))
    X[::2] += 2.0, 3.0
    target = make_target(X, 2)
    mode = local_optima(target, "kmeans", Settings(n_restarts=3))[0]
    values = {}
    for power in (0.0, 1.0):
        params = target.family.params(with_louis_widths(target, mode.natural, power))
        theta = target.family.transport(
            params, DrawStream(2000, np.random.default_rng(1))
        )
        ratio = target.log_density(theta) - target.family.log_density(theta, params)
        values[power] = ratio.mean(), ratio.std() / np.sqrt(2000)
    (narrow, se), (wide, se_wide) = values[0.0], values[1.0]
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
    back = aligned(target.model, mixed, natural)
    assert np.array_equal(target.family.params(back), target.family.params(natural))


def test_modes_are_distinct_and_in_order(overlapping):
    modes = local_optima(make_target(overlapping, 3), "kmeans", Settings(n_restarts=4))
    bounds = [mode.bound for mode in modes]
    assert all(a - b > 1e-3 for a, b in itertools.pairwise(bounds))
