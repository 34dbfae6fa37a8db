"""Poisson regression: posterior, exposure, and counts that mean nothing."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score

from skboost import BoostedBayesianPoissonRegression
from skboost.targets import GLMTarget, Poisson

from .conftest import same_mixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def counts(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X, years = rng.normal(size=(n, 2)), rng.uniform(0.5, 5.0, n)
    return X, rng.poisson(years * np.exp(X @ [0.6, -0.4] + 0.3)), np.log(years)


def regression(**settings):
    settings = {"max_iter": 3, "n_draws": 64, "random_state": 0} | settings
    return BoostedBayesianPoissonRegression(**settings)


X, Y, OFFSET = counts()


def test_the_posterior_agrees_with_a_grid():
    rows, y = X[:12, :1], Y[:12]
    fitted = regression(
        fit_intercept=False, prior_scale=1.0, max_iter=8, n_draws=512
    ).fit(rows, y)
    target = GLMTarget(rows, y, Poisson(), fit_intercept=False)
    grid = np.linspace(-4.0, 4.0, 20_001)
    density = np.exp(target.log_density(grid[:, None]))
    evidence = np.trapezoid(density, grid)
    missed = np.log(evidence) - fitted.elbo_
    assert -4.0 * fitted.elbo_se_ < missed < 0.01 + 4.0 * fitted.elbo_se_
    mean = np.trapezoid(grid * density, grid) / evidence
    assert fitted.coef_[0] == pytest.approx(mean, abs=0.05 * fitted.posterior_.std()[0])


def test_near_the_likeliest_point_where_data_are_many():
    rows, y, offset = counts(2000)
    fitted = regression().fit(rows, y, offset=offset)
    # scikit-learn's regressor has no offset: rates weighted by exposures are the same.
    rates, weight = y / np.exp(offset), np.exp(offset)
    rival = PoissonRegressor(alpha=0.0, tol=1e-8).fit(rows, rates, sample_weight=weight)
    std = fitted.posterior_.std()
    assert_allclose(fitted.coef_ / std[:2], rival.coef_ / std[:2], atol=0.1)
    assert fitted.intercept_ == pytest.approx(rival.intercept_, abs=0.1 * std[2])


def test_an_exposure_moves_the_intercept():
    fitted = regression(intercept_scale=5.0, prior_scale=2.0)
    plain = fitted.fit(X, Y).intercept_
    moved = fitted.fit(X, Y, offset=np.full(80, np.log(10.0))).intercept_
    assert moved == pytest.approx(plain - np.log(10.0), abs=0.01)


def test_the_score_is_that_of_scikit_learn():
    fitted = regression().fit(X, Y)
    mean = fitted.predict(X)
    weight = np.random.default_rng(1).uniform(size=80)
    exact = d2_tweedie_score(Y, mean, sample_weight=weight, power=1)
    assert fitted.score(X, Y, weight) == pytest.approx(exact)
    with_offset = regression().fit(X, Y, offset=OFFSET)
    assert with_offset.score(X, Y, offset=OFFSET) > 0.4


def test_units_of_features_do_not_matter():
    scale = np.array([1e5, 1e-5])
    plain, other = regression().fit(X, Y), regression().fit(X * scale + 10 * scale, Y)
    assert_allclose(other.coef_ * scale, plain.coef_, atol=0.02)
    assert_allclose(other.predict(X * scale + 10 * scale), plain.predict(X), rtol=0.05)


def test_weights_are_repetitions():
    weight = np.random.default_rng(0).integers(0, 4, 80)
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(80), weight))
    weighted = regression().fit(X, Y, weight, OFFSET)
    repeated = regression().fit(X[rows], Y[rows], offset=OFFSET[rows])
    assert same_mixture(weighted, repeated)


def test_sparse_rows_are_the_same_rows():
    rows = X * (np.arange(X.size).reshape(X.shape) % 3 > 0)
    dense = regression().fit(rows, Y, offset=OFFSET)
    thin = regression().fit(sparse.csr_matrix(rows), Y, offset=OFFSET)
    assert_allclose(thin.coef_, dense.coef_, rtol=1e-4)
    assert np.array_equal(
        thin.predict_interval(sparse.csr_array(rows)), dense.predict_interval(rows)
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": Y - 1}, "y must hold counts .finite, not negative"),
        ({"offset": OFFSET[:3]}, "offset must have shape"),
        ({"offset": np.full(80, -np.inf)}, "offset must be finite; got -inf in row 0"),
        ({"X": np.where(X > 2, np.nan, X)}, "X contains NaN"),
        ({"y": np.column_stack([Y, Y])}, "y should be a 1d array"),
    ],
)
def test_data_that_mean_nothing_leave_the_old_fit(arguments, words):
    fitted = regression().fit(X, Y)
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match=words):
        fitted.fit(**({"X": X, "y": Y} | arguments))
    assert all(vars(fitted)[name] is value for name, value in before.items())


HARD = {
    "no counts at all": (X, np.zeros(80)),
    "one row": (X[:1], Y[:1]),
    "constant column": (np.column_stack([X, np.ones(80)]), Y),
    "collinear": (np.column_stack([X, X]), Y),
    "large counts": (X, 10**6 * Y),
    "far from the origin": (X + 1e4, Y),
    "fewer rows than columns": (np.random.default_rng(3).normal(size=(5, 9)), Y[:5]),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_data_get_a_sound_answer(name):
    rows, y = HARD[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        fitted = regression(max_iter=2).fit(rows, y)
        ends, mean = fitted.predict_interval(rows), fitted.predict(rows)
        density = fitted.log_predictive_density(rows, y)
    assert np.isfinite(fitted.posterior_.covariance()).all()
    assert np.isfinite(ends).all() and np.isfinite(mean).all()
    assert np.isfinite(density).all() and (density <= 1e-9).all()


def test_pieces_are_near_the_whole():
    prior = {"prior_scale": 1.0, "intercept_scale": 2.0, "n_draws": 512}
    whole, pieces = regression(**prior).fit(X, Y), regression(**prior)
    for rows in np.split(np.arange(80), [40, 50, 60, 70]):
        pieces.partial_fit(X[rows], Y[rows])
    assert whole.posterior_.hellinger(pieces.posterior_).distance < 0.15


def test_a_warm_start_is_one_long_fit():
    rows, y = X[:6], Y[:6]
    long = regression(max_iter=3, tol=0.0).fit(rows, y)
    warm = regression(max_iter=1, tol=0.0, warm_start=True).fit(rows, y)
    warm.set_params(max_iter=3).fit(rows, y)
    assert same_mixture(long, warm)


# --- calibration by simulation


def uniform(ranks, n_tests):
    """Chi-squared over 10 bins, after Bonferroni."""
    found = np.histogram(ranks, bins=10, range=(0.0, 1.0))[0]
    return stats.chisquare(found).pvalue > 0.001 / n_tests


@pytest.mark.slow
def test_simulation_based_calibration():
    """Talts et al. 2018: where the truth is drawn from the prior, its posterior
    probability is uniform.
    """
    rng, ranks = np.random.default_rng(0), []
    for seed in range(250):
        theta = rng.normal(size=3) * [0.5, 0.5, 1.0]
        rows, offset = rng.normal(size=(30, 2)), rng.normal(size=30)
        y = rng.poisson(np.exp(rows @ theta[:2] + theta[2] + offset))
        fitted = BoostedBayesianPoissonRegression(
            prior_scale=0.5,
            intercept_scale=1.0,
            max_iter=2,
            n_draws=64,
            random_state=seed,
        ).fit(rows, y, offset=offset)
        ranks.append([fitted.posterior_.marginal(j).cdf(theta[j]) for j in range(3)])
    assert all(uniform(column, 3) for column in np.array(ranks).T)


def test_the_score_of_far_offsets_is_a_number():
    rng = np.random.default_rng(0)
    X, offset = rng.standard_normal((30, 2)), rng.standard_normal(30)
    y = rng.poisson(np.exp(offset)).astype(float)
    model = BoostedBayesianPoissonRegression(max_iter=1, random_state=0)
    model.fit(X, y, offset=offset)
    # Far from what was fitted, the prediction explains nothing; it is no NaN.
    assert np.isfinite(model.score(X, y, offset=offset))
    assert model.score(X, y, offset=offset - 800.0) < 0.0
