"""The boosted mixture: closed forms, the predictive density, the posterior object."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp, multigammaln

from skboost.mixture import ConjugateMixturePosterior

from .conftest import two_groups

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
TYPES = ["full", "tied", "diag", "spherical"]


# --- one cluster: everything is known


def one_cluster(X):
    """Normal-Wishart posterior under the default priors: m, precision, dof, rate."""
    n, dim = X.shape
    mean, prior_rate = X.mean(axis=0), np.cov(X.T)
    rate = prior_rate + (n - 1) * np.cov(X.T)
    return mean, 1.0 + n, dim + n, rate


def test_one_cluster_predicts_by_its_student_t(groups, model):
    X, _ = groups
    fit = model(n_components=1).fit(X)
    mean, precision, dof, rate = one_cluster(X)
    df = dof - X.shape[1] + 1
    scale = rate * (precision + 1) / (precision * df)
    expected = stats.multivariate_t(mean, scale, df).logpdf(X)
    assert_allclose(fit.score_samples(X), expected, atol=1e-3)


def test_one_cluster_has_the_exact_evidence(groups, model):
    X, _ = groups
    n, dim = X.shape
    fit = model(n_components=1).fit(X)
    _, precision, dof, rate = one_cluster(X)
    exact = (
        -0.5 * n * dim * np.log(np.pi)
        + multigammaln(dof / 2, dim)
        - multigammaln(dim / 2, dim)
        + 0.5 * dim * np.linalg.slogdet(np.cov(X.T))[1]
        - 0.5 * dof * np.linalg.slogdet(rate)[1]
        - 0.5 * dim * np.log(precision)
    )
    assert_allclose(fit.elbo_, exact, atol=4.0 * fit.elbo_se_ + 1e-6)


def test_marginals_of_one_cluster(groups, model):
    X, _ = groups
    posterior = model(n_components=1).fit(X).posterior_
    mean, precision, dof, rate = one_cluster(X)
    df = dof - X.shape[1] + 1
    exact = stats.t(df, mean[1], np.sqrt(rate[1, 1] / (precision * df)))
    marginal, p = posterior.marginal("means[0, 1]"), np.array([0.05, 0.5, 0.95])
    # Quantiles of 8,192 draws: standard error about sqrt(p (1 - p) / n) / pdf.
    error = np.sqrt(p * (1 - p) / 8192) / exact.pdf(exact.ppf(p))
    assert (np.abs(marginal.quantile(p) - exact.ppf(p)) < 4.0 * error).all()
    assert_allclose(marginal.cdf(exact.ppf(p)), p, atol=0.025)


# --- the predictive distribution


def test_the_predictive_density_averages_over_draws(fitted, groups):
    X = groups[0][:20]
    draws = fitted.posterior_.sample(20_000, random_state=1)
    densities = np.zeros((len(draws["weights"]), len(X)))
    for k in range(2):
        away = X - draws["means"][:, k, None]
        precision = draws["precisions"][:, k]
        squares = np.einsum("snd,sde,sne->sn", away, precision, away)
        log_det = np.linalg.slogdet(precision)[1][:, None]
        density = np.exp(0.5 * (log_det - squares)) / (2 * np.pi)
        densities += draws["weights"][:, k, None] * density
    mean = densities.mean(axis=0)
    error = densities.std(axis=0) / np.sqrt(len(densities))
    found = np.exp(fitted.score_samples(X))
    assert (np.abs(found - mean) < 4.5 * error).all()


def test_probabilities_are_shares_of_the_predictive_density(fitted, groups):
    X, labels = groups
    proba = fitted.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.array_equal(fitted.predict(X), proba.argmax(axis=1))
    agree = (fitted.predict(X) == labels).mean()
    assert max(agree, 1.0 - agree) > 0.95


def test_a_missing_value_is_marginalised(fitted):
    """Density of what is seen: the integral over what is not."""
    x = 0.7
    found = fitted.score_samples([[x, np.nan]])[0]
    mass, _ = quad(
        lambda y: np.exp(fitted.score_samples([[x, y]])[0]), -100, 100, points=[0, 4],
        limit=300,
    )  # fmt: skip
    assert_allclose(np.exp(found), mass, rtol=1e-5)
    assert fitted.score_samples([[np.nan, np.nan]])[0] == pytest.approx(0.0, abs=1e-9)


def test_sampled_rows_have_the_predictive_law(fitted):
    X, labels = fitted.sample(4000, random_state=3)
    assert X.shape == (4000, 2)
    assert_allclose(np.bincount(labels) / 4000, fitted.weights_, atol=0.04)
    for k in range(2):
        assert_allclose(X[labels == k].mean(axis=0), fitted.means_[k], atol=0.12)
    # E over the distribution of its own density, two ways.
    half = fitted.score_samples(X[:2000]), fitted.score_samples(X[2000:])
    error = np.hypot(*[np.std(part) / np.sqrt(2000) for part in half])
    assert abs(half[0].mean() - half[1].mean()) < 4.0 * error


def test_stages_end_at_the_fit(fitted, groups):
    stages = list(fitted.staged_score_samples(groups[0]))
    assert len(stages) == fitted.n_iter_
    assert np.array_equal(stages[-1], fitted.score_samples(groups[0]))
    assert fitted.score(groups[0]) == stages[-1].mean()


# --- the posterior


def test_means_are_those_of_draws(fitted):
    draws = fitted.posterior_.sample(20_000, random_state=0)
    mean = fitted.posterior_.mean()
    for name in ("weights", "means", "precisions"):
        error = draws[name].std(axis=0) / np.sqrt(20_000)
        assert (np.abs(draws[name].mean(axis=0) - mean[name]) < 5.0 * error).all()
    assert np.array_equal(fitted.means_, mean["means"])
    assert_allclose(np.linalg.inv(mean["precisions"]), fitted.covariances_)


def test_the_density_is_that_of_the_draws(fitted):
    """E_q[1 / q] over a bounded set is its volume: here by weights alone."""
    posterior = fitted.posterior_
    draws = posterior.sample(2000, random_state=0)
    family = posterior.mixture.components[0][0]
    parts = [
        posterior.model.log_density(family.natural(params), draws)
        for _, params in posterior.mixture.components
    ]
    expected = logsumexp(np.array(parts).T + np.log(posterior.weights), axis=1)
    assert_allclose(posterior.log_density(draws), expected, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_saved_and_loaded(covariance_type, groups, model, tmp_path):
    fit = model(covariance_type=covariance_type).fit(groups[0])
    path = tmp_path / "posterior.npz"
    fit.posterior_.save(path)
    loaded = ConjugateMixturePosterior.load(path)
    draws = fit.posterior_.sample(10, random_state=0)
    assert np.array_equal(loaded.log_density(draws), fit.posterior_.log_density(draws))
    again = loaded.sample(10, random_state=0)
    assert all(np.array_equal(draws[name], again[name]) for name in draws)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, a=np.ones(3))
    with pytest.raises(ValueError, match="ConjugateMixturePosterior.save"):
        ConjugateMixturePosterior.load(path)


def test_marginals_intervals_and_summary_agree(fitted):
    posterior = fitted.posterior_
    interval = posterior.interval(0.8)
    assert interval["weights"].shape == (2, 2)
    assert interval["means"].shape == (2, 2, 2)
    assert interval["covariances"].shape == (2, 2, 2, 2)
    for name, place in (
        ("weights", (1,)),
        ("means", (0, 1)),
        ("covariances", (1, 0, 0)),
    ):
        marginal = posterior.marginal(f"{name}{list(place)}")
        assert_allclose(marginal.interval(0.8), interval[name][place], rtol=1e-6)
        grid = np.linspace(*marginal.interval(0.999), 800)
        mass = np.trapezoid(marginal.pdf(grid), grid)
        assert_allclose(mass, 0.999, atol=0.02)
    table = posterior.summary()
    assert_allclose(np.asarray(table["mean"])[:2], fitted.weights_, atol=0.01)


@pytest.mark.parametrize("name", ["weights", "weights[2]", "mean[0]", "means[0]", 3])
def test_unknown_marginals_are_refused(name, fitted):
    with pytest.raises(ValueError, match="name must be an entry"):
        fitted.posterior_.marginal(name)


def test_draws_of_a_wrong_shape_are_refused(fitted):
    draws = fitted.posterior_.sample(3, random_state=0)
    with pytest.raises(ValueError, match="means"):
        fitted.posterior_.log_density(draws | {"means": draws["means"][:, :1]})
    with pytest.raises(ValueError, match="precisions"):
        fitted.posterior_.log_density(
            {name: draws[name] for name in ("weights", "means")}
        )
    with pytest.raises(ValueError, match="equally many; got {'weights': 3, 'means': 2"):
        fitted.posterior_.log_density(draws | {"means": draws["means"][:2]})


# --- what the ELBO says


def test_a_better_number_of_clusters_has_the_larger_elbo(model):
    X, _ = two_groups(100, apart=6.0)
    elbo = {k: model(n_components=k).fit(X).elbo_ for k in (1, 2)}
    assert elbo[2] > elbo[1] + 10.0


def test_superfluous_clusters_stay_empty(model):
    X, _ = two_groups(120, apart=6.0)
    fit = model(n_components=6, weight_concentration_prior=1e-2).fit(X)
    assert fit.n_components_effective_ == 2


def test_known_covariances_are_kept(groups, model):
    fit = model(covariance_type="spherical", known_covariances=0.5).fit(groups[0])
    assert_allclose(fit.covariances_, 0.5)
    draws = fit.posterior_.sample(4, random_state=0)
    assert_allclose(draws["precisions"], 2.0)


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_a_temperature_counts_rows_in_part(temperature, groups, model):
    X, _ = groups
    fit = model(n_components=1, temperature=temperature).fit(X)
    n, dim = X.shape
    rows = temperature * n
    rate = (1.0 + temperature * (n - 1)) * np.cov(X.T)
    df = dim + rows - dim + 1
    exact = np.diag(rate) / ((1.0 + rows) * df) * df / (df - 2)
    found = fit.posterior_.sample(20_000, 0)["means"][:, 0].var(axis=0)
    # A variance from 20,000 draws: standard error one per cent, and heavier tails.
    assert_allclose(found, exact, rtol=0.06)
