"""A learned scale of the prior: against brute force, on known scales, in bad hands."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import logsumexp
from scipy.stats import t
from sklearn.base import clone

from skboost.priors import HalfNormalPrior, HalfTPrior
from skboost.targets import NoiseScalePrior

from ..kinds import Linear, Logistic, Poisson

QUICK = {"prior_scale": "learn", "orbit": None, "random_state": 0}


def data_for(model, n=30, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    eta = 0.4 * X @ rng.standard_normal(d)
    if model is Linear:
        return X, eta + rng.standard_normal(n)
    if model is Logistic:
        return X, (eta + rng.logistic(size=n) > 0).astype(int)
    return X, rng.poisson(np.exp(eta))


def central_ends(mass, log_s):
    """Of the interval with 90 % of the probability of nodes of a grid."""
    # Half of a node's mass lies below it.
    return np.exp(np.interp([0.05, 0.95], mass.cumsum() - 0.5 * mass, log_s))


def weighted(mass, values):
    """Mean and standard deviation."""
    mean = np.tensordot(mass, values, axes=mass.ndim)
    square = np.tensordot(mass, values**2, axes=mass.ndim)
    return mean, np.sqrt(square - mean**2)


def dense_quadrature(X, y, log_s, level, fit_intercept=True, temperature=1.0):
    """Probabilities of a grid of scale and noise; coefficients and their squares."""
    n, spread = len(y), y.std()
    unit = spread / X.std(axis=0)
    intercept = np.linalg.norm([10 * spread, y.mean()])
    back = np.eye(X.shape[1] + fit_intercept)
    if fit_intercept:
        back[-1, :-1] = -X.mean(axis=0)
    A = np.column_stack([X, np.ones(n)]) if fit_intercept else X
    log_joint = HalfTPrior(scale=1.5).value_and_score(log_s)[0]
    log_joint += NoiseScalePrior(0.1, 1e-2 * spread).value_and_score(level)[0]
    ends = np.full((*log_s.shape, 1), intercept)
    scales = np.append(np.exp(log_s)[..., None] * unit, ends, axis=-1)
    S = (back * scales[..., None, : A.shape[1]] ** 2) @ back.T
    noise = np.exp(2 * level)
    total = A @ S @ A.T + noise[..., None, None] / temperature * np.eye(n)
    # A power of a normal density is one of a larger variance, and a factor.
    log_joint += 0.5 * n * np.log(noise / temperature)
    log_joint -= 0.5 * temperature * n * np.log(2 * np.pi * noise)
    gain = np.linalg.solve(total, A @ S).swapaxes(-1, -2)
    log_joint -= 0.5 * np.linalg.slogdet(total)[1]
    log_joint -= 0.5 * np.linalg.solve(total, y[:, None])[..., 0] @ y
    coef = gain @ y
    square = coef**2 + np.diagonal(S - gain @ A @ S, axis1=-2, axis2=-1)
    mass = np.exp(log_joint - log_joint.max())
    return mass / mass.sum(), coef, square


@pytest.mark.parametrize(("fit_intercept", "temperature"), [(1, 1.0), (1, 0.5), (0, 1)])
def test_moments_of_every_scale_are_those_of_quadrature(fit_intercept, temperature):
    X, y = data_for(Linear, n=15, d=3)
    if fit_intercept:
        X, y = X + [2.0, 0.0, -3.0], y + 20.0
    chosen = {"fit_intercept": bool(fit_intercept), "temperature": temperature}
    model = Linear(**QUICK | chosen).fit(X, y)
    low, high = np.log(y.std()) + [-2.0, 2.0]
    log_s, level = np.mgrid[-8:4:36j, low:high:28j]
    mass, coef, square = dense_quadrature(X, y, log_s, level, **chosen)
    mean = np.tensordot(mass, coef, 2)
    std = np.sqrt(np.tensordot(mass, square - 2 * coef * mean + mean**2, 2))
    found, n = model._fit.mixture, 3 + fit_intercept
    assert np.all(np.abs(found.mean()[:n] - mean) < 0.03 * std)
    assert np.sqrt(found.covariance().diagonal())[:n] == pytest.approx(std, rel=0.03)
    scale, spread = weighted(mass, np.exp(log_s))
    assert model.prior_scale_ == pytest.approx(scale, abs=0.1 * spread)
    ends = central_ends(mass.sum(axis=1), log_s[:, 0])
    assert model.prior_scale_interval() == pytest.approx(ends, rel=0.1)


def test_a_known_noise_scale_leaves_nothing_at_any_scale_of_the_prior():
    X, y = data_for(Linear, n=15, d=3)
    model = Linear(**QUICK, noise_scale=0.8).fit(X, y)
    assert model.remaining_kl_ == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_with_more_columns_than_rows_noise_or_coefficients_explain_them(seed):
    # Of these noise below a tenth has a probability of .01, and of .88.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((240, 60))
    y = (X[:, :5].sum(axis=1) + rng.standard_normal(240))[:40]
    model = Linear(random_state=0).fit(X[:40], y)
    log_s, level = np.mgrid[-5:1:20j, -6:1.5:30j]
    mass, coef, _ = dense_quadrature(X[:40], y, log_s, level)
    expected = np.tensordot(mass, coef, 2)
    found = np.append(model.coef_, model.intercept_)
    assert np.linalg.norm(found - expected) < 0.2 * np.linalg.norm(expected)
    small = mass[level < np.log(0.1 * y.std())].sum()
    draws = model.posterior_.sample(4000, random_state=0)[:, -1]
    assert np.mean(draws < np.log(0.1 * y.std())) == pytest.approx(small, abs=0.15)


def test_a_scale_that_is_known_is_found():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40))
    y = X @ (0.3 * rng.standard_normal(40)) + 0.5 * rng.standard_normal(300)
    model = Linear(**QUICK).fit(X, y)
    low, high = y.std() * model.prior_scale_interval()
    assert low < 0.3 < high
    # Of 40 known coefficients it would be 1.45.
    assert high / low < 1.7


def test_other_priors():
    model = Logistic
    X, y = data_for(model)
    normal = model(**QUICK).fit(X, y)
    for prior in ("laplace", "student_t"):
        fitted = model(prior=prior, **QUICK).fit(X, y)
        assert fitted.elbo_ == pytest.approx(normal.elbo_, abs=1.5)
        assert np.abs(fitted.coef_ - normal.coef_).max() < normal.posterior_.std().max()


def test_nothing_to_explain_with_as_many_columns_as_rows():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((20, 20)), rng.standard_normal(20)
    model = Linear(**QUICK).fit(X, y)
    # Components that explain all of it, without any noise, leave half a nat.
    assert model.remaining_kl_ < 0.25
    assert model.prior_scale_ < 0.2


@pytest.mark.parametrize("none_in_a_group", [False, True])
def test_the_scale_of_counts_is_near_quadrature(none_in_a_group):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    rate, exposure = np.exp(0.5 * X[:, 0]), rng.uniform(0.5, 3.0, 20)
    if none_in_a_group:
        # Its coefficient has no end but the prior's.
        X[:, 0] = np.arange(20) % 2
        rate = 1.0 - X[:, 0]
    y = rng.poisson(exposure * rate)
    settings = QUICK | {"fit_intercept": False}
    model = Poisson(**settings).fit(X, y, exposure=exposure)
    log_s, axis = np.linspace(-6, 5, 50), np.linspace(-7, 7, 141)
    z = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    eta = (X / X.std(axis=0)) @ z.T
    mass = HalfTPrior(scale=1.5).value_and_score(log_s)[0]
    for k, s in enumerate(np.exp(log_s)):
        log_joint = -0.5 * (z**2).sum(axis=1) + y @ (s * eta)
        log_joint -= exposure @ np.exp(np.minimum(s * eta, 50.0))
        mass[k] += logsumexp(log_joint)
    mass = np.exp(mass - mass.max())
    ends = central_ends(mass / mass.sum(), log_s)
    assert model.prior_scale_interval() == pytest.approx(ends, rel=0.15)


@pytest.mark.parametrize("weight", [1e-13, [1e-14, 7.0, 4e2, 2e5, 3e-8, 1e-9]])
@pytest.mark.parametrize("count", [0.0, 1e4])
def test_counts_of_extreme_weights_have_a_posterior(weight, count):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((6, 7)), count + np.arange(6.0)
    model = Poisson(**QUICK, max_iter=1)
    model.fit(X, y, sample_weight=np.broadcast_to(weight, 6))
    assert np.isfinite(model._fit.mixture.covariance()).all()
    assert np.isfinite(model.predict(X)).all() and model.prior_scale_ > 0.0


def student_t_joint(X, y, log_s, level):
    """Log joint density on a grid of a coefficient in its unit, scale and noise."""
    z = np.linspace(-3, 4, 300)[:, None, None]
    value = -0.5 * (z / np.exp(log_s)[:, None]) ** 2 - log_s[:, None]
    value = value + HalfTPrior(scale=1.5).value_and_score(log_s)[0][:, None]
    value = value + NoiseScalePrior(0.1, 1e-2 * y.std()).value_and_score(level)[0]
    for x, one in zip(X[:, 0] * y.std() / X.std(), y, strict=True):
        value = value + t(4.0, x * z, np.exp(level)).logpdf(one)
    return np.exp(value - value.max())


@pytest.mark.parametrize("n_more", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_student_t_noise_is_near_quadrature_and_weights_of_scales_are_held(n_more):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((12, 1))
    y = X[:, 0] + 0.7 * rng.standard_t(3, size=12)
    settings = QUICK | {"noise": "student_t", "fit_intercept": False}
    model = Linear(**settings).fit(X, y)
    if n_more:
        model.set_params(tol=0.0, max_iter=model.n_iter_ + n_more).fit(X, y)
    log_s, level = np.linspace(-7, 5, 60), np.linspace(-3, 1.5, 40)
    mass = student_t_joint(X, y, log_s, level)
    mass /= mass.sum()
    ends = central_ends(mass.sum(axis=(0, 2)), log_s)
    assert model.prior_scale_interval() == pytest.approx(ends, rel=0.15)
    mean, std = weighted(mass.sum(axis=(0, 1)), level)
    assert model.posterior_.mean()[-1] == pytest.approx(mean, abs=0.1 * std)
    assert model.posterior_.std()[-1] == pytest.approx(std, rel=0.15)


@pytest.mark.slow
def test_noise_with_outliers_or_coefficients_explain_few_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 40))
    y = X[:, :3].sum(axis=1) + 0.1 * rng.standard_t(3, size=20)
    model = Linear(**QUICK, noise="student_t").fit(X, y)
    # Both have mass: one alone loses .3 and .8 nats.
    level = np.array([one.location()[-1] for one in model._fit.mixture.components])
    assert level.min() < -4.0 and level.max() > -1.5


def test_three_classes_sparse_rows_and_weights():
    X, y = data_for(Logistic)
    y = y + (X[:, 0] > 0.5)
    weight = 1 + np.arange(len(y)) % 2
    model = Logistic(class_weight="balanced", **QUICK)
    dense = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    thin = clone(model).fit(csr_matrix(X), y, sample_weight=weight)
    assert thin.coef_ == pytest.approx(dense.coef_, rel=1e-3, abs=1e-4)
    assert dense.predict_proba(X).sum(axis=1) == pytest.approx(1.0)


def test_a_learned_scale_goes_on_with_more_data_and_in_pickles():
    X, y = data_for(Poisson)
    model = Poisson(**QUICK).fit(X[:20], y[:20])
    before = model.prior_scale_interval()
    model.partial_fit(X[20:], y[20:])
    assert np.ptp(np.log(model.prior_scale_interval())) < np.ptp(np.log(before))
    again = pickle.loads(pickle.dumps(model))
    # Without the density draws are made of stored ones.
    assert again.prior_scale_ == pytest.approx(model.prior_scale_, rel=0.1)
    whole = Poisson(**QUICK).fit(X, y)
    assert model.prior_scale_ == pytest.approx(whole.prior_scale_, rel=0.3)


@pytest.mark.slow
def test_families_of_components():
    X, y = data_for(Logistic, d=2)
    full = Logistic(**QUICK).fit(X, y)
    for family in ("gaussian-diag", "gaussian-low-rank", "student_t", "laplace"):
        model = Logistic(family=family, **QUICK).fit(X, y)
        assert model.prior_scale_ == pytest.approx(full.prior_scale_, rel=0.25)


def test_a_prior_of_the_scale_in_place_of_the_default_one():
    X, y = data_for(Linear)
    model = Linear(**QUICK | {"prior_scale": HalfTPrior(scale=1.5)})
    default = Linear(**QUICK).fit(X, y)
    assert model.fit(X, y).prior_scale_ == default.prior_scale_
    narrow = clone(model).set_params(prior_scale=HalfNormalPrior(scale=0.05))
    assert narrow.fit(X, y).prior_scale_ < 0.5 * default.prior_scale_
