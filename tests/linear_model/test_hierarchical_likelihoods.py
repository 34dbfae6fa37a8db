"""Groups under Student-t noise and of ordered classes, beside long runs of chains."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import cumulative_trapezoid
from scipy.special import expit
from scipy.stats import norm, t

from skboost import (
    BoostedHierarchicalLinearRegression,
    BoostedHierarchicalLogisticRegression,
    BoostedHierarchicalOrdinalRegression,
)
from skboost.linear_model._group_model import _taken
from skboost.priors import HalfNormalPrior, NoiseScalePrior

pd = pytest.importorskip("pandas")

PRIORS = {
    "prior_scale": 1.0, "intercept_scale": 3.0, "scale_prior": HalfNormalPrior(1.0)
}  # fmt: skip
GRADES = ["poor", "fair", "good", "best"]


def rows(n_groups=10, size=7, seed=0):
    """Columns (x, group), and linear predictors with effects of groups."""
    rng = np.random.default_rng(seed)
    group, x = np.repeat(np.arange(n_groups), size), rng.normal(size=n_groups * size)
    eta = 0.8 * x + rng.normal(size=n_groups)[group]
    return np.column_stack([x, group]), eta, rng


def graded(**options):
    """Columns (x, group), and grades from 0 to 3."""
    X, eta, rng = rows(**options)
    return X, np.digitize(eta + rng.logistic(size=len(X)), [-1.5, 0.0, 1.5])


def with_outliers(n_outliers=5, **options):
    """Columns (x, group), and numbers of which some are far off."""
    X, eta, rng = rows(**options)
    y = eta + 0.4 * rng.normal(size=len(X))
    y[rng.choice(len(X), n_outliers, replace=False)] += 15.0
    return X, y


def of_numbers(**options):
    return BoostedHierarchicalLinearRegression(
        groups=[1], noise="student_t", random_state=0, **options
    )


def of_grades(kind=BoostedHierarchicalOrdinalRegression, **options):
    return kind(groups=[1], random_state=0, **options)


# --- chains


def log_t(y, eta, further):
    return t.logpdf(y, 4.0, eta, np.exp(further))


def prior_of_noise(further):
    """Scaled inverse chi-squared with five degrees of freedom around .5."""
    return (-5.0 * further - 2.5 * 0.25 * np.exp(-2.0 * further))[:, 0]


def log_cumulative(y, eta, further):
    zero, far = np.zeros((len(eta), 1)), np.full((len(eta), 1), np.inf)
    thresholds = np.hstack([zero, np.exp(further)]).cumsum(axis=1)
    ends = np.hstack([-far, thresholds, far])
    below, above = (np.take_along_axis(ends, y[None] + k, axis=1) for k in (0, 1))
    return np.log(expit(above - eta) - expit(below - eta))


def prior_of_gaps(further):
    return norm.logpdf(further, scale=1.5).sum(axis=1)


def long_run(X, y, log_likelihood, log_prior, start, n_steps=2500, seed=1):
    """Draws of (coefficient, intercept, log scale, further) by a Metropolis sampler.

    All chains go at once; effects of each group move by themselves, and start is a
    table of chains.
    """
    rng, group = np.random.default_rng(seed), X[:, 1].astype(int)
    theta, v = start.copy(), rng.normal(size=(len(start), group.max() + 1))
    root = np.linalg.cholesky(np.cov(start.T)) * 1.6 / np.sqrt(theta.shape[1])
    starts = np.flatnonzero(np.diff(group, prepend=-1))

    def by_group(theta, v):
        scale = np.exp(theta[:, 2:3])
        eta = theta[:, :1] * X[:, 0] + theta[:, 1:2] + (scale * v)[:, group]
        return np.add.reduceat(log_likelihood(y, eta, theta[:, 3:]), starts, axis=1)

    def prior(theta):
        # The intercept has its prior at the centre of the column.
        centre = theta[:, 1] + X[:, 0].mean() * theta[:, 0]
        levels = norm.logpdf(theta[:, 0]) + norm.logpdf(centre, scale=3.0)
        levels += norm.logpdf(np.exp(theta[:, 2])) + theta[:, 2]
        return levels + log_prior(theta[:, 3:])

    kept, now = [], by_group(theta, v)
    for turn in range(n_steps):
        moved = 0.8 * v + 0.6 * rng.normal(size=v.shape)
        then = by_group(theta, moved)
        yes = np.log(rng.random(v.shape)) < then - now
        v, now = np.where(yes, moved, v), np.where(yes, then, now)
        moved = theta + rng.normal(size=theta.shape) @ root.T
        then = by_group(moved, v)
        gain = (then - now).sum(axis=1) + prior(moved) - prior(theta)
        yes = (np.log(rng.random(len(v))) < gain)[:, None]
        theta, now = np.where(yes, moved, theta), np.where(yes, then, now)
        # Effects and their scale, and effects and the intercept, move together, and
        # leave the likelihood as it is.
        for place, move in ((2, _stretched), (1, _shifted)):
            moved, step = theta.copy(), 0.3 * rng.normal(size=len(v))
            moved[:, place] += step
            shifted = move(v, step[:, None], np.exp(theta[:, 2:3]))
            gain = prior(moved) - prior(theta) - (step * v.shape[1]) * (place == 2)
            gain += 0.5 * ((v**2).sum(axis=1) - (shifted**2).sum(axis=1))
            yes = (np.log(rng.random(len(v))) < gain)[:, None]
            theta, v = np.where(yes, moved, theta), np.where(yes, shifted, v)
        if turn >= n_steps // 5:
            kept.append(theta)
    return np.concatenate(kept)


def _stretched(v, step, scale):
    return v * np.exp(-step)


def _shifted(v, step, scale):
    return v - step / scale


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "model", "log_likelihood", "log_prior"),
    [
        (
            with_outliers,
            of_numbers(noise_prior=NoiseScalePrior(5.0, 0.5), **PRIORS),
            log_t,
            prior_of_noise,
        ),
        (graded, of_grades(**PRIORS), log_cumulative, prior_of_gaps),
    ],
)
def test_a_fit_is_what_long_chains_find(data, model, log_likelihood, log_prior):
    X, y = data()
    model.fit(X, y)
    found = model.posterior_.sample(4000, random_state=0)
    found[:, 2:] = np.log(found[:, 2:])
    exact = long_run(X, y, log_likelihood, log_prior, found[:200])
    spread = exact.std(axis=0)
    assert (np.abs(found.mean(axis=0) - exact.mean(axis=0)) < 0.1 * spread).all()
    assert_allclose(found.std(axis=0), spread, rtol=0.1)


# --- Student-t noise


def test_outliers_mislead_normal_noise_and_not_student_t():
    X, y = with_outliers()
    _, eta, _ = rows()
    fits = [
        of_numbers(max_iter=1).set_params(noise=kind)
        for kind in ("normal", "student_t")
    ]
    errors = [np.abs(fit.fit(X, y).predict(X) - eta).mean() for fit in fits]
    assert errors[1] < 0.25 < 0.8 < errors[0]
    misled, robust = fits
    assert np.abs(robust.coef_[0] - 0.8) < 3.0 * robust.posterior_.std()[0] < 0.3
    assert misled.posterior_.std()[0] > 3.0 * robust.posterior_.std()[0]
    # Intervals of nine tenths of the rows that are not far off.
    low, high = robust.predict_interval(X).T
    assert high.mean() - low.mean() < 4.0
    near = np.abs(y - eta) < 5.0
    assert ((low < y) & (y < high))[near].mean() > 0.85


def test_predictions_of_numbers_have_the_tails_of_their_noise():
    X, y = with_outliers()
    model = of_numbers(max_iter=1).fit(X, y)
    here = np.vstack([X[:1], [[0.3, 99]]])
    grid = np.linspace(-60.0, 60.0, 6001)
    for row in here:
        density = np.exp(
            model.log_predictive_density(np.tile(row, (len(grid), 1)), grid)
        )
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)
        ends = model.predict_quantiles(row[None], [0.01, 0.9])[0]
        below = cumulative_trapezoid(density, grid, initial=0.0)
        cumulative = np.interp(ends, grid, below)
        assert_allclose(cumulative, [0.01, 0.9], atol=2e-3)
        mean, std = model.predict(row[None], return_std=True)
        moment = np.trapezoid(density * (grid - mean) ** 2, grid)
        assert std[0] == pytest.approx(np.sqrt(moment), rel=0.02)
    # Noise with two degrees of freedom has no variance, but a median.
    wide = of_numbers(noise_df=2.0, max_iter=1).fit(X, y)
    assert np.isinf(wide.predict(X[:2], return_std=True)[1]).all()
    assert wide.icc_ == {"x1": 0.0}
    assert np.isfinite(wide.predict_interval(X[:2])).all()


@pytest.mark.slow
def test_crossed_factors_have_student_t_noise():
    X, y = with_outliers(n_groups=8, size=6)
    X = np.column_stack([X, np.tile(np.arange(6), 8)])
    model = of_numbers(max_iter=1).set_params(groups=[1, 2]).fit(X, y)
    assert model.effects_efficiency_ > 0.3 and model.effects_pareto_k_ < 0.7
    assert np.abs(model.coef_[0] - 0.8) < 3.0 * model.posterior_.std()[0]


# --- ordered classes


@pytest.mark.slow
def test_two_ordered_classes_are_two_classes():
    X, y = graded()
    y = np.array(["no", "yes"])[(y > 1).astype(int)]
    ordered = of_grades().fit(X, y)
    plain = of_grades(BoostedHierarchicalLogisticRegression).fit(X, y)
    assert ordered.posterior_.names == plain.posterior_.names
    assert_allclose(ordered.elbo_, plain.elbo_, atol=0.02)
    sd = plain.posterior_.std()
    assert_allclose(
        ordered.posterior_.mean() / sd, plain.posterior_.mean() / sd, atol=0.1
    )
    assert_allclose(ordered.posterior_.std(), sd, rtol=0.1)
    assert_allclose(ordered.predict_proba(X), plain.predict_proba(X), atol=0.03)
    ends = ordered.predict_proba_interval(X), plain.predict_proba_interval(X)
    assert_allclose(*ends, atol=0.06)
    assert_allclose(ordered.thresholds_, [-ordered.intercept_])


@pytest.fixture(scope="module")
def grades():
    """A fitted model of grades by name, its rows and grades."""
    X, y = graded()
    y = np.array(GRADES)[y]
    return of_grades(categories=GRADES, max_iter=1).fit(X, y), X, y


def test_grades_have_probabilities_in_their_order(grades):
    model, X, y = grades
    assert model.classes_.tolist() == GRADES
    proba = model.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert model.score(X, y) > max(np.mean(y == grade) for grade in GRADES)
    intervals = model.predict_proba_interval(X, 0.8)
    assert intervals.shape == (len(X), 4, 2)
    assert (intervals[..., 0] < proba).all() and (proba < intervals[..., 1]).all()
    assert_allclose(
        model.log_predictive_density(X[:3], y[:3]),
        np.log(proba[np.arange(3), [GRADES.index(grade) for grade in y[:3]]]),
    )
    # A larger x is a better grade, and a new judge is less certain.
    steps = model.predict_proba([[x, 3] for x in (-9.0, 0.0, 9.0)]).cumsum(axis=1)
    assert (np.diff(steps[:, :-1], axis=0) < 0.0).all()
    known, new = np.ptp(model.predict_proba_interval([[0, 3], [0, 99]]), axis=2)
    assert new.mean() > 1.3 * known.mean()
    with pytest.raises(ValueError, match="labels among the classes.*'awful'"):
        model.log_predictive_density(X[:1], ["awful"])
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict_proba(X), proba)


def test_thresholds_stand_where_an_intercept_would(grades):
    model, _, _ = grades
    coef, thresholds, scales, effects = model.sample_posterior(500, random_state=0)
    assert (np.diff(thresholds, axis=1) > 0.0).all() and list(scales) == ["sd(x1)"]
    assert coef.shape == (500, 1) and effects["x1"].shape == (500, 10, 1)
    assert_allclose(thresholds.mean(axis=0), model.thresholds_, atol=0.15)
    assert list(model.variance_components_.index) == ["sd(x1)"]
    table = model.summary().coefficients
    assert list(table.index) == ["x0", "poor|fair", "fair|good", "good|best"]
    assert_allclose(table["mean"][1:], model.thresholds_, atol=0.1)
    assert "good|best" in str(model.summary())


def test_offsets_are_part_of_the_linear_predictor(grades):
    model, X, y = grades
    shift = 0.5 * X[:, 0] + 0.3
    moved = of_grades(categories=GRADES, max_iter=1).fit(X, y, offset=shift)
    sd = model.posterior_.std()
    assert moved.coef_[0] == pytest.approx(model.coef_[0] - 0.5, abs=0.5 * sd[0])
    proba = moved.predict_proba(X, offset=shift)
    assert_allclose(proba, model.predict_proba(X), atol=0.05)
    hits = moved.predict(X, offset=shift) == y
    assert moved.score(X, y, offset=shift) == pytest.approx(hits.mean())
    with pytest.warns(UserWarning, match="offset"):
        assert np.abs(moved.predict_proba(X) - proba).max() > 0.05


def test_one_class_and_unknown_ones_are_refused():
    X, y = graded()
    with pytest.raises(ValueError, match="at least two classes; got one class"):
        of_grades().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="labels among the classes"):
        of_grades(categories=[0, 1, 2]).fit(X, y)


def test_a_formula_reads_the_order_of_categories():
    pytest.importorskip("formulaic")
    X, y = graded()
    frame = pd.DataFrame({"x": X[:, 0], "judge": X[:, 1].astype(int)})
    frame["grade"] = pd.Categorical.from_codes(y, GRADES, ordered=True)
    model = BoostedHierarchicalOrdinalRegression.from_formula(
        "grade ~ x + (1 | judge)", frame, max_iter=1, random_state=0
    )
    assert model.classes_.tolist() == GRADES
    assert model.predict_proba(frame[:2]).shape == (2, 4)
    plain = of_grades(max_iter=1).set_params(groups=["judge"])
    plain.fit(frame[["x", "judge"]], frame["grade"])
    assert_allclose(
        plain.predict_proba(frame[["x", "judge"]]), model.predict_proba(frame)
    )


def test_draws_that_are_taken_anew_have_the_moments_of_their_shares():
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.5, 1.5, 2000)
    share, draws = weight / weight.sum(), rng.normal(size=(3, 2, 2000))
    (found,) = _taken([draws], share, np.random.default_rng(1))
    mean = (draws @ share)[..., None]
    off, left = draws - mean, found - mean
    assert_allclose(left.mean(axis=-1), 0.0, atol=1e-12)
    wanted = (off * share) @ off.swapaxes(-1, -2)
    assert_allclose(left @ left.swapaxes(-1, -2) / 2000, wanted, rtol=1e-9)
