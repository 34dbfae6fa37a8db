"""Counts in groups that vary more than Poisson counts, and the warning before them."""

import warnings

import numpy as np
import pytest
from scipy import stats

from skboost.exceptions import OverdispersionWarning

from ..kinds import GroupedPoisson


def counts(n=150, n_groups=10, dispersion=0.5, seed=0):
    """Columns (x, group, week), and counts."""
    rng = np.random.default_rng(seed)
    x, group, week = rng.normal(size=n), rng.integers(0, n_groups, n), np.arange(n) % 5
    rate = np.exp(0.5 + 0.5 * x + 0.7 * rng.normal(size=n_groups)[group])
    if dispersion:
        rate = rate * rng.gamma(1.0 / dispersion, dispersion, n)
    return np.column_stack([x, group, week]), rng.poisson(rate)


def regression(groups=(1,), likelihood="negative_binomial", **settings):
    return GroupedPoisson(
        groups=list(groups), likelihood=likelihood, random_state=0, **settings
    )


X, Y = counts()


@pytest.fixture(
    scope="module",
    params=["one factor", pytest.param("crossed", marks=pytest.mark.slow)],
)
def fitted(request):
    groups = [1] if request.param == "one factor" else [1, 2]
    return regression(groups, max_iter=1).fit(X, Y)


def test_the_dispersion_is_a_coordinate_and_an_answer(fitted):
    names = list(fitted.posterior_.names)
    assert {"x0", "intercept", "sd(x1)"} < set(names)
    assert names[-1] == "dispersion" == list(fitted.variance_components_.index)[-1]
    low, high = fitted.dispersion_interval(0.9)
    assert low < 0.5 < high
    assert low < fitted.dispersion_ < high
    drawn = fitted.sample_posterior(500, random_state=0)[2]["dispersion"]
    assert np.median(drawn) == pytest.approx(fitted.dispersion_, rel=0.05)
    assert fitted.effects_pareto_k_ < 0.7


def test_predictions_are_those_of_a_mixture_of_negative_binomials(fitted):
    rows, offset = X[:3], np.array([0.0, 0.5, -0.5])
    coef, intercept, scales, effects = fitted.sample_posterior(1024, random_state=0)
    noise = scales["dispersion"]
    mean, std = fitted.predict(rows, offset=offset, return_std=True)
    ends = fitted.predict_interval(rows, 0.8, offset=offset)
    k = np.arange(400)
    for i in range(3):
        numbers = [x for j, x in enumerate(rows[i]) if f"x{j}" not in effects]
        eta = coef @ numbers + intercept + offset[i]
        for name, drawn in effects.items():
            label = rows[i, int(name[1])]
            eta = eta + drawn[:, list(fitted.group_levels_[name]).index(label), 0]
        p = 1.0 / (1.0 + noise * np.exp(eta))
        mass = stats.nbinom.pmf(k[:, None], 1.0 / noise, p).mean(axis=1)
        assert mean[i] == pytest.approx(mass @ k, rel=1e-3)
        assert std[i] == pytest.approx(np.sqrt(mass @ (k - mass @ k) ** 2), rel=1e-2)
        expected = [np.searchsorted(mass.cumsum(), q - 1e-12) for q in (0.1, 0.9)]
        np.testing.assert_array_equal(ends[i], expected)
        found = fitted.log_predictive_density(
            np.tile(rows[i], (5, 1)), k[:5], offset=np.full(5, offset[i])
        )
        np.testing.assert_allclose(found, np.log(mass[:5]), atol=1e-9)


def test_poisson_counts_are_warned_of_where_residuals_are_too_large():
    with pytest.warns(OverdispersionWarning, match="negative_binomial") as caught:
        model = regression(likelihood="poisson", max_iter=1).fit(X, Y)
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="got one with likelihood='poisson'"):
        model.dispersion_interval()
    for seed in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error", OverdispersionWarning)
            model.fit(*counts(80, 5, dispersion=0.0, seed=seed))
