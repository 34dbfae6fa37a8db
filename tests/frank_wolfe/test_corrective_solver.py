import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from skboost.frank_wolfe import WeightObjective, best_coefficients, minimise_on_simplex
from skboost.frank_wolfe._corrective import _minimise_quadratic, _mirror_step, _Point

from .conftest import log_weights

TOL = 1e-10


def frank_wolfe_gap(objective, weights):
    slope = objective.slope(weights)
    return weights @ slope - slope.min()


def target(z):
    return np.logaddexp(
        np.log(0.4) + norm.logpdf(z, -2, 0.7), np.log(0.6) + norm.logpdf(z, 3, 1.5)
    )


def random_table(table, seed, spread=3.0, n_components=12):
    rng = np.random.default_rng(seed)
    means = spread * rng.normal(size=n_components)
    sds = np.exp(rng.uniform(-1.5, 0.7, size=n_components))
    return table(means, sds, target, n_draws=60, seed=seed)


@pytest.mark.parametrize("start", [[1.0, 0, 0], [0, 0, 1.0], [1.0, 1.0, 1.0]])
def test_reaches_the_known_optimum(problem, start):
    weights, gap = minimise_on_simplex(problem.objective, start)
    np.testing.assert_allclose(weights, problem.optimum, atol=1e-8, rtol=0)
    np.testing.assert_array_equal(weights == 0, problem.optimum == 0)
    assert gap <= TOL


@pytest.mark.parametrize("spread", [0.3, 3.0, 30.0])
@pytest.mark.parametrize("seed", range(2))
def test_certificate_holds_on_random_tables(table, seed, spread):
    f = random_table(table, seed, spread)
    weights, gap = minimise_on_simplex(f, np.eye(12)[0], tol=1e-8)
    assert gap <= 1e-8
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    rng = np.random.default_rng(seed)
    others = [*rng.dirichlet(0.1 * np.ones(12), size=200), *np.eye(12)]
    assert min(f.value(w) for w in others) >= f.value(weights) - gap - 1e-12


def test_duplicate_columns(table):
    f = random_table(table, 1)
    columns = np.r_[np.arange(12), np.arange(12), 0, 0]
    doubled = WeightObjective(f.log_ratio[:, columns], f.offset[:, columns])
    weights, gap = minimise_on_simplex(doubled, np.eye(len(columns))[3])
    assert gap <= TOL
    single, _ = minimise_on_simplex(f, np.eye(12)[3])
    np.testing.assert_allclose(
        np.bincount(columns, weights), single, atol=1e-5 * single.max()
    )


def test_column_and_rows_of_zeros(table):
    f = random_table(table, 2)
    ratio, offset = f.ratio.copy(), f.offset.copy()
    ratio[:, 4] = offset[:, 4] = 0.0
    ratio[:30] = offset[:30] = 0.0
    f = WeightObjective(log_weights(ratio), offset)
    weights, gap = minimise_on_simplex(f, np.eye(12)[4])
    assert gap <= TOL
    assert np.isfinite(weights).all()


@pytest.mark.parametrize(
    ("share", "start", "expected"),
    [
        (1.0, [1.0, 0.0], [0.0, 1.0]),
        (1e-7, [0.5, 0.5], [1.0 - 1e-7, 1e-7]),
        (1e-15, [0.5, 0.5], [1.0, 0.0]),
    ],
)
def test_weights_of_every_size_are_resolved(table, share, start, expected):
    def log_joint(z):
        return logsumexp(
            norm.logpdf(z[:, None], [0, 200]), b=[1 - share, share], axis=1
        )

    f = table([0, 200], [1, 1], log_joint)
    weights, gap = minimise_on_simplex(f, start)
    np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=0)
    assert gap <= TOL


@pytest.mark.parametrize("rank", [1, 4, 20])
def test_singular_quadratics(quadratic, rank):
    rng = np.random.default_rng(rank)
    factor = rng.normal(size=(20, rank))
    f = quadratic(factor @ factor.T, rng.normal(size=20))
    weights, gap = minimise_on_simplex(f, np.eye(20)[0])
    assert gap <= TOL
    assert frank_wolfe_gap(f, weights) <= 1.01 * TOL


def test_few_newton_steps_suffice(table, monkeypatch):
    calls = []
    hessian = WeightObjective.hessian
    monkeypatch.setattr(
        WeightObjective,
        "hessian",
        lambda self, *args: calls.append(1) or hessian(self, *args),
    )
    for seed in range(10):
        minimise_on_simplex(random_table(table, seed), np.eye(12)[0])
    assert len(calls) <= 12 * 10


@pytest.mark.parametrize("seed", range(5))
def test_newton_targets_are_the_minimisers_of_quadratics(seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((6, 6))
    hessian, slope = root @ root.T + 0.1 * np.eye(6), 2.0 * rng.standard_normal(6)
    # A vertex: what the minimiser needs has to enter.
    start = np.eye(6)[rng.integers(6)]
    found = _minimise_quadratic(hessian, slope, start)
    assert found.min() >= 0.0 and found.sum() == pytest.approx(1.0)
    gradient = slope + hessian @ (found - start)
    level = found @ gradient
    assert np.all(gradient >= level - 1e-8)
    np.testing.assert_allclose(gradient[found > 1e-9], level, atol=1e-8, rtol=0)


@pytest.mark.parametrize("n", [2, 5])
def test_equal_roots_are_combined_to_one(n):
    # Without a ridge their Gram matrix has no Cholesky factor.
    found = best_coefficients(np.ones((n, n)), np.ones(n))
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0, rel=1e-9)


def test_a_mirror_step_is_exact_where_components_do_not_overlap():
    offset = np.array([0.0, 1.0, -2.0])
    apart = WeightObjective(log_weights(3.0 * np.eye(3)), 3.0 * np.diag(offset))
    found = _mirror_step(_Point(apart, np.array([0.6, 0.1, 0.3]))).weights
    np.testing.assert_allclose(found, np.exp(-offset) / np.exp(-offset).sum())
