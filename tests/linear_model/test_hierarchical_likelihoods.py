"""Groups of every likelihood beside quadrature by hand; Student-t noise and grades."""

from functools import partial

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import cumulative_trapezoid
from scipy.special import expit, logsumexp
from scipy.stats import halfnorm, invgamma, nbinom, norm, poisson, t

from skboost.linear_model._group_model import _taken
from skboost.priors import HalfNormalPrior, NoiseScalePrior

from ..kinds import GROUPED, over

GroupedLinear, GroupedLogistic, GroupedOrdinal, GroupedPoisson = GROUPED


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
    return GroupedLinear(groups=[1], noise="student_t", random_state=0, **options)


def of_grades(kind=GroupedOrdinal, **options):
    return kind(groups=[1], random_state=0, **options)


def log_t(y, eta, further):
    return t.logpdf(y, 4.0, eta, np.exp(further))


def log_normal(y, eta, further):
    return norm.logpdf(y, eta, np.exp(further))


def prior_of_noise(further):
    """Scaled inverse chi-squared with five degrees of freedom around .5."""
    variance = np.exp(2.0 * further)
    density = invgamma.logpdf(variance, 2.5, scale=2.5 * 0.25) + np.log(2.0 * variance)
    return density[:, 0]


def log_cumulative(y, eta, further):
    zero, far = np.zeros((len(eta), 1)), np.full((len(eta), 1), np.inf)
    thresholds = np.hstack([zero, np.exp(further)]).cumsum(axis=1)
    ends = np.hstack([-far, thresholds, far])
    below, above = (np.take_along_axis(ends, y[None] + k, axis=1) for k in (0, 1))
    return np.log(expit(above - eta) - expit(below - eta))


def prior_of_gaps(further):
    return norm.logpdf(further, scale=1.5).sum(axis=1)


def log_joint_of(X, y, log_likelihood, log_prior):
    """Of coefficient, intercept, scale and further parameters, effects integrated."""
    nodes, shares = hermegauss(80)
    starts = np.flatnonzero(np.diff(X[:, 1], prepend=-1))

    def log_joint(theta):
        eta, further = theta[:, :1] * X[:, 0] + theta[:, 1:2], np.log(theta[:, 3:])
        by_node = [
            np.add.reduceat(
                log_likelihood(y, eta + theta[:, 2:3] * v, further), starts, axis=1
            )
            for v in nodes
        ]
        weights = (shares / shares.sum())[:, None, None]
        value = logsumexp(by_node, axis=0, b=weights).sum(axis=1)
        centre = theta[:, 1] + X[:, 0].mean() * theta[:, 0]
        value += norm.logpdf(theta[:, 0]) + norm.logpdf(centre, scale=3.0)
        value += halfnorm.logpdf(theta[:, 2])
        return value + log_prior(further) - further.sum(axis=1)

    return log_joint


def nothing(further):
    return 0.0


def log_negative_binomial(y, eta, further):
    size = np.exp(-further)
    return nbinom.logpmf(y, size, size / (size + np.exp(eta)))


def counted(**options):
    X, eta, rng = rows(**options)
    return X, rng.poisson(np.exp(0.7 * eta) * rng.gamma(2.0, 0.5, len(X)))


NOISE_PRIOR = {"noise_prior": NoiseScalePrior(5.0, 0.5)}
COUNTS = GroupedPoisson
NEGATIVE = {"likelihood": "negative_binomial"}
FITS = {
    # Coefficients of this one are integrated out.
    "normal": (
        partial(with_outliers, 0),
        of_numbers(**NOISE_PRIOR, **PRIORS).set_params(noise="normal"),
        log_normal, prior_of_noise,
    ),
    "student_t": (
        with_outliers, of_numbers(**NOISE_PRIOR, **PRIORS), log_t, prior_of_noise,
    ),
    "ordered": (graded, of_grades(**PRIORS), log_cumulative, prior_of_gaps),
    "two classes": (
        lambda: (graded()[0], graded()[1] // 2),
        of_grades(GroupedLogistic, **PRIORS),
        lambda y, eta, further: y * eta - np.logaddexp(0.0, eta), nothing,
    ),
    "poisson": (
        counted, of_grades(COUNTS, **PRIORS),
        lambda y, eta, further: poisson.logpmf(y, np.exp(eta)), nothing,
    ),
    "negative binomial": (
        counted, of_grades(COUNTS, **NEGATIVE, **PRIORS), log_negative_binomial,
        lambda further: norm.logpdf(further[:, 0], np.log(0.25), 2.0),
    ),
}  # fmt: skip


# Pareto shapes of weights that are nearly equal are noise.
@pytest.mark.filterwarnings("ignore::skboost.posterior.ImportanceWarning")
@pytest.mark.filterwarnings("ignore::skboost.exceptions.OverdispersionWarning")
@over("name", FITS, slow=["student_t", "poisson", "negative binomial"])
def test_a_fit_is_what_quadrature_finds(name):
    data, model, log_likelihood, log_prior = FITS[name]
    X, y = data()
    posterior = model.fit(X, y).posterior_
    log_joint = log_joint_of(X, y, log_likelihood, log_prior)
    sample = posterior.importance_weights(log_joint, n=400, random_state=0)
    assert sample.effective_sample_size > 0.85 * 400
    assert sample.log_evidence == pytest.approx(model.elbo_, abs=0.1)
    weights = np.exp(sample.log_weights - sample.log_weights.max())
    mean = np.average(sample.draws, axis=0, weights=weights)
    # A tenth, and four standard errors of what the draws tell of the difference.
    shift = np.abs(mean - sample.draws.mean(axis=0)) / posterior.std()
    assert (shift < 0.1 + 4.0 * (weights / weights.mean()).std() / np.sqrt(400)).all()
    assert_array_equal(model.coef_, posterior.mean()[:1])


@pytest.fixture(scope="module")
def robust():
    return of_numbers(max_iter=1).fit(*with_outliers())


def test_outliers_mislead_normal_noise_and_not_student_t(robust):
    X, y = with_outliers()
    _, eta, _ = rows()
    misled = of_numbers(max_iter=1).set_params(noise="normal").fit(X, y)
    errors = [np.abs(fit.predict(X) - eta).mean() for fit in (misled, robust)]
    assert errors[1] < 0.25 < 0.8 < errors[0]
    assert np.abs(robust.coef_[0] - 0.8) < 3.0 * robust.posterior_.std()[0] < 0.3
    assert misled.posterior_.std()[0] > 3.0 * robust.posterior_.std()[0]
    # Intervals of nine tenths of the rows that are not far off.
    low, high = robust.predict_interval(X).T
    assert high.mean() - low.mean() < 4.0
    near = np.abs(y - eta) < 5.0
    assert ((low < y) & (y < high))[near].mean() > 0.85


def test_predictions_of_numbers_have_the_tails_of_their_noise(robust):
    (X, _), model = with_outliers(), robust
    here = np.vstack([X[:1], [[0.3, 99]]])
    grid = np.linspace(-60.0, 60.0, 2401)
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


@pytest.mark.slow
def test_crossed_factors_have_student_t_noise():
    X, y = with_outliers(n_groups=8, size=6)
    X = np.column_stack([X, np.tile(np.arange(6), 8)])
    model = of_numbers(max_iter=1).set_params(groups=[1, 2]).fit(X, y)
    assert model.effects_efficiency_ > 0.3 and model.effects_pareto_k_ < 0.7
    assert np.abs(model.coef_[0] - 0.8) < 3.0 * model.posterior_.std()[0]


@pytest.fixture(scope="module")
def grades():
    """A fitted model of grades by name, its rows and grades."""
    X, y = graded()
    y = np.array(GRADES)[y]
    return of_grades(categories=GRADES, max_iter=1).fit(X, y), X, y


def test_grades_have_probabilities_in_their_order(grades):
    model, X, y = grades
    assert model.categories_.tolist() == GRADES
    proba = model.predict_proba(X)
    assert model.score(X, y) > max(np.mean(y == grade) for grade in GRADES)
    intervals = model.predict_proba_interval(X, 0.8)
    assert intervals.shape == (len(X), 4, 2)
    assert (intervals[..., 0] < proba).all() and (proba < intervals[..., 1]).all()
    # A larger x is a better grade, and a new judge is less certain.
    steps = model.predict_proba([[x, 3] for x in (-9.0, 0.0, 9.0)])
    steps = steps[:, np.searchsorted(model.classes_, GRADES)].cumsum(axis=1)
    assert (np.diff(steps[:, :-1], axis=0) < 0.0).all()
    known, new = np.ptp(model.predict_proba_interval([[0, 3], [0, 99]]), axis=2)
    assert new.mean() > 1.3 * known.mean()
    with pytest.raises(ValueError, match="labels among the classes.*'awful'"):
        model.log_predictive_density(X[:1], ["awful"])


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
    for labels, words in ((y > 9, "of another class"), (y, "OrdinalRegression where")):
        with pytest.raises(ValueError, match=words):
            GroupedLogistic(groups=[1]).fit(X, labels)


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
