"""Counts that vary more than Poisson counts, exposures, and the warning before both."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.base import clone

from skboost.approximation import Mixture
from skboost.exceptions import OverdispersionWarning
from skboost.families import FullGaussian, Laplace
from skboost.linear_model._count_predictive import CountPredictive, log_probability
from skboost.strategies import GreedySearch
from skboost.targets import NegativeBinomial

from ..kinds import GroupedPoisson
from .conftest import count_regression, counted

P = np.array([0.05, 0.5, 0.95])
regression = partial(count_regression, "negative_binomial")
poisson_regression = partial(count_regression, "poisson")
X, Y, YEARS = counted()


@pytest.fixture(scope="module")
def fitted():
    return regression(max_iter=2).fit(X, Y, exposure=YEARS)


@pytest.mark.filterwarnings("ignore::skboost.posterior.ImportanceWarning")
@pytest.mark.filterwarnings("ignore::skboost.exceptions.OverdispersionWarning")
@pytest.mark.parametrize("kind", [poisson_regression, regression])
def test_the_posterior_is_that_of_the_density_by_hand(kind):
    rows, y = X[:25, :1], Y[:25]
    fit = kind(
        fit_intercept=False, prior_scale=1.0, max_iter=10, search=GreedySearch(512)
    )
    fit.fit(rows, y)

    def log_joint(theta):
        mean = np.exp(theta[:, :1] * rows[:, 0])
        value = stats.norm.logpdf(theta[:, 0])
        if kind is poisson_regression:
            return value + stats.poisson.logpmf(y, mean).sum(axis=1)
        size = np.exp(-theta[:, 1:])
        value += stats.norm.logpdf(theta[:, 1], np.log(0.25), 2.0)
        return value + stats.nbinom.logpmf(y, size, size / (size + mean)).sum(axis=1)

    sample = fit.posterior_.importance_weights(log_joint, n=2000, random_state=0)
    assert sample.effective_sample_size > 0.9 * 2000
    missed = sample.log_evidence - fit.elbo_
    assert -4.0 * fit.elbo_se_ < missed < 0.02 + 4.0 * fit.elbo_se_
    if kind is regression:
        order = np.argsort(sample.draws[:, 1])
        share = np.exp(sample.log_weights - sample.log_weights.max())[order].cumsum()
        middle = sample.draws[order, 1][np.searchsorted(share, 0.5 * share[-1])]
        found, std = np.log(fit.dispersion_), fit.posterior_.std()[1]
        assert found == pytest.approx(middle, abs=0.15 * std)


def test_the_dispersion_is_a_coordinate_and_an_answer(fitted):
    assert list(fitted.posterior_.names) == ["x0", "x1", "intercept", "log_dispersion"]
    assert fitted.coef_.shape == (2,)
    low, high = fitted.dispersion_interval(0.9)
    assert low < fitted.dispersion_ < high and low < 0.5 < high
    coef, intercept, dispersion = fitted.sample_posterior(2000, random_state=0)
    assert coef.shape == (2000, 2) and intercept.shape == (2000,)
    assert np.mean((low < dispersion) & (dispersion < high)) == pytest.approx(0.9, 0.03)
    again = pickle.loads(pickle.dumps(fitted)).set_params(likelihood="poisson")
    assert_allclose(again.predict_interval(X[:3]), fitted.predict_interval(X[:3]))
    poisson = poisson_regression(max_iter=1).fit(X, np.minimum(Y, 3))
    assert not hasattr(poisson, "dispersion_")
    assert len(poisson.sample_posterior(2)) == 2
    with pytest.raises(AttributeError, match="likelihood='negative_binomial'"):
        poisson.dispersion_interval()


@pytest.mark.parametrize("level", [None, -14.0, -0.5, 2.0])
@pytest.mark.parametrize("y", [0.0, 7.0, 20_000.0])
def test_probabilities_of_counts_agree_with_quadrature(y, level):
    """Of Poisson counts where there is no level of a dispersion."""
    grid, more = np.linspace(-13.0, 13.0, 40_001), () if level is None else (level,)
    for sd in (1e-3, 0.1, 0.6, 2.5):
        for mean in (-2.0, 1.0, np.log(y + 1.0) + 0.5 * sd):
            eta = mean + sd * grid
            if more:
                log = NegativeBinomial().log_probability(y, eta, level)
            else:
                log = stats.poisson.logpmf(y, np.exp(eta))
            log += stats.norm.logpdf(grid)
            # Elsewhere the grid itself would be cut off.
            if abs(grid[np.argmax(log)]) < 8.0:
                share = np.exp(log - log.max()).sum() * (grid[1] - grid[0])
                args = (np.array([part]) for part in (y, mean, sd, *more))
                exact, rel = log.max() + np.log(share), 1e-11 if more else 0.0
                found = log_probability(*args)[0]
                assert found == pytest.approx(exact, rel=rel, abs=1e-8)


@pytest.mark.parametrize(
    ("family", "offset", "size"),
    [(FullGaussian(), 0.0, 2000), (FullGaussian(), 5.5, 5000), (Laplace(), 1, 400)],
)
def test_moments_and_quantiles_are_those_of_the_probabilities(family, offset, size):
    root = 0.2 * np.random.default_rng(1).normal(size=(4, 4))
    moments = np.array([0.3, -0.2, 1.0, -0.5]), root @ root.T + 0.01 * np.eye(4)
    q = Mixture.single((family, family.from_moments(*moments)))
    predictive = CountPredictive(q, True, dispersed=True)
    row, offset = np.random.default_rng(2).normal(size=(1, 2)), np.array([offset])
    k = np.arange(float(size))
    each = np.repeat(row, size, axis=0)
    p = np.exp(predictive.log_density(each, np.repeat(offset, size), k))
    ends = predictive.quantiles(row, offset, P)[0]
    assert ends.tolist() == np.searchsorted(np.cumsum(p), P).tolist()
    if p.sum() > 1.0 - 1e-9:
        (mean,), (std,) = predictive.model.mean_and_std(row, offset)
        assert p @ k == pytest.approx(mean, rel=1e-6)
        assert p @ k**2 - (p @ k) ** 2 == pytest.approx(std**2, rel=1e-5)


def test_intervals_cover_where_counts_vary_more_than_poisson_counts():
    rows, y, years = counted(300, level=2.5)
    new, fresh, later = counted(500, seed=1, level=2.5)
    poisson = poisson_regression(max_iter=1)
    with pytest.warns(OverdispersionWarning, match="likelihood='negative_binomial'"):
        poisson.fit(rows, y, exposure=years)
    inside, density = [], []
    for model in (poisson, regression(max_iter=1).fit(rows, y, exposure=years)):
        low, high = model.predict_interval(new, 0.9, exposure=later).T
        inside.append(np.mean((low <= fresh) & (fresh <= high)))
        answers = model.log_predictive_density(new, fresh, exposure=later)
        density.append(answers.mean())
    assert inside[0] < 0.6 and 0.88 < inside[1] < 0.93
    assert density[1] > density[0] + 1.0


def test_poisson_counts_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverdispersionWarning)
        for seed in range(5):
            rows, y, years = counted(60, dispersion=0, seed=seed)
            poisson_regression(max_iter=1).fit(rows, y, exposure=years)
        # Two far counts of a few are no proof.
        poisson_regression(max_iter=1).fit(X[:8], [0, 0, 0, 3, 0, 3, 0, 0])
        # Nor is anything where weights add up to less than there are coefficients.
        poisson_regression(max_iter=1).fit(X, 9 * Y, np.full(80, 0.01))


@pytest.mark.parametrize("in_groups", [False, True])
def test_deaths_that_end_their_exposure_are_not_warned_of(in_groups):
    """Times of constant hazards are Poisson likelihoods, whatever the exposures are."""
    for seed in range(2 if in_groups else 5):
        rng = np.random.default_rng(seed)
        rows = np.column_stack([rng.normal(size=200), np.arange(200) % 8])
        time = rng.exponential(np.exp(3.0 - 0.5 * rows[:, 0]))
        ends = rng.uniform(5.0, 36.0, 200)
        kind = partial(of_groups, likelihood="poisson")
        model = (kind if in_groups else poisson_regression)(max_iter=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error", OverdispersionWarning)
            model.fit(rows, time < ends, exposure=np.minimum(time, ends))


def test_an_exposure_is_the_exponential_of_an_offset(fitted):
    two = np.full(80, 2.0)
    half = clone(fitted).fit(X, Y, offset=np.log(YEARS / two), exposure=two)
    assert_allclose(half.coef_, fitted.coef_, rtol=1e-6)
    offset, exposure = {"offset": np.log(YEARS)}, {"exposure": YEARS}
    for name, more in {
        "predict": (),
        "predict_interval": (0.8,),
        "predict_quantiles": (),
        "log_predictive_density": (Y,),
        "score": (Y,),
    }.items():
        answer = getattr(fitted, name)
        one, other = answer(X, *more, **offset), answer(X, *more, **exposure)
        assert_allclose(one, other, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("weight", [1e4, 1e12])
def test_many_poisson_counts_leave_no_dispersion(weight):
    """The logarithm of the dispersion may go as far down as it likes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = rng.poisson(np.exp(X @ [0.5, -0.3] + 1.0))
    weights = np.full(60, weight)
    found, wanted = (
        kind(random_state=0).fit(X, y, sample_weight=weights).coef_
        for kind in (regression, poisson_regression)
    )
    assert found == pytest.approx(wanted, abs=0.02)


@pytest.mark.parametrize("level", [-290.0, -1e3, -1.6e4])
def test_counts_without_dispersion_are_poisson(level):
    y, eta = np.arange(4.0), np.array([-1.0, 0.0, 1.0, 1000.0])
    found = NegativeBinomial().log_probability(y, eta, level)
    wanted = stats.poisson.logpmf(y[:3], np.exp(eta[:3]))
    assert found[:3] == pytest.approx(wanted, rel=1e-9)
    assert found[3] < -1e100


# --- in groups


def counts(n=150, n_groups=10, dispersion=0.5, seed=0):
    """Columns (x, group, week), and counts."""
    rng = np.random.default_rng(seed)
    x, group, week = rng.normal(size=n), rng.integers(0, n_groups, n), np.arange(n) % 5
    rate = np.exp(0.5 + 0.5 * x + 0.7 * rng.normal(size=n_groups)[group])
    if dispersion:
        rate = rate * rng.gamma(1.0 / dispersion, dispersion, n)
    return np.column_stack([x, group, week]), rng.poisson(rate)


def of_groups(groups=(1,), likelihood="negative_binomial", **settings):
    return GroupedPoisson(
        groups=list(groups), likelihood=likelihood, random_state=0, **settings
    )


ROWS, EVENTS = counts()


@pytest.fixture(
    scope="module",
    params=["one factor", pytest.param("crossed", marks=pytest.mark.slow)],
)
def grouped(request):
    groups = [1] if request.param == "one factor" else [1, 2]
    return of_groups(groups, max_iter=1).fit(ROWS, EVENTS)


def test_with_groups_the_dispersion_is_a_coordinate_and_an_answer(grouped):
    names = list(grouped.posterior_.names)
    assert {"x0", "intercept", "sd(x1)"} < set(names)
    assert names[-1] == "dispersion" == list(grouped.variance_components_.index)[-1]
    low, high = grouped.dispersion_interval(0.9)
    assert low < 0.5 < high
    assert low < grouped.dispersion_ < high
    drawn = grouped.sample_posterior(500, random_state=0)[2]["dispersion"]
    assert np.median(drawn) == pytest.approx(grouped.dispersion_, rel=0.05)
    assert grouped.effects_pareto_k_ < 0.7


def test_predictions_are_those_of_a_mixture_of_negative_binomials(grouped):
    rows, offset = ROWS[:3], np.array([0.0, 0.5, -0.5])
    coef, intercept, scales, effects = grouped.sample_posterior(1024, random_state=0)
    noise = scales["dispersion"]
    mean, std = grouped.predict(rows, offset=offset, return_std=True)
    ends = grouped.predict_interval(rows, 0.8, offset=offset)
    k = np.arange(400)
    for i in range(3):
        numbers = [x for j, x in enumerate(rows[i]) if f"x{j}" not in effects]
        eta = coef @ numbers + intercept + offset[i]
        for name, drawn in effects.items():
            label = rows[i, int(name[1])]
            eta = eta + drawn[:, list(grouped.group_levels_[name]).index(label), 0]
        p = 1.0 / (1.0 + noise * np.exp(eta))
        mass = stats.nbinom.pmf(k[:, None], 1.0 / noise, p).mean(axis=1)
        assert mean[i] == pytest.approx(mass @ k, rel=1e-3)
        assert std[i] == pytest.approx(np.sqrt(mass @ (k - mass @ k) ** 2), rel=1e-2)
        expected = [np.searchsorted(mass.cumsum(), q - 1e-12) for q in (0.1, 0.9)]
        np.testing.assert_array_equal(ends[i], expected)
        found = grouped.log_predictive_density(
            np.tile(rows[i], (5, 1)), k[:5], offset=np.full(5, offset[i])
        )
        np.testing.assert_allclose(found, np.log(mass[:5]), atol=1e-9)


def test_poisson_counts_are_warned_of_where_residuals_are_too_large():
    with pytest.warns(OverdispersionWarning, match="negative_binomial") as caught:
        model = of_groups(likelihood="poisson", max_iter=1).fit(ROWS, EVENTS)
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="got one with likelihood='poisson'"):
        model.dispersion_interval()
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverdispersionWarning)
        model.fit(*counts(80, 5, dispersion=0.0))
